#include "tools/run/program_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "tools/stream/step_source.h"
#include "tools/stream/vector_stream.h"
#include "tools/terminal/console.h"

namespace tessera::tools {
namespace {

struct Streamed {
  std::int64_t vectors = 0;
  std::int64_t peers = 0;
  std::int64_t begin_cycles = 0, step_cycles = 0;     // of all beginnings, of all steps
  std::int64_t host_cycles = 0, transfer_cycles = 0;  // of the steps, besides
};

// What goes out: vectors alone, or messages.
class Results {
 public:
  Results(VectorStream& stream, Framing framing) : stream_(stream), framing_(framing) {}

  Status write(const std::vector<Tensor>& outputs, std::int32_t scalar) {
    if (framing_ == Framing::kRaw) {
      for (const Tensor& output : outputs) TESSERA_RETURN_IF_ERROR(stream_.write(output.bytes));
      return {};
    }
    for (std::size_t q = 0; q < outputs.size(); ++q) {
      const std::vector<std::byte>& payload = outputs[q].bytes;
      if (payload.size() > std::numeric_limits<std::uint32_t>::max()) {
        return Error{ErrorCode::kUnsupported,
                     fmt::format("a vector of {} bytes; a message takes 4 GiB", payload.size())};
      }
      TESSERA_RETURN_IF_ERROR(send({.queue = static_cast<std::uint16_t>(q),
                                    .payload_bytes = static_cast<std::uint32_t>(payload.size()),
                                    .scalar = scalar},
                                   payload));
    }
    return {};
  }

  Status finish() {
    if (framing_ == Framing::kMessages) {
      TESSERA_RETURN_IF_ERROR(
          send({.kind = MessageKind::kControl, .control = MessageControl::kEnd}, {}));
    }
    return stream_.finish();
  }

 private:
  // Header and payload together, so that a message is one write.
  Status send(const MessageHeader& header, std::span<const std::byte> payload) {
    const auto head = encode_message_header(header);
    message_.assign(head.begin(), head.end());
    message_.insert(message_.end(), payload.begin(), payload.end());
    return stream_.write(message_);
  }

  VectorStream& stream_;
  const Framing framing_;
  std::vector<std::byte> message_;
};

// How far a sequence is whose number of steps comes with its first message.
class StepCount {
 public:
  // `queue`: its place among the inputs; none: sequences of any length.
  explicit StepCount(std::optional<std::size_t> queue) : queue_(queue) {}

  // In front of a step; whether a sequence begins with it.
  Result<bool> next(const StepInputs& inputs) {
    if (!queue_) return inputs.begin;
    const bool begins = inputs.begin || left_ == 0;
    if (begins) {
      left_ = inputs.scalars[*queue_];
      if (left_ < 1) {
        return Error{ErrorCode::kInvalidArgument,
                     fmt::format("step {}: a message says that its sequence has {} steps, allowed "
                                 "1..{}",
                                 steps_, left_, std::numeric_limits<std::int32_t>::max())};
      }
    }
    --left_;
    ++steps_;
    return begins;
  }
  // At the end of the stream.
  Status finish() const {
    if (left_ == 0) return {};
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("the stream ends {} steps before its sequence does", left_)};
  }

 private:
  const std::optional<std::size_t> queue_;
  std::int64_t left_ = 0;
  std::int64_t steps_ = 0;
};

Result<StepCount> count_of(const RunArguments& arguments, const device::ProgramRun& run,
                           const std::string& queue) {
  if (queue.empty()) return StepCount(std::nullopt);
  if (arguments.framing != "messages") {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("the time loop counts by the messages of queue '{}'; give --framing "
                             "messages, whose headers say how many steps there are",
                             queue)};
  }
  const std::vector<TensorDescription> inputs = run.inputs();
  const auto found = std::ranges::find(inputs, queue, &TensorDescription::name);
  if (found != inputs.end()) return StepCount(static_cast<std::size_t>(found - inputs.begin()));
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("the time loop counts by the messages of queue '{}', and reads none of "
                           "them",
                           queue)};
}

// One caller's steps.
Status serve(const RunArguments& arguments, const VectorStream::Ends& ends, device::ProgramRun& run,
             StepCount count, Streamed& streamed) {
  const Framing framing = arguments.framing == "messages" ? Framing::kMessages : Framing::kRaw;
  Results results(*ends.out, framing);
  StepSource source(ends.in, run.inputs(), framing, static_cast<std::size_t>(arguments.read_ahead));
  bool fresh = false;
  const auto begin = [&]() -> Status {
    if (fresh) return {};
    TESSERA_TRY(const RunResult begun, run.begin());
    streamed.begin_cycles += begun.cycles;
    fresh = true;
    return {};
  };
  TESSERA_RETURN_IF_ERROR(begin());
  while (true) {
    TESSERA_TRY(const std::optional<StepInputs> inputs, source.next());
    if (!inputs) {
      TESSERA_RETURN_IF_ERROR(count.finish());
      return results.finish();
    }
    TESSERA_TRY(const bool begins, count.next(*inputs));
    if (begins) TESSERA_RETURN_IF_ERROR(begin());
    TESSERA_TRY(const RunResult step, run.step(inputs->tensors));
    fresh = false;
    streamed.step_cycles += step.cycles;
    streamed.host_cycles += step.host_cycles;
    streamed.transfer_cycles += step.transfer_cycles;
    ++streamed.vectors;
    TESSERA_RETURN_IF_ERROR(results.write(step.outputs, inputs->scalar));
  }
}

Status check_peers(const RunArguments& arguments, const StreamEnds& ends) {
  if (!ends.listens()) {
    return Error{
        ErrorCode::kInvalidArgument,
        "--peers goes with a stream that listens (listen:unix:PATH, listen:tcp:HOST:PORT)"};
  }
  if (is_socket_name(arguments.stream_out) || arguments.stream_out == "-") return {};
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("--peers: results of each caller would replace those of the one before "
                           "in '{}'; let --out listen, or be -",
                           arguments.stream_out)};
}

Result<Streamed> serve_all(const RunArguments& arguments, device::ProgramRun& run,
                           const std::string& steps_queue) {
  if (run.inputs().empty() || run.outputs().empty()) {
    return Error{ErrorCode::kInvalidArgument, "the program takes no vectors, or gives none"};
  }
  TESSERA_TRY(const StepCount count, count_of(arguments, run, steps_queue));
  TESSERA_TRY(StreamEnds ends, StreamEnds::open(arguments.stream, arguments.stream_out,
                                                [](const std::string& address) {
                                                  show(stderr, "listening at {}\n", address);
                                                }));
  if (arguments.peers != 1) TESSERA_RETURN_IF_ERROR(check_peers(arguments, ends));
  Streamed streamed;
  while (arguments.peers == 0 || streamed.peers < arguments.peers) {
    TESSERA_TRY(const VectorStream::Ends of_peer, ends.next());
    ++streamed.peers;
    const Status served = serve(arguments, of_peer, run, count, streamed);
    if (served.ok()) continue;
    // A caller that sends nonsense or hangs up does not end the service for the others.
    if (arguments.peers == 1) return served.error();
    show(stderr, "caller {}: {}\n", streamed.peers, served.error().to_string());
  }
  return streamed;
}

}  // namespace

Status run_stream(const RunArguments& arguments, device::ProgramRun& run,
                  const StreamedProgram& program) {
  TESSERA_TRY(const Streamed streamed, serve_all(arguments, run, program.steps_queue));
  const std::int64_t clock_hertz = program.clock_hertz;
  // Standard output may be the vectors'.
  std::FILE* const console = arguments.stream_out == "-" ? stderr : stdout;
  if (arguments.model.json) {
    const nlohmann::json document = {{"program", arguments.model.model},
                                     {"arch", arguments.model.arch},
                                     {"vectors", streamed.vectors},
                                     {"peers", streamed.peers},
                                     {"cycles_begin", streamed.begin_cycles},
                                     {"cycles_steps", streamed.step_cycles},
                                     {"host_cycles", streamed.host_cycles},
                                     {"transfer_cycles", streamed.transfer_cycles},
                                     {"clock_hertz", clock_hertz}};
    show_lines(console, json_text(document) + "\n");
    return {};
  }
  show(console, "{} vectors in {} cycles", streamed.vectors, with_separators(streamed.step_cycles));
  if (streamed.vectors > 0) {
    const double each =
        static_cast<double>(streamed.step_cycles) / static_cast<double>(streamed.vectors);
    show(console, ", {:.1f} us a step at {} MHz", each * 1e6 / static_cast<double>(clock_hertz),
         clock_hertz / 1'000'000);
  }
  show(console, "; {} cycles in front; {} of transfers, {} of host steps\n",
       with_separators(streamed.begin_cycles), with_separators(streamed.transfer_cycles),
       with_separators(streamed.host_cycles));
  return {};
}

}  // namespace tessera::tools
