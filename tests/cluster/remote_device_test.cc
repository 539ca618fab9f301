// A processor of a cluster as a device: the bits, cycles and errors of a virtual processor of this process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "../runtime/card_models.h"
#include "arch/architecture_file.h"
#include "compile/testing/random_graph.h"
#include "link/link.h"
#include "local_cluster.h"
#include "model/testing/attention_model.h"
#include "network/network.h"
#include "network/prepared_cores.h"
#include "tessera/growing_pipeline.h"
#include "tessera/runtime.h"
#include "tessera/session.h"
#include "tessera/virtual_card.h"

namespace tessera {
namespace {

using nlohmann::json;
using testing::error_of;
using testing::LocalCluster;
using testing::network_with_host_step;
using testing::residual_network;
using testing::Sample;

// What one run cost, but for when it was.
void expect_equal(const RunResult& remote, const RunResult& local) {
  EXPECT_EQ(remote.cycles, local.cycles);
  EXPECT_EQ(remote.host_cycles, local.host_cycles);
  EXPECT_EQ(remote.transfer_cycles, local.transfer_cycles);
  EXPECT_EQ(remote.clock_hertz, local.clock_hertz);
  EXPECT_EQ(remote.card_end - remote.card_begin, local.card_end - local.card_begin);
  ASSERT_EQ(remote.engines.size(), local.engines.size());
  for (std::size_t i = 0; i < local.engines.size(); ++i) {
    EXPECT_EQ(remote.engines[i].name, local.engines[i].name);
    EXPECT_EQ(remote.engines[i].busy, local.engines[i].busy);
    EXPECT_EQ(remote.engines[i].idle, local.engines[i].idle);
    EXPECT_EQ(remote.engines[i].wire_bytes, local.engines[i].wire_bytes);
  }
  ASSERT_EQ(remote.layers.size(), local.layers.size());
  for (std::size_t i = 0; i < local.layers.size(); ++i) {
    EXPECT_EQ(remote.layers[i].name, local.layers[i].name);
    EXPECT_EQ(remote.layers[i].end, local.layers[i].end);
    EXPECT_EQ(remote.layers[i].split.movement, local.layers[i].split.movement);
  }
  ASSERT_EQ(remote.timeline.size(), local.timeline.size());
  for (std::size_t i = 0; i < local.timeline.size(); ++i) {
    EXPECT_EQ(remote.timeline[i].layer, local.timeline[i].layer);
    EXPECT_EQ(remote.timeline[i].begin, local.timeline[i].begin);
    EXPECT_EQ(remote.timeline[i].end, local.timeline[i].end);
    EXPECT_EQ(remote.timeline[i].bytes, local.timeline[i].bytes);
    EXPECT_EQ(remote.timeline[i].write, local.timeline[i].write);
    EXPECT_EQ(remote.timeline[i].core, local.timeline[i].core);
  }
  ASSERT_EQ(remote.cores.size(), local.cores.size());
  if (local.timeline.empty()) return;  // waits come with a trace alone
  ASSERT_EQ(remote.waits.size(), local.waits.size());
  for (std::size_t i = 0; i < local.waits.size(); ++i) {
    EXPECT_EQ(remote.waits[i].who, local.waits[i].who);
    EXPECT_EQ(remote.waits[i].what, local.waits[i].what);
    EXPECT_EQ(remote.waits[i].cycles, local.waits[i].cycles);
  }
}

TEST(RemoteDevice, HasTheBitsCyclesAndTimelineOfAVirtualProcessorHere) {
  const LocalCluster cluster;
  int turn = 0;
  for (const Sample& model : {Sample(residual_network(1, 24)), Sample(network_with_host_step())}) {
    const VirtualCard card = VirtualCard::open().value();
    Session local = testing::open(model, testing::take(card, {.cores = 4}), {.trace = true});
    auto remote = Session::open(
        model.network,
        {.trace = true, .cluster = cluster.address("cores=4&name=a" + std::to_string(turn++))});
    ASSERT_TRUE(remote.ok()) << remote.error().to_string();
    for (int run = 0; run < 2; ++run) {
      const auto there = remote->run(model.inputs);
      ASSERT_TRUE(there.ok()) << there.error().to_string();
      const RunResult here = local.run(model.inputs).value();
      EXPECT_TRUE(there->outputs == model.outputs);
      expect_equal(*there, here);
    }
  }
}

// Its package, linked for one core.
Network program_of(const Network& network) {
  const NetworkState& state = network.state();
  return network::network_from_program(link::link(state.package, state.chip).value(), "p", "")
      .value();
}

TEST(RemoteDevice, AProgramForOneCoreHasTheBitsAndCyclesThatItHasHere) {
  const LocalCluster cluster;
  int turn = 0;
  for (const Sample& model : {Sample(residual_network(1, 24)), Sample(network_with_host_step())}) {
    const Network program = program_of(model.network);
    const VirtualCard card = VirtualCard::open().value();
    Session here = Session::open(program, {.processor = testing::take(card, {.cores = 1})}).value();
    auto there =
        Session::open(program, {.cluster = cluster.address("name=p" + std::to_string(turn++))});
    ASSERT_TRUE(there.ok()) << there.error().to_string();
    const auto run = there->run(model.inputs);
    ASSERT_TRUE(run.ok()) << run.error().to_string();
    EXPECT_TRUE(run->outputs == model.outputs);
    EXPECT_EQ(run->cycles, here.run(model.inputs).value().cycles);
    EXPECT_EQ(run->layers.size(), program.state().program->hints.size());
  }
  const Network program = program_of(residual_network(1, 24));
  EXPECT_THAT(error_of(Session::open(program, {.cluster = cluster.address("cores=4&name=q")})),
              ::testing::HasSubstr("'p' is a program for one core, and here are 4; take one core, "
                                   "or give the package or the model"));
}

TEST(RemoteDevice, AProgramKeepsItsCoreWhenItIsToGetOthers) {
  const LocalCluster cluster;
  const Sample model(residual_network(1, 24));
  auto session = Session::open(program_of(model.network), {.cluster = cluster.address("name=p")});
  ASSERT_TRUE(session.ok()) << session.error().to_string();
  const auto refused = cluster.ask({{"call", "resize"}, {"alloc", "p"}, {"cores", 2}});
  EXPECT_THAT(error_of(refused), ::testing::HasSubstr("a program for one core"));
  const auto run = session->run(model.inputs);
  ASSERT_TRUE(run.ok()) << run.error().to_string();
  EXPECT_TRUE(run->outputs == model.outputs);
}

TEST(RemoteDevice, AcquiresAnewWhatWasGivenBackWhileItWasAway) {
  const LocalCluster cluster;
  const Sample model(residual_network(1, 24));
  auto session = Session::open(model.network, {.cluster = cluster.address("cores=2&name=a")});
  ASSERT_TRUE(session.ok()) << session.error().to_string();
  EXPECT_TRUE(session->run(model.inputs)->outputs == model.outputs);
  cluster.call({{"call", "release"}, {"alloc", "a"}});
  const auto again = session->run(model.inputs);
  ASSERT_TRUE(again.ok()) << again.error().to_string();
  EXPECT_TRUE(again->outputs == model.outputs);
  // What somebody else has allocated is not the device's to acquire.
  cluster.call({{"call", "acquire"}, {"name", "b"}, {"kept", true}, {"arch", "cloud16"}});
  auto guest = Session::open(model.network, {.cluster = cluster.address("alloc=b")});
  ASSERT_TRUE(guest.ok()) << guest.error().to_string();
  // Its cores may be said, and are what it has.
  EXPECT_EQ(error_of(Session::open(model.network, {.cluster = cluster.address("alloc=b&cores=1")})),
            "");
  EXPECT_EQ(error_of(Session::open(model.network, {.cluster = cluster.address("alloc=b&cores=5")})),
            "allocation 'b' has 1 cores, and cores=5 says otherwise; leave it out, or resize the "
            "allocation");
  cluster.call({{"call", "release"}, {"alloc", "b"}});
  EXPECT_THAT(error_of(guest->run(model.inputs)), ::testing::HasSubstr("has no allocation 'b'"));
}

// What a resize says of the program for the new cores; bits and cycles are those of a tenant that had them at once.
TEST(RemoteDevice, AnIdleOneKeepsItsPlaceWhenItsNodeGoes) {
  constexpr std::chrono::milliseconds kIdle{1500};
  LocalCluster cluster({.nodes = 2, .idle_limit = kIdle});
  cluster.wait_for_nodes(2);
  const Sample model(residual_network(1, 24));
  auto session = Session::open(model.network, {.cluster = cluster.address("cores=2&name=x")});
  ASSERT_TRUE(session.ok()) << session.error().to_string();
  const auto where = [&] { return cluster.call({{"call", "locate"}, {"alloc", "x"}}); };
  const std::string before = where()["node"];
  cluster.nodes[before == "n0" ? 0 : 1].reset();
  const auto last = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  json after = where();
  while (after["state"] != "placed" || after["node"] == before) {
    ASSERT_LT(std::chrono::steady_clock::now(), last) << after;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    after = where();
  }
  std::this_thread::sleep_for(2 * kIdle);
  EXPECT_EQ(where()["epoch"], after["epoch"]);
  EXPECT_TRUE(session->run(model.inputs)->outputs == model.outputs);
}

TEST(RemoteDevice, AResizeFillsInWhatThePackageHasAndMakesNothingTwice) {
  const LocalCluster cluster;
  const Sample model(residual_network(1, 24));
  const std::vector<network::CoreCount> counts = {{2, 1}, {4, 1}};
  const auto prepared = network::prepare_cores(model.network, counts, {});
  ASSERT_TRUE(prepared.ok()) << prepared.error().to_string();
  auto session = Session::open(*prepared, {.cluster = cluster.address("cores=4&name=a")});
  ASSERT_TRUE(session.ok()) << session.error().to_string();
  struct Step {
    int cores, compiled, filled_in, kept;
    bool perhaps_ahead = false;  // the node may have made it ready before
  };
  for (const Step& step : std::vector<Step>{{2, 0, 1, 0, true},  // the package has it
                                            {4, 0, 0, 1},
                                            {3, 1, 0, 0},  // the package has not
                                            {2, 0, 0, 1},
                                            {3, 0, 0, 1}}) {
    SCOPED_TRACE(step.cores);
    const json resized = cluster.call({{"call", "resize"}, {"alloc", "a"}, {"cores", step.cores}});
    const json made = {
        {"compiled", step.compiled}, {"filled_in", step.filled_in}, {"kept", step.kept}};
    const json ahead = {{"compiled", 0}, {"filled_in", 0}, {"kept", 1}};
    EXPECT_TRUE(resized["linked"] == made || (step.perhaps_ahead && resized["linked"] == ahead))
        << resized["linked"];
    const auto there = session->run(model.inputs);
    ASSERT_TRUE(there.ok()) << there.error().to_string();
    const VirtualCard card = VirtualCard::open().value();
    const auto here = testing::open(model, testing::take(card, {.core_numbers = resized["cores"]}))
                          .run(model.inputs);
    ASSERT_TRUE(here.ok()) << here.error().to_string();
    EXPECT_TRUE(there->outputs == model.outputs);
    expect_equal(*there, *here);
    EXPECT_EQ(there->cores.back().number, resized["cores"].back().get<int>());
  }
}

TEST(RemoteDevice, APackageGoesOverOnceForANode) {
  const LocalCluster cluster;
  const Sample model(residual_network(1, 24));
  for (const char* const name : {"name=a", "name=b"}) {
    auto session = Session::open(model.network, {.cluster = cluster.address(name)});
    ASSERT_TRUE(session.ok()) << session.error().to_string();
    EXPECT_TRUE(session->run(model.inputs)->outputs == model.outputs);
  }
}

TEST(RemoteDevice, RunsOfARuntimeAreOnTheirWayTogether) {
  const LocalCluster cluster({.nodes = 2});
  const Sample model(residual_network(3, 24));
  auto runtime = Runtime::open(
      {.devices = {{.kind = DeviceKind::kSim, .cluster = cluster.address("cores=2&in_flight=3")},
                   {.kind = DeviceKind::kSim, .cluster = cluster.address("cores=4")}}});
  ASSERT_TRUE(runtime.ok()) << runtime.error().to_string();
  auto loaded = runtime->load(model.network);
  ASSERT_TRUE(loaded.ok()) << loaded.error().to_string();
  auto pipeline = runtime->open_pipeline(*loaded).value();
  auto stream = pipeline.open_stream();
  std::vector<Job> jobs;
  for (int i = 0; i < 24; ++i) jobs.push_back(stream.submit(model.inputs).value());
  for (Job& job : jobs) {
    const TaskOutcome outcome = job.wait();
    ASSERT_TRUE(outcome.ok()) << outcome.error().error.to_string();
    EXPECT_TRUE(outcome.result().outputs() == model.outputs);
    EXPECT_GT(outcome.result().cycles, 0);
  }
}

TEST(RemoteDevice, ErrorsAreThoseOfAVirtualProcessorHere) {
  const LocalCluster cluster;
  const VirtualCard card = VirtualCard::open().value();
  const auto errors = [&](const Network& network, const SessionOptions& options,
                          const std::string& more) {
    SessionOptions of_local = options, of_remote = options;
    of_local.processor =
        testing::take(card, {.name = "a", .cores = 2, .memory_bytes = more.empty() ? 0 : 4096});
    of_remote.cluster = cluster.address("name=a&cores=2&arch=cloud16" + more);
    const auto outcome = [&](const SessionOptions& of) {
      auto session = Session::open(network, of);
      if (!session.ok()) return session.error().to_string();
      const auto run = session->run(Sample(network).inputs);
      return run.ok() ? std::string() : run.error().to_string();
    };
    const std::string here = outcome(of_local);
    EXPECT_EQ(outcome(of_remote), here);
    return here;
  };
  const Network small = residual_network(1, 24);
  // For another architecture; more memory than it has; images that do not divide the cores.
  EXPECT_THAT(errors(residual_network(1, 24, *load_chip_config("tessera128x4")), {}, ""),
              ::testing::HasSubstr("load it for that architecture"));
  EXPECT_THAT(errors(small, {}, "&memory=4096"), ::testing::HasSubstr("take more"));
  EXPECT_THAT(errors(small, {.cores_per_image = 3}, ""), ::testing::HasSubstr("cores an image"));
}

// Its first output may be the input of the next run.
Network recurrent_network() {
  compile::testing::GraphBuilder builder(5);
  const graph::TensorId x = builder.input({1, 8, 8, 8});
  const graph::TensorId next = builder.conv(x, {.output_channels = 8, .kernel = 3, .pad = 1});
  builder.output(next);
  builder.output(builder.pool(next, PoolFunction::kMaximum, 2, 2, 0));
  return network::network_from_graph(builder.take(), *load_chip_config("cloud16"), {}).value();
}

TEST(RemoteDevice, AStateStaysOnTheNode) {
  const LocalCluster cluster;
  const Sample model(recurrent_network());
  const VirtualCard card = VirtualCard::open().value();
  Session local = testing::open(model, testing::take(card, {.cores = 2}));
  auto remote = Session::open(model.network, {.cluster = cluster.address("cores=2")});
  ASSERT_TRUE(remote.ok()) << remote.error().to_string();
  const Status bound = local.bind_states({{.output = 0, .input = 0}});
  ASSERT_EQ(error_of(remote->bind_states({{.output = 0, .input = 0}})), error_of(bound));
  ASSERT_TRUE(bound.ok()) << bound.error().to_string();
  for (int run = 0; run < 7; ++run) {
    if (run == 3) {  // it begins anew
      const std::vector<StateBinding> again = {
          {.output = 0, .input = 0, .initial = model.inputs[0]}};
      ASSERT_TRUE(local.bind_states(again).ok());
      ASSERT_TRUE(remote->bind_states(again).ok());
    }
    const RunResult here = local.run({}).value();
    const auto there = remote->run({});
    ASSERT_TRUE(there.ok()) << there.error().to_string();
    EXPECT_TRUE(there->outputs == here.outputs);
    EXPECT_EQ(there->cycles, here.cycles);
  }
}

// They lie with the client and go over with each run; the bits are those of a session here.
TEST(RemoteDevice, StatesThatGrowHaveTheBitsOfASessionHere) {
  const LocalCluster cluster({.nodes = 2});
  const std::string path = ::testing::TempDir() + "remote_growing.onnx";
  std::ofstream(path, std::ios::binary) << model::testing::attention_model();
  GrowingOptions growing;
  growing.load.arch = "cloud16";
  growing.states = {{"past.k", "present.k"}, {"past.v", "present.v"}};
  growing.rows_max = 8;
  growing.capacity_min = 1;
  auto runtime = Runtime::open(
      {.devices = {
           {.kind = DeviceKind::kSim, .cluster = cluster.address("cores=1&in_flight=2&name=a")},
           {.kind = DeviceKind::kSim, .cluster = cluster.address("cores=1&name=b")}}});
  ASSERT_TRUE(runtime.ok()) << runtime.error().to_string();
  auto pipeline = runtime->open_pipeline(path, growing, {});
  ASSERT_TRUE(pipeline.ok()) << pipeline.error().to_string();
  auto session = GrowingSession::open(path, growing, {.device = DeviceKind::kHost});
  ASSERT_TRUE(session.ok()) << session.error().to_string();
  for (int s = 0; s < 2; ++s) {
    GrowingStream stream = pipeline->open_stream().value();
    ASSERT_TRUE(session->clear().ok());
    for (int step = 0; step < 11; ++step) {
      if (step == 5) {  // some are taken back
        ASSERT_TRUE(stream.keep_rows(2).ok());
        ASSERT_TRUE(session->keep_rows(2).ok());
      }
      const std::vector<Tensor> inputs = {
          model::testing::attention_token(step),
          model::testing::attention_mask(session->capacity(), session->rows() + 1)};
      Job job = stream.submit(inputs).value();
      const TaskOutcome outcome = job.wait();
      ASSERT_TRUE(outcome.ok()) << outcome.error().error.to_string();
      EXPECT_TRUE(outcome.result().outputs() == session->run(inputs)->outputs) << step;
    }
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace tessera
