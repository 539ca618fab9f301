// TensorProto in every form, and each way in which it can be wrong.
#include "model/import_tensor.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "arith/rounding.h"
#include "model/testing/model_builder.h"

namespace tessera::model {
namespace {

using testing::Ints;
using Proto = onnx::TensorProto;

Proto proto_of(Proto::DataType type, const Ints& dims) {
  Proto proto;
  proto.set_data_type(type);
  proto.mutable_dims()->Add(dims.begin(), dims.end());
  return proto;
}

Result<Tensor> import_one(Proto proto, const ImportLimits& limits = {}) {
  TensorImport context{.limits = limits, .folder = "", .external_bytes = 0, .external_files = {}};
  return import_tensor(proto, context);
}

std::string words(const Proto& proto, const ImportLimits& limits = {}) {
  const Result<Tensor> tensor = import_one(proto, limits);
  return tensor.ok() ? "(no error)" : tensor.error().to_string();
}

template <typename T>
std::vector<T> values_of(const Proto& proto, Format format) {
  const Result<Tensor> tensor = import_one(proto);
  EXPECT_TRUE(tensor.ok()) << words(proto);
  if (!tensor.ok()) return {};
  EXPECT_EQ(tensor->format, format);
  EXPECT_EQ(tensor->dims, Shape(proto.dims().begin(), proto.dims().end()));
  const auto values = tensor->as<T>();
  return {values.begin(), values.end()};
}

template <typename T>
std::vector<T> from_int32(Proto::DataType type, Format format, const std::vector<int>& data) {
  Proto proto = proto_of(type, {static_cast<std::int64_t>(data.size())});
  proto.mutable_int32_data()->Add(data.begin(), data.end());
  return values_of<T>(proto, format);
}

TEST(ImportTensor, TypedFieldsOfEveryFormat) {
  EXPECT_EQ(from_int32<std::int32_t>(Proto::INT32, Format::kI32, {-1, INT32_MAX}),
            (std::vector<std::int32_t>{-1, INT32_MAX}));
  EXPECT_EQ(from_int32<std::int16_t>(Proto::INT16, Format::kI16, {-32768, 32767}),
            (std::vector<std::int16_t>{-32768, 32767}));
  EXPECT_EQ(from_int32<std::int8_t>(Proto::INT8, Format::kI8, {-128, 127}),
            (std::vector<std::int8_t>{-128, 127}));
  EXPECT_EQ(from_int32<std::uint16_t>(Proto::UINT16, Format::kU16, {0, 65535}),
            (std::vector<std::uint16_t>{0, 65535}));
  EXPECT_EQ(from_int32<std::uint8_t>(Proto::UINT8, Format::kU8, {0, 255}),
            (std::vector<std::uint8_t>{0, 255}));
  EXPECT_EQ(from_int32<std::uint8_t>(Proto::BOOL, Format::kBool, {0, 1}),
            (std::vector<std::uint8_t>{0, 1}));
  EXPECT_EQ(from_int32<std::uint16_t>(Proto::FLOAT16, Format::kF16, {0x3C00, 0xFC00}),
            (std::vector<std::uint16_t>{0x3C00, 0xFC00}));
  EXPECT_EQ(from_int32<std::uint16_t>(Proto::BFLOAT16, Format::kBf16, {0x3F80, 0xFF80}),
            (std::vector<std::uint16_t>{0x3F80, 0xFF80}));
}

TEST(ImportTensor, WideTypedFields) {
  Proto f32 = proto_of(Proto::FLOAT, {2});
  f32.add_float_data(1.5F);
  f32.add_float_data(-2.0F);
  EXPECT_EQ(values_of<float>(f32, Format::kF32), (std::vector<float>{1.5F, -2.0F}));
  Proto f64 = proto_of(Proto::DOUBLE, {});
  f64.add_double_data(0.1);
  EXPECT_EQ(values_of<double>(f64, Format::kF64), std::vector<double>{0.1});
  Proto i64 = proto_of(Proto::INT64, {1});
  i64.add_int64_data(INT64_MIN);
  EXPECT_EQ(values_of<std::int64_t>(i64, Format::kI64), std::vector<std::int64_t>{INT64_MIN});
  Proto u64 = proto_of(Proto::UINT64, {1});
  u64.add_uint64_data(UINT64_MAX);
  EXPECT_EQ(values_of<std::uint64_t>(u64, Format::kU64), std::vector<std::uint64_t>{UINT64_MAX});
  Proto u32 = proto_of(Proto::UINT32, {1});
  u32.add_uint64_data(UINT32_MAX);
  EXPECT_EQ(values_of<std::uint32_t>(u32, Format::kU32), std::vector<std::uint32_t>{UINT32_MAX});
}

TEST(ImportTensor, RawBytesOfEveryFormatArriveAsTheyAre) {
  for (int i = 0; i < kFormatCount; ++i) {
    const auto format = static_cast<Format>(i);
    Tensor tensor = Tensor::zeros(format, {2, 3});
    for (std::size_t k = 0; k < tensor.bytes.size(); ++k) tensor.bytes[k] = std::byte(k % 2);
    const Result<Tensor> imported = import_one(testing::tensor_proto("t", tensor));
    ASSERT_TRUE(imported.ok()) << imported.error().to_string();
    EXPECT_EQ(*imported, tensor);
  }
}

TEST(ImportTensor, TensorWithoutElementsNeedsNoData) {
  EXPECT_EQ(values_of<float>(proto_of(Proto::FLOAT, {2, 0, 3}), Format::kF32),
            std::vector<float>());
}

TEST(ImportTensor, DataLeavesTheProto) {
  Proto proto = testing::tensor_proto("t", Tensor::zeros(Format::kF32, {1000}));
  TensorImport context;
  ASSERT_TRUE(import_tensor(proto, context).ok());
  EXPECT_FALSE(proto.has_raw_data());
}

TEST(ImportTensorErrors, ClaimedSizeIsComparedWithTheDataBeforeAllocation) {
  Proto raw = proto_of(Proto::FLOAT, {std::int64_t{1} << 28});
  raw.set_raw_data("abcd");
  EXPECT_EQ(words(raw),
            "dimensions [268435456] ask for 1073741824 bytes, found 4   [invalid model]");
  Proto typed = proto_of(Proto::FLOAT, {std::int64_t{1} << 28});
  typed.add_float_data(1);
  EXPECT_EQ(words(typed),
            "dimensions [268435456] ask for 268435456 elements, found 1   [invalid model]");
  EXPECT_EQ(words(proto_of(Proto::FLOAT, {})),
            "dimensions [] ask for 1 element, found 0   [invalid model]");
}

TEST(ImportTensorErrors, MoreThanTheLimit) {
  Proto proto = proto_of(Proto::FLOAT, {std::int64_t{1} << 40});
  proto.set_raw_data("abcd");
  EXPECT_EQ(words(proto),
            "dimensions [1099511627776] ask for 4398046511104 bytes, allowed are 2147483648   "
            "[invalid model]");
  EXPECT_EQ(words(proto_of(Proto::FLOAT, {2}), {.tensor_bytes_max = 7}),
            "dimensions [2] ask for 8 bytes, allowed are 7   [invalid model]");
}

TEST(ImportTensorErrors, Dimensions) {
  EXPECT_EQ(words(proto_of(Proto::FLOAT, {2, -1})),
            "dimension 1 is -1, allowed is 0 or more   [invalid model]");
  EXPECT_EQ(words(proto_of(Proto::FLOAT, {INT64_MAX, INT64_MAX})),
            "dimensions [9223372036854775807, 9223372036854775807] ask for more than 2^63 bytes   "
            "[invalid model]");
  EXPECT_EQ(words(proto_of(Proto::FLOAT, Ints(17, 1))),
            "17 dimensions, allowed are 16   [invalid model]");
}

// Two elements per byte, the first in the low half; four of two bits.
TEST(ImportTensor, NarrowElementsAreUnpacked) {
  const auto numbers = [](int type, std::int64_t count, const std::string& raw, bool typed) {
    Proto proto;
    proto.set_data_type(type);
    proto.add_dims(count);
    if (typed) {
      for (const char byte : raw) proto.add_int32_data(static_cast<unsigned char>(byte));
    } else {
      proto.set_raw_data(raw);
    }
    const std::string bytes = proto.SerializeAsString();
    const auto tensor = import_tensor_bytes(std::as_bytes(std::span(bytes)), "t");
    EXPECT_TRUE(tensor.ok()) << tensor.error().to_string();
    std::vector<double> values;
    if (!tensor.ok()) return values;
    const auto width = static_cast<std::size_t>(format_bytes(tensor->format));
    for (std::size_t i = 0; i < tensor->bytes.size(); i += width) {
      values.push_back(arith::read_element(tensor->format, tensor->bytes.data() + i));
    }
    return values;
  };
  using Values = std::vector<double>;
  for (const bool typed : {false, true}) {
    EXPECT_EQ(numbers(22, 3, "\x87\x0F", typed), (Values{7, -8, -1}));
    EXPECT_EQ(numbers(21, 3, "\x87\x0F", typed), (Values{7, 8, 15}));
    EXPECT_EQ(numbers(26, 5, "\x39\x02", typed), (Values{1, -2, -1, 0, -2}));
    EXPECT_EQ(numbers(25, 4, "\x39", typed), (Values{1, 2, 3, 0}));
    EXPECT_EQ(numbers(23, 2, "\xE1", typed), (Values{0.5, -4}));
    EXPECT_EQ(numbers(17, 2, "\x38\xFE", typed), (Values{1, -448}));
    EXPECT_EQ(numbers(19, 2, "\x3C\xFB", typed), (Values{1, -57344}));
  }
}

TEST(ImportTensorErrors, NarrowElementsOfTheWrongAmount) {
  Proto proto;
  proto.set_data_type(22);
  proto.add_dims(3);
  proto.set_raw_data("a");
  EXPECT_EQ(words(proto), "dimensions [3] ask for 2 bytes, found 1   [invalid model]");
  proto.clear_raw_data();
  proto.add_int32_data(3);
  proto.add_int32_data(256);
  EXPECT_EQ(words(proto), "element 1 is 256, allowed is 0 to 255   [invalid model]");
}

TEST(ImportTensorErrors, TypesAreRefusedByName) {
  const std::vector<std::pair<int, std::string>> names = {
      {8, "string"}, {14, "complex64"}, {15, "complex128"}, {24, "float8e8m0"}};
  for (const auto& [number, name] : names) {
    Proto proto;
    proto.set_data_type(number);
    EXPECT_EQ(words(proto),
              fmt::format("the element type {} is not supported   [unsupported]", name));
  }
  EXPECT_EQ(words(Proto()), "the element type is missing   [invalid model]");
  Proto unknown;
  unknown.set_data_type(-3);
  EXPECT_EQ(words(unknown), "the element type number -3 is not known   [invalid model]");
}

TEST(ImportTensorErrors, DataInTheWrongPlace) {
  Proto wrong = proto_of(Proto::FLOAT, {1});
  wrong.add_int64_data(1);
  EXPECT_EQ(words(wrong),
            "the data lies in int64_data, for float it belongs in float_data or raw_data   "
            "[invalid model]");
  Proto strings = proto_of(Proto::INT8, {1});
  strings.add_string_data("a");
  EXPECT_EQ(words(strings),
            "the data lies in string_data, for int8 it belongs in int32_data or raw_data   "
            "[invalid model]");
  Proto both = proto_of(Proto::FLOAT, {1});
  both.add_float_data(1);
  both.set_raw_data("abcd");
  EXPECT_EQ(words(both), "the data lies in raw_data and also in float_data   [invalid model]");
  Proto external = proto_of(Proto::FLOAT, {1});
  external.set_data_location(Proto::EXTERNAL);
  external.set_raw_data("abcd");
  EXPECT_EQ(words(external),
            "the data lies in an external file and also in raw_data   [invalid model]");
  external.clear_raw_data();
  external.add_float_data(1);
  EXPECT_EQ(words(external),
            "the data lies in an external file and also in float_data   [invalid model]");
  Proto segment = proto_of(Proto::FLOAT, {1});
  segment.mutable_segment()->set_begin(0);
  EXPECT_EQ(words(segment), "a tensor in segments is not supported   [unsupported]");
}

TEST(ImportTensorErrors, ElementThatItsFormatCannotHold) {
  const auto words_of = [](Proto::DataType type, int value) {
    Proto proto = proto_of(type, {2});
    proto.add_int32_data(0);
    proto.add_int32_data(value);
    return words(proto);
  };
  EXPECT_EQ(words_of(Proto::INT8, 128),
            "element 1 is 128, allowed is -128 to 127   [invalid model]");
  EXPECT_EQ(words_of(Proto::UINT8, -1), "element 1 is -1, allowed is 0 to 255   [invalid model]");
  EXPECT_EQ(words_of(Proto::BOOL, 2), "element 1 is 2, allowed is 0 to 1   [invalid model]");
  EXPECT_EQ(words_of(Proto::FLOAT16, 65536),
            "element 1 is 65536, allowed is 0 to 65535   [invalid model]");
  Proto u32 = proto_of(Proto::UINT32, {1});
  u32.add_uint64_data(UINT64_MAX);
  EXPECT_EQ(words(u32),
            "element 0 is 18446744073709551615, allowed is 0 to 4294967295   [invalid model]");
  Proto raw = proto_of(Proto::BOOL, {3});
  raw.set_raw_data(std::string("\x00\x01\x03", 3));
  EXPECT_EQ(words(raw), "element 2 is 3, allowed is 0 to 1   [invalid model]");
}

}  // namespace
}  // namespace tessera::model
