#include "serve/metrics_text.h"

#include <fmt/format.h>

#include <functional>
#include <iterator>
#include <map>
#include <utility>

namespace tessera::serve {
namespace {

// A label's value: backslash, quotation mark and line end are escaped.
std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\' || c == '"') result += '\\';
    result += c == '\n' ? "\\n" : std::string(1, c);
  }
  return result;
}

double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

struct OfModel {
  std::string labels;
  ModelStatistics statistics;
};
using Value = std::function<double(const ModelStatistics&)>;

class Text {
 public:
  explicit Text(const std::vector<std::shared_ptr<ServedModel>>& models) {
    for (const auto& model : models) {
      models_.push_back({fmt::format("model=\"{}\",version=\"{}\"", escaped(model->name()),
                                     escaped(model->version())),
                         model->statistics()});
    }
  }

  void family(const char* name, const char* help, const char* type,
              const std::vector<std::pair<std::string, Value>>& rows) {
    head(name, help, type);
    for (const OfModel& model : models_) {
      for (const auto& [label, value] : rows) {
        const std::string more = label.empty() ? "" : "," + label;
        line(name, model.labels + more, value(model.statistics));
      }
    }
  }

  void cores(const char* name, const char* help) {
    head(name, help, "counter");
    for (const OfModel& model : models_) {
      const std::vector<std::int64_t>& busy = model.statistics.core_busy;
      for (std::size_t core = 0; core < busy.size(); ++core) {
        line(name, fmt::format("{},core=\"{}\"", model.labels, core),
             static_cast<double>(busy[core]));
      }
    }
  }

  using Tenants = std::map<std::string, TenantStatistics>;
  using OfTenant = double (*)(const TenantStatistics&);
  void tenants(const char* name, const char* help, const char* type, const Tenants& all,
               OfTenant value) {
    head(name, help, type);
    for (const auto& [tenant, statistics] : all) {
      line(name, fmt::format("tenant=\"{}\"", escaped(tenant)), value(statistics));
    }
  }

  using Buckets = TimeBuckets ModelStatistics::Parts::*;
  void histogram(const char* name, const char* help,
                 const std::vector<std::pair<std::string, Buckets>>& parts) {
    head(name, help, "histogram");
    for (const OfModel& model : models_) {
      for (const auto& [label, of] : parts) {
        const TimeBuckets& times = model.statistics.times.*of;
        const std::string labels = label.empty() ? model.labels : model.labels + "," + label;
        std::int64_t below = 0;
        for (std::size_t i = 0; i < TimeBuckets::kBounds.size(); ++i) {
          below += times.counts[i];
          line(fmt::format("{}_bucket", name),
               fmt::format("{},le=\"{}\"", labels, TimeBuckets::kBounds[i]),
               static_cast<double>(below));
        }
        const auto all = static_cast<double>(below + times.counts.back());
        line(fmt::format("{}_bucket", name), labels + ",le=\"+Inf\"", all);
        line(fmt::format("{}_sum", name), labels, seconds(times.sum));
        line(fmt::format("{}_count", name), labels, all);
      }
    }
  }

  std::string take() { return std::move(text_); }

 private:
  void head(const char* name, const char* help, const char* type) {
    fmt::format_to(std::back_inserter(text_), "# HELP {} {}\n# TYPE {} {}\n", name, help, name,
                   type);
  }
  void line(const std::string& name, const std::string& labels, double value) {
    fmt::format_to(std::back_inserter(text_), "{}{{{}}} {}\n", name, labels, value);
  }

  std::vector<OfModel> models_;
  std::string text_;
};

// None without a token file.
void add_tenants(const std::map<std::string, TenantStatistics>& tenants, Text& text) {
  if (tenants.empty()) return;
  using Of = TenantStatistics;
  text.tenants("tessera_serve_tenant_requests_total", "A tenant's requests with an answer.",
               "counter", tenants, [](const Of& of) { return static_cast<double>(of.answered); });
  text.tenants("tessera_serve_tenant_failures_total", "Its requests that failed.", "counter",
               tenants, [](const Of& of) { return static_cast<double>(of.failed); });
  text.tenants("tessera_serve_tenant_refused_total", "Its requests beyond its limits.", "counter",
               tenants, [](const Of& of) { return static_cast<double>(of.refused); });
  text.tenants("tessera_serve_tenant_pending", "Its requests that have no answer yet.", "gauge",
               tenants, [](const Of& of) { return static_cast<double>(of.pending); });
  text.tenants("tessera_serve_tenant_seconds_total", "Time of its answered requests.", "counter",
               tenants, [](const Of& of) { return seconds(of.time); });
  text.tenants("tessera_serve_tenant_busy_seconds_total",
               "Of that in runs; of a run that answers several, its share.", "counter", tenants,
               [](const Of& of) { return seconds(of.device); });
}

}  // namespace

std::string metrics_text(const std::vector<std::shared_ptr<ServedModel>>& models,
                         const std::map<std::string, TenantStatistics>& tenants) {
  Text text(models);
  const auto count = [](std::int64_t ModelStatistics::* of) {
    return [of](const ModelStatistics& all) { return static_cast<double>(all.*of); };
  };
  const auto time = [](Duration ModelStatistics::* of) {
    return [of](const ModelStatistics& all) { return seconds((all.*of).time); };
  };
  const auto failures = [](Problem problem) {
    return [problem](const ModelStatistics& all) {
      const auto found = all.failures.find(problem);
      return found == all.failures.end() ? 0.0 : static_cast<double>(found->second);
    };
  };
  text.family(
      "tessera_serve_requests_total", "Requests that were answered with outputs.", "counter",
      {{"", [](const ModelStatistics& all) { return static_cast<double>(all.success.count); }}});
  text.family("tessera_serve_failures_total", "Requests that failed, by reason.", "counter",
              {{"reason=\"input\"", failures(Problem::kInput)},
               {"reason=\"full\"", failures(Problem::kFull)},
               {"reason=\"late\"", failures(Problem::kLate)},
               {"reason=\"too_slow\"", failures(Problem::kTooSlow)},
               {"reason=\"run\"", failures(Problem::kRun)}});
  text.family("tessera_serve_seconds_total", "Time of answered requests, by part.", "counter",
              {{"part=\"queue\"", time(&ModelStatistics::queue)},
               {"part=\"input\"", time(&ModelStatistics::input)},
               {"part=\"infer\"", time(&ModelStatistics::infer)},
               {"part=\"output\"", time(&ModelStatistics::output)}});
  text.family("tessera_serve_cycles_total", "Simulated cycles of answered requests.", "counter",
              {{"", count(&ModelStatistics::cycles)}});
  text.cores(
      "tessera_serve_core_busy_cycles_total",
      "Of tessera_serve_cycles_total, by core: those in which its array worked; not on a cluster.");
  text.family("tessera_serve_pending", "Requests that have no answer yet.", "gauge",
              {{"", count(&ModelStatistics::pending)}});
  text.family("tessera_serve_runs_total", "Runs of the device; one of a batch answers several.",
              "counter", {{"", count(&ModelStatistics::runs)}});
  text.family(
      "tessera_serve_busy_seconds_total",
      "Time in runs of all instances; its rate by tessera_serve_instances is how busy they are.",
      "counter", {{"", [](const ModelStatistics& all) { return seconds(all.busy); }}});
  text.family(
      "tessera_serve_instances", "Runs that can be made side by side.", "gauge",
      {{"", [](const ModelStatistics& all) { return static_cast<double>(all.instances); }}});
  text.family("tessera_serve_shapes", "Lists of input shapes that are compiled.", "gauge",
              {{"", [](const ModelStatistics& all) { return static_cast<double>(all.shapes); }}});
  using Parts = ModelStatistics::Parts;
  text.histogram("tessera_serve_request_seconds", "From a request's last byte to its answer.",
                 {{"", &Parts::total}});
  text.histogram("tessera_serve_part_seconds", "Time of answered requests, by part.",
                 {{"part=\"queue\"", &Parts::queue},
                  {"part=\"input\"", &Parts::input},
                  {"part=\"infer\"", &Parts::infer},
                  {"part=\"output\"", &Parts::output}});
  add_tenants(tenants, text);
  return text.take();
}

}  // namespace tessera::serve
