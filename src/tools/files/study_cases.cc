#include "tools/files/study_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "tools/files/tensor_file.h"

namespace tessera::tools {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> sorted_entries(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) entries.push_back(entry.path());
  std::sort(entries.begin(), entries.end());
  return entries;
}

// A folder of a case: "NAME.npy" (or .pb, .png, .jpg) for each input that is not random.
std::vector<std::string> texts_of_case(const fs::path& folder) {
  std::vector<std::string> texts;
  for (const fs::path& file : sorted_entries(folder)) {
    texts.push_back(fmt::format("{}={}", file.stem().string(), file.string()));
  }
  return texts;
}

// A folder in FOLDER is a case; without any, each file is one, for the only input.
Result<std::vector<std::vector<std::string>>> case_texts(
    const std::string& folder, const std::vector<TensorDescription>& inputs) {
  const std::vector<fs::path> entries = sorted_entries(folder);
  std::vector<std::vector<std::string>> cases;
  for (const fs::path& entry : entries) {
    if (fs::is_directory(entry)) cases.push_back(texts_of_case(entry));
  }
  if (!cases.empty()) return cases;
  if (entries.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("--cases '{}': there is no file and no folder in it", folder)};
  }
  if (inputs.size() != 1) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("--cases '{}': the model has {} inputs; give a folder for each case, "
                             "with a file NAME.npy for each input",
                             folder, inputs.size())};
  }
  for (const fs::path& file : entries) {
    cases.push_back({fmt::format("{}={}", inputs[0].name, file.string())});
  }
  return cases;
}

}  // namespace

Result<std::vector<std::vector<Tensor>>> read_cases(const StudyCases& arguments,
                                                    const std::vector<TensorDescription>& inputs,
                                                    FileRoles& roles) {
  TESSERA_TRY(const ImagePreprocessing preprocessing, parse_preprocessing(arguments.preprocess));
  std::vector<std::vector<std::string>> texts = {arguments.inputs};
  if (!arguments.folder.empty()) {
    TESSERA_TRY(texts, case_texts(arguments.folder, inputs));
  }
  for (const std::vector<std::string>& text : texts) roles.read_inputs(text);
  std::vector<std::vector<Tensor>> cases;
  for (const std::vector<std::string>& text : texts) {
    TESSERA_TRY(std::vector<Tensor> tensors, read_inputs(text, inputs, preprocessing));
    cases.push_back(std::move(tensors));
  }
  return cases;
}

}  // namespace tessera::tools
