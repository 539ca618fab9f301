#include "tools/files/stored_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "tessera/file.h"
#include "tools/verb.h"

namespace tessera::tools {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> columns_of(const std::string& line) {
  std::vector<std::string> columns;
  for (std::size_t begin = 0; begin <= line.size();) {
    const std::size_t end = std::min(line.find('\t', begin), line.size());
    columns.push_back(line.substr(begin, end - begin));
    begin = end + 1;
  }
  return columns;
}

// An input of a case. The shape of a scalar is written "scalar".
struct CaseInput {
  std::string model, name, tensor;
  Shape dims;
  std::string file;  // of its values, below the folder; empty: none as they are
};

// None: the line is of an output, or of a whole series of inputs (index "*").
Result<std::optional<CaseInput>> case_input(const std::string& line, const std::string& where) {
  const std::vector<std::string> columns = columns_of(line);
  constexpr std::size_t kColumns = 7;
  if (columns.size() < kColumns) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{}: {} columns, expected model, case, in or out, index, tensor, "
                             "type and shape, with tabs between",
                             where, columns.size())};
  }
  if (columns[2] != "in" || columns[3] == "*") return std::optional<CaseInput>();
  CaseInput input{columns[0], columns[1], columns[4], {}, {}};
  if (columns.size() > kColumns + 1 && columns[8] == "raw") input.file = columns[7];
  if (columns[6].empty() || columns[6] == "scalar") return std::optional(std::move(input));
  const auto shape = parse_shape(input.tensor + "=" + columns[6]);
  if (!shape.ok()) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{}: shape '{}' of '{}', expected one like 1x3x48x320", where,
                             columns[6], input.tensor)};
  }
  input.dims = shape->second;
  return std::optional(std::move(input));
}

}  // namespace

Status read_case_shapes(std::string_view cases, const std::string& path,
                        std::vector<StoredFile>& files) {
  std::map<std::string, std::string> first_case;  // of each model
  int number = 1;
  for (std::size_t begin = 0; begin < cases.size(); ++number) {
    const std::size_t end = std::min(cases.find('\n', begin), cases.size());
    const std::string line(cases.substr(begin, end - begin));
    begin = end + 1;
    if (number == 1 || line.empty()) continue;  // the columns' names
    TESSERA_TRY(const auto input, case_input(line, fmt::format("{}:{}", path, number)));
    if (!input) continue;
    const auto at = first_case.try_emplace(input->model, input->name).first;
    if (at->second != input->name) continue;
    for (StoredFile& file : files) {
      if (file.name != input->model) continue;
      file.shapes[input->tensor] = input->dims;
      if (!input->file.empty()) file.values[input->tensor] = input->file;
    }
  }
  return {};
}

Result<std::vector<StoredFile>> stored_files(const std::string& folder) {
  std::error_code error;
  const std::string below = folder + "/models";
  const std::string models = fs::is_directory(below, error) ? below : folder;
  std::vector<StoredFile> files;
  error.clear();
  for (fs::directory_iterator at(models, error), end; !error && at != end; at.increment(error)) {
    if (at->path().extension() != ".onnx") continue;
    files.push_back({at->path().string(), at->path().stem().string(), {}});
  }
  if (error) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("cannot read the folder '{}': {}", models, error.message())};
  }
  if (files.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("there is no model (.onnx) in the folder '{}'", models)};
  }
  std::ranges::sort(files, {}, &StoredFile::name);
  const std::string cases = folder + "/cases/CASES.tsv";
  if (!fs::exists(cases, error)) return files;
  TESSERA_TRY(const std::vector<std::byte> bytes, read_file(cases));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  TESSERA_RETURN_IF_ERROR(read_case_shapes(text, cases, files));
  for (StoredFile& file : files) {
    for (auto& [tensor, values] : file.values) values.insert(0, folder + "/");
  }
  return files;
}

Result<LoadOptions> load_options(const StoredFile& file, const std::string& arch) {
  LoadOptions options;
  options.arch = arch;
  TESSERA_TRY(const DeclaredShapes declared, Network::declared_shapes(file.path));
  for (const DeclaredShape& input : declared.inputs) {
    const auto shape = file.shapes.find(input.name);
    if (shape == file.shapes.end() || std::ranges::find(input.dims, -1) == input.dims.end()) {
      continue;
    }
    options.shapes[input.name] = shape->second;
  }
  return options;
}

}  // namespace tessera::tools
