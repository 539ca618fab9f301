#include "text_checks.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "base/check.h"
#include "base/utf8.h"

namespace tessera::fuzz {
namespace {

// NAME{LABEL="VALUE",...} NUMBER
void check_sample(const std::string& line) {
  constexpr const char* kNames = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_:";
  std::size_t at = line.find_first_not_of(kNames);
  TESSERA_CHECK(at != 0 && at != std::string::npos, "no metric's name: {}", line);
  if (line[at] == '{') {
    do {
      const std::size_t equals = line.find_first_not_of(kNames, at + 1);
      TESSERA_CHECK(equals != std::string::npos && line.compare(equals, 2, "=\"") == 0,
                    "no label: {}", line);
      for (at = equals + 2; at < line.size() && line[at] != '"'; ++at) {
        if (line[at] != '\\') continue;
        ++at;
        TESSERA_CHECK(at < line.size() && (line[at] == '\\' || line[at] == '"' || line[at] == 'n'),
                      "{}", line);
      }
      ++at;
    } while (at < line.size() && line[at] == ',');
    TESSERA_CHECK(at < line.size() && line[at] == '}', "labels without an end: {}", line);
    ++at;
  }
  TESSERA_CHECK(at < line.size() && line[at] == ' ', "no value: {}", line);
  char* end = nullptr;
  (void)std::strtod(line.c_str() + at + 1, &end);
  TESSERA_CHECK(end == line.c_str() + line.size() && end != line.c_str() + at + 1, "no number: {}",
                line);
}

}  // namespace

void check_utf8(std::string_view text) {
  TESSERA_CHECK(as_utf8(text) == text, "not UTF-8: {} bytes", text.size());
}

void check_json(std::string_view text) {
  check_utf8(text);
  TESSERA_CHECK(!nlohmann::json::parse(text, nullptr, false).is_discarded(), "not JSON: {}", text);
}

void check_json_lines(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    TESSERA_CHECK(end != std::string_view::npos, "the last line has no end");
    check_json(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
}

void check_prometheus(std::string_view text) {
  check_utf8(text);
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    TESSERA_CHECK(end != std::string_view::npos, "the last line has no end");
    if (text[0] != '#') check_sample(std::string(text.substr(0, end)));
    text.remove_prefix(end + 1);
  }
}

void check_page(std::string_view text, std::string_view harmless) {
  check_utf8(text);
  TESSERA_CHECK(std::ranges::count(text, '<') == std::ranges::count(harmless, '<'),
                "a name opened an element");
}

}  // namespace tessera::fuzz
