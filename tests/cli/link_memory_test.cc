// What memory a link takes at most: the program that it writes, and 16 MiB for the command and all it has in hand.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/test_volume.h"
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

void expect_little_memory(const std::string& network) {
  const std::string model = network + ".onnx", package = network + ".tpkg",
                    program = network + ".tprog";
  ASSERT_EQ(tessera({"zoo", network, "--bits", "8", "-o", model}).status, 0);
  ASSERT_EQ(
      tessera({"compile", model, "--arch", "cloud16", "--cores", "4,16", "-o", package}).status, 0);
  for (const char* const cores : {"1", "4", "16"}) {
    const std::int64_t peak = peak_of({"link", package, "--cores", cores, "-o", program});
    const auto bytes = static_cast<std::int64_t>(std::filesystem::file_size(program));
    EXPECT_LE(peak, bytes / 1024 + kBesidesTheProgram) << network << " for " << cores << " cores";
    EXPECT_GT(peak, 4 << 10) << "it was not measured";
  }
}

TEST(LinkMemory, ALinkTakesItsProgramAndSixteenMebibytes) {
#ifdef TESSERA_SANITIZED
  GTEST_SKIP() << "the sanitizers' own memory is counted, too";
#endif
  expect_little_memory("resnet50");
  if (visit_one_in(2, 2) != 1) return;
  expect_little_memory("yolov3");  // the most tasks of one core
  expect_little_memory("vgg16");   // the most weights
}

}  // namespace
}  // namespace tessera::cli
