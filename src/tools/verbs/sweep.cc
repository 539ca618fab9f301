// tessera sweep: the cycles of a model on many processors, one for each combination of values. With --slurm each of
// them is a task of an array job.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "arch/architecture_file.h"
#include "arch/config_table.h"
#include "tessera/file.h"
#include "tools/child_process.h"
#include "tools/terminal/console.h"
#include "tools/verb.h"

namespace tessera::tools {
namespace {

struct SweptKey {
  std::string path;  // "neural.rows"
  std::vector<std::string> values;
};

struct SweepArguments {
  ModelArguments model;
  std::vector<std::string> vary;
  std::string folder;
  int point = -1;  // of an array job's task
  bool slurm = false;
};

constexpr std::size_t kPointsMax = 10'000;

Error wrong_sweep(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }

// "neural.rows=64,128"
Result<SweptKey> parse_swept_key(const std::string& text) {
  const std::size_t equals = text.find('=');
  SweptKey key{.path = text.substr(0, equals), .values = {}};
  std::size_t begin = equals == std::string::npos ? text.size() : equals + 1;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    key.values.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  if (key.values.empty())
    return wrong_sweep(fmt::format("--vary '{}'; allowed is KEY=VALUE,VALUE", text));
  const bool is_known = std::ranges::any_of(config_keys(), [&](const ConfigKey& one) {
    return one.path() == key.path && key.path != "name";
  });
  if (is_known) return key;
  return wrong_sweep(
      fmt::format("--vary '{}': no architecture file has the key '{}'; "
                  "docs/formats/architecture_file.md lists them",
                  text, key.path));
}

Result<std::vector<SweptKey>> swept_keys(const SweepArguments& arguments) {
  std::vector<SweptKey> keys;
  std::size_t points = 1;
  for (const std::string& text : arguments.vary) {
    TESSERA_TRY(SweptKey key, parse_swept_key(text));
    points *= key.values.size();
    if (points > kPointsMax)
      return wrong_sweep(fmt::format("--vary: more than {} points", kPointsMax));
    keys.push_back(std::move(key));
  }
  return keys;
}

std::size_t point_count(const std::vector<SweptKey>& keys) {
  std::size_t points = 1;
  for (const SweptKey& key : keys) points *= key.values.size();
  return points;
}

// The last key varies fastest.
std::vector<std::pair<std::string, std::string>> values_of(const std::vector<SweptKey>& keys,
                                                           std::size_t point) {
  std::vector<std::pair<std::string, std::string>> values;
  for (auto key = keys.rbegin(); key != keys.rend(); ++key) {
    values.insert(values.begin(), {key->path, key->values[point % key->values.size()]});
    point /= key->values.size();
  }
  return values;
}

// The architecture file of a point: all keys of the architecture, with its values.
Result<std::string> architecture_text(
    const std::string& arch, const std::vector<std::pair<std::string, std::string>>& values) {
  TESSERA_TRY(const ChipConfig chip, load_chip_config(arch));
  std::string text;
  for (const ConfigKey& key : config_keys()) {
    std::string value = config_value_text(key, chip);
    for (const auto& [path, chosen] : values) {
      if (path != key.path()) continue;
      const bool is_text = value.starts_with('"') && !chosen.starts_with('"');
      value = is_text ? "\"" + chosen + "\"" : chosen;
    }
    text += fmt::format("{} = {}\n", key.path(), value);
  }
  return text;
}

Result<std::int64_t> cycles_on(const SweepArguments& arguments, const std::string& architecture) {
  TESSERA_TRY(const ScratchFolder folder, ScratchFolder::make());
  const std::string file = folder.path("point.toml");
  TESSERA_RETURN_IF_ERROR(
      write_file(file, std::as_bytes(std::span(architecture.data(), architecture.size()))));
  ModelArguments model = arguments.model;
  model.arch = file;
  TESSERA_TRY(const Network network, model.load());
  SessionOptions options;
  options.timing_only = true;
  TESSERA_TRY(Session session, Session::open(network, options));
  std::vector<Tensor> inputs;
  for (const TensorDescription& input : network.inputs()) {
    inputs.push_back(Tensor::zeros(input.format, input.dims));
  }
  TESSERA_TRY(const RunResult result, session.run(inputs));
  return result.cycles;
}

// A processor that is none, or that the model does not fit, is a row with the reason.
Result<nlohmann::json> try_point(const SweepArguments& arguments, const std::vector<SweptKey>& keys,
                                 std::size_t point) {
  const auto values = values_of(keys, point);
  nlohmann::json row = {{"point", point}, {"values", nlohmann::json::object()}};
  for (const auto& [path, value] : values) row["values"][path] = value;
  TESSERA_TRY(const std::string text, architecture_text(arguments.model.arch, values));
  const auto chip = parse_chip_config(text, "the point's architecture");
  const auto cycles = chip.ok() ? cycles_on(arguments, text) : Result<std::int64_t>(chip.error());
  if (!cycles.ok()) {
    row["error"] = cycles.error().to_string();
    return row;
  }
  row["cycles"] = *cycles;
  row["clock_hertz"] = chip->clock_hertz;
  row["seconds"] = static_cast<double>(*cycles) / static_cast<double>(chip->clock_hertz);
  return row;
}

// ---- an array job ----

std::string in_quotes(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string(R"('\'')") : std::string(1, c);
  return text + "'";
}

std::string point_file(const SweepArguments& arguments, std::size_t point, const char* ending) {
  return fmt::format("{}/point_{}.{}", arguments.folder, point, ending);
}

// The command line of one task: this one's, with the point that Slurm counts.
std::string task_command(const SweepArguments& arguments) {
  const ModelArguments& model = arguments.model;
  std::vector<std::string> words = {
      std::filesystem::read_symlink("/proc/self/exe").string(),
      "sweep",
      std::filesystem::absolute(model.model).string(),
      "--arch",
      model.arch.ends_with(".toml") ? std::filesystem::absolute(model.arch).string() : model.arch,
      "--folder",
      arguments.folder};
  for (const std::string& text : arguments.vary) words.insert(words.end(), {"--vary", text});
  for (const std::string& text : model.shapes) words.insert(words.end(), {"--shape", text});
  if (!model.format.empty()) words.insert(words.end(), {"--format", model.format});
  std::string command;
  for (const std::string& word : words) command += in_quotes(word) + " ";
  return command + "--point \"$SLURM_ARRAY_TASK_ID\"";
}

Result<std::vector<nlohmann::json>> sweep_in_slurm(SweepArguments arguments, std::size_t points) {
  if (arguments.folder.empty()) {
    return wrong_sweep(
        "--slurm takes --folder, where each task leaves what it has found: a folder that all "
        "machines of the partition see");
  }
  std::error_code error;
  std::filesystem::create_directories(arguments.folder, error);
  if (error)
    return wrong_sweep(fmt::format("--folder '{}': {}", arguments.folder, error.message()));
  arguments.folder = std::filesystem::absolute(arguments.folder).string();
  for (std::size_t point = 0; point < points; ++point) {
    std::filesystem::remove(point_file(arguments, point, "json"), error);
  }
  const std::string log = arguments.folder + "/sbatch.log";
  TESSERA_TRY(const ChildResult job,
              run_child({"sbatch", "--wait", "--job-name=tessera-sweep",
                         "--chdir=" + arguments.folder, fmt::format("--array=0-{}", points - 1),
                         fmt::format("--output={}/point_%a.log", arguments.folder),
                         "--wrap=" + task_command(arguments)},
                        log));
  std::vector<nlohmann::json> rows;
  for (std::size_t point = 0; point < points; ++point) {
    const auto bytes = read_file(point_file(arguments, point, "json"));
    auto row = nlohmann::json(nlohmann::json::value_t::discarded);
    if (bytes.ok()) {
      row = nlohmann::json::parse(reinterpret_cast<const char*>(bytes->data()),
                                  reinterpret_cast<const char*>(bytes->data()) + bytes->size(),
                                  nullptr, false);
    }
    if (!row.is_object()) {
      return Error{
          ErrorCode::kUnavailable,
          fmt::format("point {} has left no result; '{}' and '{}' say why (sbatch ended with "
                      "status {}: {})",
                      point, point_file(arguments, point, "log"), log, job.status, job.printed)};
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

// ---- what is shown ----

void print_points(const std::vector<SweptKey>& keys, const std::vector<nlohmann::json>& rows) {
  std::vector<std::string> header = {"point"};
  for (const SweptKey& key : keys) header.push_back(key.path);
  header.insert(header.end(), {"cycles", "ms"});
  TextTable table(header);
  std::string errors;
  std::optional<std::pair<double, std::size_t>> best;
  for (const nlohmann::json& row : rows) {
    const auto point = row["point"].get<std::size_t>();
    std::vector<std::string> cells = {std::to_string(point)};
    for (const SweptKey& key : keys) cells.push_back(row["values"].value(key.path, ""));
    if (row.contains("error")) {
      cells.insert(cells.end(), {"-", "-"});
      errors += fmt::format("point {}: {}\n", point, row["error"].get<std::string>());
    } else {
      const double seconds = row["seconds"].get<double>();
      if (!best.has_value() || seconds < best->first) best = {seconds, point};
      cells.insert(cells.end(), {with_separators(row["cycles"].get<std::int64_t>()),
                                 fmt::format("{:.3f}", 1e3 * seconds)});
    }
    table.add(std::move(cells));
  }
  show_lines(table.text() + errors);
  if (best.has_value()) show("shortest: point {}, {:.3f} ms\n", best->second, 1e3 * best->first);
}

// An error where no point has cycles.
Status some_point(const std::vector<nlohmann::json>& rows) {
  const auto failed = [](const nlohmann::json& row) { return row.contains("error"); };
  if (!std::ranges::all_of(rows, failed)) return {};
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("none of the {} points runs; the first: {}", rows.size(),
                           rows[0]["error"].get<std::string>())};
}

Status sweep(const SweepArguments& arguments) {
  TESSERA_TRY(const std::vector<SweptKey> keys, swept_keys(arguments));
  const std::size_t points = point_count(keys);
  if (arguments.point >= 0) {
    const auto point = static_cast<std::size_t>(arguments.point);
    if (point >= points) return wrong_sweep(fmt::format("--point {}; there are {}", point, points));
    TESSERA_TRY(const nlohmann::json row, try_point(arguments, keys, point));
    const std::string text = json_line(row) + "\n";
    if (arguments.folder.empty()) {
      show_lines(text);
      return {};
    }
    return write_file(point_file(arguments, point, "json"),
                      std::as_bytes(std::span(text.data(), text.size())));
  }
  std::vector<nlohmann::json> rows;
  if (arguments.slurm) {
    TESSERA_TRY(rows, sweep_in_slurm(arguments, points));
  } else {
    for (std::size_t point = 0; point < points; ++point) {
      TESSERA_TRY(rows.emplace_back(), try_point(arguments, keys, point));
    }
  }
  if (arguments.model.json) {
    show_lines(
        json_text(
            {{"model", arguments.model.model}, {"arch", arguments.model.arch}, {"points", rows}}) +
        "\n");
  } else {
    print_points(keys, rows);
  }
  return some_point(rows);
}

}  // namespace

Action sweep_verb(CLI::App& app) {
  auto arguments = std::make_shared<SweepArguments>();
  arguments->model.add_to(app);
  app.add_option("--vary", arguments->vary,
                 "a key of the architecture file with its values, KEY=VALUE,VALUE; of several "
                 "every combination")
      ->required();
  app.add_option("--point", arguments->point, "only this one, from 0, as a line of JSON")
      ->check(CLI::Range(0, static_cast<int>(kPointsMax)));
  app.add_flag(
      "--slurm", arguments->slurm,
      "each point as a task of an array job (sbatch; SBATCH_PARTITION and the like count)");
  app.add_option("--folder", arguments->folder, "where tasks leave their results and logs");
  return [arguments] { return sweep(*arguments); };
}

}  // namespace tessera::tools
