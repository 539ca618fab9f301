// Exceptions of values in C: of networks that share a core, and of a runtime's device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "networks.h"

#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

namespace tessera::c_test {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kForever = -1;
constexpr const char* kRelu = "/usr/share/libonnx-testdata/data/node/test_relu/model.onnx";

struct Loaded {
  explicit Loaded(double share) {
    const tessera_load_options options = {.size = sizeof options, .region_share = share};
    EXPECT_EQ(message(tessera_network_load(kRelu, &options, &network)), "");
  }
  ~Loaded() { tessera_network_release(network); }
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;
  tessera_network* network = nullptr;
};

// The model's input, 1 everywhere but for one element.
Tensor ones_and(float other) {
  const Network network = Network::load(kRelu).value();
  Tensor tensor = Tensor::zeros(Format::kF32, network.inputs()[0].dims);
  for (float& value : tensor.as<float>()) value = 1;
  tensor.as<float>()[7] = other;
  return tensor;
}

TEST(Traps, StopTheNetworkOfASharedSessionThatMeetsThem) {
  const Loaded loaded(0.5);
  const tessera_shared_network one = {.size = sizeof one, .network = loaded.network, .share = 0.5};
  const tessera_shared_network networks[] = {one, one};
  tessera_shared_options options = {.size = sizeof options, .traps = "nan"};
  tessera_shared_session* session = nullptr;
  ASSERT_EQ(message(tessera_shared_session_open(networks, 2, &options, &session)), "");
  const Tensor good = ones_and(2), bad = ones_and(NAN);
  const tessera_tensor tensors[] = {view(good), view(bad)};
  const tessera_run inputs[] = {{&tensors[0], 1}, {&tensors[1], 1}};
  tessera_shared_result* result = nullptr;
  ASSERT_EQ(message(tessera_shared_session_run(session, inputs, 2, &result)), "");
  EXPECT_EQ(message(tessera_shared_result_status(result, 0)), "");
  EXPECT_THAT(message(tessera_shared_result_status(result, 1)), HasSubstr("trap nan: a NaN in "));
  tessera_shared_result_release(result);
  tessera_shared_session_release(session);
  options.traps = "heat";
  EXPECT_THAT(message(tessera_shared_session_open(networks, 2, &options, &session)),
              HasSubstr("trap 'heat' is not known"));
}

TEST(Traps, EndATaskOfADeviceAndNoOther) {
  const Loaded loaded(0);
  const tessera_device_options device = {
      .size = sizeof device, .kind = TESSERA_SIM, .traps = "nan"};
  OnePipeline one;
  one.open(loaded.network, device);
  const auto outcome = [&](float value) {
    const Tensor tensor = ones_and(value);
    const tessera_tensor input = view(tensor);
    tessera_job* job = nullptr;
    tessera_result* result = nullptr;
    EXPECT_EQ(message(tessera_submit(one.stream, &input, 1, nullptr, &job)), "");
    const std::string text = message(tessera_job_wait(job, kForever, &result));
    tessera_result_release(result);
    tessera_job_release(job);
    return text;
  };
  EXPECT_EQ(outcome(2), "");
  EXPECT_THAT(outcome(NAN), HasSubstr("trap nan: a NaN in "));
  EXPECT_EQ(outcome(3), "");
}

TEST(Traps, ADeviceThatSimulatesNoValuesRefusesThem) {
  const auto refused = [](const tessera_device_options& device) {
    tessera_runtime_options options = {.size = sizeof options};
    options.devices = &device;
    options.device_count = 1;
    tessera_runtime* runtime = nullptr;
    return message(tessera_runtime_open(&options, &runtime));
  };
  const std::string reason =
      "': traps are of the device sim where it computes the values: not with timing-only, nor at "
      "a pace, where the host computes them";
  EXPECT_EQ(refused({.size = sizeof(tessera_device_options), .kind = TESSERA_HOST, .traps = "nan"}),
            "device 'host0" + reason);
  EXPECT_EQ(refused({.size = sizeof(tessera_device_options),
                     .kind = TESSERA_SIM,
                     .timing_only = true,
                     .traps = "nan"}),
            "device 'sim0" + reason);
  EXPECT_EQ(refused({.size = sizeof(tessera_device_options),
                     .kind = TESSERA_SIM,
                     .pace = 1,
                     .traps = "overflow"}),
            "device 'sim0" + reason);
}

}  // namespace
}  // namespace tessera::c_test
