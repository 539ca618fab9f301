// --format on every verb that takes a model, and `report --formats`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "command.h"

namespace tessera::cli {
namespace {

using ::testing::HasSubstr;

// From "output y " to the line's end.
std::string output_of(std::vector<std::string> arguments) {
  const CommandResult result = tessera(arguments);
  EXPECT_EQ(result.status, 0) << result.err;
  const std::size_t begin = result.out.find("output y ");
  if (begin == std::string::npos) return "";
  return result.out.substr(begin, result.out.find('\n', begin) - begin);
}

TEST(FormatOption, TheFormatIsTheArchitecturesOrTheOptions) {
  const auto run = [](const std::string& format, const std::string& device) {
    return output_of(
        {"run", "small.onnx", "--input", "random:7", "--format", format, "--device", device});
  };
  const std::string own = output_of({"run", "small.onnx", "--input", "random:7"});
  EXPECT_EQ(run("bfp:11", "sim"), own);
  EXPECT_EQ(
      output_of({"run", "small.onnx", "--input", "random:7", "--arch", "tessera128+mxfp4e2m1"}),
      run("mxfp4e2m1", "sim"));
  for (const char* format :
       {"mxfp4e2m1", "mxfp8e4m3:ceil", "bfp:3", "bfp:15:q34.40", "f16", "f32"}) {
    EXPECT_EQ(run(format, "sim"), run(format, "ref")) << format;
    EXPECT_EQ(run(format, "host"), run(format, "ref")) << format;
  }
  EXPECT_NE(run("mxfp4e2m1", "host"), own);
}

TEST(FormatOption, APackageKeepsItsFormat) {
  EXPECT_EQ(tessera({"compile", "small.onnx", "--format", "mxfp6e3m2", "-o", "m.tpkg"}).status, 0);
  EXPECT_EQ(tessera({"link", "m.tpkg", "-o", "m.tprog"}).status, 0);
  EXPECT_THAT(tessera({"disasm", "m.tprog"}).out, HasSubstr("chip \"tessera128+mxfp6e3m2\""));
  EXPECT_EQ(output_of({"run", "m.tpkg", "--format", "mxfp6e3m2", "--input", "random:7"}),
            output_of({"run", "small.onnx", "--format", "mxfp6e3m2", "--input", "random:7"}));
  const CommandResult other = tessera({"run", "m.tpkg"});
  EXPECT_EQ(other.status, 1);
  EXPECT_THAT(other.err, HasSubstr("the package was compiled for 'tessera128+mxfp6e3m2'"));
}

TEST(FormatOption, CompareAndReportTakeIt) {
  const CommandResult same = tessera({"compare", "small.onnx", "--format", "mxfp8e5m2"});
  EXPECT_EQ(same.status, 0) << same.err;
  EXPECT_THAT(same.out, HasSubstr(" 0 mismatches"));
  const CommandResult report = tessera({"report", "small.onnx", "--format", "mxint8", "--json"});
  EXPECT_EQ(report.json().at("arch"), "tessera128+mxint8");
}

TEST(FormatOption, Int8IsWhatAQuantisedModelHas) {
  const CommandResult refused = tessera({"run", "small.onnx", "--format", "int8"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(
      refused.err,
      HasSubstr("--format int8: product 'conv' of 'small.onnx' takes floats; give a "
                "quantised (QDQ or QLinear) model, or another format: f32, bf16, f16, bfp"));
  EXPECT_EQ(tessera({"run", "relu.onnx", "--format", "int8"}).status, 0);  // no product at all
}

TEST(FormatOption, AnUnknownFormatIsAnsweredWithAllOfThem) {
  const CommandResult unknown = tessera({"run", "small.onnx", "--format", "fp8"});
  EXPECT_EQ(unknown.status, 1);
  EXPECT_THAT(unknown.err,
              HasSubstr("format 'fp8': unknown; allowed f32, bf16, f16, bfp[:MX[:MW]]"));
}

TEST(FormatReport, GivesEveryFormatItsAccuracyBytesAndCycles) {
  const CommandResult result = tessera(
      {"report", "small.onnx", "--formats", "--input", "x=random:3", "--html", "f.html", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const nlohmann::json json = result.json();
  const nlohmann::json& rows = json.at("formats");
  ASSERT_EQ(rows.size(), 22u);
  double before = 1;
  std::int64_t bytes = INT64_MAX;
  for (const nlohmann::json& row : rows) {
    const std::string format = row.at("format");
    ASSERT_FALSE(row.contains("error")) << row.dump();
    EXPECT_GT(row.at("cycles").get<std::int64_t>(), 0);
    EXPECT_GT(row.at("cosine").get<double>(), 0.9) << format;
    if (format == "f32") {
      EXPECT_EQ(row.at("cosine"), 1.0);
      EXPECT_EQ(row.at("max_error"), 0.0);
      EXPECT_EQ(row.at("weight_bytes"), 4 * 3 * 9 * 4);
    }
    if (!format.starts_with("bfp")) continue;
    EXPECT_LT(row.at("weight_bytes").get<std::int64_t>(), bytes) << format;
    bytes = row.at("weight_bytes");
    EXPECT_LE(row.at("cosine").get<double>(), before + 1e-6) << format;
    before = row.at("cosine");
  }
  EXPECT_LT(before, 0.99999);  // three bits
  const std::string page = read_text("f.html");
  EXPECT_THAT(page, HasSubstr("<svg"));
  for (const char* format : {"bfp:3", "int8", "mxfp4e2m1"}) EXPECT_THAT(page, HasSubstr(format));
}

TEST(FormatReport, CasesAreTheFilesOfAFolderOrItsFolders) {
  prepare();
  EXPECT_EQ(tessera({"run", "relu.onnx", "--input", "random:1", "--output", "cases/first"}).status,
            0);
  const CommandResult one = tessera(
      {"report", "relu.onnx", "--formats", "--only", "f16", "--cases", "cases/first", "--json"});
  ASSERT_EQ(one.status, 0) << one.err;
  EXPECT_EQ(one.json().at("cases"), 1);
  EXPECT_EQ(one.json().at("formats").at(0).at("top1_agreement"), 1.0);
  const CommandResult wrong = tessera({"report", "relu.onnx", "--formats", "--cases", "cases"});
  EXPECT_EQ(wrong.status, 1);  // a folder is a case; its file is called after an output
  EXPECT_THAT(wrong.err, HasSubstr("x"));
}

TEST(FormatReport, RefusesWhatSettlesTheFormat) {
  const CommandResult both = tessera({"report", "small.onnx", "--formats", "--format", "bfp"});
  EXPECT_EQ(both.status, 1);
  EXPECT_THAT(both.err,
              HasSubstr("--formats tries one format after the other; leave out --format"));
  EXPECT_EQ(tessera({"compile", "small.onnx", "-o", "s.tpkg"}).status, 0);
  const CommandResult package = tessera({"report", "s.tpkg", "--formats"});
  EXPECT_EQ(package.status, 1);
  EXPECT_THAT(package.err, HasSubstr("is a package, compiled for one format"));
}

}  // namespace
}  // namespace tessera::cli
