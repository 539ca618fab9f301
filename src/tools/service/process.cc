#include "tools/service/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>

#include "store/etcd_store.h"
#include "tessera/session.h"
#include "tools/terminal/console.h"

namespace tessera::tools {
namespace {

// Lines that cannot be written, as the disk is full, wait until there is room: so many, and then the oldest are lost.
// Both is told on standard error.
class LineFile {
 public:
  LineFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  ~LineFile() { ::close(descriptor_); }
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  void add(std::string line) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(line));
    if (waiting_.size() > kWaitingMax) {
      waiting_.pop_front();
      ++lost_;
    }
    while (!waiting_.empty()) {
      std::string& first = waiting_.front();
      const ssize_t written = ::write(descriptor_, first.data(), first.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return note_failure(errno);
      first.erase(0, static_cast<std::size_t>(written));
      if (first.empty()) waiting_.pop_front();
    }
    if (!std::exchange(has_failed_, false)) return;
    show_lines(stderr, fmt::format("'{}' is written again; {} lines were lost\n", path_, lost_));
    lost_ = 0;
  }

 private:
  static constexpr std::size_t kWaitingMax = 10'000;
  void note_failure(int error) {
    if (std::exchange(has_failed_, true)) return;
    show_lines(stderr, fmt::format("cannot write '{}': {}; up to {} lines wait for room\n", path_,
                                   std::strerror(error), kWaitingMax));
  }

  const std::string path_;
  const int descriptor_;
  std::mutex mutex_;  // of what follows
  std::deque<std::string> waiting_;
  bool has_failed_ = false;
  std::size_t lost_ = 0;
};

}  // namespace

bool is_loopback(const std::string& address) {
  return address == "localhost" || address == "::1" || address.starts_with("127.");
}

Status check_address(const ServiceArguments& service) {
  if (is_loopback(service.address) || service.tls.without_tls || !service.tls.authority.empty()) {
    return {};
  }
  return Error{
      ErrorCode::kInvalidArgument,
      fmt::format("--address {} is not of this machine alone, and there is no TLS: anybody "
                  "who reaches it may use the cluster; give --tls-authority, --tls-certificate "
                  "and --tls-key, --without-tls too if that is meant, or listen at 127.0.0.1",
                  service.address)};
}

Result<std::unique_ptr<store::Store>> open_store(const ServiceArguments& service) {
  constexpr std::string_view kEtcd = "etcd:";
  if (!service.store.starts_with(kEtcd) || service.store.size() == kEtcd.size()) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("--store '{}'; allowed is etcd:HOST:PORT[,HOST:PORT]", service.store)};
  }
  store::EtcdOptions options;
  std::string rest = service.store.substr(kEtcd.size());
  for (std::size_t begin = 0; begin <= rest.size();) {
    const std::size_t end = std::min(rest.find(',', begin), rest.size());
    options.endpoints.push_back(rest.substr(begin, end - begin));
    begin = end + 1;
  }
  // A member that is gone must not take a renewal's whole time.
  if (service.store_tls && service.tls.authority.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "--store-tls needs --tls-authority, --tls-certificate and --tls-key"};
  }
  if (service.store_tls) {
    options.authority_file = service.tls.authority;
    options.certificate_file = service.tls.certificate;
    options.key_file = service.tls.key;
  }
  options.attempt_time = std::chrono::milliseconds(std::max(100, service.ttl_ms / 10));
  return store::connect_etcd(options);
}

cluster::DaemonFacts facts_of(const std::vector<std::string>& files) {
  cluster::DaemonFacts facts{.version = version(), .folders = {}};
  for (const std::string& file : files) {
    if (file.empty()) continue;
    const std::string folder = std::filesystem::path(file).parent_path().string();
    facts.folders.push_back(folder.empty() ? "." : folder);
  }
  std::ranges::sort(facts.folders);
  const auto doubled = std::ranges::unique(facts.folders);
  facts.folders.erase(doubled.begin(), doubled.end());
  return facts;
}

std::string shared_memory_folder() {
  const char* const own = std::getenv("XDG_RUNTIME_DIR");  // NOLINT(concurrency-mt-unsafe)
  if (own != nullptr && *own != 0) return own;
  std::error_code failed;
  const auto folder = std::filesystem::temp_directory_path(failed);
  return failed ? "/tmp" : folder.string();
}

Result<std::function<void(const nlohmann::json&)>> line_log(const std::string& path) {
  if (path.empty()) return std::function<void(const nlohmann::json&)>();
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (descriptor < 0) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("cannot write '{}': {}", path, std::strerror(errno))};
  }
  const auto file =
      std::make_shared<LineFile>(path, descriptor);  // shared by copies of the function
  return std::function<void(const nlohmann::json&)>(
      [file](const nlohmann::json& document) { file->add(json_line(document) + "\n"); });
}

}  // namespace tessera::tools
