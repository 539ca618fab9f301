// Text into tokens and back: byte pair encoding over bytes, from a file tokenizer.json.
//
//   text ─► words (" a space and letters", digits, other signs, spaces) ─► bytes ─► pairs merged, in the
//   order of the file's list, until none is left ─► tokens
//
// Bytes stand in the file as letters: those that print as themselves, others from U+0100 on.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/result.h"

namespace conversation {

class BytePairs {
 public:
  static tessera::Result<BytePairs> read(const std::string& path);

  // UTF-8; names of special tokens in it ("<|im_end|>") are text. Letters outside of ASCII are those that
  // are no punctuation of the blocks U+2000, U+3000 and U+FF00.
  std::vector<std::int64_t> tokens_of(std::string_view text) const;
  // The token of that name; an error where there is none.
  tessera::Result<std::int64_t> special(const std::string& name) const;
  // Special tokens have no text.
  std::string text_of(std::span<const std::int64_t> tokens) const;

 private:
  void add_word(std::string_view word, std::vector<std::int64_t>& tokens) const;

  std::map<std::string, std::int64_t> tokens_;
  std::vector<std::string> texts_;  // of tokens, in bytes
  std::map<std::string, std::int64_t> special_;
  std::map<std::pair<std::string, std::string>, std::size_t> ranks_;  // of pairs that merge
};

// The words that are encoded each by itself; their concatenation is the text.
std::vector<std::string_view> words_of(std::string_view text);

}  // namespace conversation
