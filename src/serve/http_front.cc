#include "serve/http_front.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "serve/datatype.h"
#include "serve/infer_message.h"
#include "tessera/session.h"

namespace tessera::serve {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

std::string text_of(const Json& document) {
  return document.dump(-1, ' ', false, Json::error_handler_t::replace);
}

http::Response json_response(const Json& document, int status = 200) {
  return {.status = status, .type = "application/json", .body = text_of(document)};
}

http::Response empty_response(int status = 200) { return {.status = status}; }

int status_of(Problem problem) {
  switch (problem) {
    case Problem::kInput:
      return 400;
    case Problem::kNotFound:
      return 404;
    case Problem::kFull:
    case Problem::kLate:
    case Problem::kTooSlow:
    case Problem::kShuttingDown:
      return 503;
    case Problem::kUnauthenticated:
      return 401;
    case Problem::kForbidden:
      return 403;
    case Problem::kQuota:
      return 429;
    case Problem::kRun:
      break;
  }
  return 500;
}

http::Response failure_response(const Failure& failure) {
  http::Response response = json_response({{"error", failure.message}}, status_of(failure.problem));
  if (failure.problem == Problem::kFull || failure.problem == Problem::kQuota) {
    response.fields.push_back({"Retry-After", "1"});
  }
  if (failure.problem == Problem::kUnauthenticated) {
    response.fields.push_back({"WWW-Authenticate", "Bearer"});
  }
  return response;
}

http::Response not_found(const Error& error) {
  return failure_response({Problem::kNotFound, error.message});
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// Percent signs stand for bytes; one that does not stays as it is.
std::string decoded(std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_code = text[i] == '%' && i + 2 < text.size() && hex_digit(text[i + 1]) >= 0 &&
                         hex_digit(text[i + 2]) >= 0;
    if (is_code) {
      bytes += static_cast<char>(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2]));
      i += 2;
    } else {
      bytes += text[i];
    }
  }
  return bytes;
}

std::vector<std::string> parts_of(std::string_view path) {
  std::vector<std::string> parts;
  while (!path.empty()) {
    path.remove_prefix(1);  // the slash
    const std::size_t end = std::min(path.find('/'), path.size());
    parts.push_back(decoded(path.substr(0, end)));
    path.remove_prefix(end);
  }
  return parts;
}

Json tensors_json(const std::vector<TensorDescription>& tensors) {
  Json all = Json::array();
  for (const TensorDescription& tensor : tensors) {
    all.push_back(
        {{"name", tensor.name}, {"datatype", datatype_of(tensor.format)}, {"shape", tensor.dims}});
  }
  return all;
}

Json duration_json(const Duration& duration) {
  return {{"count", duration.count}, {"ns", duration.time.count()}};
}

Json statistics_json(const ServedModel& model) {
  const ModelStatistics of = model.statistics();
  Json batches = Json::array();
  for (const auto& [rows, batch] : of.batches) {
    batches.push_back({{"batch_size", rows},
                       {"compute_input", duration_json(batch.input)},
                       {"compute_infer", duration_json(batch.infer)},
                       {"compute_output", duration_json(batch.output)}});
  }
  return {{"name", model.name()},
          {"version", model.version()},
          {"last_inference", of.last_inference_ms},
          {"inference_count", of.success.count},
          {"execution_count", of.runs},
          {"inference_stats",
           {{"success", duration_json(of.success)},
            {"fail", duration_json(of.failure)},
            {"queue", duration_json(of.queue)},
            {"compute_input", duration_json(of.input)},
            {"compute_infer", duration_json(of.infer)},
            {"compute_output", duration_json(of.output)}}},
          {"batch_stats", std::move(batches)}};
}

http::Response response_of(InferOutcome outcome) {
  if (outcome.failure) return failure_response(*outcome.failure);
  InferAnswer answer = write_infer(outcome.model->name, outcome.model->version, outcome.request,
                                   outcome.model->form.outputs, outcome.outputs);
  http::Response response{
      .type = answer.header_bytes ? "application/octet-stream" : "application/json",
      .body = std::move(answer.body)};
  if (answer.header_bytes) {
    response.fields.push_back(
        {"Inference-Header-Content-Length", std::to_string(*answer.header_bytes)});
  }
  return response;
}

// A body that is encoded is not read; nothing where it is as it is.
std::optional<http::Response> refused_encoding(const http::Request& request) {
  for (const http::Field& field : request.fields) {
    if (!http::equal_ignoring_case(field.name, "Content-Encoding") ||
        http::equal_ignoring_case(field.value, "identity")) {
      continue;
    }
    http::Response refused = json_response(
        {{"error", fmt::format("{}: the body's Content-Encoding is '{}'; allowed is 'identity': "
                               "send the body as it is",
                               request.path, field.value)}},
        415);
    refused.fields.push_back({"Accept-Encoding", "identity"});
    return refused;
  }
  return std::nullopt;
}

// A body that is an object; an empty one is one without members.
Result<Json> object_of(const http::Request& request) {
  constexpr bool kThrows = false;
  Json document = Json::parse(request.body.empty() ? "{}" : request.body, nullptr, kThrows);
  if (!document.is_object()) {
    return invalid(fmt::format(
        "{}: the body is no JSON object; leave it out or send one such as {}", request.path, "{}"));
  }
  return document;
}

// Of "Inference-Header-Content-Length".
Result<std::optional<std::size_t>> header_bytes_of(const http::Request& request) {
  const auto field = request.field("Inference-Header-Content-Length");
  if (!field) return std::optional<std::size_t>();
  std::size_t bytes = 0;
  const std::string text(*field);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  if (error != std::errc{} || end != text.data() + text.size()) {
    return Error{ErrorCode::kInvalidArgument,
                 "Inference-Header-Content-Length is no number of bytes"};
  }
  return std::optional<std::size_t>(bytes);
}

}  // namespace

// What a request asks for.
struct HttpFront::Path {
  enum class What {
    kNothing,
    kLive,
    kReady,
    kMetrics,
    kServer,
    kModel,
    kModelReady,
    kModelStatistics,
    kInfer,
    kIndex,
    kLoad,
    kUnload,
    kRegions,
    kRegister,
    kUnregister,
  };
  What what = What::kNothing;
  bool is_post = false;                  // the method that it wants
  std::string model = {}, version = {};  // or a region

  static Path of(const std::string& path) {
    const std::vector<std::string> parts = parts_of(path);
    const auto is = [&](std::initializer_list<std::string_view> wanted) {
      return std::ranges::equal(parts, wanted);
    };
    if (is({"healthz"}) || is({"v2", "health", "live"})) return {What::kLive};
    if (is({"v2", "health", "ready"})) return {What::kReady};
    if (is({"metrics"})) return {What::kMetrics};
    if (is({"v2"})) return {What::kServer};
    if (is({"v2", "models", "stats"})) return {What::kModelStatistics};
    if (is({"v2", "repository", "index"})) return {What::kIndex, true};
    if (parts.size() < 3 || parts[0] != "v2") return {};
    if (parts[1] == "systemsharedmemory") return of_region(parts);
    if (parts[1] == "repository" && parts.size() == 5 && parts[2] == "models") {
      if (parts[4] == "load") return {What::kLoad, true, parts[3]};
      if (parts[4] == "unload") return {What::kUnload, true, parts[3]};
    }
    return parts[1] == "models" ? of_model(parts) : Path{};
  }

 private:
  // v2/systemsharedmemory[/region/NAME]/status|register|unregister
  static Path of_region(const std::vector<std::string>& parts) {
    const bool has_name = parts.size() == 5 && parts[2] == "region";
    if (!has_name && parts.size() != 3) return {};
    const std::string name = has_name ? parts[3] : "";
    if (parts.back() == "status") return {What::kRegions, false, name};
    if (parts.back() == "register" && has_name) return {What::kRegister, true, name};
    if (parts.back() == "unregister") return {What::kUnregister, true, name};
    return {};
  }

  static Path of_model(const std::vector<std::string>& parts) {
    Path path{What::kModel, false, parts[2]};
    std::size_t next = 3;
    if (next + 1 < parts.size() && parts[next] == "versions") {
      path.version = parts[next + 1];
      next += 2;
    }
    if (next == parts.size()) return path;
    if (next + 1 != parts.size()) return {};
    if (parts[next] == "ready") {
      path.what = What::kModelReady;
    } else if (parts[next] == "stats") {
      path.what = What::kModelStatistics;
    } else if (parts[next] == "infer") {
      path.what = What::kInfer;
      path.is_post = true;
    } else {
      return {};
    }
    return path;
  }
};

// ---- requests

void HttpFront::handle(http::Request request, http::Reply reply) {
  const Path path = Path::of(request.path);
  if (path.what == Path::What::kNothing) {
    return reply.send(failure_response(
        {Problem::kNotFound, fmt::format("there is nothing at {}", request.path)}));
  }
  const bool is_get = request.method == "GET" || request.method == "HEAD";
  if (path.is_post ? request.method != "POST" : !is_get) {
    http::Response refused = json_response(
        {{"error", fmt::format("{} takes {}", request.path, path.is_post ? "POST" : "GET")}}, 405);
    refused.fields.push_back({"Allow", path.is_post ? "POST" : "GET, HEAD"});
    return reply.send(std::move(refused));
  }
  // Whoever looks after the server has no token.
  if (path.what == Path::What::kLive) return reply.send(empty_response());
  if (path.what == Path::What::kReady) {
    const auto reason = service_.why_not_ready();
    return reply.send(reason ? failure_response(*reason) : empty_response());
  }
  const auto client = service_.client_of(request.field("Authorization").value_or(""), request.path);
  if (!client.ok()) {
    return reply.send(failure_response({Problem::kUnauthenticated, client.error().message}));
  }
  if (auto refused = refused_encoding(request)) return reply.send(std::move(*refused));
  switch (path.what) {
    case Path::What::kInfer:
      return infer(*client, path, request, std::move(reply));
    case Path::What::kLoad:
    case Path::What::kUnload:
      return change(*client, path, request, std::move(reply));
    default:
      return reply.send(answer(*client, request, path));
  }
}

http::Response HttpFront::answer(const Client& client, const http::Request& request,
                                 const Path& path) {
  switch (path.what) {
    case Path::What::kMetrics:
      return {.type = "text/plain; version=0.0.4", .body = service_.metrics(client)};
    case Path::What::kServer:
      return json_response(
          {{"name", "tessera"}, {"version", version()}, {"extensions", extensions()}});
    case Path::What::kModel:
      return model_metadata(client, path);
    case Path::What::kModelReady: {
      const auto model = service_.served(client, {path.model, path.version});
      if (model.ok()) return empty_response();
      return json_response({{"error", model.error().message}}, 503);
    }
    case Path::What::kModelStatistics:
      return model_statistics(client, path);
    case Path::What::kIndex:
      return repository_index(client, request);
    case Path::What::kRegions:
      return regions(client, path);
    case Path::What::kRegister:
      return add_region(client, request, path);
    case Path::What::kUnregister: {
      const Status removed = service_.regions().remove(client.name(), path.model);
      if (removed.ok()) return empty_response();
      return failure_response({Problem::kInput, removed.error().message});
    }
    default:
      break;
  }
  return failure_response({Problem::kRun, "nobody answers that"});
}

std::vector<std::string> HttpFront::extensions() const {
  std::vector<std::string> all = service_.extensions();
  all.emplace_back("binary_tensor_data");
  return all;
}

void HttpFront::infer(const Client& client, const Path& path, const http::Request& request,
                      http::Reply reply) {
  const auto header_bytes = header_bytes_of(request);
  const auto parse = [&](const ModelForm& form,
                         const RegionsOfClient& regions) -> Result<InferRequest> {
    if (!header_bytes.ok()) return header_bytes.error();
    return parse_infer(request.body, *header_bytes, form, regions);
  };
  const auto back = std::make_shared<http::Reply>(std::move(reply));
  service_.infer(client, {path.model, path.version}, parse, [back](InferOutcome outcome) -> Send {
    // Made here, sent when it has been counted.
    auto response = std::make_shared<http::Response>(response_of(std::move(outcome)));
    return [back, response] { back->send(std::move(*response)); };
  });
}

void HttpFront::change(const Client& client, const Path& path, const http::Request& request,
                       http::Reply reply) {
  const auto document = object_of(request);
  if (!document.ok()) {
    return reply.send(failure_response({Problem::kInput, document.error().message}));
  }
  RepositoryChange change{.model = path.model, .load = path.what == Path::What::kLoad};
  const Json parameters = document->value("parameters", Json::object());
  if (!parameters.is_object()) {
    return reply.send(failure_response(
        {Problem::kInput, fmt::format("{}: 'parameters' is no object", request.path)}));
  }
  for (const auto& [name, value] : parameters.items()) change.parameters.push_back(name);
  const auto back = std::make_shared<http::Reply>(std::move(reply));
  service_.change(client, change, [back](const std::optional<Failure>& failure) {
    back->send(failure ? failure_response(*failure) : empty_response());
  });
}

http::Response HttpFront::model_metadata(const Client& client, const Path& path) {
  const auto model = service_.served(client, {path.model, path.version});
  if (!model.ok()) return not_found(model.error());
  return json_response({{"name", (*model)->name()},
                        {"versions", service_.versions_of(path.model)},
                        {"platform", (*model)->platform()},
                        {"inputs", tensors_json((*model)->form().inputs)},
                        {"outputs", tensors_json((*model)->form().outputs)}});
}

http::Response HttpFront::model_statistics(const Client& client, const Path& path) {
  const auto named = service_.served(client, {path.model, path.version});
  if (!path.model.empty() && !named.ok()) return not_found(named.error());
  Json all = Json::array();
  for (const auto& model : service_.all_served(client)) {
    if (!path.model.empty() && model->name() != path.model) continue;
    if (!path.version.empty() && model->version() != path.version) continue;
    all.push_back(statistics_json(*model));
  }
  return json_response({{"model_stats", std::move(all)}});
}

http::Response HttpFront::repository_index(const Client& client, const http::Request& request) {
  const auto wanted = object_of(request);
  if (!wanted.ok()) return failure_response({Problem::kInput, wanted.error().message});
  const Json only_ready = wanted->value("ready", Json(false));
  if (!only_ready.is_boolean()) {
    return failure_response({Problem::kInput, fmt::format("{}: 'ready' is {}; it is to be true or "
                                                          "false",
                                                          request.path, text_of(only_ready))});
  }
  Json index = Json::array();
  for (const IndexEntry& entry : service_.index(client, only_ready.get<bool>())) {
    index.push_back({{"name", entry.name},
                     {"version", entry.version},
                     {"state", entry.state},
                     {"reason", entry.reason}});
  }
  return json_response(index);
}

http::Response HttpFront::regions(const Client& client, const Path& path) {
  Json all = Json::array();
  for (const RegionStatus& region : service_.regions().list(client.name())) {
    if (!path.model.empty() && region.name != path.model) continue;
    all.push_back({{"name", region.name},
                   {"key", region.key},
                   {"offset", region.offset},
                   {"byte_size", region.bytes}});
  }
  if (!path.model.empty() && all.empty()) {
    return failure_response(
        {Problem::kNotFound, fmt::format("there is no region '{}'", path.model)});
  }
  return json_response(all);
}

http::Response HttpFront::add_region(const Client& client, const http::Request& request,
                                     const Path& path) {
  const Json wanted = Json::parse(request.body, nullptr, false);
  const auto number = [&](const char* key) {
    return wanted.contains(key) ? wanted[key] : Json(0U);
  };
  const bool is_right = wanted.is_object() && wanted.contains("key") && wanted["key"].is_string() &&
                        wanted.contains("byte_size") && number("byte_size").is_number_unsigned() &&
                        number("offset").is_number_unsigned();
  if (!is_right) {
    return failure_response({Problem::kInput,
                             "it is to be an object with a text 'key', a number 'byte_size' and, "
                             "where it is not 0, a number 'offset'"});
  }
  const auto refused = service_.add_region(
      client, {path.model, wanted["key"].get<std::string>(), number("offset").get<std::uint64_t>(),
               number("byte_size").get<std::uint64_t>()});
  return refused ? failure_response(*refused) : empty_response();
}

}  // namespace tessera::serve
