#include "serve/access.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/secret_file.h"
#include "http/message.h"
#include "tessera/file.h"

namespace tessera::serve {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kFileBytesMax = 1 << 20;
constexpr std::size_t kTokenBytesMin = 16;

std::array<unsigned char, 32> digest_of(std::string_view text) {
  std::array<unsigned char, 32> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return digest;
}

}  // namespace

// A tenant, and what it has asked for just now.
class Tenant {
 public:
  explicit Tenant(TenantOptions options)
      : options_(std::move(options)), there_(std::max(1.0, options_.requests_per_second)) {}

  const TenantOptions& options() const { return options_; }
  bool may_use(const std::string& model) const {
    return std::ranges::any_of(options_.models, [&](const std::string& pattern) {
      if (!pattern.ends_with('*')) return pattern == model;
      return model.starts_with(std::string_view(pattern).substr(0, pattern.size() - 1));
    });
  }
  std::optional<Failure> may_share(std::string_view key) const {
    // With or without the slash it is the same memory.
    const auto name_of = [](std::string_view text) {
      return text.starts_with('/') ? text.substr(1) : text;
    };
    const auto& allowed = options_.shared_memory;
    const bool may = std::ranges::any_of(allowed, [&](const std::string& beginning) {
      return name_of(key).starts_with(name_of(beginning));
    });
    if (may) return {};
    return Failure{
        Problem::kForbidden,
        fmt::format("tenant '{}' may not register the shared memory '{}'; its 'shared_memory' in "
                    "the token file allows {}",
                    options_.name, key,
                    allowed.empty()
                        ? "none"
                        : fmt::format("keys that begin with '{}'", fmt::join(allowed, "', '")))};
  }
  // A bucket that fills with requests_per_second, and holds those of one second.
  std::optional<Failure> enter() {
    const std::lock_guard lock(mutex_);
    if (options_.requests_at_once > 0 && statistics_.pending >= options_.requests_at_once) {
      ++statistics_.refused;
      return Failure{Problem::kQuota,
                     fmt::format("tenant '{}' has {} requests on their way, which is its limit",
                                 options_.name, statistics_.pending)};
    }
    if (options_.requests_per_second > 0) {
      const Clock::time_point now = Clock::now();
      const double rate = options_.requests_per_second;
      there_ += rate * std::chrono::duration<double>(now - filled_).count();
      there_ = std::min(there_, std::max(1.0, rate));
      filled_ = now;
      if (there_ < 1) {
        ++statistics_.refused;
        return Failure{Problem::kQuota, fmt::format("tenant '{}' may make {} requests a second",
                                                    options_.name, rate)};
      }
      there_ -= 1;
    }
    ++statistics_.pending;
    return {};
  }
  void leave() {
    const std::lock_guard lock(mutex_);
    --statistics_.pending;
  }
  void note_answer(std::chrono::nanoseconds time, std::chrono::nanoseconds device) {
    const std::lock_guard lock(mutex_);
    ++statistics_.answered;
    statistics_.time += time;
    statistics_.device += device;
  }
  void note_failure() {
    const std::lock_guard lock(mutex_);
    ++statistics_.failed;
  }
  TenantStatistics statistics() const {
    const std::lock_guard lock(mutex_);
    return statistics_;
  }

 private:
  const TenantOptions options_;
  mutable std::mutex mutex_;
  double there_;
  Clock::time_point filled_ = Clock::now();
  TenantStatistics statistics_;
};

std::string Client::name() const { return tenant == nullptr ? "" : tenant->options().name; }
bool Client::may_use(const std::string& model) const {
  return tenant == nullptr || tenant->may_use(model);
}
bool Client::is_operator() const { return tenant == nullptr || tenant->options().is_operator; }
std::optional<Failure> Client::may_share(std::string_view key) const {
  return tenant == nullptr ? std::nullopt : tenant->may_share(key);
}
std::optional<Failure> Client::enter() const {
  return tenant == nullptr ? std::nullopt : tenant->enter();
}
void Client::leave() const {
  if (tenant != nullptr) tenant->leave();
}
void Client::note_answer(std::chrono::nanoseconds time, std::chrono::nanoseconds device) const {
  if (tenant != nullptr) tenant->note_answer(time, device);
}
void Client::note_failure() const {
  if (tenant != nullptr) tenant->note_failure();
}

namespace {

Status set_tenant_key(const std::string& key, const Json& value, TenantOptions& tenant,
                      std::string& token) {
  const auto expected = [&](const char* what) {
    return invalid(fmt::format("'{}' is to be {}", key, what));
  };
  if (key == "name" || key == "token") {
    if (!value.is_string() || value.get_ref<const std::string&>().empty()) {
      return expected("a text that is not empty");
    }
    (key == "name" ? tenant.name : token) = value.get<std::string>();
    return {};
  }
  if (key == "models") {
    const bool is_list =
        value.is_array() && std::ranges::all_of(value, [](const Json& v) { return v.is_string(); });
    if (!is_list) return expected("a list of names; a '*' at the end of one stands for anything");
    tenant.models = value.get<std::vector<std::string>>();
    return {};
  }
  if (key == "shared_memory") {
    const bool is_list = value.is_array() && std::ranges::all_of(value, [](const Json& v) {
                           return v.is_string() && !v.get_ref<const std::string&>().empty();
                         });
    if (!is_list) return expected("a list of beginnings of keys: [\"/vision_\"]");
    tenant.shared_memory = value.get<std::vector<std::string>>();
    return {};
  }
  if (key == "operator") {
    if (!value.is_boolean()) return expected("true or false");
    tenant.is_operator = value.get<bool>();
    return {};
  }
  constexpr double kRateMax = 1e9;
  if (key == "requests_per_second") {
    if (!value.is_number() || value < 0 || value > kRateMax) return expected("a number from 0");
    tenant.requests_per_second = value.get<double>();
    return {};
  }
  if (key == "requests_at_once") {
    constexpr int kAtOnceMax = 1 << 20;
    if (!value.is_number_integer() || value < 0 || value > kAtOnceMax) {
      return expected("a whole number from 0 to 1048576");
    }
    tenant.requests_at_once = value.get<int>();
    return {};
  }
  return invalid(
      fmt::format("there is no key '{}'; known are models, name, operator, "
                  "requests_at_once, requests_per_second, shared_memory, token",
                  key));
}

}  // namespace

Result<std::shared_ptr<Access>> Access::parse(const std::string& text, Audit audit) {
  constexpr int kDepthMax = 4;
  bool is_too_deep = false;
  const Json::parser_callback_t callback = [&](int depth, Json::parse_event_t, Json&) {
    is_too_deep = is_too_deep || depth > kDepthMax;
    return !is_too_deep;
  };
  constexpr bool kThrows = false;
  const Json document = Json::parse(text, callback, kThrows);
  const bool is_right = !is_too_deep && document.is_object() && document.size() == 1 &&
                        document.contains("tenants") && document["tenants"].is_array() &&
                        !document["tenants"].empty();
  if (!is_right) return invalid("it is to be an object with a list 'tenants' that is not empty");
  auto access = std::make_shared<Access>();
  access->audit_ = std::move(audit);
  for (const Json& entry : document["tenants"]) {
    const std::string what = fmt::format("tenant {}", access->entries_.size() + 1);
    if (!entry.is_object()) return invalid(what + " is no object");
    TenantOptions tenant;
    std::string token;
    for (const auto& [key, value] : entry.items()) {
      const Status set = set_tenant_key(key, value, tenant, token);
      if (!set.ok()) return set.error().with_context(what);
    }
    if (tenant.name.empty()) return invalid(what + " has no 'name'");
    if (token.size() < kTokenBytesMin) {
      return invalid(fmt::format("{}: 'token' is to have at least {} bytes", what, kTokenBytesMin));
    }
    const Digest digest = digest_of(token);
    for (const Entry& other : access->entries_) {
      if (other.tenant->options().name == tenant.name || other.digest == digest) {
        return invalid(fmt::format("{} has the name or the token of another one", what));
      }
    }
    access->entries_.push_back({digest, std::make_shared<Tenant>(std::move(tenant))});
  }
  return access;
}

Result<std::shared_ptr<Access>> Access::read(const std::string& path, Audit audit) {
  TESSERA_TRY(const std::string text, read_text_file(path, {.bytes_max = kFileBytesMax}));
  TESSERA_RETURN_IF_ERROR(check_secret_file(path));
  auto access = parse(text, std::move(audit));
  if (!access.ok()) return access.error().with_context(path);
  return access;
}

Result<Client> Access::client_of(std::string_view authorization, const std::string& what) const {
  // Its case does not count.
  constexpr std::string_view kScheme = "Bearer ";
  if (!http::equal_ignoring_case(authorization.substr(0, kScheme.size()), kScheme)) {
    note("", what, "no token");
    return invalid("it has no token; send 'Authorization: Bearer TOKEN'");
  }
  authorization.remove_prefix(kScheme.size());
  const Digest digest = digest_of(authorization);
  std::shared_ptr<Tenant> tenant;
  // All of them, so that the time tells nothing.
  for (const Entry& entry : entries_) {
    if (CRYPTO_memcmp(entry.digest.data(), digest.data(), digest.size()) == 0)
      tenant = entry.tenant;
  }
  if (tenant == nullptr) {
    note("", what, "unknown token");
    return invalid("its token is nobody's");
  }
  return Client{std::move(tenant)};
}

std::map<std::string, TenantStatistics> Access::statistics(const Client& client) const {
  std::map<std::string, TenantStatistics> statistics;
  for (const Entry& entry : entries_) {
    if (!client.is_operator() && entry.tenant != client.tenant) continue;
    statistics.emplace(entry.tenant->options().name, entry.tenant->statistics());
  }
  return statistics;
}

void Access::note(const std::string& tenant, const std::string& what,
                  const std::string& why) const {
  if (!audit_) return;
  const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  audit_(Json({{"time_ms", now.count()}, {"tenant", tenant}, {"refused", what}, {"why", why}})
             .dump(-1, ' ', true, Json::error_handler_t::replace));
}

}  // namespace tessera::serve
