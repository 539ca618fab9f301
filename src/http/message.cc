#include "http/message.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace tessera::http {
namespace {

struct Reason {
  int status;
  std::string_view text;
};
constexpr Reason kReasons[] = {
    {200, "OK"},
    {204, "No Content"},
    {400, "Bad Request"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {503, "Service Unavailable"},
    {505, "HTTP Version Not Supported"},
};

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char small = lower(c);
  return small >= 'a' && small <= 'f' ? small - 'a' + 10 : -1;
}

std::string decode(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && hex_digit(text[i + 1]) >= 0 &&
        hex_digit(text[i + 2]) >= 0) {
      decoded += static_cast<char>(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2]));
      i += 2;
    } else {
      decoded += text[i] == '+' ? ' ' : text[i];
    }
  }
  return decoded;
}

void append_field(std::string& head, std::string_view name, std::string_view value) {
  head += name;
  head += ": ";
  // A line end in a value would begin a field of its own.
  std::transform(value.begin(), value.end(), std::back_inserter(head),
                 [](char c) { return static_cast<unsigned char>(c) < 0x20 ? ' ' : c; });
  head += "\r\n";
}

}  // namespace

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

std::optional<std::string_view> Request::field(std::string_view name) const {
  for (const Field& field : fields) {
    if (equal_ignoring_case(field.name, name)) return field.value;
  }
  return {};
}

Parameters Request::parameters() const {
  Parameters parameters;
  std::string_view rest = query;
  while (!rest.empty()) {
    const std::string_view part = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    if (part.empty()) continue;
    const std::size_t equals = std::min(part.find('='), part.size());
    const std::string_view value = part.substr(std::min(equals + 1, part.size()));
    parameters.emplace(decode(part.substr(0, equals)), decode(value));
  }
  return parameters;
}

Response error_response(int status, std::string_view message) {
  return {.status = status,
          .type = "application/json",
          .body = fmt::format("{{\"error\":\"{}\"}}\n", message)};
}

Response busy_response(std::string_view message) {
  Response response = error_response(503, message);
  response.fields.push_back({"Retry-After", "1"});
  return response;
}

std::string_view reason_of(int status) {
  const auto* const found = std::find_if(std::begin(kReasons), std::end(kReasons),
                                         [status](const Reason& r) { return r.status == status; });
  return found == std::end(kReasons) ? "Unknown" : found->text;
}

std::string head_text(const Response& response, const HeadOptions& options) {
  std::string head = fmt::format("HTTP/1.1 {} {}\r\n", response.status, reason_of(response.status));
  if (!response.type.empty()) append_field(head, "Content-Type", response.type);
  if (const auto* text = std::get_if<std::string>(&response.body)) {
    append_field(head, "Content-Length", std::to_string(text->size()));
  } else if (const auto* view = std::get_if<std::string_view>(&response.body)) {
    append_field(head, "Content-Length", std::to_string(view->size()));
  } else if (options.version >= 11) {
    append_field(head, "Transfer-Encoding", "chunked");
  }
  append_field(head, "Connection", options.keep_alive ? "keep-alive" : "close");
  if (options.fields != nullptr) {
    for (const Field& field : *options.fields) append_field(head, field.name, field.value);
  }
  for (const Field& field : response.fields) append_field(head, field.name, field.value);
  return head + "\r\n";
}

}  // namespace tessera::http
