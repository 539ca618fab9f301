#include "cluster/tenants.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cluster/fields.h"
#include "cluster/records.h"

namespace tessera::cluster {
namespace {

using nlohmann::json;

constexpr std::int64_t kRequestsMax = 1'000'000'000;

// Takes as long whatever differs.
bool is_equal(const std::string& a, const std::string& b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  }
  return difference == 0;
}

Result<Tenant> tenant_of(const json& document) {
  Fields fields(document, "tenant");
  Tenant tenant;
  tenant.name = fields.name("name");
  tenant.token = fields.text("token");
  tenant.cores_max = static_cast<int>(fields.integer("cores_max", 0, 1 << 20, 0));
  tenant.memory_bytes_max = fields.integer("memory_bytes_max", 0, std::int64_t{1} << 53, 0);
  // 0: no limit, as of the others.
  const std::int64_t per_second = fields.integer("requests_per_second_max", 0, kRequestsMax, 0);
  const std::int64_t at_once = fields.integer("requests_at_once_max", 0, kRequestsMax, 0);
  if (per_second > 0) tenant.requests.per_second = static_cast<double>(per_second);
  if (at_once > 0) tenant.requests.at_once = at_once;
  tenant.is_operator = fields.flag("operator", false);
  constexpr std::size_t kTokenBytesMin = 16;
  if (tenant.token.size() < kTokenBytesMin) {
    fields.refuse(
        fmt::format("the token of '{}' has less than {} bytes", tenant.name, kTokenBytesMin));
  }
  TESSERA_RETURN_IF_ERROR(fields.status());
  return tenant;
}

}  // namespace

Result<Tenants> Tenants::parse(const std::string& text) {
  TESSERA_TRY(const json document, parse_object(text, "file of tenants"));
  Fields fields(document, "file of tenants");
  const json* const list = fields.array("tenants");
  TESSERA_RETURN_IF_ERROR(fields.status());
  Tenants tenants;
  tenants.open_ = false;
  for (const json& one : *list) {
    TESSERA_TRY(Tenant tenant, tenant_of(one));
    for (const Tenant& other : tenants.tenants_) {
      if (other.name != tenant.name && other.token != tenant.token) continue;
      return Error{ErrorCode::kInvalidModel,
                   fmt::format("file of tenants: '{}' and '{}' have the same name or token",
                               other.name, tenant.name)};
    }
    tenants.tenants_.push_back(std::move(tenant));
  }
  return tenants;
}

RequestQuota Tenants::requests_of(const std::string& name) const {
  for (const Tenant& tenant : tenants_) {
    if (tenant.name == name) return tenant.requests;
  }
  return {};
}

Result<Tenant> Tenants::of_request(const json& request) const {
  RequestFields fields(request, "request");
  if (open_) {
    Tenant tenant{.name = kOpenTenant, .token = {}, .is_operator = true};
    if (fields.has("tenant")) tenant.name = fields.name("tenant");
    TESSERA_RETURN_IF_ERROR(fields.status());
    return tenant;
  }
  const std::string token = fields.text("token", "");
  TESSERA_RETURN_IF_ERROR(fields.status());
  const Tenant* found = nullptr;
  for (const Tenant& tenant : tenants_) {
    if (is_equal(tenant.token, token)) found = &tenant;
  }
  if (found != nullptr) return *found;
  return Error{ErrorCode::kInvalidArgument,
               "the token is none of a tenant of this cluster; give the file that holds it "
               "(--token-file, or token_file= in the device's name)"};
}

}  // namespace tessera::cluster
