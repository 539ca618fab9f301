// Prometheus' text format, version 0.0.4: lines of one metric behind its head.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/utf8.h"

namespace tessera::metrics {

// The rules of the format: UTF-8; backslash, quote and newline are escaped in a label's value.
inline std::string label_value(const std::string& text) {
  std::string out;
  for (const char c : as_utf8(text)) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out;
}

class PrometheusText {
 public:
  void head(const char* name, const char* type, const char* help) {
    text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
  }
  // `labels` without braces, their values escaped.
  template <typename Number>
  void sample(const std::string& name, const std::string& labels, Number value) {
    text_ += labels.empty() ? fmt::format("{} {}\n", name, value)
                            : fmt::format("{}{{{}}} {}\n", name, labels, value);
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

}  // namespace tessera::metrics
