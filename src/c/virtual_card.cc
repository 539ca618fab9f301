// Tenants of a virtual card, in the C interface.
#include <algorithm>

#include "c/handles.h"

using namespace tessera::c;  // NOLINT: the C functions stand in no namespace

namespace tessera::c {
namespace {

constexpr std::size_t kCoreNumbersMax = 4096;  // more than any card has

Result<std::vector<int>> core_numbers_of(const int* numbers, std::size_t count) {
  TESSERA_RETURN_IF_ERROR(check_array(numbers, count, "core_numbers"));
  TESSERA_RETURN_IF_ERROR(check_count(count, kCoreNumbersMax, "core_numbers"));
  return std::vector<int>(numbers, numbers + count);
}

Result<VirtualProcessor> take(const VirtualCard& card, const tessera_processor_options* options) {
  TESSERA_TRY(const tessera_processor_options given, sized(options));
  VirtualProcessorOptions wanted;
  wanted.name = text_of(given.name);
  if (given.cores != 0) wanted.cores = given.cores;
  TESSERA_TRY(wanted.core_numbers, core_numbers_of(given.core_numbers, given.core_count));
  wanted.memory_bytes = given.memory_bytes;
  if (given.weight != 0) wanted.weight = given.weight;
  return card.take(wanted);
}

tessera_processor_status status_of(const ProcessorStatus& of) {
  return {.size = sizeof(tessera_processor_status),
          .cores = static_cast<int>(of.cores.size()),
          .memory_bytes = of.memory_bytes,
          .weight = of.weight,
          .running = of.running,
          .runs = of.runs,
          .failures = of.failures,
          .last_run_cycles = of.last_run_cycles,
          .last_run_images = of.last_run_images,
          .changes = of.changes,
          .cleared_bytes = of.cleared_bytes,
          .cleared_cycles = of.cleared_cycles};
}

}  // namespace
}  // namespace tessera::c

extern "C" {

tessera_error* tessera_card_open(const char* arch, int cards, tessera_card** card) {
  if (card == nullptr) return is_null("card");
  *card = nullptr;
  return guarded([&] {
    return hand_over(
        tessera::VirtualCard::open(arch == nullptr ? "cloud16" : arch, cards == 0 ? 1 : cards),
        card);
  });
}

void tessera_card_release(tessera_card* card) { delete card; }

tessera_error* tessera_card_take(const tessera_card* card, const tessera_processor_options* options,
                                 tessera_processor** processor) {
  if (processor == nullptr) return is_null("processor");
  *processor = nullptr;
  if (card == nullptr) return is_null("card");
  return guarded([&] { return hand_over(take(card->card, options), processor); });
}

void tessera_processor_release(tessera_processor* processor) { delete processor; }

tessera_error* tessera_processor_resize(const tessera_processor* processor, int cores) {
  if (processor == nullptr) return is_null("processor");
  return guarded([&] { return make_error(processor->processor.resize(cores)); });
}

tessera_error* tessera_processor_move(const tessera_processor* processor, const int* core_numbers,
                                      size_t core_count) {
  if (processor == nullptr) return is_null("processor");
  return guarded([&]() -> tessera_error* {
    auto cores = core_numbers_of(core_numbers, core_count);
    if (!cores.ok()) return make_error(cores.error());
    return make_error(processor->processor.move(std::move(*cores)));
  });
}

tessera_error* tessera_processor_status_get(const tessera_processor* processor,
                                            tessera_processor_status* status) {
  if (processor == nullptr) return is_null("processor");
  if (status == nullptr) return is_null("status");
  return guarded(
      [&] { return make_error(fill(status_of(processor->processor.status()), status)); });
}

tessera_error* tessera_processor_cores(const tessera_processor* processor, int* core_numbers,
                                       size_t room, size_t* core_count) {
  if (core_count == nullptr) return is_null("core_count");
  *core_count = 0;
  if (processor == nullptr) return is_null("processor");
  return guarded([&]() -> tessera_error* {
    const tessera::Status given = check_array(core_numbers, room, "core_numbers");
    if (!given.ok()) return make_error(given);
    const std::vector<int> cores = processor->processor.status().cores;
    std::copy_n(cores.begin(), std::min(room, cores.size()), core_numbers);
    *core_count = cores.size();
    return nullptr;
  });
}

}  // extern "C"
