// The text of tokens: a file with a piece of text a line, in the order of the tokens. U+2581 stands for a
// space, "<0xNN>" for one byte.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tessera/result.h"

namespace transcription {

class Vocabulary {
 public:
  static tessera::Result<Vocabulary> read(const std::string& path);
  explicit Vocabulary(std::vector<std::string> pieces) : pieces_(std::move(pieces)) {}

  std::size_t size() const { return pieces_.size(); }
  // UTF-8, without the space before the first word. Pieces in angle brackets ("<s>") have no text, nor
  // have tokens beyond the vocabulary.
  std::string text_of(std::span<const std::int64_t> tokens) const;

 private:
  std::vector<std::string> pieces_;
};

}  // namespace transcription
