#include "vocabulary.h"

#include <gtest/gtest.h>

namespace {

using transcription::Vocabulary;

TEST(Vocabulary, PiecesBecomeWordsAndBytes) {
  const Vocabulary vocabulary(
      {"<s>", "\u2581And", "\u2581s", "o", "<0xC3>", "<0xA9>", "\u2581\u2581"});
  EXPECT_EQ(vocabulary.text_of(std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 3, 99}),
            "And so\u00e9  o");
}

}  // namespace
