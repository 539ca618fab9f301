// The ways to turn a tensor to another layout (compile/transposition.h).
#pragma once

#include <cstdint>

namespace tessera::compile {

enum class TranspositionWay : std::uint8_t { kArray, kPlanar, kDma };

}  // namespace tessera::compile
