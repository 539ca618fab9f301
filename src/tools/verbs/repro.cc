// tessera repro: published experiments, run again, beside the published figures.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "repro/experiments.h"
#include "tools/remote/card_daemons.h"
#include "tools/remote/remote_cases.h"
#include "tools/report/figures.h"
#include "tools/terminal/console.h"
#include "tools/verb.h"
#include "tools/workloads/run_card.h"
#include "tools/workloads/run_workload.h"
#include "zoo/zoo.h"

namespace tessera::tools {
namespace {

struct ReproArguments {
  std::string name, data, rows, output;
  std::vector<std::string> networks;
  std::vector<int> cards;
  int runs = 0;
  bool over_daemons = false;
  bool json = false;
};

nlohmann::json to_json(const repro::TimingTable& table) {
  nlohmann::json rows = nlohmann::json::array();
  for (const repro::TimingRow& row : table.rows) {
    nlohmann::json entry = {{"name", row.name},
                            {"measured", row.measured},
                            {"ours", row.ours},
                            {"difference", row.difference()},
                            {"error_percent", row.error_percent()}};
    for (std::size_t i = 0; i < row.extra.size(); ++i) entry[table.extra[i]] = row.extra[i];
    rows.push_back(std::move(entry));
  }
  return {{"name", table.name},
          {"title", table.title},
          {"unit", table.unit},
          {"mean_absolute_error_percent", table.mean_absolute_error_percent()},
          {"median_absolute_error_percent", table.median_absolute_error_percent()},
          {"largest_error_percent", table.largest_error_percent()},
          {"worst_row", table.worst_row()},
          {"notes", table.notes},
          {"rows", std::move(rows)}};
}

nlohmann::json to_json(const repro::FigureCell& cell) {
  return std::visit(
      [](const auto& value) -> nlohmann::json {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::monostate>) {
          return nullptr;
        } else {
          return value;
        }
      },
      cell);
}

nlohmann::json to_json(const repro::FigureTable& table) {
  nlohmann::json rows = nlohmann::json::array();
  for (const std::vector<repro::FigureCell>& row : table.rows) {
    nlohmann::json entry = nlohmann::json::object();
    for (std::size_t i = 0; i < row.size(); ++i) entry[table.columns[i]] = to_json(row[i]);
    rows.push_back(std::move(entry));
  }
  return rows;
}

std::string text_of(const repro::FigureCell& cell) {
  if (const auto* const name = std::get_if<std::string>(&cell)) return *name;
  if (const auto* const count = std::get_if<std::int64_t>(&cell)) return with_separators(*count);
  if (const auto* const value = std::get_if<double>(&cell)) return fmt::format("{:.3f}", *value);
  return "-";
}

void print(const repro::FigureTable& table) {
  if (!table.in_text || table.rows.empty()) return;
  const std::size_t columns = table.text_columns == 0 ? table.columns.size() : table.text_columns;
  const auto first = table.columns.begin();
  TextTable text({first, first + static_cast<std::ptrdiff_t>(columns)});
  for (const std::vector<repro::FigureCell>& row : table.rows) {
    std::vector<std::string> cells;
    for (std::size_t i = 0; i < columns; ++i) cells.push_back(text_of(row[i]));
    text.add(std::move(cells));
  }
  show("{}\n", table.name);
  show_lines(text.text(110) + "\n");
}

std::string figure(double value, int decimals) {
  if (decimals == 0) return with_separators(std::llround(value));
  return fmt::format("{:.{}f}", value, decimals);
}

void print(const repro::TimingTable& table) {
  std::vector<std::string> header = {table.title, "measured", "ours", "difference", "error %"};
  header.insert(header.end(), table.extra.begin(), table.extra.end());
  TextTable text(header);
  for (const repro::TimingRow& row : table.rows) {
    std::vector<std::string> cells = {
        row.name, figure(row.measured, table.decimals), figure(row.ours, table.decimals),
        figure(row.difference(), table.decimals), fmt::format("{:+.2f}", row.error_percent())};
    for (const double value : row.extra) cells.push_back(fmt::format("{:.2f}", value));
    cells.resize(header.size());
    text.add(std::move(cells));
  }
  const std::string worst =
      table.rows.empty() ? "" : fmt::format(" ({})", visible_text(table.worst_row()));
  show_lines(
      fmt::format("{}in {}: mean absolute error {:.2f} %, median {:.2f} %, largest {:.2f} %{}\n",
                  text.text(100), visible_text(table.unit), table.mean_absolute_error_percent(),
                  table.median_absolute_error_percent(), table.largest_error_percent(), worst));
  for (const std::string& note : table.notes) show("{}\n", note);
  show("\n");
}

// Of an experiment that runs networks of the zoo.
Status check_networks(const ReproArguments& arguments, const repro::Experiment& experiment) {
  if (!arguments.rows.empty() || !arguments.data.empty()) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("{} runs networks of the zoo and needs no --data or --rows; leave them "
                    "out, or choose with --networks",
                    experiment.name)};
  }
  for (const std::string& name : arguments.networks) {
    const auto found = zoo::find_network(name);
    if (!found.ok()) return found.error().with_context("--networks");
    if (std::ranges::count(arguments.networks, name) > 1) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("--networks names '{}' twice; once is enough", name)};
    }
  }
  if (arguments.output.empty()) return {};
  return make_figures_folder(arguments.output);
}

Status check(const ReproArguments& arguments, const repro::Experiment& experiment) {
  if (arguments.runs > 0 && std::string_view(experiment.name) != "remote") {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("{} takes no --runs, which goes with remote; leave it out", experiment.name)};
  }
  if (experiment.has_networks) return check_networks(arguments, experiment);
  if (!arguments.networks.empty() || !arguments.output.empty()) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("{} takes no {}, which goes with card and remote; leave it out",
                    experiment.name, arguments.networks.empty() ? "--output" : "--networks")};
  }
  if (!arguments.rows.empty() && !experiment.has_rows) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{} has no rows of its own; --rows goes with timing, {} needs --data",
                             experiment.name, experiment.name)};
  }
  if (!arguments.rows.empty() && !arguments.data.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "--data compares with published figures and --rows needs none; give one of them"};
  }
  if (!arguments.rows.empty() || !arguments.data.empty()) return {};
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("{} needs --data FOLDER with {}", experiment.name, experiment.needs)};
}

Status check_daemons(const ReproArguments& arguments, const repro::Experiment& experiment) {
  if (std::string_view(experiment.name) != "card") {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{} takes no {}, which goes with card; leave it out", experiment.name,
                             arguments.over_daemons ? "--over-daemons" : "--cards")};
  }
  if (!arguments.over_daemons) {
    return Error{ErrorCode::kInvalidArgument,
                 "--cards goes with --over-daemons; without it the tables of one to four cards are "
                 "all made"};
  }
  if (!arguments.output.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "--over-daemons has one table and no plots; leave --output out, --json has it"};
  }
  for (const int count : arguments.cards) {
    if (std::ranges::count(arguments.cards, count) > 1) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("--cards names {} twice; once is enough", count)};
    }
  }
  return {};
}

std::string verdict_of(const DaemonsRow& row) {
  if (!row.failure.empty()) return "failed";
  return row.is_same() ? "same" : "differs";
}

void print_json(const std::vector<DaemonsRow>& rows) {
  nlohmann::json list = nlohmann::json::array();
  for (const DaemonsRow& row : rows) {
    nlohmann::json entry = {{"network", row.one.network},
                            {"setting", row.setting},
                            {"cards", row.one.cards},
                            {"cores", row.one.cores},
                            {"gigabits", row.one.gigabits_per_second},
                            {"cycles", row.in_process},
                            {"cycles_over_daemons", nullptr},
                            {"verdict", verdict_of(row)}};
    if (row.failure.empty()) entry["cycles_over_daemons"] = row.over_daemons;
    if (!row.failure.empty()) entry["failure"] = row.failure;
    list.push_back(std::move(entry));
  }
  show_lines(json_text({{"experiment", "card"}, {"over_daemons", std::move(list)}}) + "\n");
}

// Cycles of cards of this process and of cards of daemons, which have to be the same.
Status reproduce_over_daemons(const ReproArguments& arguments) {
  std::vector<std::string> networks = arguments.networks;
  std::vector<int> cards = arguments.cards;
  if (networks.empty()) networks = {"ssd_vgg", "resnet50", "mobilenet_v1"};
  if (cards.empty()) cards = {1, 2, 3, 4};
  TESSERA_TRY(const std::vector<DaemonsRow> rows,
              compare_over_daemons(networks, cards, progress_bar()));
  if (arguments.json) {
    print_json(rows);
  } else {
    TextTable text({"network", "setting", "cards", "cores", "Gb/s", "cycles", "over daemons", ""});
    for (const DaemonsRow& row : rows) {
      text.add({row.one.network, row.setting, std::to_string(row.one.cards),
                std::to_string(row.one.cores),
                row.one.cards == 1 ? "-" : std::to_string(row.one.gigabits_per_second),
                with_separators(row.in_process),
                row.failure.empty() ? with_separators(row.over_daemons) : "-", verdict_of(row)});
    }
    show_lines(text.text());
    for (const DaemonsRow& row : rows) {
      if (row.failure.empty()) continue;
      show("{}, {}, {} cards at {} Gb/s: {}\n", row.one.network, row.setting, row.one.cards,
           row.one.gigabits_per_second, visible_text(row.failure));
    }
  }
  const auto others =
      std::ranges::count_if(rows, [](const DaemonsRow& row) { return !row.is_same(); });
  if (others == 0) return {};
  return Error{
      ErrorCode::kInternal,
      fmt::format("{} of {} rows have other cycles over daemons, or none", others, rows.size())};
}

Status reproduce(const ReproArguments& arguments) {
  TESSERA_TRY(const repro::Experiment* const experiment, repro::find_experiment(arguments.name));
  if (arguments.over_daemons || !arguments.cards.empty()) {
    TESSERA_RETURN_IF_ERROR(check_daemons(arguments, *experiment));
  }
  TESSERA_RETURN_IF_ERROR(check(arguments, *experiment));
  if (arguments.over_daemons) return reproduce_over_daemons(arguments);
  TESSERA_TRY(const repro::ExperimentResult result,
              experiment->run({.data = arguments.data,
                               .profile = arguments.rows,
                               .runner = run_workload,
                               .networks = arguments.networks,
                               .card_runner =
                                   [](std::span<const repro::CardCase> cases) {
                                     return run_card_cases(cases, progress_bar());
                                   },
                               .remote_runner =
                                   [](std::span<const repro::RemoteCase> cases) {
                                     return run_remote_cases(cases, progress_bar());
                                   },
                               .runs = arguments.runs}));
  if (!arguments.output.empty()) {
    TESSERA_RETURN_IF_ERROR(write_figures(
        arguments.output, experiment->name,
        fmt::format("tessera repro {}: {}", experiment->name, experiment->help), result));
  }
  if (arguments.json) {
    nlohmann::json tables = nlohmann::json::array();
    for (const repro::TimingTable& table : result.tables) tables.push_back(to_json(table));
    nlohmann::json document = {
        {"experiment", experiment->name}, {"tables", std::move(tables)}, {"notes", result.notes}};
    for (const auto& [name, value] : result.figures) document[name] = to_json(value);
    for (const repro::FigureTable& table : result.figure_tables) {
      document[table.name] = to_json(table);
    }
    show_lines(json_text(document) + "\n");
    return {};
  }
  for (const repro::TimingTable& table : result.tables) print(table);
  for (const repro::FigureTable& table : result.figure_tables) print(table);
  for (const auto& [name, value] : result.figures) show("{}: {}\n", name, text_of(value));
  show_lines(notes_text(result.notes));
  return {};
}

}  // namespace

Action repro_verb(CLI::App& app) {
  auto arguments = std::make_shared<ReproArguments>();  // shared with the returned action
  std::string names = "which:";
  std::string needs;
  for (const repro::Experiment& experiment : repro::experiments()) {
    names += fmt::format(" {} ({})", experiment.name, experiment.help);
    needs += fmt::format("{} needs {}\n", experiment.name, experiment.needs);
  }
  app.add_option("name", arguments->name, names)->required();
  app.add_option("--data", arguments->data, "folder with the published figures");
  app.add_option(
      "--rows", arguments->rows,
      "timing: our cycles of a list of workloads on this architecture (a profile such as "
      "tpuv3, or a file), without published figures");
  app.add_option(
         "--networks", arguments->networks,
         "card, remote: names of the zoo, with commas between; without it those that are published")
      ->delimiter(',');
  app.add_option(
      "--output", arguments->output,
      "card, remote: folder for the tables as .csv, those of the manual as tables.md, and "
      "card.html or remote.html with plots");
  app.add_option("--runs", arguments->runs, "remote: of each way to a processor (default 60)")
      ->check(CLI::Range(5, 1'000'000));
  app.add_flag("--over-daemons", arguments->over_daemons,
               "card: cycles of all cores of several cards, in this process and over daemons on "
               "loopback, a node for each card; exit status 1 where they differ. Needs etcd");
  app.add_option("--cards", arguments->cards,
                 "card --over-daemons: how many, with commas between; without it 1,2,3,4")
      ->delimiter(',')
      ->check(CLI::Range(1, 4));
  app.add_flag("--json", arguments->json, "print one JSON object");
  app.footer(fmt::format("{}\n{}", app.get_footer(), needs));
  return [arguments] { return reproduce(*arguments); };
}

}  // namespace tessera::tools
