// Untrusted requests: the first byte chooses which parser reads the rest.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "dashboard/requests.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera::dashboard;
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  const std::size_t half = text.find('&');
  const std::string first(text.substr(0, half));
  const std::string second(half == std::string_view::npos ? "" : text.substr(half + 1));
  switch (data[0]) {
    case 'c':
      (void)parse_control(text);
      break;
    case 'h':
      (void)parse_history({{"from", first}, {"to", second}, {"bins", first}});
      break;
    case 'f':
      (void)parse_follow({{"from", first}, {"interval", second}});
      break;
    case 'o':
      (void)is_host_allowed(first, second);
      break;
    default:
      (void)parse_listen_address(text);
  }
  return 0;
}
