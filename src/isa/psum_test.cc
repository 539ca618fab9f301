#include "isa/psum.h"

#include <gtest/gtest.h>

#include "isa/accesses.h"
#include "isa/dependencies.h"
#include "isa/descriptor_check.h"
#include "isa/encoding.h"
#include "isa/memory_uses.h"
#include "isa/task_list.h"
#include "isa/work.h"

namespace tessera::isa {
namespace {

// 4 x 4, two banks of 16 columns.
ChipConfig chip_of(std::int32_t engines = 1) {
  ChipConfig chip;
  chip.neural.count = engines;
  chip.neural.rows = chip.neural.columns = 4;
  chip.neural.psum_banks = 2;
  chip.neural.psum_bank_columns = 16;
  chip.state_buffer.partitions = 4;
  return chip;
}

// A product of 4 channels with 6 output channels: two images of 2 rows of 3 columns, 24 entries.
TaskDescriptor part(const ChipConfig& chip, bool continues, bool keeps) {
  NeuralTask task;
  task.dynamic = true;
  task.moving =
      dense_surface(chip, 0, {.channels = 4, .rows = 2, .columns = 3, .format = Format::kI8});
  task.moving.images = 2;
  task.moving.ring_rows = 4;
  task.stationary = dense_surface(chip, 64, {.channels = 4, .columns = 6, .format = Format::kI8});
  task.stationary.broadcast_images = true;
  task.output =
      dense_surface(chip, 128, {.channels = 6, .rows = 2, .columns = 3, .format = Format::kI32});
  task.output.images = 2;
  task.output.ring_rows = 4;
  ProductConfig& product = task.product;
  product.matrix.kind = MatrixKind::kInteger;
  product.output_format = product.bias_format = Format::kI32;
  product.image.channels = 4;
  product.image.output_channels = 6;
  product.image.rows = product.image.columns = 4;
  product.image.format = Format::kI8;
  task.psum = {.keeps = keeps, .continues = continues, .first = 4};
  TaskDescriptor made;
  made.bands = {2, 2, 1};
  made.switch_allowed = !keeps;
  made.config = task;
  return made;
}

NeuralTask& neural(TaskDescriptor& task) { return std::get<NeuralTask>(task.config); }

std::string refusal(const TaskDescriptor& task, const ChipConfig& chip = chip_of()) {
  const Status status =
      check_descriptor(task, {.chip = chip, .region_bytes = {}, .expected = 0, .task_count = 1});
  return status.ok() ? "" : status.error().message;
}

TEST(Psum, EachSumHasAPlaceOfItsOwn) {
  const TaskDescriptor task = part(chip_of(), false, true);
  const PsumLayout layout = psum_layout(task, chip_of());
  EXPECT_EQ(layout.pixels, 12);
  EXPECT_EQ(layout.last(), 4 + 2 * 12);
  // Channel 5 is the second of the second block; image 1, row 0, column 2.
  const PsumLayout::Place place = layout.place(5, 6, layout.pixel(1, 0, 2));
  EXPECT_EQ(place.engine, 0);
  EXPECT_EQ(place.entry, 4 + 12 + (1 * 2 + 0) * 3 + 2);
  EXPECT_EQ(place.partition, 1);
  // Of two engines each has a block.
  const PsumLayout shared = psum_layout(task, chip_of(2));
  EXPECT_EQ(shared.last(), 4 + 12);
  EXPECT_EQ(shared.place(5, 6, 0).engine, 1);
  EXPECT_EQ(shared.place(5, 6, 0).entry, 4);
}

TEST(Psum, RegistersComeBackAndDefaultsAreNoParts) {
  TaskDescriptor task = part(chip_of(), true, true);
  std::size_t consumed = 0;
  const std::vector<std::byte> bytes = encode(task);
  const auto decoded = decode(bytes, consumed);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(std::get<NeuralTask>(decoded->config).psum, neural(task).psum);
  neural(task).psum = {};
  EXPECT_LT(encode(task).size(), bytes.size());
  EXPECT_FALSE(NeuralTask().psum.in_parts());
}

TEST(Psum, APartAccessesItsEntriesAndWritesResultsOnlyAtTheEnd) {
  const ChipConfig chip = chip_of();
  const auto accesses_of = [&](const TaskDescriptor& task, MemoryKind memory) {
    std::vector<Access> accesses, found;
    step_accesses(task, chip, 1, accesses);  // image 0, row 1
    for (const Access& access : accesses) {
      if (access.memory == memory && (access.write || memory == MemoryKind::kPsum)) {
        found.push_back(access);
      }
    }
    return found;
  };
  const std::vector<Access> kept = accesses_of(part(chip, false, true), MemoryKind::kPsum);
  ASSERT_EQ(kept.size(), 2u);  // a run for each channel block
  EXPECT_TRUE(kept[0].write);
  EXPECT_EQ(kept[0].first, 4 + 3);
  EXPECT_EQ(kept[0].last, 4 + 6);
  EXPECT_EQ(kept[1].first, 4 + 12 + 3);
  EXPECT_EQ(accesses_of(part(chip, true, true), MemoryKind::kPsum).size(), 4u);  // reads too
  EXPECT_TRUE(accesses_of(part(chip, true, true), MemoryKind::kStateBuffer).empty());
  EXPECT_FALSE(accesses_of(part(chip, true, false), MemoryKind::kStateBuffer).empty());
  TaskDescriptor whole = part(chip, false, false);
  neural(whole).psum = {};
  EXPECT_TRUE(accesses_of(whole, MemoryKind::kPsum).empty());
}

TEST(Psum, ItsAddressIsAUseOfMemoryWithoutARegion) {
  TaskDescriptor task = part(chip_of(), false, true);
  bool found = false;
  for (const MemoryUse& use : memory_uses(task, chip_of())) {
    if (use.memory != MemoryKind::kPsum) continue;
    found = true;
    EXPECT_EQ(use.offset, &neural(task).psum.first);
    EXPECT_EQ(use.last, 28);
  }
  EXPECT_TRUE(found);
}

TEST(Psum, WhatCannotBeKeptIsRefused) {
  const ChipConfig chip = chip_of();
  TaskDescriptor task = part(chip, false, true);
  EXPECT_EQ(refusal(task), "");
  neural(task).psum.first = 9;
  EXPECT_EQ(refusal(task),
            "sums of 12 pixels in 2 channel blocks from entry 9 on do not fit a PSUM partition, "
            "which has 32 entries (2 banks of 16 columns)");
  task = part(chip, false, true);
  task.switch_allowed = true;
  EXPECT_EQ(refusal(task),
            "sums in PSUM are kept where another network may follow; the task must not allow a "
            "switch");
  task = part(chip, true, false);
  neural(task).product.has_bias = true;
  EXPECT_EQ(refusal(task),
            "a part that goes on with sums in PSUM has a bias; it belongs to the first part");
  task = part(chip, false, true);
  neural(task).product.activation.function = UnaryFunction::kRelu;
  EXPECT_EQ(refusal(task),
            "a part that keeps its sums in PSUM has an activation or a requantisation; they belong "
            "to the last part");
  task = part(chip, false, false);
  EXPECT_EQ(refusal(task), "psum_first is 4 in a task without parts, allowed 0");
  ChipConfig other = chip;
  other.neural.dataflow = Dataflow::kOutputStationary;
  EXPECT_EQ(refusal(part(chip, false, true), other),
            "an output-stationary array has its sums in its cells, and keeps none in PSUM");
  EXPECT_EQ(refusal(part(chip, false, true), chip_of(2)),
            "several engines keep sums in PSUM for their own channel blocks only: sharing is "
            "broadcast");
  task = part(chip, false, true);
  task.header.sharing = Sharing::kBroadcast;
  EXPECT_EQ(refusal(task, chip_of(2)), "");
}

TEST(Psum, KindsWhosePartsAreNotTheWholeAreRefused) {
  const ChipConfig chip = chip_of();
  TaskDescriptor task = part(chip, false, true);
  NeuralTask& product = neural(task);
  product.moving.format = product.stationary.format = product.product.image.format = Format::kF16;
  product.moving.column_pitch = product.stationary.column_pitch = 2;
  product.output.format = product.product.output_format = Format::kF32;
  product.product.matrix.kind = MatrixKind::kBlockFloat;
  product.product.matrix.native_dimension = 4;
  EXPECT_EQ(refusal(task), "");
  product.product.matrix.native_dimension = 3;
  EXPECT_EQ(refusal(task),
            "a part of 4 channels ends within a native vector of 3; all parts but the last have "
            "whole ones");
  product.psum.keeps = false;
  product.psum.continues = true;
  EXPECT_EQ(refusal(task), "");
  product.stationary.rows = 2;
  product.stationary.ring_rows = 2;
  product.product.kernel_h = product.product.image.taps = 2;
  product.product.pad_top = 1;
  EXPECT_EQ(refusal(task), "");
  product.product.image.cut = BlockCut::kIm2col;
  EXPECT_EQ(refusal(task),
            "a product whose native vectors lie across taps keeps no sums in PSUM; cut them by "
            "channels");
  product.product.matrix.kind = MatrixKind::kFloat;
  EXPECT_EQ(refusal(task),
            "a product of plain floats with 2 taps keeps no sums in PSUM: it is rounded term by "
            "term, and its parts would come in another order; allowed is 1 tap a task");
}

TEST(Psum, OwnersSeeWhatHappensBetweenTwoParts) {
  const ChipConfig chip = chip_of(2);
  const auto on = [&](int engine, bool continues, bool keeps, TaskId id) {
    TaskDescriptor task = part(chip, continues, keeps);
    task.id = id;
    task.header.engines = {static_cast<std::uint8_t>(engine), 1};
    return task;
  };
  const TaskDescriptor first = on(0, false, true, 0), middle = on(0, true, true, 1),
                       last = on(0, true, false, 2), other = on(1, true, false, 3);
  TaskDescriptor plain = on(0, false, false, 4);
  std::get<NeuralTask>(plain.config).psum = {};
  {
    PsumOwners owners(chip);
    EXPECT_EQ(owners.begin(first, 0), "");
    EXPECT_EQ(owners.open(), &first);
    EXPECT_EQ(owners.begin(middle, 0), "");
    EXPECT_EQ(owners.open(), &middle);
    EXPECT_EQ(
        owners.begin(other, 0),
        "goes on with sums in entries [4, 28) of PSUM of engine 1, which no task before it kept");
    EXPECT_EQ(owners.begin(last, 0), "");
    EXPECT_EQ(owners.open(), nullptr);
    EXPECT_EQ(owners.begin(last, 0),
              "goes on with sums in entries [4, 28) of PSUM of engine 0, which task 2 took to its "
              "results");
  }
  PsumOwners owners(chip);
  EXPECT_EQ(owners.begin(first, 0), "");
  EXPECT_EQ(owners.begin(last, 1),
            "goes on with sums in entries [4, 28) of PSUM of engine 0, which task 0 of network 0 "
            "wrote over");
  EXPECT_EQ(owners.begin(first, 0), "");
  EXPECT_EQ(owners.begin(plain, 0), "");
  EXPECT_EQ(owners.begin(last, 0),
            "goes on with sums in entries [4, 28) of PSUM of engine 0, which task 4 wrote over");
  EXPECT_EQ(owners.begin(first, 0), "");
  TaskDescriptor smaller = last;
  smaller.bands.rows = 1;
  EXPECT_EQ(
      owners.begin(smaller, 0),
      "goes on with sums in entries [4, 16) of PSUM of engine 0, which task 0 kept for results "
      "of other extents or at another entry");
}

TEST(Psum, ThePostProcessorIsLeftOut) {
  const ChipConfig chip = chip_of();
  TaskDescriptor task = part(chip, false, true);
  const ProductWork kept = product_work(neural(task), chip);
  neural(task).psum.keeps = false;
  const ProductWork finished = product_work(neural(task), chip);
  // Skew of 4 + 4 - 2 and a cycle into PSUM; then the post-processor's latency.
  EXPECT_EQ(neural_drain_cycles(chip.neural, kept), 6 + 1);
  EXPECT_EQ(neural_drain_cycles(chip.neural, finished),
            6 + 1 + chip.neural.post_processor_latency_cycles);
  // With one bank a chain waits until the one before has left it, unless its sums stay: two blocks of
  // 3 columns, passes of 4 cycles (the next weights) against 4 (a bank of 4 partitions).
  NeuralEngineConfig one = chip.neural;
  one.psum_banks = 1;
  one.columns = 8;
  ProductWork wide = finished;
  wide.output_channels = 24;
  wide.columns = 3;
  const StepRows step{0, 1, false};
  EXPECT_EQ(neural_step_cycles(one, wide, step, StepSharing::kBroadcast), 3 * 8);
  wide.keeps_sums = true;
  EXPECT_EQ(neural_step_cycles(one, wide, step, StepSharing::kBroadcast), 3 * 4);
}

}  // namespace
}  // namespace tessera::isa
