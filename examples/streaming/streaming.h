// What programs share that stream tasks through a runtime: the devices asked for on the command
// line, and what they did.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tessera/runtime.h"

namespace CLI {
class App;
}

namespace streaming {

struct DeviceArguments {
  std::vector<std::string> kinds = {"host"};  // one for everything, or one a model
  std::string arch = "tessera128";
  int kernels = 1, threads = 0;
  double pace = 0;
};
// --device, --arch, --kernels, --threads, --pace. `models`: how many kinds --device may name.
void add_device_arguments(CLI::App& app, DeviceArguments& arguments, int models);
// Devices called "KIND0", "KIND1", ... in the order of the kinds; threads are shared out.
tessera::Result<std::vector<tessera::DeviceOptions>> device_options(
    const DeviceArguments& arguments);

// What a run of a program came to.
struct Use {
  double seconds = 0;
  std::vector<tessera::DeviceStatus> devices;
  tessera::PipelineStatus pipeline;
};
void print_use(const Use& use);
nlohmann::ordered_json use_json(const Use& use);

}  // namespace streaming
