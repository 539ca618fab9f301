// The fuzzer's corpus as a plain test.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "import_target.h"

namespace tessera::fuzz {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> corpus() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(TESSERA_IMPORT_CORPUS)) {
    files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

ImportOutcome run(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(stream)), {});
  return import_target(std::as_bytes(std::span(bytes)));
}

// make_import_corpus.cc begins a file's name with what it is.
TEST(ImportCorpus, EveryFileIsWhatItsNameSays) {
  ASSERT_FALSE(corpus().empty());
  for (const fs::path& file : corpus()) {
    const std::string name = file.filename().string();
    const ImportOutcome outcome = run(file);
    if (name.starts_with("model_")) {
      EXPECT_TRUE(outcome.is_model) << name;
    }
    if (name.starts_with("tensor_")) {
      EXPECT_TRUE(outcome.is_tensor) << name;
    }
    if (name.starts_with("bad_")) {
      EXPECT_FALSE(outcome.is_model || outcome.is_tensor) << name;
    }
  }
}

TEST(ImportCorpus, ShapesOfOrdinaryModelsAreInferred) {
  const fs::path folder(TESSERA_IMPORT_CORPUS);
  for (const char* name :
       {"model_relu", "model_convolution", "model_quantised", "model_shapes", "model_functions"}) {
    EXPECT_TRUE(run(folder / name).is_inferred) << name;
  }
}

}  // namespace
}  // namespace tessera::fuzz
