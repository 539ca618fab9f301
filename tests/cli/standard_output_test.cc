// What is printed arrives, or the command says so and fails: on a full disk and in a closed pipe.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "command.h"

namespace tessera::cli {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

class StandardOutput : public ::testing::TestWithParam<std::string> {
 protected:
  static void SetUpTestSuite() {
    prepare();
    ASSERT_EQ(shell("mkdir -p printed").status, 0);
    ASSERT_EQ(tessera({"compile", "small.onnx", "-o", "printed/small.tpkg"}).status, 0);
    ASSERT_EQ(
        tessera({"link", "printed/small.tpkg", "--embed-weights", "-o", "printed/small.tprog"})
            .status,
        0);
    write_text("printed/run.jsonl", R"({"kind":"end of events","events":0,"lost":0})"
                                    "\n");
  }
  static std::string verb() { return GetParam().substr(0, GetParam().find(' ')); }
};

TEST_P(StandardOutput, FullDiskIsAnError) {
  for (const char* form : {"", " --json"}) {
    const CommandResult result = shell("exec $TESSERA " + GetParam() + form + " >/dev/full");
    EXPECT_EQ(result.status, 1) << form;
    EXPECT_EQ(result.err, "tessera " + verb() +
                              ": writing standard output: No space left on device   "
                              "[unavailable]\n")
        << form;
  }
}

// The reader has gone before the first byte is written.
TEST_P(StandardOutput, PipeWithoutAReaderIsAnErrorAndNoSignal) {
  const CommandResult result =
      shell("rm -f gone && mkfifo gone && { : <gone & exec 3>gone; wait; exec $TESSERA " +
            GetParam() + " >&3; }");
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.err,
            "tessera " + verb() + ": writing standard output: Broken pipe   [unavailable]\n");
}

TEST_P(StandardOutput, ClosedDescriptorIsAnErrorAndNoFileTakesItsPlace) {
  const CommandResult result = shell("exec $TESSERA " + GetParam() + " >&-");
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.err, "tessera " + verb() +
                            ": writing standard output: Bad file descriptor   [unavailable]\n");
}

std::string name_of(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param.substr(0, info.param.find(' '));
  return name + std::to_string(info.index);
}

INSTANTIATE_TEST_SUITE_P(
    Verbs, StandardOutput,
    ::testing::Values("run small.onnx", "run printed/small.tprog",
                      "compile small.onnx -o printed/a.tpkg",
                      "link printed/small.tpkg -o printed/a.tprog", "inspect small.onnx",
                      "inspect printed/small.tpkg", "inspect printed/small.tprog",
                      "asm " TESSERA_FIRMWARE_EXAMPLES "/lstm.tasm -o printed/l.tprog",
                      "disasm printed/small.tprog", "disasm printed/small.tprog -o printed/a.tasm",
                      "derive relu.onnx -o printed/d.onnx", "compare relu.onnx",
                      "report small.onnx", "report relu.onnx --min-buffer",
                      "bench relu.onnx --seconds 0.01 --device ref", "zoo --list", "doctor",
                      "card --tenant small.onnx --timing-only",
                      "trace printed/run.jsonl -o printed/t.json"),
    name_of);

TEST(StandardOutputHelp, HelpAndVersionAreChecked) {
  for (const char* words : {"--help", "--version", "run --help"}) {
    const CommandResult result = shell("exec $TESSERA " + std::string(words) + " >/dev/full");
    EXPECT_EQ(result.status, 1) << words;
    EXPECT_EQ(result.err,
              "tessera: writing standard output: No space left on device   [unavailable]\n");
  }
}

TEST(StandardOutputHelp, FullStandardErrorChangesNothingButTheWords) {
  EXPECT_EQ(shell("exec $TESSERA inspect none.onnx 2>/dev/full").status, 1);
  EXPECT_EQ(shell("exec $TESSERA run small.onnx 2>/dev/full").status, 0);
}

TEST(StandardOutputHelp, OutputsMayGoToDevicesAndDescriptors) {
  const CommandResult zero = tessera({"compile", "small.onnx", "-o", "/dev/null"});
  EXPECT_EQ(zero.status, 0) << zero.err;
  const CommandResult full = tessera({"compile", "small.onnx", "-o", "/dev/full"});
  EXPECT_EQ(full.status, 1);
  EXPECT_EQ(full.err,
            "tessera compile: writing '/dev/full': No space left on device   [unavailable]\n");
  const CommandResult piped =
      shell("$TESSERA compile small.onnx -o /dev/fd/3 3>&1 >/dev/null | head -c 7");
  EXPECT_EQ(piped.out, "TESSPKG") << piped.err;
}

// The size limit of a file.
TEST(StandardOutputHelp, LimitOfAFilesSizeIsAnError) {
  write_text("limited/p.tpkg", "former");
  const CommandResult result =
      shell("ulimit -f 1; exec $TESSERA compile small.onnx -o limited/p.tpkg");
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.err,
            "tessera compile: writing 'limited/p.tpkg': File too large   [unavailable]\n");
  EXPECT_EQ(read_text("limited/p.tpkg"), "former");
  EXPECT_EQ(shell("ls -A limited").out, "p.tpkg\n");
}

}  // namespace
}  // namespace tessera::cli
