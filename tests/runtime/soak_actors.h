// The users of the runtime in the soak: each actor is a thread that does at random what an
// application may do, and knows what has to come of it.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "soak_world.h"

namespace tessera::soak {

struct Actor {
  std::string name;
  // Until `stop`; then it waits for all that it began.
  std::function<void(const std::atomic<bool>& stop, std::uint64_t seed)> act;
  // For the watchdog; shared with it.
  std::shared_ptr<std::atomic<bool>> acting = std::make_shared<std::atomic<bool>>(false);
};

// Tasks of tensors through a stream: several runs, deadlines, cancels, skipped stages, stages and
// callbacks that throw, results waited for or called back.
Actor stream_actor(World& world, Lane& lane, StreamOptions options);
// Three networks in sequence on blocks of a device, which are used again at once.
Actor chain_actor(World& world, std::vector<Lane*> lanes, std::string device);
// Single layers of a network, in sequence, each a task.
Actor layers_actor(World& world, std::string device);
// A stream that hands on a state.
Actor state_actor(World& world, std::string device);
// Opens pipelines and runtimes, and releases them with tasks inside.
Actor visitor(World& world);
// Changes threads, kernels, tuning and debugging while tasks flow, and looks at everything.
Actor tinkerer(World& world);

// What actors share.
void sleep_some(Random& random, std::uint64_t most_us);
// A deadline or a priority now and then.
SubmitOptions some_options(Random& random, TaskRecord& record);
// Submits, and opens its line in the books. No job: it was refused.
std::optional<Job> submitted(World& world, Lane& lane, TaskRecord& record,
                             const std::function<Result<Job>()>& submit);

}  // namespace tessera::soak
