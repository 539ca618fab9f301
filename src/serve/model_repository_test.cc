#include "serve/model_repository.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace tessera::serve {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Repository : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "repository_test";
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  void write(const std::string& path, const std::string& text) const {
    fs::create_directories(fs::path(folder_ + "/" + path).parent_path());
    std::ofstream(folder_ + "/" + path) << text;
  }
  std::string folder_;
};

TEST_F(Repository, HasModelsVersionsAndConfigurations) {
  write("b/2/model.tpkg", "");
  write("b/10/model.onnx", "");
  write("b/007/model.onnx", "");  // no number as one writes it
  write("b/notes/model.onnx", "");
  write("b/3/readme.txt", "");
  write("a/1/model.tprog", "");
  write("a/config.json",
        R"({"device": "sim", "instances": 3, "shapes": {"x": [1, 3]}, "timeout_us": 5})");
  write(".git/1/model.onnx", "");
  EXPECT_THAT(*model_names(folder_), ElementsAre("a", "b"));
  const auto b = find_model(folder_, "b", {});
  ASSERT_TRUE(b.ok()) << b.error().to_string();
  ASSERT_EQ(b->versions.size(), 2u);
  EXPECT_EQ(b->versions[0].version, 2);
  EXPECT_EQ(b->versions[1].version, 10);
  EXPECT_EQ(b->versions[1].path, folder_ + "/b/10/model.onnx");
  // Those that look like a version are named.
  ASSERT_EQ(b->left_out.size(), 2u);
  EXPECT_EQ(b->left_out[0].folder, "007");
  EXPECT_EQ(b->left_out[0].reason,
            "a version is a number from 1 to 9223372036854775807 without zeros before it");
  EXPECT_EQ(b->left_out[1].folder, "3");
  EXPECT_EQ(b->left_out[1].reason, "it has no model.onnx, model.tpkg or model.tprog");
  const auto a = find_model(folder_, "a", {.arch = "edge"});
  ASSERT_TRUE(a.ok()) << a.error().to_string();
  EXPECT_EQ(a->config.device, DeviceKind::kSim);
  EXPECT_EQ(a->config.arch, "edge");
  EXPECT_EQ(a->config.instances, 3);
  EXPECT_EQ(a->config.timeout, std::chrono::microseconds(5));
  EXPECT_THAT(a->config.shapes.at("x"), ElementsAre(1, 3));
}

TEST_F(Repository, SaysWhatIsWrongWithAModel) {
  write("empty/1/other.txt", "");
  write("bad/1/model.onnx", "");
  write("bad/config.json", R"({"instances": 0})");
  const auto message = [&](const std::string& name) {
    const auto found = find_model(folder_, name, {});
    return found.ok() ? "" : found.error().message;
  };
  EXPECT_THAT(message("empty"), HasSubstr("has no version"));
  EXPECT_THAT(message("bad"), HasSubstr("bad/config.json: 'instances' is 0; allowed is"));
  EXPECT_THAT(message("nowhere"), HasSubstr("cannot read the folder"));
  for (const char* const outside : {"..", ".", "", "a/b", "../repository_test/bad", ".git"}) {
    EXPECT_THAT(message(outside), HasSubstr("is no name of a model")) << outside;
    EXPECT_FALSE(has_model(folder_, outside).ok()) << outside;
  }
  // Its address is that of something else.
  write("stats/1/model.onnx", "");
  EXPECT_EQ(message("stats"),
            "'stats' is no name of a model, since /v2/models/stats has the statistics of all "
            "models; give the folder another name");
  EXPECT_TRUE(*has_model(folder_, "bad"));
  EXPECT_FALSE(*has_model(folder_, "nowhere"));
  EXPECT_FALSE(model_names(folder_ + "/nowhere").ok());
}

TEST(ModelConfigText, RefusesUnknownKeysAndValues) {
  const auto message = [](const std::string& text) {
    const auto parsed = parse_model_config(text, {});
    return parsed.ok() ? "" : parsed.error().message;
  };
  EXPECT_EQ(message("{}"), "");
  EXPECT_THAT(message(R"({"instance": 1})"), HasSubstr("no key 'instance'; known are arch"));
  EXPECT_THAT(message(R"({"device": "gpu"})"), HasSubstr("gpu"));
  EXPECT_THAT(message(R"({"device": 1})"), HasSubstr("'device' is 1, no text"));
  EXPECT_THAT(message(R"({"shapes": {"x": 3}})"), HasSubstr("'x' is no list"));
  EXPECT_THAT(message(R"({"shapes": {"x": [-1]}})"), HasSubstr("shapes.x"));
  EXPECT_THAT(message(R"({"queue": 1.5})"), HasSubstr("'queue' is 1.5"));
  EXPECT_THAT(message("[]"), HasSubstr("no JSON object"));
  EXPECT_THAT(message("{"), HasSubstr("no JSON object"));
  EXPECT_THAT(message(std::string(1000, '[')), HasSubstr("no JSON object"));
}

}  // namespace
}  // namespace tessera::serve
