// Writes the seeds of container_fuzz, descriptor_fuzz and graph_text_fuzz out of compiled files:
//   make_program_corpus CORPUS_FOLDER FILE.tpkg|FILE.tprog ...
#include <cstdio>
#include <filesystem>
#include <string>

#include "graph/graph_text.h"
#include "isa/encoding.h"
#include "package/container.h"
#include "program_target.h"
#include "tessera/file.h"

namespace tessera::fuzz {
namespace {

namespace fs = std::filesystem;

bool write(const fs::path& path, std::span<const std::byte> bytes) {
  fs::create_directories(path.parent_path());
  const Status status = write_file(path.string(), bytes);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.error().message.c_str());
  return status.ok();
}

// The first task of each kind and the graph's text.
bool write_parts(const fs::path& folder, const std::string& name, const package::Package& package) {
  bool seen[std::variant_size_v<isa::TaskConfig>] = {};
  for (const isa::Frame& frame : package.frames) {
    for (const isa::FrameTask& task : frame.tasks) {
      const std::size_t kind = task.descriptor.config.index();
      if (seen[kind]) continue;
      seen[kind] = true;
      const std::string file = name + "_" + std::to_string(kind);
      if (!write(folder / "descriptor" / file, isa::encode(task.descriptor))) return false;
    }
  }
  const std::string text = graph::dump(*package.graph);
  return write(folder / "graph_text" / name, std::as_bytes(std::span(text)));
}

bool write_seeds(const fs::path& folder, const fs::path& file) {
  const auto bytes = read_file(file.string());
  if (!bytes.ok()) return false;
  const std::string name = file.stem().string();
  if (!write(folder / "container" / name, container_input(*bytes))) return false;
  const auto package = package::parse_package(*bytes, file.string());
  return !package.ok() || write_parts(folder, name, *package);
}

}  // namespace
}  // namespace tessera::fuzz

int main(int argc, char** argv) {
  for (int i = 2; i < argc; ++i) {
    if (!tessera::fuzz::write_seeds(argv[1], argv[i])) return 1;
  }
  return argc > 2 ? 0 : 2;
}
