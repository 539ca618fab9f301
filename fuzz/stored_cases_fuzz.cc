// Any text is either a table of cases, whose shapes are of models that it names, or an error with its line.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "tools/files/stored_files.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using tessera::tools::StoredFile;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::vector<StoredFile> files = {{"a.onnx", "a", {}}, {"b.onnx", "b", {}}};
  const tessera::Status status = tessera::tools::read_case_shapes(text, "CASES.tsv", files);
  if (!status.ok()) {
    TESSERA_CHECK(status.error().message.starts_with("CASES.tsv:"), "no line: '{}'",
                  status.error().message);
    return 0;
  }
  for (const StoredFile& file : files) {
    const bool named = text.find(file.name + "\t") != std::string_view::npos;
    TESSERA_CHECK(file.shapes.empty() || named, "shapes of '{}', which has no line", file.name);
    for (const auto& [input, dims] : file.shapes) {
      for (const std::int64_t extent : dims) {
        TESSERA_CHECK(extent >= 0, "'{}' has an extent of {}", input, extent);
      }
    }
  }
  return 0;
}
