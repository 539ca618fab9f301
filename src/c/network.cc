// Errors and networks of the C interface.
#include <algorithm>
#include <chrono>
#include <map>

#include "c/options.h"

using namespace tessera::c;  // NOLINT: the C functions stand in no namespace

namespace tessera::c {
namespace {

Result<std::map<std::string, Shape>> shapes_of(const tessera_named_shape* shapes,
                                               std::size_t count) {
  TESSERA_RETURN_IF_ERROR(check_array(shapes, count, "shapes"));
  std::map<std::string, Shape> map;
  for (std::size_t i = 0; i < count; ++i) {
    if (shapes[i].name == nullptr) {
      return Error{ErrorCode::kInvalidArgument, "shapes[" + std::to_string(i) + "].name is NULL"};
    }
    const std::string name = shapes[i].name;
    TESSERA_TRY(map[name], shape_of(shapes[i].rank, shapes[i].dims, "shape '" + name + "'"));
  }
  return map;
}

Result<std::map<std::string, Tensor>> constants_of(const tessera_named_tensor* constants,
                                                   std::size_t count) {
  TESSERA_RETURN_IF_ERROR(check_array(constants, count, "constants"));
  std::map<std::string, Tensor> map;
  for (std::size_t i = 0; i < count; ++i) {
    if (constants[i].name == nullptr) {
      return Error{ErrorCode::kInvalidArgument,
                   "constants[" + std::to_string(i) + "].name is NULL"};
    }
    const std::string name = constants[i].name;
    TESSERA_TRY(map[name], tensor_of(constants[i].tensor, "constant '" + name + "'"));
  }
  return map;
}

}  // namespace

Result<LoadOptions> load_options(const tessera_load_options* options) {
  LoadOptions load;
  TESSERA_TRY(const tessera_load_options given, sized(options));
  if (given.arch != nullptr) load.arch = given.arch;
  load.require_full_offload = given.require_full_offload;
  load.folder = text_of(given.folder);
  load.weights_file = text_of(given.weights_file);
  if (given.region_share != 0) load.region_share = given.region_share;
  if (given.deadline_ns < 0) {
    return Error{
        ErrorCode::kInvalidArgument,
        "deadline_ns is " + std::to_string(given.deadline_ns) + ", allowed is 0 (none) and more"};
  }
  if (given.deadline_ns > 0) {
    const auto now = std::chrono::steady_clock::now();
    const std::chrono::nanoseconds most = load.deadline - now;
    load.deadline = now + std::min(std::chrono::nanoseconds(given.deadline_ns), most);
  }
  TESSERA_TRY(load.shapes, shapes_of(given.shapes, given.shape_count));
  TESSERA_TRY(load.constants, constants_of(given.constants, given.constant_count));
  return load;
}

}  // namespace tessera::c

extern "C" {

const char* tessera_version(void) { return tessera::version(); }

tessera_code tessera_error_code(const tessera_error* error) {
  if (error == nullptr) return TESSERA_OK;
  return static_cast<tessera_code>(static_cast<int>(error->error.error.code) + 1);
}
const char* tessera_error_message(const tessera_error* error) {
  return error == nullptr ? "" : error->error.error.message.c_str();
}
tessera_failure tessera_error_failure(const tessera_error* error) {
  if (error == nullptr) return TESSERA_FAILURE_NONE;
  return static_cast<tessera_failure>(error->error.failure);
}
const char* tessera_error_stage(const tessera_error* error) {
  return error == nullptr ? "" : error->error.stage.c_str();
}
const char* tessera_error_device(const tessera_error* error) {
  return error == nullptr ? "" : error->error.device.c_str();
}
const char* tessera_error_layer(const tessera_error* error) {
  return error == nullptr ? "" : error->error.layer.c_str();
}
uint64_t tessera_error_task(const tessera_error* error) {
  return error == nullptr ? 0 : error->error.task;
}
uint64_t tessera_error_sequence(const tessera_error* error) {
  return error == nullptr ? 0 : error->error.sequence;
}
void tessera_error_release(tessera_error* error) {
  if (error != out_of_memory()) delete error;
}

tessera_error* tessera_error_create(tessera_code code, const char* message) {
  return guarded([&] {
    const std::uint32_t number = number_in(code);
    const bool known = number >= TESSERA_INVALID_ARGUMENT && number <= TESSERA_INTERNAL;
    return make_error(tessera::Error{
        known ? static_cast<tessera::ErrorCode>(number - 1) : tessera::ErrorCode::kInternal,
        text_of(message)});
  });
}

size_t tessera_format_bytes(tessera_format format) {
  const std::uint32_t number = number_in(format);
  if (number >= static_cast<std::uint32_t>(tessera::kFormatCount)) return 0;
  return static_cast<size_t>(tessera::format_bytes(static_cast<tessera::Format>(number)));
}

tessera_error* tessera_network_load(const char* path, const tessera_load_options* options,
                                    tessera_network** network) {
  if (network == nullptr) return is_null("network");
  *network = nullptr;
  if (path == nullptr) return is_null("path");
  return guarded([&]() -> tessera_error* {
    const auto load = load_options(options);
    if (!load.ok()) return make_error(load.error());
    return hand_over(tessera::Network::load(path, *load), network);
  });
}

tessera_error* tessera_network_load_memory(const void* data, size_t bytes,
                                           const tessera_load_options* options,
                                           tessera_network** network) {
  if (network == nullptr) return is_null("network");
  *network = nullptr;
  if (data == nullptr) return is_null("data");
  return guarded([&]() -> tessera_error* {
    if (bytes > static_cast<size_t>(PTRDIFF_MAX)) {
      return make_error(tessera::Error{tessera::ErrorCode::kInvalidArgument,
                                       "a network of " + std::to_string(bytes) + " bytes"});
    }
    const auto load = load_options(options);
    if (!load.ok()) return make_error(load.error());
    const auto* const first = static_cast<const std::byte*>(data);
    return hand_over(tessera::Network::load_bytes({first, bytes}, *load), network);
  });
}

size_t tessera_network_input_count(const tessera_network* network) {
  return network == nullptr ? 0 : network->network.inputs().size();
}
size_t tessera_network_output_count(const tessera_network* network) {
  return network == nullptr ? 0 : network->network.outputs().size();
}
tessera_tensor_description tessera_network_input(const tessera_network* network, size_t index) {
  if (network == nullptr) return {};
  return description_of(network->network.inputs(), index);
}
tessera_tensor_description tessera_network_output(const tessera_network* network, size_t index) {
  if (network == nullptr) return {};
  return description_of(network->network.outputs(), index);
}
int64_t tessera_network_nodes_on_processor(const tessera_network* network) {
  return network == nullptr ? 0 : network->network.placement().nodes_on_processor;
}
int64_t tessera_network_nodes_on_host(const tessera_network* network) {
  return network == nullptr ? 0 : network->network.placement().nodes_on_host;
}
tessera_error* tessera_network_save_package(const tessera_network* network, const char* path) {
  if (network == nullptr) return is_null("network");
  if (path == nullptr) return is_null("path");
  return guarded([&] { return make_error(network->network.save_package(path)); });
}
void tessera_network_release(tessera_network* network) { delete network; }

}  // extern "C"
