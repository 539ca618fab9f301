// The message processors' other end: where vectors come from and go to while a program runs.
//
//   PATH | -                 a file, a named pipe, standard input or output
//   unix:PATH                a local socket with a listener
//   tcp:HOST:PORT            the same over the network
//
// Vectors follow each other as bytes, nothing between them, and each is handed on at once. A file
// that is written is under its name when the stream has ended well (base/output_file.h).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/output_file.h"
#include "base/result.h"

namespace tessera::tools {

class VectorStream {
 public:
  // Both ends; a socket that is both is opened once.
  struct Ends;
  static Result<Ends> open(const std::string& in, const std::string& out);
  ~VectorStream();
  VectorStream(const VectorStream&) = delete;
  VectorStream& operator=(const VectorStream&) = delete;

  // Fills `bytes`. False where the stream ends in front of the first; an end inside is an error.
  Result<bool> read(std::span<std::byte> bytes);
  // All of them, at once: nothing is held back.
  Status write(std::span<const std::byte> bytes);
  // Behind the last vector that is written.
  Status finish();

 private:
  VectorStream(std::string name, int descriptor, bool owned)
      : name_(std::move(name)), descriptor_(descriptor), owned_(owned) {}
  VectorStream(std::string name, OutputFile file)
      : name_(std::move(name)), descriptor_(-1), owned_(false), file_(std::move(file)) {}
  static Result<std::shared_ptr<VectorStream>> open_one(const std::string& name, bool write);
  static Result<int> connect_local(const std::string& path);
  static Result<int> connect_network(const std::string& address);

  const std::string name_;
  const int descriptor_;
  const bool owned_;
  std::optional<OutputFile> file_;  // in place of the descriptor
};

struct VectorStream::Ends {
  std::shared_ptr<VectorStream> in, out;  // shared where one socket is both
};

}  // namespace tessera::tools
