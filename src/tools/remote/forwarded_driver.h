// A processor whose driver is called over the network, as remote access by forwarding an interface does it: each call is
// a round trip, over the transport that the cluster uses. What ours is compared with (repro remote).
//
//   ForwardedDriver.launch() ─► [message] ══► ForwardedServer ─► a processor that takes its time
//                            ◄─ [answer]  ◄══
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "cluster/channel.h"

namespace tessera::tools {

// Where its process listens, as start event: "driver" and "echo".
void serve_forwarded_driver(std::FILE* events);

// For one thread.
class ForwardedDriver {
 public:
  static Result<std::unique_ptr<ForwardedDriver>> open(cluster::Dialer& dialer,
                                                       const std::string& endpoint);

  // What a launch of each kernel takes, from 0 on.
  Status load(const std::vector<std::chrono::nanoseconds>& kernels);
  Result<std::int64_t> allocate(std::int64_t bytes);
  Status write(std::int64_t address, std::span<const std::byte> bytes);
  Status set_arguments(std::size_t kernel, std::span<const std::int64_t> addresses);
  // Begins when those before it are over; does not wait.
  Status launch(std::size_t kernel);
  Status wait();
  Status read(std::int64_t address, std::span<std::byte> bytes);
  Status release(std::int64_t address);
  std::int64_t calls() const { return calls_; }

 private:
  explicit ForwardedDriver(std::unique_ptr<cluster::Channel> channel)
      : channel_(std::move(channel)) {}
  Result<cluster::Message> call(const nlohmann::json& request,
                                std::span<const std::byte> body = {});

  const std::unique_ptr<cluster::Channel> channel_;
  std::int64_t calls_ = 0;
};

// A request of so many bytes and an answer of so many over a bare socket, whose other end reads and writes without
// anything besides.
class BareSocket {
 public:
  static Result<std::unique_ptr<BareSocket>> open(const std::string& endpoint);
  ~BareSocket();
  BareSocket(const BareSocket&) = delete;
  BareSocket& operator=(const BareSocket&) = delete;
  Status round_trip(std::size_t there, std::size_t back);

 private:
  explicit BareSocket(int descriptor) : descriptor_(descriptor) {}
  const int descriptor_;
  std::vector<std::byte> bytes_;
};

}  // namespace tessera::tools
