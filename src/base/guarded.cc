#include "base/guarded.h"

#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

namespace tessera {
namespace {

constexpr const char* kNoMemory =
    "not enough memory; choose a smaller shape, or a machine with more";

Error error_of(std::string_view doing, ErrorCode code, const char* what) {
  Error error{code, std::string(doing)};
  if (!doing.empty()) error.message += ": ";
  error.message += what;
  return error;
}

Error rethrown_error(std::string_view doing) {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return error_of(doing, ErrorCode::kDoesNotFit, kNoMemory);
  } catch (const std::length_error&) {
    return error_of(doing, ErrorCode::kDoesNotFit, kNoMemory);
  } catch (const std::system_error& thrown) {
    const bool thread = thrown.code() == std::errc::resource_unavailable_try_again;
    return thread ? error_of(doing, ErrorCode::kUnavailable,
                             "the system has no thread left; use fewer, or end other programs")
                  : error_of(doing, ErrorCode::kInternal, thrown.what());
  } catch (const std::exception& thrown) {
    return error_of(doing, ErrorCode::kInternal, thrown.what());
  } catch (...) {
    return error_of(doing, ErrorCode::kInternal, "something that is no std::exception was thrown");
  }
}

}  // namespace

Error thrown_error(std::string_view doing) noexcept {
  try {
    return rethrown_error(doing);
  } catch (...) {
    return Error{ErrorCode::kDoesNotFit, "out of memory"};  // short enough to need none
  }
}

}  // namespace tessera
