#include "runtime/growing_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "arch/host_time.h"
#include "base/guarded.h"
#include "runtime/tensor_bytes.h"
#include "runtime/waiting_claim.h"

namespace tessera::runtime {

Status GrowingRows::take_memory(const Network& network) {
  if (!states_.empty()) return {};
  std::vector<StateRows> taken;
  for (std::size_t i = 0; i < model_->states().size(); ++i) {
    TESSERA_TRY(const TensorDescription row, model_->row_of(network, i));
    StateRows state;
    state.row_bytes = tensor_bytes(row).value;
    TESSERA_TRY(state.block,
                BlockState::allocate(memory_, Bytes{state.row_bytes * model_->options().rows_max}));
    // Otherwise the host's are zeros already, and go over where a network reads them.
    if (memory_->entry.device().properties().shared_memory) {
      std::ranges::fill(state.block->block.host, std::byte{0});
    }
    TESSERA_RETURN_IF_ERROR(state.block->wrote());
    taken.push_back(std::move(state));
  }
  states_ = std::move(taken);
  return {};
}

Result<Block> GrowingRows::part(std::size_t state, const TensorDescription& tensor,
                                std::int64_t row) {
  const StateRows& of = states_[state];
  const Bytes first{std::max<std::int64_t>(row, 0) * of.row_bytes};
  TESSERA_TRY(auto part, BlockState::rows_of(of.block, first, tensor,
                                             {.order = shared_from_this(), .written = row}));
  return Block(std::move(part));
}

Status GrowingRows::check_room() const {
  if (const auto failed = this->failed()) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("the states have {} rows, since {}; keep_rows({}) goes on from there",
                             failed->row, failed->why.message, failed->row)};
  }
  if (rows_ < model_->options().rows_max) return {};
  return Error{ErrorCode::kDoesNotFit,
               fmt::format("the states have {} rows, as many as GrowingOptions::rows_max; open a "
                           "pipeline with more, or clear() this stream",
                           rows_)};
}

Status GrowingRows::add_to(NetworkTask& task, std::span<const TensorDescription> inputs,
                           std::span<const TensorDescription> outputs) {
  TESSERA_RETURN_IF_ERROR(check_room());
  const std::int64_t capacity = model_->capacity_for(rows_);
  task.outputs.resize(outputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const GrowingPlace place = model_->input_place(inputs[i].name);
    const auto at = task.inputs.begin() + static_cast<std::ptrdiff_t>(i);
    if (place.kind == GrowingPlace::Kind::kNewRow) {
      if (inputs[i].dims[0] != capacity) {
        return Error{ErrorCode::kUnavailable, "another thread has submitted the row meanwhile"};
      }
      task.inputs.insert(at, new_row_input(capacity, rows_));
    } else if (place.kind == GrowingPlace::Kind::kState) {
      TESSERA_TRY(Block rows, part(place.index, inputs[i], -1));
      task.inputs.insert(at, std::move(rows));
    }
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const GrowingPlace place = model_->output_place(outputs[i].name);
    if (place.kind != GrowingPlace::Kind::kState) continue;
    TESSERA_TRY(task.outputs[i].block, part(place.index, outputs[i], rows_));
  }
  return {};
}

void GrowingRows::turn() {
  ++rows_;
  touched_ = std::max(touched_, rows_);
}

std::int64_t GrowingRows::rows() const {
  const auto failed = this->failed();
  return failed ? failed->row : rows_;
}

std::optional<GrowingRows::Failed> GrowingRows::failed() const {
  const std::lock_guard lock(mutex_);
  return failed_;
}

// The tasks behind it name the first one.
void GrowingRows::row_failed(std::int64_t row, Status why) {
  const std::lock_guard lock(mutex_);
  if (failed_ && failed_->row <= row) return;
  failed_ = {row, why.error()};
}

Status GrowingRows::valid() const {
  const auto failed = this->failed();
  if (!failed) return {};
  return failed->why.with_context(fmt::format("row {} was not written", failed->row));
}

// By the one whose turn it is.
Status GrowingRows::write_zeros(std::int64_t from, std::int64_t to) {
  for (const StateRows& state : states_) {
    const std::span<std::byte> rows =
        state.block->block.host.subspan(static_cast<std::size_t>(from * state.row_bytes),
                                        static_cast<std::size_t>((to - from) * state.row_bytes));
    if (rows.empty()) continue;
    std::ranges::fill(rows, std::byte{0});
    TESSERA_RETURN_IF_ERROR(memory_->mirror().wrote(rows));
  }
  return {};
}

Status GrowingRows::keep_rows(std::int64_t rows, std::mutex& states) {
  BlockOrder& order = memory_->runtime().block_order();
  WaitingClaim claim;
  claim.uses.push_back({shared_from_this(), true});
  bool waits = false;
  std::int64_t touched = 0;
  {
    const std::lock_guard lock(states);
    if (rows < 0 || rows > this->rows()) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("{} rows to keep, the states have {}", rows, this->rows())};
    }
    const bool inside = WaitingClaim::must_not_wait();
    if (inside && !order.try_enter(claim)) {
      return Error{ErrorCode::kUnavailable,
                   "tasks of the stream are on their way, and a stage or a callback cannot wait "
                   "for them; keep rows when they are done"};
    }
    waits = !inside && !order.enter(claim);
    // Tasks that are submitted from now on have their turn behind this.
    touched = std::exchange(touched_, rows);
    rows_ = rows;
  }
  if (waits) claim.wait();
  Status status = guarded("keeping rows", [&]() -> Status {
    TESSERA_RETURN_IF_ERROR(write_zeros(rows, touched));
    const std::lock_guard lock(mutex_);
    if (failed_ && failed_->row < rows) return failed_->why;  // of a task that was on its way
    failed_.reset();
    return {};
  });
  order.leave(claim);
  return status;
}

}  // namespace tessera::runtime
