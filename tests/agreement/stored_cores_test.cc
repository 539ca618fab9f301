// Stored models on the cores of cards: the bits of one core, for every number of cores, split and feature of
// the card. TESSERA_TEST_WHOLE takes all of them on two processors, else each model has one, another than its
// neighbour, on one of the two.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "arch/architecture_file.h"
#include "base/test_volume.h"
#include "network/network.h"
#include "random_runs.h"
#include "tessera/session.h"

namespace tessera::agreement {
namespace {

namespace fs = std::filesystem;

constexpr int kCores[] = {2, 3, 4, 7, 8, 16, 32, 48, 64};
constexpr CoreSplit kSplits[] = {CoreSplit::kAuto, CoreSplit::kRows, CoreSplit::kChannels};

// All features; none; and each of them off by itself.
std::vector<CardFeatures> feature_sets() {
  CardFeatures none;
  std::vector<CardFeatures> sets = {{}};
  for (std::int32_t CardFeatures::* const feature :
       {&CardFeatures::merge, &CardFeatures::broadcast, &CardFeatures::forward,
        &CardFeatures::dynamic_bandwidth, &CardFeatures::needed_bytes_only,
        &CardFeatures::instruction_sync, &CardFeatures::loads_beside_arithmetic,
        &CardFeatures::hand_over}) {
    CardFeatures without;
    without.*feature = none.*feature = 0;
    sets.push_back(without);
  }
  sets.push_back(none);
  return sets;
}

struct OnCards {
  int cores = 2;
  CoreSplit split = CoreSplit::kAuto;
  std::size_t features = 0;
};

// Every number of cores that the cards have, with every split, with all features and with none; and
// with each feature off by itself, one by one.
std::vector<OnCards> cases(int cores_max, std::size_t feature_sets) {
  std::vector<OnCards> cases;
  std::size_t one_off = 0;
  for (const int cores : kCores) {
    if (cores > cores_max) break;
    for (const CoreSplit split : kSplits) {
      cases.push_back({cores, split, 0});
      cases.push_back({cores, split, feature_sets - 1});
      cases.push_back({cores, split, 1 + one_off++ % (feature_sets - 2)});
    }
  }
  return cases;
}

Result<std::vector<Tensor>> run(const Network& network, const std::vector<Tensor>& inputs,
                                const SessionOptions& options) {
  TESSERA_TRY(Session session, Session::open(network, options));
  TESSERA_TRY(RunResult result, session.run(inputs));
  return std::move(result.outputs);
}

std::vector<std::string> stored_models() {
  std::vector<std::string> names;
  std::error_code absent;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(fs::path(TESSERA_TEST_DATA) / "models", absent)) {
    if (entry.path().extension() == ".onnx") names.push_back(entry.path().stem().string());
  }
  std::ranges::sort(names);
  return names;
}

// A model of one time step has nothing to share out but its channels, and is among them all the same.
void check_model(const std::string& name, std::size_t number, const std::string& arch,
                 int cores_max) {
  const ChipConfig chip = *load_chip_config(arch);
  const int of_card = chip.card.groups * chip.card.cores_per_group;
  const std::string path = std::string(TESSERA_TEST_DATA) + "/models/" + name + ".onnx";
  const auto graph = network::load_graph(path, chip, {.arch = arch});
  ASSERT_TRUE(graph.ok()) << graph.error().to_string();
  const std::vector<Tensor> inputs = random_inputs(**graph, 1);
  const auto one = network::network_from_graph(*graph, chip, {.arch = arch});
  ASSERT_TRUE(one.ok()) << one.error().to_string();
  const auto expected = run(*one, inputs, {.device = DeviceKind::kSim});
  ASSERT_TRUE(expected.ok()) << expected.error().to_string();
  const std::vector<CardFeatures> features = feature_sets();
  std::map<std::size_t, Network> networks;  // by features, which packages are made for
  const std::vector<OnCards> all = cases(cores_max, features.size());
  const auto one_in = static_cast<std::size_t>(visit_one_in(static_cast<int>(all.size()), 200));
  for (std::size_t i = 0; i < all.size(); ++i) {
    if ((i + 7 * number) % one_in != 0) continue;
    const OnCards& on = all[i];
    SCOPED_TRACE(testing::Message() << name << " on " << arch << ", " << on.cores << " cores, "
                                    << core_split_name(on.split) << ", features " << on.features);
    if (!networks.contains(on.features)) {
      ChipConfig featured = chip;
      featured.card.features = features[on.features];
      auto network = network::network_from_graph(*graph, featured, {.arch = arch});
      ASSERT_TRUE(network.ok()) << network.error().to_string();
      networks.emplace(on.features, std::move(*network));
    }
    const auto found = run(networks.at(on.features), inputs,
                           {.device = DeviceKind::kSim,
                            .cores = on.cores,
                            .cards = (on.cores + of_card - 1) / of_card,
                            .split = on.split});
    ASSERT_TRUE(found.ok()) << found.error().to_string();
    EXPECT_TRUE(*found == *expected);
    std::printf("%s on %s, %d cores, %s, features %zu\n", name.c_str(), arch.c_str(), on.cores,
                core_split_name(on.split), on.features);
    std::fflush(stdout);
  }
}

// A model, and the processor whose cards it runs on.
struct OnProcessor {
  std::string model;
  std::string arch;
};

class StoredCores : public testing::TestWithParam<OnProcessor> {};

TEST_P(StoredCores, GiveTheBitsOfOne) {
  const std::vector<std::string> all = stored_models();
  const auto number =
      static_cast<std::size_t>(std::ranges::find(all, GetParam().model) - all.begin());
  const bool four_core_cards = GetParam().arch == "tessera128x4";
  if (visit_one_in(2, 2) != 1 && (number % 2 == 1) != four_core_cards) {
    GTEST_SKIP() << "this model runs on the other processor where not all are run";
  }
  check_model(GetParam().model, number + (four_core_cards ? 3 : 0), GetParam().arch, 64);
}

std::vector<OnProcessor> models_on_processors() {
  std::vector<OnProcessor> all;
  for (const std::string& model : stored_models()) {
    for (const char* arch : {"cloud16", "tessera128x4"}) all.push_back({model, arch});
  }
  return all;
}

TEST(StoredModels, AreThere) {
  if (stored_models().empty()) GTEST_SKIP() << "no models under " << TESSERA_TEST_DATA;
  EXPECT_GT(stored_models().size(), 0u);
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(StoredCores);
INSTANTIATE_TEST_SUITE_P(Stored, StoredCores, testing::ValuesIn(models_on_processors()),
                         [](const auto& info) {
                           return info.param.model + "_on_" + info.param.arch;
                         });

}  // namespace
}  // namespace tessera::agreement
