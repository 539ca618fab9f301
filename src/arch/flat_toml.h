// A TOML file whose keys all stand at its top, for what is configured besides processors.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tessera {

struct FlatKey {
  enum class Kind : std::uint8_t { kInteger, kNumber, kText, kBoolean, kList, kOther };
  std::string name;
  int line = 0;
  Kind kind = Kind::kOther;
  std::vector<std::string> values;  // as text; several of a list of texts and numbers
  std::string found;                // for messages: "3.5 (a number with a fraction)"
};

// In the order of the file. kInvalidArgument: no TOML, or more than 1 MiB; the message names file and line.
Result<std::vector<FlatKey>> parse_flat_toml(std::string_view text, const std::string& file_name);

}  // namespace tessera
