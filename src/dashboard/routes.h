// What the server of a running pipeline answers to each request; knows no socket.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/result.h"
#include "dashboard/controls.h"
#include "http/message.h"
#include "metrics/collector.h"

namespace tessera::dashboard {

// One thread at a time asks, also for the pieces of responses; requests that may wait are asked on
// a thread of their own meanwhile.
class Routes {
 public:
  // The collector and the controls (may be null) outlive the routes and their responses. `address`
  // is where the server listens, `title` that of the page.
  Routes(metrics::Collector& collector, Controls* controls, std::string address, std::string title);

  http::Response answer(const http::Request& request);
  // Whether the answer may take as long as the program likes: a change.
  static bool may_wait(const http::Request& request);

  // Of every response: what a browser may do with the page, and other pages with this server.
  static std::vector<http::Field> fields();

 private:
  struct Route;
  static const Route kRoutes[];
  static const Route* find(const http::Request& request);

  http::Response page(const http::Request& request);
  http::Response state(const http::Request& request);
  http::Response figures(const http::Request& request);
  http::Response trace(const http::Request& request);
  http::Response history(const http::Request& request);
  http::Response events(const http::Request& request);
  http::Response control(const http::Request& request);
  Status apply(const std::string& body);
  http::Piece tick(std::uint64_t& next, int interval_ms);

  // A text that all clients get for a while, so that no number of clients keeps the server's thread
  // and the collector's lock busy with making it.
  struct Shown {
    std::string text;
    std::chrono::steady_clock::time_point until{};
  };
  template <typename Make>
  const std::string& show(Shown& shown, Make make);
  const std::string& state_shown();

  metrics::Collector& collector_;
  Controls* const controls_;
  const std::string address_, title_;
  std::weak_ptr<void> trace_;  // alive while a trace is on its way
  Shown state_, figures_;
  std::atomic<bool> was_changed_ = false;  // by a request since the state was made
};

}  // namespace tessera::dashboard
