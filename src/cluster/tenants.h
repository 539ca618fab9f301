// Who may use a cluster, and how much of it: a file with a token for each tenant.
//
//   {"tenants": [{"name": "a", "token": "...", "cores_max": 8, "memory_bytes_max": 0,
//                 "requests_per_second_max": 100, "requests_at_once_max": 16, "operator": false}]}
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "cluster/request_quota.h"

namespace tessera::cluster {

// Who names no tenant where there are no tokens.
inline constexpr const char* kOpenTenant = "default";

struct Tenant {
  std::string name;
  std::string token;
  int cores_max = 0;                  // of all its allocations; 0: no limit
  std::int64_t memory_bytes_max = 0;  // of all groups of all its allocations; 0: no limit
  RequestQuota requests = {};         // of all its allocations together
  bool is_operator = false;           // sees and drains everything
};

class Tenants {
 public:
  // No file: whoever comes is the tenant that he says, and an operator.
  Tenants() = default;
  // kInvalidModel: what of the text is wrong; two of one name or token, a token of less than 16 bytes.
  static Result<Tenants> parse(const std::string& text);

  // By the members 'token' and, where there is no file, 'tenant' of a request. The error does not say whether
  // there is such a tenant.
  Result<Tenant> of_request(const nlohmann::json& request) const;
  // What a tenant of this name may send; anything where there is none.
  RequestQuota requests_of(const std::string& name) const;
  bool is_open() const { return open_; }  // there is no file

 private:
  bool open_ = true;
  std::vector<Tenant> tenants_;
};

}  // namespace tessera::cluster
