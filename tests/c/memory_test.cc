// Memory that host and device share, single layers and operations, pictures, and what the C
// interface shows of a runtime.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "c/handles.h"
#include "networks.h"

#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

namespace tessera::c_test {
namespace {

constexpr int64_t kForever = -1;
constexpr size_t kTask = sizeof(tessera_operation_task);

size_t bytes_of(const tessera_tensor_description& tensor) {
  size_t bytes = tessera_format_bytes(tensor.format);
  for (size_t i = 0; i < tensor.rank; ++i) bytes *= static_cast<size_t>(tensor.dims[i]);
  return bytes;
}

tessera_device_statistics device_of(tessera_runtime* runtime) {
  tessera_statistics* statistics = nullptr;
  EXPECT_EQ(message(tessera_statistics_take(runtime, nullptr, &statistics)), "");
  EXPECT_EQ(tessera_statistics_device_count(statistics), 1U);
  EXPECT_EQ(tessera_statistics_stage_count(statistics), 0U);  // no pipeline was asked about
  tessera_device_statistics device = {.size = sizeof device};
  EXPECT_EQ(message(tessera_statistics_device(statistics, 0, &device)), "");
  device.name = device.fault = nullptr;  // they go with what they were asked of
  device.kernel_busy_ns = nullptr;
  tessera_statistics_release(statistics);
  return device;
}

tessera_layer layer_of(const tessera_layers* layers, size_t index) {
  tessera_layer layer = {.size = sizeof layer};
  EXPECT_EQ(message(tessera_layers_layer(layers, index, &layer)), "");
  return layer;
}

// A runtime with one device "card", its memory, and a pipeline for operations.
class OnMemory : public ::testing::Test {
 protected:
  void open(tessera_device_kind kind) {
    const tessera_device_options device = {.size = sizeof device, .kind = kind, .name = "card"};
    const tessera_runtime_options options = {
        .size = sizeof options, .devices = &device, .device_count = 1};
    ASSERT_EQ(message(tessera_runtime_open(&options, &runtime_)), "");
    ASSERT_EQ(message(tessera_memory_open(runtime_, "card", &memory_)), "");
    ASSERT_EQ(message(tessera_operations_open(runtime_, nullptr, &pipeline_)), "");
    ASSERT_EQ(message(tessera_stream_open(pipeline_, &stream_)), "");
  }
  tessera_block* allocate(size_t bytes) {
    tessera_block* block = nullptr;
    EXPECT_EQ(message(tessera_block_allocate(memory_, bytes, &block)), "");
    EXPECT_EQ(tessera_block_bytes(block), bytes);
    blocks_.push_back(block);
    return block;
  }
  void close() {
    tessera_runtime_release(std::exchange(runtime_, nullptr));
    tessera_memory_release(std::exchange(memory_, nullptr));
    for (tessera_block* block : std::exchange(blocks_, {})) tessera_block_release(block);
    tessera_pipeline_release(std::exchange(pipeline_, nullptr));
    tessera_stream_release(std::exchange(stream_, nullptr));
  }
  void TearDown() override { close(); }
  void finish(tessera_job* job) {
    tessera_result* result = nullptr;
    EXPECT_EQ(message(tessera_job_wait(job, kForever, &result)), "");
    ASSERT_NE(result, nullptr);
    EXPECT_EQ(tessera_result_run_count(result), 0U);
    tessera_result_release(result);
    tessera_job_release(job);
  }
  void run(const tessera_operation_task& task) {
    tessera_job* job = nullptr;
    ASSERT_EQ(message(tessera_submit_operation(stream_, &task, nullptr, &job)), "");
    finish(job);
  }

  tessera_runtime* runtime_ = nullptr;
  tessera_memory* memory_ = nullptr;
  tessera_pipeline* pipeline_ = nullptr;
  tessera_stream* stream_ = nullptr;
  std::vector<tessera_block*> blocks_;
};

TEST_F(OnMemory, AChainOfLayersMovesItsFirstInputAndLastOutput) {
  open(TESSERA_SIM);
  EXPECT_STREQ(tessera_memory_device(memory_), "card");
  tessera_network network{recogniser()};
  tessera_layers* layers = nullptr;
  ASSERT_EQ(message(tessera_layers_load(runtime_, &network, memory_, &layers)), "");
  const size_t count = tessera_layers_count(layers);
  ASSERT_EQ(count, 3U);
  tessera_layer none = {.size = sizeof none};
  EXPECT_EQ(message(tessera_layers_layer(layers, 99, &none)), "layer 99 of a network of 3");
  EXPECT_EQ(tessera_layers_input(layers, 0, 9).name, nullptr);
  EXPECT_EQ(layer_of(layers, 0).weight_offset, 0);
  EXPECT_GT(layer_of(layers, 1).weight_bytes, 0);
  const size_t in = bytes_of(tessera_layers_input(layers, 0, 0));
  const size_t out = bytes_of(tessera_layers_output(layers, count - 1, 0));
  std::vector<tessera_block*> chain = {allocate(in)};
  for (size_t i = 0; i < count; ++i) {
    EXPECT_EQ(layer_of(layers, i).input_count, 1U);
    chain.push_back(allocate(bytes_of(tessera_layers_output(layers, i, 0))));
  }
  const tessera_device_statistics before = device_of(runtime_);
  const Tensor input = some_input(network.network, 5);
  ASSERT_EQ(input.bytes.size(), in);
  std::memcpy(tessera_block_data(chain[0]), input.bytes.data(), in);
  ASSERT_EQ(message(tessera_block_wrote(chain[0])), "");
  for (size_t i = 0; i < count; ++i) {
    const tessera_layer_task task = {sizeof task, i, &chain[i], 1, &chain[i + 1], 1};
    tessera_job* job = nullptr;
    ASSERT_EQ(message(tessera_submit_layer(stream_, layers, &task, nullptr, &job)), "");
    finish(job);
  }
  ASSERT_EQ(message(tessera_block_fetch(chain[count])), "");
  const tessera_device_statistics after = device_of(runtime_);
  EXPECT_EQ(after.bytes_in - before.bytes_in, static_cast<int64_t>(in));
  EXPECT_EQ(after.bytes_out - before.bytes_out, static_cast<int64_t>(out));
  Session session = Session::open(network.network, {.device = DeviceKind::kRef}).value();
  const Tensor expected = session.run({input})->outputs[0];
  ASSERT_EQ(expected.bytes.size(), out);
  EXPECT_EQ(std::memcmp(tessera_block_data(chain[count]), expected.bytes.data(), out), 0);
  tessera_layers_release(layers);
}

TEST_F(OnMemory, TheFourOperationsGiveTheSameBitsAsInCpp) {
  const tessera_operation im2col = {.size = sizeof im2col,
                                    .kind = TESSERA_IM2COL,
                                    .image_rows = 9,
                                    .image_columns = 8,
                                    .image_channels = 20,
                                    .window_size = 3,
                                    .window_stride = 2,
                                    .window_pad = 1};
  const tessera_operation product = {.size = sizeof product,
                                     .kind = TESSERA_MATRIX_PRODUCT,
                                     .rows = 20,
                                     .inner = 180,
                                     .columns = 24};
  const tessera_operation relu = {
      .size = sizeof relu, .kind = TESSERA_RELU, .rows = 20, .columns = 24};
  const tessera_operation pool = {.size = sizeof pool,
                                  .kind = TESSERA_MAXIMUM_POOL,
                                  .image_rows = 5,
                                  .image_columns = 4,
                                  .image_channels = 24,
                                  .window_size = 2,
                                  .window_stride = 2};
  std::vector<std::byte> first;
  for (const tessera_device_kind kind : {TESSERA_SIM, TESSERA_HOST}) {
    open(kind);
    tessera_block* const image = allocate(size_t{9} * 8 * 20 * 2);
    tessera_block* const columns = allocate(size_t{20} * 180 * 2);
    tessera_block* const weights = allocate(128 + size_t{180} * 24 * 2);
    tessera_block* const sums = allocate(size_t{20} * 24 * 2);
    tessera_block* const positive = allocate(size_t{20} * 24 * 2);
    tessera_block* const pooled = allocate(size_t{2} * 2 * 24 * 2);
    for (tessera_block* const block : {image, weights}) {
      auto* const bits = static_cast<std::uint16_t*>(tessera_block_data(block));
      for (size_t i = 0; i < tessera_block_bytes(block) / 2; ++i) {
        bits[i] = static_cast<std::uint16_t>(0x3000 + i * 37 % 0x800 + (i % 3 == 0 ? 0x8000 : 0));
      }
      ASSERT_EQ(message(tessera_block_wrote(block)), "");
    }
    run({.size = kTask, .operation = &im2col, .input = image, .output = columns});
    run({.size = kTask,
         .operation = &product,
         .input = columns,
         .output = sums,
         .weights = weights,
         .weight_offset = 128});
    run({.size = kTask, .operation = &relu, .input = sums, .output = positive});
    run({.size = kTask, .operation = &pool, .input = positive, .output = pooled, .fetch = true});
    const auto* const found = static_cast<const std::byte*>(tessera_block_data(pooled));
    const std::vector<std::byte> bytes(found, found + tessera_block_bytes(pooled));
    if (first.empty()) first = bytes;
    EXPECT_EQ(bytes, first);
    close();
  }
  EXPECT_TRUE(std::ranges::any_of(first, [](std::byte b) { return b != std::byte{0}; }));
}

TEST_F(OnMemory, TasksThatAreWrongAreToldWhy) {
  open(TESSERA_HOST);
  tessera_block* block = nullptr;
  EXPECT_EQ(message(tessera_block_allocate(memory_, 0, &block)),
            "a block of 0 bytes; allowed 1 and more");
  EXPECT_NE(message(tessera_block_allocate(memory_, SIZE_MAX, &block)), "");
  EXPECT_EQ(block, nullptr);
  tessera_memory* memory = nullptr;
  EXPECT_EQ(message(tessera_memory_open(runtime_, nullptr, &memory)), "device is NULL");
  tessera_block* const small = allocate(8);
  tessera_job* job = nullptr;
  tessera_operation operation = {.size = sizeof operation,
                                 .kind = static_cast<tessera_operation_kind>(4)};
  tessera_operation_task task = {
      .size = sizeof task, .operation = &operation, .input = small, .output = small};
  EXPECT_EQ(message(tessera_submit_operation(stream_, &task, nullptr, &job)),
            "operation 4 is none of TESSERA_IM2COL, _MATRIX_PRODUCT, _RELU, _MAXIMUM_POOL");
  operation.kind = TESSERA_MATRIX_PRODUCT;
  EXPECT_EQ(message(tessera_submit_operation(stream_, &task, nullptr, &job)),
            "operation 'matrix product': a matrix product has weights, the others have none");
  task.output = nullptr;
  EXPECT_EQ(message(tessera_submit_operation(stream_, &task, nullptr, &job)), "output is NULL");
  tessera_network network{recogniser()};
  tessera_layers* layers = nullptr;
  ASSERT_EQ(message(tessera_layers_load(runtime_, &network, memory_, &layers)), "");
  tessera_layer_task layer = {.size = sizeof layer, .layer = 0, .input_count = 1};
  EXPECT_EQ(message(tessera_submit_layer(stream_, layers, &layer, nullptr, &job)),
            "inputs of the layer is NULL");
  tessera_block* const none = nullptr;
  layer.inputs = &none;
  EXPECT_EQ(message(tessera_submit_layer(stream_, layers, &layer, nullptr, &job)),
            "input 0 of the layer is NULL");
  layer.layer = 77;
  layer.input_count = 0;
  EXPECT_EQ(message(tessera_submit_layer(stream_, layers, &layer, nullptr, &job)),
            "layer 77 of a network of 3");
  EXPECT_EQ(message(tessera_submit(stream_, nullptr, 0, nullptr, &job)),
            "this pipeline runs single layers and operations; open one for a model to run "
            "networks");
  EXPECT_EQ(job, nullptr);
  tessera_layers_release(layers);
}

TEST_F(OnMemory, MoreTasksThanRoomWaitForIt) {
  open(TESSERA_HOST);
  tessera_pipeline* narrow = nullptr;
  tessera_stream* stream = nullptr;
  const tessera_pipeline_options options = {.size = sizeof options, .jobs_max = 1};
  ASSERT_EQ(message(tessera_operations_open(runtime_, &options, &narrow)), "");
  ASSERT_EQ(message(tessera_stream_open(narrow, &stream)), "");
  int calls = 0;
  const tessera_operation relu = {.size = sizeof relu, .kind = TESSERA_RELU, .rows = 4};
  const tessera_operation_task task = {
      .size = sizeof task, .operation = &relu, .input = allocate(8), .output = allocate(8)};
  tessera_submit_options submit = {.size = sizeof submit};
  submit.callback = [](void* context, tessera_result* result, tessera_error* error) {
    EXPECT_EQ(message(error), "");
    ++*static_cast<int*>(context);
    tessera_result_release(result);
  };
  submit.context = &calls;
  for (int i = 0; i < 50; ++i) {
    ASSERT_EQ(message(tessera_submit_operation(stream, &task, &submit, nullptr)), "");
  }
  tessera_stream_wait_until_done(stream);
  EXPECT_EQ(calls, 50);
  tessera_stream_release(stream);
  tessera_pipeline_release(narrow);
}

// The error that the callback of a full pipeline got when it submitted there.
struct Told {
  tessera_stream* stream;
  const tessera_operation_task* task;
  std::string message;
};

TEST_F(OnMemory, ACallbackCannotWaitForRoomInItsOwnPipeline) {
  open(TESSERA_HOST);
  tessera_pipeline* narrow = nullptr;
  const tessera_pipeline_options options = {.size = sizeof options, .jobs_max = 1};
  ASSERT_EQ(message(tessera_operations_open(runtime_, &options, &narrow)), "");
  const tessera_operation relu = {.size = sizeof relu, .kind = TESSERA_RELU, .rows = 4};
  const tessera_operation_task task = {
      .size = sizeof task, .operation = &relu, .input = allocate(8), .output = allocate(8)};
  Told told = {nullptr, &task, ""};
  ASSERT_EQ(message(tessera_stream_open(narrow, &told.stream)), "");
  tessera_submit_options submit = {.size = sizeof submit, .context = &told};
  submit.callback = [](void* context, tessera_result* result, tessera_error*) {
    Told& told = *static_cast<Told*>(context);
    // In flight until this callback is over: its turn comes then.
    tessera_job* job = nullptr;
    EXPECT_EQ(message(tessera_submit_operation(told.stream, told.task, nullptr, &job)), "");
    tessera_job_release(std::exchange(job, nullptr));
    told.message = message(tessera_submit_operation(told.stream, told.task, nullptr, &job));
    EXPECT_EQ(job, nullptr);
    tessera_result_release(result);
  };
  ASSERT_EQ(message(tessera_submit_operation(told.stream, &task, &submit, nullptr)), "");
  tessera_stream_wait_until_done(told.stream);
  EXPECT_NE(told.message.find("a thread of the pipeline cannot wait for room"), std::string::npos)
      << told.message;
  tessera_stream_release(told.stream);
  tessera_pipeline_release(narrow);
}

TEST_F(OnMemory, AChildOfForkGetsErrorsForOperationsToo) {
  open(TESSERA_HOST);
  const tessera_operation relu = {.size = sizeof relu, .kind = TESSERA_RELU, .rows = 4};
  const tessera_operation_task task = {
      .size = sizeof task, .operation = &relu, .input = allocate(8), .output = allocate(8)};
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    tessera_job* job = nullptr;
    EXPECT_EQ(message(tessera_submit_operation(stream_, &task, nullptr, &job)),
              "this process was forked after the pipeline was opened; open it again in the child");
    close();
    _exit(HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// Pictures of one pixel value each.
class Pictures : public ::testing::Test {
 protected:
  void SetUp() override {
    std::vector<uint8_t> rgb(size_t{48} * 64 * 3);
    for (size_t i = 0; i < rgb.size(); ++i) rgb[i] = static_cast<uint8_t>(i * 31 % 251);
    ASSERT_EQ(message(tessera_picture_create(64, 48, rgb.data(), &picture_)), "");
    EXPECT_EQ(std::memcmp(tessera_picture_rgb(picture_), rgb.data(), rgb.size()), 0);
    ASSERT_EQ(message(tessera_picture_write_png(picture_, path_.c_str())), "");
  }
  void TearDown() override {
    tessera_picture_release(picture_);
    std::filesystem::remove(path_);
  }
  const std::string path_ = ::testing::TempDir() + "c_pictures_test.png";
  tessera_network network_{detector()};
  tessera_picture* picture_ = nullptr;
};

TEST_F(Pictures, AreReadResizedAndPutIntoATensorAsInCpp) {
  tessera_picture *read = nullptr, *smaller = nullptr;
  ASSERT_EQ(message(tessera_picture_read(path_.c_str(), &read)), "");
  EXPECT_EQ(tessera_picture_width(read), 64);
  EXPECT_EQ(tessera_picture_height(read), 48);
  EXPECT_EQ(read->picture.rgb, picture_->picture.rgb);
  ASSERT_EQ(message(tessera_picture_resize(read, 10, 20, &smaller)), "");
  EXPECT_EQ(smaller->picture.rgb, resize(picture_->picture, 10, 20).rgb);
  const tessera_picture_input how = {
      .size = sizeof how, .mean = {10, 20, 30}, .deviation = {0, 50, 0}, .bgr = true};
  const PictureInput same = {{10, 20, 30}, {255, 50, 255}, true};
  const Tensor expected =
      picture_tensor(picture_->picture, network_.network.inputs()[0], same).value();
  std::vector<std::byte> data(expected.bytes.size());
  ASSERT_EQ(message(tessera_picture_fill(read, &network_, 0, &how, data.data(), data.size())), "");
  EXPECT_EQ(data, expected.bytes);
  EXPECT_EQ(message(tessera_picture_fill(read, &network_, 0, nullptr, data.data(), 4)),
            "room for 4 bytes; input '" + network_.network.inputs()[0].name + "' has " +
                std::to_string(data.size()));
  EXPECT_EQ(message(tessera_picture_fill(read, &network_, 1, nullptr, data.data(), 4)),
            "input 1 of a network with 1");
  tessera_picture_release(smaller);
  tessera_picture_release(read);
  EXPECT_EQ(message(tessera_picture_create(0, 5, nullptr, &read)),
            "a picture of 0x5; allowed 1x1 to 100 million pixels");
  EXPECT_NE(message(tessera_picture_read("/nowhere.png", &read)).find("/nowhere.png"),
            std::string::npos);
}

TEST_F(Pictures, AreDecodedByAStageInFront) {
  tessera_runtime* runtime = nullptr;
  tessera_model* model = nullptr;
  tessera_pipeline* pipeline = nullptr;
  tessera_stream* stream = nullptr;
  ASSERT_EQ(message(tessera_runtime_open(nullptr, &runtime)), "");
  ASSERT_EQ(message(tessera_model_load(runtime, &network_, nullptr, 0, &model)), "");
  const tessera_picture_input how = {.size = sizeof how, .mean = {100, 100, 100}};
  const tessera_stage_options stages[] = {
      {.size = sizeof stages[0], .kind = TESSERA_STAGE_PICTURE, .model = model, .picture = &how},
      {.size = sizeof stages[0], .kind = TESSERA_STAGE_PRE, .model = model},
      {.size = sizeof stages[0], .kind = TESSERA_STAGE_EXECUTE, .model = model},
      {.size = sizeof stages[0], .kind = TESSERA_STAGE_POST, .model = model}};
  const tessera_pipeline_options options = {
      .size = sizeof options, .stages = stages, .stage_count = 4};
  ASSERT_EQ(message(tessera_pipeline_open(runtime, nullptr, &options, &pipeline)), "");
  ASSERT_EQ(message(tessera_stream_open(pipeline, &stream)), "");
  tessera_submit_options submit = {.size = sizeof submit};
  submit.payload = const_cast<char*>(path_.c_str());
  tessera_job *job = nullptr, *bare = nullptr;
  tessera_result* result = nullptr;
  ASSERT_EQ(message(tessera_submit(stream, nullptr, 0, &submit, &job)), "");
  ASSERT_EQ(message(tessera_submit(stream, nullptr, 0, nullptr, &bare)), "");
  ASSERT_EQ(message(tessera_job_wait(job, kForever, &result)), "");
  Session session = Session::open(network_.network, {.device = DeviceKind::kRef}).value();
  const PictureInput same = {{100, 100, 100}, {255, 255, 255}, false};
  const Tensor input =
      picture_tensor(picture_->picture, network_.network.inputs()[0], same).value();
  const Tensor expected = session.run({input})->outputs[0];
  const tessera_tensor found = tessera_result_output(result, 0);
  ASSERT_EQ(found.bytes, expected.bytes.size());
  EXPECT_EQ(std::memcmp(found.data, expected.bytes.data(), found.bytes), 0);
  EXPECT_EQ(tessera_result_payload(result), path_.c_str());
  tessera_result_release(result);
  tessera_error* const error = tessera_job_wait(bare, kForever, &result);
  ASSERT_NE(error, nullptr);
  EXPECT_STREQ(tessera_error_stage(error), "decode");
  EXPECT_EQ(message(error), "a picture's task has its path as payload, text that ends with a zero");
  tessera_job_release(job);
  tessera_job_release(bare);
  tessera_stream_release(stream);
  tessera_pipeline_release(pipeline);
  tessera_model_release(model);
  tessera_runtime_release(runtime);
}

TEST(Seeing, FiguresEventsAndTheLivePage) {
  tessera_network network{recogniser()};
  OnePipeline on;
  on.open(&network, {.size = sizeof(tessera_device_options), .kind = TESSERA_SIM, .name = "card"});
  const tessera_live_view_options options = {
      .size = sizeof options, .title = "C", .pipelines = &on.pipeline, .pipeline_count = 1};
  tessera_live_view* page = nullptr;
  ASSERT_EQ(message(tessera_live_view_open(on.runtime, &options, &page)), "");
  EXPECT_EQ(std::string(tessera_live_view_url(page)).find("http://127.0.0.1:"), 0U);
  const tessera_live_view_options wrong = {.size = sizeof wrong, .listen = "nowhere:x"};
  tessera_live_view* none = nullptr;
  EXPECT_NE(message(tessera_live_view_open(on.runtime, &wrong, &none)), "");
  EXPECT_EQ(none, nullptr);
  const Tensor input = some_input(network.network, 1);
  const tessera_tensor tensor = view(input);
  tessera_job* job = nullptr;
  ASSERT_EQ(message(tessera_submit(on.stream, &tensor, 1, nullptr, &job)), "");
  tessera_stream_wait_until_done(on.stream);
  tessera_text* text = nullptr;
  ASSERT_EQ(message(tessera_runtime_prometheus(on.runtime, &text)), "");
  EXPECT_NE(std::string(tessera_text_value(text)).find("card"), std::string::npos);
  tessera_text_release(text);
  const std::string path = ::testing::TempDir() + "c_memory_test.jsonl";
  ASSERT_EQ(message(tessera_runtime_write_events(on.runtime, path.c_str())), "");
  std::ifstream in(path);
  std::string line;
  ASSERT_TRUE(std::getline(in, line));
  EXPECT_EQ(line.front(), '{');
  std::filesystem::remove(path);
  // The page keeps its pipeline.
  tessera_job_release(job);
  on.release();
  tessera_live_view_release(page);
}

// Matrices in blocks of 32 x 64 at the processor's edge: the stages pre and post see to it.
TEST(BlockLayout, IsTheArchitecturesAndNotTheApplications) {
  const std::string arch = ::testing::TempDir() + "c_memory_blocks.toml";
  std::ofstream(arch) << "[dram]\nedge_block_rows = 32\nedge_block_columns = 64\n";
  const std::string path = "/usr/share/libonnx-testdata/data/node/test_relu/model.onnx";
  const tessera_load_options load = {.size = sizeof load, .arch = arch.c_str()};
  tessera_network* network = nullptr;
  ASSERT_EQ(message(tessera_network_load(path.c_str(), &load, &network)), "");
  EXPECT_EQ(tessera_network_input(network, 0).rank, 3U);
  std::vector<float> values(60);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) / 4 - 7;
  const int64_t dims[] = {3, 4, 5};
  const tessera_tensor tensor = {TESSERA_F32, 3, dims, values.data(), 240};
  OnePipeline on;
  on.open(network,
          {.size = sizeof(tessera_device_options), .kind = TESSERA_SIM, .arch = arch.c_str()});
  const int64_t before = device_of(on.runtime).bytes_in;
  tessera_job* job = nullptr;
  tessera_result* result = nullptr;
  ASSERT_EQ(message(tessera_submit(on.stream, &tensor, 1, nullptr, &job)), "");
  ASSERT_EQ(message(tessera_job_wait(job, kForever, &result)), "");
  const tessera_tensor output = tessera_result_output(result, 0);
  ASSERT_EQ(output.bytes, 240U);
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(static_cast<const float*>(output.data)[i], std::max(values[i], 0.0F));
  }
  EXPECT_EQ(device_of(on.runtime).bytes_in - before, 32 * 64 * 4);
  tessera_result_release(result);
  tessera_job_release(job);
  // What is kept lies in blocks.
  const tessera_task_input input = {.size = sizeof input, .tensor = tensor};
  const tessera_task_output kept = {.size = sizeof kept, .keep = true};
  const tessera_network_task task = {
      .size = sizeof task, .inputs = &input, .input_count = 1, .outputs = &kept, .output_count = 1};
  tessera_block* block = nullptr;
  ASSERT_EQ(message(tessera_submit_network(on.stream, &task, nullptr, &job)), "");
  ASSERT_EQ(message(tessera_job_wait(job, kForever, &result)), "");
  ASSERT_EQ(message(tessera_result_block(result, 0, &block)), "");
  const tessera_tensor_description blocks = tessera_block_description(block);
  ASSERT_EQ(blocks.rank, 4U);
  EXPECT_EQ(blocks.dims[2], 32);
  EXPECT_EQ(blocks.dims[3], 64);
  tessera_block_release(block);
  tessera_result_release(result);
  tessera_job_release(job);
  on.release();
  tessera_network_release(network);
  std::filesystem::remove(arch);
}

TEST(DeviceForm, GivesTheSameBitsWithFewerBytesOverTheLink) {
  const std::string path = "/usr/share/libonnx-testdata/data/node/test_relu/model.onnx";
  tessera_network* network = nullptr;
  ASSERT_EQ(message(tessera_network_load(path.c_str(), nullptr, &network)), "");
  std::vector<float> values(60);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) / 4 - 7;
  const int64_t dims[] = {3, 4, 5};
  const tessera_tensor tensor = {TESSERA_F32, 3, dims, values.data(), 240};
  std::vector<float> outputs[2];
  int64_t moved[2];
  for (const bool device_form : {false, true}) {
    OnePipeline on;
    on.open(network, {.size = sizeof(tessera_device_options), .kind = TESSERA_SIM}, device_form);
    const int64_t before = device_of(on.runtime).bytes_in;
    tessera_job* job = nullptr;
    tessera_result* result = nullptr;
    ASSERT_EQ(message(tessera_submit(on.stream, &tensor, 1, nullptr, &job)), "");
    ASSERT_EQ(message(tessera_job_wait(job, kForever, &result)), "");
    const auto* const found = static_cast<const float*>(tessera_result_output(result, 0).data);
    outputs[device_form].assign(found, found + 60);
    moved[device_form] = device_of(on.runtime).bytes_in - before;
    tessera_result_release(result);
    tessera_job_release(job);
  }
  EXPECT_EQ(outputs[0], outputs[1]);
  EXPECT_EQ(moved[0], 240);
  EXPECT_EQ(moved[1], 120);
  tessera_network_release(network);
}

}  // namespace
}  // namespace tessera::c_test
