#include "concord/lift/groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "concord/lift/axis.h"
#include "isa/registers.h"
#include "isa/step_order.h"

namespace tessera::concord {
namespace {

using isa::NeuralTask;
using isa::PieceHint;
using isa::PlanarMode;
using isa::PlanarTask;
using isa::Program;
using isa::TaskDescriptor;
using isa::TaskId;

// Larger than any axis: where padding is not counted.
constexpr std::int64_t kNowhere = std::int64_t{1} << 40;

// Results that are made together: one task, or the parts of a pooling, a reduction or a product's sum.
struct Unit {
  std::vector<TaskId> tasks;
  PieceHint place;
};

template <typename T>
bool same_fields(const T& a, const T& b) {
  return isa::to_registers(a) == isa::to_registers(b);
}

Extents output_extents(const TaskDescriptor& task) {
  Extents extents = {task.bands.images, 1, task.bands.rows, 1};
  if (const auto* neural = std::get_if<NeuralTask>(&task.config)) {
    extents[kChannels] = neural->product.image.groups * neural->product.image.output_channels;
    extents[kColumns] = neural->output.columns;
  } else {
    const auto& planar = std::get<PlanarTask>(task.config);
    extents[kChannels] = planar.output.channels;
    extents[kColumns] = planar.output.columns;
  }
  return extents;
}

// Two boxes of results have one in common.
bool overlap(const Extents& a_first, const Extents& a, const Extents& b_first, const Extents& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a_first[i] + a[i] <= b_first[i] || b_first[i] + b[i] <= a_first[i]) return false;
  }
  return true;
}

// Makes one group of units, if they stand the proof.
class GroupMaker {
 public:
  GroupMaker(const Program& program, std::vector<TaskPlace>& places)
      : program_(program), places_(places) {}

  bool make(const std::vector<Unit>& units, Group& group) {
    units_ = &units;
    group = {};
    const TaskDescriptor& first = task_of(units[0]);
    group.layer = first.layer;
    group.merged = units.size() > 1;
    for (const Unit& unit : units) {
      group.tasks.insert(group.tasks.end(), unit.tasks.begin(), unit.tasks.end());
    }
    std::sort(group.tasks.begin(), group.tasks.end());
    if (!place_outputs(group)) return false;
    if (std::holds_alternative<NeuralTask>(first.config)) return make_product(group);
    switch (std::get<PlanarTask>(first.config).mode) {
      case PlanarMode::kPooling:
        return make_pool(group);
      case PlanarMode::kReduction:
        return make_reduce(group);
      case PlanarMode::kElementwise:
      case PlanarMode::kGainBias:
        return make_elementwise(group);
      default:  // no layer of a graph
        return false;
    }
  }

 private:
  const TaskDescriptor& task_of(const Unit& unit) const { return program_.tasks[unit.tasks[0]]; }
  TaskPlace& place(TaskId id) { return places_[id]; }

  // The boxes of results lie side by side and leave no gap.
  bool place_outputs(Group& group) {
    std::vector<Extents> firsts, extents;
    Extents least = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX};
    for (const Unit& unit : *units_) {
      const PieceHint& hint = unit.place;
      firsts.push_back({hint.image, hint.channel, hint.row, hint.column});
      extents.push_back(output_extents(task_of(unit)));
      for (const TaskId id : unit.tasks) {
        if (output_extents(program_.tasks[id]) != extents.back()) return false;
      }
      for (std::size_t i = 0; i < 4; ++i) least[i] = std::min(least[i], firsts.back()[i]);
    }
    group.output = {0, 0, 0, 0};
    std::int64_t covered = 0;
    for (std::size_t u = 0; u < firsts.size(); ++u) {
      for (std::size_t i = 0; i < 4; ++i) {
        firsts[u][i] -= least[i];
        group.output[i] = std::max(group.output[i], firsts[u][i] + extents[u][i]);
      }
      covered += volume(extents[u]);
      for (std::size_t v = 0; v < u; ++v) {
        if (overlap(firsts[u], extents[u], firsts[v], extents[v])) return false;
      }
      for (const TaskId id : (*units_)[u].tasks) place(id).output = firsts[u];
    }
    return covered == volume(group.output);
  }

  // ---- products

  static ProductConfig without_cut(ProductConfig product) {
    product.image.groups = product.image.output_channels = 1;
    product.image.columns = 1;
    product.pad_top = product.pad_left = 0;
    return product;
  }

  const NeuralTask& product_of(TaskId id) const {
    return std::get<NeuralTask>(program_.tasks[id].config);
  }

  // What the parts of a sum are together: the last one ends it as the whole product ends, the first has
  // the bias. Nothing where they are not parts of one product.
  std::optional<NeuralTask> whole_of(const Unit& unit) const {
    NeuralTask whole = product_of(unit.tasks.back());
    const NeuralTask& first = product_of(unit.tasks.front());
    whole.product.has_bias = first.product.has_bias;
    whole.product.bias_format = first.product.bias_format;
    whole.product.image.channels = 0;
    for (const TaskId id : unit.tasks) {
      const NeuralTask& part = product_of(id);
      whole.product.image.channels += part.product.image.channels;
      const bool alike = same_fields(without_end(part.product), without_end(whole.product)) &&
                         part.product.matrix == whole.product.matrix &&
                         part.dynamic == whole.dynamic && same_surface_part(part, whole);
      if (!alike || (unit.tasks.size() > 1 && part.product.image.groups > 1)) return std::nullopt;
    }
    return whole;
  }
  static bool same_surface_part(const NeuralTask& a, const NeuralTask& b) {
    return a.moving.format == b.moving.format && a.moving.rows == b.moving.rows &&
           a.moving.columns == b.moving.columns;
  }
  // Without what only some parts have.
  static ProductConfig without_end(ProductConfig product) {
    product.image.channels = product.image.columns = 1;
    product.has_bias = product.requantise = false;
    product.bias_format = product.output_format = Format::kF16;
    product.activation = {};
    product.output_zero_point = product.clamp_low = product.clamp_high = 0;
    return product;
  }

  bool make_product(Group& group) {
    group.kind = GroupKind::kProduct;
    std::vector<NeuralTask> wholes;
    for (const Unit& unit : *units_) {
      std::optional<NeuralTask> whole = whole_of(unit);
      if (!whole) return false;
      wholes.push_back(std::move(*whole));
    }
    const NeuralTask& first = wholes[0];
    group.product = first.product;
    group.dynamic = first.dynamic;
    group.input_formats = {first.moving.format};
    if (first.dynamic) group.input_formats.push_back(first.stationary.format);
    group.output_format = first.output.format;
    std::vector<AxisPart> rows, columns;
    for (std::size_t u = 0; u < units_->size(); ++u) {
      const Unit& unit = (*units_)[u];
      const NeuralTask& task = wholes[u];
      if (!same_fields(without_cut(task.product), without_cut(first.product)) ||
          task.product.matrix != first.product.matrix ||
          task.product.local_response != first.product.local_response ||
          task.product.correlate != first.product.correlate || task.dynamic != first.dynamic ||
          task.moving.format != group.input_formats[0] ||
          task.output.format != group.output_format) {
        return false;
      }
      const Extents& at = place(unit.tasks[0]).output;
      const Extents extents = output_extents(task_of(unit));
      rows.push_back({.output_first = at[kRows],
                      .outputs = extents[kRows],
                      .taps = task.product.kernel_h,
                      .samples = task.moving.rows,
                      .pad = task.product.pad_top,
                      .padded_end = kNowhere});
      columns.push_back({.output_first = at[kColumns],
                         .outputs = extents[kColumns],
                         .taps = task.product.kernel_w,
                         .samples = task.moving.columns,
                         .pad = task.product.pad_left,
                         .padded_end = kNowhere});
    }
    const ProductConfig& p = first.product;
    AxisWhole height, width;
    std::vector<std::int64_t> row_first, column_first;
    if (!join_axis({p.stride_h, p.dilation_h, p.input_dilation_h}, rows, height, row_first) ||
        !join_axis({p.stride_w, p.dilation_w, p.input_dilation_w}, columns, width, column_first)) {
      return false;
    }
    group.product.pad_top = height.pad;
    group.product.pad_left = width.pad;
    for (std::size_t u = 0; u < units_->size(); ++u) {
      std::int64_t channel = group.merged ? (*units_)[u].place.input_channel : 0;
      for (const TaskId id : (*units_)[u].tasks) {
        place(id).input = {place(id).output[kImages], channel, row_first[u], column_first[u]};
        channel += product_of(id).product.image.channels;
      }
    }
    if (!join_channels(wholes, group)) return false;
    const std::int64_t channels = group.product.image.groups * group.product.image.channels;
    group.inputs = {{group.output[kImages], channels, height.samples, width.samples}};
    if (group.dynamic) {
      group.inputs.push_back(
          {group.output[kImages], group.product.image.channels, 1, group.output[kChannels]});
    }
    return true;
  }

  // Groups of channels: output channel o of the layer reads the channels of group
  // o / (channels per group).
  bool join_channels(const std::vector<NeuralTask>& wholes, Group& group) {
    KernelImageShape& whole = group.product.image;
    std::int64_t inputs = 0;
    for (std::size_t u = 0; u < wholes.size(); ++u) {
      const KernelImageShape& image = wholes[u].product.image;
      const TaskPlace& at = place((*units_)[u].tasks[0]);
      inputs = std::max(inputs, at.input[kChannels] + image.groups * image.channels);
    }
    if (inputs % whole.channels != 0) return false;
    whole.groups = inputs / whole.channels;
    if (group.output[kChannels] % whole.groups != 0) return false;
    whole.output_channels = group.output[kChannels] / whole.groups;
    for (std::size_t u = 0; u < wholes.size(); ++u) {
      const KernelImageShape& image = wholes[u].product.image;
      const TaskPlace& at = place((*units_)[u].tasks[0]);
      for (std::int64_t g = 0; g < image.groups; ++g) {
        const std::int64_t first = at.output[kChannels] + g * image.output_channels;
        const std::int64_t last = first + image.output_channels - 1;
        const std::int64_t of = first / whole.output_channels;
        if (last / whole.output_channels != of) return false;
        if (at.input[kChannels] + g * image.channels != of * whole.channels) return false;
      }
    }
    return true;
  }

  // ---- poolings

  static PoolConfig without_cut(PoolConfig pool) {
    pool.window_h = pool.window_w = 1;
    pool.pad_top = pool.pad_left = pool.pad_bottom = pool.pad_right = 0;
    return pool;
  }

  bool make_pool(Group& group) {
    group.kind = GroupKind::kPool;
    const auto& first = std::get<PlanarTask>(task_of((*units_)[0]).config);
    group.pool = first.pool;
    group.input_formats = {first.inputs[0].format};
    group.output_format = first.output.format;
    std::vector<TaskId> tasks;
    std::vector<AxisPart> rows, columns;
    for (const Unit& unit : *units_) {
      const bool parts = unit.tasks.size() > 1;
      for (const TaskId id : unit.tasks) {
        const auto& task = std::get<PlanarTask>(program_.tasks[id].config);
        const PoolConfig& pool = task.pool;
        if (!same_fields(without_cut(pool), without_cut(first.pool)) ||
            pool.before != first.pool.before || pool.after != first.pool.after ||
            task.inputs[0].format != group.input_formats[0] ||
            task.output.format != group.output_format) {
          return false;
        }
        const PieceHint hint = parts ? program_.pieces[id] : PieceHint{};
        const Extents extents = output_extents(program_.tasks[id]);
        const auto end = [&](std::int64_t samples, std::int64_t pad) {
          return pool.include_padding ? samples + pad : kNowhere;
        };
        rows.push_back({place(id).output[kRows], extents[kRows], hint.window_row, pool.window_h,
                        task.inputs[0].rows, pool.pad_top,
                        end(task.inputs[0].rows, pool.pad_bottom)});
        columns.push_back({place(id).output[kColumns], extents[kColumns], hint.window_column,
                           pool.window_w, task.inputs[0].columns, pool.pad_left,
                           end(task.inputs[0].columns, pool.pad_right)});
        tasks.push_back(id);
      }
    }
    return join_pool(tasks, rows, columns, group);
  }

  bool join_pool(const std::vector<TaskId>& tasks, const std::vector<AxisPart>& rows,
                 const std::vector<AxisPart>& columns, Group& group) {
    PoolConfig& pool = group.pool;
    AxisWhole height, width;
    std::vector<std::int64_t> row_first, column_first;
    if (!join_axis({pool.stride_h, pool.dilation_h, 1}, rows, height, row_first) ||
        !join_axis({pool.stride_w, pool.dilation_w, 1}, columns, width, column_first)) {
      return false;
    }
    pool.window_h = height.taps;
    pool.window_w = width.taps;
    pool.pad_top = height.pad;
    pool.pad_left = width.pad;
    if (!set_end(height, pool.stride_h, pool.dilation_h, pool.include_padding, pool.pad_bottom) ||
        !set_end(width, pool.stride_w, pool.dilation_w, pool.include_padding, pool.pad_right)) {
      return false;
    }
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      TaskPlace& to = place(tasks[i]);
      to.input = {to.output[kImages], to.output[kChannels], row_first[i], column_first[i]};
    }
    group.inputs = {
        {group.output[kImages], group.output[kChannels], height.samples, width.samples}};
    return windows_are_whole(group);
  }

  // The padding at the end gives as many outputs as there are; where padding counts, it is what the
  // tasks say.
  static bool set_end(const AxisWhole& axis, std::int64_t stride, std::int64_t dilation,
                      bool counts, std::int64_t& pad) {
    const std::int64_t least =
        (axis.outputs - 1) * stride + (axis.taps - 1) * dilation + 1 - axis.samples - axis.pad;
    pad = least;
    if (!counts) return true;
    pad = std::clamp(axis.padded_end - axis.samples, least, least + stride - 1);
    // No tap lies between the two ends.
    return pad == axis.padded_end - axis.samples ||
           (pad == least && axis.padded_end - axis.samples > least + stride - 1);
  }

  // Each result sees each tap of the window once; sums that depend on the order, row by row.
  bool windows_are_whole(const Group& group) const {
    const PoolConfig& pool = group.pool;
    const Format format = group.input_formats[0];
    const bool ordered = pool.function == PoolFunction::kAverage && !pool.input.enabled &&
                         (format == Format::kF32 || format == Format::kBf16);
    for (const Unit& unit : *units_) {
      std::vector<std::int64_t> taps;
      for (const TaskId id : unit.tasks) {
        const PoolConfig& part = std::get<PlanarTask>(program_.tasks[id].config).pool;
        const PieceHint hint = unit.tasks.size() > 1 ? program_.pieces[id] : PieceHint{};
        for (std::int64_t y = 0; y < part.window_h; ++y) {
          for (std::int64_t x = 0; x < part.window_w; ++x) {
            taps.push_back((y + hint.window_row) * pool.window_w + x + hint.window_column);
          }
        }
      }
      if (!ordered) std::sort(taps.begin(), taps.end());
      if (static_cast<std::int64_t>(taps.size()) != pool.window_h * pool.window_w) return false;
      for (std::size_t i = 0; i < taps.size(); ++i) {
        if (taps[i] != static_cast<std::int64_t>(i)) return false;
      }
    }
    return true;
  }

  // ---- element-wise work

  bool make_elementwise(Group& group) {
    group.kind = GroupKind::kElementwise;
    const auto& first = std::get<PlanarTask>(task_of((*units_)[0]).config);
    group.elementwise = first.elementwise;
    group.gain_bias = first.mode == PlanarMode::kGainBias;
    group.output_format = first.output.format;
    for (int i = 0; i < first.input_count; ++i) {
      group.input_formats.push_back(first.inputs[i].format);
      group.inputs.push_back(group.output);
    }
    for (const Unit& unit : *units_) {
      const auto& task = std::get<PlanarTask>(task_of(unit).config);
      if (task.mode != first.mode || !same_fields(task.elementwise, first.elementwise) ||
          task.elementwise.gain_format != first.elementwise.gain_format ||
          task.output.format != group.output_format) {
        return false;
      }
      for (int i = 0; i < first.input_count; ++i) {
        if (task.inputs[i].format != first.inputs[i].format) return false;
      }
      place(unit.tasks[0]).input = place(unit.tasks[0]).output;
    }
    return true;
  }

  // ---- reductions

  bool make_reduce(Group& group) {
    group.kind = GroupKind::kReduce;
    const auto& first = std::get<PlanarTask>(task_of((*units_)[0]).config);
    group.reduce = first.reduce;
    group.input_formats = {first.inputs[0].format};
    group.output_format = first.output.format;
    if (!first.reduce.over_rows && !first.reduce.over_columns) return false;
    const bool both = first.reduce.over_rows && first.reduce.over_columns;
    std::int64_t elements = -1;  // of a result
    for (const Unit& unit : *units_) {
      if (unit.tasks.size() > 1 && both) group.flat = true;
      std::int64_t sum = 0;
      for (const TaskId id : unit.tasks) {
        const auto& task = std::get<PlanarTask>(program_.tasks[id].config);
        if (!same_fields(task.reduce, first.reduce) || task.reduce.before != first.reduce.before ||
            task.inputs[0].format != group.input_formats[0] ||
            task.output.format != group.output_format) {
          return false;
        }
        place(id).input = place(id).output;
        place(id).element_first = sum;
        sum += elements_of(task);
      }
      if (elements >= 0 && sum != elements) return false;
      elements = sum;
    }
    Extents in = group.output;
    if (group.flat) {
      in[kColumns] = elements;
    } else if (both) {
      in[kRows] = first.inputs[0].rows;
      in[kColumns] = first.inputs[0].columns;
    } else {
      in[first.reduce.over_rows ? kRows : kColumns] = elements;
    }
    group.inputs = {in};
    return group.flat || !both || same_planes(in);
  }

  // Elements of one result that a task takes.
  static std::int64_t elements_of(const PlanarTask& task) {
    return (task.reduce.over_rows ? task.inputs[0].rows : 1) *
           std::int64_t{task.reduce.over_columns ? task.inputs[0].columns : 1};
  }

  bool same_planes(const Extents& in) const {
    return std::all_of(units_->begin(), units_->end(), [&](const Unit& unit) {
      const auto& task = std::get<PlanarTask>(task_of(unit).config);
      return task.inputs[0].rows == in[kRows] && task.inputs[0].columns == in[kColumns];
    });
  }

  const Program& program_;
  std::vector<TaskPlace>& places_;
  const std::vector<Unit>* units_ = nullptr;
};

bool computes(const TaskDescriptor& task) {
  if (const auto* neural = std::get_if<NeuralTask>(&task.config)) return !neural->transpose;
  const auto* planar = std::get_if<PlanarTask>(&task.config);
  return planar != nullptr && planar->mode != PlanarMode::kTranspose;
}

// Tasks one by one; parts with the parts before them.
class UnitFinder {
 public:
  UnitFinder(const Program& program, std::vector<TaskPlace>& places)
      : program_(program), places_(places) {}

  Result<std::vector<Unit>> run() {
    for (const TaskDescriptor& task : program_.tasks) {
      if (!computes(task)) continue;
      const auto* neural = std::get_if<NeuralTask>(&task.config);
      if (neural != nullptr && neural->dynamic && neural->product.image.taps > 1) {
        return unsupported(task.id, "has a kernel of several taps in the state buffer");
      }
      const auto* planar = std::get_if<PlanarTask>(&task.config);
      if (planar != nullptr && planar->in_parts()) {
        TESSERA_RETURN_IF_ERROR(add_part(task, *planar));
      } else if (neural != nullptr && neural->psum.in_parts()) {
        TESSERA_RETURN_IF_ERROR(add_part(task, *neural));
      } else {
        add({.tasks = {task.id}, .place = {}});
      }
    }
    if (!open_.empty()) {
      return unsupported(open_.begin()->second.tasks.back(), "leaves accumulators for no one");
    }
    return std::move(units_);
  }

 private:
  Error unsupported(TaskId id, const char* what) const {
    return {ErrorCode::kUnsupported, fmt::format("{} {}", describe_task(program_, id), what)};
  }

  void add(Unit unit) {
    if (unit.tasks[0] < program_.pieces.size()) unit.place = program_.pieces[unit.tasks[0]];
    units_.push_back(std::move(unit));
  }

  Status add_part(const TaskDescriptor& task, const PlanarTask& planar) {
    Unit unit;
    if (planar.continues) {
      const auto found = open_.find(planar.accumulator_offset);
      if (found == open_.end()) return unsupported(task.id, "takes up accumulators of no task");
      unit = std::move(found->second);
      open_.erase(found);
      const TaskDescriptor& before = program_.tasks[unit.tasks.back()];
      const auto& other = std::get<PlanarTask>(before.config);
      if (other.mode != planar.mode || other.output.images != planar.output.images ||
          other.output.rows != planar.output.rows ||
          output_extents(before) != output_extents(task)) {
        return unsupported(task.id, "takes up accumulators of another work");
      }
      places_[task.id].part_before = static_cast<std::int32_t>(before.id);
      places_[before.id].last_part = false;
    }
    unit.tasks.push_back(task.id);
    if (!planar.keeps) {
      if (planar.mode == PlanarMode::kPooling && unit.tasks.size() > 1 && program_.pieces.empty()) {
        return unsupported(task.id, "pools a window in parts, and no hint says which part it is");
      }
      add(std::move(unit));
      return {};
    }
    if (!open_.emplace(planar.accumulator_offset, std::move(unit)).second) {
      return unsupported(task.id, "writes over accumulators that no task took up");
    }
    return {};
  }

  // Sums of a product; what else must hold of parts that follow each other, the verifier has proved.
  Status add_part(const TaskDescriptor& task, const NeuralTask& neural) {
    const isa::EngineSet& engines = task.header.engines;
    const SumPlace place{engines.first, engines.count, neural.psum.first};
    Unit unit;
    if (neural.psum.continues) {
      const auto found = sums_.find(place);
      if (found == sums_.end()) return unsupported(task.id, "goes on with sums of no task");
      unit = std::move(found->second);
      sums_.erase(found);
      places_[unit.tasks.back()].last_part = false;
    }
    unit.tasks.push_back(task.id);
    if (!neural.psum.keeps) {
      add(std::move(unit));
      return {};
    }
    sums_[place] = std::move(unit);
    return {};
  }

  const Program& program_;
  std::vector<TaskPlace>& places_;
  std::map<std::uint32_t, Unit> open_;                   // by the place of their accumulators
  using SumPlace = std::tuple<int, int, std::uint32_t>;  // engines, the first entry of PSUM
  std::map<SumPlace, Unit> sums_;
  std::vector<Unit> units_;
};

}  // namespace

Result<Groups> group_tasks(const Program& program, bool use_hints,
                           const std::set<std::uint32_t>& apart) {
  Groups result;
  result.places.resize(program.tasks.size());
  TESSERA_TRY(std::vector<Unit> units, UnitFinder(program, result.places).run());
  // By layer, and by what the tasks do.
  using Key = std::tuple<std::uint32_t, std::size_t, int, std::size_t>;
  std::map<Key, std::vector<Unit>> layers;
  for (std::size_t i = 0; i < units.size(); ++i) {
    const TaskDescriptor& task = program.tasks[units[i].tasks[0]];
    const auto* planar = std::get_if<PlanarTask>(&task.config);
    const bool alone = !use_hints || !units[i].place.known || apart.contains(task.layer);
    const Key key{task.layer, task.config.index(),
                  planar == nullptr ? 0 : static_cast<int>(planar->mode), alone ? i + 1 : 0};
    layers[key].push_back(std::move(units[i]));
  }
  GroupMaker maker(program, result.places);
  const auto add = [&](Group group) {
    for (const TaskId id : group.tasks) {
      result.places[id].group = static_cast<std::int32_t>(result.groups.size());
    }
    result.groups.push_back(std::move(group));
  };
  for (const auto& [key, members] : layers) {
    Group group;
    if (maker.make(members, group)) {
      add(std::move(group));
      continue;
    }
    for (const Unit& unit : members) {
      if (!maker.make({unit}, group)) {
        return Error{ErrorCode::kUnsupported, fmt::format("{}: its parts are not those of one work",
                                                          describe_task(program, unit.tasks[0]))};
      }
      add(group);
    }
  }
  return result;
}

}  // namespace tessera::concord
