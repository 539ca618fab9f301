// Members of a JSON object that came from elsewhere, each checked; the first that is wrong is told.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"

namespace tessera::cluster {

// The largest whole number that every reader of JSON keeps.
inline constexpr std::int64_t kNumberMax = std::int64_t{1} << 53;

class Fields {
 public:
  // `what` it is, for messages; `code` of what is wrong. The document outlives this.
  Fields(const nlohmann::json& document, std::string what,
         ErrorCode code = ErrorCode::kInvalidModel);

  bool has(const char* name) const { return object_ && document_.contains(name); }
  std::string text(const char* name);
  std::string text(const char* name, const std::string& otherwise);
  // 1 to 64 letters, digits, points, lines: see is_name().
  std::string name(const char* name);
  std::int64_t integer(const char* name, std::int64_t first, std::int64_t last);
  std::int64_t integer(const char* name, std::int64_t first, std::int64_t last,
                       std::int64_t otherwise);
  bool flag(const char* name, bool otherwise);
  std::vector<std::int64_t> integers(const char* name, std::int64_t first, std::int64_t last);
  // An array; null: it is none.
  const nlohmann::json* array(const char* name);
  void refuse(const std::string& why);

  Status status() const;

 private:
  const nlohmann::json* find(const char* name);
  const nlohmann::json& document_;
  const bool object_;
  const std::string what_;
  const ErrorCode code_;
  std::string wrong_;
};

// Of a request: what is wrong with it is whoever made it to mend.
class RequestFields : public Fields {
 public:
  RequestFields(const nlohmann::json& document, std::string what)
      : Fields(document, std::move(what), ErrorCode::kInvalidArgument) {}
};

// An object; `code`: it is none, or no JSON at all, or deeper than 16.
Result<nlohmann::json> parse_object(const std::string& text, const std::string& what,
                                    ErrorCode code = ErrorCode::kInvalidModel);
// UTF-8, whatever is in it.
std::string dump(const nlohmann::json& document);

}  // namespace tessera::cluster
