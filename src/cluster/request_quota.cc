#include "cluster/request_quota.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cluster/fields.h"

namespace tessera::cluster {
namespace {

constexpr double kPerSecondMax = 1e9;
constexpr std::int64_t kAtOnceMax = std::int64_t{1} << 40;

// A second's worth may come together, and one always.
double tokens_max(double per_second) { return std::max(per_second, 1.0); }

}  // namespace

nlohmann::json to_json(const RequestQuota& quota) {
  nlohmann::json document = nlohmann::json::object();
  if (quota.per_second.has_value()) document["per_second"] = *quota.per_second;
  if (quota.at_once.has_value()) document["at_once"] = *quota.at_once;
  return document;
}

Result<RequestQuota> quota_from_json(const nlohmann::json& document) {
  Fields fields(document, "quota of requests");
  RequestQuota quota;
  if (fields.has("at_once")) quota.at_once = fields.integer("at_once", 0, kAtOnceMax);
  if (fields.has("per_second")) {
    const nlohmann::json& number = document["per_second"];
    quota.per_second = number.is_number() ? number.get<double>() : -1;
    if (!(*quota.per_second >= 0 && *quota.per_second <= kPerSecondMax)) {
      fields.refuse(fmt::format("'per_second' is no number from 0 to {}", kPerSecondMax));
    }
  }
  TESSERA_RETURN_IF_ERROR(fields.status());
  return quota;
}

struct RequestCounter::Admission {
  std::shared_ptr<RequestCounter> of;       // shared with sessions and the node
  std::optional<std::int64_t> beyond = {};  // how many there may be at once, if it was one more

  explicit Admission(std::shared_ptr<RequestCounter> counter) : of(std::move(counter)) {}
  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;
  ~Admission() {
    const std::lock_guard lock(of->mutex_);
    --of->present_;
  }
};

void RequestCounter::set(const RequestQuota& quota) {
  const std::lock_guard lock(mutex_);
  if (quota.per_second.has_value() && !quota_.per_second.has_value()) {
    tokens_ = tokens_max(*quota.per_second);
    filled_ = clock_();
  }
  quota_ = quota;
}

std::shared_ptr<void> RequestCounter::arrived() {
  const auto admission = std::make_shared<Admission>(shared_from_this());
  const std::lock_guard lock(mutex_);
  ++present_;
  if (quota_.at_once.has_value() && present_ > *quota_.at_once) admission->beyond = quota_.at_once;
  return admission;
}

Status RequestCounter::admit(const std::shared_ptr<void>& admission) {
  const auto* const own = static_cast<const Admission*>(admission.get());
  if (own != nullptr && own->beyond == 0) {
    return Error{ErrorCode::kInvalidArgument,
                 "no requests, since the tenant's quota of requests at once is smaller than the "
                 "number of its allocations; free another allocation"};
  }
  if (own != nullptr && own->beyond.has_value()) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("more requests at once than its share of the tenant's quota, which is "
                             "{}; send fewer together",
                             *own->beyond)};
  }
  const std::lock_guard lock(mutex_);
  if (!quota_.per_second.has_value()) return {};
  const auto now = clock_();
  const std::chrono::duration<double> passed = now - filled_;
  tokens_ = std::min(tokens_ + passed.count() * *quota_.per_second, tokens_max(*quota_.per_second));
  filled_ = now;
  if (tokens_ < 1) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("more requests a second than its share of the tenant's quota, which "
                             "is {:.6g}; send fewer",
                             *quota_.per_second)};
  }
  tokens_ -= 1;
  return {};
}

}  // namespace tessera::cluster
