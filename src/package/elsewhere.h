// What a program refers to and does not hold: weights, and constants of host steps, which lie in the section
// of a package or of another program.
//
//   model.tprog ── weights_file "model.tpkg", offset, bytes, SHA-256 ──► section of model.tpkg
//
// It is looked for where the caller says, or else beside the program: under the path that it gives, then under that
// path's last name. Nothing but bytes of the right digest is taken, so the path of an untrusted program may
// lead out of its folder; it is never absolute.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "isa/program.h"

namespace tessera::package {

struct WeightsPlaces {
  std::string file = {};  // a package or program: there and nowhere else; empty: beside the program
  std::optional<std::string> folder = {};  // of the program; none: it did not come from one
};

// Of the file `path`, for WeightsPlaces.
std::string folder_of(const std::string& path);

// Whether a constant of the step is elsewhere and not read.
bool is_unread(const isa::HostStep& step);
bool is_unread(const isa::Program& program);

// Whether anything of it lies in another file, read or not.
bool has_parts(const isa::Program& program);

// Reads what is elsewhere, if anything is. The file that it came from; "": nothing was to be read. The error names
// the program, the bytes and their digest, each place with what was found, and the way out. kInvalidArgument for a
// file that is given to a program that holds its weights.
Result<std::string> find_elsewhere(isa::Program& program, const std::string& name,
                                   const WeightsPlaces& places);

// The same of bytes that `read` gives.
using ReadPart = std::function<Result<std::vector<std::byte>>(const isa::SectionPart&)>;
Status read_elsewhere(isa::Program& program, const std::string& name, const ReadPart& read);

// What was read belongs to the program now, which refers to no file any more.
void hold_all(isa::Program& program);

// How `program`, a file that is written, names `file`, which lies where it does now.
std::string path_from(const std::string& program, const std::string& file);

}  // namespace tessera::package
