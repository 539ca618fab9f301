// What is behind a DynamicNetwork: the model, the networks that were made of it, and its pieces where data decides what is
// computed.
//
//   model ─► infer() stops at node k (NonZero: the shape is data; a Loop whose trip count is)  ─►  in parts:
//
//     nodes before k ─► a dynamic network   │  node k: on the host, or its body as a dynamic network   │  nodes behind k ─► ...
//
// Each piece is a dynamic network of its own, which may come in parts again. src/runtime/part_runner.h runs them.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "arch/chip_config.h"
#include "graph/graph.h"
#include "model/model.h"
#include "network/package_cache.h"
#include "tessera/dynamic_network.h"

namespace tessera {

class DynamicNetworkState {
 public:
  // The place of a node of the model that data of the run decides, and the reason.
  struct Stop {
    std::size_t node = 0;
    Error reason;
  };
  // A network, or the place of one that is being made.
  struct Slot {
    std::string key;
    std::mutex making;
    std::shared_ptr<const NetworkState> network;  // with `making` held
    std::optional<Stop> stop;  // likewise: there is none, the model comes in parts
  };
  // One of the two.
  struct Made {
    std::optional<Network> network;
    std::optional<Stop> stop;
  };

  DynamicNetworkState(std::string of_path, DynamicOptions asked, ChipConfig of_chip,
                      model::Model of_model)
      : path(std::move(of_path)),
        options(std::move(asked)),
        chip(std::move(of_chip)),
        model(std::move(of_model)),
        cache(options.cache_folder, options.cache_bytes_max) {}

  // The inputs have passed check(), and are in their buckets.
  Result<Made> made_for(const std::vector<Tensor>& given);
  // The network of such inputs if it is there; nothing while it is made.
  std::optional<Network> kept_for(const std::vector<Tensor>& given);
  // A piece of this model, by a name that stands for it; `make` is called once. kByDefinition: where no node of it is a
  // product, and the host can compute them all.
  enum class Place : std::uint8_t { kNetwork, kByDefinition };
  Result<DynamicNetwork> piece(const std::string& name, Place place,
                               const std::function<model::Model()>& make);
  // All inputs of the model but those that the options settle. kUnsupported: one is no tensor.
  Status take_inputs();
  Status check(const std::vector<Tensor>& given) const;
  // In the shapes of their buckets. The inputs have passed check().
  Result<std::vector<Tensor>> in_buckets(std::vector<Tensor> given) const;

  const std::string path;
  const DynamicOptions options;
  const ChipConfig chip;
  const model::Model model;
  const network::PackageCache cache;
  std::vector<DeclaredShape> inputs;
  std::string digest;  // of model, architecture and options
  // The host computes it node by node, by definition: a piece without products whose shapes may be others in each run.
  bool by_definition = false;

  std::mutex mutex;                        // of what follows; not held while something is compiled
  std::list<std::shared_ptr<Slot>> slots;  // the last one used first
  std::set<std::string> deciding;
  DynamicCounters counters;
  std::map<std::string, DynamicNetwork> pieces;
  std::set<std::string>
      long_loops;  // whose trip counts inputs decide: written out for few iterations only

 private:
  std::string key_of(const std::vector<Tensor>& given);
  std::shared_ptr<Slot> slot_of(const std::string& key);
  void forget(const std::shared_ptr<Slot>& slot);
  LoadOptions options_for(const std::vector<Tensor>& given);
  struct Attempt {
    Result<std::shared_ptr<const graph::Graph>> graph;
    std::optional<std::size_t> node;
  };
  Attempt attempt(const LoadOptions& load);
  Result<Made> make(const std::vector<Tensor>& given);
  std::optional<Network> load_kept(const LoadOptions& load);
  bool bind(const std::vector<Tensor>& given, LoadOptions& load);
  std::string digest_of(const LoadOptions& load) const;
};

}  // namespace tessera
