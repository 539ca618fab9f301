#include "repro/remote_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"

namespace tessera::repro {
namespace {

struct NamedWay {
  const char* name;
  const char* in_words;
  RemoteWay RemoteRun::* way;
};
constexpr std::array<NamedWay, 4> kWays = {{
    {"local", "here", &RemoteRun::local},
    {"ours", "ours, remote", &RemoteRun::ours},
    {"forwarded", "API forwarding, the network one kernel", &RemoteRun::forwarded},
    {"forwarded_layers", "API forwarding, each layer a kernel", &RemoteRun::forwarded_layers},
}};

double modelled_us(const RemoteRun& run) {
  return 1e6 * static_cast<double>(run.cycles) / static_cast<double>(run.clock_hertz);
}

FigureTable rows_of(std::span<const RemoteCase> cases, const std::vector<RemoteRun>& runs) {
  FigureTable table{
      .name = "remote",
      .columns = {"network", "way", "modelled_us", "latency_us", "added_us", "added_percent",
                  "round_trips", "per_second", "of_local_throughput"}};
  for (std::size_t i = 0; i < cases.size(); ++i) {
    for (const NamedWay& named : kWays) {
      const RemoteWay& way = runs[i].*named.way;
      const double added = way.latency_us - runs[i].local.latency_us;
      table.rows.push_back({cases[i].network, named.name, modelled_us(runs[i]), way.latency_us,
                            added, 100 * added / runs[i].local.latency_us, way.round_trips,
                            way.per_second, way.of_local});
    }
  }
  return table;
}

FigureTable parts_of(std::span<const RemoteCase> cases, const std::vector<RemoteRun>& runs) {
  FigureTable table{.name = "parts",
                    .columns = {"network", "bytes_there", "bytes_back", "added_us", "serialise_us",
                                "wire_us", "wake_up_us"}};
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const RemoteRun& run = runs[i];
    const double added = run.ours.latency_us - run.local.latency_us;
    table.rows.push_back({cases[i].network, run.bytes_there, run.bytes_back, added,
                          run.serialise_us, run.wire_us, added - run.serialise_us - run.wire_us});
  }
  return table;
}

// As the manual has them.
std::string remote_markdown(const FigureTable& rows, const FigureTable& parts) {
  std::string text =
      "| network | way | latency, ms | added, ms | round trips | runs a second | of local |\n"
      "| --- | --- | ---: | ---: | ---: | ---: | ---: |\n";
  const auto number = [](const FigureCell& cell) { return std::get<double>(cell); };
  for (std::size_t i = 0; i < rows.rows.size(); ++i) {
    const auto& row = rows.rows[i];
    text += fmt::format("| {} | {} | {:.2f} | {:.2f} | {} | {:.0f} | {:.3f} |\n",
                        std::get<std::string>(row[0]), kWays[i % kWays.size()].in_words,
                        number(row[3]) / 1e3, number(row[4]) / 1e3, std::get<std::int64_t>(row[6]),
                        number(row[7]), number(row[8]));
  }
  text +=
      "\n| added latency of ours | bytes there | back | added, us | serialise | wire | wake-up |\n"
      "| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n";
  for (const auto& row : parts.rows) {
    text += fmt::format("| {} | {} | {} | {:.0f} | {:.0f} | {:.0f} | {:.0f} |\n",
                        std::get<std::string>(row[0]), std::get<std::int64_t>(row[1]),
                        std::get<std::int64_t>(row[2]), number(row[3]), number(row[4]),
                        number(row[5]), number(row[6]));
  }
  return text;
}

FigurePlot plot_of(const std::vector<RemoteRun>& runs) {
  FigurePlot plot{.title = "latency by the processor's own time",
                  .across = "processor, us",
                  .up = "latency, us",
                  .lines = {}};
  for (const NamedWay& named : kWays) {
    PlotLine line{.name = named.in_words, .points = {}};
    for (const RemoteRun& run : runs) {
      line.points.emplace_back(modelled_us(run), (run.*named.way).latency_us);
    }
    std::ranges::sort(line.points);
    plot.lines.push_back(std::move(line));
  }
  return plot;
}

}  // namespace

std::vector<std::string> remote_networks() {
  return {"vgg16", "resnet50", "mobilenet_v1", "inception_v3"};
}

Result<ExperimentResult> remote_tables(const std::vector<std::string>& networks, int runs_of_way,
                                       const RemoteRunner& runner) {
  std::vector<RemoteCase> cases;
  for (const std::string& network : networks) {
    cases.push_back({.network = network});
    if (runs_of_way > 0) cases.back().runs = runs_of_way;
  }
  TESSERA_TRY(const std::vector<RemoteRun> runs, runner(cases));
  TESSERA_CHECK(runs.size() == cases.size(), "{} runs of {} cases", runs.size(), cases.size());
  ExperimentResult result;
  result.figure_tables = {rows_of(cases, runs), parts_of(cases, runs)};
  result.documents = {
      {"tables.md", remote_markdown(result.figure_tables[0], result.figure_tables[1])}};
  result.plots = {plot_of(runs)};
  double least = 1;
  for (const RemoteRun& run : runs) least = std::min(least, run.ours.of_local);
  result.figures = {{"ours_of_local_throughput_least", least},
                    {"ours_of_local_throughput_goal", 0.99}};
  result.notes = {
      fmt::format("the processor is {} cores of cloud16 and takes the time that it takes by the "
                  "model; node and driver are processes over loopback",
                  cases.empty() ? 0 : cases.front().cores),
      "wake-up is what is left of the added latency: threads that hand a message on, and what this "
      "machine does besides"};
  return result;
}

}  // namespace tessera::repro
