#include "concord/write/python.h"

#include <fmt/format.h>

#include <cmath>
#include <set>

#include "arith/rounding.h"
#include "base/check.h"
#include "concord/runtime_text.h"
#include "concord/write/packed_constant.h"

namespace tessera::concord {
namespace {

constexpr std::size_t kAlignment = 8;

std::string in_quotes(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (static_cast<unsigned char>(c) < 32) {
      result += fmt::format("\\x{:02x}", c);
    } else {
      result += c;
    }
  }
  return result + "\"";
}

std::string comment(const std::string& text) {
  std::string result;
  for (const char c : text) result += static_cast<unsigned char>(c) < 32 || c == 127 ? '_' : c;
  return result;
}

class PythonText {
 public:
  PythonText(const Software& software, const PythonDialect& dialect)
      : software_(software),
        dialect_(dialect),
        schedule_(make_schedule(software)),
        names_(schedule_, software.values.size()) {}

  PythonModule write(const std::string& weights_name) {
    module_.text = fmt::format("# {}: derived from a program by tessera.\n",
                               comment(software_.name.empty() ? "derived" : software_.name));
    module_.text += dialect_.runtime;
    module_.text += kPythonRuntime;
    write_ports("INPUTS", software_.inputs);
    write_ports("OUTPUTS", software_.outputs);
    write_constants();
    line(fmt::format("WEIGHTS = {}", in_quotes(weights_name)));
    line(fmt::format("WEIGHTS_BYTES = {}\n\n", module_.weights.size()));
    module_.text += dialect_.head;
    line("    def prepare(self):");
    line("        \"\"\"What depends on constants alone.\"\"\"");
    write_stages(schedule_.once);
    for (const ValueId id : schedule_.only_once) line("        del " + names_.of(id));
    line("\n    def one_run(self, *given):");
    write_forward();
    line("\n\nif __name__ == \"__main__\":\n    main(sys.argv[1:])");
    return std::move(module_);
  }

 private:
  void line(const std::string& text) { module_.text += text + "\n"; }

  void write_ports(const char* name, const std::vector<Port>& ports) {
    line(fmt::format("{} = [  # name, type, extents", name));
    for (const Port& port : ports) {
      const Value& value = software_.value(port.value);
      line(fmt::format("    ({}, \"{}\", {}),", in_quotes(port.name), numpy_name(value.format),
                       python_tuple(value.dims)));
    }
    line("]");
  }

  static bool is_number(const Value& value) {
    if (!value.dims.empty() || value.trained) return false;
    if (value.format != Format::kF64 && value.format != Format::kF32) return false;
    return std::isfinite(arith::read_element(value.format, value.constant->bytes.data()));
  }

  void write_constants() {
    std::string numbers;
    line("CONSTANTS = [  # number, stored type, type, extents, first byte in the file of weights");
    for (const ValueId id : schedule_.constants) {
      const Value& value = software_.value(id);
      if (is_number(value)) {
        numbers += fmt::format("    ({}, \"{}\", \"{:a}\"),\n", id.value, numpy_name(value.format),
                               arith::read_element(value.format, value.constant->bytes.data()));
        continue;
      }
      const Tensor stored = packed(*value.constant);
      line(fmt::format("    ({}, \"{}\", \"{}\", {}, {}),", id.value, numpy_name(stored.format),
                       numpy_name(value.format), python_tuple(value.dims), module_.weights.size()));
      module_.weights.insert(module_.weights.end(), stored.bytes.begin(), stored.bytes.end());
      module_.weights.resize((module_.weights.size() + kAlignment - 1) / kAlignment * kAlignment);
    }
    line("]\nNUMBERS = [\n" + numbers + "]");
    write_trained();
  }

  void write_trained() {
    line("TRAINED = {  # number: name");
    for (const ValueId id : schedule_.constants) {
      const Value& value = software_.value(id);
      if (value.trained) line(fmt::format("    {}: {},", id.value, in_quotes(value.name)));
    }
    line("}");
    line("ELEMENTS = {  # number: those of its step and zero point, lowest and highest, type");
    for (const ValueId id : schedule_.constants) {
      const auto& elements = software_.value(id).elements;
      if (elements == nullptr) continue;
      line(fmt::format("    {}: ({}, {}, {:.0f}, {:.0f}, \"{}\"),", id.value, elements->step.value,
                       elements->zero_point.value, elements->lowest, elements->highest,
                       numpy_name(elements->format)));
    }
    line("}");
  }

  void write_forward() {
    if (!software_.inputs.empty()) {
      std::string list;
      for (const Port& port : software_.inputs) list += names_.of(port.value) + ", ";
      line(fmt::format("        ({}) = take(given)", list));
    }
    write_stages(schedule_.always);
    std::string list;
    for (const Port& port : software_.outputs) list += names_.of(port.value) + ", ";
    line(fmt::format("        return ({})", list));
  }

  void write_stages(const std::vector<Stage>& stages) {
    std::int32_t layer = -1;
    std::string dead;
    for (const Stage& stage : stages) {
      const Operation& operation = *stage.operation;
      if (operation.layer >= 0 && operation.layer != layer) {
        layer = operation.layer;
        const Layer& named = software_.layers[layer];
        line(fmt::format("        # {} '{}'", named.kind, comment(named.name)));
      }
      if (operation.repeat != nullptr) {
        write_repeat(operation);
        if (!stage.dead.empty())
          line(fmt::format("        del {}", fmt::join(names_.of(stage.dead), ", ")));
        continue;
      }
      const std::string expression = dialect_.expression(operation, names_.of(operation.inputs));
      for (const ValueId id : stage.dead) {
        const bool written = !expression.empty() || id != operation.outputs[0];
        if (written && included_.count(id.value) == 0) {
          dead += (dead.empty() ? "" : ", ") + names_.of(id);
        }
      }
      if (expression.empty()) {
        included_.insert(operation.outputs[0].value);
        continue;
      }
      line(fmt::format("        {} = {}", names_.of(operation.outputs[0]), expression));
      if (!dead.empty()) line("        del " + dead);
      dead.clear();
    }
  }

  void write_repeat(const Operation& operation) {
    const Repeat& repeat = *operation.repeat;
    const std::size_t carried = repeat.carried.size();
    const auto list = [&](const std::vector<ValueId>& ids) {
      return fmt::format("{}", fmt::join(names_.of(ids), ", "));
    };
    const auto kept = [&](std::size_t i) { return names_.of(repeat.kept[i]) + "_kept"; };
    if (carried > 0) {
      const std::vector<ValueId> before(
          operation.inputs.begin(),
          operation.inputs.begin() + static_cast<std::ptrdiff_t>(carried));
      line(fmt::format("        {} = {}", list(repeat.carried), list(before)));
    }
    for (std::size_t i = 0; i < repeat.kept.size(); ++i) line("        " + kept(i) + " = []");
    line(fmt::format("        for turn in range({}):", repeat.turns));
    for (std::size_t i = 0; i < repeat.given.size(); ++i) {
      line(fmt::format(
          "            {} = {}", names_.of(repeat.given[i]),
          fmt::format(fmt::runtime(dialect_.row), names_.of(operation.inputs[carried + i]))));
    }
    for (const Operation& inner : repeat.body) {
      const std::string expression = dialect_.expression(inner, names_.of(inner.inputs));
      if (expression.empty()) continue;
      line(fmt::format("            {} = {}", names_.of(inner.outputs[0]), expression));
    }
    for (std::size_t i = 0; i < repeat.kept.size(); ++i) {
      line(fmt::format("            {}.append({})", kept(i), names_.of(repeat.kept[i])));
    }
    if (carried > 0) {
      line(fmt::format("            {} = {}", list(repeat.carried), list(repeat.next)));
    }
    for (std::size_t i = 0; i < carried; ++i) {
      line(fmt::format("        {} = {}", names_.of(operation.outputs[i]),
                       names_.of(repeat.carried[i])));
    }
    for (std::size_t i = 0; i < repeat.kept.size(); ++i) {
      line(fmt::format("        {} = {}", names_.of(operation.outputs[carried + i]),
                       fmt::format(fmt::runtime(dialect_.stack), kept(i))));
    }
  }

  const Software& software_;
  const PythonDialect& dialect_;
  Schedule schedule_;
  PythonNames names_;
  PythonModule module_;
  std::set<std::int32_t> included_;  // written inside another expression
};

}  // namespace

const char* numpy_name(Format format) {
  switch (format) {
    case Format::kF16:
      return "float16";
    case Format::kF32:
      return "float32";
    case Format::kF64:
      return "float64";
    case Format::kI8:
      return "int8";
    case Format::kU8:
      return "uint8";
    case Format::kI16:
      return "int16";
    case Format::kU16:
      return "uint16";
    case Format::kI32:
      return "int32";
    case Format::kU32:
      return "uint32";
    case Format::kI64:
      return "int64";
    case Format::kU64:
      return "uint64";
    case Format::kBool:
      return "bool";
    case Format::kBf16:
      break;
  }
  TESSERA_CHECK(false, "{} elements are not derived", format_name(format));
  return "";
}

std::string python_tuple(const std::vector<std::int64_t>& numbers) {
  return fmt::format("({}{})", fmt::join(numbers, ", "), numbers.size() == 1 ? "," : "");
}

PythonNames::PythonNames(const Schedule& schedule, std::size_t values) : kept_(values, false) {
  for (const ValueId id : schedule.constants) kept_[id] = true;
  for (const Stage& stage : schedule.once) {
    for (const ValueId id : stage.operation->outputs) {
      kept_[id] = true;
    }
  }
}

std::string PythonNames::of(ValueId id) const {
  return fmt::format("{}v{}", kept_[id] ? "self." : "", id.value);
}

std::vector<std::string> PythonNames::of(const std::vector<ValueId>& ids) const {
  std::vector<std::string> names;
  for (const ValueId id : ids) names.push_back(of(id));
  return names;
}

Status check_python(const Software& software, std::string_view target) {
  for (const Operation& operation : software.operations) {
    if (operation.op != Operator::kHostNode) continue;
    return Error{ErrorCode::kUnsupported,
                 fmt::format("node '{}' ({}): a host step has no form in {}; derive ONNX instead",
                             operation.host->name, operation.host->op_type, target)};
  }
  for (const Value& value : software.values) {
    if (value.format != Format::kU64) continue;
    return Error{ErrorCode::kUnsupported,
                 fmt::format("value '{}': {} has no {} elements; derive ONNX or C++ instead",
                             value.name, target, format_name(value.format))};
  }
  return {};
}

PythonModule write_python(const Software& software, const std::string& weights_name,
                          const PythonDialect& dialect) {
  return PythonText(software, dialect).write(weights_name);
}

}  // namespace tessera::concord
