#include "serve/service.h"

#include <fmt/format.h>

#include <chrono>
#include <system_error>
#include <utility>

#include "base/freed_memory.h"
#include "base/guarded.h"
#include "serve/metrics_text.h"

namespace tessera::serve {
namespace {

constexpr std::size_t kChangesMax = 64;  // loads and unloads that wait

// Why versions are not there, by their numbers; 0: the model itself.
std::string text_of(const std::map<std::int64_t, std::string>& reasons) {
  std::string text;
  for (const auto& [version, reason] : reasons) {
    text += fmt::format("{}{}{}", text.empty() ? "" : "; ",
                        version == 0 ? "" : fmt::format("version {}: ", version), reason);
  }
  return text;
}

// What is in a model's folder and is not served.
std::string notes_of(const std::vector<LeftOut>& left_out) {
  std::string text;
  for (const LeftOut& each : left_out) {
    text += fmt::format("; folder '{}' is left out: {}", each.folder, each.reason);
  }
  return text;
}

}  // namespace

Result<std::unique_ptr<Service>> Service::open(ServiceOptions options) {
  TESSERA_TRY(const std::vector<std::string> names, model_names(options.repository));
  std::unique_ptr<Service> service(new Service(std::move(options)));
  for (const std::string& name : names) {
    service->models_[name].state = "LOADING";
    service->waiting_.push_back({.model = name, .load = true, .done = {}, .is_first = true});
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

// ---- what is asked

Result<Client> Service::client_of(std::string_view authorization, const std::string& what) const {
  if (options_.access == nullptr) return Client{};
  return options_.access->client_of(authorization, what);
}

void Service::refuse(const Client& client, const std::string& what, const std::string& why) const {
  if (options_.access != nullptr) options_.access->note(client.name(), what, why);
}

std::optional<Failure> Service::why_not_ready() const {
  const std::lock_guard lock(mutex_);
  if (stopping_) return kShutsDown;
  if (first_loads_ > 0) return Failure{Problem::kShuttingDown, "models are still being loaded"};
  return {};
}

std::vector<std::string> Service::extensions() const {
  std::vector<std::string> all = {"model_repository", "statistics", "schedule_policy"};
  if (options_.has_shared_memory) all.emplace_back("system_shared_memory");
  return all;
}

std::optional<Failure> Service::add_region(const Client& client, const RegionStatus& region) {
  if (!options_.has_shared_memory) {
    return Failure{Problem::kForbidden,
                   "shared memory is off: others than this machine reach the server, and it has no "
                   "tokens; give it --token-file, or let it listen at 127.0.0.1"};
  }
  if (auto refused = client.may_share(region.key)) {
    refuse(client, fmt::format("shared memory {}", region.key), "not its key");
    return refused;
  }
  const Status added = regions_.add(client.name(), region);
  if (added.ok()) return {};
  return Failure{Problem::kInput, added.error().message};
}

Result<std::shared_ptr<ServedModel>> Service::served(const Client& client,
                                                     const ModelName& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = models_.find(name.model);
  // Another tenant's is not there either.
  if (found == models_.end() || !client.may_use(name.model)) {
    return Error{ErrorCode::kInvalidArgument, fmt::format("there is no model '{}'", name.model)};
  }
  const auto& [versions, reasons, state] = found->second;
  if (versions.empty()) {
    if (state == "LOADING") return invalid(fmt::format("model '{}' is being loaded", name.model));
    return invalid(fmt::format("model '{}' is not loaded{}{}", name.model,
                               reasons.empty() ? "" : ": ", text_of(reasons)));
  }
  if (name.version.empty()) return versions.rbegin()->second;
  for (const auto& [number, model] : versions) {
    if (model->version() == name.version) return model;
  }
  for (const auto& [number, reason] : reasons) {
    if (number == 0 || std::to_string(number) != name.version) continue;
    return invalid(
        fmt::format("version {} of model '{}' is not loaded: {}", number, name.model, reason));
  }
  return invalid(fmt::format("model '{}' has no version '{}'", name.model, name.version));
}

std::vector<std::string> Service::versions_of(const std::string& model) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> versions;
  const auto found = models_.find(model);
  if (found == models_.end()) return versions;
  for (const auto& [number, each] : found->second.versions) versions.push_back(each->version());
  return versions;
}

std::vector<std::shared_ptr<ServedModel>> Service::all_served(const Client& client) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<ServedModel>> all;
  for (const auto& [name, entry] : models_) {
    if (!client.may_use(name)) continue;
    for (const auto& [number, model] : entry.versions) all.push_back(model);
  }
  return all;
}

std::vector<IndexEntry> Service::index(const Client& client, bool only_ready) const {
  const std::lock_guard lock(mutex_);
  std::vector<IndexEntry> index;
  for (const auto& [name, entry] : models_) {
    if (!client.may_use(name)) continue;
    for (const auto& [number, model] : entry.versions) {
      index.push_back({name, model->version(), "READY", ""});
    }
    if (only_ready) continue;
    for (const auto& [number, reason] : entry.reasons) {
      index.push_back({name, number == 0 ? "" : std::to_string(number), "UNAVAILABLE", reason});
    }
    if (entry.versions.empty() && entry.reasons.empty()) {
      index.push_back({name, "", entry.state, ""});
    }
  }
  return index;
}

void Service::infer(const Client& client, const ModelName& name, const Parse& parse,
                    Encode encode) {
  const auto begin = std::chrono::steady_clock::now();
  const auto fail = [&](Failure failure) {
    if (failure.problem == Problem::kQuota) refuse(client, name.model, failure.message);
    encode({{}, {}, nullptr, std::move(failure)})();
  };
  const auto model = served(client, name);
  if (!model.ok()) {
    if (!client.may_use(name.model)) refuse(client, name.model, "not its model");
    return fail({Problem::kNotFound, model.error().message});
  }
  if (auto refused = client.enter()) return fail(std::move(*refused));
  {
    std::unique_lock lock(mutex_);
    if (stopping_) {
      lock.unlock();
      client.leave();
      return fail(kShutsDown);
    }
    ++*open_;
  }
  const RegionsOfClient regions = {options_.has_shared_memory ? &regions_ : nullptr, client.name(),
                                   options_.request_bytes};
  // What is thrown is answered, too.
  auto request = guarded("reading the request", [&] { return parse((*model)->form(), regions); });
  (*model)->infer(std::move(request), begin,
                  [open = open_, client, begin, encode = std::move(encode)](InferOutcome outcome) {
                    const bool has_failed = outcome.failure.has_value();
                    const auto device = outcome.device_time;
                    Send send = encode(std::move(outcome));
                    return [open, client, begin, has_failed, device, send = std::move(send)] {
                      if (has_failed) {
                        client.note_failure();
                      } else {
                        client.note_answer(std::chrono::steady_clock::now() - begin, device);
                      }
                      client.leave();
                      send();
                      --*open;
                    };
                  });
}

void Service::change(const Client& client, const RepositoryChange& change, Changed done) {
  const auto& [model, load, parameters] = change;
  if (!client.is_operator()) {
    refuse(client, fmt::format("{} {}", load ? "load" : "unload", model), "no operator");
    return done(Failure{Problem::kForbidden, "only an operator loads and unloads models"});
  }
  if (load && !parameters.empty()) {
    return done(Failure{
        Problem::kInput,
        fmt::format("model '{}': a load has the parameter '{}', and takes none; put config.json "
                    "and the versions' files in the model's folder, and load it without",
                    model, parameters.front())});
  }
  std::unique_lock lock(mutex_);
  if (stopping_ || waiting_.size() >= kChangesMax) {
    const bool is_full = !stopping_;
    lock.unlock();
    return done(is_full ? Failure{Problem::kFull, "more loads wait than have been made so far"}
                        : kShutsDown);
  }
  ++*open_;
  waiting_.push_back({.model = model,
                      .load = load,
                      .done =
                          [open = open_, done = std::move(done)](std::optional<Failure> failure) {
                            done(std::move(failure));
                            --*open;
                          },
                      .is_first = false});
  changed_.notify_all();
}

std::string Service::metrics(const Client& client) const {
  return metrics_text(all_served(client), options_.access == nullptr
                                              ? std::map<std::string, TenantStatistics>()
                                              : options_.access->statistics(client));
}

// ---- loading

// What is thrown fails this load or unload alone.
std::optional<Failure> Service::make_change(Work& work) {
  try {
    return work.load ? load(work) : unload(work.model);
  } catch (...) {
    const Error error = thrown_error(work.load ? "loading the model" : "unloading the model");
    (void)guarded("", [&]() -> Status {
      const std::lock_guard lock(mutex_);
      const auto found = models_.find(work.model);
      if (found == models_.end()) return {};
      Entry& entry = found->second;
      entry.state = entry.versions.empty() ? "UNAVAILABLE" : "READY";
      entry.reasons[0] = error.message;
      return {};
    });
    return Failure{Problem::kRun, error.message};
  }
}

void Service::work() {
  // Requests that are on their way hold the model that went a little longer.
  constexpr std::chrono::seconds kUntilAnswered{10};
  bool trims_again = false;
  std::unique_lock lock(mutex_);
  while (true) {
    const auto is_wanted = [this] { return ending_ || !waiting_.empty(); };
    if (std::exchange(trims_again, false) && !changed_.wait_for(lock, kUntilAnswered, is_wanted)) {
      lock.unlock();
      give_back_freed_memory();
      lock.lock();
    }
    changed_.wait(lock, is_wanted);
    if (ending_) return;
    Work next = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    std::optional<Failure> failure = make_change(next);
    // Of a compilation, or of the model that went: a service runs for months.
    give_back_freed_memory();
    trims_again = true;
    lock.lock();
    count_first_load(next);
    lock.unlock();
    (void)guarded("", [&]() -> Status {
      if (next.done) next.done(std::move(failure));
      return {};
    });
    lock.lock();
  }
}

void Service::set_state(const std::string& name, const std::string& state) {
  const std::lock_guard lock(mutex_);
  models_[name].state = state;
}

void Service::count_first_load(Work& work) {
  if (std::exchange(work.is_first, false)) --first_loads_;
}

// Of a model that has no folder. What was loaded before it went serves on.
std::optional<Failure> Service::note_missing(const std::string& name) {
  const std::string reason = "its folder is not in the repository any more";
  {
    const std::lock_guard lock(mutex_);
    const auto found = models_.find(name);
    if (found == models_.end()) {
      return Failure{Problem::kNotFound, fmt::format("there is no model '{}'", name)};
    }
    Entry& entry = found->second;
    entry.state = entry.versions.empty() ? "UNAVAILABLE" : "READY";
    entry.reasons = {{0, reason}};
  }
  log(fmt::format("{}: {}", name, reason));
  return Failure{Problem::kNotFound, fmt::format("model '{}': {}", name, reason)};
}

// The versions that were there serve until the new ones do.
std::optional<Failure> Service::load(Work& work) {
  const std::string& name = work.model;
  const auto is_there = has_model(options_.repository, name);
  if (is_there.ok() && !*is_there) return note_missing(name);
  const auto found = is_there.ok() ? find_model(options_.repository, name, options_.defaults)
                                   : Result<FoundModel>(is_there.error());
  std::map<std::int64_t, std::string> reasons;
  std::map<std::int64_t, std::shared_ptr<ServedModel>> versions;
  if (!found.ok()) {
    const std::lock_guard lock(mutex_);
    if (!models_.contains(name)) {
      return Failure{Problem::kInput, fmt::format("model '{}': {}", name, found.error().message)};
    }
    reasons[0] = found.error().message;
  } else {
    set_state(name, "LOADING");
    for (const ModelFile& file : found->versions) {
      auto model = ServedModel::load(name, file, found->config, options_.trace);
      if (model.ok()) {
        versions[file.version] = std::move(*model);
      } else {
        reasons[file.version] = model.error().message;
      }
    }
  }
  const std::string text = text_of(reasons);
  const std::string notes = found.ok() ? notes_of(found->left_out) : "";
  const std::size_t count = versions.size();
  {
    const std::lock_guard lock(mutex_);
    Entry& entry = models_[name];
    if (count > 0) entry.versions.swap(versions);
    entry.reasons = reasons;
    entry.state = entry.versions.empty() ? "UNAVAILABLE" : "READY";
    // Before it is told: whoever reads that it is ready finds it so.
    count_first_load(work);
  }
  if (!text.empty()) {
    log(fmt::format("{}: {}{}", name, text, notes));
    return Failure{Problem::kInput, fmt::format("model '{}': {}", name, text)};
  }
  log(fmt::format("{}: ready, {} version{}{}", name, count, count == 1 ? "" : "s", notes));
  return std::nullopt;
}

// Requests that are on their way keep the model until they are answered.
std::optional<Failure> Service::unload(const std::string& name) {
  std::map<std::int64_t, std::shared_ptr<ServedModel>> versions;
  {
    const std::lock_guard lock(mutex_);
    const auto found = models_.find(name);
    if (found == models_.end()) {
      return Failure{Problem::kNotFound, fmt::format("there is no model '{}'", name)};
    }
    versions.swap(found->second.versions);
    found->second.reasons = {{0, "unloaded"}};
    found->second.state = "UNAVAILABLE";
  }
  log(fmt::format("{}: unloaded", name));
  return std::nullopt;
}

}  // namespace tessera::serve
