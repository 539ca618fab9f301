#include "dashboard/requests.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

namespace tessera::dashboard {
namespace {

using nlohmann::json;

constexpr const char* kControlsAllowed =
    R"(allowed {"stage": NAME, "threads": N}, {"recording": true or false}, {"choice": NAME, "position": NAME})";

Error control_error(const std::string& found) {
  return {ErrorCode::kInvalidArgument, fmt::format("control: {}; {}", found, kControlsAllowed)};
}

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed != std::errc() || end != text.data() + text.size() || text.empty()) return {};
  return number;
}

// A parameter that is a number from `least` to `most`.
struct NumberRule {
  const char* name;
  std::int64_t least, most;
  std::optional<std::int64_t> otherwise;  // none: it must be given
};

Result<std::int64_t> number_of(const Parameters& parameters, const NumberRule& rule) {
  const auto found = parameters.find(rule.name);
  if (found == parameters.end()) {
    if (rule.otherwise) return *rule.otherwise;
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("parameter '{}' is missing; allowed a number from {} to {}", rule.name,
                             rule.least, rule.most)};
  }
  const std::optional<std::int64_t> number = whole_number(found->second);
  if (!number || *number < rule.least || *number > rule.most) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("parameter '{}' is '{}'; allowed a number from {} to {}", rule.name,
                             found->second.substr(0, 40), rule.least, rule.most)};
  }
  return *number;
}

Result<std::string> name_in(const json& document, const char* key) {
  const auto found = document.find(key);
  if (found == document.end() || !found->is_string()) {
    return control_error(fmt::format("\"{}\" is missing or no name", key));
  }
  return found->get<std::string>();
}

Result<ControlRequest> parse_threads(const json& document) {
  TESSERA_TRY(std::string stage, name_in(document, "stage"));
  const auto threads = document.find("threads");
  if (threads == document.end() || !threads->is_number_integer() || threads->get<double>() < 1 ||
      threads->get<double>() > 65536) {
    return control_error("\"threads\" is missing or no whole number from 1 to 65536");
  }
  return ControlRequest(SetThreads{std::move(stage), threads->get<int>()});
}

}  // namespace

Result<ControlRequest> parse_control(std::string_view body) {
  const json document = json::parse(body, nullptr, false);
  if (!document.is_object()) return control_error("the body is no JSON object");
  if (document.contains("stage")) return parse_threads(document);
  if (const auto recording = document.find("recording"); recording != document.end()) {
    if (!recording->is_boolean()) return control_error("\"recording\" is neither true nor false");
    return ControlRequest(SetRecording{recording->get<bool>()});
  }
  if (document.contains("choice")) {
    TESSERA_TRY(std::string name, name_in(document, "choice"));
    TESSERA_TRY(std::string position, name_in(document, "position"));
    return ControlRequest(SetChoice{std::move(name), std::move(position)});
  }
  return control_error("the object has none of \"stage\", \"recording\", \"choice\"");
}

Result<metrics::HistoryQuestion> parse_history(const Parameters& parameters) {
  constexpr std::int64_t kLatest = std::numeric_limits<std::int64_t>::max() / 2;
  metrics::HistoryQuestion question;
  TESSERA_TRY(question.span.from_ns, number_of(parameters, {"from", 0, kLatest - 1, {}}));
  TESSERA_TRY(question.span.to_ns,
              number_of(parameters, {"to", question.span.from_ns + 1, kLatest, {}}));
  TESSERA_TRY(const std::int64_t events, number_of(parameters, {"events", 0, 100'000, 20'000}));
  TESSERA_TRY(question.bins_max, number_of(parameters, {"bins", 1, 4000, 1000}));
  question.events_max = static_cast<std::size_t>(events);
  return question;
}

Result<FollowRequest> parse_follow(const Parameters& parameters) {
  FollowRequest request;
  TESSERA_TRY(const std::int64_t from,
              number_of(parameters, {"from", 0, std::numeric_limits<std::int64_t>::max(), -1}));
  TESSERA_TRY(const std::int64_t interval, number_of(parameters, {"interval", 20, 60'000, 200}));
  if (from >= 0) request.from = static_cast<std::uint64_t>(from);
  request.interval_ms = static_cast<int>(interval);
  return request;
}

bool is_host_allowed(std::string_view host, std::string_view address) {
  // Without the port: "[::1]:8080", "127.0.0.1:8080", "localhost".
  const bool is_v6 = !host.empty() && host.front() == '[';
  const std::size_t end = is_v6 ? host.find(']') : host.find(':');
  if (is_v6 && end == std::string_view::npos) return false;
  const std::string_view port = host.substr(std::min(end, host.size()) + (is_v6 ? 1 : 0));
  if (!port.empty() && !whole_number(port.substr(1))) return false;
  const std::string name(is_v6 ? host.substr(1, end - 1) : host.substr(0, end));
  if (http::equal_ignoring_case(name, "localhost")) return true;
  if (!name.empty() && http::equal_ignoring_case(name, address)) return true;
  // "Any address" is no host's name; a browser that takes it for this machine's asks for others.
  if (name == "0.0.0.0" || name == "::") return false;
  std::array<unsigned char, sizeof(in6_addr)> ignored{};
  return inet_pton(is_v6 ? AF_INET6 : AF_INET, name.c_str(), ignored.data()) == 1;
}

bool is_own_page_or_program(const http::Request& request, std::string_view address) {
  if (!is_host_allowed(request.host, address)) return false;
  const std::string own = "http://" + request.host;
  const std::string_view site = request.field("Sec-Fetch-Site").value_or("none");
  if (site != "same-origin" && site != "none") return false;
  const std::optional<std::string_view> origin = request.field("Origin");
  if (origin && !http::equal_ignoring_case(*origin, own)) return false;
  // A whole address: this server's is followed by a path, and not by more of another name.
  const std::string_view referer = request.field("Referer").value_or(own);
  return http::equal_ignoring_case(referer.substr(0, own.size()), own) &&
         (referer.size() == own.size() || referer[own.size()] == '/');
}

Result<ListenAddress> parse_listen_address(std::string_view text) {
  ListenAddress listen;
  std::string_view port = text;
  if (const std::size_t colon = text.rfind(':'); colon != std::string_view::npos) {
    std::string_view address = text.substr(0, colon);
    if (address.size() > 2 && address.front() == '[' && address.back() == ']') {
      address = address.substr(1, address.size() - 2);
    }
    if (!address.empty()) listen.address = std::string(address);
    port = text.substr(colon + 1);
  }
  const std::optional<std::int64_t> number = whole_number(port);
  if (!number || *number < 0 || *number > 65535) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("'{}' is no place to listen at; allowed PORT or ADDRESS:PORT, a port "
                             "from 0 (any that is free) to 65535",
                             text)};
  }
  listen.port = static_cast<int>(*number);
  return listen;
}

}  // namespace tessera::dashboard
