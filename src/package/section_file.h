// The section of a package or program on disk, read part by part: a program takes its weights from its
// package so, and the linker reads none at all.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/input_file.h"
#include "base/result.h"
#include "isa/weights.h"
#include "package/container_file.h"

namespace tessera::package {

// Not for several threads at once.
class SectionFile {
 public:
  // A package or a program. Errors name the file.
  static Result<SectionFile> open(const std::string& path);

  const std::string& path() const { return path_; }
  std::uint64_t section_bytes() const { return places_.section_bytes; }
  bool is_package() const;
  // Head and payload, whose digest is right. Nothing: an older Tessera wrote the file, which has a digest
  // over the whole alone.
  struct Front {
    std::uint64_t chip_fingerprint = 0;
    std::vector<std::byte> bytes;
    std::span<const std::byte> payload;  // of `bytes`
  };
  Result<std::optional<Front>> front() const;
  // Bytes with that digest, or an error that says what is there.
  Result<std::vector<std::byte>> read(const isa::SectionPart& part) const;

 private:
  SectionFile(std::string path, InputFile file, const ContainerPlaces& places, bool package)
      : path_(std::move(path)), file_(std::move(file)), places_(places), package_(package) {}

  std::string path_;
  InputFile file_;
  ContainerPlaces places_;
  bool package_ = false;
};

}  // namespace tessera::package
