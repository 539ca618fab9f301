// --cores, --cards and --split: several cores that run a network together. Every verb that knows them
// takes them from here.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"
#include "tessera/session.h"

namespace tessera::tools {

struct CoresArguments {
  int cores = 1, cards = 1;
  std::string split = "auto";  // auto, w or oc
  int cores_per_image = 0;     // 0: all of them

  void add_to(CLI::App& app);
  // --cores-per-image, of verbs that run several images at once.
  void add_images_to(CLI::App& app);
  bool several() const { return cores > 1 || cards > 1; }
  // Into the options of a session, or of a device.
  template <typename Options>
  void give_to(Options& options) const {
    options.cores = cores;
    options.cards = cards;
    options.split = core_split();
  }
  template <typename Options>
  void give_images_to(Options& options) const {
    give_to(options);
    options.cores_per_image = cores_per_image;
  }
  // That run at once, where cores_per_image divides the cores; else 1.
  int images() const {
    return cores_per_image > 0 && cores % cores_per_image == 0 ? cores / cores_per_image : 1;
  }
  CoreSplit core_split() const;
  // "cores", "cards", "split", where there are several.
  void add_to(nlohmann::json& document) const;
  // The first of them that is given, or null.
  const char* given() const;
  // An error where a card has no core, or cores_per_image does not divide the cores.
  Status check() const;
  // An error, where several cores are asked for, if `option` is not null: it is given, too.
  Status check_without(const char* option) const;
};

}  // namespace tessera::tools
