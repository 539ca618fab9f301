// Other weights for a model: `--weights FILE`, as a derived PyTorch module saves them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "command.h"
#include "tools/files/safetensors.h"
#include "tools/files/tensor_file.h"

namespace tessera::cli {
namespace {

using ::testing::HasSubstr;

struct Saved {
  std::string name, shape;
  std::vector<float> values;
};

void save(const std::string& path, const std::vector<Saved>& tensors) {
  std::string header = "{", blob;
  for (const Saved& tensor : tensors) {
    const std::size_t begin = blob.size();
    blob.append(reinterpret_cast<const char*>(tensor.values.data()), tensor.values.size() * 4);
    header += (header.size() > 1 ? ",\"" : "\"") + tensor.name + R"(":{"dtype":"F32","shape":)" +
              tensor.shape + ",\"data_offsets\":[" + std::to_string(begin) + "," +
              std::to_string(blob.size()) + "]}";
  }
  header += "}";
  std::string length(8, '\0');
  const std::uint64_t size = header.size();
  std::memcpy(length.data(), &size, sizeof(size));
  write_text(path, length + header + blob);
}

std::string error_of(const std::vector<std::string>& arguments) {
  const CommandResult result = tessera(arguments);
  EXPECT_EQ(result.status, 1);
  return result.err;
}

TEST(Weights, ComeInPlaceOfTheModels) {
  prepare();
  // Filters of zeros and a bias: everything behind them is known.
  const std::size_t filter = 4UL * 3 * 3 * 3;
  save("w.safetensors", {{"conv.weight", "[4,3,3,3]", std::vector<float>(filter, 0.0f)},
                         {"conv.bias", "[4]", {1.0f, -2.0f, 0.1f, 70000.0f}}});
  ASSERT_EQ(tessera({"compile", "small.onnx", "--weights", "w.safetensors", "-o", "w.tpkg"}).status,
            0);
  ASSERT_EQ(tessera({"run", "w.tpkg", "--input", "random:7", "--output", "w"}).status, 0);
  const auto y = tools::read_npy("w/y.npy");
  ASSERT_TRUE(y.ok()) << y.error().to_string();
  ASSERT_EQ(y->format, Format::kF32);
  // As it is, relu, rounded to f16, saturated.
  const float expected[] = {1.0f, 0.0f, 0.0999755859375f, 65504.0f};
  for (std::size_t i = 0; i < 64; ++i) {
    EXPECT_EQ(y->as<float>()[i], expected[i / 16]) << i;
  }
}

TEST(Weights, OfATrainableModuleAreTheModels) {
  prepare();
  const CommandResult derived = tessera({"derive", "small.onnx", "--to", "pytorch", "--trainable",
                                         "-o", "t.py", "--verify", "2", "--json"});
  ASSERT_EQ(derived.status, 0) << derived.err;
  EXPECT_EQ(derived.json()["trained"], (std::vector<std::string>{"conv.weight", "conv.bias"}));
  EXPECT_EQ(derived.json()["mismatches"], 0);
  EXPECT_THAT(read_text("t.py"), HasSubstr(R"("conv.weight")"));
}

TEST(Weights, OfIntegersComeAsWholeNumbers) {
  prepare();
  save("whole.safetensors", {{"m.weight", "[2,3]", {1.0f, -128.0f, 127.0f, 0.0f, 2.0f, -0.0f}}});
  ASSERT_EQ(tessera({"compile", "integers.onnx", "--weights", "whole.safetensors", "-o", "i.tpkg"})
                .status,
            0);
  Tensor x = Tensor::zeros(Format::kU8, {1, 3});
  for (std::uint8_t i = 0; i < 3; ++i) x.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(10 + i);
  ASSERT_TRUE(tools::write_npy("x.npy", x).ok());
  ASSERT_EQ(tessera({"run", "i.tpkg", "--input", "x=x.npy", "--output", "i"}).status, 0);
  const auto y = tools::read_npy("i/y.npy");
  ASSERT_TRUE(y.ok()) << y.error().to_string();
  EXPECT_EQ(y->as<std::int32_t>()[0], 10 - 128 * 11 + 127 * 12);
  EXPECT_EQ(y->as<std::int32_t>()[1], 22);
}

TEST(WeightsErrors, AnIntegerLayerTakesNoFractionAndNothingBeyondItsFormat) {
  prepare();
  for (const float wrong : {0.5f, 128.0f}) {
    save("wrong.safetensors", {{"m.weight", "[2,3]", {0, 0, wrong, 0, 0, 0}}});
    EXPECT_EQ(
        error_of({"compile", "integers.onnx", "--weights", "wrong.safetensors", "-o", "o.tpkg"}),
        "tessera compile: weights 'm.weight' have " + std::string(wrong < 1 ? "0.5" : "128") +
            " as element 2; the layer is in integers, so whole numbers from -128 to 127 are "
            "needed   [invalid argument]\n");
  }
}

// On the processor, on host and in the derived software alike.
TEST(Weights, OnAGridGiveTheSameBitsEverywhere) {
  prepare();
  for (const std::string format : {"fixed:4", "fixed:7:8", "log:4", "log:11:2"}) {
    SCOPED_TRACE(format);
    const CommandResult derived = tessera(
        {"derive", "small.onnx", "--format", format, "-o", "grid.onnx", "--verify", "2", "--json"});
    ASSERT_EQ(derived.status, 0) << derived.err;
    EXPECT_EQ(derived.json()["mismatches"], 0);
    for (const char* device : {"host", "ref"}) {
      const CommandResult compared =
          tessera({"compare", "small.onnx", "--format", format, "--b", device});
      EXPECT_EQ(compared.status, 0) << compared.err << compared.out;
    }
  }
}

TEST(WeightsErrors, AGridIsNotTrainedThrough) {
  prepare();
  EXPECT_EQ(
      error_of({"derive", "small.onnx", "--format", "log:4", "--to", "pytorch", "--trainable", "-o",
                "t.py"}),
      "tessera derive: --trainable: weights in 'log:11:4' are on a grid, which is not trained "
      "through; derive it in a format such as bfp:11:7   [unsupported]\n");
}

TEST(WeightsErrors, SayWhatThereIs) {
  prepare();
  save("other.safetensors", {{"fc.weight", "[1]", {1.0f}}});
  EXPECT_THAT(error_of({"compile", "small.onnx", "--weights", "other.safetensors", "-o", "o.tpkg"}),
              HasSubstr("there is no product with constants 'fc.weight'; there are: "
                        "'conv.weight', 'conv.bias'"));
  save("short.safetensors", {{"conv.bias", "[3]", {1.0f, 2.0f, 3.0f}}});
  EXPECT_THAT(error_of({"compile", "small.onnx", "--weights", "short.safetensors", "-o", "o.tpkg"}),
              HasSubstr("weights 'conv.bias' have the extents [3], the model needs [4]"));
  ASSERT_EQ(tessera({"compile", "small.onnx", "-o", "p.tpkg"}).status, 0);
  EXPECT_THAT(error_of({"run", "p.tpkg", "--weights", "other.safetensors"}),
              HasSubstr("give --weights to 'tessera compile'"));
  EXPECT_EQ(error_of({"derive", "small.onnx", "--trainable", "-o", "x.onnx"}),
            "tessera derive: --trainable: 'onnx' is not trained through; write --to pytorch   "
            "[invalid argument]\n");
  EXPECT_THAT(error_of({"derive", "relu.onnx", "--to", "pytorch", "--trainable", "-o", "x.py"}),
              HasSubstr("has no product with constant weights"));
}

TEST(WeightsErrors, OfFilesNameTheFileAndTheTensor) {
  const auto error = [](const std::string& text, std::uint64_t length) {
    std::string file(8, '\0');
    std::memcpy(file.data(), &length, sizeof(length));
    file += text;
    const auto tensors = tools::parse_safetensors(std::as_bytes(std::span(file)), "f");
    return tensors.ok() ? std::string("read") : tensors.error().message;
  };
  const auto of_header = [&](const std::string& header, const std::string& blob = "") {
    return error(header + blob, header.size());
  };
  EXPECT_EQ(error("{}", 2), "read");
  EXPECT_EQ(of_header(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                      R"("b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
                      "12345678"),
            "'f' is no safetensors file: its tensors lie over each other");
  EXPECT_EQ(error("{}", 3), "'f' is no safetensors file: its header is longer than the file");
  EXPECT_EQ(of_header("[]"), "'f' is no safetensors file: its header is no JSON object");
  EXPECT_EQ(of_header(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "1234"), "read");
  EXPECT_EQ(of_header(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "1234"),
            "'f': tensor 'a': 4 bytes do not fit its shape");
  EXPECT_EQ(of_header(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", "1234"),
            "'f': tensor 'a': bytes 4 to 8 do not lie within the 4 bytes of data");
  EXPECT_EQ(of_header(R"({"a":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}})", "12345678"),
            "'f': tensor 'a': dtype 'I64' is not read; save F32, F16, I32, I16, U16, I8 or U8");
  EXPECT_EQ(of_header(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "1234"),
            "'f': tensor 'a': \"shape\" must be at most 8 whole numbers");
  EXPECT_EQ(of_header(R"({"a":{"dtype":"I8","shape":[2],"data_offsets":[0,2]},)"
                      R"("b":{"dtype":"I32","shape":[1],"data_offsets":[2,6]}})",
                      "123456"),
            "read");
  EXPECT_EQ(of_header(R"({"a":1})"),
            "'f': tensor 'a': needs \"dtype\", \"shape\" and \"data_offsets\"");
}

}  // namespace
}  // namespace tessera::cli
