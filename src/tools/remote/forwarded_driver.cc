#include "tools/remote/forwarded_driver.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "cluster/fields.h"
#include "cluster/messenger.h"

namespace tessera::tools {
namespace {

using cluster::Fields;
using nlohmann::json;
using std::chrono::nanoseconds;
using std::chrono::steady_clock;

constexpr std::int64_t kForwardedMax = std::int64_t{1} << 40;

Error refused_call(std::string message) {
  return {ErrorCode::kInvalidArgument, std::move(message)};
}

// One processor for all connections, with memory and kernels.
class ForwardedServer : public cluster::Responder {
 public:
  Result<cluster::Reply> handle(cluster::Request request) override {
    TESSERA_TRY(const json text, cluster::parse_object(request.text, "call of a driver"));
    Fields fields(text, "call of a driver");
    const std::string call = fields.text("call");
    if (call == "wait") {
      std::this_thread::sleep_until(free_at());
      return cluster::Reply{};
    }
    const std::lock_guard lock(mutex_);
    Client& client = clients_[request.connection];
    if (call == "load") return load(fields, client);
    if (call == "launch" || call == "set_arguments") return kernel_call(call, fields, client);
    if (call == "allocate") {
      const std::int64_t bytes = fields.integer("bytes", 1, kForwardedMax);
      TESSERA_RETURN_IF_ERROR(fields.status());
      memory_[next_address_].resize(static_cast<std::size_t>(bytes));
      return cluster::Reply{cluster::dump({{"address", next_address_++}}), {}};
    }
    return memory_call(
        call, fields,
        request.body.pieces.empty() ? std::span<const std::byte>() : request.body.pieces.front());
  }

 private:
  struct Client {
    std::vector<std::int64_t> kernels, arguments;
  };
  Result<cluster::Reply> load(Fields& fields, Client& client) {
    const auto times = fields.integers("kernels", 0, kForwardedMax);
    TESSERA_RETURN_IF_ERROR(fields.status());
    client.kernels = times;
    return cluster::Reply{};
  }
  Result<cluster::Reply> kernel_call(const std::string& call, Fields& fields, Client& client) {
    const std::int64_t kernel = fields.integer("kernel", 0, kForwardedMax);
    TESSERA_RETURN_IF_ERROR(fields.status());
    if (kernel >= std::ssize(client.kernels)) return refused_call("there is no such kernel");
    if (call == "set_arguments") {
      client.arguments = fields.integers("addresses", 0, kForwardedMax);
      TESSERA_RETURN_IF_ERROR(fields.status());
      const bool known =
          std::ranges::all_of(client.arguments, [&](auto a) { return memory_.contains(a); });
      return known ? Result<cluster::Reply>(cluster::Reply{}) : refused_call("no such address");
    }
    free_at_ = std::max(free_at_, steady_clock::now()) +
               nanoseconds(client.kernels[static_cast<std::size_t>(kernel)]);
    return cluster::Reply{};
  }
  Result<cluster::Reply> memory_call(const std::string& call, Fields& fields,
                                     std::span<const std::byte> body) {
    const auto block = memory_.find(fields.integer("address", 0, kForwardedMax));
    TESSERA_RETURN_IF_ERROR(fields.status());
    if (block == memory_.end()) return refused_call("there is no such block");
    if (call == "write" && body.size() <= block->second.size()) {
      std::ranges::copy(body, block->second.begin());
      return cluster::Reply{};
    }
    if (call == "read") return cluster::Reply{"{}", {block->second}};
    if (call == "release") {
      memory_.erase(block);
      return cluster::Reply{};
    }
    return refused_call(fmt::format("a driver does not know '{}' so", call));
  }
  steady_clock::time_point free_at() {
    const std::lock_guard lock(mutex_);
    return free_at_;
  }

  std::mutex mutex_;  // of what follows
  std::map<std::int64_t, std::vector<std::byte>> memory_;
  std::int64_t next_address_ = 1;
  std::map<std::uint64_t, Client> clients_;  // by connection
  steady_clock::time_point free_at_{};
};

// ---- the bare socket

struct EchoHead {
  std::uint64_t there = 0, back = 0;
};

bool receive_all(int descriptor, void* to, std::size_t bytes) {
  for (auto* at = static_cast<std::byte*>(to); bytes > 0;) {
    const ssize_t got = ::recv(descriptor, at, bytes, 0);
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

bool send_all(int descriptor, const void* from, std::size_t bytes) {
  for (const auto* at = static_cast<const std::byte*>(from); bytes > 0;) {
    const ssize_t gone = ::send(descriptor, at, bytes, MSG_NOSIGNAL);
    if (gone <= 0) return false;
    at += gone;
    bytes -= static_cast<std::size_t>(gone);
  }
  return true;
}

void send_at_once(int descriptor) {
  const int on = 1;
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

void echo(int listener) {
  std::vector<std::byte> bytes;
  for (;;) {
    const int descriptor = ::accept(listener, nullptr, nullptr);
    if (descriptor < 0) return;
    send_at_once(descriptor);
    EchoHead head;
    while (receive_all(descriptor, &head, sizeof head)) {
      bytes.resize(std::max(head.there, head.back));
      if (!receive_all(descriptor, bytes.data(), head.there)) break;
      if (!send_all(descriptor, bytes.data(), head.back)) break;
    }
    ::close(descriptor);
  }
}

int loopback_socket(std::uint16_t port, sockaddr_in& address) {
  address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

}  // namespace

void serve_forwarded_driver(std::FILE* events) {
  ForwardedServer processor;
  const auto messenger = cluster::Messenger::create();
  if (!messenger.ok()) return;
  const auto server = (*messenger)->serve({.responder = &processor});
  sockaddr_in address;
  const int listener = loopback_socket(0, address);
  socklen_t size = sizeof address;
  if (!server.ok() || ::bind(listener, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(listener, 4) != 0 ||
      ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return;
  }
  const json start = {{"driver", fmt::format("127.0.0.1:{}", (*server)->port())},
                      {"echo", ntohs(address.sin_port)}};
  std::fputs((start.dump() + "\n").c_str(), events);
  std::fflush(events);
  echo(listener);
}

Result<std::unique_ptr<ForwardedDriver>> ForwardedDriver::open(cluster::Dialer& dialer,
                                                               const std::string& endpoint) {
  constexpr std::chrono::seconds kForOpening{10};
  TESSERA_TRY(auto channel, dialer.open(endpoint, steady_clock::now() + kForOpening));
  return std::unique_ptr<ForwardedDriver>(new ForwardedDriver(std::move(channel)));
}

Result<cluster::Message> ForwardedDriver::call(const json& request,
                                               std::span<const std::byte> body) {
  ++calls_;
  return channel_->call(cluster::dump(request), std::span(&body, body.empty() ? 0 : 1),
                        steady_clock::time_point::max());
}

Status ForwardedDriver::load(const std::vector<nanoseconds>& kernels) {
  std::vector<std::int64_t> times;
  for (const nanoseconds kernel : kernels) times.push_back(kernel.count());
  TESSERA_TRY(const auto answer, call({{"call", "load"}, {"kernels", times}}));
  return {};
}

Result<std::int64_t> ForwardedDriver::allocate(std::int64_t bytes) {
  TESSERA_TRY(const cluster::Message answer, call({{"call", "allocate"}, {"bytes", bytes}}));
  TESSERA_TRY(const json text, cluster::parse_object(answer.text, "answer of a driver"));
  Fields fields(text, "answer of a driver");
  const std::int64_t address = fields.integer("address", 1, kForwardedMax);
  TESSERA_RETURN_IF_ERROR(fields.status());
  return address;
}

Status ForwardedDriver::write(std::int64_t address, std::span<const std::byte> bytes) {
  TESSERA_TRY(const auto answer, call({{"call", "write"}, {"address", address}}, bytes));
  return {};
}

Status ForwardedDriver::set_arguments(std::size_t kernel, std::span<const std::int64_t> addresses) {
  TESSERA_TRY(const auto answer,
              call({{"call", "set_arguments"},
                    {"kernel", kernel},
                    {"addresses", std::vector<std::int64_t>(addresses.begin(), addresses.end())}}));
  return {};
}

Status ForwardedDriver::launch(std::size_t kernel) {
  TESSERA_TRY(const auto answer, call({{"call", "launch"}, {"kernel", kernel}}));
  return {};
}

Status ForwardedDriver::wait() {
  TESSERA_TRY(const auto answer, call({{"call", "wait"}}));
  return {};
}

Status ForwardedDriver::read(std::int64_t address, std::span<std::byte> bytes) {
  TESSERA_TRY(const cluster::Message answer, call({{"call", "read"}, {"address", address}}));
  const auto& pieces = answer.body.pieces;
  if (pieces.size() != 1 || pieces[0].size() != bytes.size()) {
    return refused_call("the block has another size");
  }
  std::ranges::copy(pieces[0], bytes.begin());
  return {};
}

Status ForwardedDriver::release(std::int64_t address) {
  TESSERA_TRY(const auto answer, call({{"call", "release"}, {"address", address}}));
  return {};
}

Result<std::unique_ptr<BareSocket>> BareSocket::open(const std::string& endpoint) {
  sockaddr_in address;
  const int descriptor = loopback_socket(static_cast<std::uint16_t>(std::stoi(endpoint)), address);
  std::unique_ptr<BareSocket> socket(new BareSocket(descriptor));
  if (::connect(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    return Error{ErrorCode::kUnavailable, "nobody answers at the bare socket"};
  }
  send_at_once(descriptor);
  return socket;
}

BareSocket::~BareSocket() { ::close(descriptor_); }

Status BareSocket::round_trip(std::size_t there, std::size_t back) {
  const EchoHead head{there, back};
  bytes_.resize(std::max(there, back) + sizeof head);
  std::memcpy(bytes_.data(), &head, sizeof head);
  if (send_all(descriptor_, bytes_.data(), there + sizeof head) &&
      receive_all(descriptor_, bytes_.data(), back)) {
    return {};
  }
  return Error{ErrorCode::kUnavailable, "the bare socket's other end is gone"};
}

}  // namespace tessera::tools
