// What must hold between the keys of an architecture file, beyond each key's own range.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "arch/chip_config.h"

namespace tessera {

// A broken rule: the key to mend, and "found X, allowed Y" text.
struct ConfigViolation {
  std::string_view section;
  std::string_view key;
  std::string message;
};

// The first broken rule, in the order of the file's keys.
std::optional<ConfigViolation> find_config_violation(const ChipConfig& config);

// The rules in words, for the documentation: one line each.
std::string config_rules_markdown();

}  // namespace tessera
