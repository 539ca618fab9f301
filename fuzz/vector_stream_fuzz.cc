// Bytes of any number through a pipe: they come out as they went in, whatever the sizes of the
// reads, and an end inside a vector is an error. Names that are none are errors. Read as messages,
// they end in steps of whole vectors or in an error.
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "choices.h"
#include "tools/stream/step_source.h"
#include "tools/stream/vector_stream.h"

namespace {

using namespace tessera;  // a fuzz target

// "unix:" and "tcp:" names without a listener.
void check_names(fuzz::Choices& choices) {
  const std::string name = choices.text(200);
  const bool local = choices.one_in(2);
  if (!local && name.find(':') != std::string::npos) return;  // might have a listener
  const auto ends = tools::VectorStream::open((local ? "unix:/nowhere/" : "tcp:") + name, "-");
  TESSERA_CHECK(!ends.ok(), "somebody listens at '{}'", name);
}

void check_stream(fuzz::Choices& choices) {
  std::vector<std::size_t> sizes(static_cast<std::size_t>(1 + choices.below(4)));
  for (std::size_t& size : sizes) size = static_cast<std::size_t>(1 + choices.below(40));
  const auto bytes = choices.rest();
  int pipe_ends[2];
  TESSERA_CHECK(::pipe(pipe_ends) == 0, "no pipe");
  const auto path = [&](int end) { return "/proc/self/fd/" + std::to_string(pipe_ends[end]); };
  auto ends = tools::VectorStream::open(path(0), path(1));
  TESSERA_CHECK(ends.ok(), "{}", ends.error().message);
  ::close(pipe_ends[0]);
  ::close(pipe_ends[1]);
  TESSERA_CHECK(ends->out->write(bytes).ok(), "the pipe holds {} bytes", bytes.size());
  ends->out.reset();
  std::size_t have = 0;
  for (std::size_t i = 0;; ++i) {
    std::vector<std::byte> vector(sizes[i % sizes.size()]);
    const std::size_t left = bytes.size() - have;
    const auto more = ends->in->read(vector);
    TESSERA_CHECK(more.ok() == (left == 0 || left >= vector.size()), "{} left, {} wanted", left,
                  vector.size());
    if (!more.ok() || !*more) break;
    TESSERA_CHECK(std::ranges::equal(vector, bytes.subspan(have, vector.size())), "other bytes");
    have += vector.size();
  }
}

void check_messages(fuzz::Choices& choices) {
  std::vector<TensorDescription> queues;
  for (std::int64_t q = choices.below(3); q >= 0; --q) {
    queues.push_back({.name = "q", .format = Format::kI8, .dims = {choices.below(5)}});
  }
  const auto ahead = static_cast<std::size_t>(1 + choices.below(4));
  // Headers that are right, and bytes as they come.
  std::vector<std::byte> bytes;
  while (choices.one_in(2)) {
    const std::int64_t queue = choices.below(4);
    tools::MessageHeader header{.queue = static_cast<std::uint16_t>(queue),
                                .payload_bytes = static_cast<std::uint32_t>(choices.below(5))};
    if (choices.one_in(4)) {
      header = {.kind = tools::MessageKind::kControl,
                .control = choices.one_in(4) ? tools::MessageControl::kEnd
                                             : tools::MessageControl::kBegin};
    }
    const auto head = tools::encode_message_header(header);
    TESSERA_CHECK(*tools::decode_message_header(head) == header, "another header");
    bytes.insert(bytes.end(), head.begin(), head.end());
    bytes.resize(bytes.size() + header.payload_bytes);
  }
  const auto rest = choices.rest();
  bytes.insert(bytes.end(), rest.begin(), rest.end());
  int pipe_ends[2];
  TESSERA_CHECK(::pipe(pipe_ends) == 0, "no pipe");
  auto ends =
      tools::VectorStream::open("/proc/self/fd/" + std::to_string(pipe_ends[0]), "/dev/null");
  TESSERA_CHECK(ends.ok(), "{}", ends.error().message);
  ::close(pipe_ends[0]);
  const auto put = ::write(pipe_ends[1], bytes.data(), bytes.size());
  TESSERA_CHECK(put == static_cast<ssize_t>(bytes.size()), "the pipe holds {} bytes", bytes.size());
  ::close(pipe_ends[1]);
  tools::StepSource source(ends->in, queues, tools::Framing::kMessages, ahead);
  while (true) {
    const auto step = source.next();
    if (!step.ok() || !*step) return;
    TESSERA_CHECK((*step)->tensors.size() == queues.size(), "a step of {} vectors",
                  (*step)->tensors.size());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Choices choices(std::as_bytes(std::span(data, size)));
  if (choices.one_in(8)) {
    check_names(choices);
  } else if (choices.one_in(2)) {
    check_messages(choices);
  } else {
    check_stream(choices);
  }
  return 0;
}
