// Networks on blocks of device memory and on memory of the application's in the C interface.
#include <gtest/gtest.h>

#include <cstring>
#include <utility>

#include "c/handles.h"
#include "networks.h"

#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

namespace tessera::c_test {
namespace {

constexpr int64_t kForever = -1;

// A runtime with one device "card" and a pipeline of the recogniser.
class OnBlocks : public ::testing::Test {
 protected:
  void open(tessera_device_kind kind) {
    const tessera_device_options device = {
        .size = sizeof device, .kind = kind, .name = "card", .threads = 1};
    on_.open(&network_, device);
    ASSERT_EQ(message(tessera_memory_open(on_.runtime, "card", &memory_)), "");
  }
  void TearDown() override { tessera_memory_release(memory_); }
  tessera_device_statistics moved() {
    tessera_statistics* statistics = nullptr;
    EXPECT_EQ(message(tessera_statistics_take(on_.runtime, nullptr, &statistics)), "");
    tessera_device_statistics device = {.size = sizeof device};
    EXPECT_EQ(message(tessera_statistics_device(statistics, 0, &device)), "");
    tessera_statistics_release(statistics);
    device.bytes_in -= device.weight_bytes;
    return device;
  }
  tessera_result* run(const tessera_task_input& input, const tessera_task_output& output) {
    const tessera_network_task task = {sizeof task, &input, 1, &output, 1};
    tessera_job* job = nullptr;
    EXPECT_EQ(message(tessera_submit_network(on_.stream, &task, nullptr, &job)), "");
    tessera_result* result = nullptr;
    EXPECT_EQ(message(tessera_job_wait(job, kForever, &result)), "");
    tessera_job_release(job);
    return result;
  }

  tessera_network network_{recogniser()};
  const Tensor input_ = some_input(network_.network, 3);
  const Tensor expected_ =
      Session::open(network_.network, {.device = DeviceKind::kRef})->run({input_})->outputs[0];
  OnePipeline on_;
  tessera_memory* memory_ = nullptr;
};

TEST_F(OnBlocks, AnUploadedTensorGoesOverOnceAndAnOutputIsKept) {
  open(TESSERA_SIM);
  const tessera_tensor tensor = view(input_);
  tessera_block* picture = nullptr;
  ASSERT_EQ(message(tessera_block_upload(memory_, &tensor, &picture)), "");
  EXPECT_EQ(tessera_block_description(picture).rank, 4U);
  const tessera_task_input input = {.size = sizeof input, .block = picture};
  const tessera_task_output keep = {.size = sizeof keep, .keep = true};
  for (int round = 0; round < 3; ++round) {
    tessera_result* const result = run(input, keep);
    tessera_block* kept = nullptr;
    ASSERT_EQ(message(tessera_result_block(result, 0, &kept)), "");
    ASSERT_NE(kept, nullptr);
    tessera_result_release(result);
    ASSERT_EQ(message(tessera_block_fetch(kept)), "");
    ASSERT_EQ(tessera_block_bytes(kept), expected_.bytes.size());
    EXPECT_EQ(std::memcmp(tessera_block_data(kept), expected_.bytes.data(), expected_.bytes.size()),
              0);
    tessera_block_release(kept);
  }
  EXPECT_EQ(moved().bytes_in, std::ssize(input_.bytes));
  EXPECT_EQ(moved().bytes_out, 3 * std::ssize(expected_.bytes));
  tessera_block_release(picture);
}

TEST_F(OnBlocks, MemoryOfTheApplicationIsUsedInPlaceAndReleasedOnce) {
  for (const tessera_device_kind kind : {TESSERA_HOST, TESSERA_SIM}) {
    open(kind);
    std::vector<std::byte> made(expected_.bytes.size());
    int released = 0;
    const auto release = [](void* count) { ++*static_cast<int*>(count); };
    const tessera_task_input input = {.size = sizeof input,
                                      .tensor = view(input_),
                                      .in_place = true,
                                      .owner = &released,
                                      .release_owner = release};
    tessera_tensor into = view(expected_);
    into.data = made.data();
    const tessera_task_output output = {
        .size = sizeof output, .into = into, .owner = &released, .release_owner = release};
    tessera_result* const result = run(input, output);
    EXPECT_EQ(made, expected_.bytes);
    tessera_block* none = nullptr;
    ASSERT_EQ(message(tessera_result_block(result, 0, &none)), "");
    EXPECT_EQ(none, nullptr);
    tessera_result_release(result);
    tessera_pipeline_wait_until_done(on_.pipeline);
    EXPECT_EQ(released, 2);
    EXPECT_EQ(moved().bytes_copied, 0);
    EXPECT_EQ(moved().bytes_in, kind == TESSERA_SIM ? std::ssize(input_.bytes) : 0);
    // A block of it.
    tessera_block* block = nullptr;
    ASSERT_EQ(message(tessera_block_wrap(memory_, &into, &released, release, &block)), "");
    const tessera_task_input again = {.size = sizeof again, .tensor = view(input_)};
    const tessera_task_output there = {.size = sizeof there, .block = block, .fetch = true};
    std::fill(made.begin(), made.end(), std::byte{0});
    tessera_result_release(run(again, there));
    EXPECT_EQ(made, expected_.bytes);
    tessera_pipeline_wait_until_done(on_.pipeline);
    tessera_block_release(block);
    EXPECT_EQ(released, 3);
    tessera_memory_release(std::exchange(memory_, nullptr));
    on_.release();
  }
}

TEST_F(OnBlocks, WrongTasksAreErrorsAndOwnersAreReleasedAllTheSame) {
  open(TESSERA_HOST);
  int released = 0;
  const auto release = [](void* count) { ++*static_cast<int*>(count); };
  tessera_job* job = nullptr;
  tessera_task_input input = {.size = sizeof input,
                              .tensor = view(input_),
                              .in_place = true,
                              .owner = &released,
                              .release_owner = release};
  input.tensor.bytes = 1;
  const tessera_network_task task = {sizeof task, &input, 1, nullptr, 0};
  EXPECT_EQ(message(tessera_submit_network(on_.stream, &task, nullptr, &job)),
            "input 0 has 1 bytes; its shape needs " + std::to_string(input_.bytes.size()));
  EXPECT_EQ(released, 1);
  EXPECT_EQ(message(tessera_submit_network(on_.stream, nullptr, nullptr, &job)), "task is NULL");
  tessera_block* block = nullptr;
  EXPECT_EQ(message(tessera_block_wrap(memory_, nullptr, &released, release, &block)),
            "tensor is NULL");
  EXPECT_EQ(released, 2);
  const int64_t dims = 4;
  EXPECT_EQ(message(tessera_block_allocate_tensor(memory_, static_cast<tessera_format>(99), 1,
                                                  &dims, &block)),
            "the block has the format 99, which there is not");
  ASSERT_EQ(message(tessera_block_allocate_tensor(memory_, TESSERA_F16, 1, &dims, &block)), "");
  EXPECT_EQ(tessera_block_bytes(block), 8U);
  tessera_block_release(block);
  const tessera_state_binding binding = {.size = sizeof binding, .output = 0, .input = 4};
  EXPECT_EQ(message(tessera_stream_bind_states(on_.stream, memory_, &binding, 1)),
            "a state from output 0 to input 4; the pipeline's models have 1 outputs and 1 inputs");
  EXPECT_EQ(message(tessera_stream_bind_states(on_.stream, memory_, nullptr, 0)), "");
}

}  // namespace
}  // namespace tessera::c_test
