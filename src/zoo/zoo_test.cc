#include "zoo/zoo.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "zoo/weights.h"

namespace tessera::zoo {
namespace {

namespace fs = std::filesystem;

Summary summary_of(const std::string& name) { return summarise(find_network(name).value()); }

// A figure that is published with `digits` after the point, in units of `unit`.
struct Published {
  const char* name;
  double figure, unit, digits;
  const char* source;
};

TEST(Zoo, MacsAreThePublishedOnes) {
  constexpr double kMega = 1e6, kGiga = 1e9;
  const Published rows[] = {
      {"mobilenet_v1", 569, kMega, 0, "Howard et al., MobileNets, table 4: 569 million"},
      {"resnet18", 1.81, kGiga, 2, "torchvision's table of weights, resnet18"},
      {"resnet50", 4.09, kGiga, 2, "torchvision's table of weights, resnet50 (v1.5)"},
      {"vgg16", 15.47, kGiga, 2, "torchvision's table of weights, vgg16"},
      {"inception_v3", 5.71, kGiga, 2, "torchvision's table of weights, inception_v3"},
      {"yolov3_tiny", 2.78, kGiga, 2, "Darknet's figure for yolov3-tiny.cfg, 5.56 BFLOPs / 2"},
      {"ssd_mobilenet", 1.2, kGiga, 1, "Howard et al., MobileNets, table 13: SSD 300"},
      {"vit_tiny", 1.3, kGiga, 1, "Touvron et al., DeiT-Ti: 1.3 billion"},
      {"bert_base", 11.2, kGiga, 1, "Jiao et al., TinyBERT, table 1: 22.5 billion operations / 2"},
  };
  for (const Published& row : rows) {
    const double macs = static_cast<double>(summary_of(row.name).macs) / row.unit;
    EXPECT_NEAR(macs, row.figure, 0.5 * std::pow(10, -row.digits))
        << row.name << ": " << row.source;
  }
}

// A convolution of a published table: output width and height, outputs, inputs, kernel, times.
struct Row {
  std::int64_t size, outputs, inputs, kernel, times;
};

template <std::size_t kRows>
std::int64_t sum_of(const Row (&rows)[kRows]) {
  std::int64_t sum = 0;
  for (const Row& r : rows) {
    sum += r.size * r.size * r.outputs * r.inputs * r.kernel * r.kernel * r.times;
  }
  return sum;
}

TEST(Zoo, ResNet50IsTheSumOfItsTable) {
  // He et al. 2015, table 1, stride in the 3 x 3: {first block, the others} of each stage.
  const Row rows[] = {{112, 64, 3, 7, 1},    {56, 64, 64, 1, 1},    {56, 64, 64, 3, 3},
                      {56, 256, 64, 1, 4},   {56, 64, 256, 1, 2},   {56, 128, 256, 1, 1},
                      {28, 128, 128, 3, 4},  {28, 512, 128, 1, 4},  {28, 512, 256, 1, 1},
                      {28, 128, 512, 1, 3},  {28, 256, 512, 1, 1},  {14, 256, 256, 3, 6},
                      {14, 1024, 256, 1, 6}, {14, 1024, 512, 1, 1}, {14, 256, 1024, 1, 5},
                      {14, 512, 1024, 1, 1}, {7, 512, 512, 3, 3},   {7, 2048, 512, 1, 3},
                      {7, 2048, 1024, 1, 1}, {7, 512, 2048, 1, 2},  {1, 1000, 2048, 1, 1}};
  EXPECT_EQ(summary_of("resnet50").macs, sum_of(rows));
}

TEST(Zoo, GoogLeNetIsTheSumOfItsTable) {
  // Szegedy et al. 2014, table 1: 1 x 1, 3 x 3 reduce, 3 x 3, 5 x 5 reduce, 5 x 5, pool projection.
  struct Module {
    std::int64_t size, inputs, one, reduce3, three, reduce5, five, pool;
  };
  const Module modules[] = {
      {28, 192, 64, 96, 128, 16, 32, 32},     {28, 256, 128, 128, 192, 32, 96, 64},
      {14, 480, 192, 96, 208, 16, 48, 64},    {14, 512, 160, 112, 224, 24, 64, 64},
      {14, 512, 128, 128, 256, 24, 64, 64},   {14, 512, 112, 144, 288, 32, 64, 64},
      {14, 528, 256, 160, 320, 32, 128, 128}, {7, 832, 256, 160, 320, 32, 128, 128},
      {7, 832, 384, 192, 384, 48, 128, 128}};
  const Row rows[] = {
      {112, 64, 3, 7, 1}, {56, 64, 64, 1, 1}, {56, 192, 64, 3, 1}, {1, 1000, 1024, 1, 1}};
  std::int64_t sum = sum_of(rows);
  for (const Module& m : modules) {
    sum += m.size * m.size *
           (m.inputs * (m.one + m.reduce3 + m.reduce5 + m.pool) + 9 * m.reduce3 * m.three +
            25 * m.reduce5 * m.five);
  }
  EXPECT_EQ(summary_of("googlenet").macs, sum);
  // The paper says "1.5 billion" and stands for 1.58: the sum above, which others quote.
  EXPECT_NEAR(static_cast<double>(sum) / 1e9, 1.58, 0.005);
}

TEST(Zoo, YoloV3IsTheSumOfItsTable) {
  // Redmon, Farhadi 2018, table 1, and the three heads of yolov3.cfg.
  const Row rows[] = {
      {416, 32, 3, 3, 1},    {208, 64, 32, 3, 2},   {208, 32, 64, 1, 1},   {104, 128, 64, 3, 3},
      {104, 64, 128, 1, 2},  {52, 256, 128, 3, 9},  {52, 128, 256, 1, 8},  {26, 512, 256, 3, 9},
      {26, 256, 512, 1, 8},  {13, 1024, 512, 3, 5}, {13, 512, 1024, 1, 4}, {13, 512, 1024, 1, 3},
      {13, 1024, 512, 3, 3}, {13, 255, 1024, 1, 1}, {13, 256, 512, 1, 1},  {26, 256, 768, 1, 1},
      {26, 256, 512, 1, 2},  {26, 512, 256, 3, 3},  {26, 255, 512, 1, 1},  {26, 128, 256, 1, 1},
      {52, 128, 384, 1, 1},  {52, 128, 256, 1, 2},  {52, 256, 128, 3, 3},  {52, 255, 256, 1, 1}};
  EXPECT_EQ(summary_of("yolov3").macs, sum_of(rows));
  // Darknet counts 65.86 BFLOPs, two per multiply-accumulate.
  EXPECT_NEAR(static_cast<double>(sum_of(rows)) * 2 / 1e9, 65.86, 0.1);
}

TEST(Zoo, Ssd300OnVggIsTheSumOfItsTable) {
  // Liu et al. 2016, figure 2; heads of 4 boxes (1, 5, 6) and 6 boxes (2, 3, 4) of 25 numbers.
  const Row rows[] = {
      {300, 64, 3, 3, 1},    {300, 64, 64, 3, 1},   {150, 128, 64, 3, 1},   {150, 128, 128, 3, 1},
      {75, 256, 128, 3, 1},  {75, 256, 256, 3, 2},  {38, 512, 256, 3, 1},   {38, 512, 512, 3, 2},
      {19, 512, 512, 3, 3},  {19, 1024, 512, 3, 1}, {19, 1024, 1024, 1, 1}, {19, 256, 1024, 1, 1},
      {10, 512, 256, 3, 1},  {10, 128, 512, 1, 1},  {5, 256, 128, 3, 1},    {5, 128, 256, 1, 1},
      {3, 256, 128, 3, 1},   {3, 128, 256, 1, 1},   {1, 256, 128, 3, 1},    {38, 100, 512, 3, 1},
      {19, 150, 1024, 3, 1}, {10, 150, 512, 3, 1},  {5, 150, 256, 3, 1},    {3, 100, 256, 3, 1},
      {1, 100, 256, 3, 1}};
  EXPECT_EQ(summary_of("ssd_vgg").macs, sum_of(rows));
  EXPECT_NEAR(static_cast<double>(sum_of(rows)) / 1e9, 31.4, 0.05);
}

TEST(Zoo, ParametersAreThePublishedOnes) {
  // torchvision's table of weights; batch normalisation is folded here, which leaves a bias where
  // it had a factor and an offset.
  EXPECT_EQ(summary_of("vgg16").parameters, 138'357'544);
  EXPECT_NEAR(static_cast<double>(summary_of("resnet50").parameters), 25.557e6, 0.03e6);
  EXPECT_NEAR(static_cast<double>(summary_of("mobilenet_v1").parameters), 4.2e6, 0.05e6);
}

TEST(Zoo, AnUnknownNameIsAnErrorThatListsTheNetworks) {
  const auto found = find_network("resnet51");
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(
      found.error().message,
      "there is no network 'resnet51'; allowed mobilenet_v1, resnet18, resnet50, vgg16, googlenet, "
      "inception_v3, yolov3_tiny, yolov3, ssd_mobilenet, ssd_vgg, vit_tiny, bert_base");
}

TEST(Zoo, WeightsHaveTheSpreadTheyWereAskedFor) {
  std::string bytes;
  constexpr std::int64_t kCount = 100'000;
  fill_weights({.seed = 3, .stream = 4, .deviation = 0.25, .mean = 2}, kCount, bytes);
  std::vector<float> values(kCount);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  double sum = 0, squares = 0;
  for (const float value : values) {
    sum += value;
    squares += (value - 2.0) * (value - 2.0);
  }
  EXPECT_NEAR(sum / kCount, 2, 0.005);
  EXPECT_NEAR(std::sqrt(squares / kCount), 0.25, 0.005);
  // The same numbers on every machine.
  EXPECT_EQ(values[0], 2.159564971923828F);
  EXPECT_EQ(values[1], 2.12853741645813F);
}

std::string contents(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Zoo, TheSeedDecidesEveryByte) {
  const fs::path folder = fs::path(::testing::TempDir()) / "zoo_test";
  fs::create_directories(folder);
  const ZooNetwork network = find_network("mobilenet_v1").value();
  for (const auto& [file, seed] : {std::pair{"a", 1}, std::pair{"b", 1}, std::pair{"c", 2}}) {
    ASSERT_TRUE(write_network(network, seed, folder / file).ok());
  }
  EXPECT_EQ(contents(folder / "a"), contents(folder / "b"));
  EXPECT_NE(contents(folder / "a"), contents(folder / "c"));
  fs::remove_all(folder);
}

// Of all rounded values.
ValueRanges same_range(const ZooNetwork& network, const ValueRange& range) {
  ValueRanges ranges;
  for (const std::vector<std::string>& group : rounded_values(network)) {
    for (const std::string& value : group) ranges[value] = range;
  }
  return ranges;
}

TEST(Zoo, SeedAndRangesDecideEveryByteOfTheFormIn8Bits) {
  const fs::path folder = fs::path(::testing::TempDir()) / "zoo_8_bits_test";
  fs::create_directories(folder);
  const ZooNetwork network = find_network("mobilenet_v1").value();
  const auto write = [&](const char* file, std::uint64_t seed, const ValueRange& range) {
    const auto written =
        write_network_in_8_bits(network, seed, same_range(network, range), folder / file);
    ASSERT_TRUE(written.ok());
    EXPECT_EQ(written->macs, summarise(network).macs);
    EXPECT_EQ(written->parameters, summarise(network).parameters);
  };
  write("a", 1, {-1, 3});
  write("b", 1, {-1, 3});
  write("c", 2, {-1, 3});
  write("d", 1, {-1, 4});
  EXPECT_EQ(contents(folder / "a"), contents(folder / "b"));
  EXPECT_NE(contents(folder / "a"), contents(folder / "c"));
  EXPECT_NE(contents(folder / "a"), contents(folder / "d"));
  // A byte a weight, four a bias; scales, zero points and the graph besides.
  const auto parameters = static_cast<std::uintmax_t>(summarise(network).parameters);
  EXPECT_GT(fs::file_size(folder / "a"), parameters);
  EXPECT_LT(fs::file_size(folder / "a"), parameters + parameters / 20);
  fs::remove_all(folder);
}

TEST(Zoo, WhatIsConcatenatedHasOneScale) {
  const auto groups = rounded_values(find_network("yolov3_tiny").value());
  const auto group_of = [&](const std::string& value) {
    const auto found = std::ranges::find_if(
        groups, [&](const auto& group) { return std::ranges::count(group, value) == 1; });
    return static_cast<std::size_t>(found - groups.begin());
  };
  // The upsampled map, the early one that a pooling reads, too, and what is made of the two.
  const std::size_t group = group_of("Concat_29_out");
  ASSERT_LT(group, groups.size());
  for (const char* const value :
       {"LeakyRelu_27_out", "Resize_28_out", "LeakyRelu_13_out", "MaxPool_14_out"}) {
    EXPECT_EQ(group_of(value), group) << value;
  }
  EXPECT_NE(group_of("LeakyRelu_10_out"), group);
}

TEST(Zoo, AFileThatCannotBeWrittenIsAnError) {
  const auto written = write_network(find_network("mobilenet_v1").value(), 0, "/nowhere/x.onnx");
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.error().message, "writing '/nowhere/x.onnx': No such file or directory");
}

}  // namespace
}  // namespace tessera::zoo
