// One model for many shapes, in the C interface.
#include "c/options.h"

using namespace tessera::c;  // NOLINT: the C functions stand in no namespace

namespace tessera::c {
namespace {

Error no_name(const char* what, std::size_t index) {
  return {ErrorCode::kInvalidArgument,
          std::string(what) + "[" + std::to_string(index) + "].name is NULL"};
}

Status add_ranges(const tessera_named_ranges* ranges, std::size_t count, DynamicOptions& options) {
  TESSERA_RETURN_IF_ERROR(check_array(ranges, count, "ranges"));
  for (std::size_t i = 0; i < count; ++i) {
    if (ranges[i].name == nullptr) return no_name("ranges", i);
    const std::string what = "ranges of '" + std::string(ranges[i].name) + "'";
    TESSERA_RETURN_IF_ERROR(check_array(ranges[i].least, ranges[i].rank, what));
    TESSERA_RETURN_IF_ERROR(check_array(ranges[i].most, ranges[i].rank, what));
    std::vector<DimensionRange>& of = options.ranges[ranges[i].name];
    for (std::size_t axis = 0; axis < ranges[i].rank; ++axis) {
      const std::int64_t most = ranges[i].most[axis];
      of.push_back({ranges[i].least[axis], most == 0 ? INT64_MAX : most});
    }
  }
  return {};
}

Status add_buckets(const tessera_named_buckets* buckets, std::size_t count,
                   DynamicOptions& options) {
  TESSERA_RETURN_IF_ERROR(check_array(buckets, count, "buckets"));
  for (std::size_t i = 0; i < count; ++i) {
    const tessera_named_buckets& given = buckets[i];
    if (given.name == nullptr) return no_name("buckets", i);
    const std::string what = "buckets of '" + std::string(given.name) + "'";
    TESSERA_RETURN_IF_ERROR(check_array(given.sizes, given.count, what));
    TESSERA_RETURN_IF_ERROR(check_count(given.dimension, kRankMax, what + ", its dimension"));
    auto& of = options.buckets[given.name];
    of.resize(std::max(of.size(), given.dimension + 1));
    of[given.dimension].assign(given.sizes, given.sizes + given.count);
  }
  return {};
}

}  // namespace

Result<DynamicOptions> dynamic_of(const tessera_dynamic_options* options) {
  TESSERA_TRY(const tessera_dynamic_options given, sized(options));
  DynamicOptions how;
  TESSERA_TRY(how.load, load_options(given.load));
  TESSERA_RETURN_IF_ERROR(add_ranges(given.ranges, given.range_count, how));
  TESSERA_RETURN_IF_ERROR(add_buckets(given.buckets, given.bucket_count, how));
  if (given.networks_max != 0) how.networks_max = given.networks_max;
  how.cache_folder = text_of(given.cache_folder);
  if (given.cache_bytes_max != 0) how.cache_bytes_max = given.cache_bytes_max;
  return how;
}

namespace {

Result<tessera_dynamic_session> open_dynamic(const char* path,
                                             const tessera_dynamic_options* options) {
  TESSERA_TRY(const tessera_dynamic_options given, sized(options));
  TESSERA_TRY(const DynamicOptions how, dynamic_of(options));
  SessionOptions session;
  TESSERA_TRY(session.device, kind_of(number_in(given.device)));
  session.threads = given.threads;
  if (given.cores != 0) session.cores = given.cores;
  TESSERA_TRY(DynamicNetwork network, DynamicNetwork::open(path, how));
  const std::int64_t sessions_max = given.sessions_max != 0 ? given.sessions_max : 4;
  TESSERA_TRY(DynamicSession opened, DynamicSession::open(network, session, sessions_max));
  return tessera_dynamic_session{std::move(network), std::move(opened)};
}

Result<tessera_dynamic_result> run_dynamic(tessera_dynamic_session& session,
                                           const tessera_run& inputs) {
  TESSERA_TRY(const std::vector<Tensor> tensors, tensors_of(inputs, "inputs"));
  TESSERA_TRY(RunResult result, session.session.run(tensors));
  return tessera_dynamic_result{std::move(result), session.session.output_names()};
}

}  // namespace
}  // namespace tessera::c

extern "C" {

tessera_error* tessera_dynamic_session_open(const char* path,
                                            const tessera_dynamic_options* options,
                                            tessera_dynamic_session** session) {
  if (session == nullptr) return is_null("session");
  *session = nullptr;
  if (path == nullptr) return is_null("path");
  return guarded([&] { return hand_over(open_dynamic(path, options), session); });
}

size_t tessera_dynamic_session_input_count(const tessera_dynamic_session* session) {
  return session == nullptr ? 0 : session->network.inputs().size();
}
tessera_tensor_description tessera_dynamic_session_input(const tessera_dynamic_session* session,
                                                         size_t index) {
  if (index >= tessera_dynamic_session_input_count(session)) return {};
  const tessera::DeclaredShape& input = session->network.inputs()[index];
  return {input.name.c_str(), static_cast<tessera_format>(input.format), input.dims.size(),
          input.dims.data()};
}
tessera_dynamic_counters tessera_dynamic_session_counters(const tessera_dynamic_session* session) {
  if (session == nullptr) return {};
  const tessera::DynamicCounters counters = session->network.counters();
  return {counters.kept, counters.loaded, counters.compiled};
}

tessera_error* tessera_dynamic_session_run(tessera_dynamic_session* session,
                                           const tessera_run* inputs,
                                           tessera_dynamic_result** result) {
  if (result == nullptr) return is_null("result");
  *result = nullptr;
  if (session == nullptr) return is_null("session");
  if (inputs == nullptr) return is_null("inputs");
  return guarded([&] { return hand_over(run_dynamic(*session, *inputs), result); });
}

void tessera_dynamic_session_release(tessera_dynamic_session* session) { delete session; }

size_t tessera_dynamic_result_output_count(const tessera_dynamic_result* result) {
  return result == nullptr ? 0 : result->result.outputs.size();
}
tessera_tensor tessera_dynamic_result_output(const tessera_dynamic_result* result, size_t index) {
  if (result == nullptr) return {};
  return view_of(result->result.outputs, index);
}
const char* tessera_dynamic_result_output_name(const tessera_dynamic_result* result, size_t index) {
  if (result == nullptr || index >= result->names.size()) return nullptr;
  return result->names[index].c_str();
}
int64_t tessera_dynamic_result_cycles(const tessera_dynamic_result* result) {
  return result == nullptr ? 0 : result->result.cycles;
}
int64_t tessera_dynamic_result_host_cycles(const tessera_dynamic_result* result) {
  return result == nullptr ? 0 : result->result.host_cycles;
}
int64_t tessera_dynamic_result_transfer_cycles(const tessera_dynamic_result* result) {
  return result == nullptr ? 0 : result->result.transfer_cycles;
}
void tessera_dynamic_result_release(tessera_dynamic_result* result) { delete result; }

}  // extern "C"
