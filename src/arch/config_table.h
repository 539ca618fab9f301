// The one table of the architecture file: a row per key, with the member it sets, the allowed
// range and what it means.
//
//   arch/my.toml ──► parse ──┐
//                            ├── config_keys() ──► describe, fingerprint, checks,
//   ChipConfig  ◄────────────┘                     docs/formats/architecture_file.md
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "arch/chip_config.h"

namespace tessera {

// Gives the member of a configuration that a key stands for.
template <typename T>
using MemberAccess = T& (*)(ChipConfig&);

using ConfigMember =
    std::variant<MemberAccess<std::int32_t>, MemberAccess<std::int64_t>, MemberAccess<std::string>,
                 MemberAccess<Format>, MemberAccess<MatrixKind>, MemberAccess<Dataflow>,
                 MemberAccess<Folds>, MemberAccess<Arbitration>, MemberAccess<LongFormat>,
                 MemberAccess<MicroElement>, MemberAccess<MicroScale>, MemberAccess<VectorInputs>,
                 MemberAccess<DramKind>, MemberAccess<DramInterleave>, MemberAccess<CardSplit>>;

struct ConfigKey {
  std::string_view section;  // "" for the keys at the top of the file
  std::string_view key;
  ConfigMember member;
  std::int64_t minimum;  // of integers; both 0 for the other types
  std::int64_t maximum;
  std::string_view document;  // what the key means, with its unit
  // Of what a processor may do without: at its default it is not in the fingerprint, so that the
  // packages of processors without it stay theirs.
  bool optional = false;

  // Of the host, which decides nothing of a program: not in the fingerprint.
  bool of_host() const { return section == "host"; }

  // Of the card around the core, which packages know nothing of: in card_fingerprint() only.
  bool of_card() const;

  // "neural.rows", or "name" at the top of the file.
  std::string path() const;
};

// A key that architecture files had, and what says the same today.
struct ReplacedConfigKey {
  std::string_view section;
  std::string_view key;
  std::string_view instead;  // a key, or nothing
  std::string_view how;

  // What an error says behind the key's path.
  std::string message() const;
};
std::span<const ReplacedConfigKey> replaced_config_keys();

// All keys, in the order of the file.
std::span<const ConfigKey> config_keys();

// The value as it is written in a file: 128, "f16".
std::string config_value_text(const ConfigKey& key, const ChipConfig& config);

// What the key allows: "1..1024", "\"f16\", \"bf16\", \"f32\"".
std::string config_allowed_text(const ConfigKey& key);

// The names a word-valued key takes; empty for other keys.
std::span<const std::string_view> config_words(const ConfigKey& key);

// Sets a word-valued or text key. False where the word is not one of config_words().
bool set_config_word(const ConfigKey& key, std::string_view word, ChipConfig& config);

}  // namespace tessera
