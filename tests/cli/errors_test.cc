// What goes wrong, in the words that a user sees: on standard error, with a status that is not 0.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "command.h"

namespace tessera::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// The command fails, prints nothing to standard output, and says exactly this.
void expect_error(const std::vector<std::string>& arguments, const std::string& message) {
  const CommandResult result = tessera(arguments);
  EXPECT_EQ(result.status, 1) << message;
  EXPECT_EQ(result.out, "") << message;
  EXPECT_EQ(result.err, message + "\n");
}

void expect_run_error(std::vector<std::string> options, const std::string& message) {
  options.insert(options.begin(), {"run", "small.onnx"});
  expect_error(options, "tessera run: " + message);
}

TEST(CommandErrors, AnUnknownVerbNamesTheNearestOne) {
  expect_error({"comple"},
               fmt::format("tessera: unknown verb 'comple'; did you mean 'compile'? allowed {}   "
                           "[invalid argument]",
                           fmt::join(verbs(), ", ")));
}

TEST(CommandErrors, OptionsOfSeveralNetworksAreChecked) {
  const std::string invalid = "   [invalid argument]";
  expect_run_error({"--priority", "1"},
                   "--priority is for several networks on one core; one is given" + invalid);
  const auto both = [&](const std::string& option, const std::string& value,
                        const std::string& text) {
    expect_error({"run", "small.onnx", "host.onnx", option, value},
                 "tessera run: " + text + invalid);
  };
  both("--priority", "1", "--priority '1': 1 given for 2 networks; give one for each");
  both("--priority", "1,x", "--priority 'x': allowed are whole numbers from -1000000 to 1000000");
  both("--arrival", "0,5", "--arrival '5': expected 0, or a time of 0 and later in us or ms");
  both("--share", "0.5,1", "--share '1': allowed above 0 and below 1");
  both("--share", "0.75,0.5", "the shares add up to 1.25, allowed at most 1");
  both("--device", "host", "several networks share a core of the device sim; the device is host");
  both("--html", "both.html", "--html is for one network; several are given");
  both("--input", "x=random:7",
       "--input 'x=random:7': several networks are given; write NETWORK:NAME=SOURCE, NETWORK "
       "being 0 to 1 or the file's name without its ending");
}

TEST(CommandErrors, AVerbWithoutItsModelSaysSo) {
  const CommandResult result = tessera({"run"});
  EXPECT_NE(result.status, 0);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err, "model is required\nRun with --help for more information.\n");
}

TEST(ModelErrors, AMissingFileIsNamed) {
  expect_error({"run", "none.onnx"},
               "tessera run: importing 'none.onnx': cannot read the file: No such file or "
               "directory   [invalid argument]");
  expect_error({"inspect", "none.tpkg"},
               "tessera inspect: reading 'none.tpkg': No such file or directory   "
               "[invalid argument]");
}

TEST(ModelErrors, ATextFileIsNotAModel) {
  for (const std::string verb : {"run", "inspect", "report", "compare", "bench"}) {
    expect_error({verb, "text.onnx"},
                 "tessera " + verb +
                     ": importing 'text.onnx': the file is text, not an ONNX model   "
                     "[invalid model]");
  }
}

TEST(ModelErrors, AnOperatorThatNobodyRunsIsNamedWithItsNode) {
  expect_error({"run", "strange.onnx"},
               "tessera run: node 'odd' (Wobble): operator 'Wobble' is not known   [unsupported]");
}

TEST(ModelErrors, FullOffloadNamesTheHostStep) {
  for (const std::string verb : {"report", "bench", "compare"}) {
    const CommandResult result = tessera({verb, "host.onnx", "--require-full-offload"});
    EXPECT_NE(result.status, 0) << verb;
    EXPECT_THAT(result.err, HasSubstr("node 'best' (Det): would run on the host")) << verb;
  }
  const CommandResult compiled =
      tessera({"compile", "host.onnx", "-o", "full.tpkg", "--require-full-offload"});
  EXPECT_NE(compiled.status, 0);
  EXPECT_THAT(compiled.err, HasSubstr("full offload is required"));
  expect_error({"run", "host.onnx", "--require-full-offload"},
               "tessera run: node 'best' (Det): would run on the host (operator 'Det': not "
               "among the processor's operators at opset 13), and full offload is required   "
               "[unsupported]");
  ASSERT_EQ(tessera({"compile", "host.onnx", "-o", "host.tpkg"}).status, 0);
  expect_error({"run", "host.tpkg", "--require-full-offload"},
               "tessera run: 'host.tpkg': node 'best' (Det) runs on the host (operator "
               "'Det': not among the processor's operators at opset 13), and full offload is "
               "required   [unsupported]");
}

TEST(ShapeErrors, SayWhatTheModelAllows) {
  expect_run_error({"--shape", "x=2x3x8x8"},
                   "input 'x': dimension 0 is 2, the model allows only 1   [invalid argument]");
  expect_run_error({"--shape", "q=1x3x8x8"},
                   "the model has no input 'q'; it has 'x'   [invalid argument]");
  expect_run_error({"--shape", "x=1x3x8"},
                   "input 'x': shape 1x3x8 has rank 3, the model has rank 4   [invalid argument]");
  for (const std::string text : {"x=1,3,8,8", "x=", "=1x3", "x", "x=1x", "x=-1x3"}) {
    expect_run_error({"--shape", text},
                     "--shape '" + text + "': expected NAME=1x3x48x320   [invalid argument]");
  }
}

TEST(DeviceErrors, AnUnknownDeviceListsTheKnownOnes) {
  expect_run_error({"--device", "gpu"},
                   "device 'gpu' is not known; allowed: sim, host, ref   [invalid argument]");
}

TEST(DeviceErrors, MoreCoresThanThereAre) {
  expect_run_error({"--cores", "2"},
                   "2 cores; a card of 'tessera128' has 1, allowed 1 to 1 (card.groups, "
                   "card.cores_per_group; tessera128x4 has 4, cloud16 16)   [invalid argument]");
  expect_run_error({"--cores", "5", "--arch", "tessera128x4"},
                   "5 cores; a card of 'tessera128x4' has 4, allowed 1 to 4 (card.groups, "
                   "card.cores_per_group; tessera128x4 has 4, cloud16 16)   [invalid argument]");
  expect_run_error({"--cores", "9", "--cards", "2", "--arch", "tessera128x4"},
                   "9 cores; 2 cards of 'tessera128x4' have 8, allowed 1 to 8 (card.groups, "
                   "card.cores_per_group; tessera128x4 has 4, cloud16 16)   [invalid argument]");
  expect_run_error(
      {"--cores", "64", "--cards", "5", "--arch", "cloud16"},
      "5 cards of 'cloud16' with 16 cores in 4 groups each, allowed 1 to 4 (at most 64 "
      "cores and 16 groups together)   [invalid argument]");
  expect_run_error({"--cores", "2", "--cards", "3", "--arch", "tessera128x4"},
                   "2 cores on 3 cards; allowed are 1 to 2 cards, a core on each   [invalid "
                   "argument]");
  expect_run_error({"--cores", "2", "--device", "host"},
                   "--cores belongs to the device sim; the device is host   [invalid argument]");
  const std::string together = ": not supported yet; leave one of them out   [unsupported]";
  const std::vector<std::string> two = {"small.onnx", "--arch", "tessera128x4", "--cores", "2"};
  for (const auto& [verb, option] : {std::pair<std::string, std::string>{"run", "--serial"},
                                     {"report", "--serial"},
                                     {"report", "--formats"},
                                     {"report", "--min-buffer"}}) {
    std::vector<std::string> arguments = two;
    arguments.insert(arguments.begin(), verb);
    arguments.push_back(option);
    std::string error = "tessera ";
    error.append(verb).append(": --cores 2 with ").append(option).append(together);
    expect_error(arguments, error);
  }
  const std::string invalid = "   [invalid argument]";
  expect_run_error({"--arch", "cloud16", "--cores", "6", "--cores-per-image", "4"},
                   "4 cores an image, of 6; allowed 1, 2, 3, 6" + invalid);
  expect_run_error({"--device", "host", "--cores-per-image", "1"},
                   "--cores-per-image belongs to the device sim; the device is host" + invalid);
  expect_error(
      {"compare", "small.onnx", "--a", "host", "--b", "ref", "--cores", "2"},
      "tessera compare: --cores belongs to the device sim; the devices are host and ref" + invalid);
  expect_error({"bench", "small.onnx", "--cores", "2"},
               "tessera bench: --cores belongs to the device sim; --device names host" + invalid);
  expect_error(
      {"bench", "--suite", "roofline", "--cards", "2"},
      "tessera bench: --cards is for a model, or for --suite devices or card-model; the suite is "
      "roofline" +
          invalid);
  expect_error({"bench", "small.onnx", "--device", "sim", "--functions", "2", "--cores", "2"},
               "tessera bench: device 'sim0': 2 cores and 2 virtual functions; allowed is one of "
               "them" +
                   invalid);
}

TEST(CardErrors, LinkingAndPrograms) {
  const std::string invalid = "   [invalid argument]";
  ASSERT_EQ(tessera({"compile", "small.onnx", "-o", "cores.tpkg"}).status, 0);
  const auto link_error = [&](const std::vector<std::string>& options, const std::string& error) {
    std::vector<std::string> arguments = {"link", "cores.tpkg", "-o", "cores.tprog"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    expect_error(arguments, "tessera link: " + error);
  };
  link_error({"--cores", "2"},
             "2 cores; a card of 'tessera128' has 1, allowed 1 to 1 (card.groups, "
             "card.cores_per_group; tessera128x4 has 4, cloud16 16)" +
                 invalid);
  link_error({"--cores", "2", "--cards", "3"},
             "2 cores on 3 cards; allowed are 1 to 2 cards, a core on each" + invalid);
  link_error({"--cores", "6", "--cores-per-image", "4"},
             "4 cores an image, of 6; allowed 1, 2, 3, 6" + invalid);
  ASSERT_EQ(tessera({"link", "cores.tpkg", "-o", "core.tprog"}).status, 0);
  const std::string compiled = "'core.tprog' is a program, which is compiled already; ";
  expect_error({"derive", "core.tprog", "-o", "cores.onnx", "--cores", "2"},
               "tessera derive: " + compiled + "--cores is for models" + invalid);
  expect_error({"run", "core.tprog", "--cores", "2"},
               "tessera run: " + compiled + "--cores is for models" + invalid);
}

TEST(ArchitectureErrors, AnUnknownProfileNamesTheNearestOne) {
  expect_run_error(
      {"--arch", "tesera128"},
      "unknown architecture 'tesera128'; did you mean 'tessera128'? allowed "
      "brainwave, cloud16, edge, f32, gemmini8, neuron2, pe128x64, systolic, tessera128, "
      "tessera128x4, tpuv3, "
      "tpuv6e, or the path of a .toml file   [invalid argument]");
}

TEST(ArchitectureErrors, AFileIsAnsweredWithLineKeyAndRange) {
  struct {
    const char* text;
    const char* message;
  } const cases[] = {
      {"[neural]\nrowz = 3\n",
       "chip.toml:2: neural.rowz: unknown key; did you mean neural.rows?   [invalid argument]"},
      {"name = \"a\"\n[neural]\nrows = \"x\"\n",
       "chip.toml:3: neural.rows: found \"x\", allowed 1..1024   [invalid argument]"},
      {"[neural]\n\nrows = 4096\n",
       "chip.toml:3: neural.rows: found 4096, allowed 1..1024   [invalid argument]"},
      {"[neurl]\nrows = 16\n",
       "chip.toml:1: [neurl]: unknown section; did you mean [neural]?   [invalid argument]"},
      {"[formats]\nvector = \"f8\"\n",
       "chip.toml:2: formats.vector: found \"f8\", allowed \"f16\", \"bf16\", \"f32\"   "
       "[invalid argument]"},
  };
  prepare();
  for (const auto& one : cases) {
    write_text("chip.toml", one.text);
    expect_run_error({"--arch", "chip.toml"}, one.message);
  }
  expect_run_error({"--arch", "none.toml"},
                   "cannot read architecture file 'none.toml': No such file or directory   "
                   "[invalid argument]");
}

TEST(InputErrors, NameShapeFileAndSeed) {
  prepare();
  expect_run_error({"--input", "q=random:7"},
                   "--input 'q=random:7': expected NAME=FILE, the inputs are: x   "
                   "[invalid argument]");
  expect_run_error({"--input", "x=none.npy"},
                   "reading 'none.npy': No such file or directory   [invalid argument]");
  for (const std::string seed : {"q", "", "-1", "7x", " 7", "18446744073709551616"}) {
    expect_run_error({"--input", "x=random:" + seed},
                     "reading 'random:" + seed +
                         "': the seed must be a whole number from 0 to 18446744073709551615, as "
                         "in random:7   [invalid argument]");
  }
  expect_run_error({"--input", "x=random:1", "--input", "x=random:2"},
                   "--input 'x=random:2': this input is given twice   [invalid argument]");
  write_text("text.npy", "no numbers here\n");
  expect_run_error({"--input", "text.npy"},
                   "reading 'text.npy': not a NumPy file   [invalid argument]");
  ASSERT_EQ(tessera({"run", "small.onnx", "--output", "wrong_shape"}).status, 0);
  expect_run_error({"--input", "x=wrong_shape/y.npy"},
                   "reading 'wrong_shape/y.npy': found f32 1x4x4x4, input 'x' takes f32 1x3x8x8   "
                   "[invalid argument]");
  expect_error({"compare", "small.onnx", "--input", "q=random"},
               "tessera compare: --input 'q=random': expected NAME=FILE, the inputs are: x   "
               "[invalid argument]");
  expect_run_error({"--preprocess", "mean=1"},
                   "--preprocess: 'mean=1' needs three numbers   [invalid argument]");
}

TEST(PackageErrors, AnotherArchitecture) {
  ASSERT_EQ(tessera({"compile", "small.onnx", "-o", "other.tpkg"}).status, 0);
  for (const std::string verb : {"run", "compare", "report", "bench"}) {
    const CommandResult result = tessera({verb, "other.tpkg", "--arch", "edge"});
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.err,
                StartsWith("tessera " + verb +
                           ": the package was compiled for 'tessera128' (fingerprint "));
    EXPECT_THAT(result.err, HasSubstr("), the architecture given is 'edge' ("));
    EXPECT_THAT(result.err, HasSubstr("); compile the model again or choose that architecture   "
                                      "[invalid argument]\n"));
  }
}

TEST(PackageErrors, WhatIsFixedByCompilingCannotBeChanged) {
  ASSERT_EQ(tessera({"compile", "small.onnx", "-o", "fixed.tpkg"}).status, 0);
  expect_error({"run", "fixed.tpkg", "--shape", "x=1x3x8x8"},
               "tessera run: 'fixed.tpkg' is a package, which is compiled already; give --shape to "
               "'tessera compile'   [invalid argument]");
}

TEST(PackageErrors, ADamagedFileIsNeverRun) {
  ASSERT_EQ(tessera({"compile", "small.onnx", "-o", "sound.tpkg"}).status, 0);
  const std::string sound = read_text("sound.tpkg");
  write_text("cut.tpkg", sound.substr(0, 100));
  expect_error(
      {"run", "cut.tpkg"},
      "tessera run: 'cut.tpkg': 100 bytes, a container has at least 128; the file is damaged   "
      "[invalid model]");
  std::string flipped = sound;
  flipped[flipped.size() / 2] = static_cast<char>(flipped[flipped.size() / 2] ^ 1);
  write_text("flipped.tpkg", flipped);
  for (const std::string verb : {"run", "inspect", "compare"}) {
    expect_error({verb, "flipped.tpkg"}, "tessera " + verb +
                                             ": 'flipped.tpkg': the digest does not match the "
                                             "contents; the file is damaged   [invalid model]");
  }
  std::string headless = sound;
  headless[0] = 'x';
  write_text("headless.tpkg", headless);
  expect_error({"link", "headless.tpkg", "-o", "never.tprog"},
               "tessera link: 'headless.tpkg': does not begin with the magic 'TESSPKG'   "
               "[invalid model]");
  EXPECT_EQ(tessera({"run", "headless.tpkg"}).status, 1);
}

TEST(PackageErrors, ALinkedProgramIsNotAModel) {
  ASSERT_EQ(tessera({"compile", "small.onnx", "-o", "linked.tpkg"}).status, 0);
  ASSERT_EQ(tessera({"link", "linked.tpkg", "-o", "linked.tprog"}).status, 0);
  for (const std::string verb : {"compare", "report"}) {  // run, bench and watch take both
    expect_error({verb, "linked.tprog"},
                 "tessera " + verb +
                     ": 'linked.tprog' is a linked program; give the package or the model it was "
                     "made from   [invalid argument]");
  }
}

TEST(RunErrors, OptionsThatWouldDoNothingAreRefused) {
  expect_run_error({"--device", "host", "--trace", "t.json"},
                   "--trace belongs to the device sim; the device is host   [invalid argument]");
  expect_run_error({"--device", "ref", "--check-hazards"},
                   "--check-hazards belongs to the device sim; the device is ref   "
                   "[invalid argument]");
  expect_run_error({"--device", "host", "--no-host-time"},
                   "--no-host-time belongs to the device sim; the device is host   "
                   "[invalid argument]");
  expect_error({"bench", "small.onnx", "--functions", "2"},
               "tessera bench: --functions belongs to the device sim; --device names host   "
               "[invalid argument]");
  expect_error({"bench", "small.onnx", "--device", "sim", "--functions", "5", "--tasks", "1"},
               "tessera bench: device 'sim0': 5 virtual functions; the task manager of "
               "'tessera128' has 4 queues, one for each function; allowed 1 to 4, or an "
               "architecture with more task_manager.queues   [invalid argument]");
  expect_run_error({"--device", "host", "--trap", "nan"},
                   "--trap belongs to the device sim; the device is host   [invalid argument]");
  expect_run_error({"--timing-only", "--trap", "nan"},
                   "--trap: --timing-only computes no values that could be trapped; leave one of "
                   "them out   [invalid argument]");
  expect_run_error({"--trap", "nan,heat"},
                   "trap 'heat' is not known; allowed: nan, infinity, range, saturation, overflow "
                   "(the last three), with commas between   [invalid argument]");
  expect_run_error({"--timing-only", "--output", "out"},
                   "--output: --timing-only computes no values; leave one of them out   "
                   "[invalid argument]");
}

TEST(OutputErrors, AFolderThatIsNotThere) {
  expect_error({"compile", "small.onnx", "-o", "nowhere/x.tpkg"},
               "tessera compile: writing 'nowhere/x.tpkg': No such file or directory   "
               "[invalid argument]");
  expect_run_error({"--trace", "nowhere/x.json"},
                   "writing 'nowhere/x.json': No such file or directory   [invalid argument]");
  expect_run_error({"--html", "nowhere/x.html"},
                   "writing 'nowhere/x.html': No such file or directory   [invalid argument]");
}

TEST(CompareErrors, AFaultNeedsANodeWithConstants) {
  expect_error({"compare", "small.onnx", "--plant-fault", "q"},
               "tessera compare: there is no node 'q'   [invalid argument]");
  expect_error({"compare", "small.onnx", "--plant-fault", "pool"},
               "tessera compare: node 'pool' has no constant to plant a fault in   "
               "[invalid argument]");
}

TEST(NumberErrors, OptionsTakeFiniteNumbersOnly) {
  for (const char* text : {"nan", "inf", "-nan", "1e999"}) {
    const CommandResult tolerance = tessera({"conform", ".", "--atol", text});
    EXPECT_NE(tolerance.status, 0);
    EXPECT_NE(tolerance.err.find("--atol"), std::string::npos) << tolerance.err;
    const CommandResult seconds = tessera({"bench", "relu.onnx", "--seconds", text});
    EXPECT_NE(seconds.status, 0);
    EXPECT_NE(seconds.err.find("--seconds"), std::string::npos) << seconds.err;
  }
  EXPECT_NE(tessera({"conform", ".", "--rtol", "-1"}).status, 0);
}

TEST(NumberErrors, IntegersNeitherWrapNorSaturate) {
  for (const char* text : {"-1", "18446744073709551616", "0x10", " 5", "1e3", ""}) {
    const CommandResult seed = tessera({"zoo", "mobilenet_v1", "--seed", text, "-o", "/dev/null"});
    EXPECT_NE(seed.status, 0) << text;
    EXPECT_NE(seed.err.find("--seed"), std::string::npos) << seed.err;
  }
  EXPECT_NE(tessera({"run", "relu.onnx", "--tile-budget", "9223372036854775808"}).status, 0);
}

TEST(OutputErrors, WhatWouldNotBeWrittenIsRefused) {
  expect_error({"run", "small.onnx", "--out", "o.bin"},
               "tessera run: --out runs a program (.tprog) or firmware text (.tasm), 'small.onnx' "
               "is neither   [invalid argument]");
  expect_error({"bench", "--suite", "transposition", "--trace", "t.json"},
               "tessera bench: --trace is for the load on a model; --suite transposition does not "
               "take it   [invalid argument]");
  expect_error({"inspect", "small.onnx", "--arch", "nosuch"},
               "tessera inspect: --arch: it belongs to --graph   [invalid argument]");
  EXPECT_NE(tessera({"run", "small.onnx", "--trace", ""}).err.find("--trace: it is empty"),
            std::string::npos);
  for (const char* target : {"/dev/stdout", "/dev/null"}) {
    EXPECT_NE(tessera({"derive", "small.onnx", "--to", "pytorch", "-o", target})
                  .err.find("give a file's name"),
              std::string::npos);
  }
}

TEST(ConformErrors, AFolderThatIsNotThere) {
  expect_error({"conform", "nowhere"},
               "tessera conform: reading 'nowhere': No such file or directory   "
               "[invalid argument]");
}

TEST(BenchErrors, AModelOrASuite) {
  expect_error({"bench"}, "tessera bench: give a model, or --suite   [invalid argument]");
  const CommandResult unknown = tessera({"bench", "--suite", "other"});
  EXPECT_NE(unknown.status, 0);
  EXPECT_THAT(
      unknown.err,
      StartsWith("--suite: other not in "
                 "{devices,pipeline,tuning,unequal,outcomes,host-vs-ort,roofline,sensitivity,"
                 "transposition,card-model,serve,cluster}\n"));
}

TEST(BenchErrors, AFolderOfModelsNamesWhatIsMissing) {
  const auto roofline = [](const std::string& folder) -> std::vector<std::string> {
    return {"bench", "--suite", "roofline", "--models", folder};
  };
  std::filesystem::create_directories("roofline_errors/cases");
  expect_error(roofline("no_folder"),
               "tessera bench: cannot read the folder 'no_folder': No such file or directory   "
               "[unavailable]");
  expect_error(
      roofline("roofline_errors"),
      "tessera bench: there is no model (.onnx) in the folder 'roofline_errors'   [invalid "
      "argument]");
  std::filesystem::copy_file("strange.onnx", "roofline_errors/strange.onnx",
                             std::filesystem::copy_options::overwrite_existing);
  const auto with_line = [&](const std::string& line, const std::string& error) {
    std::ofstream("roofline_errors/cases/CASES.tsv") << "model\n" << line << "\n";
    expect_error(roofline("roofline_errors"), "tessera bench: roofline_errors/cases/CASES.tsv:2: " +
                                                  error + "   [invalid argument]");
  };
  with_line("a\tb",
            "2 columns, expected model, case, in or out, index, tensor, type and shape, with "
            "tabs between");
  with_line("strange\tb\tin\t0\tx\tfloat32\t1xq",
            "shape '1xq' of 'x', expected one like 1x3x48x320");
  std::filesystem::remove("roofline_errors/cases/CASES.tsv");
  const CommandResult refused = tessera(roofline("roofline_errors"));
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(
      refused.err,
      StartsWith("tessera bench: none of the 1 models in 'roofline_errors' runs; the first, "
                 "'strange': "));
}

TEST(BenchErrors, TheSuiteNeedsItsProgramBesideTheCommand) {
  const CommandResult result = tessera_alone({"bench", "--suite", "host-vs-ort"});
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.err,
            "tessera bench: --suite host-vs-ort: there is no program 'host_vs_ort' beside '" +
                work_folder() +
                "/alone'; build the source tree and run its tessera, or scripts/bench.sh   "
                "[unavailable]\n");
}

TEST(ServiceErrors, ServicesNeedTheirProgramBesideTheCommand) {
  const std::string folder = work_folder() + "/alone";
  const std::vector<std::vector<std::string>> calls = {{"serve", "--model-repository", "."},
                                                       {"master", "--store", "etcd:127.0.0.1:1"},
                                                       {"node", "--store", "etcd:h:1", "--id", "n"},
                                                       {"cluster", "try"}};
  for (const std::vector<std::string>& call : calls) {
    const CommandResult result = tessera_alone(call);
    EXPECT_EQ(result.status, 1);
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(result.err, "tessera " + call[0] +
                              ": there is no program 'tessera-service' beside '" + folder +
                              "/tessera' nor at '" + folder +
                              "/../libexec/tessera/tessera-service', and it does this; install all "
                              "of the package, or build the target tessera_service   "
                              "[unavailable]\n");
  }
  // What needs no such program goes on.
  EXPECT_EQ(tessera_alone({"serve", "--help"}).status, 0);
  EXPECT_THAT(tessera_alone({"cluster", "pool", "--patience", "0", "--master", "127.0.0.1:1"}).err,
              HasSubstr("127.0.0.1:1"));
}

// gRPC takes a third of the time in which a short verb is done, so that the command is without it.
TEST(ServiceErrors, TheCommandDoesNotLoadGrpc) {
  const CommandResult libraries = shell("readelf -d \"$TESSERA\"");
  if (libraries.status != 0) GTEST_SKIP() << "readelf is not in PATH";
  EXPECT_THAT(libraries.out, HasSubstr("NEEDED"));
  EXPECT_THAT(libraries.out, Not(HasSubstr("grpc")));
  const CommandResult loaded = shell("ldd \"$TESSERA\"");
  EXPECT_THAT(loaded.out, HasSubstr("libstdc++"));
  EXPECT_THAT(loaded.out, Not(HasSubstr("grpc")));
}

TEST(BenchErrors, TheServiceIsLoadedByAProgramOfTheSourceTree) {
  const CommandResult result = tessera_alone({"bench", "--suite", "serve"});
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.err, "tessera bench: --suite serve: there is no program 'serve_bench' beside '" +
                            work_folder() +
                            "/alone'; build the source tree and run its tessera, or "
                            "scripts/bench.sh   [unavailable]\n");
}

TEST(BenchErrors, OnnxRuntimeIsAbsent) {
  const CommandResult result =
      tessera({"bench", "--suite", "host-vs-ort", "--ocr-models", ".", "--onnxruntime", "nowhere"});
  if (result.err.find("cannot start 'node'") != std::string::npos) {
    GTEST_SKIP() << "node is not in PATH";
  }
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err,
            "host_vs_ort: ONNX Runtime: Error: Cannot find module "
            "'nowhere/node_modules/onnxruntime-node'   [unavailable]\n");
}

TEST(BenchErrors, NodeIsAbsent) {
  const CommandResult result =
      tessera({"bench", "--suite", "host-vs-ort", "--ocr-models", ".", "--onnxruntime", "."},
              {"PATH=/nonexistent"});
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err,
            "host_vs_ort: ONNX Runtime: cannot start 'node': No such file or directory; install "
            "Node.js and see that it is in PATH   [unavailable]\n");
}

}  // namespace
}  // namespace tessera::cli
