#include "isa/header_operands.h"

#include <fmt/format.h>

#include <type_traits>

#include "isa/registers.h"

namespace tessera::isa {
namespace {

// Finds the register at which a surface of a configuration begins.
class RegisterOf {
 public:
  explicit RegisterOf(const BufferSurface& surface) : surface_(&surface) {}

  template <typename T>
  void operator()(const char*, T&) {
    next_ += sizeof(T) == 8 ? 2 : 1;
  }
  template <typename T>
  void group(const char*, T& fields) {
    if constexpr (std::is_same_v<T, BufferSurface>) {
      if (&fields == surface_) found_ = next_;
    }
    visit_fields(*this, fields);
  }
  std::uint16_t found() const { return found_; }

 private:
  const BufferSurface* surface_;
  std::uint16_t next_ = 0;
  std::uint16_t found_ = SurfaceRegisters::kImplied;
};

template <typename Config>
std::uint16_t register_of(Config& config, const BufferSurface& surface) {
  RegisterOf finder(surface);
  visit_fields(finder, config);
  return finder.found();
}

struct OperandFinder {
  EngineKind engine;

  HeaderOperands operator()(NeuralTask& task) const {
    return {{register_of(task, task.moving), register_of(task, task.output)}, {}};
  }
  HeaderOperands operator()(PlanarTask& task) const {
    return {{register_of(task, task.inputs[0]), register_of(task, task.output)}, {}};
  }
  HeaderOperands operator()(TransferTask& task) const {
    const std::uint16_t buffer = register_of(task, task.buffer);
    const auto base = static_cast<std::uint8_t>(task.dram.address.base);
    HeaderOperands operands;
    if (engine == EngineKind::kLoad || engine == EngineKind::kMessageIn) {
      operands.surfaces.output = buffer;
      operands.bases.source = base;
    } else {
      operands.surfaces.input = buffer;
      operands.bases.destination = base;
    }
    return operands;
  }
  HeaderOperands operator()(CopyTask& task) const {
    HeaderOperands operands;
    if (!task.fill) operands.bases.source = static_cast<std::uint8_t>(task.source.base);
    operands.bases.destination = static_cast<std::uint8_t>(task.destination.base);
    return operands;
  }
  HeaderOperands operator()(KernelTask& task) const {
    return {{}, {.source = static_cast<std::uint8_t>(task.source.base)}};
  }
  HeaderOperands operator()(MessageTask& task) const {
    const auto base = static_cast<std::uint8_t>(task.transfer.dram.address.base);
    if (task.kind == MessageKind::kMatrix) return {{}, {.source = base}};
    HeaderOperands operands = (*this)(task.transfer);
    const std::uint16_t buffer = register_of(task, task.transfer.buffer);
    (engine == EngineKind::kMessageIn ? operands.surfaces.output : operands.surfaces.input) =
        buffer;
    return operands;
  }
};

// A number that the header gives is that of the configuration; `none` stands for no number.
Status check_one(std::uint32_t given, std::uint32_t configured, std::uint32_t none,
                 const char* what) {
  if (given == none || given == configured) return {};
  const std::string has = configured == none ? "none" : fmt::format("{}", configured);
  return Error{ErrorCode::kInvalidModel,
               fmt::format("the header has {} {}, the configuration {}", what, given, has)};
}

}  // namespace

HeaderOperands configured_operands(const TaskDescriptor& task) {
  TaskConfig config = task.config;
  return std::visit(OperandFinder{task.engine}, config);
}

void name_operands(TaskDescriptor& task) {
  const HeaderOperands operands = configured_operands(task);
  task.header.surfaces = operands.surfaces;
  task.header.bases = operands.bases;
}

Status check_operands(const TaskDescriptor& task) {
  const TaskHeader& header = task.header;
  if (HeaderOperands{header.surfaces, header.bases} == HeaderOperands{}) return {};
  const HeaderOperands operands = configured_operands(task);
  constexpr std::uint32_t kNoSurface = SurfaceRegisters::kImplied, kNoBase = HeaderBases::kImplied;
  TESSERA_RETURN_IF_ERROR(check_one(header.surfaces.input, operands.surfaces.input, kNoSurface,
                                    "the input surface at register"));
  TESSERA_RETURN_IF_ERROR(check_one(header.surfaces.output, operands.surfaces.output, kNoSurface,
                                    "the output surface at register"));
  TESSERA_RETURN_IF_ERROR(
      check_one(header.bases.source, operands.bases.source, kNoBase, "the source's base index"));
  return check_one(header.bases.destination, operands.bases.destination, kNoBase,
                   "the destination's base index");
}

}  // namespace tessera::isa
