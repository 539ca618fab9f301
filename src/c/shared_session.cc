// Several networks on one core, in the C interface.
#include "c/handles.h"

using namespace tessera::c;  // NOLINT: the C functions stand in no namespace

namespace tessera::c {
namespace {

constexpr std::size_t kNetworksMax = 64;  // queues of a task manager

Result<SharedSession> open_shared(const tessera_shared_network* networks, std::size_t count,
                                  const tessera_shared_options* options) {
  TESSERA_TRY(const auto given, sized_list(networks, count, kNetworksMax, "networks"));
  std::vector<SharedNetwork> list;
  for (const tessera_shared_network& network : given) {
    if (network.network == nullptr) {
      return Error{ErrorCode::kInvalidArgument,
                   "networks[" + std::to_string(list.size()) + "].network is NULL"};
    }
    list.push_back({.network = network.network->network,
                    .priority = network.priority,
                    .arrival_us = network.arrival_us,
                    .share = network.share});
  }
  TESSERA_TRY(const tessera_shared_options how, sized(options));
  SharedSessionOptions as{.timing_only = how.timing_only, .check_hazards = how.check_hazards};
  if (how.traps != nullptr) {
    TESSERA_TRY(as.traps, traps_from_names(how.traps));
  }
  return SharedSession::open(list, as);
}

// Null for an index beyond the last.
const SharedNetworkResult* network_of(const tessera_shared_result* result, std::size_t network) {
  if (result == nullptr || network >= result->result.networks.size()) return nullptr;
  return &result->result.networks[network];
}

}  // namespace
}  // namespace tessera::c

extern "C" {

tessera_error* tessera_shared_session_open(const tessera_shared_network* networks, size_t count,
                                           const tessera_shared_options* options,
                                           tessera_shared_session** session) {
  if (session == nullptr) return is_null("session");
  *session = nullptr;
  return guarded([&] { return hand_over(open_shared(networks, count, options), session); });
}

tessera_error* tessera_shared_session_run(tessera_shared_session* session,
                                          const tessera_run* inputs, size_t count,
                                          tessera_shared_result** result) {
  if (result == nullptr) return is_null("result");
  *result = nullptr;
  if (session == nullptr) return is_null("session");
  return guarded([&]() -> tessera_error* {
    const tessera::Status given = check_array(inputs, count, "inputs");
    if (!given.ok()) return make_error(given);
    std::vector<std::vector<tessera::Tensor>> tensors;
    for (size_t n = 0; n < count; ++n) {
      auto run = tensors_of(inputs[n], "inputs of network " + std::to_string(n));
      if (!run.ok()) return make_error(run.error());
      tensors.push_back(std::move(*run));
    }
    return hand_over(session->session.run(tensors), result);
  });
}

void tessera_shared_session_release(tessera_shared_session* session) { delete session; }

tessera_error* tessera_shared_result_status(const tessera_shared_result* result, size_t network) {
  if (result == nullptr) return is_null("result");
  return guarded([&]() -> tessera_error* {
    const auto* const of = network_of(result, network);
    if (of != nullptr) return make_error(of->status);
    return make_error(tessera::Error{tessera::ErrorCode::kInvalidArgument,
                                     "network " + std::to_string(network) + " of " +
                                         std::to_string(result->result.networks.size())});
  });
}
size_t tessera_shared_result_output_count(const tessera_shared_result* result, size_t network) {
  const auto* const of = network_of(result, network);
  return of == nullptr ? 0 : of->result.outputs.size();
}
tessera_tensor tessera_shared_result_output(const tessera_shared_result* result, size_t network,
                                            size_t index) {
  const auto* const of = network_of(result, network);
  if (of == nullptr) return {};
  return view_of(of->result.outputs, index);
}
int64_t tessera_shared_result_arrival(const tessera_shared_result* result, size_t network) {
  const auto* const of = network_of(result, network);
  return of == nullptr ? 0 : of->arrival;
}
int64_t tessera_shared_result_end(const tessera_shared_result* result, size_t network) {
  const auto* const of = network_of(result, network);
  return of == nullptr ? 0 : of->end;
}
int64_t tessera_shared_result_cycles(const tessera_shared_result* result) {
  return result == nullptr ? 0 : result->result.cycles;
}
int64_t tessera_shared_result_host_cycles(const tessera_shared_result* result, size_t network) {
  const auto* const of = network_of(result, network);
  return of == nullptr ? 0 : of->result.host_cycles;
}
int64_t tessera_shared_result_transfer_cycles(const tessera_shared_result* result, size_t network) {
  const auto* const of = network_of(result, network);
  return of == nullptr ? 0 : of->result.transfer_cycles;
}
void tessera_shared_result_release(tessera_shared_result* result) { delete result; }

}  // extern "C"
