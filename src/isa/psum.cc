#include "isa/psum.h"

#include <fmt/format.h>

#include <algorithm>

#include "arch/cost.h"
#include "arith/microscaling.h"

namespace tessera::isa {
namespace {

Error bad(std::string message) { return {ErrorCode::kInvalidModel, std::move(message)}; }

struct Engines {
  std::int64_t first = 0, count = 1;
};

Engines engines_of(const TaskDescriptor& task, const ChipConfig& chip) {
  const EngineSet& set = task.header.engines;
  return set.all() ? Engines{0, chip.neural.count} : Engines{set.first, set.count};
}

// Whether parts of this kind add up to the bits of the whole product.
Status check_kind(const NeuralTask& task) {
  const ProductConfig& product = task.product;
  const KernelImageShape& image = product.image;
  if (image.channel_wise) {
    return bad("a channel-wise product keeps no sums in PSUM; its terms are the taps of one task");
  }
  std::int64_t vector = 1;  // terms that share an exponent
  switch (product.matrix.kind) {
    case MatrixKind::kInteger:
      return {};
    case MatrixKind::kFloat:
      if (image.taps == 1) return {};
      return bad(
          fmt::format("a product of plain floats with {} taps keeps no sums in PSUM: it is "
                      "rounded term by term, and its parts would come in another order; "
                      "allowed is 1 tap a task",
                      image.taps));
    case MatrixKind::kBlockFloat:
      vector = product.matrix.native_dimension;
      break;
    case MatrixKind::kMicroscaling:
      vector = arith::kMicroBlock;
      break;
  }
  if (image.cut == BlockCut::kIm2col && image.taps > 1) {
    return bad(
        "a product whose native vectors lie across taps keeps no sums in PSUM; cut them by "
        "channels");
  }
  if (!task.psum.keeps || image.channels % vector == 0) return {};
  return bad(
      fmt::format("a part of {} channels ends within a native vector of {}; all parts but the "
                  "last have whole ones",
                  image.channels, vector));
}

// What the part does besides adding up.
Status check_ends(const NeuralTask& task) {
  const ProductConfig& product = task.product;
  if (product.local_response.enabled() || product.correlate) {
    return bad("a normalisation over channels is of one task; sums in PSUM cannot pass through it");
  }
  if (format_bytes(product.image.format) > 1 && product.matrix.kind == MatrixKind::kInteger) {
    return bad("operands of 16 bits come in halves, which are added up within one task");
  }
  if (task.psum.continues && product.has_bias) {
    return bad("a part that goes on with sums in PSUM has a bias; it belongs to the first part");
  }
  const bool finishes =
      product.requantise || product.activation.function != UnaryFunction::kIdentity;
  if (task.psum.keeps && finishes) {
    return bad(
        "a part that keeps its sums in PSUM has an activation or a requantisation; they "
        "belong to the last part");
  }
  return {};
}

// Why a part cannot go on with what `before` kept, or "".
std::string mismatch(const TaskDescriptor& before, const TaskDescriptor& task,
                     const ChipConfig& chip) {
  const auto& a = std::get<NeuralTask>(before.config);
  const auto& b = std::get<NeuralTask>(task.config);
  const Engines engines_a = engines_of(before, chip), engines_b = engines_of(task, chip);
  if (engines_a.first != engines_b.first || engines_a.count != engines_b.count) {
    return fmt::format("on engines {} to {}, not {} to {}", engines_a.first,
                       engines_a.first + engines_a.count - 1, engines_b.first,
                       engines_b.first + engines_b.count - 1);
  }
  const KernelImageShape &x = a.product.image, &y = b.product.image;
  const bool same = a.psum.first == b.psum.first && before.bands.images == task.bands.images &&
                    before.bands.rows == task.bands.rows && a.output.columns == b.output.columns &&
                    x.groups == y.groups && x.output_channels == y.output_channels;
  if (!same) return "for results of other extents or at another entry";
  const bool alike = a.product.matrix.kind == b.product.matrix.kind &&
                     a.product.matrix.long_format == b.product.matrix.long_format;
  return alike ? "" : "of another kind";
}

}  // namespace

std::int64_t psum_entries(const ChipConfig& chip) {
  return std::int64_t{chip.neural.psum_banks} * chip.neural.psum_bank_columns;
}

PsumLayout::Place PsumLayout::place(std::int64_t channel, std::int64_t of_group,
                                    std::int64_t at) const {
  const std::int64_t block = channel % of_group / array_columns;
  return {.engine = block % engines,
          .entry = first + (channel / of_group * blocks + block / engines) * pixels + at,
          .partition = channel % of_group % array_columns};
}

PsumLayout psum_layout(const TaskDescriptor& task, const ChipConfig& chip) {
  const auto& neural = std::get<NeuralTask>(task.config);
  const KernelImageShape& image = neural.product.image;
  const std::int64_t engines = engines_of(task, chip).count;
  return {
      .first = neural.psum.first,
      .engines = engines,
      .blocks = EngineShare{0, engines}.of(ceil_div(image.output_channels, chip.neural.columns)),
      .groups = image.groups,
      .pixels = std::int64_t{task.bands.images} * task.bands.rows * neural.output.columns,
      .columns = neural.output.columns,
      .rows = task.bands.rows,
      .array_columns = chip.neural.columns};
}

Status check_psum(const TaskDescriptor& task, const ChipConfig& chip) {
  const auto& neural = std::get<NeuralTask>(task.config);
  if (!neural.psum.in_parts()) {
    if (neural.psum.first == 0) return {};
    return bad(
        fmt::format("psum_first is {} in a task without parts, allowed 0", neural.psum.first));
  }
  if (neural.transpose || task.engine != EngineKind::kNeural) {
    return bad("only products on the array keep sums in PSUM");
  }
  if (chip.neural.dataflow != Dataflow::kWeightStationary) {
    return bad("an output-stationary array has its sums in its cells, and keeps none in PSUM");
  }
  TESSERA_RETURN_IF_ERROR(check_kind(neural));
  TESSERA_RETURN_IF_ERROR(check_ends(neural));
  if (neural.psum.keeps && task.switch_allowed) {
    return bad(
        "sums in PSUM are kept where another network may follow; the task must not allow a "
        "switch");
  }
  if (engines_of(task, chip).count > 1 && task.header.sharing != Sharing::kBroadcast) {
    return bad(
        "several engines keep sums in PSUM for their own channel blocks only: sharing is "
        "broadcast");
  }
  const PsumLayout layout = psum_layout(task, chip);
  const std::int64_t blocks = layout.groups * layout.blocks;
  const std::int64_t entries = psum_entries(chip);
  if (layout.pixels <= entries && blocks <= entries && layout.last() <= entries) return {};
  return bad(
      fmt::format("sums of {} pixels in {} channel blocks from entry {} on do not fit a PSUM "
                  "partition, which has {} entries ({} banks of {} columns)",
                  layout.pixels, blocks, layout.first, entries, chip.neural.psum_banks,
                  chip.neural.psum_bank_columns));
}

PsumOwners::PsumOwners(const ChipConfig& chip)
    : chip_(chip), engines_(static_cast<std::size_t>(chip.neural.count)) {}

const TaskDescriptor* PsumOwners::open() const {
  for (const std::vector<Owner>& owners : engines_) {
    for (const Owner& owner : owners) {
      if (std::get<NeuralTask>(owner.task->config).psum.keeps) return owner.task;
    }
  }
  return nullptr;
}

std::string PsumOwners::wrong_with(std::int64_t engine, const PsumLayout& layout,
                                   const TaskDescriptor& task, std::uint32_t network) const {
  const std::string sums = fmt::format("goes on with sums in entries [{}, {}) of PSUM of engine {}",
                                       layout.first, layout.last(), engine);
  std::int64_t kept = layout.first;
  for (const Owner& owner : engines_[static_cast<std::size_t>(engine)]) {
    if (owner.last <= layout.first || owner.first >= layout.last()) continue;
    const PsumUse& psum = std::get<NeuralTask>(owner.task->config).psum;
    if (owner.network != network) {
      return fmt::format("{}, which task {} of network {} wrote over", sums, owner.task->id,
                         owner.network);
    }
    if (!psum.in_parts()) return fmt::format("{}, which task {} wrote over", sums, owner.task->id);
    if (!psum.keeps) {
      return fmt::format("{}, which task {} took to its results", sums, owner.task->id);
    }
    const std::string other = mismatch(*owner.task, task, chip_);
    if (!other.empty()) {
      return fmt::format("{}, which task {} kept {}", sums, owner.task->id, other);
    }
    if (owner.first <= kept) kept = std::max(kept, owner.last);
  }
  if (kept < layout.last()) return fmt::format("{}, which no task before it kept", sums);
  return "";
}

std::string PsumOwners::begin(const TaskDescriptor& task, std::uint32_t network) {
  const auto* neural = std::get_if<NeuralTask>(&task.config);
  if (neural == nullptr || task.engine != EngineKind::kNeural) return "";
  const Engines engines = engines_of(task, chip_);
  const bool in_parts = neural->psum.in_parts();
  const PsumLayout layout = in_parts ? psum_layout(task, chip_) : PsumLayout{};
  const std::int64_t first = in_parts ? layout.first : 0;
  const std::int64_t last = in_parts ? layout.last() : psum_entries(chip_);
  std::string wrong;
  for (std::int64_t e = engines.first; e < engines.first + engines.count; ++e) {
    if (neural->psum.continues && wrong.empty()) wrong = wrong_with(e, layout, task, network);
    std::vector<Owner> left;
    for (const Owner& owner : engines_[static_cast<std::size_t>(e)]) {
      if (owner.first < first) {
        left.push_back({owner.first, std::min(owner.last, first), owner.task, owner.network});
      }
      if (owner.last > last) {
        left.push_back({std::max(owner.first, last), owner.last, owner.task, owner.network});
      }
    }
    left.push_back({first, last, &task, network});
    std::sort(left.begin(), left.end(),
              [](const Owner& a, const Owner& b) { return a.first < b.first; });
    engines_[static_cast<std::size_t>(e)] = std::move(left);
  }
  return wrong;
}

}  // namespace tessera::isa
