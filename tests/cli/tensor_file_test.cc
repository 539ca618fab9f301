// NumPy files as bytes.
#include "tools/files/tensor_file.h"

#include <gtest/gtest.h>

namespace tessera::tools {
namespace {

std::string npy_error(const std::string& shape) {
  std::string file("\x93NUMPY\x01\x00..", 10);
  const std::string header =
      "{'descr': '|u1', 'fortran_order': False, 'shape': (" + shape + "), }\n";
  file[8] = static_cast<char>(header.size());
  file[9] = static_cast<char>(header.size() >> 8);
  file += header;
  const auto tensor = parse_npy(std::as_bytes(std::span(file)), "a.npy");
  return tensor.ok() ? "" : tensor.error().to_string();
}

TEST(NpyFile, ATensorWrittenAndReadAgainIsTheSame) {
  Tensor tensor = Tensor::zeros(Format::kI16, {2, 3});
  tensor.as<std::int16_t>()[4] = -7;
  EXPECT_TRUE(parse_npy(npy_bytes(tensor, "a.npy").value(), "a.npy").value() == tensor);
}

// The elements 1 2 3 / 4 5 6 column by column, the byte of most weight first.
TEST(NpyFile, ElementsComeInTheOrderOfTheirIndicesHoweverTheyLie) {
  std::string file("\x93NUMPY\x01\x00..", 10);
  const std::string header = "{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3), }\n";
  file[8] = static_cast<char>(header.size());
  file[9] = 0;
  file += header;
  for (const char element : {1, 4, 2, 5, 3, 6}) file += std::string{'\0', element};
  const auto tensor = parse_npy(std::as_bytes(std::span(file)), "a.npy");
  ASSERT_TRUE(tensor.ok()) << tensor.error().to_string();
  Tensor expected = Tensor::zeros(Format::kI16, {2, 3});
  for (int i = 0; i < 6; ++i) expected.as<std::int16_t>()[i] = static_cast<std::int16_t>(i + 1);
  EXPECT_TRUE(*tensor == expected);
}

TEST(NpyFile, ShapesBeyondAllMeasureAreErrors) {
  EXPECT_EQ(npy_error("4611686018427387904, 4, 2"),
            "reading 'a.npy': the shape overflows   [invalid argument]");
  std::string many;
  for (int i = 0; i < 65; ++i) many += "0, ";
  EXPECT_EQ(npy_error(many), "reading 'a.npy': 65 dimensions, allowed 64   [invalid argument]");
}

}  // namespace
}  // namespace tessera::tools
