// Damaged texts: an error that names its place, or a program; never a crash, never a hang.
#include <gtest/gtest.h>

#include <random>

#include "base/test_volume.h"
#include "firmware/assembler.h"
#include "firmware/disassembler.h"
#include "firmware/program_text.h"
#include "package/container.h"

namespace tessera::firmware {
namespace {

constexpr const char* kChains =
    "firmware 1\n"
    "file initial 64\nset a = (3 + 4) * 2 % 5 - 1\n"
    "queue x [2, 40] in\nqueue y [2, 40] out\n"
    "matrix M [2, 40, 40] in matrix = identity\n"
    "matrix K [8, 40] window 1 x 2 x 2 in matrix = random 3 0.5\n"
    "matrix D [40, 40] in dram = random 7 0.5\nmatrix E [40, 40] in matrix\n"
    "vector b [40] in addsub = -0.25\nvector m [2, 40] in multiply = 1\n"
    "vector v [2, 3, 4, 40] in initial = 0\nvector r [5, 40] in initial at 40 = 2\n"
    "dram o [2, 2, 3, 8] output\ndram k [5] = [1, 2.5, -3, 0x10, 1e3]\n"
    "chain \"m\"\nread D\nwrite E\nend\n"
    "steps t 2\nrepeat i 2\n"
    "chain \"c\" shape [2, 40]\niterate 2\nread x step 1\nproduct M[i]\nadd b step 0\nsoftmax\n"
    "write y\nwrite initial[4]\nend\n"
    "chain \"w\"\nread v window 1 x 2 x 2 stride 1 x 1 x 1 pad 0 x 0 x 0\nproduct K\nrelu\n"
    "write o\nend\n"
    "chain \"q\"\nread v[0, 1, a]\nquantised\nmultiply m[1]\nwrite v[0, 0, 0]\nend\n"
    "chain \"p\"\nread v[1, 2, 0]\nproduct r\nwrite initial[30]\nend\n"
    "end\nend\n"
    "task planar planar bands 1 x 1 by 1\n"
    "read buffer 0 f16 [1, 16, 1, 1] pitch [0, 2, 2] ring 1\nactivate tanh\n"
    "write buffer 0 f16 [1, 16, 1, 1] pitch [0, 2, 2] ring 1\nend\n";

std::string descriptors() {
  isa::Program program;
  program.chip_name = "c";
  program.weights = std::vector<std::byte>(40);
  program.hints.push_back({"h", "k", {"o"}, {1, 2}, 3});
  program.inputs.push_back({"x", 1, Format::kF32, {2, 3}, {}});
  const isa::TaskConfig configs[] = {isa::NeuralTask{}, isa::PlanarTask{}, isa::TransferTask{},
                                     isa::CopyTask{}, isa::KernelTask{}};
  for (std::size_t i = 0; i < std::size(configs); ++i) {
    isa::TaskDescriptor task;
    task.id = static_cast<isa::TaskId>(i);
    task.engine = static_cast<isa::EngineKind>(i);
    task.config = configs[i];
    if (i > 0) task.dependencies.push_back({0, 2, 3, -4});
    append_task(program, task, {});
  }
  program.segments.push_back({0, 5, {{.node = 1, .inputs = {}, .outputs = {}, .body = {}}}});
  return disassemble(program, {});
}

// A few bytes replaced, lines doubled or taken out, numbers made large.
std::string damaged(std::string text, std::mt19937& random) {
  static constexpr const char* kPieces[] = {
      "0", "1", "-1",    "99999", "4294967295", "[", "]",   "x",    "end\n", "\n", "=",      "\"",
      "a", "v", "step ", "tap 1", "1e400",      "%", "/ 0", "2048", ",",     "(",  "1048576"};
  for (std::uint32_t i = 1 + random() % 3; i > 0; --i) {
    const std::size_t at = random() % text.size();
    switch (random() % 4) {
      case 0:
        text[at] = static_cast<char>(random());
        break;
      case 1: {
        const std::size_t begin = text.rfind('\n', at) + 1;
        const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
        const std::string line = text.substr(begin, end - begin);
        if (random() % 2 == 0)
          text.erase(begin, end - begin);
        else
          text.insert(text.rfind('\n', random() % text.size()) + 1, line);
        break;
      }
      case 2: {  // a number
        const std::size_t digit = text.find_first_of("0123456789", at);
        if (digit != std::string::npos) text.replace(digit, 1, kPieces[random() % 5]);
        break;
      }
      default:
        text.replace(at, random() % 3, kPieces[random() % std::size(kPieces)]);
    }
  }
  return text;
}

// Damaged texts, and how many of them still are programs.
int programs_among(const std::string& text, std::uint32_t seed, int rounds) {
  const ChipConfig chip;
  std::mt19937 random(seed);
  int good = 0;
  for (int round = 0; round < rounds; ++round) {
    const std::string broken = damaged(text, random);
    AssembleOptions options;
    options.chip = &chip;
    options.streaming = round % 4 == 0 && text.starts_with("firmware");
    const auto program = assemble(broken, "t", options);
    if (!program.ok()) {
      EXPECT_TRUE(program.error().message.starts_with("t:")) << program.error().message;
      continue;
    }
    ++good;
    const auto again = assemble(disassemble(*program, {}), "again", {});
    EXPECT_TRUE(again.ok() && package::serialise(*again) == package::serialise(*program)) << broken;
  }
  return good;
}

TEST(DamagedText, ChainsAreRefusedOrAssemble) {
  ASSERT_TRUE(programs_among(kChains, 1, 0) == 0);
  const ChipConfig chip;
  AssembleOptions options;
  options.chip = &chip;
  const auto whole = assemble(kChains, "t", options);
  ASSERT_TRUE(whole.ok()) << whole.error().message;
  const int rounds = 4000 / visit_one_in(2, 20);
  const int good = programs_among(kChains, 17, rounds);
  EXPECT_GT(good, rounds / 40);
  EXPECT_LT(good, rounds - rounds / 40);
}

TEST(DamagedText, DescriptorsAreRefusedOrAssemble) {
  const int rounds = 4000 / visit_one_in(2, 20);
  const int good = programs_among(descriptors(), 18, rounds);
  EXPECT_GT(good, rounds / 40);
  EXPECT_LT(good, rounds - rounds / 40);
}

}  // namespace
}  // namespace tessera::firmware
