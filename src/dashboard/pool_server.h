// The HTTP server of a cluster's pool: the page, and what it shows.
//
//   GET  /             the page (web/src/pool.html)
//   GET  /state        JSON, as set_state() gave it last
//   GET  /metrics      figures for Prometheus, likewise
//
// It listens on 127.0.0.1 by default and answers no page of another origin; one thread serves all.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "dashboard/requests.h"

namespace tessera::dashboard {

class PoolServer {
 public:
  // An error where the address is taken or not of this machine, where the system has no thread or descriptor left,
  // or where the program was built without the page.
  static Result<std::unique_ptr<PoolServer>> start(const ListenAddress& listen);
  ~PoolServer();  // ends all connections

  // From any thread.
  void set_state(std::string json, std::string metrics);
  std::string url() const;

 private:
  class Implementation;
  explicit PoolServer(std::unique_ptr<Implementation> implementation);
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace tessera::dashboard
