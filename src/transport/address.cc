#include "transport/address.h"

#include <fmt/format.h>

#include <charconv>

namespace tessera::transport {
namespace {

constexpr std::size_t kPathBytesMax = 100;  // the system's field for it has 108
constexpr std::size_t kHostBytesMax = 255;

Error wrong(std::string_view text, std::string_view found) {
  return {ErrorCode::kInvalidArgument,
          fmt::format("address '{}': {}; allowed are tcp:HOST:PORT, shm:PATH and ucx:HOST:PORT",
                      text, found)};
}

Result<Address> parse_network(std::string_view text, std::string_view rest, Medium medium) {
  const std::size_t colon = rest.rfind(':');
  if (colon == std::string_view::npos) return wrong(text, "no port");
  std::string_view host = rest.substr(0, colon);
  const std::string_view digits = rest.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return wrong(text, "an address of IP version 6 stands in brackets");
  }
  if (host.empty()) return wrong(text, "no host");
  if (host.size() > kHostBytesMax || host.find('\0') != std::string_view::npos) {
    return wrong(text, fmt::format("a host of at most {} characters", kHostBytesMax));
  }
  int port = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size() || port < 0 || port > 65535) {
    return wrong(text, fmt::format("port '{}', allowed are 0 to 65535", digits));
  }
  return Address{.medium = medium, .host = std::string(host), .port = port};
}

}  // namespace

std::string Address::to_string() const {
  if (medium == Medium::kSharedMemory) return "shm:" + host;
  const char* const name = medium == Medium::kUcx ? "ucx" : "tcp";
  const bool is_version_6 = host.find(':') != std::string::npos;
  return is_version_6 ? fmt::format("{}:[{}]:{}", name, host, port)
                      : fmt::format("{}:{}:{}", name, host, port);
}

Result<Address> parse_address(std::string_view text) {
  if (text.starts_with("tcp:")) return parse_network(text, text.substr(4), Medium::kTcp);
  if (text.starts_with("ucx:")) return parse_network(text, text.substr(4), Medium::kUcx);
  if (!text.starts_with("shm:")) return wrong(text, "no medium");
  const std::string_view path = text.substr(4);
  if (path.empty() || path.size() > kPathBytesMax || path.find('\0') != std::string_view::npos) {
    return wrong(
        text, fmt::format("a path of {} bytes, allowed are 1 to {}", path.size(), kPathBytesMax));
  }
  return Address{.medium = Medium::kSharedMemory, .host = std::string(path)};
}

}  // namespace tessera::transport
