#include "networks.h"

#include <gtest/gtest.h>

#include <utility>

#include "arch/architecture_file.h"
#include "compile/testing/random_graph.h"
#include "network/network.h"

namespace tessera::c_test {

using compile::testing::GraphBuilder;

Network detector() {
  GraphBuilder builder(7);
  const graph::TensorId x = builder.input({1, 3, 32, 96});
  graph::TensorId y = builder.conv(x, {.output_channels = 4, .kernel = 3, .pad = 1});
  y = builder.conv(y, {.output_channels = 1, .kernel = 3, .pad = 1});
  builder.output(y);
  return network::network_from_graph(builder.take(), *load_chip_config("tessera128"), {}).value();
}

Network recogniser() {
  GraphBuilder builder(8);
  const graph::TensorId x = builder.input({1, 1, 8, 96});
  graph::TensorId y = builder.conv(x, {.output_channels = 6, .kernel = 3, .stride = 2, .pad = 1});
  y = builder.conv(y, {.output_channels = 7, .kernel = 3, .stride = 2, .pad = 1});
  builder.output(builder.unary(y, UnaryFunction::kTanh));
  return network::network_from_graph(builder.take(), *load_chip_config("tessera128"), {}).value();
}

Tensor some_input(const Network& network, unsigned seed) {
  Tensor tensor = Tensor::zeros(network.inputs()[0].format, network.inputs()[0].dims);
  unsigned state = seed * 2654435761U + 1;
  for (std::uint16_t& bits : tensor.as<std::uint16_t>()) {
    state = state * 1664525U + 1013904223U;
    bits = static_cast<std::uint16_t>((state >> 16 & 0x83FFU) | (((state >> 8) % 5 + 12) << 10));
  }
  return tensor;
}

tessera_tensor view(const Tensor& tensor) {
  return {static_cast<tessera_format>(tensor.format), tensor.dims.size(), tensor.dims.data(),
          tensor.bytes.data(), tensor.bytes.size()};
}

std::string message(tessera_error* error) {
  if (error == nullptr) return "";
  std::string text = tessera_error_message(error);
  tessera_error_release(error);
  return text;
}

void OnePipeline::open(const tessera_network* network, const tessera_device_options& device,
                       bool device_form) {
  tessera_runtime_options options = {};
  options.size = sizeof options;
  options.devices = &device;
  options.device_count = 1;
  const auto load = device_form ? tessera_model_load_in_device_form : tessera_model_load;
  ASSERT_EQ(message(tessera_runtime_open(&options, &runtime)), "");
  ASSERT_EQ(message(load(runtime, network, nullptr, 0, &model)), "");
  ASSERT_EQ(message(tessera_pipeline_open(runtime, model, nullptr, &pipeline)), "");
  ASSERT_EQ(message(tessera_stream_open(pipeline, &stream)), "");
}

void OnePipeline::release() {
  tessera_stream_release(std::exchange(stream, nullptr));
  tessera_pipeline_release(std::exchange(pipeline, nullptr));
  tessera_model_release(std::exchange(model, nullptr));
  tessera_runtime_release(std::exchange(runtime, nullptr));
}

}  // namespace tessera::c_test
