#include "device/cards_apart.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/field_bytes.h"
#include "card/card.h"
#include "device/host_steps.h"
#include "device/network_dram.h"
#include "device/segment_use.h"
#include "device/tensor_places.h"
#include "package/sha256.h"

namespace tessera::device {
namespace {

using card::ByteRun;
using card::Card;
using card::CardStatistics;

// A process's part of a segment: statistics, and what its cards wrote of tensors that the host reads.
void part(auto& way, auto& statistics, auto& tensors) { way(statistics), way(tensors); }

std::string digest_of(const isa::CardProgram& program) {
  std::vector<std::span<const std::byte>> pieces;
  for (const isa::Program& core : program.cores) pieces.emplace_back(core.stream);
  return package::sha256_text(package::sha256(pieces));
}

}  // namespace

struct ApartNetwork::State {
  ChipConfig chip;
  CardsApart apart;
  CardNetwork network;
  std::vector<std::byte> weights;
  std::unique_ptr<Card> card;
  // Of each segment: by process, the bytes that the host may read and the process's cards write in it.
  std::vector<std::vector<std::vector<ByteRun>>> written;

  std::size_t segments() const { return network.first().segments.size(); }
  const std::vector<ByteRun>& runs(std::size_t segment, std::size_t process) const {
    return written[segment][process];
  }
  // What the host writes before a segment.
  std::vector<const isa::TensorSlot*> host_slots(std::size_t segment) const;
  void find_written();
  Result<std::vector<std::byte>> host_bytes(std::size_t segment) const;
  Status put_host_bytes(std::size_t segment, std::span<const std::byte> bytes);
};

std::vector<const isa::TensorSlot*> ApartNetwork::State::host_slots(std::size_t segment) const {
  std::vector<const isa::TensorSlot*> slots;
  if (segment == 0) {
    for (const isa::TensorSlot& slot : network.first().inputs) slots.push_back(&slot);
    return slots;
  }
  for (const OpenStep& step : network.host_steps[segment - 1]) {
    for (const isa::TensorSlot& slot : step.outputs) slots.push_back(&slot);
  }
  return slots;
}

void ApartNetwork::State::find_written() {
  std::vector<Card::TensorPlace> places;
  const auto add = [&places](const isa::TensorSlot& slot) {
    places.push_back({slot.address, slot_bytes(slot)});
  };
  for (std::size_t segment = segments(); segment-- > 0;) {
    if (segment + 1 == segments()) {
      for (const isa::TensorSlot& slot : network.first().outputs) add(slot);
    }
    for (const OpenStep& step : network.host_steps[segment]) {
      for (const isa::TensorSlot& slot : step.inputs) add(slot);
    }
    written.push_back(card->written_by(segment, places));
  }
  std::ranges::reverse(written);
}

Result<std::vector<std::byte>> ApartNetwork::State::host_bytes(std::size_t segment) const {
  std::vector<std::byte> bytes;
  for (const isa::TensorSlot* slot : host_slots(segment)) {
    const std::size_t begin = bytes.size();
    bytes.resize(begin + static_cast<std::size_t>(slot_bytes(*slot)));
    TESSERA_RETURN_IF_ERROR(card->read(slot->address, std::span(bytes).subspan(begin)));
  }
  return bytes;
}

Status ApartNetwork::State::put_host_bytes(std::size_t segment, std::span<const std::byte> bytes) {
  std::size_t wanted = 0;
  for (const isa::TensorSlot* slot : host_slots(segment)) {
    const auto size = static_cast<std::size_t>(slot_bytes(*slot));
    wanted += size;
    if (wanted > bytes.size()) break;
    TESSERA_RETURN_IF_ERROR(card->write(slot->address, bytes.subspan(wanted - size, size)));
  }
  if (wanted == bytes.size()) return {};
  return Error{ErrorCode::kInvalidModel,
               fmt::format("{} bytes came of the host's tensors, which have {} or more",
                           bytes.size(), wanted)};
}

ApartNetwork::ApartNetwork(std::unique_ptr<State> state) : state_(std::move(state)) {}
ApartNetwork::~ApartNetwork() = default;

Result<std::unique_ptr<ApartNetwork>> ApartNetwork::load(
    const std::shared_ptr<const NetworkState>& network, const ChipConfig& chip,
    const CardsApart& apart) {
  auto state = std::make_unique<State>();
  state->chip = chip;
  state->apart = apart;
  TESSERA_TRY(const CardPlacement placement, spread_cores(chip, apart.cards, apart.cores));
  if (apart.images > 1 && apart.cores % apart.images != 0) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{} images at once on {} cores; the images divide the cores",
                             apart.images, apart.cores)};
  }
  const int of_team = apart.images > 1 ? apart.cores / apart.images : 0;
  TESSERA_TRY(state->network, compile_for_card(*network, chip, placement, apart.split, of_team));
  TESSERA_TRY(state->card, Card::create(chip, placement, apart.here));
  // Cards refer to the program and its weights, which stay where they are.
  TESSERA_RETURN_IF_ERROR(
      state->card->load(state->network.program, state->network.first().weights));
  if (apart.here.peers != nullptr) state->find_written();
  std::unique_ptr<ApartNetwork> made(new ApartNetwork(std::move(state)));
  made->name = network->path;
  made->inputs = made->state_->network.inputs();
  made->outputs = made->state_->network.outputs();
  made->digest_ = digest_of(made->state_->network.program);
  return made;
}

namespace {

card::CoreOptions core_options(const ApartOptions& options) {
  card::CoreOptions of_cores;
  of_cores.timing_only = options.timing_only;
  of_cores.trace = options.trace;
  of_cores.traps = options.traps;
  return of_cores;
}

}  // namespace

Result<std::vector<std::byte>> ApartNetwork::run(std::size_t segment, const ApartOptions& options,
                                                 std::span<const std::byte> host_bytes) {
  State& state = *state_;
  if (segment >= state.segments() || state.apart.here.peers == nullptr) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("segment {}, of {}", segment, state.segments())};
  }
  if (!options.timing_only) TESSERA_RETURN_IF_ERROR(state.put_host_bytes(segment, host_bytes));
  TESSERA_TRY(const CardStatistics statistics,
              state.card->run_segment(segment, core_options(options)));
  std::vector<std::byte> tensors;
  if (!options.timing_only) {
    tensors = state.card->read_runs(
        state.runs(segment, static_cast<std::size_t>(state.apart.here.process)));
  }
  FieldsOut out;
  const std::vector<std::byte> encoded = card::encode_statistics(statistics);
  part(out, encoded, tensors);
  return std::move(out.bytes);
}

Status ApartNetwork::lead_segment(std::size_t segment, CardOthers& others,
                                  const ApartOptions& options, RunResult& result) {
  State& state = *state_;
  std::vector<std::byte> given;
  const bool is_apart = state.apart.here.peers != nullptr;
  if (is_apart && !options.timing_only) {
    TESSERA_TRY(given, state.host_bytes(segment));
  }
  if (is_apart) TESSERA_RETURN_IF_ERROR(others.begin(segment, options, given));
  auto statistics = state.card->run_segment(segment, core_options(options));
  if (is_apart) {
    const auto came = others.end();
    // The own error says who is missing.
    if (!statistics.ok()) return statistics.error();
    if (!came.ok()) return came.error();
    for (std::size_t process = 0; process < came->size(); ++process) {
      if (static_cast<int>(process) == state.apart.here.process) continue;
      FieldsIn in((*came)[process]);
      std::vector<std::byte> encoded, tensors;
      part(in, encoded, tensors);
      if (!in.ok || !in.at_end()) {
        return Error{ErrorCode::kInvalidModel, "another process's part of a run is damaged"};
      }
      TESSERA_TRY(const CardStatistics its, card::parse_statistics(encoded));
      TESSERA_RETURN_IF_ERROR(
          card::check_statistics(its, state.network.program, segment, statistics->shared.size()));
      state.card->add_statistics(static_cast<int>(process), its, *statistics);
      if (options.timing_only) continue;
      TESSERA_RETURN_IF_ERROR(state.card->write_runs(state.runs(segment, process), tensors));
    }
  }
  if (!statistics.ok()) return statistics.error();
  add_card_segment(state.network.program, segment, *statistics, result);
  if (options.timing_only) return {};
  CardDram dram(*state.card);
  for (const OpenStep& step : state.network.host_steps[segment]) {
    TESSERA_RETURN_IF_ERROR(run_step(dram, step));
  }
  return {};
}

Result<RunResult> ApartNetwork::lead(CardOthers& others, const RunViews* views,
                                     const ApartOptions& options) {
  State& state = *state_;
  ApartOptions of_run = options;
  of_run.timing_only = of_run.timing_only || views == nullptr;
  const isa::Program& first = state.network.first();
  CardDram dram(*state.card);
  if (!of_run.timing_only) {
    TESSERA_RETURN_IF_ERROR(
        place_tensors(dram, first.inputs, views->inputs, false, TensorRole::kInput));
  }
  RunResult result = state.network.begin_result(state.chip);
  result.images = state.apart.images;
  for (std::size_t segment = 0; segment < state.segments(); ++segment) {
    TESSERA_RETURN_IF_ERROR(lead_segment(segment, others, of_run, result));
  }
  if (of_run.timing_only) return result;
  for (std::size_t i = 0; i < first.outputs.size(); ++i) {
    TESSERA_RETURN_IF_ERROR(dram.read(first.outputs[i].address, views->outputs[i]));
  }
  return result;
}

}  // namespace tessera::device
