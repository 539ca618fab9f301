// Every function of tessera_c.h with NULL for each of its pointers in turn, and with numbers out of
// all proportion: errors, zeros or nothing, and never a crash.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <regex>
#include <set>
#include <sstream>
#include <tuple>
#include <type_traits>

#include "c/handles.h"
#include "network/network.h"
#include "networks.h"
#include "package/container.h"

#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

namespace tessera::c_test {
namespace {

// What a call made is released.
void give_back(tessera_network* made) { tessera_network_release(made); }
void give_back(tessera_runtime* made) { tessera_runtime_release(made); }
void give_back(tessera_text* made) { tessera_text_release(made); }
void give_back(tessera_model* made) { tessera_model_release(made); }
void give_back(tessera_picture* made) { tessera_picture_release(made); }
void give_back(tessera_pipeline* made) { tessera_pipeline_release(made); }
void give_back(tessera_stream* made) { tessera_stream_release(made); }
void give_back(tessera_job* made) { tessera_job_release(made); }
void give_back(tessera_result* made) { tessera_result_release(made); }
void give_back(tessera_memory* made) { tessera_memory_release(made); }
void give_back(tessera_block* made) { tessera_block_release(made); }
void give_back(tessera_layers* made) { tessera_layers_release(made); }
void give_back(tessera_statistics* made) { tessera_statistics_release(made); }
void give_back(tessera_live_view* made) { tessera_live_view_release(made); }
void give_back(tessera_shared_session* made) { tessera_shared_session_release(made); }
void give_back(tessera_shared_result* made) { tessera_shared_result_release(made); }
void give_back(tessera_dynamic_session* made) { tessera_dynamic_session_release(made); }
void give_back(tessera_dynamic_result* made) { tessera_dynamic_result_release(made); }
void give_back(tessera_card* made) { tessera_card_release(made); }
void give_back(tessera_processor* made) { tessera_processor_release(made); }

template <typename T>
constexpr bool kIsHandlePlace = false;
template <typename T>
  requires requires(T* handle) { give_back(handle); }
constexpr bool kIsHandlePlace<T**> = !std::is_const_v<T>;

class Walk {
 public:
  // Calls `function` with `arguments`, one of them NULL or extreme in turn. Where it can fail, NULL
  // is an error that says so or is allowed.
  template <typename R, typename... Arguments>
  void call(const char* name, R (*function)(Arguments...),
            std::type_identity_t<Arguments>... given) {
    SCOPED_TRACE(name);
    walked_.insert(name);
    const std::tuple<Arguments...> arguments(given...);
    once(function, arguments);
    [&]<std::size_t... i>(std::index_sequence<i...>) {
      (vary<i>(function, arguments), ...);
    }(std::index_sequence_for<Arguments...>());
  }
  const std::set<std::string>& walked() const { return walked_; }

 private:
  template <std::size_t i, typename R, typename... Arguments>
  void vary(R (*function)(Arguments...), std::tuple<Arguments...> arguments) {
    using Argument = std::tuple_element_t<i, std::tuple<Arguments...>>;
    if constexpr (std::is_pointer_v<Argument>) {
      std::get<i>(arguments) = nullptr;
      once(function, arguments);
    } else if constexpr (std::is_integral_v<Argument> && !std::is_same_v<Argument, bool>) {
      for (const Argument number :
           {std::numeric_limits<Argument>::max(), std::numeric_limits<Argument>::min(),
            static_cast<Argument>(-1),
            static_cast<Argument>(std::numeric_limits<Argument>::max() / 2)}) {
        std::get<i>(arguments) = number;
        once(function, arguments, false);
      }
    }
  }

  template <typename R, typename... Arguments>
  void once(R (*function)(Arguments...), const std::tuple<Arguments...>& arguments,
            bool of_null = true) {
    if constexpr (std::is_same_v<R, tessera_error*>) {
      const std::string text = message(std::apply(function, arguments));
      if (of_null) {
        EXPECT_TRUE(text.empty() || text.find("NULL") != std::string::npos) << text;
      }
    } else {
      std::apply(function, arguments);
    }
    std::apply([](const auto&... each) { (clear(each), ...); }, arguments);
  }

  template <typename T>
  static void clear(const T& argument) {
    if constexpr (kIsHandlePlace<T>) {
      if (argument != nullptr) give_back(std::exchange(*argument, nullptr));
    }
  }

  std::set<std::string> walked_;
};

#define TESSERA_WALK(function, ...) walk.call(#function, &(function)__VA_OPT__(, ) __VA_ARGS__)

// All handles there are, of a pipeline that is at rest.
struct World {
  World() {
    tessera_runtime_open(nullptr, &runtime);
    tessera_model_load(runtime, &network, nullptr, 0, &model);
    tessera_pipeline_open(runtime, model, nullptr, &pipeline);
    tessera_stream_open(pipeline, &stream);
    tessera_memory_open(runtime, "host0", &memory);
    tessera_block_allocate(memory, 64, &block);
    tessera_layers_load(runtime, &network, memory, &layers);
    tessera_operations_open(runtime, nullptr, &operations);
    tessera_stream_open(operations, &operation_stream);
    tessera_picture_create(8, 8, nullptr, &picture);
    tessera_live_view_open(runtime, nullptr, &view);
    tessera_statistics_take(runtime, pipeline, &statistics);
    tessera_runtime_prometheus(runtime, &text);
    tessera_submit(stream, &tensor, 1, nullptr, &job);
    tessera_submit(stream, &tensor, 1, nullptr, &taken);
    tessera_job_wait(taken, -1, &result);
    tessera_stream_wait_until_done(stream);
  }
  ~World() {
    tessera_job_release(job);
    tessera_job_release(taken);
    tessera_result_release(result);
    tessera_statistics_release(statistics);
    tessera_text_release(text);
    tessera_live_view_release(view);
    tessera_picture_release(picture);
    tessera_block_release(block);
    tessera_layers_release(layers);
    tessera_memory_release(memory);
    tessera_stream_release(operation_stream);
    tessera_pipeline_release(operations);
    tessera_stream_release(stream);
    tessera_pipeline_release(pipeline);
    tessera_model_release(model);
    tessera_runtime_release(runtime);
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  tessera_network network{recogniser()};
  Tensor input = some_input(network.network, 1);
  tessera_tensor tensor = view_of_input();
  tessera_run run = {&tensor, 1};
  Task cpp_task{.runs = {{input}}};
  tessera_task task{cpp_task};
  tessera_error error{TaskError{}};
  tessera_runtime* runtime = nullptr;
  tessera_model* model = nullptr;
  tessera_pipeline *pipeline = nullptr, *operations = nullptr;
  tessera_stream *stream = nullptr, *operation_stream = nullptr;
  tessera_memory* memory = nullptr;
  tessera_block* block = nullptr;
  tessera_layers* layers = nullptr;
  tessera_picture* picture = nullptr;
  tessera_live_view* view = nullptr;
  tessera_statistics* statistics = nullptr;
  tessera_text* text = nullptr;
  tessera_job *job = nullptr, *taken = nullptr;
  tessera_result* result = nullptr;

 private:
  tessera_tensor view_of_input() const { return c_test::view(input); }
};

void walk_errors_and_networks(Walk& walk, World& w) {
  const std::string path = ::testing::TempDir() + "null_test.tpkg";
  const std::vector<std::byte> package = package::serialise(w.network.network.state().package);
  tessera_network* network = nullptr;
  const tessera_load_options load = {.size = sizeof load};
  TESSERA_WALK(tessera_version);
  TESSERA_WALK(tessera_error_code, &w.error);
  TESSERA_WALK(tessera_error_message, &w.error);
  TESSERA_WALK(tessera_error_failure, &w.error);
  TESSERA_WALK(tessera_error_stage, &w.error);
  TESSERA_WALK(tessera_error_device, &w.error);
  TESSERA_WALK(tessera_error_layer, &w.error);
  TESSERA_WALK(tessera_error_task, &w.error);
  TESSERA_WALK(tessera_error_sequence, &w.error);
  TESSERA_WALK(tessera_error_create, TESSERA_INTERNAL, "NULL");
  TESSERA_WALK(tessera_error_release, nullptr);
  TESSERA_WALK(tessera_format_bytes, TESSERA_F16);
  TESSERA_WALK(tessera_network_save_package, &w.network, path.c_str());
  TESSERA_WALK(tessera_network_load, path.c_str(), &load, &network);
  TESSERA_WALK(tessera_network_load_memory, package.data(), package.size(), &load, &network);
  TESSERA_WALK(tessera_network_input_count, &w.network);
  TESSERA_WALK(tessera_network_output_count, &w.network);
  TESSERA_WALK(tessera_network_input, &w.network, 0);
  TESSERA_WALK(tessera_network_output, &w.network, 0);
  TESSERA_WALK(tessera_network_nodes_on_processor, &w.network);
  TESSERA_WALK(tessera_network_nodes_on_host, &w.network);
  TESSERA_WALK(tessera_network_release, nullptr);
  std::remove(path.c_str());
}

void walk_dynamic_sessions(Walk& walk) {
  constexpr const char* kRelu = "/usr/share/libonnx-testdata/data/node/test_relu/model.onnx";
  const tessera_dynamic_options options = {.size = sizeof options};
  const int64_t dims[] = {3, 4, 5};
  const std::vector<float> values(60, 1.0F);
  const tessera_tensor tensor = {TESSERA_F32, 3, dims, values.data(), 240};
  const tessera_run run = {&tensor, 1};
  tessera_dynamic_session* session = nullptr;
  tessera_dynamic_session* made = nullptr;
  tessera_dynamic_result* result = nullptr;
  tessera_dynamic_result* second = nullptr;
  ASSERT_EQ(message(tessera_dynamic_session_open(kRelu, &options, &session)), "");
  ASSERT_EQ(message(tessera_dynamic_session_run(session, &run, &result)), "");
  TESSERA_WALK(tessera_dynamic_session_open, kRelu, &options, &made);
  TESSERA_WALK(tessera_dynamic_session_input_count, session);
  TESSERA_WALK(tessera_dynamic_session_input, session, 0);
  TESSERA_WALK(tessera_dynamic_session_counters, session);
  TESSERA_WALK(tessera_dynamic_session_run, session, &run, &second);
  TESSERA_WALK(tessera_dynamic_session_release, nullptr);
  TESSERA_WALK(tessera_dynamic_result_output_count, result);
  TESSERA_WALK(tessera_dynamic_result_output, result, 0);
  TESSERA_WALK(tessera_dynamic_result_output_name, result, 0);
  TESSERA_WALK(tessera_dynamic_result_cycles, result);
  TESSERA_WALK(tessera_dynamic_result_host_cycles, result);
  TESSERA_WALK(tessera_dynamic_result_transfer_cycles, result);
  TESSERA_WALK(tessera_dynamic_result_release, nullptr);
  tessera_dynamic_result_release(result);
  tessera_dynamic_session_release(session);
}

void walk_shared_sessions(Walk& walk, World& w) {
  const tessera_shared_network network = {.size = sizeof network, .network = &w.network};
  const tessera_shared_options options = {.size = sizeof options};
  tessera_shared_session* session = nullptr;
  tessera_shared_session* made = nullptr;
  tessera_shared_result* result = nullptr;
  tessera_shared_result* second = nullptr;
  ASSERT_EQ(message(tessera_shared_session_open(&network, 1, &options, &session)), "");
  ASSERT_EQ(message(tessera_shared_session_run(session, &w.run, 1, &result)), "");
  TESSERA_WALK(tessera_shared_session_open, &network, 1, &options, &made);
  TESSERA_WALK(tessera_shared_session_run, session, &w.run, 1, &second);
  TESSERA_WALK(tessera_shared_session_release, nullptr);
  TESSERA_WALK(tessera_shared_result_status, result, 0);
  TESSERA_WALK(tessera_shared_result_output_count, result, 0);
  TESSERA_WALK(tessera_shared_result_output, result, 0, 0);
  TESSERA_WALK(tessera_shared_result_arrival, result, 0);
  TESSERA_WALK(tessera_shared_result_end, result, 0);
  TESSERA_WALK(tessera_shared_result_cycles, result);
  TESSERA_WALK(tessera_shared_result_host_cycles, result, 0);
  TESSERA_WALK(tessera_shared_result_transfer_cycles, result, 0);
  TESSERA_WALK(tessera_shared_result_release, nullptr);
  tessera_shared_result_release(result);
  tessera_shared_session_release(session);
}

void walk_runtimes_and_pictures(Walk& walk, World& w) {
  const std::string path = ::testing::TempDir() + "null_test.out";
  const char* const device = "host0";
  const tessera_runtime_options options = {.size = sizeof options};
  const tessera_live_view_options live = {.size = sizeof live};
  const tessera_picture_input how = {.size = sizeof how};
  tessera_runtime* runtime = nullptr;
  tessera_text* text = nullptr;
  tessera_model* model = nullptr;
  tessera_live_view* page = nullptr;
  tessera_picture* picture = nullptr;
  TESSERA_WALK(tessera_runtime_open, &options, &runtime);
  TESSERA_WALK(tessera_runtime_write_trace, w.runtime, path.c_str());
  TESSERA_WALK(tessera_runtime_write_events, w.runtime, path.c_str());
  TESSERA_WALK(tessera_runtime_prometheus, w.runtime, &text);
  TESSERA_WALK(tessera_runtime_release, nullptr);
  TESSERA_WALK(tessera_text_value, w.text);
  TESSERA_WALK(tessera_text_release, nullptr);
  TESSERA_WALK(tessera_model_load, w.runtime, &w.network, &device, 1, &model);
  TESSERA_WALK(tessera_model_load_in_device_form, w.runtime, &w.network, &device, 1, &model);
  TESSERA_WALK(tessera_model_release, nullptr);
  TESSERA_WALK(tessera_live_view_open, w.runtime, &live, &page);
  TESSERA_WALK(tessera_live_view_url, w.view);
  TESSERA_WALK(tessera_live_view_release, nullptr);
  const uint8_t rgb[3] = {1, 2, 3};
  TESSERA_WALK(tessera_picture_write_png, w.picture, path.c_str());
  TESSERA_WALK(tessera_picture_read, path.c_str(), &picture);
  // Of an extreme size there are no levels.
  TESSERA_WALK(tessera_picture_create, 1, 1, nullptr, &picture);
  EXPECT_EQ(message(tessera_picture_create(1, 1, rgb, &picture)), "");
  tessera_picture_release(picture);
  TESSERA_WALK(tessera_picture_resize, w.picture, 2, 2, &picture);
  TESSERA_WALK(tessera_picture_width, w.picture);
  TESSERA_WALK(tessera_picture_height, w.picture);
  TESSERA_WALK(tessera_picture_rgb, w.picture);
  tessera_network pictures{detector()};
  std::vector<std::byte> data(some_input(pictures.network, 1).bytes.size());
  TESSERA_WALK(tessera_picture_fill, w.picture, &pictures, 0, &how, data.data(), data.size());
  TESSERA_WALK(tessera_picture_release, nullptr);
  std::remove(path.c_str());
}

void walk_pipelines_and_tasks(Walk& walk, World& w) {
  const tessera_pipeline_options options = {.size = sizeof options};
  const tessera_debug_options debug = {.size = sizeof debug};
  tessera_pipeline* pipeline = nullptr;
  tessera_stream* stream = nullptr;
  TESSERA_WALK(tessera_pipeline_open, w.runtime, w.model, &options, &pipeline);
  TESSERA_WALK(tessera_operations_open, w.runtime, &options, &pipeline);
  TESSERA_WALK(tessera_pipeline_set_threads, w.pipeline, "pre", 1);
  TESSERA_WALK(tessera_pipeline_set_kernels, w.pipeline, "execute", 1);
  TESSERA_WALK(tessera_pipeline_set_tuning, w.pipeline, false);
  TESSERA_WALK(tessera_pipeline_set_debug, w.pipeline, &debug);
  TESSERA_WALK(tessera_pipeline_wait_until_done, w.pipeline);
  TESSERA_WALK(tessera_pipeline_release, nullptr);
  TESSERA_WALK(tessera_task_run_count, &w.task);
  TESSERA_WALK(tessera_task_tensor_count, &w.task, 0);
  TESSERA_WALK(tessera_task_tensor, &w.task, 0, 0);
  TESSERA_WALK(tessera_task_data, &w.task, 0, 0);
  TESSERA_WALK(tessera_task_set_runs, &w.task, &w.run, 1);
  TESSERA_WALK(tessera_task_payload, &w.task);
  TESSERA_WALK(tessera_task_stream, &w.task);
  TESSERA_WALK(tessera_task_sequence, &w.task);
  TESSERA_WALK(tessera_stream_open, w.pipeline, &stream);
  const tessera_stream_options stream_options = {
      .size = sizeof stream_options, .order = TESSERA_ORDER_SUBMISSION, .priority = 0};
  tessera_stream* stream_with = nullptr;
  TESSERA_WALK(tessera_stream_open_with, w.pipeline, &stream_options, &stream_with);
  TESSERA_WALK(tessera_stream_wait_for_room, w.stream, 0);
  TESSERA_WALK(tessera_stream_wait_until_done, w.stream);
  TESSERA_WALK(tessera_stream_id, w.stream);
  TESSERA_WALK(tessera_stream_release, nullptr);
  const tessera_submit_options submit = {.size = sizeof submit};
  tessera_job* job = nullptr;
  TESSERA_WALK(tessera_submit, w.stream, &w.tensor, 1, &submit, &job);
  TESSERA_WALK(tessera_submit_runs, w.stream, &w.run, 1, &submit, &job);
  TESSERA_WALK(tessera_submit_batch, w.stream, &w.run, 1, &submit, &job);
  tessera_result* result = nullptr;
  size_t index = 0;
  walk.call(
      "tessera_job_wait",
      +[](tessera_job* waited, tessera_result** made) {
        return tessera_job_wait(waited, -1, made);
      },
      nullptr, &result);
  TESSERA_WALK(tessera_wait_any, &w.job, 1, -1, &index);
  tessera_job* const none[] = {nullptr, nullptr};
  TESSERA_WALK(tessera_wait_any, none, 2, -1, &index);
  EXPECT_FALSE(tessera_wait_any(none, 2, -1, &index));
  EXPECT_FALSE(tessera_wait_any(nullptr, 3, -1, &index));
  EXPECT_FALSE(tessera_wait_any(&w.job, 0, -1, &index));
  TESSERA_WALK(tessera_job_done, w.job);
  TESSERA_WALK(tessera_job_cancel, w.job);
  TESSERA_WALK(tessera_job_id, w.job);
  TESSERA_WALK(tessera_job_release, nullptr);
}

void walk_results_and_memory(Walk& walk, World& w) {
  tessera_times times = {.size = sizeof times};
  tessera_stage_times stage = {.size = sizeof stage};
  TESSERA_WALK(tessera_result_output_count, w.result);
  TESSERA_WALK(tessera_result_output, w.result, 0);
  TESSERA_WALK(tessera_result_run_count, w.result);
  TESSERA_WALK(tessera_result_run_output_count, w.result, 0);
  TESSERA_WALK(tessera_result_run_output, w.result, 0, 0);
  TESSERA_WALK(tessera_result_payload, w.result);
  TESSERA_WALK(tessera_result_cycles, w.result);
  TESSERA_WALK(tessera_result_host_cycles, w.result);
  TESSERA_WALK(tessera_result_transfer_cycles, w.result);
  TESSERA_WALK(tessera_result_device, w.result);
  TESSERA_WALK(tessera_result_sequence, w.result);
  tessera_value_note note = {.size = sizeof note};
  TESSERA_WALK(tessera_result_value_note_count, w.result);
  TESSERA_WALK(tessera_result_value_note, w.result, 0, &note);
  TESSERA_WALK(tessera_result_times, w.result, &times);
  TESSERA_WALK(tessera_result_stage_times, w.result, 0, &stage);
  TESSERA_WALK(tessera_result_release, nullptr);
  tessera_memory* memory = nullptr;
  tessera_block* block = nullptr;
  tessera_layers* layers = nullptr;
  tessera_layer layer = {.size = sizeof layer};
  TESSERA_WALK(tessera_memory_open, w.runtime, "host0", &memory);
  TESSERA_WALK(tessera_memory_device, w.memory);
  TESSERA_WALK(tessera_memory_release, nullptr);
  TESSERA_WALK(tessera_block_allocate, w.memory, 8, &block);
  TESSERA_WALK(tessera_block_data, w.block);
  TESSERA_WALK(tessera_block_bytes, w.block);
  TESSERA_WALK(tessera_block_wrote, w.block);
  TESSERA_WALK(tessera_block_fetch, w.block);
  TESSERA_WALK(tessera_block_release, nullptr);
  TESSERA_WALK(tessera_layers_load, w.runtime, &w.network, w.memory, &layers);
  TESSERA_WALK(tessera_layers_count, w.layers);
  TESSERA_WALK(tessera_layers_layer, w.layers, 0, &layer);
  TESSERA_WALK(tessera_layers_input, w.layers, 0, 0);
  TESSERA_WALK(tessera_layers_output, w.layers, 0, 0);
  TESSERA_WALK(tessera_layers_release, nullptr);
  const tessera_operation relu = {.size = sizeof relu, .kind = TESSERA_RELU, .rows = 4};
  const tessera_operation_task operation = {
      .size = sizeof operation, .operation = &relu, .input = w.block, .output = w.block};
  tessera_job* job = nullptr;
  for (int member = 0; member < 3; ++member) {
    tessera_operation_task without = operation;
    if (member == 0) without.operation = nullptr;
    if (member == 1) without.input = nullptr;
    if (member == 2) without.output = nullptr;
    EXPECT_NE(message(tessera_submit_operation(w.operation_stream, &without, nullptr, &job)), "");
  }
  tessera_layer_task layer_task = {.size = sizeof layer_task, .input_count = 1, .output_count = 1};
  EXPECT_EQ(message(tessera_submit_layer(w.operation_stream, w.layers, &layer_task, nullptr, &job)),
            "inputs of the layer is NULL");
  tessera_block* const blocks[] = {w.block};
  layer_task.inputs = blocks;
  EXPECT_EQ(message(tessera_submit_layer(w.operation_stream, w.layers, &layer_task, nullptr, &job)),
            "outputs of the layer is NULL");
  walk.call(
      "tessera_submit_operation",
      +[](tessera_stream* stream, const tessera_operation_task* task, tessera_job** made) {
        return tessera_submit_operation(stream, task, nullptr, made);
      },
      w.operation_stream, nullptr, &job);
  walk.call(
      "tessera_submit_layer",
      +[](tessera_stream* stream, const tessera_layers* loaded, const tessera_layer_task* task,
          tessera_job** made) { return tessera_submit_layer(stream, loaded, task, nullptr, made); },
      w.operation_stream, w.layers, nullptr, &job);
}

void walk_blocks(Walk& walk, World& w) {
  alignas(16) float data[4] = {};
  const int64_t dims = 4;
  const tessera_tensor tensor = {TESSERA_F32, 1, &dims, data, sizeof data};
  tessera_block* block = nullptr;
  tessera_job* job = nullptr;
  TESSERA_WALK(tessera_block_allocate_tensor, w.memory, TESSERA_F32, 1, &dims, &block);
  TESSERA_WALK(tessera_block_upload, w.memory, &tensor, &block);
  TESSERA_WALK(tessera_block_wrap, w.memory, &tensor, nullptr, nullptr, &block);
  TESSERA_WALK(tessera_block_description, w.block);
  TESSERA_WALK(tessera_result_block, w.result, 0, &block);
  TESSERA_WALK(tessera_stream_bind_states, w.stream, w.memory, nullptr, 0);
  walk.call(
      "tessera_submit_network",
      +[](tessera_stream* stream, const tessera_network_task* task, tessera_job** made) {
        return tessera_submit_network(stream, task, nullptr, made);
      },
      w.stream, nullptr, &job);
}

void walk_statistics(Walk& walk, World& w) {
  tessera_statistics* statistics = nullptr;
  tessera_device_statistics device = {.size = sizeof device};
  tessera_stage_statistics stage = {.size = sizeof stage};
  tessera_task_statistics tasks = {.size = sizeof tasks};
  TESSERA_WALK(tessera_statistics_take, w.runtime, w.pipeline, &statistics);
  TESSERA_WALK(tessera_statistics_device_count, w.statistics);
  TESSERA_WALK(tessera_statistics_stage_count, w.statistics);
  TESSERA_WALK(tessera_statistics_device, w.statistics, 0, &device);
  TESSERA_WALK(tessera_statistics_stage, w.statistics, 0, &stage);
  TESSERA_WALK(tessera_statistics_tasks, w.statistics, &tasks);
  TESSERA_WALK(tessera_statistics_release, nullptr);
}

void walk_cards(Walk& walk) {
  tessera_card *card = nullptr, *made_card = nullptr;
  tessera_processor *processor = nullptr, *made = nullptr;
  ASSERT_EQ(message(tessera_card_open("cloud16", 1, &card)), "");
  const tessera_processor_options options = {.size = sizeof options, .cores = 2};
  ASSERT_EQ(message(tessera_card_take(card, &options, &processor)), "");
  TESSERA_WALK(tessera_card_open, "cloud16", 1, &made_card);
  TESSERA_WALK(tessera_card_take, card, &options, &made);
  TESSERA_WALK(tessera_processor_resize, processor, 1);
  int numbers[2] = {};
  std::size_t count = 0;
  tessera_processor_status status = {.size = sizeof status};
  TESSERA_WALK(tessera_processor_move, processor, numbers, 1);
  TESSERA_WALK(tessera_processor_status_get, processor, &status);
  // What says how much room there is cannot be beyond it, as everywhere in C.
  walk.call(
      "tessera_processor_cores",
      +[](const tessera_processor* of, int* into, size_t* found) {
        return tessera_processor_cores(of, into, into == nullptr ? 0 : 2, found);
      },
      processor, numbers, &count);
  TESSERA_WALK(tessera_processor_release, nullptr);
  TESSERA_WALK(tessera_card_release, nullptr);
  tessera_processor_release(processor);
  tessera_card_release(card);
}

// The functions that the header declares.
std::set<std::string> declared() {
  std::ifstream in(TESSERA_C_HEADER);
  std::stringstream read;
  read << in.rdbuf();
  const std::string text =
      std::regex_replace(read.str(), std::regex(R"(/\*[^*]*\*+(?:[^/*][^*]*\*+)*/)"), "");
  std::set<std::string> names;
  const std::regex function(R"((?:^|[\s*])(tessera_[a-z_]+)\()");
  for (std::sregex_iterator found(text.begin(), text.end(), function), end; found != end; ++found) {
    names.insert((*found)[1]);
  }
  return names;
}

TEST(NullInC, EveryFunctionTakesIt) {
  World world;
  Walk walk;
  walk_errors_and_networks(walk, world);
  walk_shared_sessions(walk, world);
  walk_dynamic_sessions(walk);
  walk_runtimes_and_pictures(walk, world);
  walk_pipelines_and_tasks(walk, world);
  walk_results_and_memory(walk, world);
  walk_blocks(walk, world);
  walk_statistics(walk, world);
  walk_cards(walk);
  EXPECT_EQ(walk.walked(), declared());
}

}  // namespace
}  // namespace tessera::c_test
