#include "byte_pairs.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <nlohmann/json.hpp>

#include "tessera/file.h"

namespace conversation {
namespace {

using Json = nlohmann::json;
constexpr std::int64_t kFileBytesMax = 64 << 20;

struct Letter {
  char32_t code = 0;
  std::size_t bytes = 1;
};

// Of UTF-8; a byte that belongs to none is a letter by itself.
Letter letter_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0u;
  };
  const unsigned first = byte(0);
  const std::size_t length = first < 0xC0 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (length == 1) return {first, 1};
  char32_t code = first & (0xFFu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0u) != 0x80u) return {first, 1};
    code = code << 6 | (byte(i) & 0x3Fu);
  }
  return {code, length};
}

enum class Kind { kLetter, kDigit, kSpace, kOther };

Kind kind_of(char32_t code) {
  if ((code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z')) return Kind::kLetter;
  if (code >= '0' && code <= '9') return Kind::kDigit;
  if (code == ' ' || (code >= '\t' && code <= '\r') || code == 0x3000) return Kind::kSpace;
  if (code < 0x80) return Kind::kOther;
  const bool punctuation = (code >= 0x2000 && code < 0x2070) || (code > 0x3000 && code < 0x3040) ||
                           (code >= 0xFF00 && code < 0xFF10) || (code >= 0xFF1A && code < 0xFF21);
  return punctuation ? Kind::kOther : Kind::kLetter;
}

// As the file writes bytes.
std::array<std::string, 256> letters_of_bytes() {
  std::array<std::string, 256> letters;
  unsigned next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const bool prints = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
    const unsigned code = prints ? byte : next++;
    if (code < 0x80) {
      letters[byte] = static_cast<char>(code);
    } else {
      letters[byte] = {static_cast<char>(0xC0 | code >> 6),
                       static_cast<char>(0x80 | (code & 0x3F))};
    }
  }
  return letters;
}

std::string in_bytes(std::string_view piece) {
  static const std::map<std::string, char> kBytes = [] {
    std::map<std::string, char> bytes;
    const auto letters = letters_of_bytes();
    for (std::size_t i = 0; i < letters.size(); ++i) bytes[letters[i]] = static_cast<char>(i);
    return bytes;
  }();
  std::string text;
  for (std::size_t at = 0; at < piece.size();) {
    const std::size_t length = letter_at(piece, at).bytes;
    const auto found = kBytes.find(std::string(piece.substr(at, length)));
    if (found != kBytes.end()) text += found->second;
    at += length;
  }
  return text;
}

// "left right", or [left, right].
std::pair<std::string, std::string> merge_of(const Json& merge) {
  if (merge.is_array())
    return {in_bytes(merge.at(0).get<std::string>()), in_bytes(merge.at(1).get<std::string>())};
  const auto text = merge.get<std::string>();
  const std::size_t space = text.find(' ');
  return {in_bytes(text.substr(0, space)), in_bytes(text.substr(space + 1))};
}

// "'s", "'re", ...: how long, if one begins here.
std::size_t contraction_at(std::string_view text, std::size_t at) {
  for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
    if (text.substr(at).starts_with(ending)) return ending.size();
  }
  return 0;
}

std::size_t end_of_run(std::string_view text, std::size_t at, Kind kind) {
  while (at < text.size()) {
    const Letter letter = letter_at(text, at);
    if (kind_of(letter.code) != kind) break;
    at += letter.bytes;
  }
  return at;
}

}  // namespace

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at + contraction_at(text, at);
    if (end == at) {
      const bool space = text[at] == ' ' && at + 1 < text.size();
      const Kind next = kind_of(letter_at(text, space ? at + 1 : at).code);
      if (next != Kind::kSpace) {
        end = end_of_run(text, space ? at + 1 : at, next);
      } else {
        end = end_of_run(text, at, Kind::kSpace);
        // The last one belongs to the word behind them.
        if (end < text.size() && end - at > 1) --end;
      }
    }
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

tessera::Result<BytePairs> BytePairs::read(const std::string& path) {
  const auto bytes = tessera::read_file(path, {.bytes_max = kFileBytesMax});
  if (!bytes.ok()) return bytes.error().with_context("tokens");
  const auto* const text = reinterpret_cast<const char*>(bytes->data());
  try {
    const Json file = Json::parse(text, text + bytes->size());
    BytePairs pairs;
    const auto add = [&](std::string piece, std::int64_t token) {
      const auto place = static_cast<std::size_t>(token);
      if (pairs.texts_.size() <= place) pairs.texts_.resize(place + 1);
      pairs.texts_[place] = std::move(piece);
    };
    for (const auto& [piece, token] : file.at("model").at("vocab").items()) {
      pairs.tokens_[in_bytes(piece)] = token.get<std::uint16_t>();
      add(in_bytes(piece), token.get<std::uint16_t>());
    }
    for (const Json& token : file.at("added_tokens")) {
      const auto id = token.at("id").get<std::uint16_t>();
      pairs.special_[token.at("content").get<std::string>()] = id;
      add("", id);
    }
    for (const Json& merge : file.at("model").at("merges")) {
      pairs.ranks_.emplace(merge_of(merge), pairs.ranks_.size());
    }
    return pairs;
  } catch (const Json::exception& error) {
    return tessera::Error{tessera::ErrorCode::kInvalidArgument,
                          "'" + path + "' is no tokenizer.json with byte pairs: " + error.what()};
  }
}

void BytePairs::add_word(std::string_view word, std::vector<std::int64_t>& tokens) const {
  std::vector<std::string> pieces;
  for (const char byte : word) pieces.emplace_back(1, byte);
  while (pieces.size() > 1) {
    std::size_t best = 0, best_rank = ranks_.size();
    for (std::size_t i = 0; i + 1 < pieces.size(); ++i) {
      const auto found = ranks_.find({pieces[i], pieces[i + 1]});
      if (found == ranks_.end() || found->second >= best_rank) continue;
      best = i;
      best_rank = found->second;
    }
    if (best_rank == ranks_.size()) break;
    pieces[best] += pieces[best + 1];
    pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
  for (const std::string& piece : pieces) {
    if (const auto found = tokens_.find(piece); found != tokens_.end()) {
      tokens.push_back(found->second);
    }
  }
}

std::vector<std::int64_t> BytePairs::tokens_of(std::string_view text) const {
  std::vector<std::int64_t> tokens;
  for (const std::string_view word : words_of(text)) add_word(word, tokens);
  return tokens;
}

tessera::Result<std::int64_t> BytePairs::special(const std::string& name) const {
  if (const auto found = special_.find(name); found != special_.end()) return found->second;
  return tessera::Error{tessera::ErrorCode::kInvalidModel,
                        "the vocabulary has no token '" + name + "'"};
}

std::string BytePairs::text_of(std::span<const std::int64_t> tokens) const {
  std::string text;
  for (const std::int64_t token : tokens) {
    if (token >= 0 && token < std::ssize(texts_)) text += texts_[static_cast<std::size_t>(token)];
  }
  return text;
}

}  // namespace conversation
