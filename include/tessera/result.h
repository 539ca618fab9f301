// Result<T>: a value, or an error that says where, what was found, what is allowed and the way out.
//
// "The world is wrong" (a model, a file, a limit) is a Result. A broken invariant of the library
// itself aborts. There is no third kind.
#pragma once

#include <string>
#include <type_traits>
#include <utility>
#include <variant>

namespace tessera {

// Tells the caller what to do about it.
enum class ErrorCode {
  kInvalidArgument,  // mend the call
  kInvalidModel,     // mend the model (or any other foreign file)
  kDoesNotFit,       // choose another configuration
  kUnsupported,      // the operator or feature is refused by name
  kUnavailable,      // retry
  kInternal,         // give up; it is our fault
};

// "invalid argument", "invalid model", "does not fit", "unsupported", "unavailable", "internal".
const char* error_code_name(ErrorCode code);

// What went wrong, for people and for the caller.
struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;

  // "message   [code]", the form every user sees.
  std::string to_string() const;
  // The same error with "context: " in front. Layers in between add context and say nothing else.
  Error with_context(const std::string& context) const;
};

// A value or an error; ok() says which. Asking for the one that is not there throws
// std::bad_variant_access.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  const Error& error() const& { return std::get<1>(state_); }
  Error error() && { return std::get<1>(std::move(state_)); }

  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::variant<T, Error> state_;
};

// Result<void>: nothing, or an error.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : failed_(true), error_(std::move(error)) {}
  bool ok() const { return !failed_; }
  explicit operator bool() const { return ok(); }
  const Error& error() const& { return error_; }
  Error error() && { return std::move(error_); }

 private:
  bool failed_ = false;
  Error error_;
};

// Of what gives nothing but whether it went well.
using Status = Result<void>;

#define TESSERA_CONCAT_INNER(a, b) a##b
#define TESSERA_CONCAT(a, b) TESSERA_CONCAT_INNER(a, b)

// TESSERA_TRY(const Tiling tiling, tile(graph)); declares `tiling`, or returns the error.
#define TESSERA_TRY(declaration, expression) \
  TESSERA_TRY_INNER(declaration, expression, TESSERA_CONCAT(try_result_, __COUNTER__))
#define TESSERA_TRY_INNER(declaration, expression, temporary) \
  auto temporary = (expression);                              \
  if (!temporary.ok()) return std::move(temporary).error();   \
  declaration = std::move(temporary).value()

// TESSERA_RETURN_IF_ERROR(status_expression);
#define TESSERA_RETURN_IF_ERROR(expression)                     \
  do {                                                          \
    auto try_status = (expression);                             \
    if (!try_status.ok()) return std::move(try_status).error(); \
  } while (false)

}  // namespace tessera
