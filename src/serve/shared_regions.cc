#include "serve/shared_regions.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "serve/failure.h"

namespace tessera::serve {
namespace {

constexpr std::size_t kRegionsMax = 1024;  // of all tenants: each holds a file descriptor
constexpr std::size_t kRegionsOfTenantMax = 64;
constexpr std::size_t kNameBytesMax = 256;

}  // namespace

SharedRegion::~SharedRegion() { close(descriptor_); }

Status SharedRegion::check(std::uint64_t offset, std::size_t bytes) const {
  if (offset <= bytes_ && bytes <= bytes_ - offset) return {};
  return invalid(
      fmt::format("{} bytes from {} on are not within its {} bytes", bytes, offset, bytes_));
}

Status SharedRegion::read(std::uint64_t offset, std::span<std::byte> into) const {
  TESSERA_RETURN_IF_ERROR(check(offset, into.size()));
  std::size_t done = 0;
  while (done < into.size()) {
    const ssize_t got = pread(descriptor_, into.data() + done, into.size() - done,
                              static_cast<off_t>(offset_ + offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return invalid(fmt::format("cannot read it: {}", std::strerror(errno)));
    if (got == 0) return invalid("its memory has been made shorter since it was registered");
    done += static_cast<std::size_t>(got);
  }
  return {};
}

Status SharedRegion::write(std::uint64_t offset, std::span<const std::byte> from) const {
  TESSERA_RETURN_IF_ERROR(check(offset, from.size()));
  struct stat now{};
  // A write behind the end would make it longer again.
  if (fstat(descriptor_, &now) != 0 ||
      static_cast<std::uint64_t>(now.st_size) < offset_ + offset + from.size()) {
    return invalid("its memory has been made shorter since it was registered");
  }
  std::size_t done = 0;
  while (done < from.size()) {
    const ssize_t put = pwrite(descriptor_, from.data() + done, from.size() - done,
                               static_cast<off_t>(offset_ + offset + done));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return invalid(fmt::format("cannot write to it: {}", std::strerror(errno)));
    done += static_cast<std::size_t>(put);
  }
  return {};
}

Status SharedRegions::add(const std::string& tenant, const RegionStatus& region) {
  if (region.name.empty() || region.name.size() > kNameBytesMax) {
    return invalid(fmt::format("a region's name has 1 to {} bytes", kNameBytesMax));
  }
  if (region.bytes == 0) return invalid(fmt::format("region '{}': 'byte_size' is 0", region.name));
  const std::size_t slash = region.key.rfind('/');
  const bool is_key = !region.key.empty() && region.key != "/" && region.key.size() < 255 &&
                      (slash == std::string::npos || slash == 0) &&
                      region.key.find('\0') == std::string::npos;
  if (!is_key) {
    return invalid(
        fmt::format("region '{}': '{}' is no key of shared memory; it is a name as "
                    "shm_open takes it: '/pictures'",
                    region.name, region.key));
  }
  const std::lock_guard lock(mutex_);
  if (regions_.contains({tenant, region.name})) {
    return invalid(
        fmt::format("region '{}' is registered already; unregister it first", region.name));
  }
  if (regions_.size() >= kRegionsMax) {
    return invalid(
        fmt::format("{} regions are registered, no more are; unregister one", kRegionsMax));
  }
  const auto of_tenant =
      std::ranges::count_if(regions_, [&](const auto& each) { return each.first.first == tenant; });
  if (!tenant.empty() && static_cast<std::size_t>(of_tenant) >= kRegionsOfTenantMax) {
    return invalid(fmt::format("tenant '{}' has {} regions, and may have no more; unregister one",
                               tenant, of_tenant));
  }
  const int descriptor = shm_open(region.key.c_str(), O_RDWR | O_CLOEXEC, 0);
  if (descriptor < 0) {
    return invalid(fmt::format("region '{}': cannot open the shared memory '{}': {}", region.name,
                               region.key, std::strerror(errno)));
  }
  auto opened = std::make_shared<SharedRegion>(descriptor, region.offset, region.bytes);
  struct stat found{};
  const std::uint64_t size =
      fstat(descriptor, &found) == 0 ? static_cast<std::uint64_t>(found.st_size) : 0;
  if (region.offset > size || region.bytes > size - region.offset) {
    return invalid(
        fmt::format("region '{}': {} bytes from {} on are not within the {} bytes of '{}'",
                    region.name, region.bytes, region.offset, size, region.key));
  }
  regions_[{tenant, region.name}] = {region, std::move(opened)};
  return {};
}

Status SharedRegions::remove(const std::string& tenant, const std::string& name) {
  const std::lock_guard lock(mutex_);
  if (name.empty()) {
    std::erase_if(regions_, [&](const auto& each) { return each.first.first == tenant; });
    return {};
  }
  if (regions_.erase({tenant, name}) > 0) return {};
  return invalid(fmt::format("there is no region '{}'", name));
}

std::vector<RegionStatus> SharedRegions::list(const std::string& tenant) const {
  const std::lock_guard lock(mutex_);
  std::vector<RegionStatus> all;
  for (const auto& [key, entry] : regions_) {
    if (key.first == tenant) all.push_back(entry.status);
  }
  return all;
}

Result<std::shared_ptr<const SharedRegion>> SharedRegions::find(const std::string& tenant,
                                                                const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = regions_.find({tenant, name});
  if (found == regions_.end()) return invalid(fmt::format("there is no region '{}'", name));
  return found->second.region;
}

}  // namespace tessera::serve
