// tessera serve: the Open Inference Protocol over HTTP and gRPC for a folder of models.
#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>

#include "base/secret_file.h"
#include "cluster/address.h"
#include "http/server.h"
#include "serve/access.h"
#include "serve/grpc/grpc_server.h"
#include "serve/http_front.h"
#include "serve/service.h"
#include "serve/trace_file.h"
#include "tessera/file.h"
#include "tools/service/actions.h"
#include "tools/service/arguments.h"
#include "tools/service/process.h"
#include "tools/service/service_manager.h"
#include "tools/service/until_end.h"
#include "tools/terminal/console.h"
#include "tools/terminal/standard_streams.h"

namespace tessera::tools {
namespace {

// What people and programs read.
void tell(const ServeArguments& arguments, const nlohmann::json& document,
          const std::string& text) {
  tell_event(arguments.json, document, text);
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

// As PEM; empty: without TLS.
struct Secrets {
  std::string certificate, key;
};

Result<Secrets> read_secrets(const ServeArguments& arguments) {
  Secrets secrets;
  if (arguments.certificate.empty() && arguments.key.empty()) return secrets;
  if (arguments.certificate.empty() || arguments.key.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "--tls-certificate and --tls-key belong together; give both"};
  }
  const InputOptions limits{.bytes_max = 1 << 20};
  TESSERA_TRY(secrets.certificate, read_text_file(arguments.certificate, limits));
  TESSERA_RETURN_IF_ERROR(check_secret_file(arguments.key));
  TESSERA_TRY(secrets.key, read_text_file(arguments.key, limits));
  return secrets;
}

// What listens, besides the service itself.
struct Listeners {
  std::unique_ptr<http::Server> http, metrics;
  std::unique_ptr<serve::GrpcServer> grpc;
};

// What was accepted is answered.
Status end_service(const ServeArguments& arguments, serve::Service& service, Listeners& listeners) {
  service.begin_shutdown();
  if (listeners.grpc != nullptr) listeners.grpc->begin_shutdown();
  const auto last =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(arguments.shutdown_seconds);
  while (!service.is_idle() && std::chrono::steady_clock::now() < last) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  constexpr std::chrono::seconds kForAnswers{5};
  bool all_answered = service.is_idle() && listeners.http->finish(kForAnswers);
  if (listeners.grpc != nullptr) all_answered = listeners.grpc->finish(kForAnswers) && all_answered;
  tell(arguments, {{"event", "end"}, {"all_answered", all_answered}},
       all_answered ? "ended; every request that was accepted is answered"
                    : "ended; some requests were not answered in time");
  return check_standard_output();
}

// Nothing but figures and health, so that no client's port need be open to what collects them.
void answer_metrics(serve::HttpFront& front, http::Request request, http::Reply reply) {
  const bool is_there = request.path == "/metrics" || request.path == "/healthz";
  if (is_there) return front.handle(std::move(request), std::move(reply));
  reply.send(http::error_response(404, "here are /metrics and /healthz"));
}

std::string host_of(const std::string& address) {
  return address.find(':') != std::string::npos ? "[" + address + "]" : address;
}

Result<Listeners> listen(const ServeArguments& arguments, const Secrets& secrets,
                         serve::Service& service, serve::HttpFront& front) {
  Listeners listeners;
  http::ServerOptions options{.address = arguments.address,
                              .port = arguments.port,
                              .limits = limits_of(arguments),
                              .handler = [&front](http::Request request, http::Reply reply) {
                                front.handle(std::move(request), std::move(reply));
                              }};
  options.certificate = secrets.certificate;
  options.key = secrets.key;
  TESSERA_TRY(listeners.http, http::Server::start(options));
  if (arguments.metrics_port) {
    options.port = *arguments.metrics_port;
    options.handler = [&front](http::Request request, http::Reply reply) {
      answer_metrics(front, std::move(request), std::move(reply));
    };
    TESSERA_TRY(listeners.metrics, http::Server::start(options));
  }
  if (arguments.grpc_port) {
    serve::GrpcOptions grpc;
    grpc.address = arguments.address;
    grpc.port = *arguments.grpc_port;
    grpc.request_bytes = static_cast<std::size_t>(arguments.request_bytes);
    grpc.certificate = secrets.certificate;
    grpc.key = secrets.key;
    TESSERA_TRY(listeners.grpc, serve::GrpcServer::start(service, grpc));
  }
  return listeners;
}

void tell_start(const ServeArguments& arguments, const Listeners& listeners) {
  const std::string host = host_of(arguments.address);
  const char* const scheme = arguments.certificate.empty() ? "http" : "https";
  nlohmann::json event = {{"event", "start"},
                          {"url", fmt::format("{}://{}:{}", scheme, host, listeners.http->port())}};
  std::string text = event["url"];
  if (listeners.grpc != nullptr) {
    event["grpc"] = fmt::format("{}:{}", host, listeners.grpc->port());
    text += "   gRPC at " + event["grpc"].get<std::string>();
  }
  if (listeners.metrics != nullptr) {
    event["metrics"] = fmt::format("{}://{}:{}/metrics", scheme, host, listeners.metrics->port());
    text += "   " + event["metrics"].get<std::string>();
  }
  tell(arguments, event, text + "   (ends with Ctrl-C)");
}

Status check_address(const ServeArguments& arguments) {
  if (is_loopback(arguments.address) || arguments.without_tls || !arguments.certificate.empty()) {
    return {};
  }
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("--http-address {} is not of this machine alone, and there is no TLS: "
                           "anybody who reaches it may use and change what is served; give "
                           "--tls-certificate and --tls-key, --without-tls too if that is meant, "
                           "or listen at 127.0.0.1 behind a proxy that has it",
                           arguments.address)};
}

// What models get is said elsewhere.
Status check_cluster(const std::string& name) {
  const auto address = cluster::parse_cluster_address(name);
  if (!address.ok()) return address.error().with_context("--cluster");
  const char* const key = address->has_cores ? "cores" : !address->arch.empty() ? "arch" : nullptr;
  if (key == nullptr) return {};
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("--cluster '{}': {}= is what each model gets; give --{}, or '{}' in its "
                           "config.json",
                           name, key, key, key)};
}

// Of models whose config.json says nothing else.
Status set_device(const ServeArguments& arguments, serve::ModelConfig& defaults) {
  if (!arguments.cluster.empty() && !arguments.device.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "--cluster and --device are both devices of models; give one of them"};
  }
  TESSERA_TRY(defaults.device,
              device_kind_from_name(arguments.device.empty() ? "host" : arguments.device));
  constexpr std::string_view kPrefix = "cluster:";
  if (!arguments.cluster.empty()) {
    const bool has_prefix = arguments.cluster.starts_with(kPrefix);
    defaults.cluster = has_prefix ? arguments.cluster : std::string(kPrefix) + arguments.cluster;
    TESSERA_RETURN_IF_ERROR(check_cluster(defaults.cluster));
  }
  // What the cards of a cluster are unless they are started otherwise.
  const char* const usual = arguments.cluster.empty() ? "tessera128" : "cloud16";
  defaults.arch = arguments.arch.empty() ? usual : arguments.arch;
  defaults.cores = arguments.cores;
  return {};
}

Result<serve::ServiceOptions> service_options(const ServeArguments& arguments) {
  serve::ServiceOptions options;
  options.repository = arguments.repository;
  TESSERA_RETURN_IF_ERROR(set_device(arguments, options.defaults));
  options.defaults.instances = arguments.instances;
  options.defaults.threads = arguments.threads;
  options.request_bytes = static_cast<std::size_t>(arguments.request_bytes);
  // Whoever reaches it could read and change memory of this machine.
  options.has_shared_memory = is_loopback(arguments.address) || !arguments.token_file.empty();
  options.log = [&arguments](const std::string& line) {
    tell(arguments, {{"event", "model"}, {"text", line}}, line);
  };
  if (!arguments.token_file.empty()) {
    const auto audit = [](const std::string& line) { show_lines(stderr, line + "\n"); };
    TESSERA_TRY(options.access, serve::Access::read(arguments.token_file, audit));
  }
  if (!arguments.trace_file.empty()) {
    TESSERA_TRY(options.trace, serve::TraceFile::open(arguments.trace_file));
  }
  return options;
}

Status serve_models(const ServeArguments& arguments) {
  TESSERA_RETURN_IF_ERROR(check_address(arguments));
  TESSERA_TRY(const Secrets secrets, read_secrets(arguments));
  TESSERA_TRY(serve::ServiceOptions options, service_options(arguments));
  const std::shared_ptr<serve::TraceFile> trace = options.trace;
  TESSERA_TRY(const std::unique_ptr<serve::Service> service,
              serve::Service::open(std::move(options)));
  serve::HttpFront front(*service);
  TESSERA_TRY(Listeners listeners, listen(arguments, secrets, *service, front));
  // Before it is told: whoever reads that it serves may end it.
  end_on_signals();
  tell_start(arguments, listeners);
  tell_service_manager("READY=1");
  TESSERA_RETURN_IF_ERROR(check_standard_output());
  wait_until_end(arguments.seconds);
  tell_service_manager("STOPPING=1");
  TESSERA_RETURN_IF_ERROR(end_service(arguments, *service, listeners));
  return trace == nullptr ? Status() : trace->status();
}

}  // namespace

Action serve_action(CLI::App& app) {
  auto arguments = std::make_shared<ServeArguments>();
  arguments->add_to(app);
  return [arguments] { return serve_models(*arguments); };
}

}  // namespace tessera::tools
