// A case of the published tables of a card of cores: a network on so many cores of so many cards, as ours
// or as plainer cards do it, and what a run of it gives.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "arch/card_config.h"
#include "base/quantity.h"
#include "base/result.h"

namespace tessera::repro {

// On cards of the architecture cloud16.
struct CardCase {
  std::string network;       // of the zoo
  int cores = 1, cards = 1;  // cores of all cards together
  int team = 0;              // cores that have an image together; divides `cores`; 0: all of them
  std::int32_t gigabits_per_second = 100;  // of the network between cards
  CardFeatures features = {};
  // A team of one core sends the results of each layer through its memory, as larger ones do; otherwise it
  // keeps them in its state buffer where that holds them.
  bool through_memory = false;
  bool eight_bits = false;  // data and weights; otherwise 16

  // Cases with the same text have one program, or are the same.
  std::string program_key() const;
  std::string key() const;
};

// Timing alone. Shares are of the cycles, from 0 to 1.
struct CardRun {
  Cycles cycles = 0;  // until the last image is there; all begin at once
  std::int64_t images = 1;
  std::int64_t clock_hertz = 1;
  std::int64_t dram_bytes = 0;               // read and written, whole bursts, of all channels
  std::int64_t ring_bytes = 0;               // on the wires, headers included, of all links
  std::int64_t network_bytes = 0;            // likewise, sent by all cards
  double array_share = 0, planar_share = 0;  // of the engines of a core, on average: busy
  double dram_share = 0, network_share = 0;  // of a channel on average; of the busiest port
  double dram_bytes_per_cycle = 1;           // of all channels of the cards, refreshes taken off
  // What no order of the work can pass by: all products on all arrays of the cores; weights once, inputs
  // and outputs at the speed of all channels.
  double arithmetic_cycles = 0, memory_cycles = 0;

  double cycles_of_image() const {
    return static_cast<double>(cycles) / static_cast<double>(images);
  }
  double milliseconds() const {
    return 1e3 * static_cast<double>(cycles) / static_cast<double>(clock_hertz);
  }
  double images_per_second() const { return static_cast<double>(clock_hertz) / cycles_of_image(); }
  // Of 1: how much of the run no order of the work could spare.
  double of_bound() const {
    const double bound = arithmetic_cycles > memory_cycles ? arithmetic_cycles : memory_cycles;
    return bound / static_cast<double>(cycles);
  }
};

// Compiles the cases and runs them; the results in their order. An error names the case.
using CardRunner = std::function<Result<std::vector<CardRun>>(std::span<const CardCase>)>;

}  // namespace tessera::repro
