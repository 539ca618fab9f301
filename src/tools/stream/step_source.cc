#include "tools/stream/step_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/guarded.h"

namespace tessera::tools {
namespace {

Error invalid(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }

}  // namespace

StepSource::StepSource(std::shared_ptr<VectorStream> stream, std::vector<TensorDescription> queues,
                       Framing framing, std::size_t ahead)
    : stream_(std::move(stream)),
      queues_(std::move(queues)),
      framing_(framing),
      ahead_(ahead),
      lines_(queues_.size()),
      thread_([this] { read_all(); }) {}

StepSource::~StepSource() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  stream_->stop_reading();
  changed_.notify_all();
  thread_.join();
}

Result<std::optional<StepInputs>> StepSource::next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !waiting_.empty(); });
  Item item = std::move(waiting_.front());
  waiting_.pop_front();
  lock.unlock();
  changed_.notify_all();
  return item;
}

std::size_t StepSource::most_ahead() const {
  const std::lock_guard lock(mutex_);
  return most_ahead_;
}

void StepSource::read_all() {
  while (true) {
    Item item = guarded("reading ahead", [&] { return read_step(); });
    const bool last = !item.ok() || !*item;
    if (!hand_over(std::move(item)) || last) return;
  }
}

// False: nobody takes any more.
bool StepSource::hand_over(Item item) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return stopped_ || waiting_.size() < ahead_; });
  if (stopped_) return false;
  waiting_.push_back(std::move(item));
  most_ahead_ = std::max(most_ahead_, waiting_.size());
  lock.unlock();
  changed_.notify_all();
  return true;
}

StepSource::Item StepSource::read_step() {
  return framing_ == Framing::kRaw ? read_raw() : read_messages();
}

StepSource::Item StepSource::read_raw() {
  StepInputs step;
  for (const TensorDescription& queue : queues_) {
    Tensor tensor = Tensor::zeros(queue.format, queue.dims);
    TESSERA_TRY(const bool there, stream_->read(tensor.bytes));
    if (!there && step.tensors.empty()) return std::optional<StepInputs>();
    if (!there) {
      return invalid(fmt::format("'{}' ends between the inputs of a step", stream_->name()));
    }
    step.tensors.push_back(std::move(tensor));
  }
  return std::optional(std::move(step));
}

Status StepSource::check_nothing_waits(const char* before) const {
  for (std::size_t q = 0; q < lines_.size(); ++q) {
    if (lines_[q].empty()) continue;
    return invalid(
        fmt::format("'{}': {} behind {} vectors of queue '{}' whose step has none of other queues",
                    stream_->name(), before, lines_[q].size(), queues_[q].name));
  }
  return {};
}

Status StepSource::take_vector(const MessageHeader& header) {
  const std::string place = fmt::format("'{}', message {}", stream_->name(), messages_);
  if (header.queue >= queues_.size()) {
    return invalid(fmt::format("{}: queue {}, the program has {} that take vectors", place,
                               header.queue, queues_.size()));
  }
  const TensorDescription& queue = queues_[header.queue];
  Tensor tensor = Tensor::zeros(queue.format, queue.dims);
  if (header.payload_bytes != tensor.bytes.size()) {
    return invalid(fmt::format("{}: a vector of {} bytes, those of queue '{}' have {}", place,
                               header.payload_bytes, queue.name, tensor.bytes.size()));
  }
  if (lines_[header.queue].size() >= ahead_) {
    return invalid(fmt::format(
        "{}: {} vectors of queue '{}' wait for those of other queues; send the vectors of a step "
        "together, or take more with --read-ahead",
        place, lines_[header.queue].size(), queue.name));
  }
  TESSERA_TRY(const bool there, stream_->read(tensor.bytes));
  if (!there && !tensor.bytes.empty()) {
    return invalid(fmt::format("{}: the stream ends behind the header", place));
  }
  lines_[header.queue].push_back(
      {.scalar = header.scalar, .number = messages_, .tensor = std::move(tensor)});
  return {};
}

StepInputs StepSource::step_of_lines() {
  StepInputs step;
  step.begin = std::exchange(begin_, false);
  std::uint64_t first = messages_ + 1;
  for (std::deque<Vector>& line : lines_) {
    Vector& vector = line.front();
    if (vector.number < first) {
      first = vector.number;
      step.scalar = vector.scalar;
    }
    step.tensors.push_back(std::move(vector.tensor));
    step.scalars.push_back(vector.scalar);
    line.pop_front();
  }
  return step;
}

StepSource::Item StepSource::read_messages() {
  while (true) {
    const bool complete =
        std::ranges::none_of(lines_, [](const auto& line) { return line.empty(); });
    if (complete) return std::optional(step_of_lines());
    std::array<std::byte, MessageHeader::kBytes> bytes;
    TESSERA_TRY(const bool there, stream_->read(bytes, "a message's header"));
    MessageHeader header{.kind = MessageKind::kControl, .control = MessageControl::kEnd};
    if (there) {
      auto decoded = decode_message_header(bytes);
      if (!decoded.ok()) {
        return invalid(fmt::format("'{}', message {}: {}", stream_->name(), messages_,
                                   decoded.error().message));
      }
      header = *decoded;
    }
    if (header.kind == MessageKind::kVector) {
      TESSERA_RETURN_IF_ERROR(take_vector(header));
      ++messages_;
      continue;
    }
    ++messages_;
    if (header.control == MessageControl::kFlush) {
      for (std::deque<Vector>& line : lines_) line.clear();
      continue;
    }
    const bool end = header.control == MessageControl::kEnd;
    TESSERA_RETURN_IF_ERROR(check_nothing_waits(end ? "the end" : "a beginning"));
    if (end) return std::optional<StepInputs>();
    begin_ = true;
  }
}

}  // namespace tessera::tools
