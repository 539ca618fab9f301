// The Open Inference Protocol v2 over HTTP, for a repository of models.
//
//   GET  /v2/health/live, /v2/health/ready, /healthz
//   GET  /v2                                                server metadata
//   GET  /v2/models/M[/versions/V][/ready|/stats]           model metadata, readiness, statistics
//   POST /v2/models/M[/versions/V]/infer
//   POST /v2/repository/index, /v2/repository/models/M/load, /v2/repository/models/M/unload
//   GET  /metrics                                           Prometheus text
//
//   http thread ─► Service::handle ─┬─► ServedModel::infer ─► pipeline ─► answer from its thread
//                                   └─► loading thread: load, unload, one after the other
//
// For several threads at once.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "http/message.h"
#include "http/server.h"
#include "serve/model_repository.h"
#include "serve/served_model.h"

namespace tessera::serve {

struct ServiceOptions {
  std::string repository;     // a folder
  ModelConfig defaults = {};  // of models whose config.json says nothing else
  // Called by the loading thread: what was loaded, unloaded, or failed and why. A line without its end.
  std::function<void(const std::string&)> log = {};
};

class Service {
 public:
  // Reads the repository and begins to load all models. The error is that of the folder.
  static Result<std::unique_ptr<Service>> open(ServiceOptions options);
  ~Service();  // after the server that calls handle(); waits for a load that is under way

  void handle(http::Request request, http::Reply reply);
  // From now on requests for inference, loading and unloading are refused, and it is not ready.
  void begin_shutdown();
  // Whether every request that was accepted has its answer.
  bool is_idle() const;
  // What became of the first loads: models that serve, and those that could not be loaded.
  struct Loaded {
    bool done = false;
    int ready = 0, failed = 0;
  };
  Loaded loaded() const;

 private:
  // A model of the repository, and each version that it serves.
  struct Entry {
    std::map<std::int64_t, std::shared_ptr<ServedModel>> versions;
    std::map<std::int64_t, std::string> reasons;  // why a version is not there; 0: the model itself
    std::string state;                            // "LOADING", "READY", "UNLOADING", "UNAVAILABLE"
  };
  struct Work {
    std::string model;
    bool load = true;
    std::function<void(http::Response)> done;  // may be empty
  };
  struct Path;

  explicit Service(ServiceOptions options) : options_(std::move(options)) {}
  http::Response answer(const http::Request& request, const Path& path);
  void infer(const Path& path, const http::Request& request, http::Reply reply);
  void change(const Path& path, http::Reply reply);
  http::Response server_metadata() const;
  http::Response model_metadata(const Path& path);
  http::Response model_ready(const Path& path);
  http::Response model_statistics(const Path& path);
  http::Response repository_index(const http::Request& request);
  http::Response metrics();
  // The version that the path names, or the newest. The error is for the client.
  Result<std::shared_ptr<ServedModel>> served(const Path& path) const;
  std::vector<std::shared_ptr<ServedModel>> all_served() const;

  void work();
  http::Response load(const std::string& name);
  http::Response unload(const std::string& name);
  void set_state(const std::string& name, const std::string& state);
  void log(const std::string& line) const;

  const ServiceOptions options_;
  mutable std::mutex mutex_;  // of what follows, up to the thread
  std::condition_variable changed_;
  std::map<std::string, Entry> models_;
  std::deque<Work> waiting_;
  std::size_t first_loads_ = 0;  // that are not over
  bool stopping_ = false;        // begin_shutdown()
  bool ending_ = false;          // the destructor waits
  // Requests without an answer; shared with what answers them, which may outlive the service.
  const std::shared_ptr<std::atomic<int>> open_ = std::make_shared<std::atomic<int>>(0);
  std::thread worker_;
};

}  // namespace tessera::serve
