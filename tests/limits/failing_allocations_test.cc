// Each allocation on the way from a file to a result fails once: what comes of it is an error or
// the result, and never an end of the program, a wait without end, or a leak.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>

#include "arch/architecture_file.h"
#include "arch/chip_config.h"
#include "compile/compile.h"
#include "compile/testing/random_graph.h"
#include "concord/expand/expand.h"
#include "concord/interpret.h"
#include "concord/lift/lift.h"
#include "concord/write/cpp.h"
#include "concord/write/onnx.h"
#include "failing_everywhere.h"
#include "firmware/assembler.h"
#include "firmware/disassembler.h"
#include "link/link.h"
#include "model/import.h"
#include "model/testing/model_builder.h"
#include "network/network.h"
#include "package/container.h"
#include "tessera/file.h"
#include "tessera/runtime.h"
#include "tessera/tessera_c.h"

namespace tessera::limits {
namespace {

using model::testing::Ints;
using model::testing::ModelBuilder;

Tensor pattern(Shape dims) {
  Tensor tensor = Tensor::zeros(Format::kF32, std::move(dims));
  int i = 0;
  for (float& value : tensor.as<float>()) value = 0.125f * static_cast<float>(i++ % 7 - 3);
  return tensor;
}

const std::string& model_bytes() {
  static const std::string bytes = [] {
    ModelBuilder builder(13);
    return builder.input("x", Format::kF32, {1, 3, 8, 8})
        .initializer("w", pattern({4, 3, 3, 3}))
        .node("Conv", {"x", "w"}, {"c"}, {{"pads", Ints{1, 1, 1, 1}}}, "conv")
        .node("Relu", {"c"}, {"r"}, {}, "relu")
        .node("MaxPool", {"r"}, {"y"}, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}},
              "pool")
        .output("y")
        .bytes();
  }();
  return bytes;
}

// A name in a folder of this process.
std::string path_of(const std::string& name) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / fmt::format("tessera_limits_{}", getpid());
  std::filesystem::create_directories(folder);
  return (folder / name).string();
}

Network network() {
  compile::testing::GraphBuilder builder(7);
  const graph::TensorId x = builder.input({1, 3, 8, 8});
  builder.output(builder.conv(x, {.output_channels = 4, .kernel = 3, .pad = 1}));
  return network::network_from_graph(builder.take(), *load_chip_config("tessera128"), {}).value();
}

Tensor input_of(const Network& network) {
  return Tensor::zeros(network.inputs()[0].format, network.inputs()[0].dims);
}

constexpr const char* kFirmware = R"(firmware 1
arch "brainwave"
queue x [256] in
queue y [256] out
vector h [256] in initial
vector b [256] in addsub = random 3 0.1
matrix W [256, 256] in matrix = random 1 0.06
repeat t 2
chain "c"
  read x
  product W
  add b
  sigmoid
  write h
  write y
end
end
)";

TEST(FailingAllocations, Architecture) {
  const std::string text = describe(*load_chip_config("tessera128"));
  fail_everywhere("architecture", kMany, [&]() -> Status {
    TESSERA_TRY(const ChipConfig chip, parse_chip_config(text, "text"));
    (void)fingerprint(chip);
    return {};
  });
}

TEST(FailingAllocations, ImportAndCompile) {
  const ChipConfig chip = *load_chip_config("tessera128");
  fail_everywhere("import and compile", kProtobuf, [&]() -> Status {
    TESSERA_TRY(const model::Model model,
                model::import_bytes(std::as_bytes(std::span(model_bytes())), "model"));
    TESSERA_TRY(auto graph, network::graph_of_model(model, chip, {}));
    TESSERA_TRY(const package::Package package, compile::compile(std::move(graph), chip, {}));
    TESSERA_TRY(const isa::Program program, link::link(package, chip, {}));
    return {};
  });
}

TEST(FailingAllocations, PackageAndProgramFiles) {
  const Network made = network();
  const std::string path = path_of("n.tpkg");
  fail_everywhere("files", kMany, [&]() -> Status {
    const std::vector<std::byte> bytes = package::serialise(made.state().package);
    TESSERA_RETURN_IF_ERROR(write_file(path, bytes));
    TESSERA_TRY(const Network loaded, Network::load(path));
    TESSERA_TRY(const isa::Program linked,
                link::link(loaded.state().package, loaded.state().chip, {}));
    TESSERA_TRY(const isa::Program again,
                package::parse_program(package::serialise(linked), "again"));
    return loaded.save_package(path + "2");
  });
}

TEST(FailingAllocations, FirmwareAndDerive) {
  const ChipConfig chip = *load_chip_config("brainwave");
  fail_everywhere("firmware", kMany, [&]() -> Status {
    TESSERA_TRY(const isa::Program program, firmware::assemble(kFirmware, "text", {}));
    (void)firmware::disassemble(program, {});
    return {};
  });
  const isa::Program program = firmware::assemble(kFirmware, "text", {}).value();
  fail_everywhere("derive", kFew, [&]() -> Status {
    TESSERA_TRY(const auto graph, concord::lift(program, chip));
    TESSERA_TRY(const concord::Software software, concord::expand(*graph));
    TESSERA_TRY(const auto cpp, concord::write_cpp(software));
    std::vector<Tensor> inputs;
    for (const concord::Port& port : software.inputs) {
      const concord::Value& value = software.value(port.value);
      inputs.push_back(Tensor::zeros(value.format, value.dims));
    }
    TESSERA_TRY(const auto outputs, concord::interpret(software, inputs, {}));
    return {};
  });
  const concord::Software software = concord::expand(*concord::lift(program, chip).value()).value();
  fail_everywhere("ONNX file", kProtobuf, [&]() -> Status {
    TESSERA_TRY(const auto onnx, concord::write_onnx(software));
    return {};
  });
}

TEST(FailingAllocations, Sessions) {
  const Network made = network();
  const std::vector<Tensor> inputs = {input_of(made)};
  const auto oracle = Session::open(made, {.device = DeviceKind::kRef})->run(inputs);
  for (const DeviceKind kind : {DeviceKind::kSim, DeviceKind::kHost, DeviceKind::kRef}) {
    fail_everywhere(device_kind_name(kind), kMany, [&]() -> Status {
      SessionOptions options;
      options.device = kind;
      options.threads = 2;
      TESSERA_TRY(Session session, Session::open(made, options));
      // A run that failed leaves nothing behind that the next one would stumble over.
      Status first;
      for (int i = 0; i < 2; ++i) {
        const auto result = session.run(inputs);
        if (result.ok()) {
          EXPECT_EQ(result->outputs, oracle->outputs);
        } else if (first.ok()) {
          first = result.error();
        }
      }
      return first;
    });
  }
}

// Tasks with and without callbacks and deadlines; each has an outcome.
Status run_tasks(const Network& network, Handover handover) {
  std::atomic<int> called{0};  // as long as the pipeline, which may call after memory ended here
  TESSERA_TRY(Runtime runtime,
              Runtime::open({.devices = {{.kind = DeviceKind::kHost, .name = "a", .threads = 2},
                                         {.kind = DeviceKind::kHost, .name = "b", .threads = 1}}}));
  TESSERA_TRY(const Model model, runtime.load(network));
  PipelineOptions options;
  options.handover = handover;
  options.jobs_max = 8;
  TESSERA_TRY(Pipeline pipeline, runtime.open_pipeline(model, options));
  Stream stream = pipeline.open_stream();
  std::vector<Job> jobs;
  jobs.reserve(8);
  Status first;
  const auto note = [&first](const Status& status) {
    if (first.ok() && !status.ok()) first = status;
  };
  int callbacks = 0;
  for (int i = 0; i < 6; ++i) {
    SubmitOptions submit;
    if (i % 3 == 1) submit.deadline = std::chrono::hours(1);
    if (i % 3 == 2) submit.callback = [&called](const TaskOutcome&) { ++called; };
    auto job = stream.submit({input_of(network)}, std::move(submit));
    if (!job.ok()) {
      note(job.error());
      continue;
    }
    if (i % 3 == 2) ++callbacks;
    jobs.push_back(std::move(*job));
  }
  (void)wait_any(jobs);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (i == 1) jobs[i].cancel();
    const TaskOutcome outcome = jobs[i].wait();
    if (!outcome.ok() && outcome.error().failure == TaskFailure::kError) {
      if (outcome.error().error.code != ErrorCode::kInvalidArgument) note(outcome.error().error);
    }
  }
  pipeline.wait_until_done();
  EXPECT_EQ(called, callbacks);
  EXPECT_EQ(pipeline.status().in_flight, 0U);
  (void)runtime.prometheus();
  return first;
}

TEST(FailingAllocations, Pipelines) {
  const Network made = network();
  fail_everywhere("free flow", kMany, [&] { return run_tasks(made, Handover::kFreeFlow); });
  fail_everywhere("lock step", kMany, [&] { return run_tasks(made, Handover::kLockStep); });
}

TEST(FailingAllocations, CInterface) {
  const std::string path = path_of("model.onnx");
  ASSERT_TRUE(write_file(path, std::as_bytes(std::span(model_bytes()))).ok());
  fail_everywhere("C", kProtobuf, [&]() -> Status {
    const auto status_of = [](tessera_error* error) -> Status {
      if (error == nullptr) return {};
      tessera_error_release(error);
      return Error{ErrorCode::kInternal, "an error"};
    };
    tessera_network* network = nullptr;
    tessera_runtime* runtime = nullptr;
    tessera_model* model = nullptr;
    tessera_pipeline* pipeline = nullptr;
    tessera_stream* stream = nullptr;
    tessera_job* job = nullptr;
    tessera_result* result = nullptr;
    const auto all = [&]() -> Status {
      TESSERA_RETURN_IF_ERROR(status_of(tessera_network_load(path.c_str(), nullptr, &network)));
      TESSERA_RETURN_IF_ERROR(status_of(tessera_runtime_open(nullptr, &runtime)));
      TESSERA_RETURN_IF_ERROR(status_of(tessera_model_load(runtime, network, nullptr, 0, &model)));
      TESSERA_RETURN_IF_ERROR(status_of(tessera_pipeline_open(runtime, model, nullptr, &pipeline)));
      TESSERA_RETURN_IF_ERROR(status_of(tessera_stream_open(pipeline, &stream)));
      static const std::vector<float> zeros(192, 0.0f);
      static constexpr std::int64_t kDims[] = {1, 3, 8, 8};
      const tessera_tensor input = {TESSERA_F32, 4, kDims, zeros.data(), zeros.size() * 4};
      TESSERA_RETURN_IF_ERROR(status_of(tessera_submit(stream, &input, 1, nullptr, &job)));
      return status_of(tessera_job_wait(job, -1, &result));
    };
    Status status = all();
    tessera_result_release(result);
    tessera_job_release(job);
    tessera_stream_release(stream);
    tessera_pipeline_release(pipeline);
    tessera_model_release(model);
    tessera_runtime_release(runtime);
    tessera_network_release(network);
    return status;
  });
}

}  // namespace
}  // namespace tessera::limits
