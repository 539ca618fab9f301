// tessera serve: the Open Inference Protocol over HTTP for a folder of models.
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "http/server.h"
#include "serve/service.h"
#include "tools/terminal/console.h"
#include "tools/terminal/standard_streams.h"
#include "tools/verb.h"

namespace tessera::tools {
namespace {

struct ServeArguments {
  std::string repository;
  std::string address = "127.0.0.1";
  int port = 8000;
  bool without_tls = false;
  std::string device = "host", arch = "tessera128";
  int instances = 1, threads = 0;
  std::int64_t request_bytes = std::int64_t{64} << 20;
  int connections = 1024;
  double shutdown_seconds = 30, seconds = 0;
  bool json = false;
};

std::atomic<bool> serve_interrupted = false;

bool is_loopback(const std::string& address) {
  return address == "localhost" || address == "::1" || address.starts_with("127.");
}

// What people and programs read: each line is one event, and goes out at once.
void tell(const ServeArguments& arguments, const nlohmann::json& document,
          const std::string& text) {
  show_lines(arguments.json ? json_line(document) + "\n" : text + "\n");
  std::fflush(stdout);
}

http::Limits limits_of(const ServeArguments& arguments) {
  http::Limits limits;
  limits.body_bytes = static_cast<std::size_t>(arguments.request_bytes);
  limits.connections = static_cast<std::size_t>(arguments.connections);
  limits.request_time = std::chrono::minutes(1);
  limits.idle_time = std::chrono::minutes(2);
  limits.handler_time = std::chrono::minutes(10);  // a model is compiled, or a queue is long
  limits.response_bytes = std::size_t{256} << 20;
  limits.socket_buffer_bytes = std::size_t{1} << 20;
  return limits;
}

// Until it is time or an interrupt.
void wait_for_end(const ServeArguments& arguments) {
  const auto begin = std::chrono::steady_clock::now();
  while (!serve_interrupted) {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    if (arguments.seconds > 0 && elapsed.count() >= arguments.seconds) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

// What was accepted is answered.
Status end_service(const ServeArguments& arguments, serve::Service& service, http::Server& server) {
  service.begin_shutdown();
  const auto last =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(arguments.shutdown_seconds);
  while (!service.is_idle() && std::chrono::steady_clock::now() < last) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  constexpr std::chrono::seconds kForAnswers{5};
  const bool all_answered = service.is_idle() && server.finish(kForAnswers);
  tell(arguments, {{"event", "end"}, {"all_answered", all_answered}},
       all_answered ? "ended; every request that was accepted is answered"
                    : "ended; some requests were not answered in time");
  return check_standard_output();
}

Status serve_models(const ServeArguments& arguments) {
  if (!is_loopback(arguments.address) && !arguments.without_tls) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("--http-address {} is not of this machine alone, and there is no TLS: "
                             "anybody who reaches it "
                             "may use and change what is served; give --without-tls too if that is "
                             "meant, or listen at "
                             "127.0.0.1 behind a proxy that has it",
                             arguments.address)};
  }
  serve::ServiceOptions options;
  options.repository = arguments.repository;
  TESSERA_TRY(options.defaults.device, device_kind_from_name(arguments.device));
  options.defaults.arch = arguments.arch;
  options.defaults.instances = arguments.instances;
  options.defaults.threads = arguments.threads;
  options.log = [&arguments](const std::string& line) {
    tell(arguments, {{"event", "model"}, {"text", line}}, line);
  };
  TESSERA_TRY(const std::unique_ptr<serve::Service> service,
              serve::Service::open(std::move(options)));
  TESSERA_TRY(const std::unique_ptr<http::Server> server,
              http::Server::start({.address = arguments.address,
                                   .port = arguments.port,
                                   .limits = limits_of(arguments),
                                   .handler = [&service](http::Request request, http::Reply reply) {
                                     service->handle(std::move(request), std::move(reply));
                                   }}));
  const bool is_v6 = arguments.address.find(':') != std::string::npos;
  const std::string host = is_v6 ? "[" + arguments.address + "]" : arguments.address;
  const std::string url = fmt::format("http://{}:{}", host, server->port());
  tell(arguments, {{"event", "start"}, {"url", url}}, fmt::format("{}   (ends with Ctrl-C)", url));
  TESSERA_RETURN_IF_ERROR(check_standard_output());
  std::signal(SIGINT, [](int) { serve_interrupted = true; });
  std::signal(SIGTERM, [](int) { serve_interrupted = true; });
  wait_for_end(arguments);
  return end_service(arguments, *service, *server);
}

}  // namespace

Action serve_verb(CLI::App& app) {
  auto arguments = std::make_shared<ServeArguments>();
  app.add_option("--model-repository", arguments->repository,
                 "folder of models: MODEL/VERSION/model.onnx (or .tpkg, .tprog)")
      ->required();
  app.add_option("--http-port", arguments->port, "0: any that is free")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  app.add_option("--http-address", arguments->address, "where it listens")->capture_default_str();
  app.add_flag("--without-tls", arguments->without_tls,
               "listen at an address that others reach, too");
  app.add_option("--device", arguments->device, "host, sim or ref, unless a config.json says")
      ->capture_default_str();
  app.add_option("--arch", arguments->arch, "profile or architecture file, likewise")
      ->capture_default_str();
  app.add_option("--instances", arguments->instances, "runs of a model side by side, likewise")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--threads", arguments->threads, "of host for each model, likewise; 0: all cores")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app.add_option("--request-bytes", arguments->request_bytes, "that a request may have")
      ->check(CLI::Range(std::int64_t{1} << 10, std::int64_t{1} << 30))
      ->capture_default_str();
  app.add_option("--connections", arguments->connections, "at once")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  app.add_option("--shutdown-seconds", arguments->shutdown_seconds,
                 "that accepted requests have to be answered at the end")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  app.add_option("--seconds", arguments->seconds, "end after so long; 0: with a signal")
      ->check(CLI::Range(0.0, 1e9));
  app.add_flag("--json", arguments->json, "an object a line for each event");
  return [arguments] { return serve_models(*arguments); };
}

}  // namespace tessera::tools
