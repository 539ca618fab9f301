#include "concord/testing/unrolled.h"

#include <algorithm>
#include <string>
#include <vector>

#include "concord/steps.h"

namespace tessera::concord::testing {
namespace {

constexpr std::int64_t kWidth = 6;

class Loop {
 public:
  Loop(Software& software, std::int64_t turns, bool own_weights)
      : software_(software), steps_(software, "v"), turns_(turns), own_weights_(own_weights) {}

  void write() {
    begin("inputs", "Input");
    x_ = steps_.input("x", Format::kF64, {turns_, kWidth});
    ValueId before = steps_.input("h", Format::kF64, {1, kWidth});
    bias_ = steps_.input("b", Format::kF32, {3});
    ValueId state = steps_.mul(before, 0.5);
    for (std::int64_t turn = 0; turn < turns_; ++turn) {
      const ValueId next = write_turn(turn, state, before);
      before = state;
      state = next;
      states_.push_back(next);
    }
    begin("outputs", "Output");
    std::vector<ValueId> backwards = states_;
    std::reverse(backwards.begin(), backwards.end());
    // The last state stands first, and on its own.
    backwards.insert(backwards.begin(), x_row());
    show("last", state);
    show("forwards", steps_.concat(states_, 1));
    show("backwards", steps_.concat(backwards, 0));
    show("middle", states_[static_cast<std::size_t>(turns_ / 2)]);
    show("numbers", steps_.concat(numbers_, 0));
  }

 private:
  void begin(const std::string& name, const std::string& kind) {
    software_.layers.push_back({name, kind, {}, "", Format::kF64});
    steps_.begin_layer(static_cast<std::int32_t>(software_.layers.size()) - 1);
  }

  void show(const std::string& name, ValueId id) {
    const Shape dims = steps_.dims(id);
    id = steps_.reshape(steps_.reshape(id, {element_count(dims), 1}), dims);
    software_.values[id].name = name;
    software_.outputs.push_back({id, name});
  }

  ValueId x_row() { return steps_.slice(x_, 0, 0, 1); }

  ValueId matrix(std::int64_t number) {
    std::vector<double> numbers;
    for (std::int64_t i = 0; i < kWidth * kWidth; ++i) {
      numbers.push_back(static_cast<double>((i * 7 + number * 5) % 11 - 5) / 16);
    }
    return steps_.f64s(numbers, {kWidth, kWidth});
  }

  ValueId write_turn(std::int64_t turn, ValueId state, ValueId before) {
    const std::string name = "turn" + std::to_string(turn);
    begin(name + ".product", "matmul");
    const ValueId row = steps_.slice(x_, 0, turn, turn + 1);
    const ValueId flat = steps_.reshape(x_, {turns_ * kWidth});
    const ValueId places = steps_.i64s({turn, turn + 3, turns_ * kWidth - 1 - turn}, {3});
    const ValueId some = steps_.gather(flat, places, 0);
    const ValueId shared = steps_.matmul(state, matrix(0));
    const ValueId own = steps_.matmul(row, matrix(own_weights_ ? turn + 1 : 1));
    begin(name + ".sum", "elementwise");
    ValueId next = steps_.add(shared, own);
    for (int i = 0; i < 12; ++i) {
      next = steps_.add(steps_.mul(next, 0.75), steps_.mul(before, 0.125 / (i + 1)));
    }
    const ValueId narrow = steps_.add(steps_.cast(some, Format::kF32), bias_);
    numbers_.push_back(steps_.mul(narrow, narrow));
    begin(name + ".limit", "elementwise");
    return steps_.max(steps_.min(next, 3.0), -3.0);
  }

  Software& software_;
  Steps steps_;
  const std::int64_t turns_;
  const bool own_weights_;
  ValueId x_, bias_;
  std::vector<ValueId> states_, numbers_;
};

}  // namespace

Software unrolled(std::int64_t turns, bool own_weights) {
  Software software;
  Loop(software, turns, own_weights).write();
  return software;
}

}  // namespace tessera::concord::testing
