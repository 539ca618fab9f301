#include "byte_pairs.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

namespace {

using conversation::BytePairs;
using conversation::words_of;

BytePairs read(const std::string& json) {
  const std::string path = testing::TempDir() + "byte_pairs_test.json";
  std::ofstream(path) << json;
  auto pairs = BytePairs::read(path);
  EXPECT_TRUE(pairs.ok());
  std::filesystem::remove(path);
  return std::move(*pairs);
}

// Space is U+0120 in the file.
const char* const kFile = R"({"added_tokens": [{"id": 0, "content": "<|end|>"}],
  "model": {"vocab": {"a": 1, "b": 2, "ab": 3, "Ġ": 4, "Ġab": 5, "Ä": 6, "ģ": 7},
            "merges": ["a b", ["Ġ", "ab"]]}})";

TEST(BytePairs, WordsTakeTheSpaceBeforeThem) {
  const std::vector<std::string_view> wanted = {"What", "'s", " 42", "?", " ", " ok", "\n"};
  EXPECT_EQ(words_of("What's 42?  ok\n"), wanted);
}

TEST(BytePairs, WordsOfOtherAlphabetsStopAtPunctuation) {
  const std::vector<std::string_view> wanted = {"你好", "！", "é"};
  EXPECT_EQ(words_of("你好！é"), wanted);
}

TEST(BytePairs, PairsMergeInTheOrderOfTheFile) {
  EXPECT_EQ(read(kFile).tokens_of("ab ab a"), (std::vector<std::int64_t>{3, 5, 4, 1}));
}

TEST(BytePairs, TextComesBackFromTokensWithoutTheSpecialOnes) {
  EXPECT_EQ(read(kFile).text_of(std::vector<std::int64_t>{0, 3, 5, 99}), "ab ab");
}

TEST(BytePairs, SpecialTokensAreFoundByName) {
  const BytePairs pairs = read(kFile);
  EXPECT_EQ(*pairs.special("<|end|>"), 0);
  EXPECT_EQ(pairs.special("<|begin|>").error().message, "the vocabulary has no token '<|begin|>'");
}

}  // namespace
