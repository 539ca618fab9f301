#include "tools/card/tenant_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <functional>

namespace tessera::tools {
namespace {

// A whole text as a number; nothing: it is none.
template <typename Number>
std::optional<Number> number_of(std::string_view text) {
  Number value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

template <typename Number>
bool set_number(const std::string& text, Number least, Number most, Number& to) {
  const std::optional<Number> value = number_of<Number>(text);
  if (!value || !(*value >= least && *value <= most)) return false;
  to = *value;
  return true;
}

// "0+1+5".
bool set_cores(const std::string& text, std::vector<int>& to) {
  for (std::size_t first = 0; first <= text.size();) {
    const std::size_t last = std::min(text.find('+', first), text.size());
    const auto core = number_of<int>(std::string_view(text).substr(first, last - first));
    if (!core || *core < 0) return false;
    to.push_back(*core);
    first = last + 1;
  }
  return true;
}

// "512M".
bool set_bytes(std::string text, std::int64_t& to) {
  int shift = 0;
  constexpr std::string_view kUnits = "KMG";
  if (const auto unit = text.empty() ? kUnits.npos : kUnits.find(text.back());
      unit != kUnits.npos) {
    shift = 10 * (static_cast<int>(unit) + 1);
    text.pop_back();
  }
  std::int64_t bytes = 0;
  if (!set_number<std::int64_t>(text, 1, INT64_MAX >> shift, bytes)) return false;
  to = bytes << shift;
  return true;
}

constexpr int kMost = 1'000'000;

struct Key {
  const char* name;
  const char* allowed;
  enum class Of { kBoth, kCores, kSchedule } of;
  bool (*set)(const std::string&, TenantArguments&);
};
const Key kKeys[] = {
    {"name", "a text", Key::Of::kBoth,
     [](const std::string& text, TenantArguments& to) {
       to.processor.name = text;
       return !text.empty();
     }},
    {"cores", "a number of cores from 1 on", Key::Of::kCores,
     [](const std::string& text, TenantArguments& to) {
       return set_number(text, 1, kMost, to.processor.cores);
     }},
    {"at", "numbers of cores with + between, such as 0+1+4", Key::Of::kCores,
     [](const std::string& text, TenantArguments& to) {
       return set_cores(text, to.processor.core_numbers);
     }},
    {"memory", "bytes of each group, also with K, M or G behind", Key::Of::kBoth,
     [](const std::string& text, TenantArguments& to) {
       return set_bytes(text, to.processor.memory_bytes);
     }},
    {"weight", "1 to 16", Key::Of::kBoth,
     [](const std::string& text, TenantArguments& to) {
       return set_number<std::int64_t>(text, 1, 16, to.processor.weight);
     }},
    {"seed", "0 to 1000000", Key::Of::kBoth,
     [](const std::string& text, TenantArguments& to) {
       return set_number(text, 0, kMost, to.seed);
     }},
    {"latency", "microseconds above 0", Key::Of::kSchedule,
     [](const std::string& text, TenantArguments& to) {
       return set_number(text, 1e-6, 1e12, to.terms.latency_us_max);
     }},
    {"rate", "images a second above 0", Key::Of::kSchedule,
     [](const std::string& text, TenantArguments& to) {
       return set_number(text, 1e-3, 1e9, to.terms.images_per_second_min);
     }},
    {"least", "a number of cores from 1 on", Key::Of::kSchedule,
     [](const std::string& text, TenantArguments& to) {
       return set_number(text, 1, kMost, to.terms.cores_min);
     }},
    {"most", "a number of cores from 1 on", Key::Of::kSchedule,
     [](const std::string& text, TenantArguments& to) {
       return set_number(text, 1, kMost, to.terms.cores_max);
     }},
    {"priority", "-1000000 to 1000000", Key::Of::kSchedule,
     [](const std::string& text, TenantArguments& to) {
       return set_number(text, -kMost, kMost, to.terms.priority);
     }},
    {"worth", "1 to 1000", Key::Of::kSchedule,
     [](const std::string& text, TenantArguments& to) {
       return set_number(text, 1, 1000, to.terms.weight);
     }},
    {"wait", "yes or no", Key::Of::kSchedule,
     [](const std::string& text, TenantArguments& to) {
       to.terms.may_wait = text == "yes";
       return text == "yes" || text == "no";
     }},
};

std::string keys_text(bool scheduled) {
  std::string text;
  for (const Key& key : kKeys) {
    if (key.of == (scheduled ? Key::Of::kCores : Key::Of::kSchedule)) continue;
    text += (text.empty() ? "" : ", ") + std::string(key.name);
  }
  return text;
}

Status set_part(const std::string& part, bool scheduled, TenantArguments& to) {
  const std::size_t equals = part.find('=');
  const std::string name = part.substr(0, equals);
  const auto* const key =
      std::ranges::find_if(kKeys, [&](const Key& one) { return one.name == name; });
  if (equals == std::string::npos || key == std::end(kKeys)) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("'{}' is no KEY=VALUE; allowed keys: {}", part, keys_text(scheduled))};
  }
  if (key->of == (scheduled ? Key::Of::kCores : Key::Of::kSchedule)) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{} {}; allowed keys: {}", name,
                             scheduled ? "is not given with --schedule, which decides the cores"
                                       : "is one of the terms of --schedule, which is not given",
                             keys_text(scheduled))};
  }
  if (key->set(part.substr(equals + 1), to)) return {};
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("{} is '{}', allowed {}", name, part.substr(equals + 1), key->allowed)};
}

// The part behind the last colon is one of keys if the first of them is one.
std::size_t keys_begin(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return text.size();
  return text.find('=', colon) == std::string::npos ? text.size() : colon;
}

Result<TenantArguments> parse_tenant(const std::string& text, bool scheduled) {
  TenantArguments tenant;
  const std::size_t colon = keys_begin(text);
  tenant.model = text.substr(0, colon);
  if (tenant.model.empty()) {
    return Error{ErrorCode::kInvalidArgument, "no model; write MODEL or MODEL:KEY=VALUE,..."};
  }
  for (std::size_t first = colon + 1; first <= text.size() && colon < text.size();) {
    const std::size_t last = std::min(text.find(',', first), text.size());
    TESSERA_RETURN_IF_ERROR(set_part(text.substr(first, last - first), scheduled, tenant));
    first = last + 1;
  }
  return tenant;
}

}  // namespace

std::string tenant_keys_text() {
  std::string text = "Behind a model's file, as in MODEL:KEY=VALUE,KEY=VALUE:\n";
  for (const Key& key : kKeys) {
    text += fmt::format("  {:<9} {}{}\n", key.name, key.allowed,
                        key.of == Key::Of::kBoth    ? ""
                        : key.of == Key::Of::kCores ? " (not with --schedule)"
                                                    : " (with --schedule)");
  }
  return text;
}

Result<std::vector<TenantArguments>> parse_tenants(const std::vector<std::string>& texts,
                                                   bool scheduled) {
  std::vector<TenantArguments> tenants;
  const auto is_taken = [&](const std::string& name) {
    return std::ranges::any_of(tenants,
                               [&](const auto& one) { return one.processor.name == name; });
  };
  for (const std::string& text : texts) {
    auto tenant = parse_tenant(text, scheduled);
    if (!tenant.ok()) return tenant.error().with_context(fmt::format("--tenant '{}'", text));
    std::string& name = tenant->processor.name;
    if (name.empty()) {
      const std::string stem = std::filesystem::path(tenant->model).stem().string();
      name = stem;
      for (int i = 2; is_taken(name); ++i) name = fmt::format("{}-{}", stem, i);
    }
    tenants.push_back(std::move(*tenant));
  }
  return tenants;
}

}  // namespace tessera::tools
