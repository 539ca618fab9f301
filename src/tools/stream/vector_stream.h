// The bytes of a stream: where vectors come from and go to while a program runs.
//
//   PATH | -                 a file, a named pipe, standard input or output
//   unix:PATH                a local socket with a listener
//   tcp:HOST:PORT            the same over the network
//   listen:unix:PATH, listen:tcp:HOST:PORT    this side listens, and takes one caller at a time
//
// What is written is handed on at once. A file that is written is under its name when the stream
// has ended well (base/output_file.h).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/output_file.h"
#include "base/result.h"
#include "tools/stream/connection.h"

namespace tessera::tools {

class VectorStream {
 public:
  // Both ends; a socket that is both is one connection. Ends that listen wait for a caller.
  struct Ends;
  static Result<Ends> open(const std::string& in, const std::string& out);
  ~VectorStream();
  VectorStream(const VectorStream&) = delete;
  VectorStream& operator=(const VectorStream&) = delete;

  // Fills `bytes`, `what` they are ("a vector"). False where the stream ends in front of the first;
  // an end inside is an error. One thread may read while another writes.
  Result<bool> read(std::span<std::byte> bytes, const char* what = "a vector");
  // All of them, at once: nothing is held back.
  Status write(std::span<const std::byte> bytes);
  // Behind the last vector that is written.
  Status finish();
  // A read that waits, or begins later, ends with an error. From any thread.
  void stop_reading();
  const std::string& name() const { return name_; }

 private:
  friend class StreamEnds;
  VectorStream(std::string name, int descriptor, bool owned, int stop)
      : name_(std::move(name)), descriptor_(descriptor), owned_(owned), stop_(stop) {}
  VectorStream(std::string name, OutputFile file)
      : name_(std::move(name)), descriptor_(-1), owned_(false), file_(std::move(file)) {}
  static Result<std::shared_ptr<VectorStream>> of_descriptor(const std::string& name,
                                                             int descriptor, bool owned);
  static Result<std::shared_ptr<VectorStream>> open_one(const std::string& name, bool write);
  // Whether there is something to be read, before reading stops.
  bool wait_to_read() const;

  const std::string name_;
  const int descriptor_;
  const bool owned_;
  const int stop_ = -1;             // an event: reading stops
  std::optional<OutputFile> file_;  // in place of the descriptor
};

struct VectorStream::Ends {
  std::shared_ptr<VectorStream> in, out;  // shared where one socket is both
};

// The ends of a run that may take several callers, one after the other.
class StreamEnds {
 public:
  // Opens what listens. `listening` is told each address, before anybody is waited for.
  template <typename Listening>
  static Result<StreamEnds> open(const std::string& in, const std::string& out,
                                 Listening&& listening) {
    StreamEnds ends(in, out);
    TESSERA_RETURN_IF_ERROR(ends.listen());
    for (const auto* listener : {&ends.in_listener_, &ends.out_listener_}) {
      if (*listener) listening((*listener)->address());
    }
    return ends;
  }
  // Those of the next caller; of the only one where nothing listens.
  Result<VectorStream::Ends> next();
  bool listens() const { return in_listener_ || out_listener_; }

 private:
  StreamEnds(std::string in, std::string out) : in_(std::move(in)), out_(std::move(out)) {}
  Status listen();
  static Result<std::shared_ptr<VectorStream>> one(const std::string& name, Listener* listener,
                                                   bool write);

  std::string in_, out_;
  std::unique_ptr<Listener> in_listener_, out_listener_;
};

}  // namespace tessera::tools
