// How many requests may come for an allocation: its share of what its tenant may send. The master divides a
// tenant's quota among its allocations by their cores; nodes count.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "base/result.h"
#include "cluster/caller.h"

namespace tessera::cluster {

// Empty: any number.
struct RequestQuota {
  std::optional<double> per_second = {};
  std::optional<std::int64_t> at_once = {};  // that wait or are worked on

  friend bool operator==(const RequestQuota&, const RequestQuota&) = default;
};

nlohmann::json to_json(const RequestQuota& quota);
// kInvalidModel: what is wrong.
Result<RequestQuota> quota_from_json(const nlohmann::json& document);

// The requests of one allocation. For several threads at once.
class RequestCounter : public std::enable_shared_from_this<RequestCounter> {
 public:
  explicit RequestCounter(Clock clock) : clock_(std::move(clock)) {}
  void set(const RequestQuota& quota);

  // A request has come; it counts until what this gives goes.
  std::shared_ptr<void> arrived();
  // Whether a run may be made for it. kInvalidArgument: there were too many at once when it came, or too many in the last
  // second.
  Status admit(const std::shared_ptr<void>& admission);

 private:
  struct Admission;
  const Clock clock_;
  std::mutex mutex_;  // of what follows
  RequestQuota quota_;
  std::int64_t present_ = 0;
  double tokens_ = 0;  // runs that may begin at filled_
  std::chrono::steady_clock::time_point filled_{};
};

}  // namespace tessera::cluster
