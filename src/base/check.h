// TESSERA_CHECK(condition, "fmt string {}", values...): a broken invariant aborts with the values
// involved, in every build.
#pragma once

#include <fmt/format.h>

#include <string>

namespace tessera {

[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const std::string& message);

#define TESSERA_CHECK(condition, ...)                                                      \
  do {                                                                                     \
    if (!(condition)) [[unlikely]] {                                                       \
      ::tessera::check_failed(__FILE__, __LINE__, #condition, ::fmt::format(__VA_ARGS__)); \
    }                                                                                      \
  } while (false)

}  // namespace tessera
