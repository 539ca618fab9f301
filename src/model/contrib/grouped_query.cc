#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "model/contrib/attention_parts.h"
#include "model/contrib/operators.h"

namespace tessera::model::contrib {
namespace {

constexpr std::int64_t kNone = -1;  // in place of a length that is not stated

// Where the new rows of each of B sequences go: those that are there before them, and what follows from it. Of int32, which
// is what the lengths are and what the processor computes with.
//
//   seqlens_k = [6, 4], one new row n       rows of past 0 1 2 3 4 5      present 0 1 2 3 4 5 n
//                                                        0 1 2 3                  0 1 2 3 n 0 0
struct Places {
  std::string before;  // [B, 1]: rows before the first new one
  std::string behind;  // [B, 1]: the same with the new ones
  std::string of_new;  // [B, S]
};

std::string small(Body& body, const std::string& x) {
  return body.cast(x, onnx::TensorProto::INT32);
}
std::string small(Body& body, std::int64_t value) { return small(body, body.whole(value)); }

std::string places_up_to(Body& body, const std::string& count) {
  return small(body, body.node("Range", {body.whole(0), body.reshaped(count, {}), body.whole(1)}));
}

// `seqlens_k` has one less than the rows of each sequence with the new ones; a first text that is shorter than S is
// filled up behind its end, so that nothing is before it.
Places places_of(Body& body, const std::string& rows) {
  const std::string count = small(body, rows);
  const std::string last = body.reshaped(small(body, body.in(5)), {-1, 1});
  const std::string first = body.node("Add", {last, body.node("Sub", {small(body, 1), count})});
  Places places;
  places.before = body.node("Max", {first, small(body, 0)});
  places.behind = body.node("Add", {places.before, count});
  places.of_new = body.node("Add", {places.before, places_up_to(body, rows)});
  return places;
}

bool is_number(const std::string& length) {
  return !length.empty() &&
         std::ranges::all_of(length, [](char c) { return c >= '0' && c <= '9'; });
}

// The rows of the present, [1]. Past and present are one buffer, longer than what is in use, where their lengths are stated
// to be the same; what `total_sequence_length` says goes where it is known, or where nothing is stated and it has to be;
// else the past is taken to be in use as a whole, and the present may have rows of zeros at its end.
std::string rows_of_present(Body& body, const std::string& past, const std::string& rows) {
  bool states_lengths = false;
  for (const int of_values : {0, 1}) {
    const std::vector<std::string> before = body.stated_input(3 + of_values);
    const std::vector<std::string> present = body.stated_output(1 + of_values);
    if (present.size() != 4) continue;
    states_lengths = true;
    if (before.size() == 4 && !before[2].empty() && before[2] == present[2]) return past;
    if (is_number(present[2])) return body.list({std::stoll(present[2])});
  }
  const bool is_seen = body.wants(1) || body.wants(2);
  if (!body.has(6) || (!body.is_settled(6) && (states_lengths || !is_seen || !body.is_input(6)))) {
    return body.node("Add", {past, rows});
  }
  const std::string total = body.cast(body.in(6), onnx::TensorProto::INT64);
  return body.node("Max", {past, rows, body.reshaped(total, {1})});
}

// Past [B, shared, P, H] with the new rows [B, shared, S, H] in their places among T rows.
class Buffer {
 public:
  // A place behind the last row is an error of the step that looks it up.
  Buffer(Body& body, const Places& places, const std::string& past, const std::string& rows,
         const std::string& length)
      : body_(body), places_(places), past_(past), rows_(rows), length_(length) {
    at_ = body.reshaped(places_up_to(body, length), {1, -1});
    is_filled_ = body.node("Less", {at_, places.behind});
    is_filled_ = body.reshaped(is_filled_, {0, 1, -1, 1});
    is_past_ = body.node("Less", {at_, places.before});
    is_one_ = body.node("Equal", {rows, body.list({1})});
    is_one_ = body.reshaped(is_one_, {});
  }

  // One row comes by choice from two, on the processor; more are looked up among both behind each other.
  std::string with(int before, const std::string& added) const {
    const std::string past = body_.in(before), both = appended(body_, past, added);
    const std::string moved = body_.either(
        is_one_, [&] { return chosen(past, added); }, [&] { return looked_up(past, both); });
    return body_.node("Where", {is_filled_, moved, body_.number(0, moved)});
  }

 private:
  std::string chosen(const std::string& past, const std::string& added) const {
    const std::string missing =
        body_.node("Max", {body_.node("Sub", {length_, past_}), body_.list({0})});
    const std::string pads =
        joined(body_, {body_.list({0, 0, 0, 0, 0, 0}), missing, body_.list({0})});
    const std::string whole = body_.node(
        "Slice", {body_.node("Pad", {past, pads}), body_.list({0}), length_, body_.list({2})});
    return body_.node("Where", {body_.reshaped(is_past_, {0, 1, -1, 1}), whole, added});
  }

  std::string looked_up(const std::string& past, const std::string& both) const {
    const std::string width = body_.length(both, 3);
    const std::string flat =
        body_.node("Reshape", {both, joined(body_, {body_.list({-1}), width})});
    return body_.node("Gather", {flat, source(past)});
  }

  // Of past and new rows behind each other, what comes to each place, of all sequences and heads: [B, shared, T].
  std::string source(const std::string& past) const {
    const std::string new_row =
        body_.node("Add", {body_.node("Sub", {at_, places_.before}), small(body_, past_)});
    std::string source = body_.node("Where", {is_past_, at_, new_row});
    const std::string is_filled = body_.node("Less", {at_, places_.behind});
    source = body_.node("Where", {is_filled, source, small(body_, 0)});
    const std::string shared = body_.length(past, 1);
    const std::string sequences = body_.node("Mul", {body_.length(past, 0), shared});
    const std::string both = small(body_, body_.node("Add", {past_, rows_}));
    const std::string first =
        body_.node("Reshape", {body_.node("Mul", {places_up_to(body_, sequences), both}),
                               joined(body_, {body_.list({-1}), shared, body_.list({1})})});
    return body_.node("Add", {body_.reshaped(source, {0, 1, -1}), first});
  }

  Body& body_;
  const Places& places_;
  const std::string past_, rows_, length_;
  std::string at_, is_filled_, is_past_, is_one_;
};

// What the operator says that is not written here, "" for none.
Refusal refused(const Body& body) {
  constexpr std::int64_t kSizeMax = std::int64_t{1} << 30;
  const std::int64_t window = body.integer("local_window_size", kNone);
  if (window < kNone || window == 0 || window > kSizeMax) {
    return fmt::format("the attribute local_window_size = {}", window);
  }
  if (body.integer("smooth_softmax", 0) != 0) return "the attribute smooth_softmax";
  if (body.has(9) || body.has(10)) return "the inputs position_ids, attention_bias";
  if (body.integer("do_rotary", 0) != 0 && !(body.has(7) && body.has(8))) {
    return "the attribute do_rotary = 1 without its tables";
  }
  if (body.has(1) != body.has(2) || body.has(3) != body.has(4)) return "a key without its value";
  const std::int64_t count = body.integer("num_heads", 0), shared = body.integer("kv_num_heads", 0);
  if (count <= 0 || count > kSizeMax || shared <= 0 || count % shared != 0) {
    return "heads in no whole groups";
  }
  return {};
}

struct Angles {
  std::string cosine, sine;  // [B, 1, 1, S, H / 2], or [S, H / 2] where no lengths are given
};

// Of the new rows' places, from tables [positions, H / 2].
Angles angles_of(Body& body, const Places& places, const std::string& past,
                 const std::string& rows) {
  if (places.of_new.empty()) {
    const std::string end = body.node("Add", {past, rows});
    return {body.node("Slice", {body.in(7), past, end, body.list({0})}),
            body.node("Slice", {body.in(8), past, end, body.list({0})})};
  }
  const std::string both =
      body.node("Concat", {body.in(7), body.in(8)}, {{"axis", std::int64_t{-1}}});
  const std::string one = body.list({1});
  const std::string dims = joined(body, {body.length(places.of_new, 0), one, one,
                                         body.length(places.of_new, 1), body.length(both, 1)});
  const std::vector<std::string> halves =
      body.halves(body.node("Reshape", {body.node("Gather", {both, places.of_new}), dims}));
  return {halves[0], halves[1]};
}

// The places, of which the last is looked up among `length` rows: behind them it is an error.
Places checked(Body& body, Places places, const std::string& length) {
  const std::string zeros = small(body, body.node("Expand", {body.whole(0), length}));
  const std::string last = body.node("Sub", {places.behind, small(body, 1)});
  const std::string zero = body.node("Gather", {zeros, last});
  for (std::string* const place : {&places.before, &places.behind, &places.of_new}) {
    *place = body.node("Add", {*place, zero});
  }
  return places;
}

struct Operands {
  std::string query, key,
      value;  // [B, shared, group, S, H]; keys and values have one in place of a group
};

Operands operands_of(Body& body) {
  const std::int64_t count = body.integer("num_heads", 0), shared = body.integer("kv_num_heads", 0);
  std::string query = body.in(0), key = body.in(1), value = body.in(2);
  if (!body.has(1)) {
    const std::string all = body.reshaped(query, {0, 0, count + 2 * shared, -1});
    const std::vector<std::string> parts = body.split(all, 2, {count, shared, shared});
    query = parts[0], key = parts[1], value = parts[2];
  }
  const auto heads_of = [&](const std::string& x, std::int64_t group) {
    const std::string flat = body.has(1) ? x : body.reshaped(x, {0, 0, -1});
    return body.transposed(body.reshaped(flat, {0, 0, shared, group, -1}), {0, 2, 3, 1, 4});
  };
  return {heads_of(query, count / shared), heads_of(key, 1), heads_of(value, 1)};
}

// Groups of query heads that share a key and a value.
Refusal write_grouped_query(Body& body) {
  if (Refusal refusal = refused(body); !refusal.empty()) return refusal;
  Operands operands = operands_of(body);
  const std::string rows = body.length(body.in(0), 1);
  const std::string past = body.has(3) ? body.length(body.in(3), 2) : body.list({0});
  Places places = body.has(5) ? places_of(body, rows) : Places{};
  const bool has_buffer = body.has(3) && body.has(5);
  const std::string length = has_buffer ? rows_of_present(body, past, rows) : "";
  if (has_buffer) places = checked(body, std::move(places), length);
  if (body.integer("do_rotary", 0) != 0) {
    const auto [cosine, sine] = angles_of(body, places, past, rows);
    const bool interleaved = body.integer("rotary_interleaved", 0) != 0;
    operands.query = rotated(body, operands.query, cosine, sine, interleaved);
    operands.key = rotated(body, operands.key, cosine, sine, interleaved);
  }
  // [B, shared, S, H], as they are kept.
  const auto kept = [&](const std::string& x) {
    return body.node("Reshape",
                     {x, joined(body, {body.list({0, 0}), body.length(x, 3), body.length(x, 4)})});
  };
  std::string keys = kept(operands.key), values = kept(operands.value);
  if (has_buffer) {
    const Buffer buffer(body, places, past, rows, length);
    keys = buffer.with(3, keys), values = buffer.with(4, values);
  } else {
    keys = appended(body, body.in(3), keys), values = appended(body, body.in(4), values);
  }
  if (body.wants(1)) body.output(1, keys);
  if (body.wants(2)) body.output(2, values);
  const auto for_groups = [&](const std::string& x) {
    return body.node(
        "Reshape", {x, joined(body, {body.list({0, 0, 1}), body.length(x, 2), body.length(x, 3)})});
  };
  Heads heads{.query = operands.query,
              .key = for_groups(keys),
              .value = for_groups(values),
              .past = past,
              .causal = true,
              .mask = {},
              .bias = {},
              .places = {},
              .window = body.integer("local_window_size", kNone),
              .cap = body.real("softcap", 0)};
  if (has_buffer) {
    const std::string one = body.list({1});
    const std::string dims = joined(body, {body.list({0}), one, one, rows, one});
    heads.places = body.node("Reshape", {places.of_new, dims});
  }
  const std::string result = attended(body, heads, {0, 1, 2, 4, 3});
  body.output(0, body.reshaped(body.transposed(result, {0, 3, 1, 2, 4}), {0, 0, -1}));
  return {};
}

}  // namespace

Operators grouped_query_operators() {
  return {{"GroupQueryAttention", {write_grouped_query, {0}}}};
}

}  // namespace tessera::model::contrib
