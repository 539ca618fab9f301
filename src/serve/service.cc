#include "serve/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "serve/datatype.h"
#include "serve/metrics_text.h"
#include "tessera/session.h"

namespace tessera::serve {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kChangesMax = 64;  // loads and unloads that wait

http::Response json_response(const Json& document, int status = 200) {
  return {.status = status,
          .type = "application/json",
          .body = document.dump(-1, ' ', false, Json::error_handler_t::replace)};
}

http::Response empty_response(int status = 200) { return {.status = status}; }

std::vector<std::string> parts_of(std::string_view path) {
  std::vector<std::string> parts;
  while (!path.empty()) {
    path.remove_prefix(1);  // the slash
    const std::size_t end = std::min(path.find('/'), path.size());
    parts.emplace_back(path.substr(0, end));
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

int status_of(ServedModel::Refusal refusal) {
  switch (refusal) {
    case ServedModel::Refusal::kInput:
      return 400;
    case ServedModel::Refusal::kFull:
    case ServedModel::Refusal::kLate:
      return 503;
    case ServedModel::Refusal::kRun:
      break;
  }
  return 500;
}

http::Response response_of(ServedModel::Answer answer) {
  if (answer.failure) {
    const auto& [refusal, message] = *answer.failure;
    if (refusal == ServedModel::Refusal::kFull) return http::busy_response(message);
    return http::error_response(status_of(refusal), message);
  }
  http::Response response{
      .type = answer.answer.header_bytes ? "application/octet-stream" : "application/json",
      .body = std::move(answer.answer.body)};
  if (answer.answer.header_bytes) {
    response.fields.push_back(
        {"Inference-Header-Content-Length", std::to_string(*answer.answer.header_bytes)});
  }
  return response;
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
struct Service::Path {
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
  };
  What what = What::kNothing;
  bool is_post = false;  // the method that it wants
  std::string model = {}, version = {};

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
    if (parts[1] == "repository" && parts.size() == 5 && parts[2] == "models") {
      if (parts[4] == "load") return {What::kLoad, true, parts[3]};
      if (parts[4] == "unload") return {What::kUnload, true, parts[3]};
    }
    return parts[1] == "models" ? of_model(parts) : Path{};
  }

 private:
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

Result<std::unique_ptr<Service>> Service::open(ServiceOptions options) {
  TESSERA_TRY(const std::vector<std::string> names, model_names(options.repository));
  std::unique_ptr<Service> service(new Service(std::move(options)));
  for (const std::string& name : names) {
    service->models_[name].state = "LOADING";
    service->waiting_.push_back({.model = name, .load = true, .done = {}});
  }
  service->first_loads_ = names.size();
  try {
    service->worker_ = std::thread([raw = service.get()] { raw->work(); });
  } catch (const std::system_error& error) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("the system has no thread to load models ({}); end some, or allow "
                             "more (ulimit -u)",
                             error.what())};
  }
  return service;
}

Service::~Service() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = ending_ = true;
  }
  changed_.notify_all();
  if (worker_.joinable()) worker_.join();
}

void Service::begin_shutdown() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
}

bool Service::is_idle() const { return *open_ == 0; }

Service::Loaded Service::loaded() const {
  const std::lock_guard lock(mutex_);
  Loaded loaded{.done = first_loads_ == 0};
  for (const auto& [name, entry] : models_) {
    (entry.state == "READY" && entry.reasons.empty() ? loaded.ready : loaded.failed) += 1;
  }
  return loaded;
}

void Service::log(const std::string& line) const {
  if (options_.log) options_.log(line);
}

// ---- requests

void Service::handle(http::Request request, http::Reply reply) {
  const Path path = Path::of(request.path);
  if (path.what == Path::What::kNothing) {
    return reply.send(
        http::error_response(404, fmt::format("there is nothing at {}", request.path)));
  }
  const bool is_get = request.method == "GET" || request.method == "HEAD";
  if (path.is_post ? request.method != "POST" : !is_get) {
    http::Response refused = http::error_response(
        405, fmt::format("{} takes {}", request.path, path.is_post ? "POST" : "GET"));
    refused.fields.push_back({"Allow", path.is_post ? "POST" : "GET, HEAD"});
    return reply.send(std::move(refused));
  }
  switch (path.what) {
    case Path::What::kInfer:
      return infer(path, request, std::move(reply));
    case Path::What::kLoad:
    case Path::What::kUnload:
      return change(path, std::move(reply));
    default:
      return reply.send(answer(request, path));
  }
}

http::Response Service::answer(const http::Request& request, const Path& path) {
  switch (path.what) {
    case Path::What::kLive:
      return empty_response();
    case Path::What::kReady: {
      const std::lock_guard lock(mutex_);
      if (stopping_) return http::error_response(503, "the server is shutting down");
      if (first_loads_ > 0) return http::error_response(503, "models are still being loaded");
      return empty_response();
    }
    case Path::What::kMetrics:
      return metrics();
    case Path::What::kServer:
      return server_metadata();
    case Path::What::kModel:
      return model_metadata(path);
    case Path::What::kModelReady:
      return model_ready(path);
    case Path::What::kModelStatistics:
      return model_statistics(path);
    case Path::What::kIndex:
      return repository_index(request);
    default:
      break;
  }
  return http::error_response(500, "nobody answers that");
}

void Service::infer(const Path& path, const http::Request& request, http::Reply reply) {
  const auto model = served(path);
  if (!model.ok()) return reply.send(http::error_response(404, model.error().message));
  const auto header_bytes = header_bytes_of(request);
  if (!header_bytes.ok())
    return reply.send(http::error_response(400, header_bytes.error().message));
  {
    std::unique_lock lock(mutex_);
    if (stopping_) {
      lock.unlock();
      return reply.send(http::error_response(503, "the server is shutting down"));
    }
    ++*open_;
  }
  const auto back = std::make_shared<http::Reply>(std::move(reply));
  (*model)->infer(request.body, *header_bytes, [open = open_, back](ServedModel::Answer answer) {
    back->send(response_of(std::move(answer)));
    --*open;
  });
}

void Service::change(const Path& path, http::Reply reply) {
  const auto back = std::make_shared<http::Reply>(std::move(reply));
  std::unique_lock lock(mutex_);
  if (stopping_ || waiting_.size() >= kChangesMax) {
    const bool is_full = !stopping_;
    lock.unlock();
    return back->send(is_full ? http::busy_response("more loads wait than have been made so far")
                              : http::error_response(503, "the server is shutting down"));
  }
  ++*open_;
  waiting_.push_back({.model = path.model,
                      .load = path.what == Path::What::kLoad,
                      .done = [open = open_, back](http::Response response) {
                        back->send(std::move(response));
                        --*open;
                      }});
  changed_.notify_all();
}

Result<std::shared_ptr<ServedModel>> Service::served(const Path& path) const {
  const std::lock_guard lock(mutex_);
  const auto found = models_.find(path.model);
  if (found == models_.end()) {
    return Error{ErrorCode::kInvalidArgument, fmt::format("there is no model '{}'", path.model)};
  }
  const auto& versions = found->second.versions;
  if (versions.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("model '{}' is {}", path.model,
                             found->second.state == "LOADING" ? "being loaded" : "not loaded")};
  }
  if (path.version.empty()) return versions.rbegin()->second;
  for (const auto& [number, model] : versions) {
    if (model->version() == path.version) return model;
  }
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("model '{}' has no version '{}'", path.model, path.version)};
}

std::vector<std::shared_ptr<ServedModel>> Service::all_served() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<ServedModel>> all;
  for (const auto& [name, entry] : models_) {
    for (const auto& [number, model] : entry.versions) all.push_back(model);
  }
  return all;
}

http::Response Service::server_metadata() const {
  return json_response(
      {{"name", "tessera"},
       {"version", version()},
       {"extensions",
        {"binary_tensor_data", "model_repository", "statistics", "schedule_policy"}}});
}

http::Response Service::model_metadata(const Path& path) {
  const auto model = served(path);
  if (!model.ok()) return http::error_response(404, model.error().message);
  Json versions = Json::array();
  for (const auto& each : all_served()) {
    if (each->name() == path.model) versions.push_back(each->version());
  }
  return json_response({{"name", (*model)->name()},
                        {"versions", versions},
                        {"platform", (*model)->platform()},
                        {"inputs", tensors_json((*model)->network().inputs())},
                        {"outputs", tensors_json((*model)->network().outputs())}});
}

http::Response Service::model_ready(const Path& path) {
  const auto model = served(path);
  if (!model.ok()) return http::error_response(503, model.error().message);
  return empty_response();
}

http::Response Service::model_statistics(const Path& path) {
  Json all = Json::array();
  for (const auto& model : all_served()) {
    if (!path.model.empty() && model->name() != path.model) continue;
    if (!path.version.empty() && model->version() != path.version) continue;
    const ModelStatistics of = model->statistics();
    all.push_back({{"name", model->name()},
                   {"version", model->version()},
                   {"last_inference", of.last_inference_ms},
                   {"inference_count", of.success.count},
                   {"execution_count", of.success.count},
                   {"inference_stats",
                    {{"success", duration_json(of.success)},
                     {"fail", duration_json(of.failure)},
                     {"queue", duration_json(of.queue)},
                     {"compute_input", duration_json(of.input)},
                     {"compute_infer", duration_json(of.infer)},
                     {"compute_output", duration_json(of.output)}}}});
  }
  const auto named = served(path);
  if (!path.model.empty() && !named.ok()) return http::error_response(404, named.error().message);
  return json_response({{"model_stats", std::move(all)}});
}

http::Response Service::repository_index(const http::Request& request) {
  const Json wanted = Json::parse(request.body.empty() ? "{}" : request.body, nullptr, false);
  const bool only_ready = wanted.is_object() && wanted.value("ready", Json(false)) == true;
  Json index = Json::array();
  const std::lock_guard lock(mutex_);
  for (const auto& [name, entry] : models_) {
    for (const auto& [number, model] : entry.versions) {
      index.push_back(
          {{"name", name}, {"version", model->version()}, {"state", "READY"}, {"reason", ""}});
    }
    if (only_ready) continue;
    for (const auto& [number, reason] : entry.reasons) {
      index.push_back({{"name", name},
                       {"version", number == 0 ? "" : std::to_string(number)},
                       {"state", "UNAVAILABLE"},
                       {"reason", reason}});
    }
    if (entry.versions.empty() && entry.reasons.empty()) {
      index.push_back({{"name", name}, {"version", ""}, {"state", entry.state}, {"reason", ""}});
    }
  }
  return json_response(index);
}

http::Response Service::metrics() {
  return {.type = "text/plain; version=0.0.4", .body = metrics_text(all_served())};
}

// ---- loading

void Service::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
    if (ending_) return;
    Work next = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    http::Response response = next.load ? load(next.model) : unload(next.model);
    lock.lock();
    if (!next.done && first_loads_ > 0) --first_loads_;
    lock.unlock();
    if (next.done) next.done(std::move(response));
    lock.lock();
  }
}

void Service::set_state(const std::string& name, const std::string& state) {
  const std::lock_guard lock(mutex_);
  models_[name].state = state;
}

// The versions that were there serve until the new ones do.
http::Response Service::load(const std::string& name) {
  const auto found = find_model(options_.repository, name, options_.defaults);
  std::map<std::int64_t, std::string> reasons;
  std::map<std::int64_t, std::shared_ptr<ServedModel>> versions;
  if (!found.ok()) {
    const std::lock_guard lock(mutex_);
    if (!models_.contains(name)) {
      return http::error_response(400, fmt::format("model '{}': {}", name, found.error().message));
    }
    reasons[0] = found.error().message;
  } else {
    set_state(name, "LOADING");
    for (const ModelFile& file : found->versions) {
      auto model = ServedModel::load(name, file, found->config);
      if (model.ok()) {
        versions[file.version] = std::move(*model);
      } else {
        reasons[file.version] = model.error().message;
      }
    }
  }
  std::string text;
  for (const auto& [version, reason] : reasons) {
    text += fmt::format("{}{}{}", text.empty() ? "" : "; ",
                        version == 0 ? "" : fmt::format("version {}: ", version), reason);
  }
  const std::size_t count = versions.size();
  {
    const std::lock_guard lock(mutex_);
    Entry& entry = models_[name];
    if (count > 0) entry.versions.swap(versions);
    entry.reasons = reasons;
    entry.state = entry.versions.empty() ? "UNAVAILABLE" : "READY";
  }
  if (!text.empty()) {
    log(fmt::format("{}: {}", name, text));
    return http::error_response(400, fmt::format("model '{}': {}", name, text));
  }
  log(fmt::format("{}: ready, {} version{}", name, count, count == 1 ? "" : "s"));
  return empty_response();
}

// Requests that are on their way keep the model until they are answered.
http::Response Service::unload(const std::string& name) {
  std::map<std::int64_t, std::shared_ptr<ServedModel>> versions;
  {
    const std::lock_guard lock(mutex_);
    const auto found = models_.find(name);
    if (found == models_.end()) {
      return http::error_response(404, fmt::format("there is no model '{}'", name));
    }
    versions.swap(found->second.versions);
    found->second.reasons = {{0, "unloaded"}};
    found->second.state = "UNAVAILABLE";
  }
  log(fmt::format("{}: unloaded", name));
  return empty_response();
}

}  // namespace tessera::serve
