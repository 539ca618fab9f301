#include "cluster/address.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <map>
#include <set>

#include "base/secret_file.h"
#include "cluster/records.h"
#include "tessera/file.h"
#include "transport/address.h"

namespace tessera::cluster {
namespace {

constexpr const char* kPrefix = "cluster:";

Error invalid_address(const std::string& text, const std::string& why) {
  return {ErrorCode::kInvalidArgument, fmt::format("'{}': {}", text, why)};
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (;;) {
    const std::size_t end = text.find(at, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string::npos) return parts;
    begin = end + 1;
  }
}

Result<std::int64_t> number(const std::string& key, const std::string& value, std::int64_t first,
                            std::int64_t last) {
  std::int64_t result = 0;
  const char* const end = value.data() + value.size();
  const auto [stopped, failed] = std::from_chars(value.data(), end, result);
  if (failed == std::errc() && stopped == end && result >= first && result <= last) return result;
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("{}={}; allowed {} to {}", key, value, first, last)};
}

Status set_medium(ClusterAddress& address, const std::string& value) {
  const std::map<std::string, NodeMedium> media = {{"auto", NodeMedium::kAuto},
                                                   {"tcp", NodeMedium::kTcp},
                                                   {"shm", NodeMedium::kSharedMemory},
                                                   {"ucx", NodeMedium::kUcx}};
  const auto found = media.find(value);
  if (found == media.end()) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("medium={}; allowed are auto, tcp, shm and ucx", value)};
  }
  address.medium = found->second;
  return {};
}

Status set_tls(ClusterAddress& address, const std::string& key, const std::string& value) {
  if (!address.messenger.tls.has_value()) address.messenger.tls.emplace();
  transport::TlsFiles& files = *address.messenger.tls;
  const std::map<std::string, std::string*> paths = {{"tls_authority", &files.authority},
                                                     {"tls_certificate", &files.certificate},
                                                     {"tls_key", &files.key}};
  const auto found = paths.find(key);
  if (found == paths.end()) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("there is no '{}'; allowed are tls_authority, tls_certificate and "
                             "tls_key",
                             key)};
  }
  *found->second = value;
  return {};
}

Status set(ClusterAddress& address, const std::string& key, const std::string& value) {
  const std::map<std::string, std::string*> names = {{"name", &address.name},
                                                     {"node", &address.node},
                                                     {"alloc", &address.alloc},
                                                     {"tenant", &address.tenant}};
  if (const auto found = names.find(key); found != names.end()) {
    *found->second = value;
    return check_name(key, value);
  }
  if (key == "arch") {
    address.arch = value;
    return {};
  }
  if (key == "medium") return set_medium(address, value);
  if (key.starts_with("tls_")) return set_tls(address, key, value);
  if (key == "without_tls") {
    TESSERA_TRY(const std::int64_t is_said, number(key, value, 0, 1));
    address.messenger.allow_plain_network = is_said == 1;
    return {};
  }
  if (key == "token_file") {
    TESSERA_TRY(address.token, read_token(value));
    return {};
  }
  if (key == "memory") {
    TESSERA_TRY(address.memory_bytes, number(key, value, 1, std::int64_t{1} << 50));
    return {};
  }
  if (key == "weight") {
    TESSERA_TRY(address.weight, number(key, value, 1, 16));
    return {};
  }
  std::int64_t count = 0;
  if (key == "cores") {
    TESSERA_TRY(count, number(key, value, 1, 1024));
    address.cores = static_cast<int>(count);
    return {};
  }
  if (key == "cards") {
    TESSERA_TRY(count, number(key, value, 1, 64));
    address.cards = static_cast<int>(count);
    return {};
  }
  if (key == "in_flight") {
    TESSERA_TRY(count, number(key, value, 1, 64));
    address.in_flight = static_cast<int>(count);
    return {};
  }
  if (key == "patience") {
    TESSERA_TRY(count, number(key, value, 0, 86400));
    address.patience = std::chrono::seconds(count);
    return {};
  }
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("there is no '{}'; allowed are cores, cards, arch, memory, weight, "
                           "name, node, alloc, tenant, token_file, in_flight, patience, medium, "
                           "tls_authority, tls_certificate, tls_key, without_tls",
                           key)};
}

}  // namespace

bool is_cluster_address(const std::string& text) { return text.starts_with(kPrefix); }

Result<std::string> read_token(const std::string& path) {
  constexpr std::size_t kTokenBytesMax = 4096;
  const auto bytes = read_file(path);
  if (!bytes.ok()) return bytes.error();
  TESSERA_RETURN_IF_ERROR(check_secret_file(path));
  std::string text(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  if (!text.empty() && text.size() <= kTokenBytesMax) return text;
  return Error{ErrorCode::kInvalidArgument, fmt::format("'{}' has {} bytes; a token has 1 to {}",
                                                        path, text.size(), kTokenBytesMax)};
}

Result<std::vector<std::string>> parse_masters(const std::vector<std::string>& lists) {
  std::vector<std::string> masters;
  for (const std::string& list : lists) {
    for (const std::string& master : split(list, ',')) {
      const auto address = transport::parse_address("tcp:" + master);
      if (!address.ok() || address->port == 0) {
        return Error{ErrorCode::kInvalidArgument,
                     fmt::format("'{}' is no HOST:PORT of a master; allowed are "
                                 "HOST:PORT[,HOST:PORT...], ports 1 to 65535, addresses of IP "
                                 "version 6 in brackets",
                                 master)};
      }
      masters.push_back(master);
    }
  }
  return masters;
}

namespace {

// What an allocation that there is has, nobody can choose; how many cores it has may be said, and is checked.
Status check_alloc(const std::set<std::string>& keys) {
  if (!keys.contains("alloc")) return {};
  for (const char* const key : {"cards", "memory", "name", "node", "weight"}) {
    if (!keys.contains(key)) continue;
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("{}= is of a new allocation, and alloc= names one that there is; leave "
                    "one of them out",
                    key)};
  }
  return {};
}

}  // namespace

Result<ClusterAddress> parse_cluster_address(const std::string& text) {
  if (!is_cluster_address(text)) {
    return invalid_address(text, "it is no cluster:HOST:PORT?cores=4&arch=cloud16");
  }
  const std::string rest = text.substr(std::string(kPrefix).size());
  const std::size_t question = rest.find('?');
  ClusterAddress address;
  auto masters = parse_masters({rest.substr(0, question)});
  if (!masters.ok()) return invalid_address(text, masters.error().message);
  address.masters = std::move(*masters);
  if (question == std::string::npos) return address;
  std::set<std::string> keys;
  for (const std::string& pair : split(rest.substr(question + 1), '&')) {
    const std::size_t equals = pair.find('=');
    if (equals == std::string::npos) {
      return invalid_address(text, fmt::format("'{}' is no KEY=VALUE", pair));
    }
    const std::string key = pair.substr(0, equals);
    if (!keys.insert(key).second) {
      return invalid_address(text, fmt::format("'{}' is given twice; give it once", key));
    }
    const Status done = set(address, key, pair.substr(equals + 1));
    if (!done.ok())
      return Error{done.error().code, fmt::format("'{}': {}", text, done.error().message)};
  }
  address.has_cores = keys.contains("cores");
  address.has_processor = std::ranges::any_of(
      std::array{"cores", "cards", "arch", "memory", "weight", "name", "node", "alloc"},
      [&](const char* const key) { return keys.contains(key); });
  if (const Status status = check_alloc(keys); !status.ok()) {
    return invalid_address(text, status.error().message);
  }
  const auto& tls = address.messenger.tls;
  if (tls.has_value() && (tls->authority.empty() || tls->certificate.empty() || tls->key.empty())) {
    return invalid_address(
        text, "tls_authority, tls_certificate and tls_key belong together; give all of them");
  }
  if (address.cards > 1 && !address.has_cores) address.cores = 0;
  return address;
}

}  // namespace tessera::cluster
