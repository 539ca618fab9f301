// Programs for several cores as files: what `link --cores` writes is what `run MODEL --cores` runs, and
// every verb that takes programs takes them or says what to do.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "command.h"
#include "tools/files/tensor_file.h"

namespace tessera::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Pair;
using ::testing::StartsWith;

using Words = std::vector<std::string>;

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

nlohmann::json json_of(const Words& words) {
  const CommandResult result = tessera(words + Words{"--json"});
  EXPECT_EQ(result.status, 0) << words[0] << " " << words[1] << ": " << result.err;
  return result.json();
}

std::string refusal_of(const Words& words) {
  const CommandResult result = tessera(words);
  EXPECT_EQ(result.status, 1) << words[0];
  EXPECT_EQ(result.out, "") << words[0];
  return result.err;
}

// small.tpkg and host.tpkg for cloud16, and small.tprog for four cores.
class CardProgram : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    prepare();
    for (const std::string model : {"small", "host"}) {
      json_of({"compile", model + ".onnx", "--arch", "cloud16", "-o", model + ".tpkg"});
    }
    json_of({"link", "small.tpkg", "--cores", "4", "--split", "w", "-o", "small.tprog"});
  }
};

// Of the cores, as options.
struct Cores {
  std::string cores, cards, split;
  Words words() const { return {"--cores", cores, "--cards", cards, "--split", split}; }
};

TEST_F(CardProgram, RunsWithBitsAndCyclesOfTheModelOnTheSameCores) {
  for (const std::string model : {"small", "host"}) {
    for (const Cores& on :
         {Cores{"2", "1", "w"}, Cores{"2", "2", "auto"}, Cores{"5", "1", "oc"},
          Cores{"5", "2", "w"}, Cores{"16", "1", "auto"}, Cores{"16", "2", "oc"}}) {
      SCOPED_TRACE(model + " " + fmt::format("{}", fmt::join(on.words(), " ")));
      json_of(Words{"link", model + ".tpkg", "-o", "any.tprog"} + on.words());
      const Words how = {"--input",     "random:7", "--check-hazards", "--trace",
                         "linked.json", "--output", "linked"};
      const nlohmann::json linked = json_of(Words{"run", "any.tprog"} + how);
      const nlohmann::json compiled =
          json_of(Words{"run", model + ".onnx", "--arch", "cloud16", "--input", "random:7",
                        "--trace", "compiled.json", "--output", "compiled"} +
                  on.words());
      for (const char* const same : {"cycles", "engines", "idle_engine_cycles", "host_cycles",
                                     "transfer_cycles", "status_flags"}) {
        EXPECT_EQ(linked.at(same), compiled.at(same)) << same;
      }
      EXPECT_EQ(read_text("linked/y.npy"), read_text("compiled/y.npy"));
      EXPECT_EQ(read_text("linked.json"), read_text("compiled.json"));
      EXPECT_EQ(linked.at("cores"), std::stoi(on.cores));
      EXPECT_EQ(linked.at("cards"), std::stoi(on.cards));
      EXPECT_EQ(json_of({"run", "any.tprog", "--timing-only"}).at("cycles"), linked.at("cycles"));
    }
  }
}

TEST_F(CardProgram, LinkSaysWhatItWrote) {
  const Words link = {"link", "small.tpkg", "--cores", "4",  "--cards",
                      "2",    "--split",    "w",       "-o", "said.tprog"};
  const nlohmann::json said = json_of(link);
  EXPECT_EQ(said.at("cores"), 4);
  EXPECT_EQ(said.at("cards"), 2);
  EXPECT_EQ(said.at("memories"), 4);
  EXPECT_EQ(said.at("split"), "w");
  const nlohmann::json inspected = json_of({"inspect", "said.tprog"});
  for (const char* const same :
       {"cores", "cards", "memories", "images", "tasks", "segments", "dependencies",
        "remote_dependencies", "load_shares", "dependencies_dropped", "weights_bytes",
        "weights_bytes_in_file", "weights_file"}) {
    EXPECT_EQ(said.at(same), inspected.at(same)) << same;
  }
  EXPECT_EQ(json_of({"run", "said.tprog", "--timing-only"}).at("tasks"), said.at("tasks"));
  const CommandResult text = tessera(link);
  EXPECT_THAT(
      text.out,
      MatchesRegex(fmt::format(
          "wrote said.tprog: {} tasks in 1 segments for 4 cores of 2 cards, with 4 memories\n"
          "compiled anew in [0-9]+.[0-9][0-9] s: the package has no templates for these cores and "
          "options\n{} dependencies within cores, {} between them; .*\n.*\n",
          said.at("tasks").get<int>(), said.at("dependencies").get<int>(),
          said.at("remote_dependencies").get<int>())));
  EXPECT_EQ(said.at("prepared_cores"), nlohmann::json::array());
  EXPECT_GT(said.at("compile_seconds").get<double>(), 0);
  // Of one card the package has some.
  const nlohmann::json seven = json_of({"link", "small.tpkg", "--cores", "7", "-o", "seven.tprog"});
  EXPECT_EQ(seven.at("compiled"), true);
  EXPECT_EQ(seven.at("prepared_cores"), nlohmann::json({2, 4, 8, 16}));
  EXPECT_THAT(tessera({"link", "small.tpkg", "--cores", "7", "-o", "seven.tprog"}).out,
              HasSubstr("no templates for these cores and options, but for 2, 4, 8, 16 cores; "
                        "'tessera compile --cores' makes others\n"));
  EXPECT_THAT(
      tessera({"inspect", "said.tprog"}).out,
      StartsWith("program for 4 cores of 2 cards with 4 memories, on cloud16 (fingerprint "));
  EXPECT_THAT(tessera({"run", "said.tprog", "--timing-only"}).out,
              HasSubstr(" tasks for cloud16, on 4 cores of 2 cards\n"));
}

// What was prepared is filled in, and anything else compiled: the program is the same.
TEST_F(CardProgram, PackagesHaveTheUsualNumbersOfCoresPrepared) {
  const nlohmann::json inspected = json_of({"inspect", "small.tpkg"});
  std::vector<std::pair<int, int>> prepared;  // cores, memories
  for (const nlohmann::json& one : inspected.at("prepared")) {
    prepared.emplace_back(one.at("cores"), one.at("memories"));
  }
  EXPECT_THAT(prepared, ElementsAre(Pair(16, 4), Pair(8, 4), Pair(8, 2), Pair(4, 4), Pair(4, 1),
                                    Pair(2, 2), Pair(2, 1)));
  json_of({"compile", "small.onnx", "--arch", "cloud16", "--cores", "none", "-o", "none.tpkg"});
  EXPECT_EQ(json_of({"inspect", "none.tpkg"}).at("prepared").size(), 0u);
  for (const std::string cores : {"2", "4", "8", "16"}) {
    nlohmann::json filled = json_of({"link", "small.tpkg", "--cores", cores, "-o", "filled.tprog"});
    nlohmann::json compiled =
        json_of({"link", "none.tpkg", "--cores", cores, "-o", "compiled.tprog"});
    EXPECT_EQ(filled.at("compiled"), false);
    EXPECT_EQ(compiled.at("compiled"), true);
    for (const char* const same :
         {"tasks", "segments", "dependencies", "remote_dependencies", "load_shares",
          "dependencies_dropped", "stream_bytes", "weights_bytes", "memories", "images", "cores"}) {
      EXPECT_EQ(filled.at(same), compiled.at(same)) << same;
    }
    EXPECT_EQ(json_of({"run", "filled.tprog", "--input", "random:7"}).at("cycles"),
              json_of({"run", "compiled.tprog", "--input", "random:7"}).at("cycles"));
  }
  const CommandResult text = tessera({"link", "small.tpkg", "--cores", "8", "-o", "said.tprog"});
  EXPECT_THAT(text.out, HasSubstr("\nfilled in from the package's templates\n"));
}

// The package's performance model is what the linker cuts layers by where there is less bandwidth.
TEST_F(CardProgram, LinkingLooksForTheShortestPathAtTheBandwidthThatThereIs) {
  const nlohmann::json inspected = json_of({"inspect", "small.tpkg"});
  const nlohmann::json sixteen = inspected.at("prepared").at(0).at("model");
  EXPECT_GT(sixteen.at("cycles"), 0);
  EXPECT_GE(sixteen.at("cycles_at_a_quarter"), sixteen.at("cycles_at_half_the_bandwidth"));
  EXPECT_GE(sixteen.at("cycles_at_half_the_bandwidth"), sixteen.at("cycles"));
  const nlohmann::json whole =
      json_of({"link", "small.tpkg", "--cores", "16", "-o", "whole.tprog"});
  EXPECT_EQ(whole.at("compiled"), false);
  // Sums of the same terms, in another order.
  EXPECT_DOUBLE_EQ(whole.at("model").at("cycles"), sixteen.at("cycles"));
  EXPECT_LE(whole.at("model").at("shortest_path_cycles"),
            whole.at("model").at("prepared_path_cycles"));
  const nlohmann::json little =
      json_of({"link", "small.tpkg", "--cores", "16", "--bandwidth", "0.02", "-o", "little.tprog"});
  const nlohmann::json& model = little.at("model");
  // Where fewer cores than these were found to do, what is prepared stays.
  const bool shorter =
      model.at("shortest_path_cycles") <= 0.98 * model.at("prepared_path_cycles").get<double>();
  EXPECT_EQ(little.at("compiled"), shorter && sixteen.at("cores") == 16);
  EXPECT_EQ(json_of({"run", "little.tprog", "--input", "random:7"}).at("outputs"),
            json_of({"run", "whole.tprog", "--input", "random:7"}).at("outputs"));
  const CommandResult none =
      tessera({"link", "small.tpkg", "--cores", "16", "--bandwidth", "0", "-o", "x.tprog"});
  EXPECT_NE(none.status, 0);
  EXPECT_THAT(none.err, HasSubstr("--bandwidth"));
  const CommandResult text = tessera({"link", "small.tpkg", "--cores", "16", "-o", "said.tprog"});
  EXPECT_THAT(text.out,
              HasSubstr("\nby the package's performance model, with 100 % of the memories: "));
}

TEST_F(CardProgram, CompilePreparesTheCoresThatAreAskedFor) {
  const Words compile = {"compile", "small.onnx", "--arch", "cloud16", "-o", "asked.tpkg"};
  const auto cores_of = [&](const Words& words) {
    std::vector<int> cores;
    const nlohmann::json document = json_of(compile + words);
    for (const nlohmann::json& one : document.at("prepared")) {
      if (cores.empty() || cores.back() != one.at("cores")) cores.push_back(one.at("cores"));
    }
    return cores;
  };
  EXPECT_THAT(cores_of({"--cores", "3,5"}), ElementsAre(5, 3));
  EXPECT_EQ(cores_of({"--cores", "all"}).size(), 15u);
  EXPECT_THAT(cores_of({"--cards", "4"}), ElementsAre(64));
  EXPECT_THAT(cores_of({"--cores", "40", "--cards", "3"}), ElementsAre(40));
  EXPECT_EQ(json_of({"link", "asked.tpkg", "--cores", "40", "--cards", "3", "-o", "forty.tprog"})
                .at("compiled"),
            false);
  // A package is compiled already; it gets more.
  json_of(compile + Words{"--cores", "2"});
  const nlohmann::json more =
      json_of({"compile", "asked.tpkg", "--arch", "cloud16", "--cores", "6", "-o", "more.tpkg"});
  EXPECT_EQ(more.at("prepared").size(), 4u);  // each in two ways
  const CommandResult text = tessera(compile + Words{"--cores", "2"});
  EXPECT_THAT(text.out, HasSubstr("for several cores: "));
  EXPECT_EQ(refusal_of(compile + Words{"--cores", "4,17"}),
            "tessera compile: --cores: '17', allowed are numbers from 2 to 16 with commas between, "
            "or usual, all, none   [invalid argument]\n");
  EXPECT_THAT(refusal_of(compile + Words{"--cores", "x"}), HasSubstr("--cores: 'x', allowed are"));
  EXPECT_EQ(refusal_of({"compile", "small.onnx", "--cores", "4", "-o", "one.tpkg"}),
            "tessera compile: --cores 4: the card of 'tessera128' has one core; leave that out, or "
            "give --cards   [invalid argument]\n");
}

TEST_F(CardProgram, LinkingTwiceWritesTheSameBytes) {
  json_of({"link", "small.tpkg", "--cores", "4", "--split", "w", "-o", "again.tprog"});
  EXPECT_TRUE(read_text("again.tprog") == read_text("small.tprog"));
}

TEST_F(CardProgram, OneCoreIsLinkedAsBefore) {
  json_of({"link", "small.tpkg", "-o", "one.tprog"});
  json_of({"link", "small.tpkg", "--cores", "1", "--cards", "1", "-o", "also_one.tprog"});
  EXPECT_TRUE(read_text("one.tprog") == read_text("also_one.tprog"));
  EXPECT_FALSE(json_of({"inspect", "one.tprog"}).contains("cores"));
}

TEST_F(CardProgram, EachTeamHasAnImageOfItsOwn) {
  json_of({"link", "small.tpkg", "--cores", "8", "--cores-per-image", "2", "-o", "teams.tprog"});
  const nlohmann::json linked =
      json_of({"run", "teams.tprog", "--input", "random:5", "--output", "linked_images"});
  const nlohmann::json compiled =
      json_of({"run", "small.onnx", "--arch", "cloud16", "--cores", "8", "--cores-per-image", "2",
               "--input", "random:5", "--output", "images"});
  for (const char* const same :
       {"cycles", "engines", "images", "images_per_second", "transfer_cycles"}) {
    EXPECT_EQ(linked.at(same), compiled.at(same)) << same;
  }
  ASSERT_EQ(linked.at("outputs").size(), 4u);
  EXPECT_EQ(linked.at("outputs")[3].at("name"), "y@3");
  for (int image = 0; image < 4; ++image) {
    EXPECT_EQ(read_text(fmt::format("linked_images/y_{}.npy", image)),
              read_text(fmt::format("images/y_{}.npy", image)));
  }
}

// Cut by rows, every core takes the whole kernel, which lies in the package as it is.
TEST_F(CardProgram, TakesFromThePackageWhatLiesThere) {
  model::testing::ModelBuilder builder(13);
  builder.input("x", Format::kF32, {1, 64, 8, 8})
      .initializer("w", tools::random_tensor({"w", Format::kF32, {64, 64, 3, 3}}, 5, 0))
      .node("Conv", {"x", "w"}, {"y"}, {{"pads", model::testing::Ints{1, 1, 1, 1}}}, "conv")
      .output("y");
  write_text("kernel.onnx", builder.bytes());
  fs::create_directory("packages");
  json_of({"compile", "kernel.onnx", "--arch", "cloud16", "-o", "packages/kernel.tpkg"});
  const Words link = {"link", "packages/kernel.tpkg", "--cores", "4", "--split", "w", "-o"};
  const nlohmann::json refers = json_of(link + Words{"refers.tprog"});
  EXPECT_EQ(refers.at("weights_file"), "packages/kernel.tpkg");
  EXPECT_GT(refers.at("weights_bytes_in_file").get<std::int64_t>(),
            refers.at("weights_bytes").get<std::int64_t>() / 2);
  const nlohmann::json holds = json_of(link + Words{"holds.tprog", "--embed-weights"});
  EXPECT_EQ(holds.at("weights_file"), "");
  EXPECT_EQ(holds.at("weights_bytes_in_file"), 0);
  EXPECT_LT(
      fs::file_size("refers.tprog") + refers.at("weights_bytes_in_file").get<std::size_t>() / 2,
      fs::file_size("holds.tprog"));
  const auto run = [](const std::string& program, const Words& more) {
    json_of(Words{"run", program, "--input", "random:2", "--output", "kernel"} + more);
    return read_text("kernel/y.npy");
  };
  const std::string expected = run("kernel.onnx", {"--arch", "cloud16"});
  EXPECT_EQ(run("refers.tprog", {}), expected);
  EXPECT_EQ(run("holds.tprog", {}), expected);
  fs::rename("packages/kernel.tpkg", "moved.tpkg");
  EXPECT_EQ(run("holds.tprog", {}), expected);
  EXPECT_EQ(run("refers.tprog", {"--weights", "moved.tpkg"}), expected);
  EXPECT_EQ(tessera({"inspect", "refers.tprog"}).status, 0);
  EXPECT_THAT(refusal_of({"run", "refers.tprog"}),
              HasSubstr("in 'packages/kernel.tpkg', which is not there: "));
  EXPECT_THAT(refusal_of({"run", "refers.tprog", "--weights", "small.tpkg"}),
              HasSubstr("which is not there: 'small.tpkg': "));
}

TEST_F(CardProgram, DescriptorsMayNameTheirOperands) {
  const nlohmann::json plain = json_of({"link", "small.tpkg", "--cores", "2", "-o", "plain.tprog"});
  const nlohmann::json named =
      json_of({"link", "small.tpkg", "--cores", "2", "--name-operands", "-o", "named.tprog"});
  EXPECT_GT(named.at("stream_bytes"), plain.at("stream_bytes"));
  json_of({"run", "plain.tprog", "--output", "plain"});
  json_of({"run", "named.tprog", "--output", "named", "--check-hazards"});
  EXPECT_EQ(read_text("plain/y.npy"), read_text("named/y.npy"));
}

TEST_F(CardProgram, OtherDevicesHaveTheSameBits) {
  json_of({"run", "small.tprog", "--output", "on_sim"});
  for (const std::string device : {"host", "ref"}) {
    const std::string folder = "on_" + device;
    json_of({"run", "small.tprog", "--device", device, "--output", folder});
    EXPECT_EQ(read_text(folder + "/y.npy"), read_text("on_sim/y.npy"));
  }
}

TEST_F(CardProgram, RunsUnverified) {
  const nlohmann::json run = json_of({"run", "small.tprog", "--unverified", "--check-hazards"});
  EXPECT_EQ(run.at("verified"), false);
  EXPECT_EQ(run.at("cycles"), json_of({"run", "small.tprog"}).at("cycles"));
  EXPECT_THAT(tessera({"run", "small.tprog", "--unverified"}).out,
              HasSubstr(" tasks for cloud16, on 4 cores of a card; not verified\n"));
}

TEST_F(CardProgram, TrapsNameTheCore) {
  model::testing::ModelBuilder builder(13);
  builder.input("x", Format::kF32, {1, 4, 8, 8}).node("Sqrt", {"x"}, {"y"}, {}, "root").output("y");
  write_text("root.onnx", builder.bytes());
  json_of({"compile", "root.onnx", "--arch", "cloud16", "-o", "root.tpkg"});
  json_of({"link", "root.tpkg", "--cores", "2", "-o", "root.tprog"});
  const std::string trapped = refusal_of({"run", "root.tprog", "--trap", "nan"});
  EXPECT_THAT(trapped, StartsWith("tessera run: core "));
  EXPECT_THAT(trapped, HasSubstr("trap nan: a NaN in image 0, "));
  EXPECT_EQ(tessera({"run", "root.tprog", "--trap", "overflow"}).status, 0);
}

TEST_F(CardProgram, SoftwareDerivedFromItIsThatOfTheModel) {
  const nlohmann::json derived =
      json_of({"derive", "small.tprog", "-o", "card.onnx", "--verify", "3"});
  EXPECT_EQ(derived.at("mismatches"), 0);
  json_of({"derive", "small.onnx", "--arch", "cloud16", "-o", "model.onnx"});
  EXPECT_EQ(read_text("card.onnx"), read_text("model.onnx"));
}

TEST_F(CardProgram, ItsTextGivesTheSameFileAndTheSameRun) {
  for (const std::string model : {"small", "host"}) {
    SCOPED_TRACE(model);
    json_of({"link", model + ".tpkg", "--cores", "5", "--cards", "2", "--split", "w",
             "--embed-weights", "-o", "whole.tprog"});
    const nlohmann::json text = json_of({"disasm", "whole.tprog", "-o", "whole.tasm"});
    EXPECT_EQ(text.at("cores"), 5);
    EXPECT_EQ(text.at("same_bytes"), true);
    const nlohmann::json again = json_of({"asm", "whole.tasm", "-o", "again.tprog"});
    EXPECT_EQ(again.at("cores"), 5);
    EXPECT_EQ(again.at("tasks"), text.at("tasks"));
    EXPECT_GT(again.at("remote_dependencies"), 0);
    EXPECT_EQ(read_text("again.tprog"), read_text("whole.tprog"));
    const Words how = {"--input", "random:7", "--check-hazards", "--output"};
    const nlohmann::json program = json_of(Words{"run", "whole.tprog"} + how + Words{"program"});
    const nlohmann::json run = json_of(Words{"run", "whole.tasm"} + how + Words{"text"});
    EXPECT_EQ(run.at("cycles"), program.at("cycles"));
    EXPECT_EQ(run.at("cores"), 5);
    for (const fs::directory_entry& file : fs::directory_iterator("program")) {
      EXPECT_EQ(read_text("text" / file.path().filename()), read_text(file.path()));
    }
    EXPECT_EQ(json_of({"derive", "whole.tasm", "-o", "text.onnx"}).at("nodes"),
              json_of({"derive", "whole.tprog", "-o", "program.onnx"}).at("nodes"));
    EXPECT_EQ(read_text("text.onnx"), read_text("program.onnx"));
  }
  json_of({"link", "small.tpkg", "--cores", "4", "-o", "refers.tprog"});
  EXPECT_THAT(tessera({"disasm", "refers.tprog"}).out, HasSubstr("\ncore 3\n"));
  // A core that does not wait for the other: proved before it is written.
  EXPECT_EQ(shell("sed '/^  after core/d' whole.tasm >racy.tasm").status, 0);
  EXPECT_THAT(refusal_of({"asm", "racy.tasm", "-o", "racy.tprog"}), HasSubstr("'racy.tasm'"));
  EXPECT_FALSE(fs::exists("racy.tprog"));
}

TEST_F(CardProgram, TextOfWeightsInPartsOfThePackageSaysThatTheyAreLeftOut) {
  json_of({"zoo", "mobilenet_v1", "-o", "mobile.onnx"});
  json_of({"compile", "mobile.onnx", "--arch", "cloud16", "--cores", "none", "-o", "mobile.tpkg"});
  json_of({"link", "mobile.tpkg", "--cores", "4", "--split", "oc", "-o", "mobile.tprog"});
  const CommandResult listing = tessera({"disasm", "mobile.tprog"});
  EXPECT_EQ(listing.status, 0);
  EXPECT_THAT(listing.out, HasSubstr("bytes, left out of this text\n"));
  EXPECT_THAT(listing.err,
              HasSubstr("note: the weights of 'mobile.tprog' are parts of 'mobile.tpkg'"));
  json_of({"disasm", "mobile.tprog", "-o", "mobile.tasm"});
  json_of({"asm", "mobile.tasm", "-o", "again.tprog"});
  const Words how = {"--input", "random:7", "--output"};
  EXPECT_EQ(json_of(Words{"run", "again.tprog"} + how + Words{"mobile_again"}).at("cycles"),
            json_of(Words{"run", "mobile.tprog"} + how + Words{"mobile_linked"}).at("cycles"));
  for (const fs::directory_entry& file : fs::directory_iterator("mobile_linked")) {
    EXPECT_EQ(read_text("mobile_again" / file.path().filename()), read_text(file.path()));
  }
}

TEST_F(CardProgram, VerbsOfOneCoreNameTheWayOut) {
  const std::string refused =
      ": 'small.tprog' is a program for 4 cores of a card, which 'tessera run', 'inspect', "
      "'disasm' and "
      "'derive' take; here give a program of one core ('tessera link' without --cores), or the "
      "package or model   [unsupported]\n";
  for (const std::string verb : {"bench", "watch"}) {
    EXPECT_EQ(refusal_of({verb, "small.tprog"}), fmt::format("tessera {}{}", verb, refused));
  }
  EXPECT_EQ(refusal_of({"run", "small.tprog", "small.tprog"}), "tessera run" + refused);
  for (const std::string verb : {"compare", "report"}) {
    EXPECT_EQ(refusal_of({verb, "small.tprog"}),
              "tessera " + verb +
                  ": 'small.tprog' is a linked program; give the package or the model it was made "
                  "from   [invalid argument]\n");
  }
}

TEST_F(CardProgram, OptionsThatCannotApplyAreRefused) {
  for (const Words& option :
       {Words{"--cores", "2"}, Words{"--cards", "2"}, Words{"--split", "w"},
        Words{"--cores-per-image", "1"}, Words{"--serial"}, Words{"--html", "x.html"}}) {
    EXPECT_EQ(refusal_of(Words{"run", "small.tprog"} + option),
              "tessera run: 'small.tprog' is a program, which is compiled already; " + option[0] +
                  " is for models   [invalid argument]\n");
  }
  EXPECT_EQ(refusal_of({"run", "small.tprog", "--stream", "-", "--out", "-"}),
            "tessera run: --stream: 'small.tprog' is a program for 4 cores; link it for one "
            "(without --cores)   [unsupported]\n");
  EXPECT_THAT(refusal_of({"run", "small.tprog", "--arch", "edge"}),
              StartsWith("tessera run: the program is for 'cloud16' with fingerprint "));
  EXPECT_EQ(refusal_of({"derive", "small.tprog", "-o", "never.onnx", "--cores", "2"}),
            "tessera derive: 'small.tprog' is a program, which is compiled already; --cores is for "
            "models   [invalid argument]\n");
}

}  // namespace
}  // namespace tessera::cli
