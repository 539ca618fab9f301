#include "serve/model_repository.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <utility>

#include "serve/failure.h"
#include "tessera/file.h"

namespace tessera::serve {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::int64_t kConfigBytesMax = 1 << 20;
constexpr const char* kFiles[] = {"model.onnx", "model.tpkg", "model.tprog"};

Result<std::int64_t> whole_number(const Json& value, const std::string& key, std::int64_t least,
                                  std::int64_t most) {
  const bool is_whole = value.is_number_integer();
  if (!is_whole || value < least || value > most) {
    return invalid(fmt::format("'{}' is {}; allowed is a whole number from {} to {}", key,
                               value.dump(), least, most));
  }
  return value.get<std::int64_t>();
}

Result<std::string> text_value(const Json& value, const std::string& key) {
  if (!value.is_string()) return invalid(fmt::format("'{}' is {}, no text", key, value.dump()));
  return value.get<std::string>();
}

Result<std::map<std::string, Shape>> shapes_value(const Json& value) {
  if (!value.is_object()) return invalid("'shapes' is no object of lists");
  std::map<std::string, Shape> shapes;
  constexpr std::int64_t kExtentMax = std::int64_t{1} << 32;
  for (const auto& [input, dims] : value.items()) {
    if (!dims.is_array()) return invalid(fmt::format("'shapes': '{}' is no list", input));
    for (const Json& dim : dims) {
      TESSERA_TRY(const std::int64_t extent, whole_number(dim, "shapes." + input, 0, kExtentMax));
      shapes[input].push_back(extent);
    }
  }
  return shapes;
}

Status set_batching(const Json& value, ModelConfig& config) {
  if (!value.is_object()) return invalid("'batching' is no object of keys");
  constexpr std::int64_t kRowsMax = 1024, kDelayMax = 10'000'000;
  for (const auto& [key, given] : value.items()) {
    if (key == "max_batch") {
      TESSERA_TRY(config.batch_max, whole_number(given, "batching." + key, 1, kRowsMax));
    } else if (key == "delay_us") {
      TESSERA_TRY(const std::int64_t delay, whole_number(given, "batching." + key, 0, kDelayMax));
      config.batch_delay = std::chrono::microseconds(delay);
    } else {
      return invalid(fmt::format("'batching' has no key '{}'; known are delay_us, max_batch", key));
    }
  }
  return {};
}

Status set_key(const std::string& key, const Json& value, ModelConfig& config) {
  const auto number = [&](std::int64_t least, std::int64_t most, auto& into) -> Status {
    TESSERA_TRY(const std::int64_t given, whole_number(value, key, least, most));
    into = static_cast<std::remove_reference_t<decltype(into)>>(given);
    return {};
  };
  if (key == "instances") return number(1, 64, config.instances);
  if (key == "threads") return number(0, 1024, config.threads);
  if (key == "cores") return number(1, 4096, config.cores);
  if (key == "cards") return number(1, 64, config.cards);
  if (key == "queue") return number(1, 1 << 20, config.queue);
  if (key == "shapes_max") return number(1, 256, config.shapes_max);
  if (key == "batching") return set_batching(value, config);
  if (key == "pace") {
    constexpr double kPaceMax = 1e6;
    if (!value.is_number() || value < 0 || value > kPaceMax) {
      return invalid(
          fmt::format("'pace' is {}; allowed is a number from 0 to 1000000", value.dump()));
    }
    config.pace = value.get<double>();
    return {};
  }
  if (key == "timeout_us") {
    constexpr std::int64_t kDay = 86'400'000'000;
    TESSERA_TRY(const std::int64_t given, whole_number(value, key, 0, kDay));
    config.timeout = std::chrono::microseconds(given);
    return {};
  }
  if (key == "arch") {
    TESSERA_TRY(config.arch, text_value(value, key));
    return {};
  }
  if (key == "device") {
    TESSERA_TRY(const std::string name, text_value(value, key));
    if (name == "cluster") {
      if (!config.cluster.empty()) return {};
      return invalid("'device' is 'cluster', and the server has none; start it with --cluster");
    }
    TESSERA_TRY(config.device, device_kind_from_name(name));
    config.cluster.clear();
    return {};
  }
  if (key == "shapes") {
    TESSERA_TRY(config.shapes, shapes_value(value));
    return {};
  }
  return invalid(
      fmt::format("there is no key '{}'; known are arch, batching, cards, cores, device, "
                  "instances, pace, queue, shapes, shapes_max, threads, timeout_us",
                  key));
}

// Of a folder of a version; 0: it is none.
std::int64_t version_of(const std::string& name) {
  std::int64_t version = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), version);
  const bool is_number = error == std::errc{} && end == name.data() + name.size();
  return is_number && version > 0 && name[0] != '0' ? version : 0;
}

// The names of the folders in a folder.
Result<std::vector<std::string>> folders_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator next(folder, error);
  while (!error && next != fs::directory_iterator()) {
    std::error_code unknown;
    if (next->is_directory(unknown)) names.push_back(next->path().filename().string());
    next.increment(error);
  }
  if (error) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("cannot read the folder '{}': {}", folder, error.message())};
  }
  std::ranges::sort(names);
  return names;
}

// What a model may not be called.
Status check_name(const std::string& name) {
  if (name == "stats") {
    return invalid(
        "'stats' is no name of a model, since /v2/models/stats has the statistics of all models; "
        "give the folder another name");
  }
  const bool is_name = !name.empty() && !name.starts_with('.') &&
                       name.find('/') == std::string::npos && name.find('\0') == std::string::npos;
  if (is_name) return {};
  return invalid(
      fmt::format("'{}' is no name of a model: that is the name of a folder of the "
                  "repository, which does not begin with a dot",
                  name));
}

// Whether the path leads to something. The error says why that cannot be told.
Result<bool> is_there(const std::string& path) {
  std::error_code error;
  const bool found = fs::exists(path, error);
  if (!error) return found;
  return invalid(fmt::format("cannot look for '{}': {}", path, error.message()));
}

// The folders that are versions, and those that only look so.
Status find_versions(const std::string& folder, FoundModel& model) {
  constexpr std::string_view kDigits = "0123456789";
  TESSERA_TRY(const std::vector<std::string> folders, folders_in(folder));
  for (const std::string& each : folders) {
    if (each.find_first_not_of(kDigits) != std::string::npos) continue;
    const std::int64_t version = version_of(each);
    if (version == 0) {
      model.left_out.push_back(
          {each, fmt::format("a version is a number from 1 to {} without zeros before it",
                             std::numeric_limits<std::int64_t>::max())});
      continue;
    }
    const std::size_t before = model.versions.size();
    for (const char* const file : kFiles) {
      const std::string path = fmt::format("{}/{}/{}", folder, each, file);
      TESSERA_TRY(const bool has_file, is_there(path));
      if (!has_file) continue;
      model.versions.push_back({version, path});
      break;
    }
    if (model.versions.size() > before) continue;
    model.left_out.push_back({each, "it has no model.onnx, model.tpkg or model.tprog"});
  }
  return {};
}

}  // namespace

Result<ModelConfig> parse_model_config(const std::string& text, const ModelConfig& defaults) {
  // No value but those of "shapes" is nested.
  constexpr int kDepthMax = 4;
  bool is_too_deep = false;
  const Json::parser_callback_t callback = [&](int depth, Json::parse_event_t, Json&) {
    is_too_deep = is_too_deep || depth > kDepthMax;
    return !is_too_deep;
  };
  constexpr bool kThrows = false;
  const Json document = Json::parse(text, callback, kThrows);
  if (is_too_deep || !document.is_object()) return invalid("it is no JSON object of keys");
  ModelConfig config = defaults;
  for (const auto& [key, value] : document.items()) {
    TESSERA_RETURN_IF_ERROR(set_key(key, value, config));
  }
  return config;
}

Result<std::vector<std::string>> model_names(const std::string& repository) {
  TESSERA_TRY(std::vector<std::string> names, folders_in(repository));
  std::erase_if(names, [](const std::string& name) { return name.starts_with('.'); });
  return names;
}

Result<bool> has_model(const std::string& repository, const std::string& name) {
  TESSERA_RETURN_IF_ERROR(check_name(name));
  // Without the path, which is not the client's affair.
  std::error_code error;
  const bool found = fs::is_directory(repository + "/" + name, error);
  if (error && error != std::errc::no_such_file_or_directory) {
    return invalid(fmt::format("cannot look for its folder: {}", error.message()));
  }
  return found;
}

Result<FoundModel> find_model(const std::string& repository, const std::string& name,
                              const ModelConfig& defaults) {
  TESSERA_RETURN_IF_ERROR(check_name(name));
  const std::string folder = repository + "/" + name;
  FoundModel model{.name = name, .versions = {}, .config = defaults};
  const std::string config = folder + "/config.json";
  TESSERA_TRY(const bool has_config, is_there(config));
  if (has_config) {
    TESSERA_TRY(const std::string text, read_text_file(config, {.bytes_max = kConfigBytesMax}));
    auto parsed = parse_model_config(text, defaults);
    if (!parsed.ok()) return parsed.error().with_context(config);
    model.config = std::move(*parsed);
  }
  TESSERA_RETURN_IF_ERROR(find_versions(folder, model));
  std::ranges::sort(model.versions, {}, &ModelFile::version);
  if (model.versions.empty()) {
    return invalid(
        fmt::format("'{}' has no version: a folder with a number from 1 as its name, and in it "
                    "model.onnx, model.tpkg or model.tprog",
                    folder));
  }
  return model;
}

}  // namespace tessera::serve
