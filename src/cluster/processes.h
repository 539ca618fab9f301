// A master and a node as they run: server, agent and the thread that ticks. Several in one process make a cluster
// on loopback; as programs they are `tessera master` and `tessera node`.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "arch/chip_config.h"
#include "base/result.h"
#include "cluster/daemon_facts.h"
#include "cluster/master.h"
#include "cluster/messenger.h"
#include "cluster/node_agent.h"
#include "store/store.h"

namespace tessera::cluster {

struct RunningMasterOptions {
  std::string address = "127.0.0.1";
  int port = 0;
  std::string advertised = {};  // HOST or HOST:PORT that others reach it by; empty: the address
  MessengerOptions messenger = {};
  MasterOptions master = {};  // without its endpoint
  DaemonFacts facts = {};
};

class RunningMaster {
 public:
  // The store outlives it.
  static Result<std::unique_ptr<RunningMaster>> start(store::Store& store,
                                                      RunningMasterOptions options);
  virtual ~RunningMaster() = default;  // leaves: the next one leads at once
  virtual const std::string& endpoint() const = 0;
  virtual bool is_leading() const = 0;
};

struct RunningNodeOptions {
  std::string address = "127.0.0.1";
  int port = 0;
  std::string advertised = {};
  MessengerOptions messenger = {};
  // Who runs on this machine as the same user comes by shared memory, over a socket in this folder. Empty: by TCP.
  std::string shared_memory_folder = {};
  bool ucx = false;  // clients may come by UCX, too
  std::vector<ChipConfig> cards = {};
  NodeOptions node = {};  // without its endpoints, cards and figures
  // For measurements: a run of a network after its first takes the time that the processor would take, and outputs
  // have no values.
  bool is_timed = false;
  DaemonFacts facts = {};
};

class RunningNode {
 public:
  // The store outlives it.
  static Result<std::unique_ptr<RunningNode>> start(store::Store& store,
                                                    RunningNodeOptions options);
  virtual ~RunningNode() = default;  // gives up what it has
  virtual const std::string& endpoint() const = 0;
  virtual int port() const = 0;  // at which it listens
  virtual bool is_registered() const = 0;
  virtual bool is_id_taken() const = 0;  // why it is not registered, if so (NodeAgent)
};

}  // namespace tessera::cluster
