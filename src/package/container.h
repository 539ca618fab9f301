// Package and program files: FlatBuffers containers with magic, version, architecture fingerprint
// and digest. Verified before anything in them is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "isa/card_program.h"
#include "isa/templates.h"
#include "package/elsewhere.h"
#include "package/package.h"

namespace tessera::package {

// A program with a weights_file is written without what has a part there, any other with all of it.
std::vector<std::byte> serialise(const Package& package);
std::vector<std::byte> serialise(const isa::Program& program);
// For one core the file is that of its program.
std::vector<std::byte> serialise(const isa::CardProgram& program);
// The same into a file, without a copy of the weights.
Status write_package(const std::string& path, const Package& package);
Status write_program(const std::string& path, const isa::Program& program);
Status write_program(const std::string& path, const isa::CardProgram& program);

// Texts of templates and where their words go; fills them all in.
using FillTexts = std::function<Status(
    std::span<const std::pair<const isa::TemplateText*, std::span<std::uint32_t>>> texts)>;
// A program for several cores out of templates: each word is written once, where it goes into the file. What the
// program refers to lies in `weights_file`, by its path from the program's folder.
Status write_program(const std::string& path, const isa::PreparedCores& prepared,
                     const std::string& weights_file, const FillTexts& fill);

Result<Package> parse_package(std::span<const std::byte> bytes, const std::string& name);
// Of a file, which is read as a whole.
Result<Package> load_package(const std::string& path);

// What linking takes of a package: neither the graph nor a byte of the section is read. Weights and constants
// of host steps are elsewhere, in the package.
Result<isa::Unlinked> parse_unlinked(std::span<const std::byte> bytes, const std::string& name);
// Of a file that an older Tessera wrote everything is read.
Result<isa::Unlinked> load_unlinked(const std::string& path);

// What a package has for so many cores. Of its section only the pages of templates are read that are asked for, one
// after the other. Not for several threads at once.
class PreparedSource {
 public:
  const isa::PreparedCores& cores() const;
  const std::vector<isa::WordTemplate>& templates() const;
  // Those that are wanted, of which only `first` and `last` are known then, in their order. A page is gone when
  // `take` returns.
  Status for_each_page(const std::function<bool(const isa::TemplatePage& page)>& is_wanted,
                       const std::function<void(const isa::TemplatePage& page)>& take) const;

  // Internal.
  struct Implementation;
  explicit PreparedSource(std::unique_ptr<Implementation> implementation);
  PreparedSource(PreparedSource&&) noexcept;
  PreparedSource& operator=(PreparedSource&&) noexcept;
  ~PreparedSource();

 private:
  std::unique_ptr<Implementation> implementation_;
};
// Nothing: it has none for them, or an older Tessera wrote it.
Result<std::optional<PreparedSource>> load_prepared(const std::string& path,
                                                    const isa::PreparedFor& key);
// The architecture that a package was made for.
Result<std::string> chip_name_of(const std::string& path);

// With its weights, also where they are elsewhere (package/elsewhere.h). load_program() looks in the file's
// folder if `places` names none. One for several cores is refused, with the way out.
Result<isa::Program> parse_program(std::span<const std::byte> bytes, const std::string& name,
                                   const WeightsPlaces& places = {});
Result<isa::Program> load_program(const std::string& path, const WeightsPlaces& places = {});
// What is elsewhere is left there.
Result<isa::Program> parse_program_alone(std::span<const std::byte> bytes, const std::string& name);
Result<isa::Program> load_program_alone(const std::string& path);

// For one core or several. What is elsewhere is left there: find_elsewhere() reads it into the first core's
// program.
Result<isa::CardProgram> parse_card_program_alone(std::span<const std::byte> bytes,
                                                  const std::string& name);
Result<isa::CardProgram> load_card_program_alone(const std::string& path);

enum class FileKind { kPackage, kProgram, kOther };
FileKind file_kind(std::span<const std::byte> head);
// By the first bytes, whatever the file is called; an unreadable file is of another kind.
FileKind kind_of_file(const std::string& path);

// Readable listings.
std::string inspect(const Package& package);
std::string inspect(const isa::Program& program);
std::string inspect(const isa::CardProgram& program);
// Of what a package has for several cores; "" of one that has nothing.
std::string prepared_text(const Package& package);
// The memories beside its cores.
int memories_of(const isa::PreparedCores& prepared);

}  // namespace tessera::package
