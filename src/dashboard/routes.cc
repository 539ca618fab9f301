#include "dashboard/routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>
#include <variant>

#include "dashboard/page.h"
#include "dashboard/requests.h"
#include "dashboard/wire.h"
#include "metrics/exports.h"

namespace tessera::dashboard {
namespace {

using http::Request;
using http::Response;

constexpr const char* kJson = "application/json";
constexpr std::size_t kEventsOfTick = 4000;
constexpr std::size_t kBinsOfAnswer = 100'000;  // of all sources together; 64 bytes each

Response error_answer(int status, const Error& error) {
  return {.status = status, .type = kJson, .body = error_text(error)};
}

Response json_answer(std::string text) { return {.type = kJson, .body = std::move(text)}; }

}  // namespace

struct Routes::Route {
  const char* path;
  const char* method;   // GET answers HEAD too
  const char* allowed;  // for the field Allow
  Response (Routes::*answer)(const Request&);
};

const Routes::Route Routes::kRoutes[] = {
    {"/", "GET", "GET, HEAD", &Routes::page},
    {"/page.js", "GET", "GET, HEAD", &Routes::page},
    {"/page.css", "GET", "GET, HEAD", &Routes::page},
    {"/state", "GET", "GET, HEAD", &Routes::state},
    {"/events", "GET", "GET, HEAD", &Routes::events},
    {"/history", "GET", "GET, HEAD", &Routes::history},
    {"/metrics", "GET", "GET, HEAD", &Routes::figures},
    {"/trace", "GET", "GET, HEAD", &Routes::trace},
    {"/control", "POST", "POST", &Routes::control},
};

Routes::Routes(metrics::Collector& collector, Controls* controls, std::string address,
               std::string title)
    : collector_(collector),
      controls_(controls),
      address_(std::move(address)),
      title_(std::move(title)) {}

std::vector<http::Field> Routes::fields() {
  return {{"Content-Security-Policy",
           "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
           "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
          {"X-Frame-Options", "DENY"},
          {"X-Content-Type-Options", "nosniff"},
          {"Referrer-Policy", "no-referrer"},
          {"Cross-Origin-Resource-Policy", "same-origin"},
          {"Cross-Origin-Opener-Policy", "same-origin"},
          {"Cache-Control", "no-store"}};
}

const Routes::Route* Routes::find(const Request& request) {
  const auto* const found =
      std::find_if(std::begin(kRoutes), std::end(kRoutes),
                   [&request](const Route& route) { return request.path == route.path; });
  return found == std::end(kRoutes) ? nullptr : found;
}

bool Routes::may_wait(const Request& request) {
  const Route* const route = find(request);
  return route != nullptr && route->answer == &Routes::control;
}

Response Routes::answer(const Request& request) {
  if (!is_own_page_or_program(request, address_)) {
    return error_answer(403, {ErrorCode::kInvalidArgument,
                              "a page of another origin asked; allowed are pages of this server, "
                              "opened by its address or as localhost"});
  }
  const Route* const route = find(request);
  const bool has_method =
      route != nullptr && (request.method == route->method ||
                           (request.method == "HEAD" && std::string_view(route->method) == "GET"));
  if (has_method) return (this->*route->answer)(request);
  const int status = route == nullptr ? 404 : 405;
  Response refusal = error_answer(
      status, {ErrorCode::kInvalidArgument,
               fmt::format("{} {}: status {}; there are /, /state, /events, /history, "
                           "/metrics, /trace and POST /control",
                           request.method.substr(0, 40), request.path.substr(0, 200), status)});
  if (route != nullptr) refusal.fields.push_back({"Allow", route->allowed});
  return refusal;
}

Response Routes::page(const Request& request) {
  for (const PageFile& file : page_files()) {
    if (file.path == request.path) return {.type = std::string(file.type), .body = file.text};
  }
  return error_answer(503, {ErrorCode::kUnsupported,
                            "this program was built without npm and has no page; /state, /metrics "
                            "and `tessera top` work"});
}

template <typename Make>
const std::string& Routes::show(Shown& shown, Make make) {
  using std::chrono::steady_clock;
  constexpr int kTimesAsLongAsItTook = 4;
  const auto begin = steady_clock::now();
  if (begin < shown.until) return shown.text;
  shown.text = make();
  const auto end = steady_clock::now();
  shown.until = end + kTimesAsLongAsItTook * (end - begin);
  return shown.text;
}

const std::string& Routes::state_shown() {
  if (was_changed_.exchange(false)) state_.until = {};
  return show(state_, [this] { return state_text(collector_, controls_, title_); });
}

Response Routes::state(const Request&) { return json_answer(state_shown()); }

Response Routes::figures(const Request&) {
  return {
      .type = "text/plain; version=0.0.4; charset=utf-8",
      .body = show(figures_, [this] { return metrics::prometheus_text(collector_.snapshot()); })};
}

// The newest events take 10 MB, their text several times as much: one at a time, text as it goes.
Response Routes::trace(const Request& request) {
  Response response = {.type = kJson};
  response.fields.push_back({"Content-Disposition", "attachment; filename=\"tessera_trace.json\""});
  if (request.method == "HEAD") {
    response.body = http::Pieces{};
    return response;
  }
  if (!trace_.expired()) {
    return http::busy_response(
        "another client takes a trace, and one is served at a time; ask again");
  }
  collector_.drain();
  std::vector<metrics::Event> events = collector_.recent_events();
  const std::size_t bytes = events.capacity() * sizeof(metrics::Event);
  const auto pieces = std::make_shared<metrics::PerfettoPieces>(
      std::move(events), collector_.recorder().sources());  // shared with the response
  trace_ = pieces;
  constexpr std::size_t kOnePiece = 1 << 20;
  response.body =
      http::Pieces{.next =
                       [pieces] {
                         std::string text = pieces->next();
                         return http::Piece{.bytes = std::move(text), .is_last = pieces->at_end()};
                       },
                   .held_bytes = bytes + kOnePiece};
  return response;
}

Response Routes::history(const Request& request) {
  Result<metrics::HistoryQuestion> question = parse_history(request.parameters());
  if (!question.ok()) return error_answer(400, question.error());
  const std::size_t sources = std::max<std::size_t>(collector_.recorder().source_count(), 1);
  const auto bins_of_source = static_cast<std::int64_t>(kBinsOfAnswer / sources);
  question->bins_max = std::clamp<std::int64_t>(bins_of_source, 1, question->bins_max);
  collector_.drain();
  const auto text = std::make_shared<HistoryPieces>(collector_.history(*question));
  return {.type = kJson,
          .body = http::Pieces{.next =
                                   [text] {
                                     std::string piece = text->next();
                                     return http::Piece{.bytes = std::move(piece),
                                                        .is_last = text->at_end()};
                                   },
                               .held_bytes = text->held_bytes()}};
}

Response Routes::events(const Request& request) {
  const Result<FollowRequest> wanted = parse_follow(request.parameters());
  if (!wanted.ok()) return error_answer(400, wanted.error());
  return {
      .type = "text/event-stream",
      .body = http::Pieces{
          .next = [this, next = wanted->from,
                   interval_ms = wanted->interval_ms]() mutable { return tick(next, interval_ms); },
          .is_endless = true}};
}

// The state, then the events since the tick before, then a pause.
http::Piece Routes::tick(std::uint64_t& next, int interval_ms) {
  const std::string& state = state_shown();
  const metrics::NewEvents news =
      collector_.events_since(next, next == UINT64_MAX ? 0 : kEventsOfTick);
  next = news.next;
  return {.bytes = fmt::format("event: state\ndata: {}\n\nevent: timeline\ndata: {}\n\n", state,
                               events_text(news)),
          .pause = std::chrono::milliseconds(interval_ms)};
}

Response Routes::control(const Request& request) {
  // A form of another page cannot send this type without being asked for permission first.
  if (request.field("Content-Type").value_or("").rfind(kJson, 0) != 0) {
    return error_answer(
        415, {ErrorCode::kInvalidArgument, "control: the body's type is not application/json"});
  }
  const Status done = apply(request.body);
  was_changed_ = true;
  return done.ok() ? json_answer(state_text(collector_, controls_, title_))
                   : error_answer(400, done.error());
}

Status Routes::apply(const std::string& body) {
  TESSERA_TRY(const ControlRequest request, parse_control(body));
  if (const auto* recording = std::get_if<SetRecording>(&request)) {
    collector_.recorder().set_recording(recording->on);
    return {};
  }
  if (controls_ == nullptr) {
    return Error{ErrorCode::kUnsupported, "control: this run has nothing that can be changed"};
  }
  if (const auto* threads = std::get_if<SetThreads>(&request)) {
    return controls_->set_threads(threads->stage, threads->threads);
  }
  const auto& choice = std::get<SetChoice>(request);
  return controls_->choose(choice.name, choice.position);
}

}  // namespace tessera::dashboard
