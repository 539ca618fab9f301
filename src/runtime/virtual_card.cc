#include "tessera/virtual_card.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "arch/architecture_file.h"
#include "base/guarded.h"
#include "device/virtual_card.h"
#include "tessera/session.h"

namespace tessera {
namespace {

Error no_processor() {
  return {ErrorCode::kInvalidArgument,
          "an empty virtual processor; take one of a virtual card (VirtualCard::take)"};
}

}  // namespace

// ---- handles ----

const std::string& VirtualProcessor::name() const {
  static const std::string none;
  return state_ == nullptr ? none : state_->name();
}

ProcessorStatus VirtualProcessor::status() const {
  return state_ == nullptr ? ProcessorStatus{} : state_->status();
}

Status VirtualProcessor::resize(int cores) const {
  return guarded("giving a virtual processor other cores", [&]() -> Status {
    return state_ == nullptr ? Status(no_processor()) : state_->resize(cores);
  });
}

Status VirtualProcessor::move(std::vector<int> core_numbers) const {
  return guarded("giving a virtual processor other cores", [&]() -> Status {
    return state_ == nullptr ? Status(no_processor()) : state_->move(std::move(core_numbers));
  });
}

Result<VirtualCard> VirtualCard::open(const std::string& arch, int cards) {
  return guarded("opening a virtual card", [&]() -> Result<VirtualCard> {
    TESSERA_TRY(const ChipConfig chip, load_chip_config(arch));
    TESSERA_TRY(auto state, device::VirtualCard::create(chip, cards));
    return VirtualCard(std::move(state));
  });
}

Result<VirtualProcessor> VirtualCard::take(const VirtualProcessorOptions& options) const {
  return guarded("taking a virtual processor", [&]() -> Result<VirtualProcessor> {
    TESSERA_TRY(auto state, state_->take({.name = options.name,
                                          .cores = options.cores,
                                          .core_numbers = options.core_numbers,
                                          .memory_bytes = options.memory_bytes,
                                          .weight = options.weight}));
    return VirtualProcessor(std::move(state));
  });
}

CardStatus VirtualCard::status() const { return state_->status(); }

// ---- several tenants at once ----

namespace {

Status check_together(std::span<const TogetherRuns> runs) {
  std::vector<const device::VirtualProcessor*> processors;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto wrong = [&](const char* what) {
      return Error{ErrorCode::kInvalidArgument, fmt::format("run {} of several: {}", i, what)};
    };
    if (runs[i].session == nullptr) return wrong("it has no session");
    TESSERA_RETURN_IF_ERROR(runs[i].session->usable());
    const auto& processor = runs[i].session->processor().state();
    if (processor == nullptr) {
      return wrong("its session is on no virtual processor (SessionOptions::processor)");
    }
    if (runs[i].times < 1) return wrong("it is to be made less than once");
    if (std::ranges::count(processors, processor.get()) > 0) {
      return wrong("its virtual processor has another one; give each one of its own");
    }
    if (!processors.empty() && processors[0]->card() != processor->card()) {
      return wrong("its virtual processor is on another card than the first one's");
    }
    processors.push_back(processor.get());
  }
  return {};
}

// Until everyone has made all of its runs, or failed.
void run_one(const TogetherRuns& of, std::atomic<std::size_t>& unfinished, TogetherResult& result) {
  bool finished = false;
  while (true) {
    auto run = of.session->run(of.inputs);
    if (!run.ok()) result.status = run.error();
    if (run.ok() && !finished) {
      result.cycles.push_back(run->card_end - run->card_begin);
      result.last = std::move(*run);
    }
    if (!finished && (!result.status.ok() || std::ssize(result.cycles) == of.times)) {
      finished = true;
      --unfinished;
    }
    if (!result.status.ok() || unfinished == 0) break;
  }
  // The clock goes on without it.
  of.session->processor().state()->set_in_step(false);
}

}  // namespace

Result<std::vector<TogetherResult>> run_together(std::span<const TogetherRuns> runs) {
  using Results = std::vector<TogetherResult>;
  return guarded("running tenants together", [&]() -> Result<Results> {
    TESSERA_RETURN_IF_ERROR(check_together(runs));
    Results results(runs.size());
    for (std::size_t i = 0; i < runs.size(); ++i) {
      results[i].cycles.reserve(static_cast<std::size_t>(runs[i].times));
    }
    std::atomic<std::size_t> unfinished = runs.size();
    for (const TogetherRuns& of : runs) of.session->processor().state()->set_in_step(true);
    std::vector<std::jthread> threads;
    threads.reserve(runs.size());
    std::size_t begun = 0;
    try {
      for (; begun < runs.size(); ++begun) {
        threads.emplace_back([&, i = begun] { run_one(runs[i], unfinished, results[i]); });
      }
    } catch (...) {  // the others do not wait for those that will not run
      for (std::size_t i = begun; i < runs.size(); ++i, --unfinished) {
        runs[i].session->processor().state()->set_in_step(false);
      }
      threads.clear();
      throw;
    }
    threads.clear();
    return results;
  });
}

}  // namespace tessera
