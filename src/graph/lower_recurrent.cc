// LSTM, GRU and RNN: unrolled over time into products on the array and element-wise nodes.
//
//        X [T, B, I] ──► one product with W for all steps and gates ──► P [T, B, gates * H] f32
//                                                                        │ slice of step t
//        H(t-1) V ──► product with R ──► [B, gates * H] f32 ──► + ───────┘──► gates f32 ──► H(t) V
//
// V is the vector format. Biases are inside the sum: Wb + Rb with the product of X, but for GRU's
// candidate with linear_before_reset, whose Rb goes with the product of H. Every gate z, every
// activation and LSTM's cell state C are f32; the hidden state H is rounded to V at every step.
//
//   RNN     z = p + H R;  H = f(z)
//   LSTM    zi, zf, zo = p + H R (+ P C);  i = f(zi), f = f(zf), o = f(zo) with C(t) in zo;
//           c = g(zc);  a = f * C;  u = i * c;  C = a + u;  k = h(C);  H = o * k
//           (input_forget: f = 1 - i)
//   GRU     z = f(zz), r = f(zr);  linear_before_reset: q = r * (H Rh + Rbh), else
//           q = (r * H rounded to V) Rh;  c = g(p + q);  d = H - c;  e = z * d;  H = c + e
//
// A clip bounds z before its activation. A sequence that is shorter than the others ends earlier;
// its outputs behind the end are 0. The reverse direction starts at each sequence's own end.
#include <fmt/format.h>

#include <array>
#include <optional>

#include "graph/composer.h"
#include "graph/move_box.h"
#include "graph/operators.h"
#include "graph/recurrent_activation.h"
#include "graph/refusals.h"

namespace tessera::graph {

namespace {

// Steps of all directions together; beyond it the program would be too long to be of use.
constexpr std::int64_t kStepsMax = 4096;

struct Sizes {
  std::int64_t time = 0, batch = 0, input = 0, hidden = 0, directions = 1, gates = 1;
  bool batch_first = false;
};

// Sequences [first, first + count) of the batch, all `steps` long.
struct Rows {
  std::int64_t first = 0, count = 0, steps = 0;
};

// One direction's operands, as [rows, columns] matrices ready for products.
struct Weights {
  TensorId input;                     // [I, gates * H]
  TensorId recurrent;                 // [H, gates * H]
  TensorId input_bias;                // [gates * H], may be invalid
  TensorId recurrent_bias;            // [gates * H], may be invalid: GRU with linear_before_reset
  std::array<TensorId, 3> peepholes;  // [H] for i, o, f; may be invalid
};

struct State {
  TensorId hidden;  // V [B, H], invalid: zero
  TensorId cell;    // f32 [B, H], invalid: zero
};

class Recurrent {
 public:
  Recurrent(Op& op, const Sizes& sizes, std::vector<RecurrentActivation> activations)
      : op_(op), make_(op), sizes_(sizes), activations_(std::move(activations)) {
    clip_ = op.real("clip", 0.0f);
    linear_before_reset_ = op.integer("linear_before_reset", 0) != 0;
    input_forget_ = op.integer("input_forget", 0) != 0;
  }

  void run(const std::vector<Rows>& groups) {
    x_ = op_.at.value(op_.input(0));
    if (sizes_.batch_first) x_ = make_.transposed(x_, {1, 0, 2});
    const std::string direction = op_.text("direction", "forward");
    for (std::int64_t d = 0; d < sizes_.directions; ++d) {
      const Weights weights = weights_of(d);
      const TensorId projected = project(weights);
      for (const Rows& rows : groups) {
        run_rows(weights, projected, d, rows, d == 1 || direction == "reverse");
      }
    }
    emit_outputs();
  }

 private:
  // Row `direction` of an input [directions, ...].
  TensorId of_direction(std::size_t input, std::int64_t direction) {
    const TensorId all = op_.at.value(op_.input(input));
    Shape dims = make_.dims(all);
    const TensorId row = make_.part(all, 0, direction, 1);
    dims.erase(dims.begin());
    return make_.reshaped(row, dims);
  }

  Weights weights_of(std::int64_t direction) {
    Weights weights;
    weights.input = make_.transposed(of_direction(1, direction), {1, 0});
    weights.recurrent = make_.transposed(of_direction(2, direction), {1, 0});
    if (op_.has_input(3)) read_biases(weights, direction);
    if (op_.node.op_type == "LSTM" && op_.has_input(7)) {
      const TensorId all = of_direction(7, direction);
      for (std::int64_t gate = 0; gate < 3; ++gate) {
        weights.peepholes[static_cast<std::size_t>(gate)] =
            make_.part(all, 0, gate * sizes_.hidden, sizes_.hidden);
      }
    }
    return weights;
  }

  void read_biases(Weights& weights, std::int64_t direction) {
    const std::int64_t all = sizes_.gates * sizes_.hidden;
    const TensorId biases = of_direction(3, direction);
    const TensorId of_input = make_.part(biases, 0, 0, all);
    const TensorId of_state = make_.part(biases, 0, all, all);
    if (!separate_reset()) {
      weights.input_bias = sum(of_input, of_state);
      return;
    }
    // Update and reset gates: both together. The candidate's lies within the reset.
    const std::int64_t first = 2 * sizes_.hidden;
    weights.input_bias =
        make_.joined({sum(make_.part(of_input, 0, 0, first), make_.part(of_state, 0, 0, first)),
                      make_.part(of_input, 0, first, sizes_.hidden)},
                     0);
    weights.recurrent_bias = make_.part(of_state, 0, first, sizes_.hidden);
  }

  // a + b: of constants without rounding, else in f32.
  TensorId sum(TensorId a, TensorId b) {
    if (make_.known(a) == nullptr || make_.known(b) == nullptr) {
      return make_.binary(BinaryFunction::kAdd, a, b, Format::kF32);
    }
    std::vector<double> values = reals(*make_.known(a));
    const std::vector<double> others = reals(*make_.known(b));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += others[i];
    return make_.constant(make_.dims(a), values);
  }

  bool separate_reset() const { return op_.node.op_type == "GRU" && linear_before_reset_; }

  // a x b + bias in f32; a bias that is not a constant is added behind the rounding.
  TensorId product(TensorId a, TensorId b, TensorId bias) {
    const bool inside = bias.valid() && make_.known(bias) != nullptr;
    const TensorId result = make_.matmul(a, b, inside ? bias : TensorId{}, Format::kF32);
    if (inside || !bias.valid()) return result;
    return make_.binary(BinaryFunction::kAdd, result, bias, Format::kF32);
  }

  // [T, B, gates * H]: the part of every gate that the sequence's elements give.
  TensorId project(const Weights& weights) {
    const TensorId rows = make_.reshaped(x_, {sizes_.time * sizes_.batch, sizes_.input});
    const TensorId all = product(rows, weights.input, weights.input_bias);
    return make_.reshaped(all, {sizes_.time, sizes_.batch, sizes_.gates * sizes_.hidden});
  }

  // Initial state `input` of a direction's rows, in a format; invalid if the input is absent.
  TensorId initial(std::size_t input, std::int64_t direction, const Rows& rows, Format format) {
    if (!op_.has_input(input)) return {};
    TensorId all = op_.at.value(op_.input(input));
    if (sizes_.batch_first) all = make_.transposed(all, {1, 0, 2});
    const TensorId one = make_.part(make_.part(all, 0, direction, 1), 1, rows.first, rows.count);
    return make_.converted(make_.reshaped(one, {rows.count, sizes_.hidden}), format);
  }

  void run_rows(const Weights& weights, TensorId projected, std::int64_t direction,
                const Rows& rows, bool backwards) {
    State state;
    state.hidden = initial(5, direction, rows, make_.vector());
    if (op_.node.op_type == "LSTM") state.cell = initial(6, direction, rows, Format::kF32);
    for (std::int64_t step = 0; step < rows.steps; ++step) {
      const std::int64_t t = backwards ? rows.steps - 1 - step : step;
      const TensorId at_t = make_.part(make_.part(projected, 0, t, 1), 1, rows.first, rows.count);
      const TensorId p = make_.reshaped(at_t, {rows.count, sizes_.gates * sizes_.hidden});
      state = next(weights, p, state, direction);
      pieces_.push_back({state.hidden, t, direction, rows.first});
    }
    last_.push_back({state.hidden, 0, direction, rows.first});
    if (state.cell.valid()) cells_.push_back({state.cell, 0, direction, rows.first});
  }

  State next(const Weights& weights, TensorId p, const State& state, std::int64_t direction) {
    if (op_.node.op_type == "LSTM") return next_lstm(weights, p, state, direction);
    if (op_.node.op_type == "GRU") return next_gru(weights, p, state, direction);
    TensorId z = p;
    if (state.hidden.valid()) {
      z = add(p, make_.matmul(state.hidden, weights.recurrent, {}, Format::kF32));
    }
    return {activated(z, activation(direction, 0), make_.vector()), {}};
  }

  TensorId add(TensorId a, TensorId b) {
    return make_.binary(BinaryFunction::kAdd, a, b, Format::kF32);
  }
  TensorId multiply(TensorId a, TensorId b, Format format = Format::kF32) {
    return make_.binary(BinaryFunction::kMultiply, a, b, format);
  }
  TensorId gate(TensorId all, std::int64_t first, std::int64_t count = 1) {
    return make_.part(all, 1, first * sizes_.hidden, count * sizes_.hidden);
  }
  const RecurrentActivation& activation(std::int64_t direction, std::size_t which) const {
    const std::size_t each = activations_.size() / static_cast<std::size_t>(sizes_.directions);
    return activations_[static_cast<std::size_t>(direction) * each + which];
  }
  TensorId activated(TensorId z, const RecurrentActivation& activation, Format format) {
    if (clip_ > 0.0f) z = make_.unary({UnaryFunction::kClip, -clip_, clip_}, z, Format::kF32);
    return apply(make_, activation, z, format);
  }

  State next_lstm(const Weights& weights, TensorId p, const State& state, std::int64_t direction) {
    TensorId z = p;
    if (state.hidden.valid()) {
      z = add(p, make_.matmul(state.hidden, weights.recurrent, {}, Format::kF32));
    }
    const auto with_peephole = [&](TensorId sum, std::size_t which, TensorId cell) {
      const TensorId factor = weights.peepholes[which];
      return factor.valid() && cell.valid() ? add(sum, multiply(cell, factor)) : sum;
    };
    const RecurrentActivation& f = activation(direction, 0);
    const TensorId i = activated(with_peephole(gate(z, 0), 0, state.cell), f, Format::kF32);
    const TensorId c = activated(gate(z, 3), activation(direction, 1), Format::kF32);
    TensorId cell = multiply(i, c);
    if (state.cell.valid()) {
      const TensorId keep =
          input_forget_
              ? make_.binary(BinaryFunction::kSubtract, make_.scalar(1.0), i, Format::kF32)
              : activated(with_peephole(gate(z, 2), 2, state.cell), f, Format::kF32);
      cell = add(multiply(keep, state.cell), cell);
    }
    const TensorId o = activated(with_peephole(gate(z, 1), 1, cell), f, Format::kF32);
    const TensorId k = apply(make_, activation(direction, 2), cell, Format::kF32);
    return {multiply(o, k, make_.vector()), cell};
  }

  State next_gru(const Weights& weights, TensorId p, const State& state, std::int64_t direction) {
    TensorId hidden = state.hidden;
    if (!hidden.valid()) {
      const Shape zero = {make_.dims(p)[0], sizes_.hidden};
      hidden = make_.constant(
          zero, std::vector<double>(static_cast<std::size_t>(element_count(zero)), 0.0),
          make_.vector());
    }
    const TensorId both = part_of_weights(weights.recurrent, 0, 2);
    const TensorId sums = add(gate(p, 0, 2), make_.matmul(hidden, both, {}, Format::kF32));
    const TensorId opened = activated(sums, activation(direction, 0), Format::kF32);
    const TensorId z = gate(opened, 0);
    const TensorId r = gate(opened, 1);
    const TensorId candidate_weights = part_of_weights(weights.recurrent, 2, 1);
    const TensorId q = linear_before_reset_
                           ? multiply(r, product(hidden, candidate_weights, weights.recurrent_bias))
                           : make_.matmul(multiply(r, hidden, make_.vector()), candidate_weights,
                                          {}, Format::kF32);
    const TensorId c = activated(add(gate(p, 2), q), activation(direction, 1), Format::kF32);
    const TensorId difference = make_.binary(BinaryFunction::kSubtract, hidden, c, Format::kF32);
    return {make_.binary(BinaryFunction::kAdd, c, multiply(z, difference), make_.vector()), {}};
  }

  // Columns of some gates of [H, gates * H]; made once each.
  TensorId part_of_weights(TensorId weights, std::int64_t first, std::int64_t count) {
    TensorId& made = weight_parts_[{weights, first}];
    if (!made.valid()) made = gate(weights, first, count);
    return made;
  }

  // Rows of a state: [count, H] for time t of a direction, from row `first` of the batch.
  struct Piece {
    TensorId id;
    std::int64_t time, direction, first;
  };

  // Y [T, D, B, H] or Y_h, Y_c [D, B, H] (batch first: [B, T, D, H], [B, D, H]) of pieces.
  void emit_pieces(std::size_t index, const std::vector<Piece>& pieces, bool with_time) {
    const std::int64_t hidden = sizes_.hidden;
    const std::int64_t directions = sizes_.directions;
    std::int64_t per_time = directions * sizes_.batch * hidden;
    std::int64_t per_direction = sizes_.batch * hidden;
    std::int64_t per_row = hidden;
    if (sizes_.batch_first) {
      per_time = directions * hidden;
      per_direction = hidden;
      per_row = (with_time ? sizes_.time : 1) * directions * hidden;
    }
    MoveAttributes move;
    std::vector<TensorId> inputs;
    std::int64_t covered = 0;
    for (const Piece& piece : pieces) {
      const std::int64_t count = make_.dims(piece.id)[0];
      covered += count * hidden;
      CopyBox box{static_cast<std::int32_t>(inputs.size()),
                  0,
                  piece.time * per_time + piece.direction * per_direction + piece.first * per_row,
                  {count, hidden},
                  {hidden, 1},
                  {per_row, 1}};
      move.copies.push_back(simplified(box));
      inputs.push_back(make_.converted(piece.id, make_.vector()));
    }
    move.has_fill = covered < element_count(op_.output_dims(index));
    op_.at.emit_output(op_, index, std::move(inputs), std::move(move));
  }

  void emit_outputs() {
    if (op_.has_output(0)) emit_pieces(0, pieces_, true);
    if (op_.has_output(1)) emit_pieces(1, last_, false);
    if (op_.has_output(2)) emit_pieces(2, cells_, false);
  }

  Op& op_;
  Composer make_;
  const Sizes sizes_;
  const std::vector<RecurrentActivation> activations_;
  float clip_ = 0.0f;
  bool linear_before_reset_ = false;
  bool input_forget_ = false;
  TensorId x_;
  std::map<std::pair<TensorId, std::int64_t>, TensorId> weight_parts_;
  std::vector<Piece> pieces_, last_, cells_;
};

Sizes sizes_of(const Op& op) {
  Sizes sizes;
  sizes.batch_first = op.integer("layout", 0) != 0;
  const Shape& x = op.input_dims(0);
  sizes.time = x[sizes.batch_first ? 1 : 0];
  sizes.batch = x[sizes.batch_first ? 0 : 1];
  sizes.input = x[2];
  sizes.hidden = op.input_dims(2)[2];
  sizes.directions = op.input_dims(1)[0];
  sizes.gates = op.input_dims(1)[1] / sizes.hidden;
  return sizes;
}

// The batch in groups of neighbours of equal length; nothing if the lengths are not known, or one
// of them is 0.
std::optional<std::vector<Rows>> row_groups(const Op& op, const Sizes& sizes) {
  if (!op.has_input(4)) return std::vector<Rows>{{0, sizes.batch, sizes.time}};
  if (op.constant(4) == nullptr) return std::nullopt;
  std::vector<Rows> groups;
  const std::vector<std::int64_t> lengths = integers(*op.constant(4));
  for (std::size_t row = 0; row < lengths.size(); ++row) {
    if (lengths[row] < 1 || lengths[row] > sizes.time) return std::nullopt;
    if (!groups.empty() && groups.back().steps == lengths[row]) {
      ++groups.back().count;
    } else {
      groups.push_back({static_cast<std::int64_t>(row), 1, lengths[row]});
    }
  }
  return groups;
}

}  // namespace

Lowered lower_recurrent(Op& op) {
  const std::string& name = op.node.op_type;
  if (std::string reason = operand_refusal(op); !reason.empty()) return Lowered::host(reason);
  if (!is_vector_float(op.input_type(0).format)) {
    return Lowered::host(fmt::format("operator '{}': no vector arithmetic in {}", name,
                                     format_name(op.input_type(0).format)));
  }
  const Sizes sizes = sizes_of(op);
  const auto groups = row_groups(op, sizes);
  if (!groups) {
    return Lowered::host(
        fmt::format("operator '{}': sequence lengths are computed at run time, or 0", name));
  }
  std::int64_t steps = 0;
  for (const Rows& rows : *groups) steps += rows.steps * sizes.directions;
  if (steps > kStepsMax || steps > static_cast<std::int64_t>(kBoxesMax)) {
    return Lowered::host(
        fmt::format("operator '{}': {} steps; at most {} are unrolled", name, steps, kStepsMax));
  }
  auto activations = recurrent_activations(op, sizes.directions);
  if (!activations) {
    return Lowered::host(fmt::format("operator '{}': an activation is not known", name));
  }
  Recurrent(op, sizes, std::move(*activations)).run(*groups);
  return Lowered::done();
}

}  // namespace tessera::graph
