#include "dashboard/server.h"

#include <fmt/format.h>
#include <httplib.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "dashboard/page.h"
#include "dashboard/wire.h"
#include "metrics/exports.h"

namespace tessera::dashboard {
namespace {

constexpr std::size_t kThreads = 24;  // each open connection takes one
constexpr int kFollowersMax = 16;     // connections of /events; the rest stay free for questions
constexpr std::size_t kBodyMax = 1 << 16;  // bytes of a request's body
constexpr std::size_t kEventsOfTick = 4000;

void answer_error(httplib::Response& response, int status, const Error& error) {
  response.status = status;
  response.set_content(error_text(error), "application/json");
}

void answer_json(httplib::Response& response, const std::string& text) {
  response.set_content(text, "application/json");
}

}  // namespace

class Server::Implementation {
 public:
  Implementation(metrics::Collector& collector, Controls* controls, ServerOptions options)
      : collector_(collector), controls_(controls), options_(std::move(options)) {}

  ~Implementation() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    stop_.notify_all();
    server_.stop();
    if (thread_.joinable()) thread_.join();
  }

  Status start() {
    configure();
    add_routes();
    const ListenAddress& listen = options_.listen;
    port_ = listen.port == 0 ? server_.bind_to_any_port(listen.address)
            : server_.bind_to_port(listen.address, listen.port) ? listen.port
                                                                : -1;
    if (port_ < 0) {
      return Error{
          ErrorCode::kUnavailable,
          fmt::format("cannot listen at {}:{}: the port is taken, or the address is not of "
                      "this machine; port 0 takes any that is free",
                      listen.address, listen.port)};
    }
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return {};
  }

  int port() const { return port_; }
  const std::string& address() const { return options_.listen.address; }

 private:
  void configure() {
    server_.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
    server_.set_payload_max_length(kBodyMax);
    server_.set_read_timeout(5);
    server_.set_write_timeout(5);
    server_.set_keep_alive_timeout(1);
    // Without SO_REUSEPORT: a second server at the same port is an error, not a lottery.
    server_.set_socket_options([](socket_t socket) {
      const int yes = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    });
    server_.set_default_headers({{"Content-Security-Policy", "default-src 'self'; img-src data:"},
                                 {"X-Content-Type-Options", "nosniff"},
                                 {"Cache-Control", "no-store"}});
    server_.set_pre_routing_handler(
        [this](const httplib::Request& request, httplib::Response& response) {
          return refuse_strangers(request, response);
        });
    server_.set_error_handler([](const httplib::Request& request, httplib::Response& response) {
      if (response.body.empty()) {
        answer_error(response, response.status,
                     {ErrorCode::kInvalidArgument,
                      fmt::format("{} {}: status {}; there are /, /state, /events, /history, "
                                  "/metrics, /trace and POST /control",
                                  request.method, request.path, response.status)});
      }
    });
  }

  httplib::Server::HandlerResponse refuse_strangers(const httplib::Request& request,
                                                    httplib::Response& response) {
    const std::string host = request.get_header_value("Host");
    const std::string origin = request.get_header_value("Origin");
    const bool same_origin = origin.empty() || origin == "http://" + host;
    if (is_host_allowed(host, options_.listen.address) && same_origin) {
      return httplib::Server::HandlerResponse::Unhandled;
    }
    answer_error(response, 403,
                 {ErrorCode::kInvalidArgument,
                  "a page of another origin asked; allowed are pages of this server, opened by its "
                  "address or as localhost"});
    return httplib::Server::HandlerResponse::Handled;
  }

  void add_routes() {
    for (const PageFile& file : page_files()) {
      server_.Get(std::string(file.path), [&file](const httplib::Request&, httplib::Response& r) {
        r.set_content(file.text.data(), file.text.size(), std::string(file.type));
      });
    }
    if (page_files().empty()) {
      server_.Get("/", [](const httplib::Request&, httplib::Response& response) {
        answer_error(response, 503,
                     {ErrorCode::kUnsupported,
                      "this program was built without npm and has no page; /state, /metrics and "
                      "`tessera top` work"});
      });
    }
    server_.Get("/state", [this](const httplib::Request&, httplib::Response& response) {
      answer_json(response, state_text(collector_, controls_, options_.title));
    });
    server_.Get("/metrics", [this](const httplib::Request&, httplib::Response& response) {
      response.set_content(metrics::prometheus_text(collector_.snapshot()),
                           "text/plain; version=0.0.4; charset=utf-8");
    });
    server_.Get("/trace", [this](const httplib::Request&, httplib::Response& response) {
      collector_.drain();
      response.set_header("Content-Disposition", "attachment; filename=\"tessera_trace.json\"");
      answer_json(response, metrics::perfetto_text(collector_.recent_events(),
                                                   collector_.recorder().sources()));
    });
    server_.Get("/history", [this](const httplib::Request& request, httplib::Response& response) {
      const Result<metrics::HistoryQuestion> question = parse_history(request.params);
      if (!question.ok()) return answer_error(response, 400, question.error());
      collector_.drain();
      answer_json(response, history_text(collector_.history(*question)));
    });
    server_.Get("/events", [this](const httplib::Request& request, httplib::Response& response) {
      follow(request, response);
    });
    server_.Post("/control", [this](const httplib::Request& request, httplib::Response& response) {
      control(request, response);
    });
  }

  void control(const httplib::Request& request, httplib::Response& response) {
    // A form of another page cannot send this type without being asked for permission first.
    if (request.get_header_value("Content-Type").rfind("application/json", 0) != 0) {
      return answer_error(
          response, 415,
          {ErrorCode::kInvalidArgument, "control: the body's type is not application/json"});
    }
    const Result<ControlRequest> parsed = parse_control(request.body);
    if (!parsed.ok()) return answer_error(response, 400, parsed.error());
    const Status done = apply(*parsed);
    if (!done.ok()) return answer_error(response, 400, done.error());
    answer_json(response, state_text(collector_, controls_, options_.title));
  }

  Status apply(const ControlRequest& request) {
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

  void follow(const httplib::Request& request, httplib::Response& response) {
    const Result<FollowRequest> wanted = parse_follow(request.params);
    if (!wanted.ok()) return answer_error(response, 400, wanted.error());
    if (followers_.fetch_add(1) >= kFollowersMax) {
      followers_.fetch_sub(1);
      return answer_error(
          response, 503,
          {ErrorCode::kUnavailable,
           fmt::format("{} pages follow already, no more are served; close one", kFollowersMax)});
    }
    const int interval_ms = wanted->interval_ms;
    response.set_chunked_content_provider(
        "text/event-stream",
        [this, next = wanted->from, interval_ms](std::size_t, httplib::DataSink& sink) mutable {
          return send_tick(sink, next, interval_ms);
        },
        [this](bool) { followers_.fetch_sub(1); });
  }

  // The state, then the events since the tick before, then a pause. False ends the connection.
  bool send_tick(httplib::DataSink& sink, std::uint64_t& next, int interval_ms) {
    const std::string state = state_text(collector_, controls_, options_.title);
    metrics::NewEvents news = collector_.events_since(next, next == UINT64_MAX ? 0 : kEventsOfTick);
    next = news.next;
    const std::string text = fmt::format("event: state\ndata: {}\n\nevent: timeline\ndata: {}\n\n",
                                         state, events_text(news));
    if (!sink.write(text.data(), text.size())) return false;
    std::unique_lock lock(mutex_);
    return !stop_.wait_for(lock, std::chrono::milliseconds(interval_ms),
                           [this] { return stopping_; });
  }

  metrics::Collector& collector_;
  Controls* const controls_;
  const ServerOptions options_;
  httplib::Server server_;
  int port_ = -1;
  std::atomic<int> followers_ = 0;
  std::mutex mutex_;  // of stopping_
  std::condition_variable stop_;
  bool stopping_ = false;
  std::thread thread_;
};

Server::Server(std::unique_ptr<Implementation> implementation)
    : implementation_(std::move(implementation)) {}
Server::~Server() = default;

Result<std::unique_ptr<Server>> Server::start(metrics::Collector& collector, Controls* controls,
                                              const ServerOptions& options) {
  auto implementation = std::make_unique<Implementation>(collector, controls, options);
  TESSERA_RETURN_IF_ERROR(implementation->start());
  return std::unique_ptr<Server>(new Server(std::move(implementation)));
}

int Server::port() const { return implementation_->port(); }

std::string Server::url() const {
  const std::string& address = implementation_->address();
  const bool is_v6 = address.find(':') != std::string::npos;
  return is_v6 ? fmt::format("http://[{}]:{}", address, port())
               : fmt::format("http://{}:{}", address, port());
}

}  // namespace tessera::dashboard
