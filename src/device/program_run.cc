#include "device/program_run.h"

#include <fmt/format.h>

#include "concord/lift/lift.h"
#include "device/device_form.h"
#include "device/segment_use.h"
#include "isa/verify.h"
#include "link/one_list.h"

namespace tessera::device {
namespace {

const Shape& shape_outside(const isa::TensorSlot& slot) {
  return slot.dense_dims.empty() ? slot.dims : slot.dense_dims;
}

std::vector<TensorDescription> describe(const std::vector<isa::TensorSlot>& slots) {
  std::vector<TensorDescription> result;
  for (const isa::TensorSlot& slot : slots)
    result.push_back({slot.name, slot.format, shape_outside(slot)});
  return result;
}

Tensor in_device_form(const isa::TensorSlot& slot, const Tensor& outside) {
  Tensor tensor = Tensor::zeros(slot.format, slot.dims);
  to_device(graph::layout_conversion(slot.format, slot.dims, slot.dense_dims), outside.bytes,
            tensor.bytes);
  return tensor;
}

Tensor outside(const isa::TensorSlot& slot, Tensor in_device_form) {
  if (slot.dense_dims.empty()) return in_device_form;
  Tensor tensor = Tensor::zeros(slot.format, slot.dense_dims);
  from_device(graph::layout_conversion(slot.format, slot.dims, slot.dense_dims),
              in_device_form.bytes, tensor.bytes);
  return tensor;
}

Status proved(const isa::CardProgram& program, const ChipConfig& chip, bool unverified) {
  if (program.cores.size() == 1) {
    const isa::Program& one = program.cores.front();
    return unverified ? isa::check_program(one, chip) : isa::verify_program(one, chip);
  }
  return unverified ? isa::check_card_program(program, chip)
                    : isa::verify_card_program(program, chip);
}

}  // namespace

ProgramRun::ProgramRun(isa::CardProgram program, const ChipConfig& chip,
                       const ProgramRunOptions& options)
    : program_(std::move(program)), chip_(chip), options_(options) {}

Result<std::unique_ptr<ProgramRun>> ProgramRun::create(isa::Program program, const ChipConfig& chip,
                                                       const ProgramRunOptions& options) {
  isa::CardProgram card;
  card.cores.push_back(std::move(program));
  return create(std::move(card), chip, options);
}

Result<std::unique_ptr<ProgramRun>> ProgramRun::create(isa::CardProgram program,
                                                       const ChipConfig& chip,
                                                       const ProgramRunOptions& options) {
  TESSERA_RETURN_IF_ERROR(proved(program, chip, options.unverified));
  for (const isa::Segment& segment : program.cores.front().segments) {
    for (const isa::HostStep& step : segment.host_steps) {
      if (!step.body.empty()) continue;
      return Error{ErrorCode::kInvalidModel,
                   fmt::format("the program has a host step behind task {} without its node; link "
                               "the package again",
                               segment.task_last)};
    }
  }
  std::unique_ptr<ProgramRun> run(new ProgramRun(std::move(program), chip, options));
  TESSERA_RETURN_IF_ERROR(options.device == DeviceKind::kSim ? run->place() : run->lift());
  return run;
}

Status ProgramRun::lift() {
  std::shared_ptr<const graph::Graph> graph;
  if (program_.cores.size() == 1) {
    TESSERA_TRY(graph, concord::lift(program(), chip_));
  } else {
    TESSERA_TRY(const link::OneList list,
                link::in_one_list(program_, chip_, link::ListOrder::kLayers));
    TESSERA_TRY(graph, concord::lift(list.program, list.chip));
  }
  if (options_.device == DeviceKind::kHost) {
    TESSERA_TRY(executor_, host::make_host_executor(graph, {.threads = options_.threads}));
  } else {
    TESSERA_TRY(executor_, host::make_reference_executor(graph));
  }
  return {};
}

Status ProgramRun::place() {
  TESSERA_TRY(host_steps_, open_steps(program()));
  if (program_.cores.size() == 1) {
    TESSERA_TRY(core_, card::Core::create(chip_));
    TESSERA_RETURN_IF_ERROR(core_->load(program()));
    dram_ = std::make_unique<CoreDram>(*core_);
    return {};
  }
  TESSERA_TRY(const CardPlacement placement,
              spread_cores(chip_, program_.cards, static_cast<int>(program_.cores.size())));
  for (const int core : placement.core) {
    places_.push_back({core / chip_.card.cores(), core / chip_.card.cores_per_group, core});
  }
  TESSERA_TRY(card_, card::Card::create(chip_, placement));
  TESSERA_RETURN_IF_ERROR(card_->load(program_));
  dram_ = std::make_unique<CardDram>(*card_);
  return {};
}

std::vector<TensorDescription> ProgramRun::inputs() const { return describe(program().inputs); }
std::vector<TensorDescription> ProgramRun::outputs() const { return describe(program().outputs); }

Status ProgramRun::check_inputs(const std::vector<Tensor>& inputs) const {
  if (inputs.size() != program().inputs.size()) {
    return Error{ErrorCode::kInvalidArgument, fmt::format("{} inputs, the program has {}",
                                                          inputs.size(), program().inputs.size())};
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const isa::TensorSlot& slot = program().inputs[i];
    if (inputs[i].format != slot.format || inputs[i].dims != shape_outside(slot)) {
      return Error{
          ErrorCode::kInvalidArgument,
          fmt::format("input '{}' has another format or shape than the program says", slot.name)};
    }
  }
  return {};
}

Status ProgramRun::write_inputs(const std::vector<Tensor>& inputs) {
  TESSERA_RETURN_IF_ERROR(check_inputs(inputs));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const isa::TensorSlot& slot = program().inputs[i];
    TESSERA_RETURN_IF_ERROR(dram_->write(slot.address, in_device_form(slot, inputs[i]).bytes));
  }
  return {};
}

Status ProgramRun::run_segment(std::size_t segment, const card::CoreOptions& options,
                               RunResult& result) {
  if (card_ != nullptr) {
    TESSERA_TRY(const card::CardStatistics statistics, card_->run_segment(segment, options));
    add_card_segment(program_, segment, statistics, result);
    return {};
  }
  TESSERA_TRY(const card::RunStatistics statistics, core_->run_segment(segment, options));
  add_segment(program(), segment, statistics, result);
  return {};
}

Result<RunResult> ProgramRun::run_segments(std::size_t first, std::size_t last, bool with_outputs) {
  RunResult result;
  result.clock_hertz = chip_.clock_hertz;
  add_hints(program(), result);
  result.cores = places_;
  result.images = program_.images;
  card::CoreOptions options;
  options.timing_only = options_.timing_only;
  options.check_hazards = options_.check_hazards;
  options.trace = options_.trace;
  options.traps = options_.traps;
  for (std::size_t segment = first; segment < last; ++segment) {
    options.messages_go_on = messages_go_on_;
    messages_go_on_ = true;
    TESSERA_RETURN_IF_ERROR(run_segment(segment, options, result));
    const HostTime time = host_time(host_steps_[segment], chip_);
    result.host_cycles += time.step;
    result.transfer_cycles += time.transfer;
    if (options_.timing_only) continue;
    for (const OpenStep& step : host_steps_[segment]) {
      TESSERA_RETURN_IF_ERROR(run_step(*dram_, step));
    }
  }
  if (with_outputs) result.transfer_cycles += edge_transfer_cycles(program(), chip_);
  if (!with_outputs || options_.timing_only) return result;
  for (const isa::TensorSlot& slot : program().outputs) {
    Tensor output = Tensor::zeros(slot.format, slot.dims);
    TESSERA_RETURN_IF_ERROR(dram_->read(slot.address, output.bytes));
    result.outputs.push_back(outside(slot, std::move(output)));
  }
  return result;
}

Result<RunResult> ProgramRun::run(const std::vector<Tensor>& inputs) {
  if (executor_ != nullptr) {
    TESSERA_RETURN_IF_ERROR(check_inputs(inputs));
    std::vector<Tensor> taken;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      taken.push_back(in_device_form(program().inputs[i], inputs[i]));
    }
    TESSERA_TRY(std::vector<Tensor> outputs, executor_->run(taken));
    RunResult result;
    result.images = program_.images;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      result.outputs.push_back(outside(program().outputs[i], std::move(outputs[i])));
    }
    return result;
  }
  TESSERA_RETURN_IF_ERROR(write_inputs(inputs));
  messages_go_on_ = false;
  return run_segments(0, program().segments.size(), true);
}

Result<RunResult> ProgramRun::begin() {
  if (card_ != nullptr) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("streaming with a program for {} cores; link it for one (without "
                             "--cores)",
                             program_.cores.size())};
  }
  if (core_ == nullptr) {
    return Error{ErrorCode::kUnsupported,
                 "streaming runs on the device sim, whose memories keep the state between steps"};
  }
  messages_go_on_ = false;
  const std::size_t segments = program().segments.size();
  return run_segments(0, segments == 0 ? 0 : segments - 1, false);
}

Result<RunResult> ProgramRun::step(const std::vector<Tensor>& inputs) {
  TESSERA_RETURN_IF_ERROR(write_inputs(inputs));
  const std::size_t segments = program().segments.size();
  return run_segments(segments == 0 ? 0 : segments - 1, segments, true);
}

}  // namespace tessera::device
