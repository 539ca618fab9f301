// Bytes choose calls of the C interface and their arguments: handles of any age, NULL in places,
// counts and sizes of any value. Every call ends, with an error or without, whatever came before.
//
// Two rules of the interface are kept, since no library can check them: a pointer that is not NULL
// points at as many entries or bytes as is said, and a handle is not used once it was released.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "arch/architecture_file.h"
#include "base/check.h"
#include "choices.h"
#include "compile/testing/random_graph.h"
#include "network/network.h"
#include "tessera/tessera_c.h"

namespace {

using namespace tessera;  // a fuzz target
using fuzz::Choices;

constexpr std::int64_t kPatienceNs = 1'000'000'000;
constexpr std::size_t kCallsMax = 48;

// Handles of one kind that have not been released.
template <typename Handle>
using Handles = std::vector<Handle*>;

struct State {
  Choices choices;
  Handles<tessera_network> networks;
  Handles<tessera_runtime> runtimes;
  Handles<tessera_model> models;
  Handles<tessera_pipeline> pipelines;
  Handles<tessera_stream> streams;
  Handles<tessera_job> jobs;
  Handles<tessera_result> results;
  Handles<tessera_memory> memories;
  Handles<tessera_block> blocks;
  Handles<tessera_layers> layers;
  Handles<tessera_picture> pictures;
};

// A folder of this process with a package: x [1, 2, 4, 4] -> Conv -> y [1, 3, 4, 4], f16.
class Folder {
 public:
  Folder()
      : path_(std::filesystem::temp_directory_path() / ("c_fuzz_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(path_);
    compile::testing::GraphBuilder builder(5);
    const graph::TensorId x = builder.input({1, 2, 4, 4});
    builder.output(builder.conv(x, {.output_channels = 3, .kernel = 3, .pad = 1}));
    const auto network =
        network::network_from_graph(builder.take(), *load_chip_config("tessera128"), {});
    TESSERA_CHECK(network.ok() && network->save_package(file("net.tpkg")).ok(), "no package");
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string file(const char* name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

const Folder& folder() {
  static const Folder made;
  return made;
}

// The error is whole, and belongs to us.
void take(tessera_error* error) {
  if (error == nullptr) return;
  TESSERA_CHECK(tessera_error_code(error) != TESSERA_INTERNAL, "{}", tessera_error_message(error));
  TESSERA_CHECK(std::strlen(tessera_error_message(error)) > 0, "an error without words");
  (void)tessera_error_stage(error);
  tessera_error_release(error);
}

template <typename Handle>
Handle* some(State& state, const Handles<Handle>& handles) {
  if (handles.empty() || state.choices.one_in(24)) return nullptr;
  return handles[static_cast<std::size_t>(state.choices.byte()) % handles.size()];
}

// What a call that makes a handle has done. The handle is looked at after the call, which is an
// argument, too: compilers differ in which of them they take first.
template <typename Handle>
void made(tessera_error* error, Handle* const& handle, Handles<Handle>& handles) {
  TESSERA_CHECK(error == nullptr || handle == nullptr, "both an error and a handle");
  if (handle != nullptr) handles.push_back(handle);
  take(error);
}

template <typename Handle>
void give_back(State& state, Handles<Handle>& handles, void (*release)(Handle*)) {
  if (handles.empty()) return release(nullptr);
  const std::size_t at = static_cast<std::size_t>(state.choices.byte()) % handles.size();
  release(handles[at]);
  handles.erase(handles.begin() + static_cast<std::ptrdiff_t>(at));
}

std::size_t size_of_structure(State& state, std::size_t right) {
  return state.choices.one_in(24) ? state.choices.byte() % right : right;
}

// A tensor that is most often the network's input.
struct SomeTensor {
  std::vector<std::int64_t> dims = {1, 2, 4, 4};
  std::vector<std::byte> bytes = std::vector<std::byte>(64);
  tessera_tensor view = {};
};

void fill(State& state, SomeTensor& tensor) {
  Choices& choices = state.choices;
  tensor.view = {TESSERA_F16, 4, tensor.dims.data(), tensor.bytes.data(), tensor.bytes.size()};
  if (!choices.one_in(6)) return;
  const std::uint32_t format = choices.byte();
  std::memcpy(&tensor.view.format, &format, sizeof(tensor.view.format));
  tensor.dims[choices.byte() % 4U] = choices.integer();
  tensor.view.rank = static_cast<std::size_t>(choices.below(5));
  if (choices.one_in(4)) tensor.view.dims = nullptr;
  if (choices.one_in(4)) tensor.view.data = nullptr;
  if (choices.one_in(4)) tensor.view.bytes = choices.byte();
}

void load_network(State& state) {
  tessera_load_options options = {};
  options.size = size_of_structure(state, sizeof options);
  const std::string arch = state.choices.one_in(4) ? state.choices.text(8) : "tessera128";
  options.arch = arch.c_str();
  options.require_full_offload = state.choices.one_in(2);
  const std::string path = folder().file(state.choices.one_in(8) ? "absent" : "net.tpkg");
  tessera_network* network = nullptr;
  made(tessera_network_load(state.choices.one_in(16) ? nullptr : path.c_str(), &options, &network),
       network, state.networks);
}

// Bytes of the fuzzer's, as a firmware text or as they are.
void load_from_memory(State& state) {
  tessera_load_options options = {};
  options.size = size_of_structure(state, sizeof options);
  options.folder = state.choices.one_in(2) ? "/nowhere" : nullptr;
  std::string bytes = state.choices.one_in(2) ? "firmware 1\narch \"brainwave\"\n" : "";
  bytes += state.choices.text(200);
  const char* const data = state.choices.one_in(16) ? nullptr : bytes.data();
  tessera_network* network = nullptr;
  made(tessera_network_load_memory(data, bytes.size(), &options, &network), network,
       state.networks);
}

void describe_network(State& state) {
  const tessera_network* network = some(state, state.networks);
  const std::size_t index = state.choices.byte();
  (void)tessera_network_input(network, index);
  (void)tessera_network_output(network, index);
  (void)tessera_network_input_count(network);
  (void)tessera_network_nodes_on_host(network);
}

void open_runtime(State& state) {
  tessera_device_options devices[2] = {};
  for (tessera_device_options& device : devices) {
    device.size = size_of_structure(state, sizeof device);
    const std::uint32_t kind = static_cast<std::uint32_t>(state.choices.below(5));
    std::memcpy(&device.kind, &kind, sizeof(device.kind));
    device.kernels = static_cast<int>(state.choices.below(4)) - 1;
    device.threads = state.choices.one_in(8) ? -1 : 1;
    device.timing_only = state.choices.one_in(8);
  }
  tessera_runtime_options options = {};
  options.size = size_of_structure(state, sizeof options);
  options.devices = state.choices.one_in(8) ? nullptr : devices;
  options.device_count = static_cast<std::size_t>(state.choices.below(3));
  tessera_runtime* runtime = nullptr;
  made(tessera_runtime_open(&options, &runtime), runtime, state.runtimes);
}

void ask_runtime(State& state) {
  const tessera_runtime* runtime = some(state, state.runtimes);
  tessera_text* text = nullptr;
  take(tessera_runtime_prometheus(runtime, &text));
  (void)tessera_text_value(text);
  tessera_text_release(text);
  tessera_statistics* statistics = nullptr;
  take(tessera_statistics_take(runtime, some(state, state.pipelines), &statistics));
  tessera_device_statistics device = {};
  device.size = size_of_structure(state, sizeof device);
  take(tessera_statistics_device(statistics, state.choices.byte(), &device));
  tessera_task_statistics tasks = {};
  tasks.size = size_of_structure(state, sizeof tasks);
  take(tessera_statistics_tasks(statistics, &tasks));
  tessera_statistics_release(statistics);
}

void load_model(State& state) {
  const char* const names[] = {"host0", "sim1", "no such device", nullptr};
  tessera_model* model = nullptr;
  const auto load =
      state.choices.one_in(4) ? tessera_model_load_in_device_form : tessera_model_load;
  const auto count = static_cast<std::size_t>(state.choices.below(4));
  made(load(some(state, state.runtimes), some(state, state.networks),
            state.choices.one_in(8) ? nullptr : names + state.choices.below(3),
            count > 1 ? 0 : count, &model),
       model, state.models);
}

char kContexts[256];  // what a stage does is which of them it is given

tessera_error* some_stage(void* context, tessera_task* task) {
  const auto what = static_cast<std::size_t>(static_cast<char*>(context) - kContexts);
  const tessera_tensor tensor = tessera_task_tensor(task, 0, what);
  const tessera_run run = {&tensor, what % 3};
  if (what % 5 == 1) return tessera_error_create(TESSERA_UNAVAILABLE, what % 2 ? "no" : nullptr);
  return what % 3 < 2 ? tessera_task_set_runs(task, &run, what % 3) : nullptr;
}

void open_pipeline(State& state) {
  const tessera_model* model = some(state, state.models);
  tessera_stage_options stages[4] = {};
  static constexpr tessera_stage_kind kUsual[] = {TESSERA_STAGE_HOST, TESSERA_STAGE_PRE,
                                                  TESSERA_STAGE_EXECUTE, TESSERA_STAGE_POST};
  for (std::size_t i = 0; i < std::size(stages); ++i) {
    stages[i].size = size_of_structure(state, sizeof stages[i]);
    std::uint32_t kind = kUsual[i];
    if (state.choices.one_in(8)) kind = state.choices.byte();
    std::memcpy(&stages[i].kind, &kind, sizeof(stages[i].kind));
    stages[i].function = state.choices.one_in(16) ? nullptr : some_stage;
    stages[i].context = &kContexts[state.choices.byte()];
    stages[i].model = state.choices.one_in(8) ? some(state, state.models) : model;
    stages[i].threads = static_cast<int>(state.choices.below(4)) - (i == 0 ? 1 : 0);
    stages[i].capacity = state.choices.byte();
  }
  tessera_debug_options debug = {};
  debug.size = sizeof debug;
  const auto mode = static_cast<std::uint32_t>(state.choices.below(4));
  std::memcpy(&debug.mode, &mode, sizeof(debug.mode));
  debug.every = state.choices.integer();
  tessera_pipeline_options options = {};
  options.size = size_of_structure(state, sizeof options);
  options.jobs_max = static_cast<std::size_t>(state.choices.byte());
  options.lock_step = state.choices.one_in(4);
  options.low_latency = state.choices.one_in(2);
  options.debug = state.choices.one_in(4) ? &debug : nullptr;
  options.stages = state.choices.one_in(2) ? stages : nullptr;
  options.stage_count = static_cast<std::size_t>(state.choices.below(5));
  tessera_pipeline* pipeline = nullptr;
  const bool operations = state.choices.one_in(6);
  made(operations ? tessera_operations_open(some(state, state.runtimes), &options, &pipeline)
                  : tessera_pipeline_open(some(state, state.runtimes), model, &options, &pipeline),
       pipeline, state.pipelines);
}

void change_pipeline(State& state) {
  tessera_pipeline* pipeline = some(state, state.pipelines);
  const std::string stage = state.choices.one_in(4) ? state.choices.text(8) : "execute";
  take(tessera_pipeline_set_threads(pipeline, stage.c_str(),
                                    static_cast<int>(state.choices.below(5)) - 1));
  take(tessera_pipeline_set_kernels(pipeline, stage.c_str(),
                                    static_cast<int>(state.choices.below(4)) - 1));
  if (state.choices.one_in(4)) tessera_pipeline_wait_until_done(pipeline);
}

void open_stream(State& state) {
  tessera_stream* stream = nullptr;
  made(tessera_stream_open(some(state, state.pipelines), &stream), stream, state.streams);
}

void take_result(void*, tessera_result* result, tessera_error* error) {
  TESSERA_CHECK((result == nullptr) != (error == nullptr), "a callback with both or none");
  tessera_result_release(result);
  tessera_error_release(error);
}

void submit(State& state) {
  SomeTensor tensors[2];
  for (SomeTensor& tensor : tensors) fill(state, tensor);
  const tessera_tensor views[] = {tensors[0].view, tensors[1].view};
  const tessera_run runs[] = {{views, static_cast<std::size_t>(state.choices.below(3))},
                              {views + 1, 1}};
  const char* const skipped[] = {"pre", "no such stage"};
  tessera_submit_options options = {};
  options.size = size_of_structure(state, sizeof options);
  options.callback = state.choices.one_in(3) ? take_result : nullptr;
  options.deadline_ns = state.choices.one_in(4) ? state.choices.integer() : 0;
  options.fail_if_full = true;
  options.skipped_stages = skipped;
  options.skipped_stage_count =
      state.choices.one_in(6) ? static_cast<std::size_t>(state.choices.below(3)) : 0;
  tessera_stream* stream = some(state, state.streams);
  const std::size_t count = state.choices.one_in(6) ? state.choices.byte() % 3U : 1;
  tessera_job* job = nullptr;
  switch (state.choices.below(4)) {
    case 0:
      return made(tessera_submit_runs(stream, runs, count, &options, &job), job, state.jobs);
    case 1: {
      tessera_job* jobs[2] = {};
      tessera_error* error = tessera_submit_batch(stream, runs, count, &options, jobs);
      for (tessera_job* each : jobs) {
        if (each != nullptr) state.jobs.push_back(each);
      }
      return take(error);
    }
    default:
      return made(tessera_submit(stream, views, count, &options, &job), job, state.jobs);
  }
}

void wait(State& state) {
  tessera_job* job = some(state, state.jobs);
  if (state.choices.one_in(4)) tessera_job_cancel(job);
  std::size_t index = 0;
  if (state.choices.one_in(4)) {
    (void)tessera_wait_any(state.jobs.data(), state.jobs.size(), kPatienceNs, &index);
  }
  tessera_result* result = nullptr;
  made(tessera_job_wait(job, state.choices.one_in(3) ? 0 : kPatienceNs, &result), result,
       state.results);
}

void look(State& state) {
  const tessera_result* result = some(state, state.results);
  const std::size_t index = state.choices.byte() % 4U;
  const tessera_tensor output = tessera_result_output(result, index);
  std::uint8_t all = 0;
  for (std::size_t i = 0; i < output.bytes; ++i) {
    all ^= static_cast<const std::uint8_t*>(output.data)[i];
  }
  (void)tessera_result_run_output(result, all, index);
  tessera_stage_times times = {};
  times.size = size_of_structure(state, sizeof times);
  take(tessera_result_stage_times(result, index, &times));
  (void)tessera_result_device(result);
}

void open_memory(State& state) {
  const char* const devices[] = {"host0", "sim0", "", nullptr};
  tessera_memory* memory = nullptr;
  made(tessera_memory_open(some(state, state.runtimes), devices[state.choices.below(4)], &memory),
       memory, state.memories);
}

void allocate(State& state) {
  const std::size_t bytes = state.choices.one_in(16)
                                ? static_cast<std::size_t>(state.choices.integer())
                                : std::size_t{state.choices.byte()} * 2;
  tessera_block* block = nullptr;
  made(tessera_block_allocate(some(state, state.memories), bytes, &block), block, state.blocks);
  if (block == nullptr) return;
  if (bytes > 0) static_cast<std::uint8_t*>(tessera_block_data(block))[bytes - 1] = 1;
  take(state.choices.one_in(2) ? tessera_block_wrote(block) : tessera_block_fetch(block));
}

void run_operation(State& state) {
  tessera_operation operation = {};
  operation.size = size_of_structure(state, sizeof operation);
  const auto kind = static_cast<std::uint32_t>(state.choices.below(5));
  std::memcpy(&operation.kind, &kind, sizeof(operation.kind));
  for (std::int64_t* field :
       {&operation.image_rows, &operation.image_columns, &operation.image_channels,
        &operation.window_size, &operation.window_stride, &operation.window_pad, &operation.rows,
        &operation.inner, &operation.columns}) {
    *field = state.choices.integer();
  }
  tessera_operation_task task = {};
  task.size = sizeof task;
  task.operation = state.choices.one_in(24) ? nullptr : &operation;
  task.input = some(state, state.blocks);
  task.output = some(state, state.blocks);
  task.weights = state.choices.one_in(2) ? some(state, state.blocks) : nullptr;
  task.weight_offset = state.choices.integer();
  task.fetch = state.choices.one_in(2);
  tessera_submit_options options = {};
  options.size = sizeof options;
  options.fail_if_full = true;
  tessera_job* job = nullptr;
  made(tessera_submit_operation(some(state, state.streams), &task, &options, &job), job,
       state.jobs);
}

void load_layers(State& state) {
  tessera_layers* layers = nullptr;
  made(tessera_layers_load(some(state, state.runtimes), some(state, state.networks),
                           some(state, state.memories), &layers),
       layers, state.layers);
  tessera_layer layer = {};
  layer.size = sizeof layer;
  take(tessera_layers_layer(layers, state.choices.byte() % 2U, &layer));
  (void)tessera_layers_input(layers, 0, state.choices.byte());
}

void run_layer(State& state) {
  tessera_block* const inputs[] = {some(state, state.blocks), some(state, state.blocks)};
  tessera_block* const outputs[] = {some(state, state.blocks)};
  tessera_layer_task task = {};
  task.size = size_of_structure(state, sizeof task);
  task.layer = state.choices.byte() % 3U;
  task.inputs = inputs;
  task.input_count = static_cast<std::size_t>(state.choices.below(3));
  task.outputs = outputs;
  task.output_count = state.choices.one_in(8) ? 0 : 1;
  task.fetch = true;
  tessera_submit_options options = {};
  options.size = sizeof options;
  options.fail_if_full = true;
  tessera_job* job = nullptr;
  made(tessera_submit_layer(some(state, state.streams), some(state, state.layers), &task, &options,
                            &job),
       job, state.jobs);
}

void make_picture(State& state) {
  tessera_picture* picture = nullptr;
  std::uint8_t pixels[12] = {1, 2, 3};
  if (state.choices.one_in(2)) {
    made(tessera_picture_create(2, 2, pixels, &picture), picture, state.pictures);
  } else {
    const std::int64_t width = state.choices.integer();
    made(tessera_picture_create(width, state.choices.below(4), nullptr, &picture), picture,
         state.pictures);
  }
  tessera_picture* resized = nullptr;
  const std::int64_t width = state.choices.one_in(8) ? state.choices.integer() : 5;
  made(tessera_picture_resize(some(state, state.pictures), width, state.choices.below(9), &resized),
       resized, state.pictures);
  std::byte elements[96] = {};
  take(tessera_picture_fill(some(state, state.pictures), some(state, state.networks),
                            state.choices.byte() % 2U, nullptr, elements, sizeof elements));
}

void release_one(State& state) {
  switch (state.choices.below(11)) {
    case 0:
      return give_back(state, state.networks, tessera_network_release);
    case 1:
      return give_back(state, state.runtimes, tessera_runtime_release);
    case 2:
      return give_back(state, state.models, tessera_model_release);
    case 3:
      return give_back(state, state.pipelines, tessera_pipeline_release);
    case 4:
      return give_back(state, state.streams, tessera_stream_release);
    case 5:
      return give_back(state, state.jobs, tessera_job_release);
    case 6:
      return give_back(state, state.results, tessera_result_release);
    case 7:
      return give_back(state, state.memories, tessera_memory_release);
    case 8:
      return give_back(state, state.blocks, tessera_block_release);
    case 9:
      return give_back(state, state.layers, tessera_layers_release);
    default:
      return give_back(state, state.pictures, tessera_picture_release);
  }
}

constexpr void (*kCalls[])(State&) = {
    load_network,    load_from_memory, describe_network, open_runtime,  load_model,  open_pipeline,
    open_stream,     submit,           submit,           wait,          look,        ask_runtime,
    change_pipeline, open_memory,      allocate,         run_operation, load_layers, run_layer,
    make_picture,    release_one,      release_one};

template <typename Handle>
void release_all(Handles<Handle>& handles, void (*release)(Handle*)) {
  for (Handle* handle : handles) release(handle);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  State state{
      Choices(std::as_bytes(std::span(data, size))), {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}};
  for (std::size_t i = 0; i < kCallsMax && !state.choices.done(); ++i) {
    kCalls[static_cast<std::size_t>(state.choices.byte()) % std::size(kCalls)](state);
  }
  release_all(state.networks, tessera_network_release);
  release_all(state.runtimes, tessera_runtime_release);
  release_all(state.models, tessera_model_release);
  release_all(state.pipelines, tessera_pipeline_release);
  release_all(state.streams, tessera_stream_release);
  release_all(state.jobs, tessera_job_release);
  release_all(state.results, tessera_result_release);
  release_all(state.memories, tessera_memory_release);
  release_all(state.blocks, tessera_block_release);
  release_all(state.layers, tessera_layers_release);
  release_all(state.pictures, tessera_picture_release);
  return 0;
}
