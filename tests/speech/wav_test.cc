// Recordings: what is read, and the exact words for what is not.
#include "wav.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace speech {
namespace {

// The bytes of a file, chunk by chunk.
class WavFile {
 public:
  WavFile() { text("RIFF").u32(0).text("WAVE"); }
  WavFile& text(const char* characters) {
    bytes_.append(characters);
    return *this;
  }
  WavFile& u16(unsigned value) { return little(value, 2); }
  WavFile& u32(unsigned value) { return little(value, 4); }
  WavFile& format(unsigned tag, unsigned channels, unsigned rate, unsigned bits) {
    text("fmt ").u32(16).u16(tag).u16(channels).u32(rate).u32(rate * 2).u16(2);
    return u16(bits);
  }
  WavFile& data(const std::vector<int>& samples) {
    text("data").u32(static_cast<unsigned>(2 * samples.size()));
    for (const int sample : samples) u16(static_cast<unsigned>(sample) & 0xFFFFU);
    return *this;
  }
  tessera::Result<Recording> parse() const {
    return parse_wav(std::as_bytes(std::span(bytes_)), "a.wav");
  }
  std::string error() const {
    const auto recording = parse();
    return recording.ok() ? "none" : recording.error().message;
  }
  std::string& bytes() { return bytes_; }

 private:
  WavFile& little(unsigned value, int count) {
    for (int i = 0; i < count; ++i) bytes_ += static_cast<char>(value >> (8 * i) & 0xFFU);
    return *this;
  }
  std::string bytes_;
};

TEST(Wav, SamplesAreSharesOfFullScale) {
  const auto recording = WavFile().format(1, 1, 16000, 16).data({0, 16384, -32768, 32767}).parse();
  ASSERT_TRUE(recording.ok()) << recording.error().message;
  EXPECT_EQ(recording->samples, (std::vector<float>{0, 0.5f, -1, 32767.0f / 32768.0f}));
  EXPECT_EQ(recording->seconds(), 4.0 / 16000);
}

TEST(Wav, OtherChunksArePassedByAndOddOnesArePadded) {
  WavFile file;
  file.format(1, 1, 16000, 16).text("LIST").u32(3).text("abc").text("x");
  const auto recording = file.data({7}).parse();
  ASSERT_TRUE(recording.ok()) << recording.error().message;
  EXPECT_EQ(recording->samples.size(), 1U);
}

TEST(Wav, ExtensibleFormatIsPcmWhereItsSubformatIs) {
  WavFile file;
  file.text("fmt ").u32(40).u16(0xFFFE).u16(1).u32(16000).u32(32000).u16(2).u16(16);
  file.u16(22).u16(16).u32(4).u16(1).u16(0).u32(0).u32(0).u32(0);
  const auto recording = file.data({1, 2, 3}).parse();
  ASSERT_TRUE(recording.ok()) << recording.error().message;
  EXPECT_EQ(recording->samples.size(), 3U);
}

TEST(Wav, SoundOfUnknownLengthReachesToTheEndOfTheFile) {
  WavFile file;
  file.format(1, 1, 16000, 16).text("data").u32(0xFFFFFFFF).u16(1).u16(2);
  const auto recording = file.parse();
  ASSERT_TRUE(recording.ok()) << recording.error().message;
  EXPECT_EQ(recording->samples.size(), 2U);
}

TEST(WavErrors, OtherFormatsAreNamedWithTheWayOut) {
  EXPECT_EQ(WavFile().format(3, 2, 44100, 32).data({1}).error(),
            "recording 'a.wav' has format 3, 32 bits, 2 channels, 44100 samples a second; needed: "
            "format 1 (PCM), 16 bits, 1 channel, 16000; for example 'ffmpeg -i IN -ac 1 -ar 16000 "
            "-c:a pcm_s16le OUT.wav'");
}

TEST(WavErrors, WhatIsMissingIsNamed) {
  EXPECT_EQ(parse_wav({}, "a.wav").error().message, "recording 'a.wav' is no .wav file");
  EXPECT_EQ(WavFile().error(), "recording 'a.wav' has no chunk 'fmt '");
  EXPECT_EQ(WavFile().format(1, 1, 16000, 16).error(), "recording 'a.wav' has no chunk 'data'");
  EXPECT_EQ(WavFile().text("fmt ").u32(2).u16(1).data({1}).error(),
            "recording 'a.wav' has a chunk 'fmt ' that is too short");
}

TEST(WavErrors, ACutOffFileSaysHowMuchIsMissing) {
  WavFile file = WavFile().format(1, 1, 16000, 16).data({1, 2, 3});
  file.bytes().resize(file.bytes().size() - 4);
  EXPECT_EQ(file.error(), "recording 'a.wav' ends 4 bytes too early; it was cut off");
}

TEST(WavErrors, AFileThatIsNotThereIsNamed) {
  EXPECT_EQ(read_wav("/nowhere/a.wav").error().message,
            "recording: reading '/nowhere/a.wav': No such file or directory");
}

// The sanitizers watch.
TEST(WavErrors, NoChangeOfABytesReadsOutsideTheFile) {
  const std::string good = WavFile().format(1, 1, 16000, 16).data({1, 2, 3, 4}).bytes();
  std::mt19937 dice(1);
  std::size_t read = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = good.substr(0, dice() % 8 == 0 ? dice() % (good.size() + 1) : good.size());
    for (unsigned i = dice() % 4; i > 0 && !bytes.empty(); --i) {
      bytes[dice() % bytes.size()] = static_cast<char>(dice());
    }
    const auto recording = parse_wav(std::as_bytes(std::span(bytes)), "a.wav");
    if (!recording.ok()) continue;
    ++read;
    ASSERT_LE(recording->samples.size() * 2, bytes.size());
  }
  EXPECT_GT(read, 1000U);
}

}  // namespace
}  // namespace speech
