// Runs a dynamic network in parts (network/dynamic_state.h):
//
//   values ─► piece before the node ─► the node ─► piece behind it ─► values
//             (a DynamicSession)       │            (a DynamicSession, which may come in parts again)
//                                      ├─ If, Loop: sessions of the branch, or the body
//                                      └─ any other operator: its definition (model/evaluate.h)
//
// Values are tensors by the names that the model gives them.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/model.h"
#include "network/dynamic_state.h"
#include "tessera/dynamic_network.h"

namespace tessera::runtime {

// A loop's counter or condition in the shape that its body declares for it: a scalar, or one element.
Tensor trip_value(Format format, std::int64_t value, const model::ValueInfo& declared);

// For one thread at a time.
class PartRunner {
 public:
  PartRunner(DynamicNetwork network, SessionOptions options, std::int64_t sessions_max)
      : network_(std::move(network)), options_(std::move(options)), sessions_max_(sessions_max) {}

  // Inputs in the order of the network's. The error has the reason why there is no single network behind it.
  Result<RunResult> run(const DynamicNetworkState::Stop& stop, const std::vector<Tensor>& inputs);
  // All nodes by their definition; of a network that says so.
  Result<RunResult> run_by_definition(const std::vector<Tensor>& inputs);

  const Placement& placement() const { return placement_; }               // of the last run
  const std::vector<NetworkRuns>& networks() const { return networks_; }  // likewise

 private:
  using Values = std::map<std::string, Tensor>;

  const DynamicNetworkState& state() const { return network_.state(); }
  void begin(const std::vector<Tensor>& inputs);
  Result<const Tensor*> value(const std::string& name) const;
  Format format_of(const std::string& name) const;
  Result<bool> truth(const std::string& name) const;
  // The session of a piece by its name.
  Result<DynamicSession*> session_of(const std::string& name, DynamicNetworkState::Place place,
                                     const std::function<model::Model()>& make);
  // The session's inputs that are not in `own` are values of the model.
  Result<std::vector<Tensor>> run_piece(DynamicSession& session, const Values& own,
                                        std::size_t outputs);
  Status run_nodes(std::size_t begin, std::size_t end, DynamicNetworkState::Place place);
  Status run_node(const model::Node& node, const std::string& reason);
  Status run_if(const model::Node& node);
  // A loop and how far it is.
  struct Loop {
    const model::Subgraph* body = nullptr;
    std::optional<std::int64_t> trips = {};
    bool conditional = false, going = true;
    std::vector<Tensor> carried = {};
    std::vector<std::vector<Tensor>> slices = {};  // of each output that is stacked
    // Behind the first trip, where the body is one network and stays the same: its session, and the places of the carried
    // values that stay on its device; `carried` of those is stale.
    Session* on_device = nullptr;
    std::optional<Network> network = {};
    std::vector<std::size_t> states = {};
  };
  Result<Loop> loop_of(const model::Node& node) const;
  model::Model body_of(const Loop& loop) const;
  Status iterate(DynamicSession& session, std::int64_t iteration, Loop& loop);
  Status run_trips(DynamicSession& session, const std::string& name, Loop& loop);
  Status run_loop(const model::Node& node);
  // Carried values on the device (loop_states.cc).
  void keep_on_device(DynamicSession& session, const std::string& name, Loop& loop);
  Status iterate_on_device(std::int64_t iteration, Loop& loop);
  Status take_from_device(Loop& loop);
  Status take_results(std::vector<Tensor> outputs, Loop& loop) const;
  Status evaluate(const model::Node& node, const std::string& reason);
  Status define(const model::Node& node, std::vector<Tensor> outputs);
  void add(const RunResult& run);
  void count(const std::vector<NetworkRuns>& ran);
  Result<RunResult> finish();

  DynamicNetwork network_;
  SessionOptions options_;
  std::int64_t sessions_max_;
  std::map<std::string, DynamicSession> sessions_;
  Values values_;
  RunResult total_;
  Placement placement_;
  std::vector<NetworkRuns> networks_;
  std::map<std::string, Placement> placements_;  // of the pieces that ran
};

}  // namespace tessera::runtime
