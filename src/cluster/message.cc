#include "cluster/message.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>

namespace tessera::cluster {
namespace {

constexpr std::array<char, 4> kMagic = {'T', 'S', 'M', '1'};

template <typename Number>
void put(std::span<std::byte> bytes, std::size_t at, Number number) {
  static_assert(std::endian::native == std::endian::little);
  std::memcpy(bytes.data() + at, &number, sizeof number);
}

template <typename Number>
Number get(std::span<const std::byte> bytes, std::size_t at) {
  Number number = 0;
  std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

Error wrong(const std::string& what) { return {ErrorCode::kInvalidModel, "a message: " + what}; }

constexpr ErrorCode kCodes[] = {ErrorCode::kInvalidArgument, ErrorCode::kInvalidModel,
                                ErrorCode::kDoesNotFit,      ErrorCode::kUnsupported,
                                ErrorCode::kUnavailable,     ErrorCode::kInternal};

}  // namespace

std::array<std::byte, kMessageHeadBytes> encode_head(const MessageHead& head) {
  std::array<std::byte, kMessageHeadBytes> bytes{};
  std::memcpy(bytes.data(), kMagic.data(), kMagic.size());
  put(bytes, 4, static_cast<std::uint16_t>(head.kind));
  put(bytes, 8, head.id);
  put(bytes, 16, head.text_bytes);
  put(bytes, 24, head.body_bytes);
  return bytes;
}

Result<MessageHead> parse_head(std::span<const std::byte, kMessageHeadBytes> bytes,
                               const MessageLimits& limits) {
  if (std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) {
    return wrong("it does not begin with 'TSM1', so the peer is no part of a cluster");
  }
  const auto kind = get<std::uint16_t>(bytes, 4);
  if (kind < 1 || kind > 3) return wrong(fmt::format("kind {}, allowed 1 to 3", kind));
  if (get<std::uint16_t>(bytes, 6) != 0 || get<std::uint32_t>(bytes, 20) != 0) {
    return wrong("a field that must be 0 is not");
  }
  MessageHead head{.kind = static_cast<MessageKind>(kind),
                   .id = get<std::uint64_t>(bytes, 8),
                   .text_bytes = get<std::uint32_t>(bytes, 16),
                   .body_bytes = get<std::uint64_t>(bytes, 24)};
  if (head.text_bytes > limits.text_bytes) {
    return wrong(
        fmt::format("{} bytes of text, allowed up to {}", head.text_bytes, limits.text_bytes));
  }
  if (head.body_bytes > limits.body_bytes) {
    return wrong(fmt::format("{} bytes, allowed up to {}", head.body_bytes, limits.body_bytes));
  }
  return head;
}

std::string error_text(const Error& error) {
  const nlohmann::json document = {{"code", error_code_name(error.code)},
                                   {"message", error.message}};
  return document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Error parse_error_text(const std::string& text) {
  const auto document = nlohmann::json::parse(text, nullptr, false);
  const auto no_error = [] {
    return Error{ErrorCode::kInternal, "the peer says that it failed, and not how"};
  };
  if (!document.is_object() || !document.contains("code") || !document.contains("message") ||
      !document["code"].is_string() || !document["message"].is_string()) {
    return no_error();
  }
  for (const ErrorCode code : kCodes) {
    if (document["code"].get<std::string>() == error_code_name(code)) {
      return {code, document["message"].get<std::string>()};
    }
  }
  return no_error();
}

}  // namespace tessera::cluster
