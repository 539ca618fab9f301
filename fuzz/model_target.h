// What is done with an untrusted model after it has been imported: compiled, and run by all
// devices, which give the same bits or all refuse. The models are a file's bytes, or grown from
// decisions, node by node, each of which the operators' own shape functions accept.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "choices.h"

namespace tessera::fuzz {

enum class ModelOutcome { kRefused, kBuilt, kRanOnHost, kRanOnAll };

// Byte 0 chooses the profile and what follows: decisions, or a file.
ModelOutcome model_target(std::span<const std::byte> bytes);

// A model of a few nodes, as the bytes of its file.
std::string grown_model(Choices& choices);

}  // namespace tessera::fuzz
