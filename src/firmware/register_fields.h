// The registers of a task by name: what firmware text writes as `name = value`. The table comes out
// of the visitor in isa/registers.h, so that text and descriptors cannot disagree.
//
//   configuration kind ──visitor──► [ path, register, kind of value ] ...
//
// A path joins the visitor's names with '.', without brackets: product.image.channels,
// inputs0.row_pitch.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "isa/descriptor.h"

namespace tessera::firmware {

enum class FieldKind { kUnsigned, kSigned, kFloat, kFlag, kNamed };

struct RegisterField {
  std::string path;
  std::size_t first = 0;  // register
  int bits = 32;          // 8, 32 or 64; 64 take two registers, low half first
  FieldKind kind = FieldKind::kUnsigned;
  std::vector<std::string> names;  // of an enumeration, by value
};

class RegisterFields {
 public:
  // Of configuration kind 0..5 (index of isa::TaskConfig).
  static const RegisterFields& of(std::size_t config_kind);

  const std::vector<RegisterField>& fields() const { return fields_; }
  const RegisterField* find(std::string_view path) const;
  const std::vector<std::uint32_t>& defaults() const { return defaults_; }

  RegisterFields(std::vector<RegisterField> fields, std::vector<std::uint32_t> defaults);

 private:
  std::vector<RegisterField> fields_;
  std::vector<std::uint32_t> defaults_;
  std::unordered_map<std::string, std::size_t> by_path_;
};

// The value of a field as it stands in the registers, and back.
std::uint64_t field_bits(const RegisterField& field, const std::vector<std::uint32_t>& registers);
void set_field_bits(const RegisterField& field, std::uint64_t bits,
                    std::vector<std::uint32_t>& registers);
// As text that reads back to the same bits.
std::string field_text(const RegisterField& field, std::uint64_t bits);

std::vector<std::uint32_t> registers_of(const isa::TaskConfig& config);
// The error names the register that is out of range.
Result<isa::TaskConfig> config_of(std::size_t config_kind,
                                  const std::vector<std::uint32_t>& registers);

inline constexpr const char* kConfigNames[] = {"product", "planar", "transfer",
                                               "copy",    "kernel", "message"};

}  // namespace tessera::firmware
