// A neural network made ready for an architecture: what it takes and gives, and where its nodes
// run. session.h and runtime.h run it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/result.h"
#include "tessera/tensor.h"

namespace tessera {

// The name, format and constant shape of a model input or output.
struct TensorDescription {
  std::string name;
  Format format = Format::kF32;
  Shape dims;
  // Of a matrix in blocks, as a device may hold it: the shape that it has outside. `dims` are then
  // [blocks down, blocks across, rows of a block, columns of a block]. Empty: dense.
  Shape dense_dims = {};
};

// A step that runs on the host instead of the processor, and why.
struct HostStepNote {
  std::string node;
  std::string operator_name;
  std::string reason;
};

// Where the model's nodes run.
struct Placement {
  std::int64_t nodes_on_processor = 0;
  std::int64_t nodes_on_host = 0;
  std::vector<HostStepNote> host_steps;
  std::vector<std::string> notes;  // stated defaults, for example of open dimensions
};

// Called with the stage's name and how much of it is done, 0..1. May be empty. What it throws is
// the error of the load or run, and it is called no more.
using ProgressCallback = std::function<void(const std::string& stage, double fraction)>;

// The shape that a model declares for an input or output.
struct DeclaredShape {
  std::string name;
  Shape dims;                    // -1: open, which Network::load makes a number of
  Format format = Format::kF32;  // of its elements
  bool has_shape = true;         // false: nothing is said of it, not even how many dimensions
};

// Number formats of some layers in place of the architecture's. tessera/format_choice.h finds them by accuracy.
struct LayerFormats {
  // Of a float product, by its node's name: mantissa bits of both operands in block floating point, 2 to 15. Not of
  // one whose format is another.
  std::map<std::string, int> mantissa_bits = {};
  // Values that become binary32, by the name that the model gives them; of those that cannot (the inputs and outputs of
  // the model, integers) nothing changes.
  std::set<std::string> wide = {};
  // Nothing is asked for.
  bool empty() const { return mantissa_bits.empty() && wide.empty(); }
  friend bool operator==(const LayerFormats&, const LayerFormats&) = default;
};

// How a model is compiled.
struct LoadOptions {
  std::string arch = "tessera128";           // profile name, or path of an architecture file
  std::map<std::string, Shape> shapes = {};  // for inputs whose dimensions the model leaves open
  // Asked once of each input with open dimensions that is not in `shapes`: the shape of what it will be
  // fed. If it has as many dimensions, the open ones are taken from it. Open dimensions of one name
  // are equal for all inputs.
  std::function<std::optional<Shape>(const DeclaredShape& input)> open_shape = {};
  // Inputs whose value is known at compile time, because a shape depends on it. The network has no
  // such input then.
  std::map<std::string, Tensor> constants = {};
  // Names of inputs that runs will be given. It matters to those that have a default, an initializer of their name: they are
  // inputs of the network then, behind the others; else their value is the default.
  std::set<std::string> given = {};
  // How many tensors an input of type sequence holds (an optional: 0 or 1). They are the inputs
  // "NAME[0]", "NAME[1]", ...
  std::map<std::string, std::int64_t> lengths = {};
  // Constants of products in place of the model's: "LAYER.weight", "LAYER.bias"
  // (src/graph/replace_weights.h). Trained weights come back this way.
  std::map<std::string, Tensor> weights = {};
  LayerFormats layer_formats = {};
  std::int64_t tile_budget_bytes = 0;  // bytes per partition for a task; 0 = the compiler chooses
  bool resident = true;                // keep tensors in the state buffer between layers
  bool compress_weights = true;        // store kernels compressed where that saves DRAM bytes
  bool require_full_offload = false;   // a host step is an error
  // Of state buffer and kernel memory that the network may use, above 0 and at most 1: for a core
  // that several networks share (tessera/shared_session.h).
  double region_share = 1;
  ProgressCallback progress = {};  // by passes
  // When loading gives up, with an error (kUnavailable) that names the pass and how far it had come; the
  // greatest time: never. Passes look at the clock now and then, so that it may end a little later.
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  // Of load_bytes: where the files lie that a model or a firmware text names, and may not lead out
  // of, and a program's weights. Empty: it may name none.
  std::string folder = {};
  // Of a program whose weights are elsewhere: the package or program that has them. Empty: where the program
  // says, which is a path from its folder (of load_bytes: from `folder`).
  std::string weights_file = {};
};

// Internal; see src/network/network.h.
struct NetworkState;

// Of a file, before anything is compiled.
struct DeclaredShapes {
  std::vector<DeclaredShape> inputs;
  std::vector<DeclaredShape> outputs;
};

// Immutable; a handle that may be copied and used by several threads.
class Network {
 public:
  // An ONNX model, a package (.tpkg), a linked program (.tprog) or a firmware text (.tasm), known
  // by the first bytes. A program runs as it is on sim, and on host and ref as the layers that are
  // read out of it; options that belong to a model are errors, and the default of `arch` means what
  // the program names. The error says what is wrong with the file or the options.
  static Result<Network> load(const std::string& path, const LoadOptions& options = {});
  // The same from memory, which is not needed any more afterwards; `name` is for errors.
  static Result<Network> load_bytes(std::span<const std::byte> bytes,
                                    const LoadOptions& options = {},
                                    const std::string& name = "memory");

  // What an ONNX model declares, in its order. Of any other file, where all is compiled already: nothing.
  static Result<DeclaredShapes> declared_shapes(const std::string& path);

  // In the order in which runs take and give them.
  const std::vector<TensorDescription>& inputs() const;
  const std::vector<TensorDescription>& outputs() const;  // likewise
  const Placement& placement() const;                     // which nodes run on the host, and why
  Status save_package(const std::string& path) const;     // kUnsupported of a program

  // Internal.
  explicit Network(std::shared_ptr<const NetworkState> state) : state_(std::move(state)) {}
  const NetworkState& state() const { return *state_; }
  // Internal: another handle of what is behind this one.
  std::shared_ptr<const NetworkState> share() const { return state_; }

 private:
  std::shared_ptr<const NetworkState> state_;  // shared by sessions and copies of this handle
};

}  // namespace tessera
