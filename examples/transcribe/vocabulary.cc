#include "vocabulary.h"

#include <charconv>
#include <optional>
#include <string_view>

#include "tessera/file.h"

namespace transcription {
namespace {

constexpr std::string_view kSpace = "\u2581";
constexpr std::int64_t kFileBytesMax = 16 << 20;

// "<0x41>" is the byte 0x41.
std::optional<char> byte_of(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || !piece.ends_with('>')) return std::nullopt;
  unsigned value = 0;
  const auto [end, error] = std::from_chars(piece.data() + 3, piece.data() + 5, value, 16);
  if (error != std::errc() || end != piece.data() + 5) return std::nullopt;
  return static_cast<char>(value);
}

void append(std::string& text, std::string_view piece) {
  for (std::size_t at = piece.find(kSpace); at != std::string_view::npos; at = piece.find(kSpace)) {
    text += piece.substr(0, at);
    text += ' ';
    piece.remove_prefix(at + kSpace.size());
  }
  text += piece;
}

}  // namespace

tessera::Result<Vocabulary> Vocabulary::read(const std::string& path) {
  const auto bytes = tessera::read_file(path, {.bytes_max = kFileBytesMax});
  if (!bytes.ok()) return bytes.error().with_context("vocabulary");
  const std::string_view text(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  std::vector<std::string> pieces;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    pieces.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  if (!pieces.empty()) return Vocabulary(std::move(pieces));
  return tessera::Error{
      tessera::ErrorCode::kInvalidArgument,
      "vocabulary '" + path + "' is empty; scripts/fetch_transcription_model.sh makes one"};
}

std::string Vocabulary::text_of(std::span<const std::int64_t> tokens) const {
  std::string text;
  for (const std::int64_t token : tokens) {
    if (token < 0 || token >= std::ssize(pieces_)) continue;
    const std::string& piece = pieces_[static_cast<std::size_t>(token)];
    if (const auto byte = byte_of(piece)) {
      text += *byte;
    } else if (!(piece.size() > 2 && piece.starts_with('<') && piece.ends_with('>'))) {
      append(text, piece);
    }
  }
  return text.starts_with(' ') ? text.substr(1) : text;
}

}  // namespace transcription
