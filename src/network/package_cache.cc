#include "network/package_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "package/container.h"

namespace tessera::network {

namespace fs = std::filesystem;

namespace {

constexpr const char* kEnding = ".tpkg";

struct Kept {
  fs::path path;
  std::int64_t bytes = 0;
  fs::file_time_type used;
};

}  // namespace

std::string PackageCache::path_of(const std::string& digest) const {
  return folder_ + "/" + digest + kEnding;
}

Status PackageCache::open() const {
  if (folder_.empty()) return {};
  std::error_code error;
  fs::create_directories(folder_, error);
  if (!error) return {};
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("DynamicOptions::cache_folder '{}': {}", folder_, error.message())};
}

std::optional<package::Package> PackageCache::find(const std::string& digest) const {
  if (folder_.empty()) return std::nullopt;
  const std::string path = path_of(digest);
  std::error_code error;
  if (!fs::exists(path, error)) return std::nullopt;
  auto package = package::load_package(path);
  if (!package.ok()) {
    fs::remove(path, error);
    return std::nullopt;
  }
  fs::last_write_time(path, fs::file_time_type::clock::now(), error);
  return std::move(*package);
}

Status PackageCache::put(const std::string& digest, const package::Package& package) const {
  if (folder_.empty()) return {};
  const std::string path = path_of(digest);
  TESSERA_RETURN_IF_ERROR(package::write_package(path, package));
  evict(path);
  return {};
}

// Others may remove the same ones meanwhile.
void PackageCache::evict(const std::string& but) const {
  std::vector<Kept> files;
  std::int64_t bytes = 0;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_, error)) {
    if (entry.path().extension() != kEnding || !entry.is_regular_file(error)) continue;
    Kept file{entry.path(), static_cast<std::int64_t>(entry.file_size(error)),
              entry.last_write_time(error)};
    if (error) continue;
    bytes += file.bytes;
    files.push_back(std::move(file));
  }
  std::ranges::sort(files, {}, &Kept::used);
  for (const Kept& file : files) {
    if (bytes <= bytes_max_) return;
    if (file.path == fs::path(but)) continue;
    fs::remove(file.path, error);
    bytes -= file.bytes;
  }
}

}  // namespace tessera::network
