// Who may use what: tenants with a token each, the models that are theirs, and how much they may ask for.
//
//   {"tenants": [{"name": "vision", "token": "...", "models": ["ocr*", "resnet"],
//                 "requests_per_second": 200, "requests_at_once": 32, "shared_memory": ["/vision_"], "operator": false}]}
//
// Tokens come from a file and never from an argument; only their digests are kept. For several threads at once.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "serve/failure.h"

namespace tessera::serve {

// One of the file's entries.
struct TenantOptions {
  std::string name;
  std::vector<std::string> models = {"*"};  // a "*" at the end stands for anything
  double requests_per_second = 0;           // 0: any number
  int requests_at_once = 0;                 // likewise
  std::vector<std::string> shared_memory;   // beginnings of the keys that it may register
  bool is_operator = false;                 // loads and unloads models, and sees all figures
};

class Tenant;

// What became of a tenant's requests for inference since the service began.
struct TenantStatistics {
  std::int64_t answered = 0, failed = 0;
  std::int64_t refused = 0;  // beyond its limits
  std::int64_t pending = 0;  // that have no answer yet
  std::chrono::nanoseconds time{
      0};  // from the bytes of requests that were answered to their answers
  std::chrono::nanoseconds device{0};  // of them: in runs; of a batch its share
};

// Who asks. One without a tenant may do everything: there is no token file.
struct Client {
  std::shared_ptr<Tenant> tenant = {};  // shared with requests on their way

  std::string name() const;  // empty: no tenant
  bool may_use(const std::string& model) const;
  bool is_operator() const;
  // A failure where the tenant may not register this key of shared memory; it names the beginnings that it may.
  std::optional<Failure> may_share(std::string_view key) const;
  // Of a request for inference; the failure names the limit. leave() follows where there is none.
  std::optional<Failure> enter() const;
  void leave() const;
  // Of one that entered, before it leaves: it took so long, of that in runs; or it failed.
  void note_answer(std::chrono::nanoseconds time, std::chrono::nanoseconds device) const;
  void note_failure() const;
};

// A line for each refusal: JSON, without its end.
using Audit = std::function<void(const std::string& line)>;

class Access {
 public:
  // The error names the entry and the key, what was found and what is allowed. The file is to be readable by its
  // owner alone.
  static Result<std::shared_ptr<Access>> read(const std::string& path, Audit audit = {});
  // `text` is foreign.
  static Result<std::shared_ptr<Access>> parse(const std::string& text, Audit audit = {});

  // "Bearer TOKEN" of a request for `what`. An error is in the audit, too.
  Result<Client> client_of(std::string_view authorization, const std::string& what) const;
  // A line: who was refused what, and why.
  void note(const std::string& tenant, const std::string& what, const std::string& why) const;
  // Of those whose figures the client may see, by name.
  std::map<std::string, TenantStatistics> statistics(const Client& client) const;

 private:
  using Digest = std::array<unsigned char, 32>;
  struct Entry {
    Digest digest;
    std::shared_ptr<Tenant> tenant;
  };
  std::vector<Entry> entries_;
  Audit audit_;
};

}  // namespace tessera::serve
