#include "concord/write/cpp.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "arith/rounding.h"
#include "base/check.h"
#include "concord/runtime_text.h"
#include "concord/write/packed_constant.h"
#include "concord/write/schedule.h"

namespace tessera::concord {
namespace {

constexpr std::size_t kLineBytes = 1536;  // a multiple of 3, so that every line stands for itself

const char* cpp_format(Format format) {
  switch (format) {
    case Format::kF16:
      return "Format::kF16";
    case Format::kF32:
      return "Format::kF32";
    case Format::kF64:
      return "Format::kF64";
    case Format::kI8:
      return "Format::kI8";
    case Format::kU8:
      return "Format::kU8";
    case Format::kI16:
      return "Format::kI16";
    case Format::kU16:
      return "Format::kU16";
    case Format::kI32:
      return "Format::kI32";
    case Format::kU32:
      return "Format::kU32";
    case Format::kI64:
      return "Format::kI64";
    case Format::kU64:
      return "Format::kU64";
    case Format::kBool:
      return "Format::kBool";
    case Format::kBf16:
      break;
  }
  TESSERA_CHECK(false, "{} elements are not derived", format_name(format));
  return "";
}

std::string base64(std::span<const std::byte> bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      bits = bits << 8 | (i + k < bytes.size() ? static_cast<std::uint32_t>(bytes[i + k]) : 0);
    }
    for (int shift = 18; shift >= 0; shift -= 6) text += kDigits[bits >> shift & 63];
  }
  return text;
}

// A C++ string literal.
std::string in_quotes(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\' || c == '?' || code < 32 || code > 126) {
      result += fmt::format("\\{:03o}", code);
    } else {
      result += c;
    }
  }
  return result + "\"";
}

// Text that may stand behind //.
std::string comment(const std::string& text) {
  std::string result;
  for (const char c : text) result += c >= 32 && c != '\\' && c != 127 ? c : '_';
  return result;
}

class CppText {
 public:
  explicit CppText(const Software& software)
      : software_(software), schedule_(make_schedule(software)) {}

  std::string write() {
    text_ = fmt::format(
        "// {}: derived from a program, and equal to it in every bit.\n//\n"
        "//   c++ -std=c++17 -O2 derived.cpp -o derived && ./derived INPUT... OUTPUT...\n//\n",
        comment(software_.name.empty() ? "derived" : software_.name));
    text_ += kCppTensors;
    text_ += kCppRuntime;
    text_ +=
        "\n// --- Tables --------------------------------------------------------------\n\n"
        "namespace derived {\nnamespace {\n\n";
    write_values();
    write_constants();
    write_ports("kInputs", "kInputCount", software_.inputs);
    write_ports("kOutputs", "kOutputCount", software_.outputs);
    write_numbers();
    write_steps("kOnceSteps", "kOnceLength", schedule_.once, schedule_.only_once);
    write_steps("kSteps", "kLength", schedule_.always, {});
    text_ += "}  // namespace\n}  // namespace derived\n";
    return std::move(text_);
  }

 private:
  void line(const std::string& text) { text_ += text + "\n"; }

  // A list that is filled to the line.
  void write_list(const std::vector<std::string>& parts) {
    std::string row = "   ";
    for (const std::string& part : parts) {
      if (row.size() + part.size() > 96) {
        line(row);
        row = "   ";
      }
      row += " " + part + ",";
    }
    line(row);
  }

  void write_values() {
    std::vector<std::string> infos, extents;
    for (const Value& value : software_.values) {
      infos.push_back(fmt::format("{{{}, {}, {}}}", cpp_format(value.format), value.dims.size(),
                                  extents.size()));
      for (const std::int64_t extent : value.dims) extents.push_back(std::to_string(extent));
    }
    extents.push_back("0");  // an array has an element
    line(fmt::format("const int kValueCount = {};", infos.size()));
    line("const ValueInfo kValues[] = {");
    write_list(infos);
    line("};\nconst std::int64_t kExtents[] = {");
    write_list(extents);
    line("};");
  }

  // Written as Number() in prepare().
  static bool is_number(const Value& value) {
    if (!value.dims.empty()) return false;
    if (value.format != Format::kF64 && value.format != Format::kF32) return false;
    return std::isfinite(arith::read_element(value.format, value.constant->bytes.data()));
  }

  void write_constants() {
    std::vector<std::string> entries;
    for (const ValueId id : schedule_.constants) {
      const Value& value = software_.value(id);
      if (is_number(value)) continue;
      const Tensor stored = packed(*value.constant);
      entries.push_back(
          fmt::format("{{{}, {}, kData{}}}", id.value, cpp_format(stored.format), id.value));
      text_ += fmt::format("const char kData{}[] =", id.value);
      const std::span<const std::byte> bytes = stored.bytes;
      for (std::size_t i = 0; i < std::max<std::size_t>(bytes.size(), 1); i += kLineBytes) {
        text_ +=
            "\n    \"" + base64(bytes.subspan(i, std::min(kLineBytes, bytes.size() - i))) + "\"";
      }
      line(";");
    }
    line(fmt::format("const int kConstantCount = {};", entries.size()));
    entries.push_back("{0, Format::kF64, \"\"}");
    line("const StoredConstant kConstants[] = {");
    write_list(entries);
    line("};");
  }

  void write_ports(const char* name, const char* count, const std::vector<Port>& ports) {
    line(fmt::format("const int {} = {};", count, ports.size()));
    line(fmt::format("const PortInfo {}[] = {{", name));
    for (const Port& port : ports) {
      line(fmt::format("    {{{}, {}}},", port.value.value, in_quotes(port.name)));
    }
    line("    {0, \"\"},\n};\n");
  }

  void write_numbers() {
    std::vector<std::string> entries;
    for (const ValueId id : schedule_.constants) {
      const Value& value = software_.value(id);
      if (!is_number(value)) continue;
      const double number = arith::read_element(value.format, value.constant->bytes.data());
      entries.push_back(fmt::format("{{{}, {:a}}}", id.value, number));
    }
    line(fmt::format("const int kNumberCount = {};", entries.size()));
    entries.push_back("{0, 0}");
    line("const StoredNumber kNumbers[] = {");
    write_list(entries);
    line("};\n");
  }

  // A line per step, as run_steps() reads it.
  void write_steps(const char* name, const char* length, const std::vector<Stage>& stages,
                   const std::vector<ValueId>& dead) {
    length_ = 0;
    std::int32_t layer = -1;
    line(fmt::format("const std::int64_t {}[] = {{", name));
    for (const Stage& stage : stages) {
      const Operation& operation = *stage.operation;
      if (operation.layer >= 0 && operation.layer != layer) {
        layer = operation.layer;
        const Layer& named = software_.layers[layer];
        line(fmt::format("    // {} '{}'", named.kind, comment(named.name)));
      }
      if (operation.repeat != nullptr) {
        write_repeat(operation);
      } else {
        write_operation(operation);
      }
      write_free(stage.dead);
    }
    write_free(dead);
    line("    0,  // an array has an element\n};");
    line(fmt::format("const std::int64_t {} = {};\n", length, length_));
  }

  void write_operation(const Operation& operation) {
    const bool sums = operation.op == Operator::kRunningSum;
    std::vector<std::int64_t> numbers = {operation.outputs[0].value};
    add_arguments(operation, numbers);
    write_step(sums ? "RunningSum" : operator_name(operation.op), numbers);
  }

  // How often, what is carried, given and kept, and the steps of the body behind their number.
  void write_repeat(const Operation& operation) {
    const Repeat& repeat = *operation.repeat;
    const std::size_t carried = repeat.carried.size();
    std::vector<std::int64_t> numbers = {repeat.turns};
    for (const std::size_t count : {carried, repeat.given.size(), repeat.kept.size()}) {
      numbers.push_back(static_cast<std::int64_t>(count));
    }
    const auto add = [&](ValueId id) { numbers.push_back(id.value); };
    for (std::size_t i = 0; i < carried; ++i) {
      for (const ValueId id :
           {operation.inputs[i], repeat.carried[i], repeat.next[i], operation.outputs[i]}) {
        add(id);
      }
    }
    for (std::size_t i = 0; i < repeat.given.size(); ++i) {
      add(operation.inputs[carried + i]);
      add(repeat.given[i]);
    }
    for (std::size_t i = 0; i < repeat.kept.size(); ++i) {
      add(repeat.kept[i]);
      add(operation.outputs[carried + i]);
    }
    const std::int64_t outside = length_ + 2 + static_cast<std::int64_t>(numbers.size());
    std::string whole;
    std::swap(whole, text_);
    length_ = 0;
    for (const Operation& inner : repeat.body) write_operation(inner);
    numbers.push_back(length_);
    std::swap(whole, text_);
    line(fmt::format("    kRepeat, {},", fmt::join(numbers, ", ")));
    text_ += whole;
    length_ += outside;
    std::vector<ValueId> inside = repeat.given;
    inside.insert(inside.end(), repeat.carried.begin(), repeat.carried.end());
    for (const Operation& inner : repeat.body) inside.push_back(inner.outputs[0]);
    write_free(inside);
  }

  void write_step(const char* op, const std::vector<std::int64_t>& numbers) {
    length_ += 1 + static_cast<std::int64_t>(numbers.size());
    line(fmt::format("    k{}, {},", op, fmt::join(numbers, ", ")));
  }

  void write_free(const std::vector<ValueId>& dead) {
    if (dead.empty()) return;
    std::vector<std::int64_t> numbers = {static_cast<std::int64_t>(dead.size())};
    for (const ValueId id : dead) numbers.push_back(id.value);
    write_step("Free", numbers);
  }

  void add_arguments(const Operation& operation, std::vector<std::int64_t>& numbers) const {
    const auto add = [&](const std::vector<std::int64_t>& more) {
      numbers.insert(numbers.end(), more.begin(), more.end());
    };
    if (operation.op == Operator::kConcat) {
      add({operation.axis, static_cast<std::int64_t>(operation.inputs.size())});
    }
    for (const ValueId id : operation.inputs) numbers.push_back(id.value);
    switch (operation.op) {
      case Operator::kTranspose:
        return add(operation.axes);
      case Operator::kGather:
      case Operator::kRunningSum:
        return add({operation.axis});
      case Operator::kPad:
        return add(operation.starts);
      case Operator::kSlice: {
        const std::size_t rank = software_.value(operation.inputs[0]).dims.size();
        std::vector<std::int64_t> starts(rank, 0), steps(rank, 1);
        for (std::size_t i = 0; i < operation.axes.size(); ++i) {
          const auto axis = static_cast<std::size_t>(operation.axes[i]);
          starts[axis] = operation.starts[i];
          steps[axis] = operation.steps[i];
        }
        add(starts);
        return add(steps);
      }
      default:
        return;
    }
  }

  const Software& software_;
  Schedule schedule_;
  std::string text_;
  std::int64_t length_ = 0;  // of the steps written so far
};

}  // namespace

Result<std::string> write_cpp(const Software& software) {
  for (const Operation& operation : software.operations) {
    if (operation.op != Operator::kHostNode) continue;
    return Error{ErrorCode::kUnsupported,
                 fmt::format("node '{}' ({}): a host step has no form in C++; derive ONNX instead",
                             operation.host->name, operation.host->op_type)};
  }
  return CppText(software).write();
}

}  // namespace tessera::concord
