// What a browser or a script may ask for, taken from its text. All of it is untrusted: each
// mistake is an error that names what is allowed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "base/result.h"
#include "http/message.h"
#include "metrics/collector.h"

namespace tessera::dashboard {

struct SetThreads {
  std::string stage;
  int threads = 1;
};
struct SetRecording {
  bool on = true;
};
struct SetChoice {
  std::string name, position;
};
using ControlRequest = std::variant<SetThreads, SetRecording, SetChoice>;

// The body of POST /control: {"stage": "pre", "threads": 4}, {"recording": false} or
// {"choice": "tune", "position": "auto"}.
Result<ControlRequest> parse_control(std::string_view body);

using http::Parameters;

// /history?from=NS&to=NS[&events=N][&bins=N]
Result<metrics::HistoryQuestion> parse_history(const Parameters& parameters);

// /events[?from=N][&interval=MS]
struct FollowRequest {
  std::uint64_t from = UINT64_MAX;  // number of the first event; UINT64_MAX: from now on
  int interval_ms = 200;
};
Result<FollowRequest> parse_follow(const Parameters& parameters);

// Whether a request's Host names this machine by its address, by "localhost" or as `address`. A
// page from elsewhere whose name was made to point here is refused.
bool is_host_allowed(std::string_view host, std::string_view address);

// Whether a page of the server at `address`, or something that is no page, sent the request: by
// Host, and by Origin, Sec-Fetch-Site and Referer where they are there. Another site's page sends
// at least one of them unless it suppresses them, which the limits of the server have to bear.
bool is_own_page_or_program(const http::Request& request, std::string_view address);

// "8080", ":8080" or "0.0.0.0:8080"; without an address 127.0.0.1.
struct ListenAddress {
  std::string address = "127.0.0.1";
  int port = 0;
};
Result<ListenAddress> parse_listen_address(std::string_view text);

}  // namespace tessera::dashboard
