#include "serve/metrics_text.h"

#include <fmt/format.h>

#include <functional>
#include <iterator>
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

  void histogram(const char* name, const char* help) {
    head(name, help, "histogram");
    for (const OfModel& model : models_) {
      std::int64_t below = 0;
      for (std::size_t i = 0; i < TimeBuckets::kBounds.size(); ++i) {
        below += model.statistics.times.counts[i];
        line(fmt::format("{}_bucket", name),
             fmt::format("{},le=\"{}\"", model.labels, TimeBuckets::kBounds[i]),
             static_cast<double>(below));
      }
      const auto all = static_cast<double>(model.statistics.success.count);
      line(fmt::format("{}_bucket", name), model.labels + ",le=\"+Inf\"", all);
      line(fmt::format("{}_sum", name), model.labels, seconds(model.statistics.success.time));
      line(fmt::format("{}_count", name), model.labels, all);
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

}  // namespace

std::string metrics_text(const std::vector<std::shared_ptr<ServedModel>>& models) {
  Text text(models);
  const auto count = [](std::int64_t ModelStatistics::* of) {
    return [of](const ModelStatistics& all) { return static_cast<double>(all.*of); };
  };
  const auto time = [](Duration ModelStatistics::* of) {
    return [of](const ModelStatistics& all) { return seconds((all.*of).time); };
  };
  text.family(
      "tessera_serve_requests_total", "Requests that were answered with outputs.", "counter",
      {{"", [](const ModelStatistics& all) { return static_cast<double>(all.success.count); }}});
  text.family("tessera_serve_failures_total", "Requests that failed, by reason.", "counter",
              {{"reason=\"input\"", count(&ModelStatistics::failed_input)},
               {"reason=\"full\"", count(&ModelStatistics::failed_full)},
               {"reason=\"late\"", count(&ModelStatistics::failed_late)},
               {"reason=\"run\"", count(&ModelStatistics::failed_run)}});
  text.family("tessera_serve_seconds_total", "Time of answered requests, by part.", "counter",
              {{"part=\"queue\"", time(&ModelStatistics::queue)},
               {"part=\"input\"", time(&ModelStatistics::input)},
               {"part=\"infer\"", time(&ModelStatistics::infer)},
               {"part=\"output\"", time(&ModelStatistics::output)}});
  text.family("tessera_serve_cycles_total", "Simulated cycles of answered requests.", "counter",
              {{"", count(&ModelStatistics::cycles)}});
  text.family("tessera_serve_pending", "Requests that have no answer yet.", "gauge",
              {{"", count(&ModelStatistics::pending)}});
  text.histogram("tessera_serve_request_seconds", "From a request's last byte to its answer.");
  return text.take();
}

}  // namespace tessera::serve
