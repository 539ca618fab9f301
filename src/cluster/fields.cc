#include "cluster/fields.h"

#include <fmt/format.h>

#include "cluster/names.h"

namespace tessera::cluster {

Fields::Fields(const nlohmann::json& document, std::string what, ErrorCode code)
    : document_(document), object_(document.is_object()), what_(std::move(what)), code_(code) {
  if (!object_) wrong_ = "it is no object";
}

void Fields::refuse(const std::string& why) {
  if (wrong_.empty()) wrong_ = why;
}

Status Fields::status() const {
  if (wrong_.empty()) return {};
  return Error{code_, fmt::format("{}: {}", what_, wrong_)};
}

const nlohmann::json* Fields::find(const char* name) {
  if (!object_) return nullptr;
  const auto found = document_.find(name);
  if (found != document_.end()) return &*found;
  refuse(fmt::format("'{}' is missing", name));
  return nullptr;
}

std::string Fields::text(const char* name) {
  const auto* const value = find(name);
  if (value == nullptr) return {};
  if (value->is_string()) return value->get<std::string>();
  refuse(fmt::format("'{}' is no text", name));
  return {};
}

std::string Fields::text(const char* name, const std::string& otherwise) {
  return has(name) ? text(name) : otherwise;
}

std::string Fields::name(const char* name) {
  std::string value = text(name);
  if (const Status checked = check_name(name, value); !checked.ok()) {
    refuse(checked.error().message);
  }
  return value;
}

namespace {

// Numbers above 2^63 are none.
bool is_integer(const nlohmann::json& value) {
  if (value.is_number_unsigned()) return value.get<std::uint64_t>() <= INT64_MAX;
  return value.is_number_integer();
}

}  // namespace

std::int64_t Fields::integer(const char* name, std::int64_t first, std::int64_t last) {
  const auto* const value = find(name);
  if (value == nullptr) return first;
  if (is_integer(*value)) {
    const auto number = value->get<std::int64_t>();
    if (number >= first && number <= last) return number;
  }
  refuse(fmt::format("'{}' is no integer from {} to {}", name, first, last));
  return first;
}

std::int64_t Fields::integer(const char* name, std::int64_t first, std::int64_t last,
                             std::int64_t otherwise) {
  return has(name) ? integer(name, first, last) : otherwise;
}

bool Fields::flag(const char* name, bool otherwise) {
  if (!has(name)) return otherwise;
  const auto* const value = find(name);
  if (value->is_boolean()) return value->get<bool>();
  refuse(fmt::format("'{}' is neither true nor false", name));
  return otherwise;
}

const nlohmann::json* Fields::array(const char* name) {
  const auto* const value = find(name);
  if (value == nullptr) return nullptr;
  if (value->is_array()) return value;
  refuse(fmt::format("'{}' is no list", name));
  return nullptr;
}

std::vector<std::int64_t> Fields::integers(const char* name, std::int64_t first,
                                           std::int64_t last) {
  std::vector<std::int64_t> numbers;
  const auto* const list = array(name);
  if (list == nullptr) return numbers;
  for (const auto& value : *list) {
    if (is_integer(value)) numbers.push_back(value.get<std::int64_t>());
    if (is_integer(value) && numbers.back() >= first && numbers.back() <= last) continue;
    refuse(fmt::format("'{}' has an entry that is no integer from {} to {}", name, first, last));
    return {};
  }
  return numbers;
}

Result<nlohmann::json> parse_object(const std::string& text, const std::string& what,
                                    ErrorCode code) {
  constexpr int kDepthMax = 16;
  bool deep = false;
  const auto look = [&deep](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    deep = deep || depth > kDepthMax;
    return !deep;
  };
  auto document = nlohmann::json::parse(text, look, false);
  if (deep || !document.is_object()) {
    return Error{code,
                 fmt::format("{}: it is no JSON object of a depth up to {}", what, kDepthMax)};
  }
  return document;
}

std::string dump(const nlohmann::json& document) {
  return document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace tessera::cluster
