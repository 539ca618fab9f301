// The corpus of the container fuzzer as a plain test: valid files verify, wrong ones and random
// damage to the valid ones are refused or pass, and nothing crashes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/test_volume.h"
#include "package/container.h"
#include "program_target.h"
#include "tessera/file.h"

namespace tessera::fuzz {
namespace {

namespace fs = std::filesystem;

// By name; a name begins with "honest_" or "lying_".
std::map<std::string, std::vector<std::byte>> corpus() {
  std::map<std::string, std::vector<std::byte>> files;
  for (const auto& entry : fs::directory_iterator(TESSERA_CONTAINER_CORPUS)) {
    auto bytes = read_file(entry.path().string());
    if (bytes.ok()) files[entry.path().filename().string()] = std::move(bytes).value();
  }
  return files;
}

// One damaged word or byte, more often than not a value at a border.
void damage(std::vector<std::byte>& bytes, std::mt19937& random) {
  static constexpr std::uint32_t kBorders[] = {0,          1,          0xFFFFFFFF, 0x7FFFFFFF,
                                               0x80000000, 0xFFFF,     1u << 20,   1u << 24,
                                               1u << 28,   0xFFFFFFF8, 2,          64};
  constexpr std::size_t kHead = 5;
  const std::size_t at = kHead + random() % ((bytes.size() - kHead) / 4) * 4;
  std::uint32_t word = 0;
  std::memcpy(&word, bytes.data() + at, 4);
  switch (random() % 4) {
    case 0:
      word ^= 1u << random() % 32;
      break;
    case 1:
      word += static_cast<std::uint32_t>(random() % 9) - 4;
      break;
    case 2:
      word = static_cast<std::uint32_t>(random());
      break;
    default:
      word = kBorders[random() % std::size(kBorders)];
  }
  std::memcpy(bytes.data() + at, &word, 4);
}

TEST(ProgramCorpus, HonestFilesVerifyAndLyingOnesDoNot) {
  const auto files = corpus();
  ASSERT_FALSE(files.empty());
  for (const auto& [name, bytes] : files) {
    EXPECT_EQ(container_target(bytes) == ContainerOutcome::kVerified, name.starts_with("honest_"))
        << name;
  }
}

TEST(ProgramCorpus, RandomDamageUnderARightDigestNeverCrashes) {
  constexpr std::uint32_t kSeed = 23;
  const int rounds = 8000 / visit_one_in(2, 16);
  std::mt19937 random(kSeed);
  int refused = 0, verified = 0;
  for (const auto& [name, bytes] : corpus()) {
    if (!name.starts_with("honest_")) continue;
    for (int round = 0; round < rounds; ++round) {
      SCOPED_TRACE(::testing::Message() << name << " round " << round << " seed " << kSeed);
      std::vector<std::byte> damaged = bytes;
      for (std::uint32_t i = 0; i < 1 + random() % 3; ++i) damage(damaged, random);
      const ContainerOutcome outcome = container_target(damaged);
      (outcome == ContainerOutcome::kVerified ? verified : refused) += 1;
    }
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(verified, 0);  // hints and notes may say anything
}

}  // namespace
}  // namespace tessera::fuzz
