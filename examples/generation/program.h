// What the programs share that generate tokens: their options on the command line, and how they end.
#pragma once

#include <functional>
#include <string>

#include "tessera/dynamic_network.h"
#include "tessera/result.h"

namespace CLI {
class App;
}

namespace generation {

struct DeviceArguments {
  std::string device = "host";
  std::string arch = "tessera128";
  std::string networks;  // folder of compiled networks
  int threads = 0;
  int cores = 1;
};
// --device, --arch, --cores, --threads, --networks.
void add_arguments(CLI::App& app, DeviceArguments& arguments);
tessera::Result<tessera::SessionOptions> session_options(const DeviceArguments& arguments);
tessera::DynamicOptions network_options(const DeviceArguments& arguments);

// Parses, runs and prints the error; what main returns.
int run_program(CLI::App& app, int argc, char** argv, const std::function<tessera::Status()>& run);

// A tensor of [1, values].
tessera::Tensor integers_tensor(const std::vector<std::int64_t>& values);
// The place of the largest value, the first of several.
std::int64_t largest(std::span<const float> values);

}  // namespace generation
