// The bytes of a connection, as a client sends them, through the parser with its limits and into
// the routes of the live page and their answers. The first byte says in which pieces they come;
// 'a': they are an answer, as the client of `tessera top` reads it.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "base/check.h"
#include "dashboard/routes.h"
#include "http/parser.h"
#include "metrics/collector.h"

namespace {

using namespace tessera;

// A run of one kernel with a few events.
struct Run {
  Run() {
    kernel = recorder.add_source({.kind = metrics::SourceKind::kKernel, .name = "k"}).value();
    for (std::int64_t i = 0; i < 20; ++i) {
      recorder.record({.kind = metrics::EventKind::kKernelRun,
                       .source = kernel,
                       .begin_ns = i * 1000,
                       .end_ns = i * 1000 + 500,
                       .packet = 1});
    }
  }
  metrics::Recorder recorder;
  metrics::Collector collector{recorder,
                               {.period = std::chrono::milliseconds(0), .events_kept = 64}};
  metrics::SourceId kernel;
  dashboard::Routes routes{collector, nullptr, "127.0.0.1", "fuzz"};
};

std::size_t size_of(const http::Response& response) {
  if (const auto* text = std::get_if<std::string>(&response.body)) return text->size();
  if (const auto* view = std::get_if<std::string_view>(&response.body)) return view->size();
  const auto& pieces = std::get<http::Pieces>(response.body);
  std::size_t bytes = 0;
  for (int i = 0; pieces.next && i < 3; ++i) {
    const http::Piece piece = pieces.next();
    bytes += piece.bytes.size();
    if (piece.is_last) break;
  }
  return bytes;
}

void check_request(const http::Request& request, const http::Limits& limits) {
  std::size_t head = 0;
  for (const http::Field& field : request.fields) head += field.name.size() + field.value.size();
  TESSERA_CHECK(head <= limits.header_bytes, "a head of {} bytes", head);
  TESSERA_CHECK(request.fields.size() <= limits.header_fields, "{} fields", request.fields.size());
  TESSERA_CHECK(request.body.size() <= limits.body_bytes, "a body of {}", request.body.size());
  TESSERA_CHECK(request.path.size() + request.query.size() <= limits.target_bytes,
                "a long address");
}

void serve(std::string_view bytes, std::size_t piece, const http::Limits& limits) {
  static Run run;
  http::RequestParser parser(limits);
  http::ParseState state = http::ParseState::kMore;
  while (!bytes.empty() || state == http::ParseState::kComplete) {
    if (state == http::ParseState::kMore) {
      const std::size_t taken = std::min(piece, bytes.size());
      state = parser.feed(bytes.substr(0, taken));
      bytes.remove_prefix(taken);
    }
    (void)parser.wants_continue();
    if (state == http::ParseState::kRefused) {
      TESSERA_CHECK(parser.refusal().status >= 400, "refused with {}", parser.refusal().status);
      return;
    }
    if (state != http::ParseState::kComplete) continue;
    const http::Request request = parser.take();
    check_request(request, limits);
    const http::Response response = run.routes.answer(request);
    TESSERA_CHECK(http::reason_of(response.status) != "Unknown", "status {}", response.status);
    TESSERA_CHECK(size_of(response) < 1'000'000, "a long answer to {}", request.path);
    (void)http::head_text(response, {.version = request.version});
    state = parser.feed({});
  }
  run.recorder.set_recording(true);
}

void read_answer(std::string_view bytes) {
  http::AnswerParser parser(1000);
  http::ParseState state = http::ParseState::kMore;
  while (!bytes.empty() && state == http::ParseState::kMore) {
    const std::size_t taken = std::min<std::size_t>(100, bytes.size());
    state = parser.feed(bytes.substr(0, taken));
    bytes.remove_prefix(taken);
  }
  if (state == http::ParseState::kMore) state = parser.end();
  if (state == http::ParseState::kComplete) {
    TESSERA_CHECK(parser.take().body.size() <= 1000, "a long answer");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  if (data[0] == 'a') {
    read_answer(bytes);
    return 0;
  }
  // Bounds that inputs of the usual length reach.
  const http::Limits limits = {
      .target_bytes = 200, .header_bytes = 600, .header_fields = 12, .body_bytes = 100};
  const std::size_t piece = std::size_t{1} << (data[0] % 13);
  serve(bytes, piece, limits);
  return 0;
}
