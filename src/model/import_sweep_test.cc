// Every model that the machine has is imported, or refused with a stated reason. Which models those
// are is up to the machine: ONNX's conformance models (package libonnx-testdata) and a folder of
// networks (TESSERA_TEST_DATA in the environment, or the folder given when the build was made).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "model/import.h"

namespace tessera::model {
namespace {

namespace fs = std::filesystem;

fs::path test_data() {
  const char* set = std::getenv("TESSERA_TEST_DATA");
  return set != nullptr ? set : TESSERA_TEST_DATA;
}

std::vector<fs::path> find_files(const fs::path& folder, const std::string& extension) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == extension) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

// The message without what is different from file to file, so that reasons can be counted.
std::string reason_of(const Error& error, const fs::path& file) {
  const std::string prefix = fmt::format("importing '{}': ", file.string());
  EXPECT_TRUE(error.message.starts_with(prefix)) << error.message;
  return error.to_string().substr(std::min(prefix.size(), error.message.size()));
}

struct Tally {
  int imported = 0;
  int refused = 0;
  std::map<std::string, int> unsupported;
  std::vector<std::string> invalid;

  void add(const Error& error, const fs::path& file) {
    ++refused;
    if (error.code == ErrorCode::kUnsupported) {
      ++unsupported[reason_of(error, file)];
    } else {
      invalid.push_back(error.to_string());
    }
  }
  void print(const std::string& what) const {
    std::cout << fmt::format("{}: {} imported, {} refused\n", what, imported, refused);
    for (const auto& [reason, count] : unsupported) {
      std::cout << fmt::format("  {:4} x {}\n", count, reason);
    }
    for (const std::string& message : invalid) std::cout << "       " << message << "\n";
  }
};

Tally import_models(const std::vector<fs::path>& files) {
  Tally tally;
  for (const fs::path& file : files) {
    const Result<Model> model = import_file(file.string());
    if (model.ok()) {
      ++tally.imported;
    } else {
      tally.add(model.error(), file);
    }
  }
  return tally;
}

const fs::path kConformance = "/usr/share/libonnx-testdata/data";

TEST(ImportSweep, EveryConformanceModelIsImportedOrItsFeatureIsRefusedByName) {
  if (!fs::exists(kConformance)) GTEST_SKIP() << "no folder " << kConformance;
  const Tally tally = import_models(find_files(kConformance, ".onnx"));
  tally.print("conformance models");
  EXPECT_GT(tally.imported, 0);
  EXPECT_TRUE(tally.invalid.empty());
}

TEST(ImportSweep, EveryConformanceTensorIsImportedOrItsTypeIsRefusedByName) {
  if (!fs::exists(kConformance)) GTEST_SKIP() << "no folder " << kConformance;
  Tally tally;
  for (const fs::path& file : find_files(kConformance, ".pb")) {
    const Result<Tensor> tensor = import_tensor_file(file.string());
    if (tensor.ok()) {
      ++tally.imported;
    } else {
      tally.add(tensor.error(), file);
    }
  }
  tally.print("conformance tensors");
  EXPECT_GT(tally.imported, 0);
}

TEST(ImportSweep, EveryModelOfTheTestDataIsImported) {
  const fs::path folder = test_data() / "models";
  if (!fs::exists(folder)) GTEST_SKIP() << "no folder " << folder << " (set TESSERA_TEST_DATA)";
  const Tally tally = import_models(find_files(folder, ".onnx"));
  tally.print("networks");
  EXPECT_GT(tally.imported, 0);
  EXPECT_EQ(tally.refused, 0);
}

TEST(ImportSweep, EveryNodeTestOfTheTestDataIsImportedOrItsFeatureIsRefusedByName) {
  const fs::path folder = test_data() / "onnx-node-tests";
  if (!fs::exists(folder)) GTEST_SKIP() << "no folder " << folder << " (set TESSERA_TEST_DATA)";
  const Tally tally = import_models(find_files(folder, ".onnx"));
  tally.print("node tests");
  EXPECT_GT(tally.imported, 0);
  EXPECT_TRUE(tally.invalid.empty());
}

}  // namespace
}  // namespace tessera::model
