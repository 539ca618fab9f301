// tessera bench: how long the devices take, side by side in one run.
//
// Host speed is weather: what counts are the ratios, between devices that ran alternately in this
// process. Cycles are facts and are printed as such.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "tools/console.h"
#include "tools/tensor_file.h"
#include "tools/verb.h"

namespace tessera::tools {
namespace {

struct BenchArguments {
  ModelArguments model;
  int repeat = 5;
  int threads = 0;
};

struct Contender {
  std::string name;
  SessionOptions options;
  std::vector<double> seconds;
  RunResult last;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::vector<Contender> contenders(const BenchArguments& arguments) {
  std::vector<Contender> list(4);
  list[0].name = "host";
  list[0].options.device = DeviceKind::kHost;
  list[0].options.threads = arguments.threads;
  list[1].name = "sim";
  list[2].name = "sim timing-only";
  list[2].options.timing_only = true;
  list[3].name = "sim serial timing-only";
  list[3].options.timing_only = true;
  list[3].options.serial = true;
  return list;
}

Status measure(const Network& network, const std::vector<Tensor>& inputs, int repeat,
               std::vector<Contender>& list) {
  std::vector<Session> sessions;
  for (const Contender& contender : list) {
    TESSERA_TRY(Session session, Session::open(network, contender.options));
    sessions.push_back(std::move(session));
  }
  const ProgressCallback progress = progress_bar();
  for (int round = 0; round <= repeat; ++round) {  // round 0 warms up
    if (progress) progress("bench", static_cast<double>(round) / repeat);
    for (std::size_t i = 0; i < list.size(); ++i) {
      const auto begin = std::chrono::steady_clock::now();
      auto result = sessions[i].run(inputs);
      const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
      if (!result.ok()) return result.error().with_context(list[i].name);
      if (round > 0) list[i].seconds.push_back(elapsed.count());
      list[i].last = std::move(result).value();
    }
  }
  return {};
}

nlohmann::json to_json(const BenchArguments& arguments, const std::vector<Contender>& list) {
  nlohmann::json devices = nlohmann::json::array();
  for (const Contender& contender : list) {
    devices.push_back({{"name", contender.name},
                       {"seconds_median", median(contender.seconds)},
                       {"seconds_min", *std::ranges::min_element(contender.seconds)},
                       {"seconds_max", *std::ranges::max_element(contender.seconds)},
                       {"cycles", contender.last.cycles}});
  }
  return {{"model", arguments.model.model},
          {"repeat", arguments.repeat},
          {"devices", std::move(devices)},
          {"sim_per_host", median(list[1].seconds) / median(list[0].seconds)},
          {"values_per_timing_only", median(list[1].seconds) / median(list[2].seconds)},
          {"serial_per_asynchronous_cycles",
           static_cast<double>(list[3].last.cycles) / static_cast<double>(list[2].last.cycles)}};
}

Status bench(const BenchArguments& arguments) {
  TESSERA_TRY(const Network network, arguments.model.load());
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < network.inputs().size(); ++i) {
    inputs.push_back(random_tensor(network.inputs()[i], 0, i));
  }
  std::vector<Contender> list = contenders(arguments);
  TESSERA_RETURN_IF_ERROR(measure(network, inputs, arguments.repeat, list));
  const nlohmann::json document = to_json(arguments, list);
  if (arguments.model.json) {
    fmt::print("{}\n", document.dump(2));
    return {};
  }
  Table table({"device", "median ms", "min ms", "max ms", "runs/s", "cycles"});
  for (const Contender& contender : list) {
    const double seconds = median(contender.seconds);
    table.add({contender.name, fmt::format("{:.3f}", seconds * 1e3),
               fmt::format("{:.3f}", *std::ranges::min_element(contender.seconds) * 1e3),
               fmt::format("{:.3f}", *std::ranges::max_element(contender.seconds) * 1e3),
               fmt::format("{:.1f}", 1 / seconds),
               contender.last.cycles > 0 ? with_separators(contender.last.cycles) : "-"});
  }
  fmt::print(
      "{}\nsim / host                        {:.2f}\nvalues / timing-only              {:.1f}\n"
      "serial / asynchronous cycles      {:.3f}\n",
      table.text(), document["sim_per_host"].get<double>(),
      document["values_per_timing_only"].get<double>(),
      document["serial_per_asynchronous_cycles"].get<double>());
  return {};
}

}  // namespace

Action bench_verb(CLI::App& app) {
  auto arguments = std::make_shared<BenchArguments>();  // shared with the returned action
  arguments->model.add_to(app);
  app.add_option("--repeat", arguments->repeat, "measured rounds")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  app.add_option("--threads", arguments->threads, "threads of the host device (0: all)");
  return [arguments] { return bench(*arguments); };
}

}  // namespace tessera::tools
