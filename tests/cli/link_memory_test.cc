// What memory a link takes at most: the program that it writes, and 16 MiB for the command and all it has in hand.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "command.h"

namespace tessera::cli {
namespace {

constexpr std::int64_t kBesidesTheProgram = 16 << 10;  // KiB

// Of the command, in KiB.
std::int64_t peak_of(const std::vector<std::string>& arguments) {
  const std::string peak = work_folder() + "/peak";
  const CommandResult result =
      tessera(arguments, {"LD_PRELOAD=" TESSERA_PEAK_MEMORY_MODULE, "TESSERA_PEAK_MEMORY=" + peak});
  EXPECT_EQ(result.status, 0) << result.err;
  return std::stoll(read_text(peak));
}

TEST(LinkMemory, ALinkTakesItsProgramAndSixteenMebibytes) {
#ifdef TESSERA_SANITIZED
  GTEST_SKIP() << "the sanitizers' own memory is counted, too";
#endif
  ASSERT_EQ(tessera({"zoo", "resnet50", "--bits", "8", "-o", "resnet50.onnx"}).status, 0);
  ASSERT_EQ(tessera({"compile", "resnet50.onnx", "--arch", "cloud16", "--cores", "4,16", "-o",
                     "resnet50.tpkg"})
                .status,
            0);
  for (const char* const cores : {"1", "4", "16"}) {
    const std::int64_t peak =
        peak_of({"link", "resnet50.tpkg", "--cores", cores, "-o", "resnet50.tprog"});
    const auto program = static_cast<std::int64_t>(std::filesystem::file_size("resnet50.tprog"));
    EXPECT_LE(peak, program / 1024 + kBesidesTheProgram) << "for " << cores << " cores";
    EXPECT_GT(peak, 4 << 10) << "it was not measured";
  }
}

}  // namespace
}  // namespace tessera::cli
