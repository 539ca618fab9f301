// The Open Inference Protocol v2 for a repository of models, without a word about how it is spoken: http_front.h and
// grpc/grpc_server.h ask it for what their clients want.
//
//   front ─► Service ─┬─► ServedModel::infer ─► pipeline ─► answer from its thread
//                     └─► loading thread: load, unload, one after the other
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
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/result.h"
#include "serve/access.h"
#include "serve/failure.h"
#include "serve/model_repository.h"
#include "serve/served_model.h"
#include "serve/shared_regions.h"

namespace tessera::serve {

class TraceFile;

struct ServiceOptions {
  std::string repository;     // a folder
  ModelConfig defaults = {};  // of models whose config.json says nothing else
  // Called by the loading thread: what was loaded, unloaded, or failed and why. A line without its end.
  std::function<void(const std::string&)> log = {};
  // Who may do what; null: everybody everything.
  std::shared_ptr<Access> access = {};
  std::shared_ptr<TraceFile> trace = {};  // of requests; null: none
  // Of the inputs of a request that lie in shared memory, together.
  std::size_t request_bytes = std::size_t{64} << 20;
  bool has_shared_memory = true;  // false: nobody registers any
};

// A model, and one of its versions; empty: the newest.
struct ModelName {
  std::string model, version;
};

// What an operator asks for.
struct RepositoryChange {
  std::string model;
  bool load = true;                          // or unload
  std::vector<std::string> parameters = {};  // names of those that are sent with it
};

// A row of the repository's index.
struct IndexEntry {
  std::string name, version, state, reason;
};

class Service {
 public:
  // Reads the repository and begins to load all models. The error is that of the folder.
  static Result<std::unique_ptr<Service>> open(ServiceOptions options);
  ~Service();  // after the servers that ask it; waits for a load that is under way

  // The client that has this token ("Bearer ..." as sent; empty: it has none). The error is an audit line, too.
  Result<Client> client_of(std::string_view authorization, const std::string& what) const;

  std::optional<Failure> why_not_ready() const;
  std::vector<std::string> extensions() const;
  // The version that is named, or the newest. The error is for the client: there is no such model, or none of its own.
  Result<std::shared_ptr<ServedModel>> served(const Client& client, const ModelName& name) const;
  std::vector<std::string> versions_of(const std::string& model) const;
  // Of those that the client may use, in order.
  std::vector<std::shared_ptr<ServedModel>> all_served(const Client& client) const;
  std::vector<IndexEntry> index(const Client& client, bool only_ready) const;

  // `parse` is called here with what the model takes, `encode` where the request has its outcome; once each, or
  // `encode` alone.
  using Parse = std::function<Result<InferRequest>(const ModelForm&, const RegionsOfClient&)>;
  void infer(const Client& client, const ModelName& name, const Parse& parse, Encode encode);

  // Calls `done` once, by the loading thread or here. A load with parameters is refused.
  using Changed = std::function<void(std::optional<Failure>)>;
  void change(const Client& client, const RepositoryChange& change, Changed done);

  // Of the client's tenant, which may register keys that begin as the token file says.
  std::optional<Failure> add_region(const Client& client, const RegionStatus& region);
  SharedRegions& regions() { return regions_; }

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
  std::string metrics(const Client& client) const;

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
    Changed done;           // may be empty
    bool is_first = false;  // of first_loads_, where it is not counted as over yet
  };

  explicit Service(ServiceOptions options) : options_(std::move(options)) {}
  void work();
  std::optional<Failure> make_change(Work& work);
  std::optional<Failure> load(Work& work);
  std::optional<Failure> note_missing(const std::string& name);
  void count_first_load(Work& work);  // with the lock
  std::optional<Failure> unload(const std::string& name);
  void set_state(const std::string& name, const std::string& state);
  void log(const std::string& line) const;
  void refuse(const Client& client, const std::string& what, const std::string& why) const;

  const ServiceOptions options_;
  SharedRegions regions_;
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
