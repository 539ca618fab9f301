// Inputs: X [time, batch, input], W [directions, gates * hidden, input],
// R [directions, gates * hidden, hidden], B [directions, 2 * gates * hidden], sequence lengths,
// initial h, for LSTM also initial c and peepholes P [directions, 3 * hidden].
//
//   GRU gates: z r h       LSTM gates: i o f c       RNN: one
//
// Layout 1 exchanges time and batch in X and Y, and direction and batch in the states. Steps behind
// a sequence's length give 0 and leave the state alone.
#include "model/ops/recurrent.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "arith/function.h"
#include "arith/unary_functions.h"
#include "model/ops/elements.h"

namespace tessera::model::ops {

namespace {

struct Sizes {
  std::int64_t time = 0;
  std::int64_t batch = 0;
  std::int64_t input = 0;
  std::int64_t hidden = 0;
  std::int64_t directions = 1;
  std::int64_t gates = 1;
  bool batch_first = false;
};

std::int64_t gate_count(const std::string& op) { return op == "LSTM" ? 4 : (op == "GRU" ? 3 : 1); }

Result<Sizes> sizes_of(const Call& call) {
  TESSERA_RETURN_IF_ERROR(call.require_float(0));
  if (call.rank(0) != 3 || call.rank(2) != 3) return invalid("inputs 0 and 2 need rank 3");
  Sizes sizes;
  sizes.batch_first = call.attribute("layout", 0) != 0;
  sizes.time = call.dims(0)[sizes.batch_first ? 1 : 0];
  sizes.batch = call.dims(0)[sizes.batch_first ? 0 : 1];
  sizes.input = call.dims(0)[2];
  sizes.hidden = call.attribute("hidden_size", call.dims(2)[2]);
  sizes.gates = gate_count(call.op_type());
  sizes.directions = call.attribute_string("direction", "forward") == "bidirectional" ? 2 : 1;
  if (sizes.hidden < 1 || sizes.hidden > (kDimensionMax >> 3)) {
    return invalid(fmt::format("attribute 'hidden_size' is {}", sizes.hidden));
  }
  if (call.has_attribute("clip") && !(call.attribute_float("clip", 0.0F) > 0.0)) {
    return invalid(fmt::format("attribute 'clip' is {}, more than 0 is needed",
                               call.attribute_float("clip", 0.0F)));
  }
  const std::int64_t rows = sizes.gates * sizes.hidden;
  const Shape state = sizes.batch_first ? Shape{sizes.batch, sizes.directions, sizes.hidden}
                                        : Shape{sizes.directions, sizes.batch, sizes.hidden};
  TESSERA_RETURN_IF_ERROR(call.require_shape(1, {sizes.directions, rows, sizes.input}));
  TESSERA_RETURN_IF_ERROR(call.require_shape(2, {sizes.directions, rows, sizes.hidden}));
  TESSERA_RETURN_IF_ERROR(call.require_shape(3, {sizes.directions, 2 * rows}));
  TESSERA_RETURN_IF_ERROR(call.require_shape(4, {sizes.batch}));
  TESSERA_RETURN_IF_ERROR(call.require_shape(5, state));
  TESSERA_RETURN_IF_ERROR(call.require_shape(6, state));
  TESSERA_RETURN_IF_ERROR(call.require_shape(7, {sizes.directions, 3 * sizes.hidden}));
  for (const std::size_t i : {1U, 2U, 3U, 5U, 6U, 7U}) {
    TESSERA_RETURN_IF_ERROR(call.require_same_format(0, i));
  }
  return sizes;
}

// The activations f, g, h of one direction, with parameters.
using Activations = std::array<Activation, 3>;

Result<std::vector<Activations>> activations_of(const Call& call, const Sizes& sizes) {
  const std::size_t each = call.op_type() == "LSTM" ? 3 : (call.op_type() == "GRU" ? 2 : 1);
  std::vector<std::string> names;
  for (std::int64_t d = 0; d < sizes.directions; ++d) {
    if (each > 1) names.emplace_back("Sigmoid");
    for (std::size_t i = each > 1 ? 1 : 0; i < each; ++i) names.emplace_back("Tanh");
  }
  if (call.has_attribute("activations")) {
    names = std::get<std::vector<std::string>>(call.attribute_value("activations"));
  }
  if (names.size() != each * static_cast<std::size_t>(sizes.directions)) {
    return invalid(fmt::format("{} activations, {} for each of {} directions are needed",
                               names.size(), each, sizes.directions));
  }
  std::array<std::vector<float>, 2> parameters;
  for (const auto& [at, name] : {std::pair{0U, "activation_alpha"}, {1U, "activation_beta"}}) {
    if (!call.has_attribute(name)) continue;
    parameters[at] = std::get<std::vector<float>>(call.attribute_value(name));
  }
  // Parameters are listed in order, for those activations that have them.
  std::array<std::size_t, 2> next{0, 0};
  std::vector<Activations> result(static_cast<std::size_t>(sizes.directions));
  for (std::size_t i = 0; i < names.size(); ++i) {
    const UnaryRow* const row = find_recurrent_function(names[i]);
    if (row == nullptr) return unsupported(fmt::format("activation '{}' is not known", names[i]));
    const UnaryParameter& alpha = row->onnx.alpha;
    const UnaryParameter& beta = row->onnx.beta;
    Activation activation{row->function, alpha.value, beta.value};
    if (!alpha.attribute.empty() && next[0] < parameters[0].size()) {
      activation.alpha = parameters[0][next[0]++];
    }
    if (!beta.attribute.empty() && next[1] < parameters[1].size()) {
      activation.beta = parameters[1][next[1]++];
    }
    result[i / each][i % each] = activation;
  }
  return result;
}

// One direction's weights and the state of one sequence.
class Cell {
 public:
  Cell(const Call& call, const Sizes& sizes, std::int64_t direction, const Activations& functions)
      : op_(call.op_type()), sizes_(sizes), functions_(functions) {
    const std::int64_t rows = sizes.gates * sizes.hidden;
    w_ = part(call, 1, direction, rows * sizes.input);
    r_ = part(call, 2, direction, rows * sizes.hidden);
    b_ = part(call, 3, direction, 2 * rows);
    p_ = part(call, 7, direction, 3 * sizes.hidden);
    if (call.has_attribute("clip")) clip_ = call.attribute_float("clip", 0.0F);
    linear_before_reset_ = call.attribute("linear_before_reset", 0) != 0;
    input_forget_ = call.attribute("input_forget", 0) != 0;
  }

  std::vector<double> h;
  std::vector<double> c;

  void step(const double* x) {
    if (op_ == "LSTM") return lstm(x);
    if (op_ == "GRU") return gru(x);
    std::vector<double> next(h.size());
    for (std::int64_t j = 0; j < sizes_.hidden; ++j) {
      next[static_cast<std::size_t>(j)] = f(0, input(0, j, x) + recurrence(0, j, h));
    }
    h = std::move(next);
  }

 private:
  // Zeros where the input is absent.
  static std::vector<double> part(const Call& call, std::size_t index, std::int64_t direction,
                                  std::int64_t length) {
    std::vector<double> values(static_cast<std::size_t>(length), 0.0);
    if (!call.has(index)) return values;
    const Reader<double> in(call.tensor(index));
    for (std::int64_t i = 0; i < length; ++i) {
      values[static_cast<std::size_t>(i)] = in[direction * length + i];
    }
    return values;
  }

  double f(std::size_t which, double x) const {
    if (clip_) x = std::clamp(x, -*clip_, *clip_);
    return arith::apply(functions_[which], x);
  }

  // Row j of gate g: W x + Wb.
  double input(std::int64_t g, std::int64_t j, const double* x) const {
    const std::int64_t row = g * sizes_.hidden + j;
    double sum = b_[static_cast<std::size_t>(row)];
    for (std::int64_t k = 0; k < sizes_.input; ++k) {
      sum += w_[static_cast<std::size_t>(row * sizes_.input + k)] * x[k];
    }
    return sum;
  }

  // R h + Rb.
  double recurrence(std::int64_t g, std::int64_t j, const std::vector<double>& state) const {
    const std::int64_t row = g * sizes_.hidden + j;
    double sum = b_[static_cast<std::size_t>(sizes_.gates * sizes_.hidden + row)];
    for (std::int64_t k = 0; k < sizes_.hidden; ++k) {
      sum += r_[static_cast<std::size_t>(row * sizes_.hidden + k)] *
             state[static_cast<std::size_t>(k)];
    }
    return sum;
  }

  void gru(const double* x) {
    const auto hidden = static_cast<std::size_t>(sizes_.hidden);
    std::vector<double> z(hidden);
    std::vector<double> r(hidden);
    std::vector<double> gated(hidden);
    for (std::size_t j = 0; j < hidden; ++j) {
      const auto row = static_cast<std::int64_t>(j);
      z[j] = f(0, input(0, row, x) + recurrence(0, row, h));
      r[j] = f(0, input(1, row, x) + recurrence(1, row, h));
      gated[j] = r[j] * h[j];
    }
    std::vector<double> next(hidden);
    for (std::size_t j = 0; j < hidden; ++j) {
      const auto row = static_cast<std::int64_t>(j);
      const double past =
          linear_before_reset_ ? r[j] * recurrence(2, row, h) : recurrence(2, row, gated);
      const double candidate = f(1, input(2, row, x) + past);
      next[j] = (1.0 - z[j]) * candidate + z[j] * h[j];
    }
    h = std::move(next);
  }

  void lstm(const double* x) {
    const auto hidden = static_cast<std::size_t>(sizes_.hidden);
    std::vector<double> next(hidden);
    for (std::size_t j = 0; j < hidden; ++j) {
      const auto row = static_cast<std::int64_t>(j);
      const auto gate = [&](std::int64_t g) { return input(g, row, x) + recurrence(g, row, h); };
      const double i = f(0, gate(0) + p_[j] * c[j]);
      const double forget = input_forget_ ? 1.0 - i : f(0, gate(2) + p_[2 * hidden + j] * c[j]);
      c[j] = forget * c[j] + i * f(1, gate(3));
      const double o = f(0, gate(1) + p_[hidden + j] * c[j]);
      // The output function takes the cell as it is.
      next[j] = o * arith::apply(functions_[2], c[j]);
    }
    h = std::move(next);
  }

  const std::string op_;
  const Sizes sizes_;
  const Activations functions_;
  std::vector<double> w_, r_, b_, p_;
  std::optional<double> clip_;
  bool linear_before_reset_ = false;
  bool input_forget_ = false;
};

Result<Integers> sequence_lengths(const Call& call, const Sizes& sizes) {
  if (!call.has(4)) return Integers(static_cast<std::size_t>(sizes.batch), sizes.time);
  TESSERA_TRY(Integers lengths, call.integers(4));
  for (const std::int64_t length : lengths) {
    if (length < 0 || length > sizes.time) {
      return invalid(
          fmt::format("a sequence of length {}, at most {} is allowed", length, sizes.time));
    }
  }
  return lengths;
}

// The state of (direction, batch) in a tensor of states.
std::int64_t state_offset(const Sizes& sizes, std::int64_t direction, std::int64_t batch) {
  return (sizes.batch_first ? batch * sizes.directions + direction
                            : direction * sizes.batch + batch) *
         sizes.hidden;
}

std::vector<double> initial_state(const Call& call, std::size_t index, const Sizes& sizes,
                                  std::int64_t offset) {
  std::vector<double> state(static_cast<std::size_t>(sizes.hidden), 0.0);
  if (!call.has(index)) return state;
  const Reader<double> in(call.tensor(index));
  for (std::size_t j = 0; j < state.size(); ++j) {
    state[j] = in[offset + static_cast<std::int64_t>(j)];
  }
  return state;
}

void store(const std::vector<double>& values, std::int64_t offset, Tensor& tensor) {
  const Writer<double> out(tensor);
  for (std::size_t j = 0; j < values.size(); ++j) {
    out.set(offset + static_cast<std::int64_t>(j), values[j]);
  }
}

}  // namespace

Result<Outputs> recurrent_shape(const Call& call) {
  TESSERA_TRY(const Sizes s, sizes_of(call));
  const Format format = call.format(0);
  const Shape all = s.batch_first ? Shape{s.batch, s.time, s.directions, s.hidden}
                                  : Shape{s.time, s.directions, s.batch, s.hidden};
  const Shape last = s.batch_first ? Shape{s.batch, s.directions, s.hidden}
                                   : Shape{s.directions, s.batch, s.hidden};
  Outputs outputs{{format, all, nullptr}, {format, last, nullptr}};
  if (call.op_type() == "LSTM") outputs.push_back({format, last, nullptr});
  return outputs;
}

Status recurrent(const Call& call, std::vector<Tensor>& outputs) {
  TESSERA_TRY(const Sizes sizes, sizes_of(call));
  TESSERA_TRY(const std::vector<Activations> functions, activations_of(call, sizes));
  TESSERA_TRY(const Integers lengths, sequence_lengths(call, sizes));
  const std::vector<double> x = load<double>(call.tensor(0));
  const std::string direction_name = call.attribute_string("direction", "forward");
  for (std::int64_t direction = 0; direction < sizes.directions; ++direction) {
    const bool backward = direction == 1 || direction_name == "reverse";
    Cell cell(call, sizes, direction, functions[static_cast<std::size_t>(direction)]);
    for (std::int64_t batch = 0; batch < sizes.batch; ++batch) {
      const std::int64_t offset = state_offset(sizes, direction, batch);
      cell.h = initial_state(call, 5, sizes, offset);
      cell.c = initial_state(call, 6, sizes, offset);
      const std::int64_t length = lengths[static_cast<std::size_t>(batch)];
      for (std::int64_t i = 0; i < length; ++i) {
        const std::int64_t t = backward ? length - 1 - i : i;
        const std::int64_t from =
            sizes.batch_first ? batch * sizes.time + t : t * sizes.batch + batch;
        cell.step(x.data() + from * sizes.input);
        const std::int64_t to = sizes.batch_first
                                    ? (batch * sizes.time + t) * sizes.directions + direction
                                    : (t * sizes.directions + direction) * sizes.batch + batch;
        store(cell.h, to * sizes.hidden, outputs[0]);
      }
      store(cell.h, offset, outputs[1]);
      if (outputs.size() > 2) store(cell.c, offset, outputs[2]);
    }
  }
  return {};
}

}  // namespace tessera::model::ops
