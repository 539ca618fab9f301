// One model for inputs of many shapes: a network for each combination that comes, compiled when it comes and kept.
//
//   DynamicNetwork::open("model.onnx")  ─►  network_for(inputs)  ─►  Network ─► Session, Runtime
//   DynamicSession::open(network)       ─►  run(inputs)          ─►  outputs, cycles
//
// Dimensions that the model leaves open are those of the inputs. Inputs whose values decide what is computed (a sample rate
// that an If asks for, the shape of a Reshape, the trips of a Loop) are found when compiling shows them, and networks are
// chosen by their values, too.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/network.h"
#include "tessera/result.h"
#include "tessera/session.h"
#include "tessera/tensor.h"

namespace tessera {

// How many elements a dimension may have, both ends included.
struct DimensionRange {
  std::int64_t least = 0, most = INT64_MAX;
};

// How a dynamic network compiles, and what it keeps.
struct DynamicOptions {
  LoadOptions load =
      {};  // with `shapes` and `constants` some inputs are fixed for good; `open_shape` is not asked
  // Of an input, a range for each dimension; others are an error that names them. Inputs without any take what comes.
  std::map<std::string, std::vector<DimensionRange>> ranges = {};
  // Of an input, for each dimension the sizes that networks are made for, in ascending order; none: that which comes. What
  // is shorter is padded with zeros at its end up to the next size, and outputs are those of the padded inputs: the
  // application knows which of them it means. What is longer than the last size is an error. `ranges` are of what is given.
  std::map<std::string, std::vector<std::vector<std::int64_t>>> buckets = {};
  std::int64_t networks_max =
      16;  // that are kept, at least 1; the one that was not used for longest goes first
  // Where packages are kept between processes, by a digest of model, options, shapes and deciding values; made if it is not
  // there. Empty: nowhere. The files that were not used for longest go when they are more than this together.
  std::string cache_folder = {};
  std::int64_t cache_bytes_max = std::int64_t{4} << 30;
};

// What has become of the calls of network_for().
struct DynamicCounters {
  std::int64_t kept = 0;      // the network was there
  std::int64_t loaded = 0;    // its package lay in the folder
  std::int64_t compiled = 0;  // anew
};

// Internal; see src/network/dynamic_network.cc.
class DynamicNetworkState;

// A handle that may be copied and used by several threads; two that ask for the same shapes at once compile them once.
class DynamicNetwork {
 public:
  // An ONNX model, which is read once. kInvalidArgument for a package or a program, whose shapes are settled, and for
  // options that do not fit the model.
  static Result<DynamicNetwork> open(const std::string& path, const DynamicOptions& options = {});

  // In the order in which inputs are given: all that the model has but those that `load.constants` settles.
  const std::vector<DeclaredShape>& inputs() const;
  std::vector<std::string> output_names() const;  // in the order of results
  // For inputs in that order. The error says which input does not fit, or what cannot be compiled; kUnsupported also where
  // no single network can be made, because what a node computes decides the shapes behind it (DynamicSession runs such models
  // in parts).
  Result<Network> network_for(const std::vector<Tensor>& inputs) const;
  // Of these inputs those that the network takes, in its order and padded to its shapes: what decides has done so.
  Result<std::vector<Tensor>> inputs_of(const Network& network,
                                        const std::vector<Tensor>& inputs) const;
  // Inputs that have been found to decide, sorted.
  std::vector<std::string> deciding_inputs() const;
  DynamicCounters counters() const;  // since it was opened

  // Internal.
  explicit DynamicNetwork(std::shared_ptr<DynamicNetworkState> state) : state_(std::move(state)) {}
  DynamicNetworkState& state() const { return *state_; }

 private:
  std::shared_ptr<DynamicNetworkState> state_;  // shared by sessions and copies of this handle
};

// A network, and how often it ran.
struct NetworkRuns {
  Network network;
  std::int64_t runs = 0;
};

// Sessions of a dynamic network's networks on one kind of device, opened when they are needed. For one thread at a time.
//
// A model that no single network can be, because data decides shapes or how often something runs, is run in parts: the nodes
// before the one that decides are a network; that node is computed on the host by its definition, or, where it is an If or a
// Loop, the branch that is taken, or the body as often as it runs, is a network; and so on with the nodes behind it. What
// comes behind such a node and has no product is computed on the host, so that it need not be compiled for each shape that
// comes. A Loop whose trip count an input decides is written out for up to 16 iterations. placement() says what ran where.
class DynamicSession {
 public:
  // `sessions_max` at least 1: so many are open at once.
  static Result<DynamicSession> open(DynamicNetwork network, const SessionOptions& options = {},
                                     std::int64_t sessions_max = 4);
  // Inputs in the order of DynamicNetwork::inputs().
  Result<RunResult> run(const std::vector<Tensor>& inputs);
  // That of the last run, whose outputs are the result's; nothing before the first one, and for a run in parts.
  std::optional<Network> network() const;
  // Of the last run: its network, or those of its parts, in the order in which they first ran. None before the first run.
  std::vector<NetworkRuns> networks() const;
  const std::vector<std::string>& output_names() const;  // of the last run
  // Of the last run, of all parts together; a note says where it was taken apart.
  const Placement& placement() const;
  const DynamicNetwork& dynamic_network() const;  // that it was opened on
  Status usable() const;  // kUnavailable in a process that was forked off after the opening

  // Internal: that of the last run; null before the first one, and behind a run in parts.
  Session* session() const;

 private:
  struct State;
  explicit DynamicSession(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

}  // namespace tessera
