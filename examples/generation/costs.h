// What the runs of a model cost together, and what limits them.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tessera/run_result.h"

namespace generation {

struct Costs {
  std::int64_t runs = 0;
  double seconds = 0;  // of this machine, without compiling
  // Of the virtual processor; all 0 on other devices. Times are in cycles of its clock.
  std::int64_t clock_hertz = 0;
  std::int64_t cycles = 0, host_cycles = 0, transfer_cycles = 0;
  std::int64_t memory_bytes = 0;  // read from and written to its DRAM
  std::int64_t multiplications = 0;
  std::map<std::string, std::int64_t> busy;  // cycles by kind of engine ("neural", "dram", ...)

  void add(const tessera::RunResult& result, double of_seconds);
};

// A table of a run's part of the costs; `unit` is what a run makes ("token").
void print_costs(const std::string& name, const std::string& unit, const Costs& costs);
nlohmann::ordered_json costs_json(const Costs& costs);

}  // namespace generation
