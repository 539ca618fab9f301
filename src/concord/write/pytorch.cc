#include "concord/write/pytorch.h"

#include <fmt/format.h>

#include <map>
#include <set>

#include "base/check.h"
#include "concord/runtime_text.h"

namespace tessera::concord {
namespace {

constexpr std::string_view kHead =
    "class Derived(torch.nn.Module):\n"
    "    def __init__(self):\n"
    "        super().__init__()\n"
    "        for number, tensor in read_constants():\n"
    "            if number in TRAINED:\n"
    "                setattr(self, f\"v{number}\", torch.nn.Parameter(tensor))\n"
    "            else:\n"
    "                self.register_buffer(f\"v{number}\", tensor, persistent=False)\n"
    "        self.prepare()\n\n"
    "    def trained(self):\n"
    "        \"\"\"What can be trained, by name: 'LAYER.weight', 'LAYER.bias'.\"\"\"\n"
    "        return {name: getattr(self, f\"v{number}\") for number, name in TRAINED.items()}\n\n"
    "    def save_trained(self, path):\n"
    "        \"\"\"As a safetensors file, for `tessera compile MODEL --weights PATH`.\"\"\"\n"
    "        write_safetensors(path, {name: self.saved(number) for number, name in "
    "TRAINED.items()})\n\n"
    "    def saved(self, number):\n"
    "        \"\"\"A trained tensor as an array: float32, or the integers that it stands "
    "for.\"\"\"\n"
    "        tensor = getattr(self, f\"v{number}\").detach()\n"
    "        if number not in ELEMENTS:\n"
    "            return tensor.numpy()\n"
    "        step, zero_point, lowest, highest, dtype = ELEMENTS[number]\n"
    "        whole = torch.round(tensor.double() / getattr(self, f\"v{step}\"))\n"
    "        whole = torch.clamp(whole + getattr(self, f\"v{zero_point}\"), lowest, highest)\n"
    "        return whole.numpy().astype(dtype)\n\n"
    "    def forward(self, *given):\n"
    "        return run_by_run(self.one_run, given)\n\n"
    "    def results(self, *given):\n"
    "        with torch.no_grad():\n"
    "            return [result.contiguous().numpy() for result in self(*given)]\n\n";

// How a table is read (see expand/function_steps.cc): the place of a key is found by four
// square roots, that of a bf16 by eight.
struct LookUp {
  ValueId key;
  bool one_sided = false;
  bool bf16 = false;
};
constexpr int kF16Roots = 4, kBf16Roots = 8;

class TorchExpressions {
 public:
  explicit TorchExpressions(const Software& software)
      : software_(software), maker_(software.values.size(), nullptr) {
    Table<ValueId, int> readers(software.values.size(), 0);
    for_each_operation(software.operations, [&](const Operation& operation) {
      for (const ValueId id : operation.outputs) maker_[id] = &operation;
      for (const ValueId id : operation.inputs) ++readers[id];
      if (operation.repeat == nullptr) return;
      for (const auto* ids : {&operation.repeat->next, &operation.repeat->kept}) {
        for (const ValueId id : *ids) ++readers[id];
      }
    });
    for_each_operation(software.operations, [&](const Operation& operation) {
      if (operation.op != Operator::kGather) return;
      find_places(operation.inputs[1]);
      find_look_up(operation, readers);
    });
  }

  std::string operator()(const Operation& operation, const std::vector<std::string>& names) const {
    if (included_.count(&operation) > 0) return "";
    if (const auto found = look_ups_.find(&operation); found != look_ups_.end()) {
      const LookUp& look_up = found->second;
      const std::string places = nested(operation.inputs[1], look_up.key);
      return fmt::format("look_up({}, {}, lambda k: {}, {}, torch.{})", names[0], name(look_up.key),
                         places, look_up.one_sided ? "True" : "False",
                         look_up.bf16 ? "bfloat16" : "float16");
    }
    return expression(operation, names);
  }

  // How values are called; known once the writer has its schedule.
  std::function<std::string(ValueId)> name;

 private:
  // Roundings that find a place in a table: their own gradient, nought, is the right one.
  void find_places(ValueId id) {
    const Operation* operation = maker_[id];
    if (operation == nullptr) return;
    switch (operation->op) {
      case Operator::kRound:
        placing_.insert(operation);
        return;
      case Operator::kFloor:
        placing_.insert(operation);
        [[fallthrough]];
      case Operator::kCast:
      case Operator::kAdd:
      case Operator::kSubtract:
      case Operator::kMultiply:
        for (const ValueId input : operation->inputs) find_places(input);
        return;
      default:
        return;
    }
  }

  // Follows the first operands back to the key: Cast, Floor, [Add, Mul, [Add]], Mul, Sqrt ..., [Abs].
  void find_look_up(const Operation& gather, const Table<ValueId, int>& readers) {
    LookUp look_up;
    ValueId at = gather.inputs[1];
    int roots = 0;
    look_up.one_sided = true;
    while (const Operation* operation = maker_[at]) {
      const bool root = operation->op == Operator::kSquareRoot;
      roots += root;
      if (roots > 0 && !root) {
        if (operation->op == Operator::kAbsolute) {
          look_up.one_sided = false;
          at = operation->inputs[0];
        }
        break;
      }
      at = operation->inputs[0];
    }
    if (roots != kF16Roots && roots != kBf16Roots) return;
    look_up.bf16 = roots == kBf16Roots;
    look_up.key = at;
    std::set<const Operation*> chain;
    if (!collect(gather.inputs[1], look_up.key, readers, chain)) return;
    // The chain stands right before its look-up: nothing else happens in between.
    if (&gather - static_cast<std::ptrdiff_t>(chain.size()) != *chain.begin()) return;
    included_.insert(chain.begin(), chain.end());
    look_ups_[&gather] = look_up;
  }

  // All operations between the key and `id`; false where another operation reads one of them.
  bool collect(ValueId id, ValueId key, const Table<ValueId, int>& readers,
               std::set<const Operation*>& chain) const {
    const Operation* operation = maker_[id];
    if (id == key || operation == nullptr) {
      return id == key || software_.value(id).constant != nullptr;
    }
    if (readers[id] != 1) return false;
    chain.insert(operation);
    for (const ValueId input : operation->inputs) {
      if (!collect(input, key, readers, chain)) return false;
    }
    return true;
  }

  std::string nested(ValueId id, ValueId key) const {
    if (id == key) return "k";
    const Operation* operation = maker_[id];
    if (operation == nullptr) return name(id);
    std::vector<std::string> names;
    for (const ValueId input : operation->inputs) names.push_back(nested(input, key));
    return expression(*operation, names);
  }

  std::string rounding(const char* function, const Operation& operation,
                       const std::string& operand) const {
    if (placing_.count(&operation) > 0) return fmt::format("torch.{}({})", function, operand);
    return fmt::format("straight(torch.{}, {})", function, operand);
  }

  std::string maximum(const Operation& operation, const std::string& operand) const {
    const std::string kind = operation.layer < 0 ? "" : software_.layers[operation.layer].kind;
    const bool of_block = kind == "conv" || kind == "matmul";
    return fmt::format("torch.amax({}{}, {}, keepdim=True)", operand, of_block ? ".detach()" : "",
                       python_tuple(operation.axes));
  }

  std::string slice(const Operation& operation, const std::string& operand) const {
    std::vector<std::string> parts(software_.value(operation.inputs[0]).dims.size(), ":");
    for (std::size_t i = 0; i < operation.axes.size(); ++i) {
      TESSERA_CHECK(operation.steps[i] > 0, "a slice backwards");
      parts[static_cast<std::size_t>(operation.axes[i])] =
          fmt::format("{}:{}:{}", operation.starts[i], operation.ends[i], operation.steps[i]);
    }
    return fmt::format("{}[{}]", operand, fmt::join(parts, ", "));
  }

  std::string expression(const Operation& operation, const std::vector<std::string>& n) const {
    const Shape& dims = software_.value(operation.outputs[0]).dims;
    switch (operation.op) {
      case Operator::kRound:
        return rounding("round", operation, n[0]);
      case Operator::kFloor:
        return rounding("floor", operation, n[0]);
      case Operator::kCeil:
        return rounding("ceil", operation, n[0]);
      case Operator::kCast:
        return fmt::format("{}.to({})", n[0], torch_type(operation.to));
      case Operator::kReshape:
        return fmt::format("{}.reshape({})", n[0], python_tuple(dims));
      case Operator::kTranspose:
        return fmt::format("{}.permute({})", n[0], python_tuple(operation.axes));
      case Operator::kSlice:
        return slice(operation, n[0]);
      case Operator::kConcat:
        return fmt::format("torch.cat([{}], {})", fmt::join(n, ", "), operation.axis);
      case Operator::kPad:
        return fmt::format("pad({}, {}, {}, {})", n[0], n[1], python_tuple(operation.starts),
                           python_tuple(dims));
      case Operator::kExpand:
        return fmt::format("{}.expand({})", n[0], python_tuple(dims));
      case Operator::kGather:
        return fmt::format("gather({}, {}, {})", n[0], n[1], operation.axis);
      case Operator::kReduceSum:
        return fmt::format("torch.sum({}, {}, keepdim=True)", n[0], python_tuple(operation.axes));
      case Operator::kReduceMaximum:
        return maximum(operation, n[0]);
      case Operator::kReduceMinimum:
        return fmt::format("torch.amin({}, {}, keepdim=True)", n[0], python_tuple(operation.axes));
      case Operator::kRunningSum:
        return fmt::format("running_sum({}, {})", n[0], operation.axis);
      default:
        return fmt::format("torch.{}({})", torch_function(operation.op), fmt::join(n, ", "));
    }
  }

  static std::string torch_type(Format format) {
    if (format == Format::kU16) return "torch.int32";
    if (format == Format::kU32) return "torch.int64";
    return std::string("torch.") + numpy_name(format);
  }

  // Functions of the operands alone.
  static const char* torch_function(Operator op) {
    switch (op) {
      case Operator::kAdd:
        return "add";
      case Operator::kSubtract:
        return "sub";
      case Operator::kMultiply:
        return "mul";
      case Operator::kDivide:
        return "div";
      case Operator::kMinimum:
        return "minimum";
      case Operator::kMaximum:
        return "maximum";
      case Operator::kAbsolute:
        return "abs";
      case Operator::kNegate:
        return "neg";
      case Operator::kReciprocal:
        return "reciprocal";
      case Operator::kSquareRoot:
        return "sqrt";
      case Operator::kSign:
        return "sign";
      case Operator::kClip:
        return "clamp";
      case Operator::kIsNan:
        return "isnan";
      case Operator::kEqual:
        return "eq";
      case Operator::kLess:
        return "lt";
      case Operator::kLessOrEqual:
        return "le";
      case Operator::kAnd:
        return "logical_and";
      case Operator::kOr:
        return "logical_or";
      case Operator::kNot:
        return "logical_not";
      case Operator::kWhere:
        return "where";
      case Operator::kMatMul:
        return "matmul";
      default:
        TESSERA_CHECK(false, "'{}' has no PyTorch function", operator_name(op));
        return "";
    }
  }

  const Software& software_;
  Table<ValueId, const Operation*> maker_;  // or null
  std::set<const Operation*> placing_, included_;
  std::map<const Operation*, LookUp> look_ups_;
};

}  // namespace

Result<PythonModule> write_pytorch(const Software& software, const std::string& weights_name) {
  TESSERA_RETURN_IF_ERROR(check_python(software, "PyTorch"));
  TorchExpressions expressions(software);
  const PythonNames names(make_schedule(software), software.values.size());
  expressions.name = [&](ValueId id) { return names.of(id); };
  PythonDialect dialect;
  dialect.target = "PyTorch";
  dialect.runtime = kPytorchRuntime;
  dialect.head = kHead;
  dialect.row = "{}[turn]";
  dialect.stack = "torch.stack({})";
  dialect.expression = [&](const Operation& operation, const std::vector<std::string>& operands) {
    return expressions(operation, operands);
  };
  return write_python(software, weights_name, dialect);
}

}  // namespace tessera::concord
