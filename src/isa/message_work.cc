#include "isa/message_work.h"

#include "arch/message_link.h"

namespace tessera::isa {

MessageStep message_step(const TaskDescriptor& task, std::int64_t step) {
  const auto& message = std::get<MessageTask>(task.config);
  if (message.kind == MessageKind::kMatrix) return {.messages = 1, .bytes = message.matrix_bytes()};
  const TransferTask& vectors = message.transfer;
  const RowRange rows = task.bands.range(step);
  return {.messages = (rows.last - rows.first) * vectors.buffer.columns,
          .bytes = std::int64_t{vectors.channel_count} * format_bytes(vectors.buffer.format)};
}

Cycles message_task_cycles(const TaskDescriptor& task, const ChipConfig& chip) {
  MessageLink link(chip, 0);
  MessageLink::Times times{.taken = chip.dma.task_start_cycles, .done = 0};
  for (std::int64_t step = 0; step < task.steps(); ++step) {
    const MessageStep messages = message_step(task, step);
    times = link.take(times.taken, messages.messages, messages.bytes);
  }
  return times.done;
}

}  // namespace tessera::isa
