// Every verb once: what it prints as text, and that it ends with status 0.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "command.h"

namespace tessera::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::StartsWith;

TEST(Help, EveryVerbShowsAnExampleOfItself) {
  for (const std::string& verb : verbs()) {
    const CommandResult help = tessera({verb, "--help"});
    EXPECT_EQ(help.status, 0) << verb;
    EXPECT_THAT(help.out, HasSubstr("\nExample:\n  tessera " + verb)) << verb;
    EXPECT_THAT(help.out, HasSubstr("--json")) << verb;
    EXPECT_EQ(help.err, "") << verb;
  }
}

TEST(Help, TheCommandListsItsVerbs) {
  EXPECT_EQ(tessera({"--help"}).status, 0);
  const std::vector<std::string> listed = verbs();
  EXPECT_GE(listed.size(), 17U);
  EXPECT_THAT(listed, IsSupersetOf({"run", "compile", "link", "doctor"}));
}

TEST(ZooVerb, ListsEveryNetworkWithItsWork) {
  const CommandResult list = tessera({"zoo", "--list"});
  EXPECT_EQ(list.status, 0);
  EXPECT_THAT(list.out, HasSubstr("resnet50        4,089,184,256"));
}

TEST(ZooVerb, WithoutANameSaysWhatToGive) {
  const CommandResult nothing = tessera({"zoo"});
  EXPECT_EQ(nothing.status, 1);
  EXPECT_EQ(nothing.err, "tessera zoo: give a network's name, or --list   [invalid argument]\n");
}

TEST(ZooVerb, WritesANetworkIn8Bits) {
  const std::string path = work_folder() + "/mobilenet_v1_8.onnx";
  const CommandResult written =
      tessera({"zoo", "mobilenet_v1", "--bits", "8", "--json", "-o", path});
  ASSERT_EQ(written.status, 0) << written.err;
  EXPECT_EQ(written.json().at("bits"), 8);
  EXPECT_EQ(written.json().at("parameters"), 4'221'032);
  const CommandResult run = tessera({"run", path, "--device", "host", "--input", "image=random:7"});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr(" on the processor, 0 on the host\n"));
  EXPECT_THAT(run.out, HasSubstr("output probabilities u8 1x1000: "));
}

TEST(ZooVerb, BitsAre8Or16) {
  const CommandResult four = tessera({"zoo", "mobilenet_v1", "--bits", "4", "-o", "/dev/null"});
  EXPECT_NE(four.status, 0);
  EXPECT_THAT(four.err, HasSubstr("--bits: 4 not in {8,16}"));
}

TEST(Version, IsAloneOnItsLine) {
  const CommandResult version = tessera({"--version"});
  EXPECT_EQ(version.status, 0);
  EXPECT_EQ(version.out, "0.1.0\n");
}

TEST(Run, PrintsPlacementOutputsCyclesAndEngines) {
  const CommandResult run = tessera({"run", "small.onnx", "--input", "x=random:7"});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.err, "");
  EXPECT_THAT(run.out, StartsWith("4 nodes on the processor, 0 on the host\n"
                                  "output y f32 1x4x4x4: "));
  EXPECT_THAT(run.out, HasSubstr(" cycles, "));
  EXPECT_THAT(run.out, HasSubstr("\nneural "));
}

TEST(Run, SeveralNetworksPrintWhatEachPrintsAlone) {
  const auto output_line = [](const std::string& out, std::size_t from) {
    const std::size_t begin = out.find("output y ", from);
    return begin == std::string::npos ? out : out.substr(begin, out.find('\n', begin) - begin);
  };
  const CommandResult both =
      tessera({"run", "small.onnx", "host.onnx", "--priority", "5,0", "--input", "0:x=random:7"});
  EXPECT_EQ(both.status, 0) << both.err;
  EXPECT_THAT(both.out, StartsWith("network 0 small.onnx: priority 5, cycles 0 to "));
  const std::size_t second = both.out.find("\nnetwork 1 host.onnx: priority 0, cycles 0 to ");
  ASSERT_NE(second, std::string::npos) << both.out;
  EXPECT_EQ(output_line(both.out, 0),
            output_line(tessera({"run", "small.onnx", "--input", "x=random:7"}).out, 0));
  const std::string alone = tessera({"run", "host.onnx"}).out;
  const std::size_t first = alone.find("output ");
  const std::string line = alone.substr(first, alone.find('\n', first) - first);
  EXPECT_NE(both.out.find(line, second), std::string::npos) << line << "\n" << both.out;
}

TEST(Run, AHostStepIsPrintedWithItsReason) {
  const CommandResult run = tessera({"run", "host.onnx"});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, StartsWith("5 nodes on the processor, 1 on the host\n"
                                  "  host  1 x Det: operator 'Det': not among the processor's "
                                  "operators at opset 13 (for example 'best')\n"));
}

TEST(Run, EveryDevicePrintsTheSameOutputs) {
  const auto output_line = [](const std::string& device) {
    const std::string out =
        tessera({"run", "small.onnx", "--input", "random:7", "--device", device}).out;
    const std::size_t begin = out.find("output y ");
    return begin == std::string::npos ? device : out.substr(begin, out.find('\n', begin) - begin);
  };
  EXPECT_EQ(output_line("sim"), output_line("ref"));
  EXPECT_EQ(output_line("host"), output_line("ref"));
}

TEST(Run, MatricesInBlocksAtTheEdgesAreTheProcessorsAffair) {
  write_text("blocks.toml",
             "name = \"blocks\"\n[dram]\nedge_block_rows = 32\nedge_block_columns = 64\n");
  const auto output_line = [](const std::vector<std::string>& words) {
    std::vector<std::string> all = words;
    all.insert(all.begin(), "run");
    all.insert(all.end(), {"--input", "random:7"});
    const std::string out = tessera(all).out;
    const std::size_t begin = out.find("output y ");
    return begin == std::string::npos ? out : out.substr(begin, out.find('\n', begin) - begin);
  };
  const std::string dense = output_line({"small.onnx"});
  EXPECT_EQ(output_line({"small.onnx", "--arch", "blocks.toml"}), dense);
  EXPECT_EQ(output_line({"small.onnx", "--arch", "blocks.toml", "--device", "host"}), dense);
  ASSERT_EQ(tessera({"compile", "small.onnx", "--arch", "blocks.toml", "-o", "b.tpkg"}).status, 0);
  ASSERT_EQ(tessera({"link", "b.tpkg", "--arch", "blocks.toml", "-o", "b.tprog"}).status, 0);
  EXPECT_EQ(output_line({"b.tpkg", "--arch", "blocks.toml"}), dense);
  EXPECT_EQ(output_line({"b.tprog", "--arch", "blocks.toml"}), dense);
  EXPECT_EQ(output_line({"b.tprog", "--arch", "blocks.toml", "--device", "ref"}), dense);
  EXPECT_THAT(tessera({"inspect", "b.tpkg"}).out, HasSubstr("x64, the blocks of 1x4x4x4\n"));
  EXPECT_THAT(tessera({"disasm", "b.tprog"}).out, HasSubstr("] blocks_of [1, 4, 4, 4] at output"));
  const CommandResult compared =
      tessera({"compare", "b.tpkg", "--arch", "blocks.toml", "--a", "sim", "--b", "host"});
  EXPECT_EQ(compared.status, 0) << compared.out << compared.err;
  const CommandResult derived = tessera({"derive", "b.tprog", "--arch", "blocks.toml", "--to",
                                         "onnx", "-o", "b.onnx", "--verify", "2"});
  EXPECT_EQ(derived.status, 0) << derived.err;
}

TEST(OpenDimensions, EveryVerbThatReadsAModelPrintsTheDefaults) {
  const std::string notes =
      "note: x: dimension 0 ('batch') taken as 1\n"
      "note: x: dimension 2 ('height') taken as 1\n"
      "note: x: dimension 3 ('width') taken as 1\n";
  const std::vector<std::vector<std::string>> commands = {
      {"run", "open.onnx"},     {"compile", "open.onnx", "-o", "open.tpkg"},
      {"inspect", "open.onnx"}, {"compare", "open.onnx"},
      {"report", "open.onnx"},  {"bench", "open.onnx", "--tasks", "3"},
      {"run", "open.tpkg"},     {"inspect", "open.tpkg"}};
  for (const auto& command : commands) {
    const CommandResult plain = tessera(command);
    EXPECT_EQ(plain.status, 0) << command[0] << ": " << plain.err;
    EXPECT_THAT(plain.out, HasSubstr(notes)) << command[0] << ' ' << command[1];
    std::vector<std::string> as_json = command;
    as_json.emplace_back("--json");
    const nlohmann::json found = tessera(as_json).json();
    ASSERT_TRUE(found.is_object()) << command[0];
    EXPECT_EQ(found.at("notes").size(), 3u) << command[0] << ' ' << command[1];
  }
}

TEST(OpenDimensions, AGivenShapeLeavesNothingToPrint) {
  const CommandResult run = tessera({"run", "open.onnx", "--shape", "x=1x3x8x8"});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, StartsWith("3 nodes on the processor, 0 on the host\n"));
  EXPECT_THAT(run.out, HasSubstr("output y f32 1x4x8x8: "));
}

TEST(Inspect, AModelShowsOpsetInputsOutputsAndOperators) {
  const CommandResult found = tessera({"inspect", "small.onnx"});
  EXPECT_EQ(found.status, 0) << found.err;
  EXPECT_THAT(found.out, HasSubstr("\nopset      ai.onnx 13\n"
                                   "constants  2 tensors, 448 bytes\n"
                                   "input      x f32 1x3x8x8 (declared 1 x 3 x 8 x 8)\n"
                                   "output     y f32 1x4x4x4 (declared shape not stated)\n"
                                   "3 nodes\n"
                                   "operator  count\n"
                                   "Conv          1\n"
                                   "MaxPool       1\n"
                                   "Relu          1\n"));
}

TEST(Inspect, AModelThatNobodyRunsIsStillDescribed) {
  const CommandResult found = tessera({"inspect", "strange.onnx"});
  EXPECT_EQ(found.status, 0) << found.err;
  EXPECT_THAT(found.out, HasSubstr("input      x f32 ? (declared 1 x 3)\n"));
  EXPECT_THAT(found.out, HasSubstr("note: shapes are not known: node 'odd' (Wobble): operator "
                                   "'Wobble' is not known   [unsupported]\n"));
  EXPECT_THAT(found.out, HasSubstr("\nWobble        1\n"));
}

TEST(Stages, CompileLinkInspectAndDisassembleAreReadable) {
  EXPECT_EQ(tessera({"compile", "small.onnx", "-o", "stages.tpkg"}).out,
            "4 nodes on the processor, 0 on the host\n"
            "weights: 1 loads of 1.5 KiB move 0.7 KiB; compression saves 0.8 KiB (0 by palette, "
            "0 by zero mask, 1 by both)\nwrote stages.tpkg: 4 frames\n");
  const CommandResult link = tessera({"link", "stages.tpkg", "--cores", "1", "-o", "stages.tprog"});
  EXPECT_EQ(link.status, 0) << link.err;
  EXPECT_THAT(link.out, StartsWith("wrote stages.tprog: "));
  const CommandResult package = tessera({"inspect", "stages.tpkg"});
  EXPECT_THAT(package.out, StartsWith("package for tessera128 (fingerprint "));
  EXPECT_THAT(package.out, HasSubstr(" conv "));
  const CommandResult program = tessera({"inspect", "stages.tprog"});
  EXPECT_THAT(program.out, StartsWith("program for tessera128 (fingerprint "));
  const CommandResult listing = tessera({"disasm", "stages.tprog"});
  EXPECT_THAT(listing.out, HasSubstr("\nprogram 1\nchip \"tessera128\" "));
  EXPECT_THAT(listing.out, HasSubstr("; layer 1: \"conv\" \"conv\" [1, 4, 8, 8]\n"));
  EXPECT_THAT(listing.out, HasSubstr(" neural product "));
}

TEST(Stages, PackagesForAShareOfTheMemoriesRunOnOneCore) {
  ASSERT_EQ(tessera({"compile", "small.onnx", "--region-share", "0.5", "-o", "half.tpkg"}).status,
            0);
  const CommandResult both = tessera({"run", "half.tpkg", "half.tpkg", "--share", "0.5,0.5"});
  EXPECT_EQ(both.status, 0) << both.err;
  const CommandResult again =
      tessera({"compile", "half.tpkg", "--region-share", "0.5", "-o", "again.tpkg"});
  EXPECT_EQ(again.err,
            "tessera compile: 'half.tpkg' is a package, which is compiled already; give "
            "--region-share with the model it was made from   [invalid argument]\n");
}

TEST(Stages, CompilingEndsAtTheDeadlineAndNamesThePass) {
  const CommandResult late =
      tessera({"compile", "small.onnx", "--deadline", "0.001ms", "-o", "late.tpkg"});
  EXPECT_EQ(late.status, 1);
  EXPECT_EQ(late.err,
            "tessera compile: the deadline passed in the pass 'infer', at its begin; give it more "
            "time   [unavailable]\n");
  EXPECT_FALSE(std::filesystem::exists(work_folder() + "/late.tpkg"));
  const CommandResult in_time =
      tessera({"compile", "small.onnx", "--deadline", "5m", "-o", "in_time.tpkg"});
  EXPECT_EQ(in_time.status, 0) << in_time.err;
  const CommandResult wrong =
      tessera({"compile", "small.onnx", "--deadline", "soon", "-o", "late.tpkg"});
  EXPECT_NE(wrong.status, 0);
  EXPECT_THAT(wrong.err, HasSubstr("--deadline"));
}

// Passes that look for a neighbour among all nodes, or count all links anew after a rewrite, would take
// minutes and more.
TEST(Stages, AChainOfManyNodesIsCompiled) {
  constexpr int kNodes = 20'000;
  model::testing::ModelBuilder chain(13);
  chain.input("v0", Format::kF32, {1, 64});
  for (int i = 0; i < kNodes; ++i) {
    chain.node(i % 2 == 0 ? "Sigmoid" : "Tanh", {"v" + std::to_string(i)},
               {"v" + std::to_string(i + 1)});
  }
  chain.output("v" + std::to_string(kNodes));
  write_text(work_folder() + "/chain.onnx", chain.bytes());
  const CommandResult made = tessera({"compile", "chain.onnx", "--json", "-o", "chain.tpkg"});
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_GE(made.json().at("frames"), kNodes);
}

TEST(Inspect, TheTypedGraphOfAModelEqualsThatOfItsPackage) {
  ASSERT_EQ(tessera({"compile", "small.onnx", "-o", "graph.tpkg"}).status, 0);
  const CommandResult of_model = tessera({"inspect", "small.onnx", "--graph"});
  const CommandResult of_package = tessera({"inspect", "graph.tpkg", "--graph"});
  EXPECT_EQ(of_model.status, 0) << of_model.err;
  EXPECT_EQ(of_model.out, of_package.out);
}

TEST(Compare, EqualDevicesEndWithStatusZero) {
  const CommandResult found = tessera({"compare", "small.onnx", "--a", "sim", "--b", "host"});
  EXPECT_EQ(found.status, 0) << found.err;
  EXPECT_EQ(found.out, "sim and host: 640 values in 5 tensors compared, 0 mismatches\n");
}

TEST(Compare, APackageIsAcceptedUnderAnyName) {
  ASSERT_EQ(tessera({"compile", "small.onnx", "-o", "compare.bin"}).status, 0);
  const CommandResult found = tessera({"compare", "compare.bin", "--b", "ref"});
  EXPECT_EQ(found.status, 0) << found.err;
  EXPECT_EQ(found.out, "sim and ref: 640 values in 5 tensors compared, 0 mismatches\n");
}

TEST(Compare, APlantedFaultIsFoundInItsLayerAndElement) {
  const CommandResult found = tessera({"compare", "small.onnx", "--plant-fault", "conv"});
  EXPECT_NE(found.status, 0);
  EXPECT_THAT(found.err, StartsWith("tessera compare: first difference: layer 'conv', tensor 'r' "
                                    "f16 [1x4x8x8], element [0, "));
  EXPECT_THAT(found.err, HasSubstr("]: a = "));
  EXPECT_THAT(found.err, HasSubstr(" of 256 elements differ)"));
}

TEST(Report, ListsTheLayersWithCyclesAndBound) {
  const CommandResult report = tessera({"report", "small.onnx"});
  EXPECT_EQ(report.status, 0) << report.err;
  EXPECT_THAT(report.out, StartsWith("layer "));
  EXPECT_THAT(report.out, HasSubstr("\nconv "));
}

TEST(Bench, PrintsEveryDevice) {
  const CommandResult bench =
      tessera({"bench", "small.onnx", "--suite", "devices", "--repeat", "2"});
  EXPECT_EQ(bench.status, 0) << bench.err;
  for (const char* device : {"\nhost ", "\nsim ", "\nsim timing-only "}) {
    EXPECT_THAT(bench.out, HasSubstr(device));
  }
}

TEST(Doctor, FindsNothingWrong) {
  const CommandResult doctor = tessera({"doctor"});
  EXPECT_EQ(doctor.status, 0) << doctor.out;
  EXPECT_THAT(doctor.out, HasSubstr("ref, host and sim give the same bits"));
}

}  // namespace
}  // namespace tessera::cli
