// What the command line says of a model's inputs before it is compiled: open dimensions by the files that are fed, and
// values that are known at compile time.
#include "tools/files/model_inputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "command.h"
#include "tools/files/tensor_file.h"

namespace tessera::cli {
namespace {

using model::testing::Ints;
using model::testing::ModelBuilder;
using ::testing::HasSubstr;
using tools::parse_constant;

void write(ModelBuilder builder, const std::string& path) {
  std::string bytes;
  builder.proto().SerializeToString(&bytes);
  write_text(path, bytes);
}

void write_zeros(const std::string& path, Format format, const Shape& dims) {
  ASSERT_TRUE(tools::write_npy(path, Tensor::zeros(format, dims)).ok());
}

TEST(ModelInputs, OpenDimensionsAreThoseOfTheFile) {
  prepare();
  write_zeros("wide.npy", Format::kF32, {2, 3, 5, 9});
  for (const char* const input : {"x=wide.npy", "wide.npy"}) {
    const CommandResult run = tessera({"run", "open.onnx", "--input", input, "--json"});
    ASSERT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(run.json()["outputs"][0]["dims"][0], 2);
    EXPECT_EQ(run.json()["outputs"][0]["dims"][3], 9);
    EXPECT_TRUE(run.json()["notes"].empty());
  }
  EXPECT_EQ(tessera({"compare", "open.onnx", "--input", "x=wide.npy"}).status, 0);
  EXPECT_EQ(
      tessera({"run", "open.onnx", "--input", "x=wide.npy", "--cores", "2", "--arch", "cloud16"})
          .status,
      0);
}

TEST(ModelInputs, AnInputWithADefaultIsTakenFromTheFileThatIsGiven) {
  prepare();
  Tensor ones = Tensor::zeros(Format::kF32, {2});
  for (float& value : ones.as<float>()) value = 1;
  ModelBuilder builder(17);
  builder.input("x", Format::kF32, {2}).input("w", Format::kF32, {2});
  write(builder.initializer("w", ones).node("Add", {"x", "w"}, {"y"}).output("y"),
        "defaulted.onnx");
  write_zeros("zeros.npy", Format::kF32, {2});
  const auto output = [](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"run", "defaulted.onnx", "--input", "x=zeros.npy"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const CommandResult run = tessera(arguments);
    EXPECT_EQ(run.status, 0) << run.err;
    return run.out;
  };
  EXPECT_THAT(output({}), HasSubstr("output y f32 2: 1 1"));
  EXPECT_THAT(output({"--input", "w=zeros.npy"}), HasSubstr("output y f32 2: 0 0"));
}

TEST(ModelInputs, AShapeThatIsGivenWins) {
  prepare();
  write_zeros("wide.npy", Format::kF32, {2, 3, 5, 9});
  const CommandResult run =
      tessera({"run", "open.onnx", "--input", "x=wide.npy", "--shape", "x=1x3x5x9"});
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.err, HasSubstr("found f32 2x3x5x9, input 'x' takes f32 1x3x5x9"));
}

TEST(ModelInputs, WhatIsFixedStaysFixed) {
  prepare();
  write_zeros("four.npy", Format::kF32, {1, 4, 5, 9});
  const CommandResult run = tessera({"run", "open.onnx", "--input", "x=four.npy"});
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.err, HasSubstr("found f32 1x4x5x9, input 'x' takes f32 1x3x5x9"));
}

TEST(ModelInputs, PicturesHaveTheirOwnSizeOrAsMuchOfIt) {
  prepare();
  ASSERT_TRUE(write_png("photo.png", Picture::blank(30, 20, 9)).ok());
  const auto shape = tools::shapes_of_files({"x=photo.png"});
  EXPECT_EQ(shape({"x", {-1, 3, -1, -1}}), (Shape{1, 3, 20, 30}));
  EXPECT_EQ(shape({"x", {-1, 3, 48, -1}}), (Shape{1, 3, 48, 72}));
  EXPECT_EQ(shape({"x", {1, -1, 15, 3}}), (Shape{1, 10, 15, 3}));
  EXPECT_EQ(shape({"y", {-1, 3, 48, -1}}), std::nullopt);
  EXPECT_EQ(shape({"x", {-1, 3}}), std::nullopt);
  EXPECT_EQ(tools::shapes_of_files({"x=absent.npy"})({"x", {-1}}), std::nullopt);
}

TEST(ModelInputs, ValuesHaveTheDeclaredFormatAndShape) {
  const auto longs = parse_constant("1,-2,3", {"x", {-1}, Format::kI64});
  ASSERT_TRUE(longs.ok());
  EXPECT_EQ(longs->dims, (Shape{3}));
  EXPECT_EQ(longs->as<std::int64_t>()[1], -2);
  EXPECT_EQ(parse_constant("16000", {"sr", {}, Format::kI64})->dims, Shape{});
  EXPECT_EQ(parse_constant("1,2,3,4", {"x", {2, -1}, Format::kF32})->dims, (Shape{2, 2}));
  EXPECT_EQ(parse_constant("7", {"x", {-1, -1}, Format::kF32})->dims, (Shape{1, 1}));
  EXPECT_EQ(parse_constant("true", {"x", {1}, Format::kBool})->bytes[0], std::byte{1});
  EXPECT_EQ(parse_constant("0.5", {"x", {}, Format::kF32, false})->as<float>()[0], 0.5F);
}

TEST(ModelInputs, ValuesThatTheInputDoesNotTakeAreNamed) {
  const auto error = [](const char* value, const DeclaredShape& input) {
    const auto tensor = parse_constant(value, input);
    return tensor.ok() ? "" : tensor.error().message;
  };
  EXPECT_THAT(error("1.5", {"x", {}, Format::kI64}), HasSubstr("'1.5' is none of its values"));
  EXPECT_THAT(error("", {"x", {1}, Format::kF32}), HasSubstr("'' is none of its values"));
  EXPECT_THAT(error("300", {"x", {}, Format::kU8}), HasSubstr("300 is out of range"));
  EXPECT_THAT(error("1,2", {"x", {3}, Format::kF32}), HasSubstr("2 values do not fill it"));
  EXPECT_THAT(error("1,2", {"x", {-1, -1}, Format::kF32}), HasSubstr("2 values do not fill it"));
  EXPECT_THAT(error("yes", {"x", {1}, Format::kBool}), HasSubstr("give numbers with commas"));
}

// The shape of y is what `shape` says.
TEST(ModelInputs, AConstantSettlesAShape) {
  prepare();
  write(ModelBuilder(17)
            .input("x", Format::kF32, {2, 6})
            .input("shape", Format::kI64, {2})
            .node("Reshape", {"x", "shape"}, {"y"})
            .output("y"),
        "decides.onnx");
  EXPECT_EQ(tessera({"run", "decides.onnx"}).status, 1);
  const CommandResult run = tessera({"run", "decides.onnx", "--constant", "shape=3,4", "--json"});
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.json()["outputs"][0]["dims"], nlohmann::json({3, 4}));
  for (const char* const verb : {"compile", "report", "inspect", "compare"}) {
    std::vector<std::string> words = {verb, "decides.onnx", "--constant", "shape=3,4"};
    if (words[0] == "compile") words.insert(words.end(), {"-o", "decides.tpkg"});
    const CommandResult result = tessera(words);
    EXPECT_EQ(result.status, 0) << verb << ": " << result.err;
  }
  EXPECT_EQ(tessera({"derive", "decides.onnx", "--constant", "shape=3,4", "--to", "onnx", "-o",
                     "decided.onnx"})
                .status,
            0);
  Tensor shape = Tensor::zeros(Format::kI64, {2});
  shape.as<std::int64_t>()[0] = 6;
  shape.as<std::int64_t>()[1] = 2;
  ASSERT_TRUE(tools::write_npy("shape.npy", shape).ok());
  const CommandResult fed =
      tessera({"run", "decides.onnx", "--input", "shape=shape.npy", "--json"});
  ASSERT_EQ(fed.status, 0) << fed.err;
  EXPECT_EQ(fed.json()["outputs"][0]["dims"], nlohmann::json({6, 2}));
  EXPECT_THAT(fed.err, HasSubstr("shape: a constant of the network"));
  EXPECT_THAT(tessera({"run", "decides.tpkg", "--constant", "shape=3,4"}).err,
              HasSubstr("give --constant to 'tessera compile'"));
  EXPECT_THAT(tessera({"run", "decides.onnx", "--constant", "z=1"}).err,
              HasSubstr("expected NAME=VALUE, the inputs are: x, shape"));
  EXPECT_THAT(
      tessera({"run", "decides.onnx", "--constant", "shape=3,4", "--constant", "shape=4,3"}).err,
      HasSubstr("given twice"));
}

}  // namespace
}  // namespace tessera::cli
