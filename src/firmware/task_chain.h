// The lines of a task's chain. Each sets registers of the configuration, so that the same lines,
// applied to the reset values in the same order, show which registers still have to be written out.
//
//   read  buffer OFFSET FORMAT [images, channels, rows, columns] pitch [block, row, column] ring N
//         [broadcast channels] [broadcast images] [broadcast rows]
//   read  dram REGION + OFFSET
//   product | transpose | add bias | activate F | compute F | pool F | reduce F | fill BITS
//   write buffer ... | dram ... | kernel OFFSET
//   NAME = VALUE
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "firmware/lexer.h"
#include "isa/descriptor.h"

namespace tessera::firmware {

// All lines of the configuration, two blanks in front of each.
std::string chain_text(isa::EngineKind engine, const isa::TaskConfig& config);

// Registers of one task, from its lines.
class TaskChainParser {
 public:
  explicit TaskChainParser(std::size_t config_kind);

  // The rest of the line that begins with `word` at `place`.
  Status line(Lexer& lexer, const std::string& word, const Place& place);
  const std::vector<std::uint32_t>& registers() const { return registers_; }

 private:
  Status read_or_write(Lexer& lexer, bool write, const Place& place);
  Status surface(Lexer& lexer, const std::string& prefix);
  Status dram(Lexer& lexer, const std::string& prefix);
  Status operation(Lexer& lexer, const std::string& word, const Place& place);
  Status assignment(Lexer& lexer, const std::string& path, const Place& place);
  void set(const std::string& path, std::uint64_t bits);

  const std::size_t kind_;
  std::vector<std::uint32_t> registers_;
  int buffer_reads_ = 0;
};

}  // namespace tessera::firmware
