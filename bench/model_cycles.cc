// model_cycles CHIP MODEL [INPUT=1x3x640x640]: where a model's cycles go. Total against the busy
// time of each engine, and the longest waits of the neural engine with the layer that waited.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "arch/architecture_file.h"
#include "card/core.h"
#include "compile/compile.h"
#include "graph/build.h"
#include "isa/verify.h"
#include "link/link.h"
#include "model/import.h"

namespace tessera {
namespace {

constexpr std::size_t kWaitsShown = 20;

Shape parse_shape(const std::string& text) {
  Shape shape;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t digits = 0;
    shape.push_back(std::stoll(text.substr(at), &digits));
    at += digits + 1;
  }
  return shape;
}

void print_engines(const card::RunStatistics& run) {
  fmt::print("{} cycles\n", run.cycles);
  for (const card::EngineStatistics& e : run.engines) {
    fmt::print(
        "  {:<12} busy {:>9} ({:5.1f} %)  dependency {:>9}  memory {:>9}  ports {:>9}  {:>4} "
        "tasks\n",
        e.name, e.busy, 100.0 * static_cast<double>(e.busy) / static_cast<double>(run.cycles),
        e.blocked_dependency, e.blocked_memory, e.blocked_ports, e.tasks);
  }
}

void print_waits(const isa::Program& program, const isa::Segment& segment,
                 const card::RunStatistics& run) {
  struct Wait {
    Cycles cycles, at;
    std::string layer;
  };
  std::vector<Wait> waits;
  Cycles last = 0;
  for (std::size_t i = 0; i < run.tasks.size(); ++i) {
    const isa::TaskDescriptor& task = program.tasks[segment.task_first + i];
    if (task.engine != isa::EngineKind::kNeural) continue;
    const card::TaskTiming& timing = run.tasks[i];
    waits.push_back(
        {timing.first_step_begin - last, timing.first_step_begin, program.hints[task.layer].name});
    last = timing.end;
  }
  std::stable_sort(waits.begin(), waits.end(),
                   [](const Wait& a, const Wait& b) { return a.cycles > b.cycles; });
  waits.resize(std::min(waits.size(), kWaitsShown));
  for (const Wait& w : waits) {
    fmt::print("  neural engine waits {:>8} until {:>9} for '{}'\n", w.cycles, w.at, w.layer);
  }
}

Status run(const std::vector<std::string>& arguments) {
  TESSERA_TRY(const ChipConfig chip, load_chip_config(arguments[0]));
  TESSERA_TRY(const model::Model model, model::import_file(arguments[1]));
  graph::BuildOptions options;
  options.vector_format = chip.formats.vector;
  options.matrix = chip.formats.matrix;
  options.quantise_vector_inputs = chip.formats.vector_inputs == VectorInputs::kQuantised;
  for (std::size_t i = 2; i < arguments.size(); ++i) {
    const std::size_t equals = arguments[i].find('=');
    options.infer.shapes[arguments[i].substr(0, equals)] =
        parse_shape(arguments[i].substr(equals + 1));
  }
  TESSERA_TRY(graph::Graph graph, graph::build(model, options));
  TESSERA_TRY(const package::Package package,
              compile::compile(std::make_shared<const graph::Graph>(std::move(graph)), chip));
  TESSERA_TRY(const isa::Program program, link::link(package, chip));
  TESSERA_RETURN_IF_ERROR(isa::verify_program(program, chip));
  TESSERA_TRY(const auto core, card::Core::create(chip));
  TESSERA_RETURN_IF_ERROR(core->load(program));
  for (std::size_t s = 0; s < program.segments.size(); ++s) {
    TESSERA_TRY(const card::RunStatistics statistics, core->run_segment(s, {.timing_only = true}));
    print_engines(statistics);
    print_waits(program, program.segments[s], statistics);
  }
  return {};
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: model_cycles CHIP MODEL [INPUT=1x3x640x640]...\n");
    return 2;
  }
  const auto status = tessera::run({argv + 1, argv + argc});
  if (!status.ok()) {
    fmt::print(stderr, "{}\n", status.error().to_string());
    return 1;
  }
  return 0;
}
