// Several cores in the verbs.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <set>

#include "command.h"

namespace tessera::cli {
namespace {

using ::testing::HasSubstr;

nlohmann::json json_of_cores(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--arch", "cloud16", "--json"});
  const CommandResult result = tessera(arguments);
  EXPECT_EQ(result.status, 0) << arguments[0] << ": " << result.err;
  return result.json();
}

// split, before, movement and weights of a layer.
std::vector<std::string> split_of(const nlohmann::json& layer) {
  return {layer.at("split"), layer.at("before").empty() ? "" : layer.at("before")[0],
          layer.at("movement"), layer.at("weights")};
}

TEST(SeveralCores, ReportNamesTheSplitOfEachLayerAndWhatMovesForIt) {
  const nlohmann::json rows =
      json_of_cores({"report", "small.onnx", "--cores", "4", "--split", "w"});
  EXPECT_EQ(rows.at("cores"), 4);
  EXPECT_EQ(rows.at("cards"), 1);
  EXPECT_EQ(rows.at("split"), "w");
  ASSERT_EQ(rows.at("layers").size(), 4u);
  using Split = std::vector<std::string>;
  EXPECT_EQ(split_of(rows.at("layers")[0]), (Split{"rows", "input", "", ""}));
  EXPECT_EQ(split_of(rows.at("layers")[1]), (Split{"rows", "rows", "edges", "full broadcast"}));
  EXPECT_EQ(split_of(rows.at("layers")[2]), (Split{"rows", "rows", "edges", ""}));
  EXPECT_EQ(split_of(rows.at("layers")[3]), (Split{"rows", "rows", "own part", ""}));
  const nlohmann::json channels =
      json_of_cores({"report", "small.onnx", "--cores", "4", "--split", "oc"});
  EXPECT_EQ(split_of(channels.at("layers")[1]),
            (Split{"channels", "channels", "full forward, full broadcast", "own part"}));
  EXPECT_EQ(split_of(channels.at("layers")[2]), (Split{"channels", "channels", "own part", ""}));
}

// As a card without hand-over does it, and in the words of the text.
TEST(SeveralCores, ReportSaysWhyResultsWentThroughMemory) {
  write_text("through_memory.toml",
             read_text(TESSERA_CLOUD16) + "\n[card_features]\nhand_over = 0\n");
  const std::vector<std::string> report = {
      "report", "small.onnx", "--cores", "4", "--split", "w", "--arch", "through_memory.toml"};
  std::vector<std::string> with_json = report;
  with_json.emplace_back("--json");
  const CommandResult rows = tessera(with_json);
  ASSERT_EQ(rows.status, 0) << rows.err;
  const nlohmann::json layers = rows.json().at("layers");
  EXPECT_EQ(layers[0].at("movement"), "");
  EXPECT_EQ(layers[1].at("movement"), "edges through memory (switched off)");
  EXPECT_EQ(layers[2].at("movement"), "edges through memory (switched off)");
  EXPECT_EQ(layers[3].at("movement"), "own part through memory (switched off)");
  const CommandResult text = tessera(report);
  ASSERT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("  edges, memory  "));
  EXPECT_THAT(text.out, HasSubstr("\n0 layers read results that stay in the state buffers\n"));
  EXPECT_THAT(text.out, HasSubstr("\n  through memory, read by '" +
                                  layers[3].at("name").get<std::string>() + "': switched off\n"));
  const CommandResult stays =
      tessera({"report", "small.onnx", "--arch", "cloud16", "--cores", "4", "--split", "w"});
  EXPECT_THAT(stays.out, HasSubstr("\n3 layers read results that stay in the state buffers\n"));
}

TEST(SeveralCores, TheLayersOfAReportAddUpToItsCyclesAndItsMemories) {
  const nlohmann::json report =
      json_of_cores({"report", "small.onnx", "--cores", "8", "--cards", "2", "--split", "w"});
  const auto number = [](const nlohmann::json& of, const char* key) {
    return of.at(key).get<std::int64_t>();
  };
  std::int64_t cycles = 0, dram = 0, network = 0;
  for (const auto& layer : report.at("layers")) {
    cycles += number(layer, "cycles");
    dram += number(layer, "dram_bytes_read") + number(layer, "dram_bytes_written");
    network += number(layer, "network_bytes");
  }
  EXPECT_EQ(cycles, number(report, "cycles"));
  EXPECT_EQ(dram, number(report, "dram_bytes"));
  EXPECT_EQ(network, number(report, "network_bytes"));
  EXPECT_GT(network, 0);
  std::int64_t asked = 0;
  for (const auto& engine : report.at("engines")) {
    if (engine.at("core") == -1 || engine.at("kind") == "task_manager") continue;
    asked += number(engine, "dram_bytes_read") + number(engine, "dram_bytes_written");
  }
  EXPECT_EQ(dram + number(report, "merged_bytes"), asked);
  EXPECT_EQ(report.at("cycles"), json_of_cores({"run", "small.onnx", "--cores", "8", "--cards", "2",
                                                "--split", "w", "--timing-only"})
                                     .at("cycles"));
  EXPECT_EQ(report.at("places").size(), 8u);
  EXPECT_EQ(report.at("places")[5], nlohmann::json({{"card", 1}, {"group", 5}, {"number", 20}}));
}

TEST(SeveralCores, ReportSaysWhatTheOtherSplitWouldHaveTaken) {
  const auto report_of = [](const char* split) {
    return json_of_cores({"report", "small.onnx", "--cores", "4", "--split", split});
  };
  const nlohmann::json rows = report_of("w"), channels = report_of("oc"), best = report_of("auto");
  for (std::size_t i = 0; i < 4; ++i) {
    const nlohmann::json& of_rows = rows.at("layers")[i];
    const nlohmann::json& of_channels = channels.at("layers")[i];
    ASSERT_EQ(of_rows.at("split"), "rows");
    ASSERT_EQ(of_channels.at("split"), "channels");
    EXPECT_EQ(of_rows.at("other"),
              nlohmann::json({{"split", "channels"}, {"cycles", of_channels.at("cycles")}}));
    EXPECT_EQ(of_channels.at("other"),
              nlohmann::json({{"split", "rows"}, {"cycles", of_rows.at("cycles")}}));
    const nlohmann::json& of_best = best.at("layers")[i];
    if (of_best.at("split") == "one core") continue;
    EXPECT_EQ(of_best.at("other"),
              of_best.at("split") == "rows" ? of_rows.at("other") : of_channels.at("other"));
  }
  EXPECT_EQ(best.at("others"), nlohmann::json({{"w", {{"cycles", rows.at("cycles")}}},
                                               {"oc", {{"cycles", channels.at("cycles")}}}}));
}

// A network that is too small for all of them.
TEST(SeveralCores, CoresThatWouldOnlyWaitHaveNoWork) {
  const nlohmann::json run =
      json_of_cores({"run", "small.onnx", "--cores", "8", "--cards", "2", "--timing-only"});
  EXPECT_EQ(run.at("cores"), 8);
  EXPECT_EQ(run.at("cores_with_work"), 4);
  const nlohmann::json rows = json_of_cores(
      {"run", "small.onnx", "--cores", "8", "--cards", "2", "--split", "w", "--timing-only"});
  EXPECT_EQ(rows.at("cores_with_work"), 8);
  EXPECT_LT(run.at("cycles"), rows.at("cycles"));
  const CommandResult text =
      tessera({"run", "small.onnx", "--arch", "cloud16", "--cores", "8", "--timing-only"});
  EXPECT_THAT(text.out, HasSubstr("2 of 8 cores have work; more would wait for each other "
                                  "longer than they save"));
}

TEST(SeveralCores, ReportPrintsLayersCoresAndWires) {
  const CommandResult report = tessera({"report", "small.onnx", "--arch", "cloud16", "--cores", "8",
                                        "--cards", "2", "--split", "w"});
  EXPECT_EQ(report.status, 0) << report.err;
  EXPECT_THAT(report.out, HasSubstr("\nlayers: rows 4\n"));
  EXPECT_THAT(report.out, HasSubstr("\nring 7 to 4 "));
  EXPECT_THAT(report.out, HasSubstr("\nnetwork from card 0 "));
  EXPECT_THAT(report.out, HasSubstr(" cycles on 8 cores of 2 cards, split w: "));
  std::size_t longest = 0;
  for (std::size_t at = 0; at < report.out.size();) {
    const std::size_t end = report.out.find('\n', at);
    longest = std::max(longest, end - at);
    at = end + 1;
  }
  EXPECT_LE(longest, 110u);
}

int times(const std::string& text, const std::string& part) {
  int count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(SeveralCores, ThePageOfARunHasAPictureOfTheCardsAndARowForEachEngineOfEachCore) {
  for (const std::string verb : {"run", "report"}) {
    const CommandResult run = tessera({verb, "small.onnx", "--arch", "cloud16", "--cores", "8",
                                       "--cards", "2", "--split", "w", "--html", "cards.html"});
    ASSERT_EQ(run.status, 0) << run.err;
    EXPECT_THAT(run.out, HasSubstr("wrote cards.html\n"));
    const std::string page = read_text("cards.html");
    EXPECT_EQ(times(page, "<svg "), 1);
    EXPECT_EQ(times(page, ">memory "), 8);
    EXPECT_EQ(times(page, "<title>core "), 8);
    EXPECT_EQ(times(page, "<title>ring "), 8);
    EXPECT_EQ(times(page, "<title>network, card "), 4);
    EXPECT_THAT(page, HasSubstr("\"names\":{\"engines\":[\"core 0 neural\",\"core 0 planar\","));
    EXPECT_THAT(page, HasSubstr("\"core 7 kernel\",\"dram 0\","));
    EXPECT_THAT(page, HasSubstr("\"network_in 1\"]"));
    EXPECT_THAT(page, HasSubstr("\"movement\":\"edges through memory ("));
    EXPECT_EQ(times(page, "http"), 0);  // nothing is fetched
  }
}

// What is on a wire at once, and how many bytes of data all of it is.
std::int64_t check_wire(const std::string& name, std::vector<nlohmann::json> bars) {
  std::ranges::sort(bars, {}, [](const auto& bar) {
    return bar.at("args").at("begin_cycle").template get<int>();
  });
  std::int64_t bytes = 0, until = 0;
  for (const nlohmann::json& bar : bars) {
    const nlohmann::json& about = bar.at("args");
    EXPECT_GE(about.at("begin_cycle"), until) << name;
    EXPECT_GE(about.at("end_cycle"), about.at("begin_cycle")) << name;
    until = about.at("end_cycle");
    bytes += about.value("bytes", std::int64_t{0});
    EXPECT_EQ(bar.at("name") != "", about.value("core", -1) >= 0) << name;
  }
  return bytes;
}

TEST(SeveralCores, ATraceHasWhatEachChannelAndWireDidForWhom) {
  const CommandResult run =
      tessera({"run", "small.onnx", "--arch", "cloud16", "--cores", "8", "--cards", "2", "--split",
               "w", "--trace", "cards.json", "--json"});
  ASSERT_EQ(run.status, 0) << run.err;
  const auto trace = nlohmann::json::parse(read_text("cards.json"));
  std::map<int, std::string> rows;
  std::map<std::string, std::vector<nlohmann::json>> bars;
  for (const nlohmann::json& event : trace.at("traceEvents")) {
    if (event.value("name", "") == "thread_name") {
      rows[event.at("tid")] = event.at("args").at("name");
    } else if (event.at("ph") == "X") {
      bars[rows.at(event.at("tid"))].push_back(event);
    }
  }
  int channels = 0;
  const nlohmann::json result = run.json();
  for (const nlohmann::json& engine : result.at("engines")) {
    const std::string name = engine.at("name");
    if (name.starts_with("core ")) continue;
    const std::int64_t busy = engine.at("busy"), bytes = check_wire(name, bars[name]);
    EXPECT_EQ(bars[name].empty(), busy == 0) << name;
    if (!name.starts_with("dram")) continue;
    // Whole bursts of 64 bytes, of each request.
    const std::int64_t bursts = engine.at("dram_bytes_read").get<std::int64_t>() +
                                engine.at("dram_bytes_written").get<std::int64_t>();
    EXPECT_LE(bytes, bursts) << name;
    EXPECT_GE(bytes, bursts - 64 * engine.at("steps").get<std::int64_t>()) << name;
    ++channels;
  }
  EXPECT_EQ(channels, 8);
  EXPECT_FALSE(bars["network_out 0"].empty());
  EXPECT_FALSE(bars["network_in 1"].empty());
}

// The kinds of a report's waits, which are no more than what the rows of its engines say.
std::set<std::string> check_waits(const nlohmann::json& report) {
  std::map<std::string, std::int64_t> blocked;                 // of engines
  std::map<std::int64_t, std::int64_t> for_shares, of_shares;  // by core
  for (const nlohmann::json& engine : report.at("engines")) {
    blocked[engine.at("name")] = engine.at("blocked_dependency");
    for_shares[engine.at("core")] += engine.value("share_cycles", std::int64_t{0});
  }
  std::set<std::string> kinds;
  std::int64_t before = std::numeric_limits<std::int64_t>::max();
  for (const nlohmann::json& wait : report.at("waits")) {
    const std::string kind = wait.at("kind"), who = wait.at("who"), what = wait.at("what");
    const std::int64_t cycles = wait.at("cycles");
    EXPECT_GT(cycles, 0);
    EXPECT_LE(cycles, before);
    before = cycles;
    kinds.insert(kind);
    if (kind == "core") {
      blocked.at(who) -= cycles;
      EXPECT_NE(wait.at("core"), wait.at("other"));
      EXPECT_EQ(what, fmt::format("core {}", wait.at("other").get<int>()));
    } else if (kind == "link") {
      EXPECT_EQ(who, fmt::format("core {}", wait.at("core").get<int>()));
      EXPECT_TRUE(blocked.contains(what)) << what;  // a row
    } else if (who.starts_with("core ")) {
      of_shares[wait.at("core")] += cycles;
      EXPECT_NE(wait.at("core"), wait.at("other"));
      EXPECT_NE(wait.at("layer"), "");
    } else {
      EXPECT_THAT(who, testing::StartsWith("group "));
      EXPECT_THAT(what, testing::StartsWith("group "));
    }
  }
  for (const auto& [name, cycles] : blocked) EXPECT_GE(cycles, 0) << name;
  std::erase_if(for_shares, [](const auto& core) { return core.second == 0; });
  EXPECT_EQ(of_shares, for_shares);
  return kinds;
}

// Who waited for which core, share or link: the same in report, run, page and trace.
TEST(SeveralCores, WaitsAreNamedAndAddUpToTheRows) {
  std::set<std::string> kinds;
  for (const std::string split : {"w", "oc"}) {
    const auto with_cores = [&split](std::vector<std::string> arguments) {
      for (const std::string& more :
           {std::string("--cores"), std::string("16"), std::string("--split"), split}) {
        arguments.push_back(more);
      }
      return arguments;
    };
    const nlohmann::json report = json_of_cores(with_cores({"report", "small.onnx"}));
    kinds.merge(check_waits(report));
    const nlohmann::json run = json_of_cores(
        with_cores({"run", "small.onnx", "--html", "waits.html", "--trace", "waits.json"}));
    EXPECT_EQ(run.at("waits"), report.at("waits"));
    EXPECT_EQ(nlohmann::json::parse(read_text("waits.json")).at("otherData").at("waits"),
              report.at("waits"));
    EXPECT_THAT(read_text("waits.html"), HasSubstr("\"waits\":[{"));
    const CommandResult text = tessera(with_cores({"report", "small.onnx", "--arch", "cloud16"}));
    EXPECT_THAT(text.out,
                HasSubstr("\n" + report.at("waits")[0].at("who").get<std::string>() + " "));
  }
  EXPECT_EQ(kinds, (std::set<std::string>{"core", "link", "share"}));
}

TEST(SeveralCores, EachTeamOfCoresHasAnImageOfItsOwn) {
  const nlohmann::json run =
      json_of_cores({"run", "small.onnx", "--cores", "8", "--cores-per-image", "2", "--input",
                     "random:5", "--check-hazards", "--output", "images"});
  EXPECT_EQ(run.at("cores_per_image"), 2);
  EXPECT_EQ(run.at("images"), 4);
  const double seconds = run.at("cycles").get<double>() / run.at("clock_hertz").get<double>();
  EXPECT_DOUBLE_EQ(run.at("images_per_second").get<double>(), 4 / seconds);
  ASSERT_EQ(run.at("outputs").size(), 4u);
  for (int image = 0; image < 4; ++image) {
    EXPECT_EQ(run.at("outputs")[static_cast<std::size_t>(image)].at("name"),
              fmt::format("y@{}", image));
    json_of_cores({"run", "small.onnx", "--input", fmt::format("x=random:{}", 5 + image),
                   "--output", "image"});
    EXPECT_EQ(read_text(fmt::format("images/y_{}.npy", image)), read_text("image/y.npy")) << image;
  }
  EXPECT_NE(read_text("images/y_0.npy"), read_text("images/y_1.npy"));
  const nlohmann::json one = json_of_cores({"run", "small.onnx", "--cores", "2", "--timing-only"});
  EXPECT_FALSE(one.contains("images"));
  const CommandResult text = tessera({"run", "small.onnx", "--arch", "cloud16", "--cores", "8",
                                      "--cores-per-image", "1", "--timing-only"});
  EXPECT_THAT(text.out, HasSubstr("; 8 images at once, "));
  const nlohmann::json report =
      json_of_cores({"report", "small.onnx", "--cores", "8", "--cores-per-image", "2"});
  EXPECT_EQ(report.at("images"), 4);
  EXPECT_EQ(report.at("cycles"), run.at("cycles"));
}

TEST(SeveralCores, TeamsThatLieInTheGroupsInDifferentWaysGiveTheSameBits) {
  // Six cores of four groups: 2, 2, 1 and 1; the second team has three memories, the first two.
  json_of_cores({"run", "small.onnx", "--cores", "6", "--cores-per-image", "3", "--check-hazards",
                 "--output", "teams"});
  json_of_cores({"run", "small.onnx", "--input", "random:1", "--output", "alone"});
  EXPECT_EQ(read_text("teams/y_1.npy"), read_text("alone/y.npy"));
}

TEST(SeveralCores, CompareSeesEveryLayerOfARunOnSeveralCores) {
  for (const char* const split : {"w", "oc"}) {
    const CommandResult equal = tessera({"compare", "small.onnx", "--arch", "cloud16", "--cores",
                                         "8", "--cards", "2", "--split", split, "--b", "ref"});
    EXPECT_EQ(equal.status, 0) << equal.err;
    EXPECT_THAT(equal.out, HasSubstr("sim (8 cores) and ref: "));
    EXPECT_THAT(equal.out, HasSubstr(" compared, 0 mismatches\n"));
  }
  const CommandResult one = tessera(
      {"compare", "small.onnx", "--arch", "cloud16", "--cores", "4", "--a", "sim", "--b", "sim"});
  EXPECT_THAT(one.out, HasSubstr("sim (4 cores) and sim: "));
  const CommandResult fault = tessera(
      {"compare", "small.onnx", "--arch", "cloud16", "--cores", "4", "--plant-fault", "conv"});
  EXPECT_EQ(fault.status, 1);
  EXPECT_THAT(fault.err, HasSubstr("first difference: layer 'conv'"));
}

TEST(SeveralCores, SoftwareDerivedFromThemHasTheBitsOfTheirRun) {
  for (const char* const split : {"w", "oc"}) {
    const nlohmann::json derived =
        json_of_cores({"derive", "small.onnx", "-o", "cores.onnx", "--cores", "6", "--cards", "2",
                       "--split", split, "--verify", "3", "--golden", "cores_golden"});
    EXPECT_EQ(derived.at("cores"), 6);
    EXPECT_EQ(derived.at("mismatches"), 0);
    EXPECT_EQ(derived.at("values_compared"), 3 * 64);
    // The software of one core, layer for layer; and its vectors.
    const nlohmann::json one = json_of_cores(
        {"derive", "small.onnx", "-o", "core.onnx", "--verify", "3", "--golden", "core_golden"});
    EXPECT_EQ(derived.at("layers"), one.at("layers"));
    EXPECT_EQ(derived.at("nodes"), one.at("nodes"));
    EXPECT_EQ(derived.at("golden_digest"), one.at("golden_digest"));
    EXPECT_EQ(read_text("cores.onnx"), read_text("core.onnx"));
  }
}

TEST(SeveralCores, BenchMeasuresThemBesideOne) {
  const nlohmann::json bench =
      json_of_cores({"bench", "small.onnx", "--suite", "devices", "--repeat", "1", "--cores", "4"});
  ASSERT_EQ(bench.at("devices").size(), 6u);
  EXPECT_EQ(bench.at("devices")[4].at("name"), "sim, 4 cores");
  EXPECT_EQ(bench.at("devices")[5].at("name"), "sim, 4 cores timing-only");
  const nlohmann::json run = json_of_cores({"run", "small.onnx", "--cores", "4"});
  EXPECT_EQ(bench.at("devices")[4].at("cycles"), run.at("cycles"));
  EXPECT_EQ(bench.at("devices")[5].at("cycles"), run.at("cycles"));
  EXPECT_DOUBLE_EQ(
      bench.at("one_core_per_several_cycles").get<double>(),
      bench.at("devices")[2].at("cycles").get<double>() / run.at("cycles").get<double>());
  const nlohmann::json load =
      json_of_cores({"bench", "small.onnx", "--device", "sim", "--cores", "4", "--tasks", "2"});
  EXPECT_EQ(load.at("cycles"), run.at("cycles"));
}

// Of one network: its errors follow from its cycles, and each share is in one layer.
void check_card_model(const nlohmann::json& bench, const nlohmann::json& run) {
  ASSERT_EQ(bench.at("networks").size(), 1u);
  const nlohmann::json& row = bench.at("networks")[0];
  EXPECT_EQ(row.at("cores"), 4);
  EXPECT_EQ(row.at("card_cycles"), run.at("cycles"));
  const auto model = row.at("model_cycles").get<double>();
  const auto card = row.at("card_cycles").get<double>();
  EXPECT_GT(model, 0);
  EXPECT_DOUBLE_EQ(row.at("error").get<double>(), (model - card) / card);
  EXPECT_DOUBLE_EQ(bench.at("mean_error").get<double>(), std::abs(model - card) / card);
  int shares = 0;
  double share_errors = 0;
  for (const nlohmann::json& layer : row.at("layers")) {
    shares += layer.at("shares").get<int>();
    share_errors += layer.at("shares").get<int>() * layer.at("share_error").get<double>();
  }
  EXPECT_EQ(row.at("shares"), shares);
  EXPECT_GE(shares, 4);
  EXPECT_NEAR(bench.at("mean_share_error").get<double>(), share_errors / shares, 1e-9);
}

TEST(SeveralCores, BenchComparesTheModelOfTheCardWithTheCard) {
  prepare();
  std::filesystem::create_directory("card_models");
  std::filesystem::copy_file("small.onnx", "card_models/small.onnx",
                             std::filesystem::copy_options::overwrite_existing);
  const nlohmann::json of_folder =
      json_of_cores({"bench", "--suite", "card-model", "--models", "card_models", "--cores", "4"});
  EXPECT_EQ(of_folder.at("networks")[0].at("network"), "small");
  check_card_model(of_folder, json_of_cores({"run", "small.onnx", "--cores", "4"}));

  const std::vector<std::string> suite = {"bench",      "--suite",      "card-model",
                                          "--networks", "mobilenet_v1", "--cores",
                                          "4",          "--random",     "12"};
  const nlohmann::json of_zoo = json_of_cores(suite);
  ASSERT_EQ(tessera({"zoo", "mobilenet_v1", "-o", "mobilenet_v1.onnx"}).status, 0);
  check_card_model(of_zoo,
                   json_of_cores({"run", "mobilenet_v1.onnx", "--cores", "4", "--timing-only"}));
  // The choice is none of the worse ones, and the same are drawn again.
  const nlohmann::json& row = of_zoo.at("networks")[0];
  EXPECT_EQ(row.at("random").at("drawn"), 12);
  EXPECT_EQ(row.at("random").at("on_card"), 2);
  EXPECT_GE(row.at("random").at("card_cycles"), row.at("card_cycles"));
  EXPECT_EQ(json_of_cores(suite), of_zoo);
}

// One core runs a program of its own, which keeps more in its buffer than shares do.
TEST(SeveralCores, TheModelOfOneCoreIsThatOfItsOwnProgram) {
  const CommandResult one = tessera({"bench", "--suite", "card-model", "--networks", "vit_tiny",
                                     "--cores", "1", "--arch", "tessera128x4", "--json"});
  ASSERT_EQ(one.status, 0) << one.err;
  const nlohmann::json document = one.json();
  const nlohmann::json& row = document.at("networks")[0];
  EXPECT_EQ(row.at("cores"), 1);
  EXPECT_LT(std::abs(row.at("error").get<double>()), 0.03);
}

TEST(Roofline, AFolderOfModelsRunsInTheShapesOfItsFirstCases) {
  prepare();
  std::filesystem::create_directories("roofline_models/models");
  std::filesystem::create_directories("roofline_models/cases");
  for (const char* const name : {"open.onnx", "small.onnx", "strange.onnx"}) {
    std::filesystem::copy_file(name, std::string("roofline_models/models/") + name,
                               std::filesystem::copy_options::overwrite_existing);
  }
  std::ofstream("roofline_models/cases/CASES.tsv")
      << "model\tcase\tdir\tindex\ttensor\tdtype\tshape\tfile\thow\n"
      << "open\tfirst\tout\t0\ty\tfloat32\tany\ty.npy\tas it is\n"
      << "open\tfirst\tin\t0\tx\tfloat32\t1x3x40x24\tx.npy\traw\n"
      << "open\tsecond\tin\t0\tx\tfloat32\t1x3x80x24\tx.npy\traw\n";
  const nlohmann::json found =
      json_of_cores({"bench", "--suite", "roofline", "--models", "roofline_models"});
  ASSERT_EQ(found.at("networks").size(), 2u);
  const nlohmann::json& open = found.at("networks")[0];
  const nlohmann::json& small = found.at("networks")[1];
  EXPECT_EQ(open.at("network"), "open");
  EXPECT_EQ(small.at("network"), "small");
  const nlohmann::json alone =
      json_of_cores({"run", "open.onnx", "--shape", "x=1x3x40x24", "--timing-only"});
  EXPECT_EQ(open.at("cycles"), alone.at("cycles"));
  const double a = open.at("share"), b = small.at("share");
  EXPECT_NEAR(found.at("geomean_share").get<double>(), std::sqrt(a * b), 1e-9);
  EXPECT_EQ(found.at("all").at("least_share"), std::min(a, b));
  EXPECT_TRUE(found.at("above_100_million_macs").is_null());
  ASSERT_EQ(found.at("left_out").size(), 1u);
  EXPECT_EQ(found.at("left_out")[0].at("network"), "strange");
}

}  // namespace
}  // namespace tessera::cli
