#include "breaking_proxy.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

namespace tessera::testing {
namespace {

constexpr std::size_t kWaitingMax = 1 << 16;

sockaddr_in address_of(const std::string& host, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  ::inet_pton(AF_INET, host.c_str(), &address.sin_addr);
  return address;
}

int new_socket() {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int on = 1;
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return descriptor;
}

bool is_later(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR || error == ENOTCONN ||
         error == EINPROGRESS;
}

}  // namespace

BreakingProxy::BreakingProxy(const std::string& target, const std::string& host)
    : host_(host), target_(target) {
  listening_ = new_socket();
  sockaddr_in address = address_of(host_, 0);
  socklen_t size = sizeof address;
  EXPECT_EQ(::bind(listening_, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(::listen(listening_, SOMAXCONN), 0);
  ::getsockname(listening_, reinterpret_cast<sockaddr*>(&address), &size);
  port_ = ntohs(address.sin_port);
  EXPECT_EQ(::pipe2(wake_, O_CLOEXEC | O_NONBLOCK), 0);
  thread_ = std::thread([this] { run(); });
}

BreakingProxy::~BreakingProxy() {
  ends_ = true;
  wake();
  thread_.join();
  for (const int descriptor : {listening_, wake_[0], wake_[1]}) ::close(descriptor);
}

std::string BreakingProxy::endpoint() const { return fmt::format("{}:{}", host_, port_); }

void BreakingProxy::wake() const { (void)!::write(wake_[1], "x", 1); }

void BreakingProxy::set_target(const std::string& target) {
  const std::lock_guard lock(mutex_);
  target_ = target;
}

void BreakingProxy::pass() {
  {
    const std::lock_guard lock(mutex_);
    mode_ = then_ = Mode::kPass;
    left_ = -1;
    piece_ = 0;
  }
  wake();
}

void BreakingProxy::hold() {
  const std::lock_guard lock(mutex_);
  mode_ = Mode::kHold;
  wake();
}

void BreakingProxy::cut() {
  const std::lock_guard lock(mutex_);
  mode_ = Mode::kCut;
  wake();
}

void BreakingProxy::hold_after(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  left_ = bytes;
  then_ = Mode::kHold;
}

void BreakingProxy::cut_after(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  left_ = bytes;
  then_ = Mode::kPass;
}

void BreakingProxy::drip(std::size_t bytes, std::chrono::milliseconds pause) {
  const std::lock_guard lock(mutex_);
  piece_ = bytes;
  pause_ = pause;
}

void BreakingProxy::accept() {
  const int client = ::accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (client < 0) return;
  const int on = 1;
  ::setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const std::size_t colon = target_.rfind(':');
  if (mode_ == Mode::kCut || colon == std::string::npos) {
    ::close(client);
    return;
  }
  const int server = new_socket();
  const sockaddr_in to = address_of(target_.substr(0, colon), std::stoi(target_.substr(colon + 1)));
  if (::connect(server, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0 &&
      errno != EINPROGRESS) {
    ::close(client);
    ::close(server);
    return;
  }
  pairs_.push_back({.there = {client, server}, .back = {server, client}});
}

bool BreakingProxy::relay(Way& way, bool is_answer) {
  char bytes[kWaitingMax];
  while (!way.has_ended && way.waiting.size() < kWaitingMax && mode_ == Mode::kPass) {
    std::size_t most = kWaitingMax - way.waiting.size();
    if (is_answer && piece_ > 0) most = std::min(most, piece_);
    if (is_answer && left_ >= 0) most = std::min(most, static_cast<std::size_t>(left_));
    const ssize_t count = most == 0 ? 0 : ::recv(way.from, bytes, most, 0);
    if (count < 0 && is_later(errno)) break;
    if (count < 0) return false;
    if (most > 0 && count == 0) way.has_ended = true;
    way.waiting.append(bytes, static_cast<std::size_t>(count));
    if (is_answer && left_ >= 0 && (left_ -= count) == 0) {
      left_ = -1;
      (void)::send(way.to, way.waiting.data(), way.waiting.size(), MSG_NOSIGNAL);
      way.waiting.clear();
      mode_ = then_;
      if (mode_ == Mode::kPass) return false;  // this connection alone ends
      break;
    }
    if (is_answer && piece_ > 0) break;
  }
  while (!way.waiting.empty()) {
    const ssize_t count = ::send(way.to, way.waiting.data(), way.waiting.size(), MSG_NOSIGNAL);
    if (count < 0 && is_later(errno)) return true;
    if (count < 0) return false;
    way.waiting.erase(0, static_cast<std::size_t>(count));
  }
  if (way.has_ended) ::shutdown(way.to, SHUT_WR);
  return true;
}

void BreakingProxy::run() {
  std::vector<pollfd> polled;
  while (!ends_) {
    std::chrono::milliseconds pause{100};
    {
      const std::lock_guard lock(mutex_);
      if (piece_ > 0) pause = pause_;
      polled = {{mode_ == Mode::kHold ? -1 : listening_, POLLIN, 0}, {wake_[0], POLLIN, 0}};
      for (const Pair& pair : pairs_) {
        if (mode_ != Mode::kPass) break;
        for (const Way* const way : {&pair.there, &pair.back}) {
          const bool drips = piece_ > 0 && way == &pair.back;
          const bool reads = !way->has_ended && way->waiting.size() < kWaitingMax && !drips;
          const bool writes = !way->waiting.empty();
          if (reads) polled.push_back({way->from, POLLIN, 0});
          if (writes) polled.push_back({way->to, POLLOUT, 0});
        }
      }
    }
    ::poll(polled.data(), polled.size(), static_cast<int>(pause.count()));
    char ignored[64];
    while (::read(wake_[0], ignored, sizeof ignored) > 0) {
    }
    const std::lock_guard lock(mutex_);
    if ((polled[0].revents & POLLIN) != 0 && mode_ != Mode::kHold) accept();
    for (Pair& pair : pairs_) {
      pair.is_broken = mode_ == Mode::kCut || !relay(pair.there, false) ||
                       !relay(pair.back, true) || (pair.there.has_ended && pair.back.has_ended);
    }
    std::erase_if(pairs_, [](const Pair& pair) {
      if (!pair.is_broken) return false;
      ::close(pair.there.from);
      ::close(pair.there.to);
      return true;
    });
  }
  for (const Pair& pair : pairs_) {
    ::close(pair.there.from);
    ::close(pair.there.to);
  }
}

}  // namespace tessera::testing
