// tessera card: tenants on one card: who has what of it, and how fast each is alone and beside the others.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "arch/card_config.h"
#include "tessera/card_schedule.h"
#include "tools/card/card_run.h"
#include "tools/card/card_view.h"
#include "tools/files/tensor_file.h"
#include "tools/terminal/console.h"
#include "tools/verb.h"

namespace tessera::tools {
namespace {

struct CardArguments {
  std::vector<std::string> tenants;
  std::string arch = "cloud16";
  std::vector<int> counts;
  std::string http;  // empty: no page
  double seconds = 0;
  int cards = 1, times = 3;
  bool schedule = false, timing_only = false, json = false;
};

Result<CardTenant> load_tenant(const CardArguments& arguments, TenantArguments tenant) {
  TESSERA_TRY(Network network,
              Network::load(tenant.model, {.arch = arguments.arch, .progress = progress_bar()}));
  const std::string seed = fmt::format("random:{}", tenant.seed);
  TESSERA_TRY(std::vector<Tensor> inputs,
              read_inputs(network.inputs().empty() ? std::vector<std::string>{}
                                                   : std::vector<std::string>{seed},
                          network.inputs(), {}));
  return CardTenant{.arguments = std::move(tenant),
                    .network = std::move(network),
                    .inputs = std::move(inputs),
                    .processor = {},
                    .waits = {},
                    .alone = {},
                    .together = {},
                    .status = {}};
}

Status take_processors(const VirtualCard& card, std::vector<CardTenant>& tenants) {
  for (CardTenant& tenant : tenants) {
    TESSERA_TRY(tenant.processor, card.take(tenant.arguments.processor));
  }
  return {};
}

// They arrive one after the other.
Status schedule_tenants(const CardSchedule& schedule, std::vector<CardTenant>& tenants) {
  for (CardTenant& tenant : tenants) {
    const VirtualProcessorOptions& wanted = tenant.arguments.processor;
    TESSERA_TRY(tenant.processor, schedule.arrive({.name = wanted.name,
                                                   .network = tenant.network,
                                                   .terms = tenant.arguments.terms,
                                                   .memory_bytes = wanted.memory_bytes,
                                                   .channel_weight = wanted.weight}));
  }
  for (const ScheduledTenant& of : schedule.status().tenants) {
    const auto tenant = std::ranges::find_if(
        tenants, [&](const CardTenant& one) { return one.processor.name() == of.processor.name; });
    if (of.processor.cores.empty()) tenant->waits = of.reason;
  }
  return {};
}

nlohmann::json performance_json(const ScheduleStatus& status) {
  nlohmann::json tenants = nlohmann::json::object();
  for (const ScheduledTenant& of : status.tenants) {
    nlohmann::json points = nlohmann::json::array();
    for (const PerformancePoint& point : of.performance) {
      points.push_back({{"cores", point.cores},
                        {"latency_us", point.latency_us},
                        {"images_per_second", point.images_per_second}});
    }
    tenants[of.processor.name] = std::move(points);
  }
  return tenants;
}

std::string schedule_text(const ScheduleStatus& status) {
  TextTable table({"tenant", "number", "cores: us an image"});
  for (const ScheduledTenant& of : status.tenants) {
    std::string points;
    for (const PerformancePoint& point : of.performance) {
      points +=
          fmt::format("{}{}: {:.1f}", points.empty() ? "" : "  ", point.cores, point.latency_us);
    }
    table.add({of.processor.name, fmt::format("{}", of.number), points});
  }
  std::string text = table.text();
  // The steps between are in the JSON.
  for (const std::string& decision : status.decisions) {
    if (decision.starts_with("give") || decision.starts_with("take")) continue;
    if (!decision.starts_with("clear")) text += visible_text(decision) + "\n";
  }
  return text;
}

// What went wrong with tenants' runs.
Status failures(const std::vector<CardTenant>& tenants) {
  for (const CardTenant& tenant : tenants) TESSERA_RETURN_IF_ERROR(tenant.status);
  return {};
}

// Options that would do nothing are refused.
Status check_options(const CardArguments& arguments) {
  if (!arguments.schedule && !arguments.counts.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "--counts says which numbers of cores a schedule may give; add --schedule, or "
                 "leave it out"};
  }
  if (arguments.http.empty() && arguments.seconds > 0) {
    return Error{ErrorCode::kInvalidArgument,
                 "--seconds says when the live page ends; add --http, or leave it out"};
  }
  return {};
}

Status card(const CardArguments& arguments) {
  TESSERA_TRY(std::vector<TenantArguments> wanted,
              parse_tenants(arguments.tenants, arguments.schedule));
  TESSERA_RETURN_IF_ERROR(check_options(arguments));
  TESSERA_TRY(const VirtualCard card, VirtualCard::open(arguments.arch, arguments.cards));
  std::vector<CardTenant> tenants;
  for (TenantArguments& tenant : wanted) {
    TESSERA_TRY(CardTenant loaded, load_tenant(arguments, std::move(tenant)));
    tenants.push_back(std::move(loaded));
  }
  std::optional<CardSchedule> schedule;
  if (arguments.schedule) {
    TESSERA_TRY(schedule, CardSchedule::open(card, {.core_counts = arguments.counts}));
    TESSERA_RETURN_IF_ERROR(schedule_tenants(*schedule, tenants));
  } else {
    TESSERA_RETURN_IF_ERROR(take_processors(card, tenants));
  }
  if (!arguments.http.empty()) {
    return view_tenants(card, tenants,
                        {.listen = arguments.http,
                         .seconds = arguments.seconds,
                         .timing_only = arguments.timing_only,
                         .json = arguments.json});
  }
  TESSERA_RETURN_IF_ERROR(run_tenants({arguments.arch, arguments.cards}, arguments.times,
                                      arguments.timing_only, tenants));
  const CardStatus status = card.status();
  if (arguments.json) {
    nlohmann::json document = card_json(status, tenants);
    document["times"] = arguments.times;
    document["timing_only"] = arguments.timing_only;
    if (schedule) {
      const ScheduleStatus of = schedule->status();
      document["decisions"] = of.decisions;
      document["performance"] = performance_json(of);
    }
    show_lines(json_text(document) + "\n");
    return failures(tenants);
  }
  if (schedule) show_lines(schedule_text(schedule->status()) + "\n");
  show("{}: {} cores in {} groups{}, {:g} MHz\n", status.arch,
       status.groups * status.cores_per_group, status.groups,
       status.cards == 1 ? "" : fmt::format(" on {} cards", status.cards),
       static_cast<double>(status.clock_hertz) * 1e-6);
  show_lines(cores_text(status) + "\n" + tenants_text(status, tenants) + "\n" + parts_text(status));
  show("busy: of {} cycles of the card's clock, clearing included; bytes: on wires with headers\n",
       with_separators(status.cycles));
  show(
      "cycles of a run on the card's clock, mean of {}; alone: on the same cores, with nobody else "
      "on the card{}\n",
      arguments.times, arguments.timing_only ? "" : "; the outputs are the same");
  return failures(tenants);
}

}  // namespace

Action card_verb(CLI::App& app) {
  auto arguments = std::make_shared<CardArguments>();  // shared with the returned action
  app.add_option("--tenant", arguments->tenants,
                 "a model or package with what its tenant gets: MODEL:cores=4,weight=2; once for "
                 "each tenant")
      ->required()
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
  app.add_option("--arch", arguments->arch,
                 "architecture of the card: a profile's name or a .toml file")
      ->capture_default_str();
  app.add_option("--cards", arguments->cards,
                 "cards with a network between them: their cores have one row of numbers")
      ->check(CLI::Range(1, kCardCoresMax))
      ->capture_default_str();
  app.add_flag("--schedule", arguments->schedule,
               "tenants arrive one after the other, and a schedule decides their cores by their "
               "terms");
  app.add_option("--counts", arguments->counts,
                 "with --schedule: the numbers of cores that it may give, with commas between "
                 "(powers of two, and all of the card)")
      ->delimiter(',');
  app.add_option("--times", arguments->times, "runs of each tenant beside the others")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--http", arguments->http,
                 "run the tenants again and again behind a live page that draws the card: PORT (of "
                 "this machine only) or ADDRESS:PORT; port 0 takes any that is free");
  app.add_option("--seconds", arguments->seconds, "with --http: end after so long (0: at Ctrl-C)")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--timing-only", arguments->timing_only, "skip the values, same cycles");
  app.add_flag("--json", arguments->json, "print one JSON object");
  app.footer(fmt::format("{}\n{}", app.get_footer(), tenant_keys_text()));
  return [arguments] { return card(*arguments); };
}

}  // namespace tessera::tools
