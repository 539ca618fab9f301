#include "compile/cascade_schedule.h"

#include <algorithm>
#include <limits>

#include "base/quantity.h"
#include "compile/pieces.h"
#include "compile/surface_conventions.h"
#include "isa/accesses.h"

namespace tessera::compile {
namespace {

// Reads and writes of a ring in one slot.
struct RingUse {
  std::int64_t written_to = 0;  // rows below this are written when the slot ends
  std::int64_t read_from = std::numeric_limits<std::int64_t>::max();
  std::int64_t read_to = 0;
};

class Scheduler {
 public:
  Scheduler(const PlanInputs& inputs, std::int64_t slots, Cascade& cascade)
      : inputs_(inputs), slots_(slots), cascade_(cascade) {}

  void run() {
    find_done();
    std::int64_t last_delay = 0;
    for (std::size_t m = 0; m < cascade_.members.size(); ++m) {
      last_delay = std::max(last_delay, delay_of(m));
    }
    turns_ = slots_ + last_delay;
    find_uses();
    set_rings();
    set_steps();
    cascade_.slots = slots_;
  }

 private:
  const PlannedLayer& layer_of(std::size_t member) const {
    return inputs_.layers[cascade_.members[member].layer];
  }
  std::int64_t delay_of(std::size_t member) const {
    return cascade_.overlap ? cascade_.members[member].delay : 0;
  }
  std::int64_t& done(std::size_t member, std::int64_t slot) {
    return done_[member * static_cast<std::size_t>(slots_) + static_cast<std::size_t>(slot)];
  }
  // Slots that loads run ahead, and that a write leaves to readers.
  std::int64_t ahead() const { return cascade_.overlap ? 1 : 0; }
  // Rows of a member in its slot (which may lie outside of all).
  RowRange rows_of(std::size_t member, std::int64_t slot) {
    if (slot < 0 || slot >= slots_) return {0, 0};
    return {slot == 0 ? 0 : done(member, slot - 1), done(member, slot)};
  }

  // Rows that each member has finished after each slot: as far as its readers need.
  void find_done() {
    done_.assign(cascade_.members.size() * static_cast<std::size_t>(slots_), 0);
    for (std::size_t m = cascade_.members.size(); m-- > 0;) {
      const std::int64_t rows = layer_of(m).output.rows();
      bool read = false;
      for (std::size_t reader = m + 1; reader < cascade_.members.size(); ++reader) {
        const auto& operands = cascade_.members[reader].inputs;
        for (std::size_t i = 0; i < operands.size(); ++i) {
          if (operands[i].writer != static_cast<std::int32_t>(m)) continue;
          read = true;
          for (std::int64_t s = 0; s < slots_; ++s) {
            const std::int64_t end = done(reader, s);
            if (end == 0) continue;
            done(m, s) =
                std::max(done(m, s), input_rows_read(layer_of(reader), i, {end - 1, end}).last);
          }
        }
      }
      for (std::int64_t s = 0; s < slots_ && !read; ++s) {
        done(m, s) = ceil_div(rows * (s + 1), slots_);
      }
      for (std::int64_t s = 1; s < slots_; ++s) done(m, s) = std::max(done(m, s), done(m, s - 1));
      done(m, slots_ - 1) = rows;
    }
  }

  RingUse& use(std::int32_t ring, std::int64_t turn) {
    return uses_[static_cast<std::size_t>(ring) * static_cast<std::size_t>(turns_) +
                 static_cast<std::size_t>(turn)];
  }

  void find_uses() {
    uses_.assign(cascade_.rings.size() * static_cast<std::size_t>(turns_), {});
    for (std::size_t m = 0; m < cascade_.members.size(); ++m) {
      const CascadeMember& member = cascade_.members[m];
      for (std::int64_t turn = 0; turn < turns_; ++turn) {
        const RowRange rows = rows_of(m, turn - delay_of(m));
        if (rows.last <= rows.first) continue;
        for (std::size_t i = 0; i < member.inputs.size(); ++i) {
          if (member.inputs[i].passage != Passage::kRing) continue;
          const RowRange read = input_rows_read(layer_of(m), i, rows);
          RingUse& at = use(member.inputs[i].ring, turn);
          at.read_from = std::min(at.read_from, read.first);
          at.read_to = std::max(at.read_to, read.last);
        }
        if (member.output.passage == Passage::kRing) {  // its store reads it in the same slot
          RingUse& at = use(member.output.ring, turn);
          at.written_to = rows.last;
          at.read_from = std::min(at.read_from, rows.first);
        }
      }
    }
    for (std::size_t r = 0; r < cascade_.rings.size(); ++r) {
      const auto ring = static_cast<std::int32_t>(r);
      if (cascade_.rings[r].writer < 0) {  // loaded one slot ahead
        for (std::int64_t turn = 0; turn < turns_; ++turn) {
          const std::int64_t next = std::min(turn + ahead(), turns_ - 1);
          use(ring, turn).written_to = std::max(use(ring, turn).read_to, use(ring, next).read_to);
        }
      }
      for (std::int64_t turn = 1; turn < turns_; ++turn) {
        use(ring, turn).written_to =
            std::max(use(ring, turn).written_to, use(ring, turn - 1).written_to);
      }
      for (std::int64_t turn = turns_ - 1; turn > 0; --turn) {
        use(ring, turn - 1).read_from =
            std::min(use(ring, turn - 1).read_from, use(ring, turn).read_from);
      }
    }
  }

  // What a slot writes lies beside everything that it, a later one and, if they overlap, the slot
  // before reads.
  void set_rings() {
    cascade_.bytes = 0;
    for (std::size_t r = 0; r < cascade_.rings.size(); ++r) {
      Ring& ring = cascade_.rings[r];
      const auto number = static_cast<std::int32_t>(r);
      const bool broadcast = ring.view.strides[2] == 0;
      ring.rows = broadcast ? 0 : 1;
      for (std::int64_t turn = 0; turn < turns_ && !broadcast; ++turn) {
        const std::int64_t kept = use(number, std::max<std::int64_t>(0, turn - ahead())).read_from;
        if (kept >= ring.view.rows()) continue;
        ring.rows = std::max(ring.rows, use(number, turn).written_to - kept);
      }
      ring.rows = std::min(ring.rows, ring.view.rows());
      const Format format = inputs_.storages.storages[ring.view.storage].format;
      const BufferLayout layout(ring.view, format, inputs_.chip.state_buffer.partitions, ring.rows);
      cascade_.bytes += round_up(layout.bytes(), kAlignmentBytes);
    }
  }

  void set_steps() {
    cascade_.steps.clear();
    std::vector<std::int64_t> loaded(cascade_.rings.size(), 0);
    for (std::int64_t turn = 0; turn < turns_; ++turn) {
      for (std::size_t r = 0; r < cascade_.rings.size(); ++r) {
        const auto ring = static_cast<std::int32_t>(r);
        if (cascade_.rings[r].writer >= 0) continue;
        const bool whole = cascade_.rings[r].view.strides[2] == 0;
        const std::int64_t to = whole ? 1 : use(ring, turn).written_to;
        if (to <= loaded[r]) continue;
        cascade_.steps.push_back({.ring = ring, .rows = {loaded[r], to}});
        loaded[r] = to;
      }
      for (std::size_t m = 0; m < cascade_.members.size(); ++m) {
        const RowRange rows = rows_of(m, turn - delay_of(m));
        if (rows.last <= rows.first) continue;
        cascade_.steps.push_back({.member = static_cast<std::int32_t>(m), .rows = rows});
      }
    }
  }

  const PlanInputs& inputs_;
  const std::int64_t slots_;
  Cascade& cascade_;
  std::int64_t turns_ = 0;          // slots of all members, delays included
  std::vector<std::int64_t> done_;  // of each member and slot
  std::vector<RingUse> uses_;       // of each ring and turn
};

}  // namespace

void schedule_cascade(const PlanInputs& inputs, std::int64_t slots, Cascade& cascade) {
  Scheduler(inputs, slots, cascade).run();
}

std::vector<RowRange> unwrapped_rows(const Cascade& cascade, const PlanInputs& inputs,
                                     const CascadeStep& step) {
  std::vector<std::int64_t> rings;  // rows of those that the step must not wrap around
  const auto add = [&](std::int32_t index) {
    if (index < 0) return;
    const Ring& ring = cascade.rings[index];
    if (ring.rows > 0 && ring.rows < ring.view.rows()) rings.push_back(ring.rows);
  };
  add(step.ring);
  if (step.member >= 0) {
    const CascadeMember& member = cascade.members[step.member];
    const PlannedLayer& layer = inputs.layers[member.layer];
    add(member.output.ring);
    const bool windows =
        layer.kind == LayerKind::kNeural || layer.planar.mode == isa::PlanarMode::kPooling;
    for (const CascadeOperand& input : member.inputs) {
      if (!windows && input.passage == Passage::kRing) add(input.ring);
    }
  }
  std::vector<RowRange> parts;
  for (std::int64_t first = step.rows.first; first < step.rows.last;) {
    std::int64_t last = step.rows.last;
    for (const std::int64_t rows : rings) last = std::min(last, (first / rows + 1) * rows);
    parts.push_back({first, last});
    first = last;
  }
  return parts;
}

}  // namespace tessera::compile
