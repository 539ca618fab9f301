#include "tools/cluster/watch_pool.h"

#include <fmt/format.h>

#include <chrono>
#include <deque>
#include <thread>

#include "cluster/fields.h"
#include "dashboard/pool_server.h"
#include "tessera/file.h"
#include "tools/cluster/pool_metrics.h"
#include "tools/service/until_end.h"
#include "tools/terminal/standard_streams.h"

namespace tessera::tools {
namespace {

constexpr std::size_t kEventsShown = 200;

std::int64_t now_ms() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

// What the page shows: the status as the master says it, the newest events, and why there is none.
struct PoolView {
  nlohmann::json status = nlohmann::json::object();
  std::deque<nlohmann::json> events;
  std::int64_t last_event = 0, asked_ms = 0;
  std::int64_t epoch = 0;  // events are numbered anew by each master
  std::string error;

  std::string text() const {
    nlohmann::json list = nlohmann::json::array();
    for (const nlohmann::json& event : events) list.push_back(event);
    return cluster::dump(
        {{"status", status}, {"events", list}, {"unix_ms", asked_ms}, {"error", error}});
  }
  void give_to(dashboard::PoolServer& server) const {
    server.set_state(text(), pool_metrics_text(status, error.empty()));
  }
};

void ask_again(const PoolQuestion& ask, PoolView& view) {
  auto status = ask({{"call", "status"}});
  view.error = status.ok() ? "" : status.error().to_string();
  if (!status.ok()) return;
  view.status = std::move(*status);
  view.asked_ms = now_ms();
  const auto epoch = view.status.value("epoch", std::int64_t{0});
  if (std::exchange(view.epoch, epoch) != epoch) view.last_event = 0;
  auto answer = ask({{"call", "events"}, {"after", view.last_event}});
  if (!answer.ok() || !answer->contains("events")) return;
  for (const nlohmann::json& event : (*answer)["events"]) {
    view.last_event = std::max(view.last_event, event.value("number", std::int64_t{0}));
    view.events.push_back(event);
    if (view.events.size() > kEventsShown) view.events.pop_front();
  }
}

Status read_status(const std::string& path, PoolView& view) {
  TESSERA_TRY(const std::vector<std::byte> bytes, read_file(path));
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  auto status = cluster::parse_object(text, "status of a pool");
  if (!status.ok()) return status.error().with_context("'" + path + "'");
  view.status = std::move(*status);
  view.asked_ms = now_ms();
  return {};
}

}  // namespace

Status watch_pool(const WatchPoolArguments& arguments, const PoolQuestion& ask) {
  TESSERA_TRY(const dashboard::ListenAddress listen,
              dashboard::parse_listen_address(arguments.http));
  PoolView view;
  if (arguments.file.empty()) {
    ask_again(ask, view);
    if (!view.error.empty() && view.asked_ms == 0) {
      TESSERA_TRY(view.status, ask({{"call", "status"}}));  // its error as it is
    }
  } else {
    TESSERA_RETURN_IF_ERROR(read_status(arguments.file, view));
  }
  TESSERA_TRY(const auto server, dashboard::PoolServer::start(listen));
  view.give_to(*server);
  end_on_signals();
  tell_event(arguments.json, {{"event", "start"}, {"url", server->url()}},
             fmt::format("{}   in a browser   (ends with Ctrl-C)", server->url()));
  TESSERA_RETURN_IF_ERROR(check_standard_output());
  const auto begin = std::chrono::steady_clock::now();
  auto next = begin + std::chrono::seconds(1);
  while (!was_interrupted()) {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    if (arguments.seconds > 0 && elapsed.count() >= arguments.seconds) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (!arguments.file.empty() || std::chrono::steady_clock::now() < next) continue;
    ask_again(ask, view);
    view.give_to(*server);
    next = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  }
  return check_standard_output();
}

}  // namespace tessera::tools
