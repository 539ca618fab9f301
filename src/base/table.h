// Vectors and arrays whose elements have names: an enumerator, a number that is an identifier, or a
// struct of one (`value`).
//
//   Table<TensorId, TensorInfo> tensors;              tensors[id]
//   FixedTable<EngineKind, Cycles, kEngineKindCount>  busy[EngineKind::kLoad]
//
// They are the standard containers with one more way to index them: an index of the other type, or
// of another enumeration, does not compile. Positions (any integer) are taken too, for loops.
// Builds with sanitizers check the index.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

#ifdef TESSERA_SANITIZED
#include "base/check.h"
#endif

namespace tessera {

// The position that an identifier stands for.
template <typename Id>
constexpr std::size_t position_of(Id id) {
  if constexpr (std::is_enum_v<Id> || std::is_integral_v<Id>) {
    return static_cast<std::size_t>(id);
  } else {
    return static_cast<std::size_t>(id.value);
  }
}

// What a table of `Id` is indexed by.
template <typename Index, typename Id>
concept IndexOf = std::same_as<Index, Id> || std::integral<Index>;

template <typename Id, typename Container>
class Indexed : public Container {
 public:
  using Container::Container;
  constexpr Indexed() = default;
  constexpr Indexed(Container elements) : Container(std::move(elements)) {}

  template <IndexOf<Id> Index>
  constexpr decltype(auto) operator[](Index index) {
    return Container::operator[](checked(position_of(index)));
  }
  template <IndexOf<Id> Index>
  constexpr decltype(auto) operator[](Index index) const {
    return Container::operator[](checked(position_of(index)));
  }

 private:
  constexpr std::size_t checked(std::size_t position) const {
#ifdef TESSERA_SANITIZED
    TESSERA_CHECK(position < this->size(), "element {} of {}", position, this->size());
#endif
    return position;
  }
};

template <typename Id, typename T>
using Table = Indexed<Id, std::vector<T>>;

// All elements are made at once, by their default.
template <typename Id, typename T, std::size_t kCount>
using FixedTable = Indexed<Id, std::array<T, kCount>>;

}  // namespace tessera
