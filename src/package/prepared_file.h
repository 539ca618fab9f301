// What a package has for several cores (isa/templates.h), in its section: kernels, pages of templates, and a table
// for each number of cores, each with a digest. Who links reads one of those tables, and the pages that it names one
// after the other.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "container_generated.h"
#include "isa/templates.h"
#include "package/container_file.h"
#include "package/elsewhere.h"

namespace tessera::package {

// ---- out ----

// The tables that are pieces of a section, while it is written.
struct PreparedPieces {
  std::vector<std::vector<std::byte>> tables;
};
// Adds the kernels, which come behind the weights at once.
void add_kernels(const isa::PreparedPrograms& prepared, SectionPieces& section,
                 fb::PackageT& table);
// Adds the tables.
void add_prepared(const isa::PreparedPrograms& prepared, SectionPieces& section,
                  PreparedPieces& pieces, fb::PackageT& table);

// ---- back ----

// Bytes of a section, which whoever holds the pointer keeps.
using SharedBytes = std::shared_ptr<const std::vector<std::byte>>;

// The templates and the pages of a table, which are of them all, one behind the other.
struct PlacedPage {
  std::uint32_t first = 0, last = 0;
  isa::SectionPart place;
};
Result<std::vector<PlacedPage>> pages_of(const fb::Package& table, std::uint64_t section_bytes,
                                         const std::string& name);
std::vector<isa::WordTemplate> templates_of(const fb::Package& table);
// A view of `bytes`, which were written so; checked.
Result<isa::TemplatePage> page_of(const std::vector<isa::WordTemplate>& templates,
                                  const PlacedPage& placed, SharedBytes bytes,
                                  const std::string& name);

// What a table of one number of cores needs of its package.
struct PackageOutline {
  std::uint64_t chip_fingerprint = 0;
  std::string chip_name;
  std::uint64_t section_bytes = 0;
  // Host steps with bodies and constants, by node.
  std::function<const isa::HostStep*(std::int32_t node)> step;
};
Result<isa::PreparedCores> prepared_of(SharedBytes bytes, isa::PreparedFor key,
                                       const PackageOutline& package, const std::string& name);
Result<isa::PreparedFor> key_of(const fb::PreparedT& entry, const std::string& name);

// All of it, of a section that is there; null: nothing is prepared.
Result<std::shared_ptr<const isa::PreparedPrograms>> read_prepared(
    const fb::Package& table, std::span<const std::byte> section, const PackageOutline& package,
    const std::string& name);

}  // namespace tessera::package
