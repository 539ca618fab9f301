// Sockets of a stream: one that calls a listener, and one that listens.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace tessera::tools {

// Names of a stream's ends, without the file names.
inline constexpr std::string_view kListenPrefix = "listen:";
inline constexpr std::string_view kLocalPrefix = "unix:";
inline constexpr std::string_view kNetworkPrefix = "tcp:";

// What went wrong, behind where.
Error stream_error(const std::string& place, const std::string& reason);

// Whether `name` is a socket's, one that calls or one that listens.
bool is_socket_name(std::string_view name);

// Calls the listener at `address`, unix:PATH or tcp:HOST:PORT. The descriptor is the caller's.
Result<int> connect_to(const std::string& address);

// Waits for callers at unix:PATH or tcp:HOST:PORT. An empty host is every address of the machine;
// port 0 is any free one. A path must be free, or that of a socket at which nobody listens any
// more; it goes with the listener. Not for several threads at once.
class Listener {
 public:
  static Result<std::unique_ptr<Listener>> open(const std::string& address);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // Waits for the next caller. The descriptor is the caller's of this function.
  Result<int> accept();
  // With the port that was taken.
  const std::string& address() const { return address_; }

 private:
  Listener(int descriptor, std::string address, std::string path)
      : descriptor_(descriptor), address_(std::move(address)), path_(std::move(path)) {}
  static Result<std::unique_ptr<Listener>> open_local(const std::string& path);
  static Result<std::unique_ptr<Listener>> open_network(const std::string& host_and_port);

  const int descriptor_;
  const std::string address_;
  const std::string path_;  // of a local socket, removed at the end
};

}  // namespace tessera::tools
