// The program reading.c prints what C++ sessions on the reference device make of the same pictures.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "networks.h"
#include "tessera/picture.h"

namespace tessera::c_test {
namespace {

constexpr std::size_t kBands = 4;

std::size_t count_positive(std::span<const std::uint16_t> scores) {
  return static_cast<std::size_t>(
      std::ranges::count_if(scores, [](std::uint16_t bits) { return bits != 0 && bits < 0x8000; }));
}

// What the program is to print of a picture.
std::string expected_line(const std::string& path, const Network& detect,
                          const Network& recognise) {
  Session detector = Session::open(detect, {.device = DeviceKind::kRef}).value();
  Session reader = Session::open(recognise, {.device = DeviceKind::kRef}).value();
  const Tensor input = picture_tensor(*read_picture(path), detect.inputs()[0]).value();
  const Tensor map = detector.run({input})->outputs[0];
  const auto scores = map.as<const std::uint16_t>();
  const std::size_t count = scores.size() / kBands;
  std::string line = path;
  for (std::size_t band = 0; band < kBands; ++band) {
    const auto part = scores.subspan(band * count, count);
    if (kBands * count_positive(part) <= count_positive(scores)) continue;
    Tensor tensor = Tensor::zeros(recognise.inputs()[0].format, recognise.inputs()[0].dims);
    std::ranges::copy(part, tensor.as<std::uint16_t>().begin());
    const Tensor letters = reader.run({tensor})->outputs[0];
    line += " [";
    for (std::int64_t i = 0; i < letters.dims[3]; ++i) {
      line += "abcdefgh"[letters.as<const std::uint16_t>()[static_cast<std::size_t>(i)] % 8];
    }
    line += "]";
  }
  return line;
}

struct Ran {
  std::vector<std::string> lines;
  int status = 0;
};
Ran run(const std::string& command) {
  Ran ran;
  std::FILE* const out = popen(command.c_str(), "r");
  std::string line;
  for (int c = std::fgetc(out); c != EOF; c = std::fgetc(out)) {
    if (c != '\n') {
      line += static_cast<char>(c);
      continue;
    }
    ran.lines.push_back(std::exchange(line, ""));
  }
  ran.status = WEXITSTATUS(pclose(out));
  return ran;
}

TEST(ReadingInC, PrintsWhatCppMakesOfIt) {
  const std::string folder = ::testing::TempDir() + "reading_in_c/";
  std::filesystem::create_directories(folder);
  const Network detect = detector(), recognise = recogniser();
  ASSERT_TRUE(detect.save_package(folder + "detector.tpkg").ok());
  ASSERT_TRUE(recognise.save_package(folder + "recogniser.tpkg").ok());
  std::string command =
      std::string(TESSERA_READING) + " " + folder + "detector.tpkg " + folder + "recogniser.tpkg";
  std::vector<std::string> expected;
  for (unsigned page = 0; page < 6; ++page) {
    Picture picture = Picture::blank(96, 32, 0);
    unsigned state = page;
    for (std::uint8_t& level : picture.rgb) {
      state = state * 1664525U + 1013904223U;
      level = static_cast<std::uint8_t>(state >> 24);
    }
    const std::string path = folder + "page" + std::to_string(page) + ".png";
    ASSERT_TRUE(write_png(path, picture).ok());
    command += " " + path;
    expected.push_back(expected_line(path, detect, recognise));
  }
  const Ran good = run(command);
  EXPECT_EQ(good.status, 0);
  EXPECT_EQ(good.lines, expected);
  EXPECT_TRUE(std::ranges::any_of(
      expected, [](const std::string& line) { return line.find('[') != std::string::npos; }));

  std::ofstream(folder + "broken.png") << "no picture";
  const Ran bad = run(command + " " + folder + "broken.png");
  EXPECT_EQ(bad.status, 1);
  ASSERT_EQ(bad.lines.size(), 7U);
  EXPECT_NE(bad.lines[6].find("(stage decode)"), std::string::npos) << bad.lines[6];
  EXPECT_EQ(std::vector<std::string>(bad.lines.begin(), bad.lines.begin() + 6), expected);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tessera::c_test
