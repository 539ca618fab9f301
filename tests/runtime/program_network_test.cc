// Networks from memory, and linked programs in place of packages.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <span>

#include "arch/architecture_file.h"
#include "compile/testing/random_graph.h"
#include "link/link.h"
#include "model/testing/model_builder.h"
#include "network/network.h"
#include "package/container.h"
#include "tessera/file.h"
#include "tessera/runtime.h"

namespace tessera {
namespace {

using compile::testing::GraphBuilder;

constexpr const char* kRelu = "/usr/share/libonnx-testdata/data/node/test_relu/model.onnx";

Network small_network() {
  GraphBuilder builder(11);
  const graph::TensorId x = builder.input({1, 5, 12, 12});
  graph::TensorId y = builder.conv(x, {.output_channels = 12, .kernel = 3, .pad = 1});
  y = builder.pool(y, PoolFunction::kMaximum, 2, 2, 0);
  builder.output(builder.conv(y, {.output_channels = 7, .kernel = 3, .stride = 2, .pad = 1}));
  return network::network_from_graph(builder.take(), *load_chip_config("tessera128"), {}).value();
}

std::vector<std::byte> linked(const Network& network) {
  const NetworkState& state = network.state();
  return package::serialise(link::link(state.package, state.chip).value());
}

std::vector<Tensor> some_inputs(const Network& network) {
  std::vector<Tensor> inputs;
  for (const TensorDescription& wanted : network.inputs()) {
    Tensor& tensor = inputs.emplace_back(Tensor::zeros(wanted.format, wanted.dims));
    for (std::size_t i = 0; i < tensor.bytes.size(); ++i) {
      tensor.bytes[i] = static_cast<std::byte>(i * 37 % 59);
    }
  }
  return inputs;
}

RunResult run(const Network& network, DeviceKind device) {
  auto session = Session::open(network, {.device = device});
  EXPECT_TRUE(session.ok()) << session.error().message;
  return session->run(some_inputs(network)).value();
}

TEST(ProgramNetwork, GivesTheBitsAndCyclesOfItsPackage) {
  const Network package = small_network();
  const std::string path = testing::TempDir() + "program_network_test.tprog";
  ASSERT_TRUE(write_file(path, linked(package)).ok());
  const Network program = Network::load(path).value();
  ASSERT_EQ(program.inputs().size(), 1U);
  EXPECT_EQ(program.inputs()[0].name, package.inputs()[0].name);
  EXPECT_EQ(program.inputs()[0].dims, package.inputs()[0].dims);
  EXPECT_EQ(program.outputs()[0].format, package.outputs()[0].format);
  EXPECT_EQ(program.placement().nodes_on_processor, package.placement().nodes_on_processor);
  EXPECT_EQ(program.placement().nodes_on_host, 0);
  for (const DeviceKind device : {DeviceKind::kSim, DeviceKind::kHost, DeviceKind::kRef}) {
    const RunResult expected = run(package, device);
    const RunResult found = run(program, device);
    EXPECT_EQ(found.outputs, expected.outputs) << device_kind_name(device);
    EXPECT_EQ(found.cycles, expected.cycles) << device_kind_name(device);
  }
  std::filesystem::remove(path);
}

TEST(ProgramNetwork, FlowsThroughAPipelineOfAllDevices) {
  const Network package = small_network();
  const Network program = Network::load_bytes(linked(package)).value();
  const std::vector<Tensor> expected = run(package, DeviceKind::kRef).outputs;
  Runtime runtime =
      Runtime::open({.devices = {{.kind = DeviceKind::kHost},
                                 {.kind = DeviceKind::kSim},
                                 {.kind = DeviceKind::kSim, .name = "paced", .pace = 1000}}})
          .value();
  Pipeline pipeline = runtime.open_pipeline(runtime.load(program).value()).value();
  pipeline.set_debug({.mode = DebugMode::kBoth});
  Stream stream = pipeline.open_stream();
  std::vector<Job> jobs;
  for (int i = 0; i < 12; ++i) {
    jobs.push_back(stream.submit_when_room(some_inputs(program)).value());
  }
  for (Job& job : jobs) {
    const TaskOutcome outcome = job.wait();
    ASSERT_TRUE(outcome.ok()) << outcome.error().error.message;
    EXPECT_EQ(outcome.result().outputs(), expected);
  }
  EXPECT_EQ(pipeline.status().mismatches, 0);
}

// A model with a step that the processor does not do.
Network network_with_host_step() {
  model::testing::ModelBuilder builder;
  builder.input("x", Format::kF32, {3, 2, 2})
      .node("Relu", {"x"}, {"r"})
      .node("Det", {"r"}, {"y"})
      .output("y");
  const std::string text = builder.bytes();
  return Network::load_bytes(std::as_bytes(std::span(text))).value();
}

TEST(ProgramNetwork, TakesItsHostSteps) {
  const Network package = network_with_host_step();
  ASSERT_EQ(package.placement().nodes_on_host, 1);
  const std::vector<std::byte> bytes = linked(package);
  const Network program = Network::load_bytes(bytes).value();
  EXPECT_EQ(program.placement().nodes_on_host, 1);
  EXPECT_EQ(program.placement().host_steps[0].operator_name, "Det");
  for (const DeviceKind device : {DeviceKind::kSim, DeviceKind::kHost, DeviceKind::kRef}) {
    EXPECT_EQ(run(program, device).outputs, run(package, device).outputs)
        << device_kind_name(device);
  }
  const auto refused = Network::load_bytes(bytes, {.require_full_offload = true}, "det");
  ASSERT_FALSE(refused.ok());
  EXPECT_TRUE(refused.error().message.starts_with("'det': node '"));
  EXPECT_TRUE(refused.error().message.ends_with("and full offload is required"))
      << refused.error().message;
}

TEST(NetworkFromMemory, IsThatOfTheFile) {
  const std::vector<std::byte> model = read_file(kRelu).value();
  const RunResult expected = run(Network::load(kRelu).value(), DeviceKind::kSim);
  std::vector<std::byte> passing = model;
  const Network network = Network::load_bytes(passing).value();
  std::fill(passing.begin(), passing.end(), std::byte{0xEE});
  const RunResult found = run(network, DeviceKind::kSim);
  EXPECT_EQ(found.outputs, expected.outputs);
  EXPECT_EQ(found.cycles, expected.cycles);
  const Network package = small_network();
  const std::vector<std::byte> bytes = package::serialise(package.state().package);
  EXPECT_EQ(run(Network::load_bytes(bytes).value(), DeviceKind::kSim).outputs,
            run(package, DeviceKind::kSim).outputs);
}

std::string error_of(const std::string& text, const LoadOptions& options = {},
                     const std::string& name = "memory") {
  const auto network = Network::load_bytes(std::as_bytes(std::span(text)), options, name);
  return network.ok() ? "" : network.error().to_string();
}

TEST(NetworkFromMemory, FindsDataBelowTheFolderAlone) {
  model::testing::ModelBuilder builder;
  builder.input("x", Format::kF32, {2}).node("Add", {"x", "w"}, {"y"}).output("y");
  onnx::TensorProto& tensor = *builder.graph().add_initializer();
  tensor.set_name("w");
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  tensor.add_dims(2);
  tensor.set_data_location(onnx::TensorProto::EXTERNAL);
  auto& location = *tensor.add_external_data();
  location.set_key("location");
  location.set_value("memory_w.bin");
  const std::string model = builder.bytes();
  EXPECT_EQ(error_of(model),
            "importing 'memory': initializer 'w': external data: 'memory_w.bin' cannot be read, "
            "because the model did not come from a folder; give one (LoadOptions::folder)   "
            "[invalid model]");
  const std::string folder = testing::TempDir();
  const float weights[] = {1, 2};
  ASSERT_TRUE(write_file(folder + "/memory_w.bin", std::as_bytes(std::span(weights))).ok());
  EXPECT_EQ(error_of(model, {.folder = folder}), "");
  location.set_value("../" + std::filesystem::path(folder).filename().string() + "/memory_w.bin");
  EXPECT_NE(error_of(builder.bytes(), {.folder = folder}), "");
  std::filesystem::remove(folder + "/memory_w.bin");
}

TEST(NetworkFromMemory, FirmwareTextFindsFilesBelowTheFolderAlone) {
  const std::string text =
      "; weights in a file\n"
      "firmware 1\narch \"brainwave\"\n\nmatrix w [10, 64] in matrix = file \"w.bin\" f32\n";
  EXPECT_EQ(error_of(text),
            "memory:5:36: 'w.bin' cannot be read, because the text did not come from a folder; "
            "give one (LoadOptions::folder)   [invalid model]");
  const std::string folder = testing::TempDir() + "firmware_text_folder";
  std::filesystem::create_directory(folder);
  const std::vector<float> weights(640, 0.5F);
  ASSERT_TRUE(write_file(folder + "/w.bin", std::as_bytes(std::span(weights))).ok());
  // What is wrong now is something else.
  EXPECT_EQ(error_of(text, {.folder = folder}).find("'w.bin'"), std::string::npos);
  std::filesystem::remove_all(folder);
}

TEST(NetworkFromMemory, DamageAndRubbishAreErrors) {
  EXPECT_NE(error_of(""), "");
  EXPECT_NE(error_of(std::string(64, '\xEE'), {}, "post").find("'post'"), std::string::npos);
  EXPECT_NE(error_of("firmware 1\nrubbish\n"), "");
  EXPECT_NE(error_of("program 1\nrubbish\n"), "");
  const Network network = small_network();
  for (const std::vector<std::byte>& whole :
       {package::serialise(network.state().package), linked(network)}) {
    for (std::size_t at = 0; at < whole.size(); at += whole.size() / 23) {
      std::vector<std::byte> damaged = whole;
      damaged[at] ^= std::byte{0x10};
      EXPECT_FALSE(Network::load_bytes(damaged).ok()) << at;
      damaged.resize(at);
      EXPECT_FALSE(Network::load_bytes(damaged).ok()) << at;
    }
  }
}

TEST(ProgramNetwork, SaysOnTheHostWhatNoGraphCan) {
  GraphBuilder builder(5);
  const graph::TensorId x = builder.input({1, 64, 32, 32}, Format::kF32);
  builder.output(builder.conv(builder.unary(x, UnaryFunction::kIdentity), {8, 1}));
  const ChipConfig chip = load_chip_config("edge").value();
  const Network package =
      network::network_from_graph(builder.take(), chip, {.compress_weights = false}).value();
  isa::Program program = link::link(package.state().package, chip).value();
  for (isa::TaskDescriptor& task : program.tasks) {
    auto* const kernel = std::get_if<isa::KernelTask>(&task.config);
    if (kernel != nullptr) kernel->source = {isa::BaseIndex::kInput, 0};
  }
  const Network network = network::network_from_program(std::move(program), "odd", "").value();
  for (const DeviceKind device : {DeviceKind::kHost, DeviceKind::kRef}) {
    const auto session = Session::open(network, {.device = device});
    ASSERT_FALSE(session.ok());
    const std::string& message = session.error().message;
    EXPECT_NE(message.find("'odd' is a program, whose layers are to be read out of it: "),
              std::string::npos)
        << message;
    EXPECT_NE(message.find("loads a kernel from another region than the weights"),
              std::string::npos)
        << message;
  }
}

// Of a processor that has matrices in blocks at its edges: the application sees none of it.
TEST(ProgramNetwork, LiesInTheBlocksOfItsArchitecture) {
  const std::string arch = testing::TempDir() + "program_network_blocks.toml";
  const std::string text = "[dram]\nedge_block_rows = 32\nedge_block_columns = 64\n";
  ASSERT_TRUE(write_file(arch, std::as_bytes(std::span(text))).ok());
  const auto network_for = [](const std::string& architecture) {
    GraphBuilder builder(11);
    const graph::TensorId x = builder.input({1, 5, 12, 70});
    builder.output(builder.conv(x, {.output_channels = 12, .kernel = 3, .pad = 1}));
    return network::network_from_graph(builder.take(), *load_chip_config(architecture), {}).value();
  };
  const Network package = network_for(arch), dense = network_for("tessera128");
  const std::vector<std::byte> bytes = linked(package);
  const Network program = Network::load_bytes(bytes, {.arch = arch}).value();
  EXPECT_EQ(program.inputs()[0].dims, dense.inputs()[0].dims);
  EXPECT_EQ(program.outputs()[0].dims, dense.outputs()[0].dims);
  for (const DeviceKind device : {DeviceKind::kSim, DeviceKind::kHost, DeviceKind::kRef}) {
    EXPECT_EQ(run(program, device).outputs, run(dense, DeviceKind::kRef).outputs);
    EXPECT_EQ(run(program, device).cycles, run(package, device).cycles);
  }
  Runtime runtime = Runtime::open({.devices = {{.kind = DeviceKind::kSim, .arch = arch}}}).value();
  Pipeline pipeline = runtime.open_pipeline(runtime.load(program).value()).value();
  const TaskOutcome outcome = pipeline.open_stream().submit(some_inputs(program))->wait();
  ASSERT_TRUE(outcome.ok()) << outcome.error().error.message;
  EXPECT_EQ(outcome.result().outputs(), run(dense, DeviceKind::kRef).outputs);
  // Packages keep it, too.
  const std::string path = testing::TempDir() + "program_network_blocks.tpkg";
  ASSERT_TRUE(package.save_package(path).ok());
  const Network loaded = Network::load(path, {.arch = arch}).value();
  EXPECT_EQ(loaded.inputs()[0].dims, dense.inputs()[0].dims);
  EXPECT_EQ(run(loaded, DeviceKind::kSim).outputs, run(dense, DeviceKind::kRef).outputs);
  EXPECT_FALSE(Network::load(path).ok());
  std::filesystem::remove(path);
  std::filesystem::remove(arch);
}

TEST(ProgramNetwork, RefusesOptionsOfAModel) {
  const std::vector<std::byte> bytes = linked(small_network());
  const auto refused = Network::load_bytes(bytes, {.shapes = {{"x", {1}}}}, "small");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().to_string(),
            "'small' is a program, which is compiled already; LoadOptions::shapes is for models   "
            "[invalid argument]");
}

}  // namespace
}  // namespace tessera
