// Networks of the zoo as files, in 16 bits (floats, which are f16 on the processor) or in 8.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "zoo/zoo.h"

namespace tessera::tools {

struct ZooForm {
  std::uint64_t seed = 0;  // of the weights
  int bits = 16;           // or 8
};

// Writes it to `path`. In 8 bits scales are from what values range over in float32 on one input, normally distributed
// and from the same seed; to that end the network is written in its float form and run. The same bytes on every
// machine. kInvalidArgument for other bits.
Result<zoo::Summary> write_zoo_file(const zoo::ZooNetwork& network, const ZooForm& form,
                                    const std::string& path);

// A name of a file that is there while this is.
class TemporaryFile {
 public:
  static Result<TemporaryFile> make();
  TemporaryFile(TemporaryFile&& other) noexcept;
  TemporaryFile(const TemporaryFile&) = delete;
  ~TemporaryFile();
  const std::string& path() const { return path_; }

 private:
  explicit TemporaryFile(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace tessera::tools
