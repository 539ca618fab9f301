#include "tools/workloads/zoo_graph.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "network/network.h"
#include "zoo/zoo.h"

namespace tessera::tools {
namespace {

// A name of a file that is there while this is.
class TemporaryFile {
 public:
  static Result<TemporaryFile> make() {
    std::error_code error;
    std::string path = std::filesystem::temp_directory_path(error) / "tessera-workload-XXXXXX.onnx";
    const int file = error ? -1 : mkstemps(path.data(), 5);
    if (file < 0) {
      return Error{ErrorCode::kUnavailable, fmt::format("cannot make the file '{}'", path)};
    }
    close(file);
    return TemporaryFile(path);
  }
  TemporaryFile(TemporaryFile&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  TemporaryFile(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (!path_.empty()) std::remove(path_.c_str());
  }
  const std::string& path() const { return path_; }

 private:
  explicit TemporaryFile(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace

Result<std::shared_ptr<const graph::Graph>> zoo_graph(const std::string& name,
                                                      const ChipConfig& chip,
                                                      const LoadOptions& options) {
  TESSERA_TRY(const zoo::ZooNetwork network, zoo::find_network(name));
  TESSERA_TRY(const TemporaryFile file, TemporaryFile::make());
  TESSERA_TRY(const zoo::Summary summary, zoo::write_network(network, 0, file.path()));
  (void)summary;
  return network::load_graph(file.path(), chip, options);
}

}  // namespace tessera::tools
