#include "repro/card_case.h"

#include <fmt/format.h>

namespace tessera::repro {

std::string CardCase::program_key() const {
  const CardFeatures& f = features;
  return fmt::format("{} {} {} {} {}{}{}{}{}{}{}{}{} {} {}", network, cores, cards,
                     team == 0 ? cores : team, f.merge, f.broadcast, f.forward, f.dynamic_bandwidth,
                     f.needed_bytes_only, f.instruction_sync, f.loads_beside_arithmetic,
                     f.hand_over, static_cast<int>(f.split), through_memory, eight_bits);
}
std::string CardCase::key() const {
  return fmt::format("{} {}", program_key(), cards == 1 ? 0 : gigabits_per_second);
}

}  // namespace tessera::repro
