#include "repro/card_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "repro/card_markdown.h"

namespace tessera::repro {
namespace {

constexpr int kCoresOfCard = 16;
constexpr std::array<int, 5> kCores = {1, 2, 4, 8, 16};

// The cases that the tables want, each once, and their runs.
class CaseBook {
 public:
  std::size_t want(const CardCase& one) {
    const auto [at, added] = places_.try_emplace(one.key(), cases_.size());
    if (added) cases_.push_back(one);
    return at->second;
  }
  Status run(const CardRunner& runner) {
    TESSERA_TRY(runs_, runner(cases_));
    TESSERA_CHECK(runs_.size() == cases_.size(), "{} runs of {} cases", runs_.size(),
                  cases_.size());
    return {};
  }
  const CardCase& at(std::size_t place) const { return cases_[place]; }
  const CardRun& of(std::size_t place) const { return runs_[place]; }

 private:
  std::map<std::string, std::size_t> places_;
  std::vector<CardCase> cases_;
  std::vector<CardRun> runs_;
};

// A row before it has run: places in the book.
struct WantedRow {
  std::string table, network;
  int cores = 1, cards = 1;  // of the row; a run of images apart is of one card
  std::int32_t gigabits = 0;
  std::optional<double> published = {};  // or two: from, to
  std::optional<double> published_to = {};
  std::size_t ours = 0, as_published = 0, strong = 0;
  std::size_t one = 0;  // ours on fewer cores, for `scaling`
};

struct Setting {
  const char* name;
  CardCase (*make)(const std::string& network, int cores, int cards);
};
constexpr std::array<Setting, 3> kSettings = {{{"ours", our_case},
                                               {"baseline as published", published_case},
                                               {"strong baseline", strong_case}}};

// A run's throughput where each team has an image.
struct Team {
  std::string network;
  std::size_t setting = 0;  // of kSettings
  int cores = 1;            // of the team
  std::size_t run = 0;
};

struct Change {
  std::string network, from, change;
  int cores = 1, cards = 1;
  std::size_t before = 0, after = 0;
};

// Ours, of both numbers of bits: how the cycles of an image shrink with the cores, or with a team for each.
struct Scaled {
  std::string network;
  std::size_t run = 0, one = 0;  // on one core
};

struct Wanted {
  std::vector<WantedRow> rows;
  std::vector<Scaled> scaled;
  std::vector<Team> teams;
  std::vector<Change> changes;
};

bool has(const std::vector<std::string>& networks, const std::string& name) {
  return std::ranges::find(networks, name) != networks.end();
}

std::vector<std::string> among(const std::vector<std::string>& networks,
                               std::initializer_list<const char*> names) {
  std::vector<std::string> found;
  for (const char* const name : names) {
    if (has(networks, name)) found.emplace_back(name);
  }
  return found;
}

void fill_cases(CaseBook& book, std::int32_t gigabits, int cards, int team, WantedRow& row) {
  const auto place = [&](const Setting& setting) {
    CardCase one = setting.make(row.network, kCoresOfCard, cards);
    one.cores = team != 0 ? kCoresOfCard : row.cores;
    one.team = team;
    one.gigabits_per_second = gigabits;
    return book.want(one);
  };
  row.ours = place(kSettings[0]);
  row.as_published = place(kSettings[1]);
  row.strong = place(kSettings[2]);
}

void want_latency(const std::vector<std::string>& networks, CaseBook& book, Wanted& wanted) {
  for (const std::string& network : networks) {
    for (const int cores : kCores) {
      WantedRow row{.table = "latency", .network = network, .cores = cores};
      if (network == "mobilenet_v1" && cores == 1) row.published = 1.4;
      if (network == "mobilenet_v1" && cores == kCoresOfCard) row.published = 4.9;
      fill_cases(book, 100, 1, 0, row);
      row.one = book.want(our_case(network, 1));
      wanted.rows.push_back(std::move(row));
    }
  }
}

void want_throughput(const std::vector<std::string>& networks, CaseBook& book, Wanted& wanted) {
  for (const std::string& network : among(networks, {"ssd_vgg", "mobilenet_v1"})) {
    for (int cards = 1; cards <= 4; ++cards) {
      WantedRow row{.table = "throughput",
                    .network = network,
                    .cores = cards * kCoresOfCard,
                    .cards = cards,
                    .published = 1.07,
                    .published_to = 1.36};
      fill_cases(book, 100, 1, 1, row);
      row.one = book.want(our_case(network, 1));
      wanted.rows.push_back(std::move(row));
    }
  }
}

void want_bounds(const std::vector<std::string>& networks, CaseBook& book, Wanted& wanted) {
  for (const std::string& network : among(networks, {"ssd_vgg", "mobilenet_v1"})) {
    for (std::size_t setting = 0; setting < kSettings.size(); ++setting) {
      for (const int team : kCores) {
        CardCase one = kSettings[setting].make(network, kCoresOfCard, 1);
        one.team = team;
        wanted.teams.push_back({network, setting, team, book.want(one)});
      }
    }
  }
}

void want_cards(const std::vector<std::string>& networks, CaseBook& book, Wanted& wanted) {
  constexpr std::array<double, 3> kOfCards = {1.24, 1.26, 1.57};  // SSD-VGG at 100 Gb/s
  for (const std::string& network : among(networks, {"ssd_vgg", "mobilenet_v1"})) {
    for (const std::int32_t gigabits : {100, 200}) {
      for (int cards = 1; cards <= 4; ++cards) {
        WantedRow row{.table = "cards",
                      .network = network,
                      .cores = cards * kCoresOfCard,
                      .cards = cards,
                      .gigabits = gigabits};
        if (network == "ssd_vgg" && cards > 1 && gigabits == 100) {
          row.published = kOfCards[static_cast<std::size_t>(cards - 2)];
        }
        // A card alone has no network.
        fill_cases(book, cards == 1 ? 100 : gigabits, cards, 0, row);
        row.one = book.want(our_case(network, kCoresOfCard));
        wanted.rows.push_back(std::move(row));
      }
    }
  }
}

void want_scaling(const std::vector<std::string>& networks, CaseBook& book, Wanted& wanted) {
  for (const std::string& network : networks) {
    for (const bool eight_bits : {true, false}) {
      CardCase one = our_case(network, 1);
      one.eight_bits = eight_bits;
      const std::size_t alone = book.want(one);
      for (const int cores : kCores) {
        one.cores = cores;
        wanted.scaled.push_back({network, book.want(one), alone});
      }
      if (!eight_bits) continue;
      for (const int team : {4, 1}) {
        one.team = team;
        wanted.scaled.push_back({network, book.want(one), alone});
      }
    }
  }
}

struct Switch {
  const char* name;
  void (*apply)(CardCase& one);
  int cards = 1;
};
constexpr std::array<Switch, 7> kWithout = {{
    {"merge = 0", [](CardCase& one) { one.features.merge = 0; }},
    {"broadcast = 0", [](CardCase& one) { one.features.broadcast = 0; }},
    {"forward = 0", [](CardCase& one) { one.features.forward = 0; }},
    {"dynamic_bandwidth = 0", [](CardCase& one) { one.features.dynamic_bandwidth = 0; }},
    {"instruction_sync = 0", [](CardCase& one) { one.features.instruction_sync = 0; }},
    {"needed_bytes_only = 0", [](CardCase& one) { one.features.needed_bytes_only = 0; }, 2},
    {"16-bit data", [](CardCase& one) { one.eight_bits = false; }},
}};
constexpr std::array<Switch, 4> kWeaker = {{
    {"split = w", [](CardCase& one) { one.features.split = CardSplit::kWidth; }},
    {"loads_beside_arithmetic = 0",
     [](CardCase& one) { one.features.loads_beside_arithmetic = 0; }},
    {"hand_over = 0", [](CardCase& one) { one.features.hand_over = 0; }},
    {"16-bit data", [](CardCase& one) { one.eight_bits = false; }},
}};

void want_changes(const std::vector<std::string>& networks, CaseBook& book, Wanted& wanted) {
  std::vector<std::string> of = among(networks, {"mobilenet_v1", "resnet50", "ssd_vgg"});
  if (of.empty()) of.push_back(networks.front());
  for (const std::string& network : of) {
    const auto add = [&](const char* from, const CardCase& before, const char* change,
                         const CardCase& after) {
      wanted.changes.push_back(
          {network, from, change, before.cores, before.cards, book.want(before), book.want(after)});
    };
    for (const Switch& one : kWithout) {
      const CardCase before = our_case(network, one.cards * kCoresOfCard, one.cards);
      CardCase after = before;
      one.apply(after);
      add("ours", before, one.name, after);
    }
    const CardCase strong = strong_case(network, kCoresOfCard);
    add("ours", our_case(network, kCoresOfCard), "all features: the strong baseline", strong);
    for (const Switch& one : kWeaker) {
      CardCase after = strong;
      one.apply(after);
      add("strong baseline", strong, one.name, after);
    }
    add("strong baseline", strong, "all of these: the baseline as published",
        published_case(network, kCoresOfCard));
  }
}

// ---- what came of it ----

double ratio(const CardRun& base, const CardRun& ours) {
  return base.cycles_of_image() / ours.cycles_of_image();
}
double megabytes(double bytes) { return bytes / 1e6; }

// How busy each is, of the time.
std::string busy_text(const CardRun& run) {
  std::string text =
      fmt::format("arrays busy {:.0f} %, planar engines {:.0f} %, channels {:.0f} %",
                  100 * run.array_share, 100 * run.planar_share, 100 * run.dram_share);
  if (run.network_share > 0)
    text += fmt::format(", network port {:.0f} %", 100 * run.network_share);
  return text;
}

std::string bytes_text(const char* what, std::int64_t base, std::int64_t ours,
                       std::int64_t images) {
  const auto of = static_cast<double>(images);
  return fmt::format("{:.2f} MB {} against {:.2f}", megabytes(static_cast<double>(base) / of), what,
                     megabytes(static_cast<double>(ours) / of));
}

// The difference in bytes and cycles, from what both runs counted; `part` is the baseline's of the channels.
std::string explain(const CardRun& ours, const CardRun& base, double part) {
  const double more_cycles = base.cycles_of_image() - ours.cycles_of_image();
  const double more_bytes =
      static_cast<double>(base.dram_bytes) / static_cast<double>(base.images) -
      static_cast<double>(ours.dram_bytes) / static_cast<double>(ours.images);
  std::string text =
      fmt::format("an image takes the baseline {:+.0f} cycles; it moves {}", more_cycles,
                  bytes_text("of DRAM", base.dram_bytes, ours.dram_bytes, base.images));
  if (base.ring_bytes + ours.ring_bytes > 0) {
    text += ", " + bytes_text("on the ring", base.ring_bytes, ours.ring_bytes, base.images);
  }
  if (base.network_bytes + ours.network_bytes > 0) {
    text +=
        ", " + bytes_text("on the network", base.network_bytes, ours.network_bytes, base.images);
  }
  const double cycles = more_bytes / base.dram_bytes_per_cycle;
  text += fmt::format("; what is more of DRAM takes {:+.0f} cycles at the channels' full speed",
                      cycles);
  if (part < 1) text += fmt::format(", {:+.0f} at the baseline's part of it", cycles / part);
  return text + fmt::format("; baseline: {}; ours: {}", busy_text(base), busy_text(ours));
}

// Of all channels, of the cores of a case whose parts are fixed.
double part_of(const CardCase& one) {
  return static_cast<double>(one.cores) / (one.cards * kCoresOfCard);
}

FigureCell published_cell(const WantedRow& row) {
  if (!row.published) return {};
  if (!row.published_to) return *row.published;
  return fmt::format("{:.2f} to {:.2f}", *row.published, *row.published_to);
}

const std::vector<std::string>& row_columns() {
  static const std::vector<std::string> columns = {
      "table", "network", "cores", "cards", "gigabits", "published", "ours", "ours_strong",
      "cycles", "of_bound", "scaling",
      // Not in the text.
      "images", "cycles_published", "cycles_strong", "dram_bytes", "dram_bytes_published",
      "dram_bytes_strong", "ring_bytes", "ring_bytes_published", "ring_bytes_strong",
      "network_bytes", "network_bytes_published", "network_bytes_strong", "explanation"};
  return columns;
}
constexpr std::size_t kRowColumnsInText = 11;

std::vector<FigureCell> row_cells(const WantedRow& row, const CaseBook& book) {
  const CardRun& ours = book.of(row.ours);
  const CardRun& published = book.of(row.as_published);
  const CardRun& strong = book.of(row.strong);
  const CardRun& one = book.of(row.one);
  // Several cards with images of their own are as many times one card: they exchange nothing.
  const std::int64_t cards = row.table == "throughput" ? row.cards : 1;
  const double cores = static_cast<double>(book.at(row.ours).cores) / book.at(row.one).cores;
  std::vector<FigureCell> cells = {row.table, row.network, std::int64_t{row.cores},
                                   std::int64_t{row.cards}};
  cells.push_back(row.gigabits == 0 ? FigureCell{} : FigureCell{std::int64_t{row.gigabits}});
  cells.push_back(published_cell(row));
  cells.insert(cells.end(),
               {ratio(published, ours), ratio(strong, ours), ours.cycles, ours.of_bound(),
                one.cycles_of_image() / (cores * ours.cycles_of_image()), cards * ours.images,
                published.cycles, strong.cycles});
  const auto add = [&](std::int64_t CardRun::* bytes) {
    for (const CardRun* run : {&ours, &published, &strong}) cells.push_back(cards * run->*bytes);
  };
  add(&CardRun::dram_bytes);
  add(&CardRun::ring_bytes);
  add(&CardRun::network_bytes);
  cells.push_back(explain(ours, published, part_of(book.at(row.as_published))));
  return cells;
}

std::vector<FigureCell> ratio_cells(const char* table, const std::string& network, int cores,
                                    FigureCell published, double ours, double strong) {
  std::vector<FigureCell> cells = {table, network, std::int64_t{cores}, std::int64_t{1}, {}};
  cells.insert(cells.end(), {std::move(published), ours, strong});
  cells.resize(row_columns().size());
  return cells;
}

// Means over the networks, of the latency's ratios.
void add_means(const std::vector<std::string>& networks, const Wanted& wanted, const CaseBook& book,
               FigureTable& table) {
  for (const int cores : kCores) {
    double published = 0, strong = 0;
    for (const WantedRow& row : wanted.rows) {
      if (row.table != "latency" || row.cores != cores) continue;
      published += ratio(book.of(row.as_published), book.of(row.ours));
      strong += ratio(book.of(row.strong), book.of(row.ours));
    }
    const auto count = static_cast<double>(networks.size());
    FigureCell figure;
    const bool all =
        std::ranges::all_of(card_networks(), [&](const auto& name) { return has(networks, name); });
    if (all && networks.size() == card_networks().size()) {
      if (cores == 1) figure = 1.2;
      if (cores == kCoresOfCard) figure = 3.3;
    }
    table.rows.push_back(ratio_cells("latency_mean", fmt::format("mean of {}", networks.size()),
                                     cores, figure, published / count, strong / count));
  }
}

// Of those whose latency is at most `bound` cycles, the run of most images a second; null if none is.
const CardRun* best_within(const Wanted& wanted, const CaseBook& book, const std::string& network,
                           std::size_t setting, Cycles bound) {
  const CardRun* best = nullptr;
  for (const Team& team : wanted.teams) {
    const CardRun& run = book.of(team.run);
    if (team.network != network || team.setting != setting || run.cycles > bound) continue;
    if (best == nullptr || run.cycles_of_image() < best->cycles_of_image()) best = &run;
  }
  return best;
}

// The strictest bound that a baseline can hold: there it needs all cores for an image, or as many as give
// it its shortest latency.
Cycles strictest(const Wanted& wanted, const CaseBook& book, const std::string& network,
                 std::size_t setting) {
  Cycles least = kNever;
  for (const Team& team : wanted.teams) {
    if (team.network != network || team.setting != setting) continue;
    least = std::min(least, book.of(team.run).cycles);
  }
  return least;
}

void add_bounds(const Wanted& wanted, const CaseBook& book, FigureTable& rows,
                FigureTable& within) {
  for (std::size_t i = 0; i < wanted.teams.size(); ++i) {
    const Team& team = wanted.teams[i];
    const CardRun& run = book.of(team.run);
    within.rows.push_back({team.network, kSettings[team.setting].name, std::int64_t{team.cores},
                           run.cycles, run.milliseconds(), run.images_per_second()});
    const bool last = i + 1 == wanted.teams.size() || wanted.teams[i + 1].network != team.network;
    if (!last) continue;
    const auto gain = [&](std::size_t setting) {
      const Cycles bound = strictest(wanted, book, team.network, setting);
      const CardRun* const base = best_within(wanted, book, team.network, setting, bound);
      const CardRun* const ours = best_within(wanted, book, team.network, 0, bound);
      return ours == nullptr ? 0.0 : ratio(*base, *ours);
    };
    std::vector<FigureCell> cells =
        ratio_cells("within_bound", team.network, kCoresOfCard, "2.98 to 3.75", gain(1), gain(2));
    const Cycles bound = strictest(wanted, book, team.network, 1);
    const CardRun* const ours = best_within(wanted, book, team.network, 0, bound);
    const CardRun* const base = best_within(wanted, book, team.network, 1, bound);
    std::string text =
        fmt::format("the bound is {} cycles, which the baseline keeps with {} image(s) at a time",
                    bound, base->images);
    text += ours == nullptr
                ? "; ours does not keep it"
                : fmt::format(" and ours with {}; {}", ours->images, explain(*ours, *base, 1));
    cells.back() = std::move(text);
    rows.rows.push_back(std::move(cells));
  }
}

FigureTable scaling_table(const Wanted& wanted, const CaseBook& book) {
  FigureTable table{
      .name = "scaling",
      .columns = {"network", "bits", "cores", "cores_of_image", "cycles", "images", "scaling",
                  "of_bound", "arithmetic_cycles", "memory_cycles", "dram_bytes"},
      .text_columns = 8};
  for (const Scaled& scaled : wanted.scaled) {
    const CardCase& one = book.at(scaled.run);
    const CardRun& run = book.of(scaled.run);
    const double alone = book.of(scaled.one).cycles_of_image();
    table.rows.push_back({scaled.network, std::int64_t{one.eight_bits ? 8 : 16},
                          std::int64_t{one.cores},
                          std::int64_t{one.team == 0 ? one.cores : one.team}, run.cycles,
                          run.images, alone / (one.cores * run.cycles_of_image()), run.of_bound(),
                          run.arithmetic_cycles, run.memory_cycles, run.dram_bytes});
  }
  return table;
}

FigureTable change_table(const Wanted& wanted, const CaseBook& book) {
  FigureTable table{
      .name = "sensitivity",
      .columns = {"change", "network", "cores", "from", "cycles_from", "cycles", "factor",
                  "dram_bytes_from", "dram_bytes", "network_bytes_from", "network_bytes"},
      .text_columns = 7};
  for (const Change& change : wanted.changes) {
    const CardRun& before = book.of(change.before);
    const CardRun& after = book.of(change.after);
    table.rows.push_back({change.change, change.network, std::int64_t{change.cores}, change.from,
                          before.cycles, after.cycles, ratio(after, before), before.dram_bytes,
                          after.dram_bytes, before.network_bytes, after.network_bytes});
  }
  return table;
}

// ---- plots ----

using Points = std::vector<std::pair<double, double>>;

std::vector<PlotLine> latency_lines(const Wanted& wanted, const CaseBook& book,
                                    const std::string& table, const std::string& network) {
  std::map<std::pair<std::int32_t, std::size_t>, Points> lines;
  for (const WantedRow& row : wanted.rows) {
    if (row.table != table || row.network != network) continue;
    const std::array<std::size_t, 3> places = {row.ours, row.as_published, row.strong};
    for (std::size_t i = 0; i < places.size(); ++i) {
      lines[{row.gigabits, i}].emplace_back(row.cores, book.of(places[i]).milliseconds());
    }
  }
  std::vector<PlotLine> result;
  for (auto& [which, points] : lines) {
    std::string name = kSettings[which.second].name;
    if (which.first != 0) name += fmt::format(", {} Gb/s", which.first);
    result.push_back({std::move(name), std::move(points)});
  }
  return result;
}

// Images a second that a bound allows, at the bounds where that changes.
std::vector<PlotLine> bound_lines(const Wanted& wanted, const CaseBook& book,
                                  const std::string& network) {
  std::vector<PlotLine> result;
  for (std::size_t setting = 0; setting < kSettings.size(); ++setting) {
    std::map<Cycles, double> bounds;  // milliseconds
    for (const Team& team : wanted.teams) {
      if (team.network != network || team.setting != setting) continue;
      bounds.emplace(book.of(team.run).cycles, book.of(team.run).milliseconds());
    }
    PlotLine line{kSettings[setting].name, {}};
    double before = 0;
    for (const auto& [cycles, milliseconds] : bounds) {
      const double most = best_within(wanted, book, network, setting, cycles)->images_per_second();
      if (before > 0 && most > before) line.points.emplace_back(milliseconds, before);
      line.points.emplace_back(milliseconds, most);
      before = most;
    }
    result.push_back(std::move(line));
  }
  return result;
}

std::vector<FigurePlot> make_plots(const std::vector<std::string>& networks, const Wanted& wanted,
                                   const CaseBook& book) {
  std::vector<FigurePlot> plots;
  for (const std::string& network : networks) {
    plots.push_back(
        {"Latency of " + network, "cores", "ms", latency_lines(wanted, book, "latency", network)});
  }
  for (const std::string& network : among(networks, {"ssd_vgg", "mobilenet_v1"})) {
    plots.push_back({"Throughput of " + network + " on 16 cores within a bound of latency",
                     "bound, ms", "images a second", bound_lines(wanted, book, network)});
    plots.push_back({"Latency of " + network + " on one to four cards", "cores", "ms",
                     latency_lines(wanted, book, "cards", network)});
  }
  return plots;
}

}  // namespace

std::vector<std::string> card_networks() {
  return {"yolov3_tiny", "yolov3",   "ssd_mobilenet", "ssd_vgg",
          "vgg16",       "resnet50", "mobilenet_v1",  "inception_v3"};
}

CardCase our_case(const std::string& network, int cores, int cards) {
  return {.network = network, .cores = cores, .cards = cards, .eight_bits = true};
}
CardCase strong_case(const std::string& network, int cores, int cards) {
  CardCase one = our_case(network, cores, cards);
  CardFeatures& features = one.features;
  features.merge = features.broadcast = features.forward = features.dynamic_bandwidth = 0;
  features.needed_bytes_only = features.instruction_sync = 0;
  return one;
}
CardCase published_case(const std::string& network, int cores, int cards) {
  CardCase one = strong_case(network, cores, cards);
  one.features.loads_beside_arithmetic = 0;
  one.features.hand_over = 0;
  one.features.split = CardSplit::kWidth;
  one.through_memory = true;
  one.eight_bits = false;
  return one;
}

Result<ExperimentResult> card_tables(const std::vector<std::string>& networks,
                                     const CardRunner& runner) {
  TESSERA_CHECK(!networks.empty() && runner, "no networks, or nothing that runs them");
  CaseBook book;
  Wanted wanted;
  want_latency(networks, book, wanted);
  want_throughput(networks, book, wanted);
  want_bounds(networks, book, wanted);
  want_cards(networks, book, wanted);
  want_changes(networks, book, wanted);
  want_scaling(networks, book, wanted);
  TESSERA_RETURN_IF_ERROR(book.run(runner));
  FigureTable rows{.name = "rows", .columns = row_columns(), .text_columns = kRowColumnsInText};
  for (const WantedRow& row : wanted.rows) rows.rows.push_back(row_cells(row, book));
  add_means(networks, wanted, book, rows);
  FigureTable within{.name = "within_bound",
                     .columns = {"network", "side", "cores_of_image", "latency_cycles",
                                 "latency_ms", "images_per_second"}};
  add_bounds(wanted, book, rows, within);
  ExperimentResult result;
  result.figure_tables = {std::move(rows), change_table(wanted, book), std::move(within),
                          scaling_table(wanted, book)};
  result.documents = {{"tables.md", card_markdown(networks, result.figure_tables)}};
  result.plots = make_plots(networks, wanted, book);
  result.notes = {
      "ratios are of the baseline's cycles to ours: `ours` of the baseline as published, "
      "`ours_strong` of the "
      "strong one",
      "ours and the strong baseline have 8-bit data, the baseline as published 16-bit data",
      "throughput on several cards is that of one card as many times: cards with images of their "
      "own exchange nothing"};
  return result;
}

}  // namespace tessera::repro
