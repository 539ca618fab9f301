#include "compile/dram_order.h"

#include <algorithm>

#include "arch/dram_config.h"
#include "base/check.h"
#include "base/quantity.h"
#include "compile/residency.h"
#include "compile/surface_conventions.h"

namespace tessera::compile {

std::int64_t burst_bytes(const StorageView& view, std::int64_t element, std::int64_t burst) {
  std::vector<std::pair<std::int64_t, std::int64_t>> axes;  // stride, extent
  for (std::size_t i = 0; i < view.extents.size(); ++i) {
    if (view.extents[i] > 1 && view.strides[i] != 0) {
      axes.emplace_back(view.strides[i], view.extents[i]);
    }
  }
  std::ranges::sort(axes);
  std::int64_t run = 1, runs = 1;
  for (const auto& [stride, extent] : axes) {
    if (stride == run) {
      run *= extent;
    } else {
      runs *= extent;
    }
  }
  return runs * round_up(run * element, burst);
}

namespace {

// What of the storages passes DRAM, and how.
struct Transfers {
  std::vector<StorageView> views;
  bool by_engines = true;  // no copy, host step or transposition has to do with it
};

Table<StorageIndex, Transfers> find_transfers(const PlanInputs& inputs,
                                              const std::vector<Plan>& plans) {
  Table<StorageIndex, Transfers> all(inputs.storages.storages.size());
  for (const Plan& plan : plans) {
    for (const Piece& piece : plan.pieces) {
      for (const PieceMove& move : piece.moves) all[move.from.storage].views.push_back(move.from);
      for (const PieceOperand& input : piece.inputs) {
        if (input.transfer) all[input.view.storage].views.push_back(input.view);
      }
      if (piece.output.transfer) {
        all[piece.output.view.storage].views.push_back(piece.output.view);
      }
      for (const StorageView& edge : piece.edges) all[edge.storage].views.push_back(edge);
    }
  }
  const Table<StorageIndex, StorageUses> uses = find_uses(inputs);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool transposed =
        std::ranges::any_of(uses[i].writers,
                            [&](LayerIndex writer) {
                              return inputs.layers[writer].kind == LayerKind::kTranspose;
                            }) ||
        std::ranges::any_of(uses[i].readers, [&](const auto& reader) {
          return inputs.layers[reader.first].kind == LayerKind::kTranspose;
        });
    all[i].by_engines = uses[i].copies.empty() && !uses[i].filled && !uses[i].read_in_dram &&
                        !uses[i].writers.empty() && !transposed &&
                        inputs.storages.storages[i].base == isa::BaseIndex::kWorkspace;
  }
  return all;
}

// The plane whose rows lie outermost with fewer bytes, or with no more if `or_as_many`; none where that is not so.
std::optional<ChannelPlane> better_plane(const PlanInputs& inputs, const Storage& storage,
                                         const StorageUses& uses, const Transfers& transfers,
                                         bool or_as_many) {
  const std::int64_t element = format_bytes(storage.format);
  const std::int64_t burst = dram_burst_bytes(inputs.chip);
  for (const StorageView& view : layout_views(inputs, storage, uses)) {
    const auto plane = ChannelPlane::of(view, storage.elements);
    if (!plane) continue;
    std::int64_t bytes = 0, bytes_by_rows = 0;
    bool all = true;
    for (const StorageView& each : transfers.views) {
      const auto by_rows = plane->rows_outermost(each);
      all = all && by_rows.has_value();
      if (!all) break;
      bytes += burst_bytes(each, element, burst);
      bytes_by_rows += burst_bytes(*by_rows, element, burst);
    }
    if (all && (bytes_by_rows < bytes || (or_as_many && bytes_by_rows == bytes))) return plane;
  }
  return std::nullopt;
}

}  // namespace

DramOrders::DramOrders(const PlanInputs& inputs, const std::vector<Plan>& plans)
    : DramOrders(inputs, plans, Prefer::kFewerBytes) {}

DramOrders DramOrders::by_rows(const PlanInputs& inputs, const Plan& plan) {
  return {inputs, {plan}, Prefer::kRows};
}

bool DramOrders::empty() const {
  return std::ranges::none_of(rows_outermost_, [](const auto& plane) { return plane.has_value(); });
}

DramOrders::DramOrders(const PlanInputs& inputs, const std::vector<Plan>& plans, Prefer prefer) {
  const Table<StorageIndex, StorageUses> uses = find_uses(inputs);
  const Table<StorageIndex, Transfers> transfers = find_transfers(inputs, plans);
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    rows_outermost_.push_back(std::nullopt);
    if (!transfers[i].by_engines || transfers[i].views.empty()) continue;
    rows_outermost_.back() = better_plane(inputs, inputs.storages.storages[i], uses[i],
                                          transfers[i], prefer == Prefer::kRows);
  }
}

StorageView DramOrders::in_dram(const StorageView& view) const {
  if (rows_outermost_.empty() || !rows_outermost_[view.storage]) return view;
  const auto by_rows = rows_outermost_[view.storage]->rows_outermost(view);
  TESSERA_CHECK(by_rows.has_value(), "a view that does not end with rows");
  return *by_rows;
}

}  // namespace tessera::compile
