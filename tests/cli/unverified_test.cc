// run --unverified: programs as they are, without the proof; --check-hazards names what races.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "command.h"

namespace tessera::cli {
namespace {

using ::testing::HasSubstr;

const std::string kLstm = TESSERA_FIRMWARE_EXAMPLES "/lstm.tasm";

// The line of `tessera128` that a program's text has.
std::string chip_line() {
  EXPECT_EQ(tessera({"asm", kLstm, "--arch", "tessera128", "-o", "chip.tprog"}).status, 0);
  const std::string text = tessera({"disasm", "chip.tprog"}).out;
  const std::size_t first = text.find("\nchip ") + 1;
  return text.substr(first, text.find('\n', first) - first + 1);
}

// 63 steps of one row each. Step j reads row j - 1 and writes a row: row j (at byte 64), or one that
// nobody reads. `own_line`: what the task waits for beside the load.
void write_rows(const std::string& path, int written_at, const std::string& own_line) {
  static const std::string chip = chip_line();
  write_text(path, "program 1\n" + chip +
                       "regions workspace 0 input 4096 output 4096\n"
                       "input \"x\" tensor 0 f16 [1, 1, 64, 32] at input + 0\n"
                       "output \"y\" tensor 1 f16 [1, 1, 64, 32] at output + 0\n"
                       "layer \"shift\" kind \"elementwise\" dims [1, 1, 64, 32] macs 0\n"
                       "task 0 load transfer layer 0 bands 1 x 64 by 64\n"
                       "  read dram input + 0\n"
                       "  write buffer 0 f16 [1, 1, 64, 32] pitch [4096, 64, 2] ring 64\n"
                       "  stride_channel = 4096\n"
                       "  stride_row = 64\n"
                       "  stride_column = 2\n"
                       "  channel_count = 1\n"
                       "end\n"
                       "task 1 planar planar layer 0 bands 1 x 63 by 1\n"
                       "  after task 0: 1 steps\n" +
                       own_line +
                       "  read buffer 0 f16 [1, 1, 63, 32] pitch [4096, 64, 2] ring 63\n"
                       "  write buffer " +
                       std::to_string(written_at) +
                       " f16 [1, 1, 63, 32] pitch [4096, 64, 2] ring 63\n"
                       "end\n"
                       "task 2 store transfer layer 0 bands 1 x 64 by 64\n"
                       "  after task 1: 63 steps\n"
                       "  write dram output + 0\n"
                       "  read buffer 0 f16 [1, 1, 64, 32] pitch [4096, 64, 2] ring 64\n"
                       "  stride_channel = 4096\n"
                       "  stride_row = 64\n"
                       "  stride_column = 2\n"
                       "  channel_count = 1\n"
                       "end\n"
                       "segment tasks 0 to 3\n"
                       "end\n");
}

const std::string kOwnLine = "  after task 1: (1 j - 1) / 1 steps\n";
const std::string kRace =
    "race: step 2 of task 1 (planar, layer 'shift') reads bytes 64 to 128 of the state buffer "
    "before step 1 of the same task has written them; a dependency of the task on itself has to "
    "order them (after task 1: (1 j - 1) / 1 steps)";

TEST(Unverified, APlantedRaceIsRefusedAndTheHazardCheckShowsIt) {
  prepare();
  write_rows("racing.tasm", 64, "");
  const CommandResult proved = tessera({"run", "racing.tasm"});
  EXPECT_EQ(proved.status, 1);
  EXPECT_EQ(proved.err, "tessera run: " + kRace + "   [invalid model]\n");
  const CommandResult checked = tessera({"run", "racing.tasm", "--unverified", "--check-hazards"});
  EXPECT_EQ(checked.status, 1);
  EXPECT_EQ(checked.err,
            "tessera run: hazard: task 1 (planar, layer 0) step 2 reads state buffer bytes [64, "
            "128), which step 1 of the same task writes, and no dependency of the task on itself "
            "orders the two   [invalid model]\n");
  const CommandResult blind = tessera({"run", "racing.tasm", "--unverified", "--output", "blind"});
  EXPECT_EQ(blind.status, 0) << blind.err;
  EXPECT_THAT(blind.out, HasSubstr("3 tasks for tessera128; not verified\n"));

  write_rows("waiting.tasm", 64, kOwnLine);
  const CommandResult waits = tessera({"run", "waiting.tasm", "--check-hazards", "--output", "w"});
  EXPECT_EQ(waits.status, 0) << waits.err;
  EXPECT_TRUE(read_text("blind/y.npy") == read_text("w/y.npy"));
  const CommandResult quiet =
      tessera({"run", "waiting.tasm", "--unverified", "--check-hazards", "--json"});
  EXPECT_EQ(quiet.status, 0) << quiet.err;
  EXPECT_EQ(quiet.json()["verified"], false);
}

TEST(Unverified, RowsThatFollowFromEachOtherTakeTheirTime) {
  prepare();
  write_rows("waiting.tasm", 64, kOwnLine);
  write_rows("independent.tasm", 8192, "  after task 1: (1 j - 100) / 1 steps\n");
  const auto planar = [](const std::string& path) {
    const CommandResult run = tessera({"run", path, "--json"});
    EXPECT_EQ(run.status, 0) << run.err;
    return run.json()["engines"][1];
  };
  // A step is at work for 4 cycles (32 columns, 8 at a time). Independent rows follow each other at
  // once; one that reads the row before waits for 12 cycles of the pipeline, and that row counts in
  // the cycle behind: 13 cycles at 62 steps. Before the first step both wait for the load alike.
  const auto waits = planar("waiting.tasm"), flows = planar("independent.tasm");
  EXPECT_EQ(waits["name"], "planar");
  EXPECT_EQ(waits["steps"], 63);
  EXPECT_EQ(waits["blocked_dependency"].get<int>() - flows["blocked_dependency"].get<int>(),
            62 * 13);
}

TEST(Unverified, AllRacesAreNamedOnceForTwoTasks) {
  prepare();
  write_rows("two.tasm", 64, "");
  std::string text = read_text("two.tasm");
  const std::string store_waits = "  after task 1: 63 steps\n";
  text.replace(text.find(store_waits), store_waits.size(), "  after task 0: 1 steps\n");
  write_text("two.tasm", text);
  const CommandResult checked = tessera({"run", "two.tasm", "--unverified", "--check-hazards"});
  EXPECT_EQ(checked.status, 1);
  EXPECT_THAT(checked.err, HasSubstr("hazard: task 1 (planar, layer 0) step 2 reads"));
  EXPECT_THAT(checked.err, HasSubstr("\n  hazard: task "));
  EXPECT_THAT(checked.err, HasSubstr("task 2 (store, layer 0) step 1"));
}

TEST(UnverifiedErrors, WhatNoCheckLeavesOut) {
  prepare();
  const auto error_of = [](const std::vector<std::string>& arguments) {
    const CommandResult result = tessera(arguments);
    EXPECT_NE(result.status, 0);
    return result.err;
  };
  write_rows("itself.tasm", 64, "  after task 1: (1 j + 0) / 1 steps\n");
  EXPECT_EQ(
      error_of({"run", "itself.tasm", "--unverified"}),
      "tessera run: task 1 (planar, layer 'shift'): waits for itself: its step 1 asks for 1 of "
      "its own steps, when 0 can be finished; a task may wait for its own earlier steps only   "
      "[invalid model]\n");
  write_rows("racing.tasm", 64, "");
  EXPECT_EQ(error_of({"run", "racing.tasm", "--unverified", "--device", "host"}),
            "tessera run: --unverified belongs to the device sim; the device is host   [invalid "
            "argument]\n");
  EXPECT_EQ(
      error_of({"run", "small.onnx", "--unverified"}),
      "tessera run: --unverified runs a program (.tprog) or firmware text (.tasm), 'small.onnx' "
      "is neither   [invalid argument]\n");
  for (const std::string verb : {"compare", "bench"}) {
    EXPECT_THAT(error_of({verb, "racing.tasm", "--unverified"}), HasSubstr("--unverified")) << verb;
  }
  EXPECT_EQ(error_of({"derive", "racing.tasm", "--to", "onnx", "-o", "racing.onnx"}),
            "tessera derive: " + kRace + "   [invalid model]\n");
}

TEST(UnverifiedErrors, ALoopOverStepsIsNoLayer) {
  prepare();
  write_rows("waiting.tasm", 64, kOwnLine);
  const CommandResult host = tessera({"run", "waiting.tasm", "--device", "host"});
  EXPECT_EQ(host.status, 1);
  EXPECT_EQ(
      host.err,
      "tessera run: task 1 (planar, layer 'shift') waits for results that are made of its own, "
      "as a task does whose steps read what the steps before them wrote; that is no layer of "
      "a graph   [unsupported]\n");
}

}  // namespace
}  // namespace tessera::cli
