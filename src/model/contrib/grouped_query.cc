#include <fmt/format.h>

#include "model/contrib/attention_parts.h"
#include "model/contrib/operators.h"

namespace tessera::model::contrib {
namespace {

constexpr std::int64_t kNone = -1;  // in place of a length that is not stated

// Where the new rows of each of B sequences go: those that are there before them, and what follows from it.
//
//   seqlens_k = [6, 4], one new row n       rows of past 0 1 2 3 4 5      present 0 1 2 3 4 5 n
//                                                        0 1 2 3                  0 1 2 3 n 0 0
struct Places {
  std::string before;  // [B, 1]: rows before the first new one
  std::string behind;  // [B, 1]: the same with the new ones
  std::string of_new;  // [B, S]
};

std::string places_up_to(Body& body, const std::string& count) {
  return body.node("Range", {body.whole(0), body.reshaped(count, {}), body.whole(1)});
}

// `seqlens_k` has one less than the rows of each sequence with the new ones; a first text that is shorter than S is
// filled up behind its end, so that nothing is before it.
Places places_of(Body& body, const std::string& rows) {
  constexpr std::int64_t kInt64 = onnx::TensorProto::INT64;
  const std::string last = body.reshaped(body.cast(body.in(5), kInt64), {-1, 1});
  const std::string first = body.node("Sub", {body.node("Add", {last, body.whole(1)}), rows});
  Places places;
  places.before = body.node("Max", {first, body.whole(0)});
  places.behind = body.node("Add", {places.before, rows});
  places.of_new = body.node("Add", {places.before, places_up_to(body, rows)});
  return places;
}

// Whether past and present are one buffer, whose rows are more than those in use: their lengths are stated to be the same.
bool is_one_buffer(const Body& body) {
  for (const int of_values : {0, 1}) {
    const std::vector<std::string> past = body.stated_input(3 + of_values);
    const std::vector<std::string> present = body.stated_output(1 + of_values);
    if (past.size() == 4 && present.size() == 4 && !past[2].empty() && past[2] == present[2]) {
      return true;
    }
  }
  return false;
}

// How many rows the present has. That the buffer is longer than what is in use is known of an input 6 that is a constant,
// or of stated lengths; else the past is taken to be in use as a whole, and the present may have rows of zeros at its end.
std::string rows_of_present(Body& body, const std::string& past, const std::string& rows) {
  if (is_one_buffer(body)) return past;
  if (body.stored(6) == nullptr) return body.node("Add", {past, rows});
  const std::string total = body.cast(body.in(6), onnx::TensorProto::INT64);
  return body.node("Max", {past, body.reshaped(total, {1})});
}

// Past [B, shared, P, H] with the new rows [B, shared, S, H] in their places.
class Buffer {
 public:
  Buffer(Body& body, const Places& places, const std::string& rows) : body_(body) {
    const std::string past = body.length(body.in(3), 2), shared = body.length(body.in(3), 1);
    const std::string length = rows_of_present(body, past, rows),
                      both = body.node("Add", {past, rows});
    const std::string at = body.reshaped(places_up_to(body, length), {1, -1});
    // Of both behind each other, what comes to each place: [B, T].
    const std::string new_row = body.node("Add", {body.node("Sub", {at, places.before}), past});
    const std::string is_past = body.node("Less", {at, places.before});
    is_filled_ = body.node("Less", {at, places.behind});
    std::string source = body.node("Where", {is_past, at, new_row});
    source = body.node("Where", {is_filled_, source, body.whole(0)});
    // The same of all sequences and heads behind each other: [B, shared, T].
    const std::string sequences = body.node("Mul", {body.length(body.in(3), 0), shared});
    const std::string first =
        body.node("Reshape", {body.node("Mul", {places_up_to(body, sequences), both}),
                              joined(body, {body.list({-1}), shared, body.list({1})})});
    source_ = body.node("Add", {body.reshaped(source, {0, 1, -1}), first});
    is_filled_ = body.reshaped(is_filled_, {0, 1, -1, 1});
  }

  std::string with(int before, const std::string& added) const {
    const std::string both = appended(body_, body_.in(before), added);
    const std::string width = body_.length(both, 3);
    const std::string flat =
        body_.node("Reshape", {both, joined(body_, {body_.list({-1}), width})});
    const std::string moved = body_.node("Gather", {flat, source_});
    return body_.node("Where", {is_filled_, moved, body_.number(0, moved)});
  }

 private:
  Body& body_;
  std::string source_, is_filled_;
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

// Of the new rows' places, from a table [positions, H / 2]: [B, 1, 1, S, H / 2], or [S, H / 2] where no lengths are given.
std::string angles(Body& body, int table, const std::string& places, const std::string& past,
                   const std::string& rows) {
  if (places.empty()) {
    return body.node("Slice",
                     {body.in(table), past, body.node("Add", {past, rows}), body.list({0})});
  }
  const std::string one = body.list({1});
  const std::string dims = joined(body, {body.length(places, 0), one, one, body.length(places, 1),
                                         body.length(body.in(table), 1)});
  return body.node("Reshape", {body.node("Gather", {body.in(table), places}), dims});
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
  const Places places = body.has(5) ? places_of(body, rows) : Places{};
  if (body.integer("do_rotary", 0) != 0) {
    const std::string cosine = angles(body, 7, places.of_new, past, rows);
    const std::string sine = angles(body, 8, places.of_new, past, rows);
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
  if (body.has(3) && body.has(5)) {
    const Buffer buffer(body, places, rows);
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
  if (body.has(3) && body.has(5)) {
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
