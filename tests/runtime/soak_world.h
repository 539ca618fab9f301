// The devices, networks and pipelines of the soak.
//
//   quick, middle, slow, spare (scripted)     numbers: 8 bytes to 8 bytes [pre|before|execute|...]
//   host, sim (real)                          a convolution and tanh          [pre|execute|post]
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "scripted_runtime.h"
#include "soak_faults.h"
#include "soak_ledger.h"

namespace tessera::soak {

using Random = std::mt19937_64;
// True once in this number.
inline bool once_in(Random& random, std::uint64_t count) { return random() % count == 0; }

// A network whose output is again an input, and what comes of each input when it has run so often.
class Workload {
 public:
  virtual ~Workload() = default;
  virtual const Network& network() const = 0;
  virtual Tensor input(std::uint64_t which) const = 0;
  virtual bool is_after(std::uint64_t which, int depth, std::span<const std::byte> bytes) const = 0;
  const TensorDescription& form() const { return network().inputs()[0]; }
};
std::unique_ptr<Workload> numbers_workload();
std::unique_ptr<Workload> convolution_workload();

// A network with a state: two numbers to two numbers.
struct Stateful {
  std::uint64_t result = 0, state = 0;
};
Stateful stateful_of(std::uint64_t input, std::uint64_t state);
Network stateful_network();

// A pipeline, and what its tasks came to.
struct Lane {
  Lane(std::string name, Pipeline pipeline, const Workload* work)
      : name(std::move(name)), pipeline(std::move(pipeline)), work(work) {}
  const std::string name;
  Pipeline pipeline;
  const Workload* const work;  // null: the stateful network
  bool has_own_stages = false;
  int depth = 1;  // execute stages
  Tally tally;
};

struct LanePlan {
  std::string name;
  const Workload* work = nullptr;
  std::vector<std::string> devices;
  bool own_stages = false;  // `before` and `after`, which do as they are ordered
  bool execute_only = false;
  bool operations = false;  // single layers, in place of the above
  int depth = 1;
  PipelineOptions options = {};
};

class World {
 public:
  World(std::uint64_t seed, Ledger& ledger);

  Lane& lane(const std::string& name) { return *lanes_.at(name); }
  const std::map<std::string, std::unique_ptr<Lane>>& lanes() const { return lanes_; }
  // Null where the library refused, for want of memory.
  std::unique_ptr<Lane> open(const LanePlan& plan);
  Memory open_memory(const std::string& device);
  const Workload& numbers() const { return *numbers_; }
  Ledger& ledger() { return ledger_; }

  std::deque<DeviceTrouble>& troubles() { return troubles_; }
  DeviceTrouble& trouble(const std::string& device);
  runtime::DeviceEntry& entry(const std::string& device);
  // By itself, whatever other devices do.
  Lane& probe(const std::string& device) { return *probes_.at(device); }
  // What a device has of its memory when nothing uses any.
  Bytes memory_at_rest(const std::string& device) const { return at_rest_.at(device); }

 private:
  void add_scripted(device::ScriptedOptions options, std::int64_t least_ns, std::int64_t most_ns);
  void add_real(DeviceKind kind, const std::string& name, int kernels);
  void add_lane(const LanePlan& plan);
  void add_lanes();
  Model model_of(const Workload* work) const;

  const std::uint64_t seed_;
  Ledger& ledger_;
  std::unique_ptr<Workload> numbers_ = numbers_workload(), convolution_ = convolution_workload();
  std::deque<DeviceTrouble> troubles_;            // outlive the devices
  std::shared_ptr<runtime::RuntimeState> state_;  // shared with what is opened from it
  std::map<const Workload*, std::shared_ptr<runtime::ModelState>> models_;
  std::map<std::string, std::unique_ptr<Lane>> lanes_, probes_;
  std::map<std::string, Bytes> at_rest_;
};

}  // namespace tessera::soak
