// Bytes of any number through a pipe: they come out as they went in, whatever the sizes of the
// reads, and an end inside a vector is an error. Names that are none are errors.
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "choices.h"
#include "tools/run/vector_stream.h"

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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Choices choices(std::as_bytes(std::span(data, size)));
  if (choices.one_in(8)) {
    check_names(choices);
  } else {
    check_stream(choices);
  }
  return 0;
}
