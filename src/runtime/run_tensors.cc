#include "runtime/run_tensors.h"

#include <algorithm>
#include <utility>

#include "base/process_mark.h"

namespace tessera::runtime {
namespace {

Bytes bytes_of(const TensorDescription& tensor) {
  return {element_count(tensor.dims) * format_bytes(tensor.format)};
}

bool is_shared(const RunOf& run) { return run.device.device().properties().shared_memory; }

RunValue* value_of(const RunOf& run, std::size_t input) {
  if (run.index >= run.packet.values.size()) return nullptr;
  RunValues& values = run.packet.values[run.index];
  return input < values.size() && values[input].present() ? &values[input] : nullptr;
}

// Memory of the host's, in place.
Status adopt(const RunOf& run, std::span<std::byte> bytes, std::shared_ptr<void> owner,
             RunTensors& tensors, RunTensors::Slot& slot) {
  std::vector<device::MemoryBlock>& adopted = tensors.adopted;
  if (adopted.size() == adopted.capacity()) adopted.reserve(2 * adopted.size() + 4);
  TESSERA_TRY(const device::MemoryBlock block, run.device.device().adopt(bytes, std::move(owner)));
  adopted.push_back(block);
  slot.address = block.base;
  slot.bytes = bytes;
  return {};
}

Status lay_out_input(const RunOf& run, std::size_t index, RunTensors& tensors) {
  RunTensors::Slot& slot = tensors.input_slots.emplace_back();
  RunValue* value = value_of(run, index);
  std::shared_ptr<void> owner = tensors.kept;
  if (value != nullptr && value->block != nullptr && value->block->stays &&
      &value->block->entry() != &run.device) {
    // It takes no memory there for as long as the run lasts.
    TESSERA_RETURN_IF_ERROR(gather(run.tensors()[index], *value));
    value = nullptr;
  }
  if (value == nullptr) {
    slot.bytes = run.tensors()[index].bytes;
  } else if (value->block == nullptr) {
    slot.bytes = value->view->bytes;
    owner = value->view->owner;
  } else {
    slot.block = value->block;
    if (&slot.block->entry() == &run.device) {
      slot.address = slot.block->address();
      return {};
    }
    TESSERA_RETURN_IF_ERROR(slot.block->to_host());
    slot.bytes = slot.block->block.host;
    owner = slot.block;
  }
  if (is_shared(run)) return adopt(run, slot.bytes, std::move(owner), tensors, slot);
  slot.own = true;
  return {};
}

Status lay_out_output(const RunOf& run, std::size_t index, RunTensors& tensors) {
  RunTensors::Slot& slot = tensors.output_slots.emplace_back();
  const TensorDescription& output = run.outputs()[index];
  const NetworkOutput* const wanted = run.wanted(index);
  std::shared_ptr<void> owner = tensors.kept;
  if (wanted != nullptr && wanted->block) {
    slot.block = wanted->block->state();
    if (&slot.block->entry() == &run.device) {
      slot.address = slot.block->address();
      return {};
    }
    slot.bytes = slot.block->block.host;
    owner = slot.block;
  } else if (wanted != nullptr && wanted->view) {
    slot.bytes = wanted->view->bytes;
    owner = wanted->view->owner;
  } else if (is_shared(run) && wanted == nullptr) {
    Tensor& result = tensors.results[index];
    result.bytes.resize(static_cast<std::size_t>(bytes_of(output).value));
    slot.bytes = result.bytes;
  }
  if (is_shared(run) && !slot.bytes.empty()) {
    return adopt(run, slot.bytes, std::move(owner), tensors, slot);
  }
  slot.own = true;
  return {};
}

// Own blocks, inputs before outputs; all or none.
Result<bool> take_memory(const RunOf& run, RunMemory::Waiter& who, RunTensors& tensors) {
  thread_local std::vector<Bytes> sizes;  // these keep their room
  thread_local std::vector<RunTensors::Slot*> slots;
  sizes.clear();
  slots.clear();
  const auto want = [](RunTensors::Slot& slot, Bytes bytes) {
    if (!slot.own) return;
    sizes.push_back(bytes);
    slots.push_back(&slot);
  };
  for (RunTensors::Slot& slot : tensors.input_slots) want(slot, Bytes{std::ssize(slot.bytes)});
  for (std::size_t i = 0; i < tensors.output_slots.size(); ++i) {
    want(tensors.output_slots[i], bytes_of(run.outputs()[i]));
  }
  if (sizes.empty()) return true;
  TESSERA_TRY(const bool taken, run.device.run_memory().take(who, sizes, tensors.blocks));
  if (!taken) return false;
  tensors.counted = true;
  for (std::size_t i = 0; i < slots.size(); ++i) slots[i]->address = tensors.blocks[i].base;
  return true;
}

// The output stays where it is, in a block.
Status keep_output(const RunOf& run, std::size_t index, RunTensors& tensors, RunValue& value) {
  RunTensors::Slot& slot = tensors.output_slots[index];
  auto memory = make_shared_here<MemoryState>(run.model.runtime, run.device);
  const auto mine =
      std::find_if(tensors.blocks.begin(), tensors.blocks.end(),
                   [&](const device::MemoryBlock& b) { return b.base == slot.address; });
  const device::MemoryBlock block = *mine;
  tensors.blocks.erase(mine);
  TESSERA_TRY(value.block, BlockState::take_over(std::move(memory), block, run.outputs()[index]));
  return {};
}

Status take_back_output(const RunOf& run, std::size_t index, RunTensors& tensors, RunValue& value,
                        const device::TransferTag& tag) {
  RunTensors::Slot& slot = tensors.output_slots[index];
  Tensor& tensor = run.tensors()[index];
  const NetworkOutput* const wanted = run.wanted(index);
  if (wanted != nullptr && wanted->keep) return keep_output(run, index, tensors, value);
  const bool stays = run.rules.stay(run.packet.header.skipped_stages) && wanted == nullptr &&
                     !run.packet.tensors_only && !is_shared(run);
  if (stays && !run.device.run_memory().is_short()) {
    TESSERA_RETURN_IF_ERROR(keep_output(run, index, tensors, value));
    value.block->stays = true;
    run.device.run_memory().stays();
    return {};
  }
  if (slot.own && slot.bytes.empty()) {
    tensor.bytes.resize(static_cast<std::size_t>(bytes_of(run.outputs()[index]).value));
    slot.bytes = tensor.bytes;
  } else if (wanted == nullptr) {
    tensor.bytes = std::move(tensors.results[index].bytes);
  }
  if (slot.own) {
    TESSERA_RETURN_IF_ERROR(run.device.device().read(slot.address, slot.bytes, tag));
  }
  if (slot.block != nullptr) {
    const bool here = &slot.block->entry() == &run.device;
    TESSERA_RETURN_IF_ERROR(here ? slot.block->ran() : slot.block->wrote());
    value.block = slot.block;
  } else if (wanted != nullptr && wanted->view) {
    value.view = wanted->view;
  }
  return {};
}

}  // namespace

const NetworkOutput* RunOf::wanted(std::size_t output) const {
  if (!rules.last(packet.header.skipped_stages) || packet.tensors_only || index != 0 ||
      output >= packet.outputs.size())
    return nullptr;
  const NetworkOutput& wanted = packet.outputs[output];
  if (wanted.keep) return &wanted;
  // In the application's form the output goes there when it has it.
  RunValue place;
  if (wanted.block) place.block = wanted.block->state();
  if (wanted.view) place.view = wanted.view;
  return place.fits(outputs()[output]) ? &wanted : nullptr;
}

DeviceEntry* home_of(const NetworkPacket& packet, std::size_t run, const OutputRules& rules) {
  std::vector<std::pair<DeviceEntry*, std::int64_t>> homes;
  const auto add = [&](const BlockState& block) {
    const auto found = std::find_if(homes.begin(), homes.end(),
                                    [&](const auto& home) { return home.first == &block.entry(); });
    if (found == homes.end()) {
      homes.emplace_back(&block.entry(), block.bytes().value);
    } else {
      found->second += block.bytes().value;
    }
  };
  if (run < packet.values.size()) {
    for (const RunValue& value : packet.values[run]) {
      if (value.block != nullptr) add(*value.block);
    }
  }
  if (rules.last(packet.header.skipped_stages) && run == 0) {
    for (const NetworkOutput& output : packet.outputs) {
      if (output.block) add(*output.block->state());
    }
  }
  const auto most = std::max_element(
      homes.begin(), homes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == homes.end() ? nullptr : most->first;
}

Result<bool> take_blocks(const RunOf& run, RunMemory::Waiter& who, RunTensors& tensors) {
  if (is_shared(run) && (tensors.kept == nullptr || tensors.kept.use_count() > 1)) {
    tensors.kept = std::make_shared<RunTensors::Kept>();
  }
  tensors.input_slots.clear();
  tensors.output_slots.clear();
  tensors.results.resize(run.outputs().size());
  for (std::size_t i = 0; i < run.tensors().size(); ++i) {
    TESSERA_RETURN_IF_ERROR(lay_out_input(run, i, tensors));
  }
  for (std::size_t i = 0; i < run.outputs().size(); ++i) {
    TESSERA_RETURN_IF_ERROR(lay_out_output(run, i, tensors));
  }
  TESSERA_TRY(const bool taken, take_memory(run, who, tensors));
  if (!taken) return false;
  tensors.inputs.clear();
  tensors.outputs.clear();
  for (const RunTensors::Slot& slot : tensors.input_slots) tensors.inputs.push_back(slot.address);
  for (const RunTensors::Slot& slot : tensors.output_slots) tensors.outputs.push_back(slot.address);
  return true;
}

Status bring_over(const RunOf& run, RunTensors& tensors, const device::TransferTag& tag) {
  for (const RunTensors::Slot& slot : tensors.input_slots) {
    if (slot.own) {
      TESSERA_RETURN_IF_ERROR(run.device.device().write(slot.address, slot.bytes, tag));
    } else if (slot.block != nullptr && &slot.block->entry() == &run.device) {
      TESSERA_RETURN_IF_ERROR(slot.block->to_device(tag));
    }
  }
  return {};
}

Status take_back(const RunOf& run, RunTensors& tensors, const device::TransferTag& tag) {
  std::vector<Tensor>& results = run.tensors();
  results.resize(run.outputs().size());
  RunValues values;  // stays empty, and takes no memory, where all are tensors
  for (std::size_t i = 0; i < results.size(); ++i) {
    results[i].format = run.outputs()[i].format;
    results[i].dims = run.outputs()[i].dims;
    results[i].bytes.clear();
    RunValue value;
    TESSERA_RETURN_IF_ERROR(take_back_output(run, i, tensors, value, tag));
    if (!value.present()) continue;
    values.resize(results.size());
    values[i] = std::move(value);
  }
  if (!values.empty() || run.index < run.packet.values.size()) {
    run.packet.values_of(run.index) = std::move(values);
  }
  return {};
}

void give_blocks(const RunOf& run, RunTensors& tensors, bool over) {
  // What the device still uses goes with it.
  if (!over && tensors.kept != nullptr) {
    tensors.kept->inputs = std::move(run.tensors());
    tensors.kept->results = std::move(tensors.results);
    tensors.kept.reset();
    tensors.results.clear();
  }
  for (const device::MemoryBlock& block : tensors.adopted) (void)run.device.device().release(block);
  tensors.adopted.clear();
  // Of its blocks all may have been kept.
  if (std::exchange(tensors.counted, false)) run.device.run_memory().give(tensors.blocks);
  tensors.input_slots.clear();
  tensors.output_slots.clear();
}

}  // namespace tessera::runtime
