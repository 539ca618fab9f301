#include "tools/card/card_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "tools/terminal/console.h"

namespace tessera::tools {
namespace {

// As often, on the same cores of a card that nobody else uses.
Result<TogetherResult> run_alone(const CardsOf& cards, int times, bool timing_only,
                                 const CardTenant& tenant) {
  TESSERA_TRY(const VirtualCard card, VirtualCard::open(cards.arch, cards.cards));
  const ProcessorStatus status = tenant.processor.status();
  TESSERA_TRY(const VirtualProcessor processor, card.take({.name = status.name,
                                                           .core_numbers = status.cores,
                                                           .memory_bytes = status.memory_bytes,
                                                           .weight = status.weight}));
  TESSERA_TRY(Session session,
              Session::open(tenant.network, {.timing_only = timing_only, .processor = processor}));
  const TogetherRuns runs{.session = &session, .inputs = tenant.inputs, .times = times};
  TESSERA_TRY(std::vector<TogetherResult> results, run_together({&runs, 1}));
  TESSERA_RETURN_IF_ERROR(results[0].status);
  return std::move(results[0]);
}

std::string tenant_of(const CardStatus& status, int core) {
  for (const ProcessorStatus& one : status.processors) {
    if (std::ranges::count(one.cores, core) > 0) return one.name;
    if (std::ranges::count(one.reserved, core) > 0) return one.name + "?";
  }
  return "";
}

std::string bytes_text(std::int64_t bytes) {
  if (bytes % (1LL << 30) == 0) return fmt::format("{} GiB", bytes >> 30);
  if (bytes % (1LL << 20) == 0) return fmt::format("{} MiB", bytes >> 20);
  return fmt::format("{} KiB", bytes >> 10);
}

const ProcessorStatus* status_of(const CardStatus& status, const std::string& name) {
  const auto found = std::ranges::find(status.processors, name, &ProcessorStatus::name);
  return found == status.processors.end() ? nullptr : &*found;
}

double images_per_second(const CardStatus& status, double cycles) {
  return cycles > 0 ? static_cast<double>(status.clock_hertz) / cycles : 0;
}

nlohmann::json text_or_null(const std::string& text) {
  return text.empty() ? nlohmann::json() : nlohmann::json(text);
}

nlohmann::json group_json(const CardStatus& status, int group) {
  nlohmann::json cores = nlohmann::json::array(), memory = nlohmann::json::array();
  for (int core = group * status.cores_per_group; core < (group + 1) * status.cores_per_group;
       ++core) {
    const std::string tenant = tenant_of(status, core);
    cores.push_back({{"core", core}, {"tenant", text_or_null(tenant)}});
  }
  for (const ProcessorStatus& one : status.processors) {
    if (std::ranges::count(one.groups, group) == 0) continue;
    memory.push_back({{"tenant", one.name},
                      {"first", one.memory_first},
                      {"bytes", one.memory_bytes},
                      {"weight", one.weight}});
  }
  return {{"group", group}, {"cores", std::move(cores)}, {"memory", std::move(memory)}};
}

}  // namespace

double mean_of(const std::vector<std::int64_t>& cycles) {
  if (cycles.empty()) return 0;
  const auto sum = std::accumulate(cycles.begin(), cycles.end(), std::int64_t{0});
  return static_cast<double>(sum) / static_cast<double>(cycles.size());
}

Status run_tenants(const CardsOf& cards, int times, bool timing_only,
                   std::vector<CardTenant>& tenants) {
  std::vector<Session> sessions;
  std::vector<CardTenant*> with_cores;
  std::vector<std::vector<Tensor>> outputs;  // alone
  for (CardTenant& tenant : tenants) {
    if (!tenant.waits.empty()) continue;
    auto alone = run_alone(cards, times, timing_only, tenant);
    if (!alone.ok()) return alone.error().with_context("alone");
    tenant.alone = alone->cycles;
    outputs.push_back(std::move(alone->last.outputs));
    TESSERA_TRY(Session session, Session::open(tenant.network, {.timing_only = timing_only,
                                                                .processor = tenant.processor}));
    sessions.push_back(std::move(session));
    with_cores.push_back(&tenant);
  }
  std::vector<TogetherRuns> runs;
  for (std::size_t i = 0; i < sessions.size(); ++i) {
    runs.push_back({.session = &sessions[i], .inputs = with_cores[i]->inputs, .times = times});
  }
  TESSERA_TRY(const std::vector<TogetherResult> results, run_together(runs));
  for (std::size_t i = 0; i < results.size(); ++i) {
    CardTenant& tenant = *with_cores[i];
    tenant.status = results[i].status;
    tenant.together = results[i].cycles;
    tenant.processor_cycles = results[i].last.cycles;
    if (!tenant.status.ok() || results[i].last.outputs == outputs[i]) continue;
    return Error{ErrorCode::kInternal,
                 fmt::format("tenant '{}' has other outputs beside the others than alone",
                             tenant.processor.name())};
  }
  return {};
}

std::string cores_text(const CardStatus& status) {
  std::vector<std::string> header = {"group"};
  if (status.cards > 1) header.insert(header.begin(), "card");
  const int groups_per_card = status.groups / status.cards;
  for (int core = 0; core < status.cores_per_group; ++core) {
    header.push_back(fmt::format("core {}", core));
  }
  header.emplace_back("memory");
  TextTable table(header);
  for (int group = 0; group < status.groups; ++group) {
    std::vector<std::string> row = {fmt::format("{}", group)};
    if (status.cards > 1) row.insert(row.begin(), fmt::format("{}", group / groups_per_card));
    for (int core = 0; core < status.cores_per_group; ++core) {
      const std::string tenant = tenant_of(status, group * status.cores_per_group + core);
      row.push_back(tenant.empty() ? "-" : tenant);
    }
    std::int64_t held = 0;
    for (const ProcessorStatus& one : status.processors) {
      if (std::ranges::count(one.groups, group) > 0) held += one.memory_bytes;
    }
    row.push_back(fmt::format("{} of {}", bytes_text(held), bytes_text(status.memory_bytes)));
    table.add(std::move(row));
  }
  return table.text();
}

std::string parts_text(const CardStatus& status) {
  const auto part = [&](const char* kind, int index) -> const CardPart* {
    const auto found = std::ranges::find_if(
        status.parts, [&](const CardPart& one) { return one.kind == kind && one.index == index; });
    return found == status.parts.end() ? nullptr : &*found;
  };
  const double cycles = static_cast<double>(std::max<std::int64_t>(1, status.cycles));
  const auto busy = [&](const CardPart* of) {
    return of == nullptr ? "-" : percent(static_cast<double>(of->busy_cycles) / cycles);
  };
  const auto bytes = [](const CardPart* of) {
    return of == nullptr ? "-" : with_separators(of->bytes);
  };
  TextTable groups({"card", "group", "cores busy", "channel", "bytes", "broadcast", "ring to next",
                    "ring bytes"});
  const int groups_of_card = status.groups / status.cards;
  for (int group = 0; group < status.groups; ++group) {
    std::vector<std::string> cores;
    for (int core = 0; core < status.cores_per_group; ++core) {
      cores.push_back(busy(part("core", group * status.cores_per_group + core)));
    }
    const CardPart *const dram = part("dram", group), *const ring = part("ring", group);
    groups.add({fmt::format("{}", group / groups_of_card), fmt::format("{}", group),
                fmt::format("{}", fmt::join(cores, " ")), busy(dram), bytes(dram),
                busy(part("broadcast", group)), busy(ring), bytes(ring)});
  }
  if (status.cards == 1) return groups.text();
  TextTable ports({"card", "network out", "bytes", "network in", "bytes"});
  for (int card = 0; card < status.cards; ++card) {
    const CardPart *const out = part("network_out", card), *const in = part("network_in", card);
    ports.add({fmt::format("{}", card), busy(out), bytes(out), busy(in), bytes(in)});
  }
  return groups.text() + ports.text();
}

std::string tenants_text(const CardStatus& status, const std::vector<CardTenant>& tenants) {
  TextTable table(
      {"tenant", "cores", "memory", "weight", "alone", "together", "slower", "images/s"});
  std::string notes;
  for (const CardTenant& tenant : tenants) {
    const std::string& name = tenant.processor.name();
    const ProcessorStatus* const of = status_of(status, name);
    if (!tenant.waits.empty()) {
      notes += fmt::format("{} waits: {}\n", visible_text(name), visible_text(tenant.waits));
    } else if (!tenant.status.ok()) {
      notes += fmt::format("{} failed: {}\n", visible_text(name),
                           visible_text(tenant.status.error().message));
    }
    const double alone = mean_of(tenant.alone), together = mean_of(tenant.together);
    table.add(
        {name, fmt::format("{}", of->cores.size()),
         of->cores.empty()
             ? "-"
             : fmt::format("{} at {}", bytes_text(of->memory_bytes), bytes_text(of->memory_first)),
         fmt::format("{}", of->weight), with_separators(std::llround(alone)),
         with_separators(std::llround(together)),
         alone > 0 && together > 0 ? fmt::format("{:+.2f} %", 100 * (together / alone - 1)) : "-",
         fmt::format("{:.1f}", images_per_second(status, together))});
  }
  return table.text() + notes;
}

nlohmann::json card_json(const CardStatus& status, const std::vector<CardTenant>& tenants) {
  nlohmann::json groups = nlohmann::json::array(), list = nlohmann::json::array();
  for (int group = 0; group < status.groups; ++group) groups.push_back(group_json(status, group));
  for (const CardTenant& tenant : tenants) {
    const ProcessorStatus* const of = status_of(status, tenant.processor.name());
    const double alone = mean_of(tenant.alone), together = mean_of(tenant.together);
    list.push_back({{"name", of->name},
                    {"model", tenant.arguments.model},
                    {"cores", of->cores},
                    {"groups", of->groups},
                    {"memory_first", of->memory_first},
                    {"memory_bytes", of->memory_bytes},
                    {"weight", of->weight},
                    {"cleared_bytes", of->cleared_bytes},
                    {"cleared_cycles", of->cleared_cycles},
                    {"waits", text_or_null(tenant.waits)},
                    {"cycles_alone", tenant.alone},
                    {"cycles_together", tenant.together},
                    {"cycles_alone_mean", alone},
                    {"cycles_together_mean", together},
                    {"processor_cycles", tenant.processor_cycles},
                    {"images_per_second_alone", images_per_second(status, alone)},
                    {"images_per_second", images_per_second(status, together)},
                    {"status", tenant.status.ok() ? "ok" : tenant.status.error().message}});
  }
  nlohmann::json parts = nlohmann::json::array();
  for (const CardPart& part : status.parts) {
    parts.push_back({{"kind", part.kind},
                     {"index", part.index},
                     {"card", part.card},
                     {"busy_cycles", part.busy_cycles},
                     {"bytes", part.bytes}});
  }
  return {{"arch", status.arch},
          {"cards", status.cards},
          {"cycles", status.cycles},
          {"parts", std::move(parts)},
          {"clock_hertz", status.clock_hertz},
          {"memory_bytes", status.memory_bytes},
          {"groups", std::move(groups)},
          {"tenants", std::move(list)}};
}

}  // namespace tessera::tools
