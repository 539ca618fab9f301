// Networks run for their timing: the zoo's, on processors that are named or made on the way, and others.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "arch/chip_config.h"
#include "base/result.h"
#include "report/roofline.h"
#include "zoo/zoo.h"

namespace tessera::tools {

struct ZooRun {
  std::string name;
  std::int64_t cycles = 0, nodes_on_host = 0;
  std::int64_t idle_engine_cycles = 0;
  double cpu_seconds = 0;  // of the timing-only run, without compilation
  report::RooflineReport roofline;
};

// Runs it, traced and without values, on one core of the processor that it is compiled for.
Result<ZooRun> run_for_timing(const std::string& name, const Network& network);

// By their names, with commas between; "" is all.
Result<std::vector<zoo::ZooNetwork>> zoo_networks(const std::string& names);

// Holds a folder for models and architecture files, which goes with it.
class ZooRunner {
 public:
  static Result<ZooRunner> make();
  ZooRunner(ZooRunner&& other) noexcept : folder_(std::exchange(other.folder_, "")) {}
  ZooRunner(const ZooRunner&) = delete;
  ~ZooRunner();

  // `arch` is a profile or a file.
  Result<ZooRun> run(const zoo::ZooNetwork& network, const std::string& arch) const;
  Result<ZooRun> run(const zoo::ZooNetwork& network, const ChipConfig& chip) const;

 private:
  explicit ZooRunner(std::string folder) : folder_(std::move(folder)) {}
  std::string folder_;
};

}  // namespace tessera::tools
