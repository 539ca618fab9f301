#include "import_target.h"

#include "base/check.h"
#include "model/import.h"
#include "model/infer.h"

namespace tessera::fuzz {
namespace {

// Small, so that the fuzzer's time goes into the paths and not into large tensors.
constexpr model::ImportLimits kLimits = {.file_bytes_max = 1 << 20,
                                         .nodes_max = 10'000,
                                         .tensor_bytes_max = 1 << 20,
                                         .external_bytes_max = 0,
                                         .function_bytes_max = 1 << 20};

void check_message(const Error& error) {
  TESSERA_CHECK(error.message.starts_with("importing 'fuzz': "), "{}", error.message);
}

}  // namespace

ImportOutcome import_target(std::span<const std::byte> bytes) {
  ImportOutcome outcome;
  const Result<Tensor> tensor = model::import_tensor_bytes(bytes, "fuzz");
  outcome.is_tensor = tensor.ok();
  if (!tensor.ok()) check_message(tensor.error());
  if (tensor.ok()) {
    TESSERA_CHECK(static_cast<std::int64_t>(tensor->bytes.size()) ==
                      element_count(tensor->dims) * format_bytes(tensor->format),
                  "a tensor of {} bytes", tensor->bytes.size());
  }
  const Result<model::Model> model = model::import_bytes(bytes, "fuzz", "", kLimits);
  outcome.is_model = model.ok();
  if (!model.ok()) check_message(model.error());
  if (model.ok()) outcome.is_inferred = model::infer(*model, {}).ok();
  return outcome;
}

}  // namespace tessera::fuzz
