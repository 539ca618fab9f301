#include "concord/lift/walk.h"

#include <fmt/format.h>

#include <algorithm>

#include "arith/wide_sum.h"
#include "base/check.h"
#include "concord/lift/axis.h"
#include "concord/lift/input.h"
#include "concord/lift/order.h"
#include "concord/lift/transfer.h"
#include "isa/step_order.h"
#include "package/host_step.h"

namespace tessera::concord {
namespace {

using isa::NeuralTask;
using isa::PlanarMode;
using isa::PlanarTask;
using isa::Program;
using isa::TaskDescriptor;
using isa::TaskId;

// The state of a group while its tasks run.
struct OpenGroup {
  std::vector<LayerInput> inputs;
  std::int64_t tasks_left = 0;
  bool begun = false;
  Extents strides = {0, 0, 0, 0};  // of its value
};

class Walker {
 public:
  Walker(const Program& program, const ChipConfig& chip, const Groups& groups)
      : program_(program),
        chip_(chip),
        groups_(groups),
        core_(program, chip),
        kernels_(program, chip),
        transfer_(core_),
        open_(groups.groups.size()),
        accumulators_(program.tasks.size(), kNothing) {
    walk_.values.resize(kFirstValue);
    walk_.layers.resize(groups.groups.size());
    for (std::size_t g = 0; g < open_.size(); ++g) {
      open_[g].tasks_left = static_cast<std::int64_t>(groups.groups[g].tasks.size());
    }
  }

  Result<Walk> run() {
    for (const isa::TensorSlot& slot : program_.inputs) {
      TESSERA_TRY(const LiftedValue value, add_value(slot.format, element_count(slot.dims)));
      core_.write_slot(slot, value);
      walk_.inputs.push_back(value);
    }
    for (const isa::Segment& segment : program_.segments) {
      TESSERA_RETURN_IF_ERROR(isa::for_each_step(
          program_, chip_, segment, [this](TaskId id, std::int64_t at) { return step(id, at); }));
      for (const isa::HostStep& host : segment.host_steps) {
        TESSERA_RETURN_IF_ERROR(take_host_step(host));
      }
    }
    if (!walk_.broken.empty()) return std::move(walk_);
    for (const isa::TensorSlot& slot : program_.outputs) {
      TESSERA_TRY(Operand output, read_slot(slot, "output"));
      walk_.outputs.push_back(std::move(output));
    }
    return std::move(walk_);
  }

 private:
  OperandContext context() const { return {core_, program_, walk_.values}; }

  Result<LiftedValue> add_value(Format format, std::int64_t elements) {
    const std::int64_t granules = elements * core_.granules(format);
    if (granules >= std::int64_t{1} << 32) {
      return Error{ErrorCode::kUnsupported,
                   fmt::format("a tensor of {} elements; a lifted one has at most {}", elements,
                               (std::int64_t{1} << 32) / core_.granules(format))};
    }
    walk_.values.push_back({format, elements});
    return static_cast<LiftedValue>(walk_.values.size() - 1);
  }

  // ---- host steps and outputs

  Result<Operand> read_slot(const isa::TensorSlot& slot, const char* what) {
    std::vector<Tag> tags = core_.read_slot(slot);
    const auto bad = std::find_if(tags.begin(), tags.end(),
                                  [](Tag tag) { return tag == kUnwritten || tag == kTorn; });
    if (bad != tags.end()) {
      return Error{ErrorCode::kInvalidModel,
                   fmt::format("{} '{}': element {} was {}", what, slot.name, bad - tags.begin(),
                               *bad == kTorn ? "written in pieces of others" : "never written")};
    }
    auto operand = make_operand(context(), slot.format, slot.dims, std::move(tags), false);
    if (!operand.ok()) return operand.error().with_context(fmt::format("{} '{}'", what, slot.name));
    return operand;
  }

  Status take_host_step(const isa::HostStep& host) {
    if (host.body.empty()) {
      return Error{ErrorCode::kInvalidModel,
                   "a host step without its node; link the package again"};
    }
    LiftedStep lifted;
    TESSERA_TRY(lifted.graph, package::open_host_step(host));
    const graph::Node& node = lifted.graph->nodes[0];
    for (std::size_t i = 0; i < host.inputs.size(); ++i) {
      Operand operand;
      if (lifted.graph->tensor(node.inputs[i]).constant == nullptr) {
        TESSERA_TRY(operand, read_slot(host.inputs[i], "host step's input"));
      }
      lifted.inputs.push_back(std::move(operand));
    }
    for (const isa::TensorSlot& slot : host.outputs) {
      TESSERA_TRY(const LiftedValue value, add_value(slot.format, element_count(slot.dims)));
      core_.write_slot(slot, value);
      lifted.outputs.push_back(value);
    }
    walk_.steps.push_back(std::move(lifted));
    walk_.finished.push_back(-static_cast<std::int32_t>(walk_.steps.size()));
    return {};
  }

  // ---- steps

  Status step(TaskId id, std::int64_t at) {
    const TaskDescriptor& task = program_.tasks[id];
    if (groups_.places[id].group < 0) {
      if (std::holds_alternative<isa::KernelTask>(task.config)) return kernels_.load(id);
      transfer_.run_step(task, at);
      return {};
    }
    id_ = id;
    place_ = &groups_.places[id];
    group_ = &groups_.groups[place_->group];
    state_ = &open_[place_->group];
    image_ = task.bands.image(at);
    rows_ = task.bands.range(at);
    const auto* neural = std::get_if<NeuralTask>(&task.config);
    if (neural != nullptr) {
      TESSERA_RETURN_IF_ERROR(product_step(*neural, at));
    } else {
      TESSERA_RETURN_IF_ERROR(planar_step(std::get<PlanarTask>(task.config)));
    }
    if (at + 1 == task.steps() && --state_->tasks_left == 0) return close();
    return {};
  }

  LiftedLayer& layer() { return walk_.layers[place_->group]; }
  bool broken() const { return walk_.broken.contains(group_->layer); }

  Error error(const char* what) const {
    return {ErrorCode::kUnsupported, fmt::format("{} {}", isa::describe_task(program_, id_), what)};
  }

  // A reading that is not fine is an error, or says that the group is none.
  Status judge(Reading reading) {
    switch (reading) {
      case Reading::kFine:
        return {};
      case Reading::kUnwritten:
        return error("reads an element that nothing wrote");
      case Reading::kTorn:
        return error("reads an element whose bytes are of different elements");
      case Reading::kConflict:
        break;
    }
    return conflict("finds different values in one element of its input in different steps");
  }

  Status conflict(const char* what) {
    if (!group_->merged) return error(what);
    walk_.broken.insert(group_->layer);
    return {};
  }

  // At a group's first step: its inputs and its value.
  Status begin(const std::array<std::size_t, 4>& order, bool as_matrix) {
    if (state_->begun) return {};
    state_->begun = true;
    for (const Extents& extents : group_->inputs) state_->inputs.emplace_back(extents);
    LiftedLayer& to = layer();
    to.order = order;
    to.as_matrix = as_matrix;
    TESSERA_TRY(to.value, add_value(group_->output_format, volume(group_->output)));
    std::int64_t stride = 1;
    for (std::size_t i = 4; i-- > 0; stride *= group_->output[order[i]]) {
      state_->strides[order[i]] = stride;
    }
    return {};
  }

  // ---- products

  Status product_step(const NeuralTask& task, std::int64_t at) {
    const ProductConfig& p = task.product;
    if (p.correlate) return error("is a normalised cross-correlation, which no graph has");
    const std::vector<bool> rows =
        samples_met({p.stride_h, p.dilation_h, p.input_dilation_h},
                    {.taps = p.kernel_h, .samples = task.moving.rows, .pad = p.pad_top},
                    rows_.first, rows_.last);
    const std::vector<bool> columns =
        samples_met({p.stride_w, p.dilation_w, p.input_dilation_w},
                    {.taps = p.kernel_w, .samples = task.moving.columns, .pad = p.pad_left}, 0,
                    task.output.columns);
    const std::int64_t first = task.moving_channel_first, count = p.image.groups * p.image.channels;
    const TagSurface moving = core_.surface(task.moving, image_);
    const SurfaceCells cells{moving, core_.granules(task.moving.format), first, count, rows,
                             columns};
    if (!state_->begun) {
      const AxisOrder order = order_of_axes(core_, cells);
      const bool matrix = is_matrix_product(*group_, order);
      if (task.dynamic && !is_matrix(*group_)) {
        return error("has a computed stationary operand, and stride or padding");
      }
      TESSERA_RETURN_IF_ERROR(matrix ? begin({kImages, kRows, kColumns, kChannels}, true)
                                     : begin({kImages, kChannels, kRows, kColumns}, false));
    }
    if (at == 0 && !kernels_.take(*group_, *place_, task, layer().stationary)) {
      TESSERA_RETURN_IF_ERROR(conflict("has other weights than the rest of its layer"));
    }
    TESSERA_RETURN_IF_ERROR(read_cells(0, cells, place_->input));
    if (task.dynamic && rows_.first == 0) TESSERA_RETURN_IF_ERROR(read_stationary(task));
    if (task.psum.keeps) return {};  // the last part of the sum has the results
    write_results(task.output, task.output_channel_first, p.image.groups * p.image.output_channels);
    return {};
  }

  Status read_stationary(const NeuralTask& task) {
    const std::vector<bool> rows(1, true);
    const std::vector<bool> columns(static_cast<std::size_t>(task.product.image.output_channels),
                                    true);
    const TagSurface surface = core_.surface(task.stationary, image_);
    return read_cells(
        1,
        {surface, core_.granules(task.stationary.format), task.stationary_channel_first,
         task.product.image.channels, rows, columns},
        {place_->output[kImages], place_->input[kChannels], 0, place_->output[kChannels]});
  }

  // Writes down what a step reads of an operand; `to` is where the surface lies in it.
  Status read_cells(std::size_t input, const SurfaceCells& cells, const Extents& to) {
    LayerInput& seen = state_->inputs[input];
    const bool all =
        std::find(cells.columns.begin(), cells.columns.end(), false) == cells.columns.end();
    InputLine line{.pitch = cells.surface.column_pitch,
                   .width = cells.width,
                   .count = static_cast<std::int64_t>(cells.columns.size()),
                   .met = all ? nullptr : &cells.columns};
    for (std::int64_t c = 0; c < cells.channel_count; ++c) {
      for (std::size_t r = 0; r < cells.rows.size(); ++r) {
        if (!cells.rows[r]) continue;
        const auto row = static_cast<std::int64_t>(r);
        line.from = cells.surface.row(cells.channel_first + c, row);
        const Reading reading = seen.read(
            core_, line,
            seen.index(to[kImages] + image_, to[kChannels] + c, to[kRows] + row, to[kColumns]));
        if (reading != Reading::kFine) return judge(reading);
      }
    }
    return {};
  }

  void write_results(const isa::BufferSurface& output, std::int64_t channel_first,
                     std::int64_t channels) {
    const TagSurface surface = core_.surface(output, image_);
    const std::int64_t width = core_.granules(output.format);
    const Extents& strides = state_->strides;
    const Extents& first = place_->output;
    const LiftedValue value = layer().value;
    for (std::int64_t c = 0; c < channels; ++c) {
      for (std::int64_t r = rows_.first; r < rows_.last; ++r) {
        Tag* const to = surface.row(channel_first + c, r);
        std::int64_t element = (first[kImages] + image_) * strides[kImages] +
                               (first[kChannels] + c) * strides[kChannels] +
                               (first[kRows] + r) * strides[kRows] +
                               first[kColumns] * strides[kColumns];
        for (std::int64_t x = 0; x < output.columns; ++x, element += strides[kColumns]) {
          for (std::int64_t g = 0; g < width; ++g) {
            to[x * surface.column_pitch + g] =
                make_tag(value, static_cast<std::uint64_t>(element * width + g));
          }
        }
      }
    }
  }

  // ---- planar work

  Status planar_step(const PlanarTask& task) {
    switch (group_->kind) {
      case GroupKind::kPool:
        TESSERA_RETURN_IF_ERROR(pool_reads(task));
        break;
      case GroupKind::kReduce:
        TESSERA_RETURN_IF_ERROR(reduce_reads(task));
        break;
      default:
        TESSERA_RETURN_IF_ERROR(elementwise_reads(task));
    }
    if (task.continues) TESSERA_RETURN_IF_ERROR(accumulators(task, false));
    if (task.keeps) return accumulators(task, true);
    write_results(task.output, task.output_channel_first, task.output.channels);
    return {};
  }

  Status pool_reads(const PlanarTask& task) {
    const PoolConfig& p = task.pool;
    const std::vector<bool> rows =
        samples_met({p.stride_h, p.dilation_h, 1},
                    {.taps = p.window_h, .samples = task.inputs[0].rows, .pad = p.pad_top},
                    rows_.first, rows_.last);
    const std::vector<bool> columns =
        samples_met({p.stride_w, p.dilation_w, 1},
                    {.taps = p.window_w, .samples = task.inputs[0].columns, .pad = p.pad_left}, 0,
                    task.output.columns);
    TESSERA_RETURN_IF_ERROR(begin({kImages, kChannels, kRows, kColumns}, false));
    return read_cells(0,
                      {core_.surface(task.inputs[0], image_), core_.granules(task.inputs[0].format),
                       0, task.output.channels, rows, columns},
                      place_->input);
  }

  // Rows [first, last) of `count`.
  static std::vector<bool> range(std::int64_t count, std::int64_t first, std::int64_t last) {
    std::vector<bool> met(static_cast<std::size_t>(count), false);
    std::fill(met.begin() + first, met.begin() + last, true);
    return met;
  }

  SurfaceCells cells_of(const PlanarTask& task, int input, const std::vector<bool>& rows,
                        const std::vector<bool>& columns) {
    return {core_.surface(task.inputs[input], image_),
            core_.granules(task.inputs[input].format),
            0,
            task.output.channels,
            rows,
            columns};
  }

  Status elementwise_reads(const PlanarTask& task) {
    const std::vector<bool> rows = range(rows_.last, rows_.first, rows_.last);
    const std::vector<bool> columns = range(task.output.columns, 0, task.output.columns);
    if (!state_->begun) {
      AxisOrder order = order_of_axes(core_, cells_of(task, 0, rows, columns));
      if (task.input_count > 1) {
        const AxisOrder second = order_of_axes(core_, cells_of(task, 1, rows, columns));
        if (second.known > order.known) order = second;
      }
      TESSERA_RETURN_IF_ERROR(begin(order.axes, false));
    }
    for (int i = 0; i < task.input_count; ++i) {
      TESSERA_RETURN_IF_ERROR(
          read_cells(static_cast<std::size_t>(i), cells_of(task, i, rows, columns), place_->input));
    }
    return {};
  }

  Status reduce_reads(const PlanarTask& task) {
    const ReduceConfig& p = task.reduce;
    const std::int64_t in_rows = task.inputs[0].rows;
    const std::vector<bool> rows =
        p.over_rows ? range(in_rows, 0, in_rows) : range(rows_.last, rows_.first, rows_.last);
    const std::vector<bool> columns = p.over_columns
                                          ? range(task.inputs[0].columns, 0, task.inputs[0].columns)
                                          : range(task.output.columns, 0, task.output.columns);
    const SurfaceCells cells = cells_of(task, 0, rows, columns);
    if (!state_->begun) {
      TESSERA_RETURN_IF_ERROR(begin(order_of_axes(core_, cells).axes, false));
    }
    Extents to = place_->input;
    if (!group_->flat) {
      to[p.over_columns && !p.over_rows ? kColumns : kRows] += place_->element_first;
      return read_cells(0, cells, to);
    }
    // Row behind row.
    for (std::int64_t r = 0; r < in_rows; ++r) {
      Extents row_to = to;
      row_to[kRows] = to[kRows] - r;
      row_to[kColumns] = place_->element_first + r * static_cast<std::int64_t>(columns.size());
      const std::vector<bool> row = range(r + 1, r, r + 1);
      TESSERA_RETURN_IF_ERROR(read_cells(0, cells_of(task, 0, row, columns), row_to));
    }
    return {};
  }

  // Leaves the accumulators of this part, or looks whether those of the part before are there.
  Status accumulators(const PlanarTask& task, bool keep) {
    const isa::BufferSurface lying = isa::accumulator_surface(task);
    const TagSurface surface = core_.surface(lying, image_);
    const std::int64_t granules = std::int64_t{task.output.columns} *
                                  arith::ReduceAccumulator::kStoredBytes / core_.granule_bytes();
    const auto before = static_cast<std::size_t>(keep ? id_ : place_->part_before);
    LiftedValue& value = accumulators_[before];
    if (value == kNothing) {
      TESSERA_TRY(value, add_value(Format::kI64, std::int64_t{lying.images} * lying.channels *
                                                     lying.rows * lying.columns));
    }
    for (std::int64_t c = 0; c < lying.channels; ++c) {
      for (std::int64_t r = rows_.first; r < rows_.last; ++r) {
        Tag* const at = surface.row(c, r);
        const std::int64_t first =
            ((image_ * lying.channels + c) * std::int64_t{lying.rows} + r) * granules;
        for (std::int64_t g = 0; g < granules; ++g) {
          const Tag tag = make_tag(value, static_cast<std::uint64_t>(first + g));
          if (!keep && at[g] != tag) return error("takes up accumulators that are not there");
          at[g] = tag;
        }
      }
    }
    return {};
  }

  // ---- the end of a group

  Status close() {
    walk_.finished.push_back(place_->group);
    std::vector<LayerInput> inputs = std::move(state_->inputs);
    if (broken()) return {};
    LiftedLayer& to = layer();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      auto operand = operand_of(inputs[i], i);
      if (!operand.ok() && group_->merged) {
        walk_.broken.insert(group_->layer);
        return {};
      }
      if (!operand.ok()) {
        return operand.error().with_context(isa::describe_task(program_, id_));
      }
      to.inputs.push_back(std::move(*operand));
    }
    return {};
  }

  Result<Operand> operand_of(LayerInput& input, std::size_t i) {
    const Extents& e = input.extents();
    const LiftedLayer& to = layer();
    const Format format = group_->input_formats[i];
    if (group_->kind == GroupKind::kProduct && i == 1) return stationary_operand(input);
    Shape dims;
    for (const std::size_t axis : to.order) dims.push_back(e[axis]);
    if (to.as_matrix) {
      dims = {e[kRows] * e[kColumns], e[kChannels]};
      if (e[kImages] > 1) dims.insert(dims.begin(), e[kImages]);
    }
    return make_operand(context(), format, std::move(dims), input.take(to.order),
                        group_->kind == GroupKind::kElementwise);
  }

  // [images, K, N], or [K, N] where all images have one.
  Result<Operand> stationary_operand(LayerInput& input) {
    const Extents& e = input.extents();
    std::vector<Tag> tags = input.take({kImages, kChannels, kRows, kColumns});
    Shape dims = {e[kImages], e[kChannels], e[kColumns]};
    const auto matrix = static_cast<std::size_t>(e[kChannels] * e[kColumns]);
    bool one = true;
    for (std::size_t at = matrix; at < tags.size() && one; ++at) {
      one = tags[at] == tags[at - matrix];
    }
    if (one) {
      tags.resize(matrix);
      dims.erase(dims.begin());
    }
    return make_operand(context(), group_->input_formats[1], std::move(dims), std::move(tags),
                        false);
  }

  const Program& program_;
  const ChipConfig& chip_;
  const Groups& groups_;
  ShadowCore core_;
  KernelShadow kernels_;
  TagTransfer transfer_;
  std::vector<OpenGroup> open_;            // of each group
  std::vector<LiftedValue> accumulators_;  // of each task that leaves some
  Walk walk_;
  // Of the step in hand.
  TaskId id_ = 0;
  const TaskPlace* place_ = nullptr;
  const Group* group_ = nullptr;
  OpenGroup* state_ = nullptr;
  std::int64_t image_ = 0;
  RowRange rows_;
};

}  // namespace

Result<Walk> walk_tags(const Program& program, const ChipConfig& chip, const Groups& groups) {
  return Walker(program, chip, groups).run();
}

}  // namespace tessera::concord
