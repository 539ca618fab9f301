#include "serve/infer_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "serve/datatype.h"
#include "tessera/runtime.h"

namespace tessera::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

const ModelForm kForm = {{{"x", Format::kF32, {2, 2}}, {"n", Format::kI64, {3}}},
                         {{"y", Format::kF32, {2}}, {"h", Format::kF16, {2}}}};

Json tensor(const std::string& name, const Json& shape, const std::string& datatype,
            const Json& data) {
  return {{"name", name}, {"shape", shape}, {"datatype", datatype}, {"data", data}};
}
Json request() {
  return {{"id", "seven"},
          {"inputs",
           {tensor("n", {3}, "INT64", {-1, 0, 9007199254740993}),
            tensor("x", {2, 2}, "FP32", {{1.5, -2}, {0.1, 3e38}})}},
          {"outputs", {{{"name", "y"}}}}};
}
std::string refusal(const Json& document, const std::string& binary = {}) {
  const std::string text = document.dump();
  const auto parsed = parse_infer(text + binary, text.size(), kForm);
  return parsed.ok() ? "" : parsed.error().message;
}

TEST(Datatypes, AreThoseOfTheProtocolAndBack) {
  for (int i = 0; i < kFormatCount; ++i) {
    const auto format = static_cast<Format>(i);
    EXPECT_FALSE(datatype_of(format).empty()) << i;
    EXPECT_EQ(format_of(datatype_of(format)), format);
  }
  EXPECT_EQ(datatype_of(Format::kF32), "FP32");
  EXPECT_EQ(datatype_of(Format::kU8), "UINT8");
  EXPECT_EQ(format_of("BYTES"), std::nullopt);
}

TEST(InferRequest, TakesTensorsByNameInTheModelsOrder) {
  const auto parsed = parse_infer(request().dump(), std::nullopt, kForm);
  ASSERT_TRUE(parsed.ok()) << parsed.error().to_string();
  EXPECT_EQ(parsed->id, "seven");
  ASSERT_EQ(parsed->inputs.size(), 2u);
  EXPECT_THAT(parsed->inputs[0].as<float>(), ElementsAre(1.5F, -2.0F, 0.1F, 3e38F));
  EXPECT_THAT(parsed->inputs[1].as<std::int64_t>(), ElementsAre(-1, 0, 9007199254740993));
  ASSERT_EQ(parsed->outputs.size(), 1u);
  EXPECT_EQ(parsed->outputs[0].index, 0u);
  EXPECT_FALSE(parsed->outputs[0].binary);
  EXPECT_EQ(parsed->priority, 0);
  EXPECT_FALSE(parsed->timeout.has_value());
}

TEST(InferRequest, TakesBytesFromBehindTheJson) {
  Json document = request();
  document["inputs"][0].erase("data");
  document["inputs"][0]["parameters"] = {{"binary_data_size", 24}};
  const std::int64_t numbers[] = {1, -2, 3};
  std::string bytes(sizeof(numbers), '\0');
  std::memcpy(bytes.data(), numbers, sizeof(numbers));
  const std::string text = document.dump();
  const auto parsed = parse_infer(text + bytes, text.size(), kForm);
  ASSERT_TRUE(parsed.ok()) << parsed.error().to_string();
  EXPECT_THAT(parsed->inputs[1].as<std::int64_t>(), ElementsAre(1, -2, 3));
  EXPECT_THAT(refusal(document, bytes.substr(1)), HasSubstr("behind the JSON are 23 more"));
  EXPECT_THAT(refusal(document, bytes + "x"), HasSubstr("1 bytes behind the JSON belong to no"));
  document["inputs"][0]["parameters"]["binary_data_size"] = 16;
  EXPECT_THAT(refusal(document, bytes), HasSubstr("its shape has 24"));
  const auto beyond = parse_infer("{}", 3, kForm);
  ASSERT_FALSE(beyond.ok());
  EXPECT_THAT(beyond.error().message, HasSubstr("the body has 2 bytes"));
}

TEST(InferRequest, TakesPriorityTimeoutAndBinaryOutputs) {
  Json document = request();
  document.erase("outputs");
  document["parameters"] = {{"priority", 1}, {"timeout", 1500}, {"binary_data_output", true}};
  const auto parsed = parse_infer(document.dump(), std::nullopt, kForm);
  ASSERT_TRUE(parsed.ok()) << parsed.error().to_string();
  EXPECT_EQ(parsed->priority, kPriorityHighest);
  EXPECT_EQ(parsed->timeout, std::chrono::microseconds(1500));
  ASSERT_EQ(parsed->outputs.size(), 2u);
  EXPECT_TRUE(parsed->outputs[1].binary);
  document["parameters"]["priority"] = 1'000'000;
  EXPECT_EQ(parse_infer(document.dump(), std::nullopt, kForm)->priority, kPriorityLowest);
}

TEST(InferRequest, AnEmptyListOfOutputsMeansAllOfThem) {
  const ModelForm form = {{{"x", Format::kF32, {1}}},
                          {{"y", Format::kF32, {1}}, {"z", Format::kF32, {1}}}};
  Json document = {{"inputs", {tensor("x", {1}, "FP32", {1})}}, {"outputs", Json::array()}};
  for (int i = 0; i < 2; ++i) {
    const auto parsed = parse_infer(document.dump(), std::nullopt, form);
    ASSERT_TRUE(parsed.ok()) << parsed.error().to_string();
    ASSERT_EQ(parsed->outputs.size(), 2u);
    EXPECT_EQ(parsed->outputs[1].index, 1u);
    document.erase("outputs");
  }
  document["outputs"] = 7;
  EXPECT_THAT(parse_infer(document.dump(), std::nullopt, form).error().message,
              HasSubstr("'outputs' is to be a list"));
}

TEST(InferRequest, TakesNullAsNotANumberWhereAFormatHasOne) {
  const ModelForm form = {{{"f", Format::kF32, {2}}, {"d", Format::kF64, {1}}},
                          {{"y", Format::kF32, {1}}}};
  const Json document = {
      {"inputs", {tensor("f", {2}, "FP32", {nullptr, 1}), tensor("d", {1}, "FP64", {nullptr})}}};
  const auto parsed = parse_infer(document.dump(), std::nullopt, form);
  ASSERT_TRUE(parsed.ok()) << parsed.error().to_string();
  EXPECT_TRUE(std::isnan(parsed->inputs[0].as<float>()[0]));
  EXPECT_EQ(parsed->inputs[0].as<float>()[1], 1.0F);
  EXPECT_TRUE(std::isnan(parsed->inputs[1].as<double>()[0]));
  Json whole = request();
  whole["inputs"][0]["data"][0] = nullptr;
  EXPECT_THAT(refusal(whole), HasSubstr("input 'n': null is no whole number"));
}

TEST(InferRequest, SaysWhatAnOpenDimensionMayBe) {
  const ModelForm form = {{{"x", Format::kF32, {-1, 4}}}, {{"y", Format::kF32, {1}}}};
  const auto message = [&](const Json& shape) {
    const Json document = {{"inputs", {tensor("x", shape, "FP32", Json::array())}}};
    return parse_infer(document.dump(), std::nullopt, form).error().message;
  };
  EXPECT_EQ(
      message({0, 4}),
      "input 'x' has the shape [0, 4]; the model takes [-1, 4], where each -1 stands for 1 or "
      "more, and dimension 0 is 0");
  EXPECT_EQ(message({std::int64_t{1} << 40, 4}),
            "input 'x' has the shape [1099511627776, 4]; the model takes [-1, 4], and "
            "1099511627776 elements at most");
  EXPECT_EQ(message({1, 5}), "input 'x' has the shape [1, 5]; the model takes [-1, 4]");
  EXPECT_EQ(message({1}), "input 'x' has the shape [1]; the model takes [-1, 4]");
  for (const char* const dim : {"-1", "18446744073709551615", "1.5"}) {
    EXPECT_EQ(message({Json::parse(dim), 4}),
              std::string("input 'x': 'shape' has ") + dim +
                  ", no whole number from 0 to 9223372036854775807");
  }
  // Where a protocol has negative numbers.
  EXPECT_EQ(RequestBuilder(form, {}).begin_input("x", "FP32", {-1, 4}).error().message,
            "input 'x' has the shape [-1, 4]; the model takes [-1, 4], where each -1 stands for 1 "
            "or more, and dimension 0 is -1");
}

TEST(InferRequest, RefusesWhatIsWrongAndSaysWhat) {
  const auto changed = [](const char* pointer, const Json& value) {
    Json document = request();
    document[Json::json_pointer(pointer)] = value;
    return refusal(document);
  };
  EXPECT_EQ(refusal(request()), "");
  EXPECT_THAT(changed("/inputs/1/name", "z"), HasSubstr("no input 'z'; it takes 'x', 'n'"));
  EXPECT_THAT(changed("/inputs/1/name", "n"), HasSubstr("'n' is there twice"));
  EXPECT_THAT(changed("/inputs", Json::array()), HasSubstr("input 'x' is not there"));
  EXPECT_THAT(changed("/inputs", 7), HasSubstr("'inputs' is to be a list"));
  EXPECT_THAT(changed("/inputs/1/datatype", "FP16"), HasSubstr("the model takes FP32"));
  EXPECT_THAT(changed("/inputs/1/shape", {4}), HasSubstr("[4]; the model takes [2, 2]"));
  EXPECT_THAT(changed("/inputs/1/data", {1, 2, 3}), HasSubstr("has 3 elements; its shape has 4"));
  EXPECT_THAT(changed("/inputs/1/data", {1, 2, 3, 4, 5}), HasSubstr("more elements than 4"));
  EXPECT_THAT(changed("/inputs/1/data/0/0", "1"), HasSubstr("input 'x': \"1\" is no number"));
  EXPECT_THAT(changed("/inputs/0/data/0", 1.5), HasSubstr("1.5 is no whole number"));
  EXPECT_THAT(changed("/outputs/0/name", "q"), HasSubstr("no output 'q'; it gives 'y', 'h'"));
  EXPECT_THAT(changed("/outputs/0/name", "h"), HasSubstr("has no form in JSON"));
  EXPECT_THAT(changed("/parameters", {{"timeout", -1}}), HasSubstr("whole number from 0"));
  EXPECT_THAT(changed("/id", 1), HasSubstr("'id' is to be a text"));
  EXPECT_THAT(refusal(Json::array()), HasSubstr("no JSON object"));
  const std::string deep(100, '[');
  EXPECT_THAT(parse_infer(deep, std::nullopt, kForm).error().message,
              HasSubstr("nested more than 32 deep"));
}

TEST(InferAnswer, HasTensorsInJsonOrBehindIt) {
  InferRequest of;
  of.id = "i";
  of.outputs = {{1, true}, {0, false}};
  std::vector<Tensor> tensors = {Tensor::zeros(Format::kF32, {2}),
                                 Tensor::zeros(Format::kF16, {2})};
  tensors[0].as<float>()[1] = 0.1F;
  tensors[1].as<std::uint16_t>()[0] = 0x3C00;
  const InferAnswer answer = write_infer("m", "2", of, kForm.outputs, tensors);
  ASSERT_TRUE(answer.header_bytes.has_value());
  const Json document = Json::parse(answer.body.substr(0, *answer.header_bytes));
  EXPECT_EQ(document.at("model_name"), "m");
  EXPECT_EQ(document.at("model_version"), "2");
  EXPECT_EQ(document.at("id"), "i");
  EXPECT_EQ(document.at("outputs")[0].at("name"), "h");
  EXPECT_EQ(document.at("outputs")[0].at("parameters").at("binary_data_size"), 4);
  EXPECT_EQ(document.at("outputs")[1].at("data")[1].get<float>(), 0.1F);  // the same bits
  EXPECT_EQ(answer.body.substr(*answer.header_bytes), std::string("\x00\x3C\x00\x00", 4));
}

}  // namespace
}  // namespace tessera::serve
