#include "cluster/message.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>

namespace tessera::cluster {
namespace {

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

std::vector<std::byte> encode_header(const MessageHeader& header) {
  std::vector<std::byte> bytes(kMessageHeadBytes + header.text.size());
  put(bytes, 0, static_cast<std::uint16_t>(header.kind));
  put(bytes, 2, header.minor);
  put(bytes, 4, kProtocolMajor);
  put(bytes, 6, static_cast<std::uint16_t>(header.text_is_piece));
  put(bytes, 8, header.id);
  if (header.text.empty()) return bytes;
  std::memcpy(bytes.data() + kMessageHeadBytes, header.text.data(), header.text.size());
  return bytes;
}

Result<MessageHeader> parse_header(std::span<const std::byte> bytes, std::uint64_t body_bytes,
                                   const MessageLimits& limits) {
  if (bytes.size() < kMessageHeadBytes) {
    return wrong(fmt::format("a header of {} bytes, at least {} are needed", bytes.size(),
                             kMessageHeadBytes));
  }
  const auto text = bytes.subspan(kMessageHeadBytes);
  if (text.size() > limits.text_bytes) {
    return wrong(fmt::format("{} bytes of text, allowed up to {}", text.size(), limits.text_bytes));
  }
  if (body_bytes > limits.body_bytes) {
    return wrong(fmt::format("{} bytes, allowed up to {}", body_bytes, limits.body_bytes));
  }
  const auto major = get<std::uint16_t>(bytes, 4);
  if (major != kProtocolMajor) {
    return Error{
        ErrorCode::kUnsupported,
        fmt::format(
            "the peer speaks version {} of the cluster's protocol, this program {}.{}; versions "
            "understand each other where the number before the point is the same: give both "
            "the same release (docs/runbook.md says in which order)",
            major, kProtocolMajor, kProtocolMinor)};
  }
  const auto kind = get<std::uint16_t>(bytes, 0), text_is_piece = get<std::uint16_t>(bytes, 6);
  if (kind < 1 || kind > 3) return wrong(fmt::format("kind {}, allowed 1 to 3", kind));
  const bool is_request = kind == static_cast<std::uint16_t>(MessageKind::kRequest);
  if (text_is_piece > (is_request ? 0 : 1)) {
    return wrong("a field that says where the text is has a value that it must not have");
  }
  return MessageHeader{.kind = static_cast<MessageKind>(kind),
                       .id = id_of_header(bytes),
                       .text = {reinterpret_cast<const char*>(text.data()), text.size()},
                       .minor = get<std::uint16_t>(bytes, 2),
                       .text_is_piece = text_is_piece != 0};
}

std::uint64_t id_of_header(std::span<const std::byte> bytes) {
  return bytes.size() < kMessageHeadBytes ? 0 : get<std::uint64_t>(bytes, 8);
}

Result<std::span<const std::byte>> only_piece(const Body& body) {
  if (body.pieces.empty()) return std::span<const std::byte>();
  if (body.pieces.size() == 1) return std::span<const std::byte>(body.pieces.front());
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("{} pieces behind the text, one is allowed", body.pieces.size())};
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
