#include <fmt/format.h>

#include <functional>
#include <string>

#include "metrics/exports.h"
#include "metrics/prometheus_text.h"

namespace tessera::metrics {
namespace {

double seconds(double ns) { return ns * 1e-9; }
double seconds(std::int64_t ns) { return static_cast<double>(ns) * 1e-9; }

// One metric for each source of a kind (of any kind where `kinds` says so).
struct SourceMetric {
  const char* name;
  const char* type;
  const char* help;
  bool (*applies)(SourceKind);
  double (*value)(const SourceSnapshot&);
};

bool is_stage(SourceKind kind) { return kind == SourceKind::kStage; }
bool is_kernel(SourceKind kind) { return kind == SourceKind::kKernel; }
bool is_queue(SourceKind kind) { return kind == SourceKind::kQueue; }
bool is_on_device(SourceKind kind) {
  return kind == SourceKind::kKernel || kind == SourceKind::kDevice;
}

constexpr SourceMetric kSourceMetrics[] = {
    {"tessera_kernel_runs_total", "counter", "Runs that a kernel has finished.", is_kernel,
     [](const SourceSnapshot& s) { return static_cast<double>(s.runs); }},
    {"tessera_kernel_busy_seconds_total", "counter", "Time that a kernel was running.", is_kernel,
     [](const SourceSnapshot& s) { return seconds(s.busy_ns); }},
    {"tessera_kernel_cycles_total", "counter", "Simulated cycles of a kernel's runs.", is_kernel,
     [](const SourceSnapshot& s) { return static_cast<double>(s.cycles); }},
    {"tessera_kernel_utilisation_ratio", "gauge", "Share of the last second a kernel was running.",
     is_kernel, [](const SourceSnapshot& s) { return s.utilisation; }},
    {"tessera_transfer_in_bytes_total", "counter", "Bytes written to device memory.", is_on_device,
     [](const SourceSnapshot& s) { return static_cast<double>(s.bytes_in); }},
    {"tessera_transfer_in_seconds_total", "counter", "Time of the writes to device memory.",
     is_on_device, [](const SourceSnapshot& s) { return seconds(s.in_ns); }},
    {"tessera_transfer_out_bytes_total", "counter", "Bytes read from device memory.", is_on_device,
     [](const SourceSnapshot& s) { return static_cast<double>(s.bytes_out); }},
    {"tessera_transfer_out_seconds_total", "counter", "Time of the reads from device memory.",
     is_on_device, [](const SourceSnapshot& s) { return seconds(s.out_ns); }},
    {"tessera_faults_total", "counter", "Faults that a device reported.", is_on_device,
     [](const SourceSnapshot& s) { return static_cast<double>(s.faults); }},
    {"tessera_stage_packets_total", "counter", "Packets that a stage has worked on.", is_stage,
     [](const SourceSnapshot& s) { return static_cast<double>(s.runs); }},
    {"tessera_stage_busy_seconds_total", "counter", "Working time, added over a stage's threads.",
     is_stage, [](const SourceSnapshot& s) { return seconds(s.busy_ns); }},
    {"tessera_stage_occupancy_ratio", "gauge",
     "Share of the last second that a stage's threads were working.", is_stage,
     [](const SourceSnapshot& s) { return s.utilisation; }},
    {"tessera_stage_threads", "gauge", "Threads of a stage.", is_stage,
     [](const SourceSnapshot& s) { return static_cast<double>(s.description.threads); }},
    {"tessera_queue_depth", "gauge", "Packets in a queue.", is_queue,
     [](const SourceSnapshot& s) { return static_cast<double>(s.depth); }},
    {"tessera_queue_capacity", "gauge", "Packets that a queue takes at most.", is_queue,
     [](const SourceSnapshot& s) { return static_cast<double>(s.description.capacity); }},
};

std::string labels_of(const SourceSnapshot& source) {
  std::string labels = fmt::format("{}=\"{}\"", name_of(source.description.kind),
                                   label_value(source.description.name));
  if (source.description.kind != SourceKind::kDevice && !source.description.device.empty()) {
    labels += fmt::format(",device=\"{}\"", label_value(source.description.device));
  }
  return labels;
}

void write_sources(PrometheusText& out, const Snapshot& snapshot) {
  for (const SourceMetric& metric : kSourceMetrics) {
    bool first = true;
    for (const SourceSnapshot& source : snapshot.sources) {
      if (!metric.applies(source.description.kind)) continue;
      if (first) out.head(metric.name, metric.type, metric.help);
      first = false;
      out.sample(metric.name, labels_of(source), metric.value(source));
    }
  }
}

void write_tasks(PrometheusText& out, const TaskSnapshot& tasks) {
  out.head("tessera_tasks_submitted_total", "counter", "Tasks that applications have submitted.");
  out.sample("tessera_tasks_submitted_total", "", tasks.submitted);
  out.head("tessera_tasks_completed_total", "counter", "Tasks that have ended, by outcome.");
  out.sample("tessera_tasks_completed_total", "outcome=\"ok\"", tasks.ok);
  out.sample("tessera_tasks_completed_total", "outcome=\"failed\"", tasks.failed);
  out.sample("tessera_tasks_completed_total", "outcome=\"cancelled\"", tasks.cancelled);
  out.head("tessera_tasks_in_flight", "gauge", "Tasks that are submitted and have not ended.");
  out.sample("tessera_tasks_in_flight", "", tasks.in_flight());
  const char* latency = "tessera_task_latency_seconds";
  out.head(latency, "summary",
           "Time from submission to result; quantiles over the last 5 to 10 seconds.");
  const Distribution& late = tasks.latency_late;
  out.sample(latency, "quantile=\"0.5\"", seconds(late.median));
  out.sample(latency, "quantile=\"0.9\"", seconds(late.p90));
  out.sample(latency, "quantile=\"0.95\"", seconds(late.p95));
  out.sample(latency, "quantile=\"0.99\"", seconds(late.p99));
  const double count = static_cast<double>(tasks.latency.count);
  out.sample("tessera_task_latency_seconds_sum", "", seconds(tasks.latency.mean * count));
  out.sample("tessera_task_latency_seconds_count", "", tasks.latency.count);
}

}  // namespace

std::string prometheus_text(const Snapshot& snapshot) {
  PrometheusText out;
  write_tasks(out, snapshot.tasks);
  write_sources(out, snapshot);
  out.head("tessera_metrics_events_total", "counter", "Events that were collected.");
  out.sample("tessera_metrics_events_total", "", snapshot.events);
  out.head("tessera_metrics_dropped_events_total", "counter",
           "Events lost because a thread's ring was full.");
  out.sample("tessera_metrics_dropped_events_total", "", snapshot.dropped);
  out.head("tessera_metrics_recording", "gauge", "1 while events are recorded, 0 while not.");
  out.sample("tessera_metrics_recording", "", snapshot.recording ? 1 : 0);
  return out.take();
}

}  // namespace tessera::metrics
