// What programs share that stream tasks through a runtime: the devices asked for on the command
// line, where one can watch them, and what they did.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tessera/runtime.h"

namespace CLI {
class App;
}

namespace streaming {

struct Arguments {
  std::vector<std::string> kinds = {"host"};  // one for everything, or one per model
  std::string arch = "tessera128";
  int kernels = 1, threads = 0;
  double pace = 0;
  std::string http;   // PORT or ADDRESS:PORT of a live page; empty: none
  std::string trace;  // file for what ran when, at the end; empty: none
};
// --device, --arch, --kernels, --threads, --pace, --http, --trace. `models`: how many kinds
// --device may name.
void add_arguments(CLI::App& app, Arguments& arguments, int models);
// Devices called "KIND0", "KIND1", ... in the order of the kinds; threads are shared out.
tessera::Result<std::vector<tessera::DeviceOptions>> device_options(const Arguments& arguments);

// The command line; the exit status where it asks for help or is wrong.
std::optional<int> parse(CLI::App& app, int argc, char** argv);

// The live page, if one is asked for, with its address on stderr; it lasts as long as what is
// returned.
tessera::Result<std::optional<tessera::LiveView>> show(tessera::Runtime& runtime,
                                                       const tessera::Pipeline& pipeline,
                                                       const std::string& http,
                                                       const std::string& title);

// What a run of a program came to.
struct Use {
  double seconds = 0;
  std::vector<tessera::DeviceStatus> devices;
  tessera::PipelineStatus pipeline;
};
// Tells too how many runs took longer than the modelled processor does (paced devices).
void print_use(const Use& use);
nlohmann::ordered_json use_json(const Use& use);
// Indented; what a terminal would obey in names is written as \uNNNN.
std::string json_text(const nlohmann::ordered_json& document);
void print_error(const char* program, const tessera::Error& error);

// An error where the file to be written is one of those that are read, whatever it is called.
tessera::Status check_trace(const std::string& trace, const std::vector<std::string>& read);
// The first and the last thing of a program that prints: whether all of it has arrived. A pipe
// without a reader is an error and no signal.
void begin_standard_output();
tessera::Status finish_standard_output();

}  // namespace streaming
