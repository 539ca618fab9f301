// What is done with untrusted bytes: read as a model, whose shapes are then inferred, and read
// as a tensor. Whatever the bytes are, the answer is a value or an error, never a crash. The fuzzer
// and the plain test of its corpus run the same code.
#pragma once

#include <cstddef>
#include <span>

namespace tessera::fuzz {

struct ImportOutcome {
  bool is_model = false;
  bool is_inferred = false;
  bool is_tensor = false;
};

ImportOutcome import_target(std::span<const std::byte> bytes);

}  // namespace tessera::fuzz
