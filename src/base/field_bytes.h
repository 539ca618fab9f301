// Structures as bytes and back: one description of the fields serves both ways.
//
//   template <typename Way> void fields(Way& way, auto& point) { way(point.x), way(point.name); }
//
//   FieldsOut out;  fields(out, point);  out.bytes
//   FieldsIn in(bytes);  fields(in, point);  in.ok && in.at_end()
//
// Numbers are little-endian, texts and lists have their length in front (u32). What was read is as sent, or `ok`
// is false and the rest means nothing; no length is believed beyond the bytes that there are.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace tessera {

class FieldsOut {
 public:
  template <typename Number>
    requires std::is_integral_v<Number>
  void operator()(const Number& number) {
    static_assert(std::endian::native == std::endian::little);
    const auto* const at = reinterpret_cast<const std::byte*>(&number);
    bytes.insert(bytes.end(), at, at + sizeof number);
  }
  void operator()(const std::string& text) {
    count(text.size());
    const auto* const at = reinterpret_cast<const std::byte*>(text.data());
    bytes.insert(bytes.end(), at, at + text.size());
  }
  void operator()(const std::vector<std::byte>& data) {
    count(data.size());
    bytes.insert(bytes.end(), data.begin(), data.end());
  }
  void count(std::size_t number) { (*this)(static_cast<std::uint32_t>(number)); }
  template <typename Item>
  void each(const std::vector<Item>& items, const auto& visit) {
    count(items.size());
    for (const Item& item : items) visit(item);
  }

  std::vector<std::byte> bytes;
};

class FieldsIn {
 public:
  explicit FieldsIn(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <typename Number>
    requires std::is_integral_v<Number>
  void operator()(Number& number) {
    const auto from = take(sizeof number);
    if (from.empty()) return;
    if constexpr (std::is_same_v<Number, bool>) {
      const auto byte = static_cast<std::uint8_t>(from[0]);
      ok = ok && byte <= 1;
      number = byte == 1;
    } else {
      std::memcpy(&number, from.data(), sizeof number);
    }
  }
  void operator()(std::string& text) {
    const auto from = take(length());
    text.assign(reinterpret_cast<const char*>(from.data()), from.size());
  }
  void operator()(std::vector<std::byte>& data) {
    const auto from = take(length());
    data.assign(from.begin(), from.end());
  }
  // Of things that have a byte each at least.
  std::uint32_t count() {
    const std::uint32_t number = length();
    if (number <= rest_.size()) return number;
    ok = false;
    return 0;
  }
  template <typename Item>
  void each(std::vector<Item>& items, const auto& visit) {
    const std::uint32_t number = count();
    for (std::uint32_t i = 0; i < number && ok; ++i) visit(items.emplace_back());
  }
  bool at_end() const { return rest_.empty(); }

  bool ok = true;

 private:
  std::uint32_t length() {
    std::uint32_t number = 0;
    (*this)(number);
    return number;
  }
  std::span<const std::byte> take(std::size_t size) {
    if (size > rest_.size()) {
      ok = false;
      rest_ = {};
      return {};
    }
    const auto taken = rest_.first(size);
    rest_ = rest_.subspan(size);
    return taken;
  }
  std::span<const std::byte> rest_;
};

// An enumeration as a byte, up to `last`; beyond it the bytes are none of one.
template <typename Enum>
void small(FieldsOut& way, const Enum& value, int /*last*/) {
  way(static_cast<std::uint8_t>(value));
}
template <typename Enum>
void small(FieldsIn& way, Enum& value, int last) {
  std::uint8_t number = 0;
  way(number);
  way.ok = way.ok && number <= last;
  value = static_cast<Enum>(number);
}

}  // namespace tessera
