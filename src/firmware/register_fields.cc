#include "firmware/register_fields.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>

#include "arith/microscaling.h"
#include "base/check.h"
#include "isa/registers.h"

namespace tessera::firmware {
namespace {

using isa::BaseIndex;
using isa::PlanarMode;

template <typename E, typename Name>
std::vector<std::string> names_of(Name&& name) {
  std::vector<std::string> names;
  for (std::uint32_t i = 0; i <= isa::enum_max<E>(); ++i) {
    names.emplace_back(name(static_cast<E>(i)));
  }
  return names;
}

template <typename E>
std::vector<std::string> enum_names() {
  if constexpr (std::is_same_v<E, Format>) {
    return names_of<E>(format_name);
  } else if constexpr (std::is_same_v<E, UnaryFunction>) {
    return names_of<E>(unary_function_name);
  } else if constexpr (std::is_same_v<E, BinaryFunction>) {
    return names_of<E>(binary_function_name);
  } else if constexpr (std::is_same_v<E, ReduceFunction>) {
    return names_of<E>(reduce_function_name);
  } else if constexpr (std::is_same_v<E, PoolFunction>) {
    return names_of<E>(pool_function_name);
  } else if constexpr (std::is_same_v<E, BaseIndex>) {
    return {"weights", "workspace", "input", "output"};
  } else if constexpr (std::is_same_v<E, PlanarMode>) {
    return {isa::kPlanarModeNames.begin(), isa::kPlanarModeNames.end()};
  } else if constexpr (std::is_same_v<E, isa::MessageKind>) {
    return {isa::kMessageKindNames.begin(), isa::kMessageKindNames.end()};
  } else if constexpr (std::is_same_v<E, MatrixKind>) {
    return {"block_float", "float", "integer", "microscaling"};
  } else if constexpr (std::is_same_v<E, LongFormat>) {
    return {"exact", "q34_40"};
  } else if constexpr (std::is_same_v<E, MicroElement>) {
    return names_of<E>(arith::micro_element_name);
  } else if constexpr (std::is_same_v<E, MicroScale>) {
    return names_of<E>(arith::micro_scale_name);
  } else if constexpr (std::is_same_v<E, BlockCut>) {
    return {"channel", "im2col"};
  } else {
    // An enumeration without words for its values is written as numbers.
    return names_of<E>([](E e) { return "value_" + std::to_string(static_cast<int>(e)); });
  }
}

// Collects the fields in the order of their registers.
class FieldCollector {
 public:
  template <typename T>
  void operator()(const char* name, T&) {
    RegisterField field;
    field.path = prefix_ + plain(name);
    field.first = next_;
    if constexpr (std::is_enum_v<T>) {
      field.kind = FieldKind::kNamed;
      field.names = enum_names<T>();
    } else if constexpr (std::is_same_v<T, bool>) {
      field.kind = FieldKind::kFlag;
    } else if constexpr (std::is_same_v<T, float>) {
      field.kind = FieldKind::kFloat;
    } else {
      field.kind = std::is_signed_v<T> ? FieldKind::kSigned : FieldKind::kUnsigned;
      field.bits = static_cast<int>(sizeof(T)) * 8;
    }
    next_ += field.bits == 64 ? 2 : 1;
    fields_.push_back(std::move(field));
  }
  template <typename T>
  void group(const char* name, T& fields) {
    const std::string outer = prefix_;
    prefix_ += plain(name) + ".";
    isa::visit_fields(*this, fields);
    prefix_ = outer;
  }
  std::vector<RegisterField> take() { return std::move(fields_); }

 private:
  static std::string plain(const char* name) {
    std::string text;
    for (const char* c = name; *c != '\0'; ++c) {
      if (*c != '[' && *c != ']') text += *c;
    }
    return text;
  }
  std::string prefix_;
  std::size_t next_ = 0;
  std::vector<RegisterField> fields_;
};

template <typename T>
RegisterFields collect() {
  T config;
  FieldCollector collector;
  isa::visit_fields(collector, config);
  return {collector.take(), isa::to_registers(T{})};
}

template <typename T>
Result<isa::TaskConfig> read_config(const std::vector<std::uint32_t>& registers) {
  T fields;
  isa::RegisterReader reader(registers);
  isa::visit_fields(reader, fields);
  if (!reader.error().empty()) return Error{ErrorCode::kInvalidModel, reader.error()};
  if constexpr (std::is_same_v<T, isa::FlatCopyTask>) {
    if (fields.axes > isa::kCopyAxesMax) {
      return Error{ErrorCode::kInvalidModel, fmt::format("{} axes, allowed 0..8", fields.axes)};
    }
    return isa::TaskConfig(fields.to_task());
  } else {
    return isa::TaskConfig(fields);
  }
}

}  // namespace

RegisterFields::RegisterFields(std::vector<RegisterField> fields,
                               std::vector<std::uint32_t> defaults)
    : fields_(std::move(fields)), defaults_(std::move(defaults)) {
  for (std::size_t i = 0; i < fields_.size(); ++i) by_path_.emplace(fields_[i].path, i);
  TESSERA_CHECK(by_path_.size() == fields_.size(), "two registers of one name");
}

const RegisterFields& RegisterFields::of(std::size_t config_kind) {
  static const std::array<RegisterFields, 6> kTables = {
      collect<isa::NeuralTask>(),   collect<isa::PlanarTask>(), collect<isa::TransferTask>(),
      collect<isa::FlatCopyTask>(), collect<isa::KernelTask>(), collect<isa::MessageTask>()};
  TESSERA_CHECK(config_kind < kTables.size(), "configuration kind {}", config_kind);
  return kTables[config_kind];
}

const RegisterField* RegisterFields::find(std::string_view path) const {
  const auto found = by_path_.find(std::string(path));
  return found == by_path_.end() ? nullptr : &fields_[found->second];
}

std::uint64_t field_bits(const RegisterField& field, const std::vector<std::uint32_t>& registers) {
  std::uint64_t bits = registers[field.first];
  if (field.bits == 64) bits |= std::uint64_t{registers[field.first + 1]} << 32;
  return bits;
}

void set_field_bits(const RegisterField& field, std::uint64_t bits,
                    std::vector<std::uint32_t>& registers) {
  registers[field.first] = static_cast<std::uint32_t>(bits);
  if (field.bits == 64) registers[field.first + 1] = static_cast<std::uint32_t>(bits >> 32);
}

std::string field_text(const RegisterField& field, std::uint64_t bits) {
  switch (field.kind) {
    case FieldKind::kNamed:
      return bits < field.names.size() ? field.names[bits] : std::to_string(bits);
    case FieldKind::kFlag:
      return bits == 0 ? "false" : "true";
    case FieldKind::kFloat: {
      const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
      // An integer without a point would be read as bits.
      if (!std::isfinite(value)) return fmt::format("{:#010x}", bits);
      const std::string text = fmt::format("{}", value);
      return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
    }
    case FieldKind::kSigned:
      return field.bits == 64 ? std::to_string(static_cast<std::int64_t>(bits))
                              : std::to_string(static_cast<std::int32_t>(bits));
    case FieldKind::kUnsigned:
      break;
  }
  return std::to_string(bits);
}

std::vector<std::uint32_t> registers_of(const isa::TaskConfig& config) {
  return std::visit(
      [](const auto& fields) {
        using T = std::decay_t<decltype(fields)>;
        if constexpr (std::is_same_v<T, isa::CopyTask>) {
          return isa::to_registers(isa::FlatCopyTask(fields));
        } else {
          return isa::to_registers(fields);
        }
      },
      config);
}

Result<isa::TaskConfig> config_of(std::size_t config_kind,
                                  const std::vector<std::uint32_t>& registers) {
  switch (config_kind) {
    case 0:
      return read_config<isa::NeuralTask>(registers);
    case 1:
      return read_config<isa::PlanarTask>(registers);
    case 2:
      return read_config<isa::TransferTask>(registers);
    case 3:
      return read_config<isa::FlatCopyTask>(registers);
    case 4:
      return read_config<isa::KernelTask>(registers);
    default:
      return read_config<isa::MessageTask>(registers);
  }
}

}  // namespace tessera::firmware
