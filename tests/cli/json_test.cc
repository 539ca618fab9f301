// The field names of --json are part of the interface.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "command.h"

namespace tessera::cli {
namespace {

nlohmann::json json_of(std::vector<std::string> arguments, int status = 0) {
  arguments.emplace_back("--json");
  const CommandResult result = tessera(arguments);
  EXPECT_EQ(result.status, status) << arguments[0] << ": " << result.err;
  const nlohmann::json json = result.json();
  EXPECT_TRUE(json.is_object()) << arguments[0] << ": " << result.out;
  return json;
}

void expect_fields(const nlohmann::json& json, const std::vector<std::string>& fields) {
  for (const std::string& field : fields) EXPECT_TRUE(json.contains(field)) << field;
}

TEST(Json, RunGivesCyclesPlacementAndOutputs) {
  const nlohmann::json json = json_of({"run", "small.onnx"});
  expect_fields(json, {"model", "arch", "device", "cycles", "clock_hertz", "nodes_on_processor",
                       "nodes_on_host", "host_steps", "notes", "engines", "outputs"});
  EXPECT_GT(json.at("cycles").get<std::int64_t>(), 0);
  EXPECT_EQ(json.at("nodes_on_processor"), 4);
  EXPECT_EQ(json.at("nodes_on_host"), 0);
  ASSERT_EQ(json.at("outputs").size(), 1u);
  EXPECT_EQ(json.at("outputs")[0].at("name"), "y");
  EXPECT_EQ(json.at("outputs")[0].at("format"), "f32");
  EXPECT_EQ(json.at("outputs")[0].at("dims"), nlohmann::json({1, 4, 4, 4}));
}

TEST(Json, RunOnSeveralCoresGivesTheOutputsOfOneAndARowForEachEngine) {
  const std::vector<std::string> options = {"run",          "small.onnx", "--arch",
                                            "tessera128x4", "--input",    "random:3"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = options;
    arguments.insert(arguments.end(), more.begin(), more.end());
    return json_of(arguments);
  };
  with({"--output", "one_core"});
  for (const char* const split : {"auto", "w", "oc"}) {
    const nlohmann::json three =
        with({"--cores", "3", "--split", split, "--check-hazards", "--output", "three_cores"});
    EXPECT_EQ(read_text("three_cores/y.npy"), read_text("one_core/y.npy")) << split;
    EXPECT_EQ(three.at("cores"), 3);
    EXPECT_EQ(three.at("split"), split);
    // The memory's and the broadcast bus's, and those of each core.
    std::vector<int> rows(4, 0);
    for (const auto& engine : three.at("engines")) ++rows.at(engine.at("core").get<int>() + 1);
    EXPECT_EQ(rows, (std::vector<int>{2, 6, 6, 6}));
  }
}

TEST(Json, RunOverGroupsAndCardsGivesTheOutputsOfOneCore) {
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"run",     "small.onnx", "--arch",  "cloud16",
                                          "--input", "random:3",   "--output"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return json_of(arguments);
  };
  with({"cloud_one"});
  for (const char* const cards : {"1", "2"}) {
    const nlohmann::json run = with({"cloud_many", "--cores", "12", "--cards", cards});
    EXPECT_EQ(read_text("cloud_many/y.npy"), read_text("cloud_one/y.npy"));
    EXPECT_EQ(run.at("cards"), std::stoi(cards));
    std::map<std::string, int> kinds;
    for (const auto& engine : run.at("engines")) {
      if (engine.at("core") == -1) ++kinds[engine.at("kind").get<std::string>()];
    }
    const int groups = 4 * std::stoi(cards);
    std::map<std::string, int> expected{{"dram", groups}, {"broadcast", groups}, {"ring", groups}};
    if (groups > 4) expected.insert({{"network_in", 2}, {"network_out", 2}});
    EXPECT_EQ(kinds, expected);
  }
}

TEST(Json, RunOfSeveralNetworksListsThem) {
  const nlohmann::json json =
      json_of({"run", "small.onnx", "host.onnx", "--priority", "0,5", "--arrival", "0,1us",
               "--share", "0.75,0.25", "--input", "small:x=random:7"});
  expect_fields(json, {"arch", "device", "cycles", "clock_hertz", "status_flags",
                       "idle_engine_cycles", "engines"});
  ASSERT_EQ(json.at("networks").size(), 2u);
  std::int64_t end = 0;
  for (const auto& network : json.at("networks")) {
    expect_fields(network, {"model", "priority", "arrival", "end", "cycles", "status", "outputs"});
    EXPECT_EQ(network.at("status"), "ok");
    const auto number = [&network](const char* key) { return network.at(key).get<std::int64_t>(); };
    const std::int64_t lasts = number("end") - number("arrival");
    EXPECT_GE(lasts, number("cycles") + number("host_cycles"));
    EXPECT_LT(lasts, number("cycles") + number("host_cycles") + number("transfer_cycles"));
    EXPECT_EQ(lasts == number("cycles"), number("host_cycles") == 0);
    end = std::max(end, network.at("end").get<std::int64_t>());
  }
  EXPECT_EQ(json.at("cycles").get<std::int64_t>(), end);
  EXPECT_EQ(json.at("networks")[1].at("model"), "host.onnx");
  EXPECT_EQ(json.at("networks")[1].at("priority"), 5);
  EXPECT_EQ(json.at("networks")[1].at("arrival"), 1400);
}

TEST(Json, ANameThatIsNotUtf8StaysJson) {
  prepare();
  write_text("caf\xe9.onnx", read_text("small.onnx"));
  EXPECT_EQ(json_of({"run", "caf\xe9.onnx"}).at("model"), "caf\uFFFD.onnx");
  EXPECT_EQ(tessera({"run", "caf\xe9.onnx", "--html", "caf\xe9.html"}).status, 0);
}

TEST(Json, RunNamesTheHostSteps) {
  const nlohmann::json json = json_of({"run", "host.onnx"});
  EXPECT_EQ(json.at("nodes_on_host"), 1);
  ASSERT_EQ(json.at("host_steps").size(), 1u);
  EXPECT_EQ(json.at("host_steps")[0].at("node"), "best");
  EXPECT_EQ(json.at("host_steps")[0].at("operator"), "Det");
}

TEST(Json, EnginesAccountForEveryCycle) {
  const nlohmann::json json = json_of({"run", "small.onnx"});
  for (const auto& engine : json.at("engines")) {
    EXPECT_EQ(engine.at("busy").get<std::int64_t>() + engine.at("idle").get<std::int64_t>() +
                  engine.at("blocked_dependency").get<std::int64_t>() +
                  engine.at("blocked_memory").get<std::int64_t>() +
                  engine.at("blocked_ports").get<std::int64_t>(),
              json.at("cycles").get<std::int64_t>())
        << engine.at("name");
  }
}

TEST(Json, EachOfSeveralEnginesHasARow) {
  const nlohmann::json json = json_of({"run", "small.onnx", "--arch", "edge"});
  std::int64_t idle = 0;
  int neural = 0;
  for (const auto& engine : json.at("engines")) {
    if (engine.at("kind") == "neural") {
      EXPECT_EQ(engine.at("index"), neural);
      EXPECT_EQ(engine.at("name"), "neural " + std::to_string(neural));
      ++neural;
    } else {
      EXPECT_EQ(engine.at("name"), engine.at("kind"));
      EXPECT_EQ(engine.at("index"), 0);
    }
    if (engine.at("kind") == "neural" || engine.at("kind") == "planar") {
      idle += engine.at("idle").get<std::int64_t>();
    }
  }
  EXPECT_EQ(neural, 8);
  EXPECT_EQ(json.at("idle_engine_cycles").get<std::int64_t>(), idle);
  EXPECT_EQ(json_of({"run", "small.onnx"}).at("engines")[0].at("name"), "neural");
}

TEST(Json, TimingOnlyGivesTheSameCycles) {
  for (const char* model : {"small.onnx", "host.onnx"}) {
    const nlohmann::json values = json_of({"run", model}),
                         timing = json_of({"run", model, "--timing-only"});
    EXPECT_EQ(values.at("cycles"), timing.at("cycles")) << model;
    EXPECT_EQ(values.at("engines"), timing.at("engines")) << model;
  }
}

TEST(Json, HostStepsAndTransfersAreCountedBesideTheCycles) {
  const nlohmann::json counted = json_of({"run", "host.onnx"});
  EXPECT_GE(counted.at("host_cycles"), 14'000);         // 10,000 ns at 1.4 GHz
  EXPECT_GE(counted.at("transfer_cycles"), 4 * 2'800);  // and four times 2,000 ns
  EXPECT_FALSE(counted.contains("not_counted"));
  const nlohmann::json left_out = json_of({"run", "host.onnx", "--no-host-time"});
  EXPECT_EQ(left_out.at("cycles"), counted.at("cycles"));
  EXPECT_EQ(left_out.at("not_counted"), nlohmann::json({"host steps", "transfers"}));
  EXPECT_FALSE(left_out.contains("host_cycles"));
  const nlohmann::json small = json_of({"run", "small.onnx"});
  EXPECT_EQ(small.at("host_cycles"), 0);
}

TEST(Json, VirtualFunctionsAreDevices) {
  const nlohmann::json json = json_of({"bench", "small.onnx", "--device", "sim", "--functions", "4",
                                       "--tasks", "8", "--timing-only"});
  ASSERT_EQ(json.at("devices").size(), 4u);
  EXPECT_EQ(json.at("devices")[2].at("name"), "sim0.2");
  EXPECT_EQ(json.at("devices")[2].at("functions"), 4);
}

TEST(Json, StagesSayWhatTheyWrote) {
  const nlohmann::json compiled = json_of({"compile", "small.onnx", "-o", "json.tpkg"});
  expect_fields(compiled, {"package", "frames", "weights_bytes", "workspace_bytes",
                           "state_buffer_peak_bytes", "nodes_on_processor", "nodes_on_host",
                           "weight_bytes_moved", "weight_bytes_saved"});
  expect_fields(json_of({"link", "json.tpkg", "-o", "json.tprog"}),
                {"program", "tasks", "segments", "stream_bytes", "dependencies",
                 "dependencies_dropped", "weights_bytes", "weights_file"});
  const nlohmann::json package = json_of({"inspect", "json.tpkg"});
  expect_fields(package, {"file", "arch", "frames", "hints", "weights_bytes"});
  EXPECT_EQ(package.at("kind"), "package");
  const nlohmann::json program = json_of({"inspect", "json.tprog"});
  expect_fields(program, {"file", "arch", "tasks", "segments", "dependencies",
                          "dependencies_dropped", "weights_bytes", "weights_file"});
  EXPECT_EQ(program.at("kind"), "program");
  const nlohmann::json listing = json_of({"disasm", "json.tprog"});
  expect_fields(listing, {"file", "tasks", "listing"});
  EXPECT_EQ(listing.at("tasks"), program.at("tasks"));
}

TEST(Json, InspectDescribesAModel) {
  const nlohmann::json json = json_of({"inspect", "host.onnx"});
  EXPECT_EQ(json.at("kind"), "model");
  EXPECT_EQ(json.at("opsets"), nlohmann::json({{"ai.onnx", 13}}));
  EXPECT_EQ(json.at("inputs")[0].at("dims"), nlohmann::json({1, 3, 8, 8}));
  EXPECT_EQ(json.at("outputs")[0].at("format"), "f32");
  EXPECT_EQ(json.at("operators"), nlohmann::json({{"Conv", 1}, {"Det", 1}}));
  EXPECT_EQ(json.at("nodes"), 2);
}

TEST(Json, CompareCountsValuesAndMismatches) {
  const nlohmann::json equal = json_of({"compare", "small.onnx"});
  EXPECT_EQ(equal.at("values_compared"), 640);
  EXPECT_EQ(equal.at("mismatches"), 0);
  EXPECT_FALSE(equal.contains("first_layer"));
  const nlohmann::json fault = json_of({"compare", "small.onnx", "--plant-fault", "conv"}, 1);
  EXPECT_GT(fault.at("mismatches").get<std::int64_t>(), 0);
  EXPECT_EQ(fault.at("first_layer"), "conv");
}

TEST(Json, ReportListsEveryLayer) {
  const nlohmann::json json = json_of({"report", "small.onnx"});
  EXPECT_EQ(json.at("layers").size(), 4u);
  expect_fields(json.at("layers")[1],
                {"name", "kind", "dims", "macs", "begin", "end", "neural", "bound", "array_use"});
  EXPECT_EQ(json.at("layers")[1].at("macs"), 6912);  // 4 x 8 x 8 outputs of 3 x 3 x 3
  EXPECT_EQ(json.at("cycles"), json_of({"run", "small.onnx"}).at("cycles"));
}

TEST(Json, ReportSaysWhatCompressionAndReductionSave) {
  const nlohmann::json report = json_of({"report", "small.onnx"});
  const nlohmann::json compiled = json_of({"compile", "small.onnx", "-o", "saved.tpkg"});
  const nlohmann::json linked = json_of({"link", "saved.tpkg", "-o", "saved.tprog"});
  EXPECT_EQ(report.at("weight_bytes_saved"), compiled.at("weight_bytes_saved"));
  for (const char* name :
       {"dependencies", "dependencies_dropped", "dependencies_dropped_at_link"}) {
    EXPECT_EQ(report.at(name), linked.at(name)) << name;
  }
  EXPECT_THAT(tessera({"report", "small.onnx"}).out,
              ::testing::HasSubstr("redundant ones dropped: "));
}

TEST(Json, ReportSaysHowFullTheStateBufferIs) {
  const nlohmann::json use = json_of({"report", "small.onnx"}).at("state_buffer");
  expect_fields(use, {"peak", "bytes_per_partition", "lower_bound", "tightest", "gap", "found_by",
                      "search_steps", "proved"});
  EXPECT_LE(use.at("lower_bound"), use.at("tightest"));
  EXPECT_LE(use.at("tightest"), use.at("bytes_per_partition"));
}

TEST(Json, MinBufferGivesTheCurve) {
  const nlohmann::json json =
      json_of({"report", "small.onnx", "--min-buffer", "--html", "buffer.html"});
  expect_fields(json, {"model", "arch", "min_buffer_bytes_per_partition", "partitions", "points"});
  ASSERT_GE(json.at("points").size(), 2u);
  const nlohmann::json& own = json.at("points").front();
  expect_fields(
      own, {"bytes_per_partition", "cycles", "dram_bytes", "spilled_tensors", "spilled_bytes"});
  EXPECT_EQ(own.at("bytes_per_partition"), 196608);
  EXPECT_EQ(own.at("spilled_tensors"), 0);
  EXPECT_NE(read_text("buffer.html").find("<svg"), std::string::npos);
}

TEST(Json, MinBufferRefusesABudget) {
  const CommandResult result =
      tessera({"report", "small.onnx", "--min-buffer", "--tile-budget", "4096"});
  EXPECT_NE(result.status, 0);
  EXPECT_NE(result.err.find("--min-buffer asks what the compiler can do by itself; leave out "
                            "--tile-budget and --through-dram"),
            std::string::npos)
      << result.err;
}

TEST(Json, ReportListsEveryTransposition) {
  using model::testing::Ints;
  prepare();
  model::testing::ModelBuilder model(13);
  const auto window = [](std::int64_t extent) {
    return model::Attributes{{"kernel_shape", Ints{extent, extent}}};
  };
  model.input("x", Format::kF32, {1, 3, 8, 8})
      .node("MaxPool", {"x"}, {"a"}, window(2), "first")
      .node("Transpose", {"a"}, {"b"}, {{"perm", Ints{0, 3, 1, 2}}}, "turn")
      .node("MaxPool", {"b"}, {"y"}, window(2), "second")
      .output("y", Format::kF32, {1, 7, 2, 6});
  write_text("turned.onnx", model.bytes());
  const nlohmann::json json = json_of({"report", "turned.onnx"});
  const nlohmann::json& list = json.at("transpositions");
  const auto found = std::find_if(list.begin(), list.end(), [](const nlohmann::json& entry) {
    return entry.at("reader") == "second";
  });
  ASSERT_NE(found, list.end());
  const nlohmann::json& turned = *found;
  expect_fields(turned, {"tensor", "reader", "layer", "way", "cycles", "measured_cycles",
                         "dram_bytes", "next_way", "next_cycles", "matrices"});
  EXPECT_EQ(turned.at("way"), "planar");  // seven matrices of 3 x 7: in 7 columns, out 3 rows
  EXPECT_EQ(turned.at("channels"), 3);
  EXPECT_EQ(turned.at("columns"), 7);
  EXPECT_EQ(turned.at("matrices"), 7);
  EXPECT_EQ(turned.at("cycles"), 16 + 7 * (7 + 3) + 12);
  EXPECT_EQ(turned.at("dram_bytes"), 0);
  EXPECT_GT(turned.at("next_cycles"), turned.at("cycles"));
}

TEST(Json, BenchGivesSecondsAndCycles) {
  const nlohmann::json json =
      json_of({"bench", "small.onnx", "--suite", "devices", "--repeat", "1"});
  expect_fields(json, {"model", "repeat", "devices", "sim_per_host", "values_per_timing_only"});
  EXPECT_EQ(json.at("repeat"), 1);
  EXPECT_EQ(json.at("devices")[1].at("cycles"), json.at("devices")[2].at("cycles"));
}

TEST(Json, DoctorListsItsChecks) {
  const nlohmann::json json = json_of({"doctor"});
  EXPECT_EQ(json.at("ok"), true);
  for (const auto& check : json.at("checks")) EXPECT_EQ(check.at("ok"), true) << check.at("check");
}

// A test folder with the model y = relu(x) over 4 values, or another operator.
void write_conform_test(const std::string& folder, const std::string& operator_name,
                        std::vector<float> expected) {
  using model::testing::ModelBuilder;
  ModelBuilder builder(13);
  builder.input("x", Format::kF32, {4}).node(operator_name, {"x"}, {"y"}).output("y");
  write_text(folder + "/model.onnx", builder.bytes());
  Tensor x = Tensor::zeros(Format::kF32, {4}), y = x;
  const float values[] = {-2, -0.5f, 0.25f, 3};
  std::copy(std::begin(values), std::end(values), x.as<float>().begin());
  std::copy(expected.begin(), expected.end(), y.as<float>().begin());
  const auto save = [&folder](const char* name, const Tensor& tensor) {
    write_text(folder + "/test_data_set_0/" + name,
               model::testing::tensor_proto(name, tensor).SerializeAsString());
  };
  save("input_0.pb", x);
  save("output_0.pb", y);
}

TEST(Conform, FullOffloadRefusesATestWithAHostStep) {
  prepare();
  write_conform_test("offload/whole", "Relu", {0, 0, 0.25f, 3});
  write_conform_test("offload/host", "Shrink", {-2, 0, 0, 3});
  EXPECT_EQ(json_of({"conform", "offload"}).at("passed"), 2);
  const nlohmann::json json = json_of({"conform", "offload", "--require-full-offload"});
  EXPECT_EQ(json.at("passed"), 1);
  EXPECT_EQ(json.at("refused"), 1);
  EXPECT_EQ(json.at("tests")[0].at("reason"), "host steps: 1; full offload is required");
}

TEST(Conform, CountsPassedRefusedAndWrong) {
  prepare();
  write_conform_test("conform/right", "Relu", {0, 0, 0.25f, 3});
  write_conform_test("conform/strange", "Wobble", {0, 0, 0, 0});
  nlohmann::json json = json_of({"conform", "conform"});
  EXPECT_EQ(json.at("passed"), 1);
  EXPECT_EQ(json.at("refused"), 1);
  EXPECT_EQ(json.at("wrong"), 0);
  EXPECT_EQ(json.at("tests").size(), 2u);
  EXPECT_EQ(json.at("refusals").at("(Wobble): operator is not known"), 1);
  write_conform_test("conform/wrong", "Relu", {0, 0, 0.25f, 4});
  json = json_of({"conform", "conform"}, 1);
  EXPECT_EQ(json.at("passed"), 1);
  EXPECT_EQ(json.at("wrong"), 1);
  const CommandResult text = tessera({"conform", "conform"});
  EXPECT_EQ(text.status, 1);
  EXPECT_THAT(
      text.out,
      ::testing::HasSubstr(
          "     1 refused: (Wobble): operator is not known\n"
          "3 tests: 1 passed, 1 refused, 1 wrong\n"
          "of those that passed, 0 have host steps, and 0 have inputs bound at compile time\n"
          "because a shape depends on them\n"));
  EXPECT_EQ(text.err, "tessera conform: 1 tests gave wrong results   [internal]\n");
}

}  // namespace
}  // namespace tessera::cli
