// run --trap, and traps that a firmware text asks for: which task, step and layer met what.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "command.h"

namespace tessera::cli {
namespace {

using ::testing::StartsWith;

const std::string kLstm = TESSERA_FIRMWARE_EXAMPLES "/lstm.tasm";

// A root of 64 rows; random numbers are below 0 here and there. `header`: behind the task's bands.
void write_roots(const std::string& path, const std::string& header) {
  EXPECT_EQ(tessera({"asm", kLstm, "--arch", "tessera128", "-o", "chip.tprog"}).status, 0);
  const std::string text = tessera({"disasm", "chip.tprog"}).out;
  const std::size_t first = text.find("\nchip ") + 1;
  const std::string chip = text.substr(first, text.find('\n', first) - first + 1);
  write_text(path, "program 1\n" + chip +
                       "regions workspace 0 input 4096 output 4096\n"
                       "input \"x\" tensor 0 f16 [1, 1, 64, 32] at input + 0\n"
                       "output \"y\" tensor 1 f16 [1, 1, 64, 32] at output + 0\n"
                       "layer \"root\" kind \"elementwise\" dims [1, 1, 64, 32] macs 0\n"
                       "task 0 load transfer layer 0 bands 1 x 64 by 64\n"
                       "  read dram input + 0\n"
                       "  write buffer 0 f16 [1, 1, 64, 32] pitch [4096, 64, 2] ring 64\n"
                       "  stride_channel = 4096\n"
                       "  stride_row = 64\n"
                       "  stride_column = 2\n"
                       "  channel_count = 1\n"
                       "end\n"
                       "task 1 planar planar layer 0 bands 1 x 64 by 64" +
                       header +
                       "\n"
                       "  after task 0: 1 steps\n"
                       "  read buffer 0 f16 [1, 1, 64, 32] pitch [4096, 64, 2] ring 64\n"
                       "  activate square_root\n"
                       "  write buffer 4096 f16 [1, 1, 64, 32] pitch [4096, 64, 2] ring 64\n"
                       "end\n"
                       "task 2 store transfer layer 0 bands 1 x 64 by 64\n"
                       "  after task 1: 1 steps\n"
                       "  write dram output + 0\n"
                       "  read buffer 4096 f16 [1, 1, 64, 32] pitch [4096, 64, 2] ring 64\n"
                       "  stride_channel = 4096\n"
                       "  stride_row = 64\n"
                       "  stride_column = 2\n"
                       "  channel_count = 1\n"
                       "end\n"
                       "segment tasks 0 to 3\n"
                       "end\n");
}

const std::string kTrapped =
    "tessera run: task 1 (planar, layer 'root'): step 1: trap nan: a NaN in image 0, channel 0, "
    "row ";

TEST(Traps, ARunNamesTaskStepAndLayer) {
  prepare();
  write_roots("roots.tasm", "");
  EXPECT_EQ(tessera({"run", "roots.tasm"}).status, 0);
  EXPECT_EQ(tessera({"run", "roots.tasm", "--trap", "overflow"}).status, 0);
  const CommandResult trapped = tessera({"run", "roots.tasm", "--trap", "overflow,nan"});
  EXPECT_EQ(trapped.status, 1);
  EXPECT_THAT(trapped.err, StartsWith(kTrapped));
}

TEST(Traps, AFirmwareTextAsksForThem) {
  prepare();
  write_roots("trapping.tasm", " trap nan");
  const CommandResult trapped = tessera({"run", "trapping.tasm"});
  EXPECT_EQ(trapped.status, 1);
  EXPECT_THAT(trapped.err, StartsWith(kTrapped));
  EXPECT_EQ(tessera({"run", "trapping.tasm", "--timing-only"}).status, 0);
}

}  // namespace
}  // namespace tessera::cli
