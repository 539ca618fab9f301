// A device that computes other bits than it should: debugging finds it.
#include <gtest/gtest.h>

#include "arch/architecture_file.h"
#include "compile/testing/random_graph.h"
#include "device/make_device.h"
#include "device/testing/forwarding_device.h"
#include "network/network.h"
#include "runtime/pipeline_state.h"
#include "runtime/runtime_state.h"
#include "tessera/runtime.h"

namespace tessera {
namespace {

// The host device behind a link that turns over the lowest bit of the first byte it brings back.
class Corrupting : public device::testing::ForwardingDevice {
 public:
  explicit Corrupting(std::unique_ptr<device::Device> inner) : ForwardingDevice(std::move(inner)) {
    properties_.shared_memory = false;
  }
  Status read(device::Address address, std::span<std::byte> bytes,
              const device::TransferTag& tag) override {
    TESSERA_RETURN_IF_ERROR(inner_->read(address, bytes, tag));
    bytes[0] ^= std::byte{1};
    return {};
  }
};

TEST(RuntimeMismatch, EndsTheTaskAndTellsThatTheArithmeticIsNotToBlame) {
  compile::testing::GraphBuilder builder(3);
  const graph::TensorId x = builder.input({1, 5, 8, 8});
  builder.output(builder.conv(x, {.output_channels = 6, .kernel = 3, .pad = 1}));
  const ChipConfig chip = *load_chip_config("tessera128");
  const Network network = network::network_from_graph(builder.take(), chip, {}).value();
  auto state = runtime::RuntimeState::make(true);
  device::DeviceConfig inner;
  inner.kind = DeviceKind::kHost;
  inner.name = "card";
  state->add(DeviceKind::kHost, chip,
             std::make_unique<Corrupting>(device::make_device(inner).value()));
  const Model model(state->load(network, {}, false).value());
  PipelineOptions options;
  options.stages = default_stages(model);
  options.debug = {.mode = DebugMode::kBoth, .every = 2};
  Pipeline pipeline(runtime::PipelineState::open(state, options).value());
  Stream stream = pipeline.open_stream();
  const Tensor input = Tensor::zeros(network.inputs()[0].format, network.inputs()[0].dims);
  TaskOutcome compared = stream.submit({input})->wait();
  ASSERT_FALSE(compared.ok());
  EXPECT_EQ(compared.error().failure, TaskFailure::kMismatch);
  EXPECT_EQ(compared.error().device, "card");
  EXPECT_EQ(compared.error().stage, "execute");
  EXPECT_EQ(compared.error().error.message,
            "device 'card' and the host gave different bits; run alone, all layers are equal: the "
            "difference is not of the arithmetic");
  EXPECT_TRUE(stream.submit({input})->wait().ok());  // every second task is not compared
  EXPECT_EQ(pipeline.status().compared, 1);
  EXPECT_EQ(pipeline.status().mismatches, 1);
}

}  // namespace
}  // namespace tessera
