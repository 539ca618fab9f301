#include "tessera/visible_text.h"

#include <gtest/gtest.h>

#include "base/utf8.h"

namespace tessera {
namespace {

TEST(VisibleText, EscapeSequencesAreWrittenOut) {
  EXPECT_EQ(visible_text("conv\x1b[2J\x07"), "conv\\x1b[2J\\x07");
  EXPECT_EQ(visible_text("\x1b]0;evil\x07"), "\\x1b]0;evil\\x07");
  EXPECT_EQ(visible_text(std::string_view("a\0b\rc\x7f\b", 7)), "a\\x00b\\x0dc\\x7f\\x08");
}

TEST(VisibleText, MarksOfUnicodeThatATerminalObeysAreWrittenOut) {
  EXPECT_EQ(visible_text("a\u009b[31m\u0080\u009f"), "a\\u{9b}[31m\\u{80}\\u{9f}");
  EXPECT_EQ(visible_text("\u202agnp\u202e"), "\\u{202a}gnp\\u{202e}");
  EXPECT_EQ(visible_text("\u2066x\u2069"), "\\u{2066}x\\u{2069}");
  EXPECT_EQ(visible_text("\u2028x\u2029"), "\\u{2028}x\\u{2029}");
  EXPECT_EQ(visible_text("\u200e\u200f\u061c\ufeff"), "\\u{200e}\\u{200f}\\u{61c}\\u{feff}");
}

TEST(VisibleText, BytesThatAreNotUtf8AreWrittenOut) {
  EXPECT_EQ(visible_text("\xff"), "\\xff");
  EXPECT_EQ(visible_text("\x9b[31m"), "\\x9b[31m") << "CSI of an eight-bit terminal";
  EXPECT_EQ(visible_text("\xc0\x9b"), "\\xc0\\x9b") << "an overlong form";
  EXPECT_EQ(visible_text("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "a surrogate";
  EXPECT_EQ(visible_text("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80") << "beyond U+10FFFF";
  EXPECT_EQ(visible_text("x\xe2\x80"), "x\\xe2\\x80") << "cut off";
}

TEST(VisibleText, OtherTextStaysAsItIs) {
  const std::string text = "Faltung \u00fc, \u5377\u79ef, \u05d0, \U0001F40C, C:\\x\\n \u00a0";
  EXPECT_EQ(visible_text(text), text);
}

TEST(VisibleText, TwiceIsAsOnce) {
  const std::string once = visible_text("a\x1b\u009b\xff\n\t\\");
  EXPECT_EQ(visible_text(once), once);
}

TEST(VisibleText, LineBreaksAreShownKeptOrKeptWhereIndented) {
  const std::string text = "a\nb\n  c\td\n";
  EXPECT_EQ(visible_text(text), "a\\nb\\n  c\\td\\n");
  EXPECT_EQ(visible_text(text, LineBreaks::kKept), "a\nb\n  c\\td\n");
  EXPECT_EQ(visible_text(text, LineBreaks::kIndented), "a\\nb\n  c\\td\\n");
}

TEST(VisibleJson, StringsHoldNothingThatATerminalObeys) {
  EXPECT_EQ(visible_json("{\n  \"a\x7f\": \"\u009b\u202e\xff\u00fc\"\n}"),
            "{\n  \"a\\u007f\": \"\\u009b\\u202e\uFFFD\u00fc\"\n}");
  EXPECT_EQ(visible_json("[1,\r\n\t2]", LineBreaks::kShown), "[1,   2]");
  EXPECT_EQ(visible_json("\x1b[2J"), " [2J") << "no JSON";
}

TEST(Utf8, FirstBytesCutNoCharacter) {
  EXPECT_EQ(first_bytes("a\u00fcb", 2), "a");
  EXPECT_EQ(first_bytes("a\u00fcb", 3), "a\u00fc");
  EXPECT_EQ(first_bytes("a\u00fcb", 9), "a\u00fcb");
  EXPECT_EQ(first_bytes("\xff\xff", 1), "\xff");
}

}  // namespace
}  // namespace tessera
