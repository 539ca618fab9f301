// Devices side by side in one run.
//
// Host speed varies: what counts are the ratios, between devices that ran alternately in this
// process. Cycles do not vary.
#include "tools/bench/devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "tools/bench/divided_clock.h"
#include "tools/files/tensor_file.h"
#include "tools/terminal/console.h"

namespace tessera::tools {
namespace {

constexpr int kClockDivider = 10;

struct Contender {
  std::string name;
  Network network;
  SessionOptions options;
  std::vector<double> seconds;
  RunResult last;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// With several cores those are the last two; else a slower processor, but of a package, whose
// architecture is settled.
Result<std::vector<Contender>> contenders(const DeviceBench& bench, const Network& network) {
  SessionOptions host;
  host.device = DeviceKind::kHost;
  host.threads = bench.threads;
  SessionOptions timing_only;
  timing_only.timing_only = true;
  SessionOptions serial = timing_only;
  serial.serial = true;
  std::vector<Contender> list = {{"host", network, host, {}, {}},
                                 {"sim", network, {}, {}, {}},
                                 {"sim timing-only", network, timing_only, {}, {}},
                                 {"sim serial timing-only", network, serial, {}, {}}};
  if (bench.cores.several()) {
    SessionOptions values, timing = timing_only;
    bench.cores.give_to(values);
    bench.cores.give_to(timing);
    list.push_back({fmt::format("sim, {} cores", values.cores), network, values, {}, {}});
    list.push_back(
        {fmt::format("sim, {} cores timing-only", timing.cores), network, timing, {}, {}});
    return list;
  }
  if (package::kind_of_file(bench.model.model) != package::FileKind::kPackage) {
    TESSERA_TRY(const Network slower, load_with_divided_clock(bench.model, kClockDivider));
    list.push_back(
        {fmt::format("sim timing-only, clocks / {}", kClockDivider), slower, timing_only, {}, {}});
  }
  return list;
}

Status measure(const std::vector<Tensor>& inputs, int repeat, std::vector<Contender>& list) {
  std::vector<Session> sessions;
  for (const Contender& contender : list) {
    TESSERA_TRY(Session session, Session::open(contender.network, contender.options));
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

int rounds(const DeviceBench& bench) { return bench.repeat > 0 ? bench.repeat : 5; }

nlohmann::json to_json(const DeviceBench& bench, const std::vector<std::string>& notes,
                       const std::vector<Contender>& list) {
  nlohmann::json devices = nlohmann::json::array();
  for (const Contender& contender : list) {
    devices.push_back({{"name", contender.name},
                       {"seconds_median", median(contender.seconds)},
                       {"seconds_min", *std::ranges::min_element(contender.seconds)},
                       {"seconds_max", *std::ranges::max_element(contender.seconds)},
                       {"cycles", contender.last.cycles}});
  }
  const auto cycles = [&](std::size_t i) { return static_cast<double>(list[i].last.cycles); };
  const auto seconds = [&](std::size_t i) { return median(list[i].seconds); };
  nlohmann::json document = {{"model", bench.model.model},
                             {"repeat", rounds(bench)},
                             {"notes", notes},
                             {"devices", std::move(devices)},
                             {"sim_per_host", seconds(1) / seconds(0)},
                             {"values_per_timing_only", seconds(1) / seconds(2)},
                             {"serial_per_asynchronous_cycles", cycles(3) / cycles(2)}};
  if (bench.cores.several()) {
    bench.cores.add_to(document);
    document["one_core_per_several_cycles"] = cycles(2) / cycles(5);
  } else if (list.size() > 4) {
    document["divided_clock"] = {{"divider", kClockDivider},
                                 {"cycles_ratio", cycles(4) / cycles(2)},
                                 {"seconds_ratio", seconds(4) / seconds(2)}};
  }
  return document;
}

}  // namespace

Status run_device_bench(const DeviceBench& bench) {
  TESSERA_TRY(const Network network, bench.model.load());
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < network.inputs().size(); ++i) {
    inputs.push_back(random_tensor(network.inputs()[i], 0, i));
  }
  TESSERA_TRY(std::vector<Contender> list, contenders(bench, network));
  TESSERA_RETURN_IF_ERROR(measure(inputs, rounds(bench), list));
  const std::vector<std::string>& notes = network.placement().notes;
  const nlohmann::json document = to_json(bench, notes, list);
  if (bench.model.json) {
    show_lines(json_text(document) + "\n");
    return {};
  }
  show_lines(notes_text(notes));
  TextTable table({"device", "median ms", "min ms", "max ms", "runs/s", "cycles", "Mcycles/s"});
  for (const Contender& contender : list) {
    const double seconds = median(contender.seconds);
    table.add(
        {contender.name, fmt::format("{:.3f}", seconds * 1e3),
         fmt::format("{:.3f}", *std::ranges::min_element(contender.seconds) * 1e3),
         fmt::format("{:.3f}", *std::ranges::max_element(contender.seconds) * 1e3),
         fmt::format("{:.1f}", 1 / seconds),
         contender.last.cycles > 0 ? with_separators(contender.last.cycles) : "-",
         contender.last.cycles > 0
             ? fmt::format("{:.2f}", static_cast<double>(contender.last.cycles) / seconds / 1e6)
             : "-"});
  }
  show_lines(fmt::format(
      "{}\nsim / host                        {:.2f}\nvalues / timing-only              {:.1f}\n"
      "serial / asynchronous cycles      {:.3f}\n",
      table.text(), document["sim_per_host"].get<double>(),
      document["values_per_timing_only"].get<double>(),
      document["serial_per_asynchronous_cycles"].get<double>()));
  if (bench.cores.several()) {
    show("one core / {} cores, cycles        {:.2f}\n", bench.cores.cores,
         document["one_core_per_several_cycles"].get<double>());
  }
  if (const auto slower = document.find("divided_clock"); slower != document.end()) {
    show("clocks / {}: cycles x {:.2f}, time x {:.2f}\n", kClockDivider,
         (*slower)["cycles_ratio"].get<double>(), (*slower)["seconds_ratio"].get<double>());
  }
  return {};
}

}  // namespace tessera::tools
