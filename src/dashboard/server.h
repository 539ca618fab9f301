// The HTTP server of a running pipeline: the page, figures for programs, controls.
//
//   GET  /                   the page (web/)
//   GET  /state              snapshot and controls, JSON: what `tessera top` shows
//   GET  /events             the same again and again, and new events: server-sent events
//   GET  /history?from&to    a piece of the past, JSON
//   GET  /metrics            Prometheus text
//   GET  /trace              the newest events as a Chrome trace
//   POST /control            {"stage": "pre", "threads": 4} and similar (requests.h)
//
// It listens on 127.0.0.1 by default, and answers no page of another origin. One thread
// serves all; what a client can make it hold has a bound (http/limits.h), and a bound on top of
// that for traces: one at a time.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "dashboard/controls.h"
#include "dashboard/requests.h"
#include "http/limits.h"
#include "metrics/collector.h"

namespace tessera::dashboard {

struct ServerOptions {
  ListenAddress listen = {};
  std::string title = "Tessera";  // of the page
  http::Limits limits = {};
};

class Server {
 public:
  // The collector and the controls (may be null) outlive the server. An error where the address is
  // taken or not of this machine, or where the system has no thread or file descriptor left.
  static Result<std::unique_ptr<Server>> start(metrics::Collector& collector, Controls* controls,
                                               const ServerOptions& options);
  ~Server();  // ends all connections

  int port() const;
  std::string url() const;  // "http://127.0.0.1:8080"

 private:
  class Implementation;
  explicit Server(std::unique_ptr<Implementation> implementation);
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace tessera::dashboard
