#include "tools/cluster/pool_metrics.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "metrics/prometheus_text.h"

namespace tessera::tools {
namespace {

using metrics::label_value;
using metrics::PrometheusText;
using nlohmann::json;

std::string text_of(const json& of, const char* key) {
  const auto found = of.find(key);
  return found != of.end() && found->is_string() ? found->get<std::string>() : "";
}
std::int64_t number_of(const json& of, const char* key) {
  const auto found = of.find(key);
  return found != of.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
}
// The objects of a list in it.
std::vector<json> list_of(const json& of, const char* key) {
  std::vector<json> list;
  const auto found = of.find(key);
  if (found == of.end() || !found->is_array()) return list;
  for (const json& item : *found) {
    if (item.is_object()) list.push_back(item);
  }
  return list;
}

void add_nodes(const json& status, PrometheusText& out) {
  const char* const name = "tessera_cluster_node_up";
  out.head(name, "gauge", "Whether a node is there.");
  for (const json& node : list_of(status, "nodes")) {
    out.sample(name, fmt::format("node=\"{}\"", label_value(text_of(node, "node"))),
               text_of(node, "state") == "here" ? 1 : 0);
  }
}

struct CardMetric {
  const char* name;
  const char* help;
  std::int64_t (*value)(const json& card);
};
constexpr CardMetric kCardMetrics[] = {
    {"tessera_cluster_cores", "Cores of a card.",
     [](const json& card) { return number_of(card, "cores"); }},
    {"tessera_cluster_free_cores", "Those that nobody has.",
     [](const json& card) { return number_of(card, "free"); }},
    {"tessera_cluster_draining", "Whether a card gets nothing new.",
     [](const json& card) -> std::int64_t { return card.value("draining", json()) == true; }},
};

void add_cards(const json& status, PrometheusText& out) {
  const std::vector<json> cards = list_of(status, "pool");
  for (const CardMetric& metric : kCardMetrics) {
    out.head(metric.name, "gauge", metric.help);
    for (const json& card : cards) {
      out.sample(
          metric.name,
          fmt::format("node=\"{}\",card=\"{}\",arch=\"{}\"", label_value(text_of(card, "node")),
                      number_of(card, "card"), label_value(text_of(card, "arch"))),
          metric.value(card));
    }
  }
}

struct AllocMetric {
  const char* name;
  const char* type;
  const char* help;
  // None: nodes have not said it yet.
  std::optional<double> (*value)(const json& alloc);
};

std::optional<double> figure(const json& alloc, const char* key, double scale = 1) {
  const auto figures = alloc.find("figures");
  if (figures == alloc.end() || !figures->is_object()) return std::nullopt;
  return static_cast<double>(number_of(*figures, key)) / scale;
}

constexpr AllocMetric kAllocMetrics[] = {
    {"tessera_cluster_allocation_cores", "gauge", "Cores that an allocation has.",
     [](const json& alloc) -> std::optional<double> {
       if (text_of(alloc, "state") != "placed") return 0;
       return static_cast<double>(number_of(alloc, "cores_wanted"));
     }},
    {"tessera_cluster_allocation_cores_wanted", "gauge", "Cores that it has or waits for.",
     [](const json& alloc) -> std::optional<double> {
       return static_cast<double>(number_of(alloc, "cores_wanted"));
     }},
    {"tessera_cluster_runs_total", "counter", "Its runs that have ended.",
     [](const json& alloc) { return figure(alloc, "runs"); }},
    {"tessera_cluster_failures_total", "counter", "Those that ended with an error.",
     [](const json& alloc) { return figure(alloc, "failures"); }},
    {"tessera_cluster_waiting", "gauge", "Its requests that wait on their node.",
     [](const json& alloc) { return figure(alloc, "waiting"); }},
    {"tessera_cluster_bytes_in_total", "counter", "Bytes of tensors that came to its node.",
     [](const json& alloc) { return figure(alloc, "bytes_in"); }},
    {"tessera_cluster_bytes_out_total", "counter", "Bytes of tensors that went from there.",
     [](const json& alloc) { return figure(alloc, "bytes_out"); }},
    {"tessera_cluster_busy_seconds_total", "counter", "Time in which its runs were worked on.",
     [](const json& alloc) { return figure(alloc, "busy_us", 1e6); }},
};

void add_allocations(const json& status, PrometheusText& out) {
  const std::vector<json> allocs = list_of(status, "allocs");
  for (const AllocMetric& metric : kAllocMetrics) {
    out.head(metric.name, metric.type, metric.help);
    for (const json& alloc : allocs) {
      const std::optional<double> value = metric.value(alloc);
      if (!value) continue;
      out.sample(
          metric.name,
          fmt::format("tenant=\"{}\",allocation=\"{}\",node=\"{}\"",
                      label_value(text_of(alloc, "tenant")), label_value(text_of(alloc, "alloc")),
                      label_value(text_of(alloc, "node"))),
          *value);
    }
  }
}

}  // namespace

std::string pool_metrics_text(const json& status, bool is_answering) {
  PrometheusText out;
  out.head("tessera_cluster_up", "gauge", "Whether a master answers.");
  out.sample("tessera_cluster_up", "", is_answering ? 1 : 0);
  if (!status.is_object()) return out.take();
  out.head("tessera_cluster_epoch", "gauge", "Of the master; larger with each that leads.");
  out.sample("tessera_cluster_epoch", "", number_of(status, "epoch"));
  add_nodes(status, out);
  add_cards(status, out);
  add_allocations(status, out);
  return out.take();
}

}  // namespace tessera::tools
