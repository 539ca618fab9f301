// The body of an inference request: a tensor list or an error, and what is read is answered as it was asked. And the
// same bytes as the config.json of a model.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "serve/infer_message.h"
#include "serve/model_repository.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera;
  const std::vector<TensorDescription> inputs = {
      {"x", Format::kF32, {2, 2}}, {"n", Format::kI64, {3}}, {"b", Format::kBool, {1}}};
  const std::vector<TensorDescription> outputs = {{"y", Format::kF32, {2}},
                                                  {"h", Format::kF16, {2}}};
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  // The first byte says where the JSON ends.
  const std::size_t header = size == 0 ? 0 : data[0];
  for (const bool has_header : {false, true}) {
    const auto request = serve::parse_infer(
        text, has_header ? std::optional<std::size_t>(header) : std::nullopt, inputs, outputs);
    if (!request.ok()) continue;
    if (request->inputs.size() != inputs.size()) std::abort();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (request->inputs[i].dims != inputs[i].dims) std::abort();
    }
    const std::vector<Tensor> values = {Tensor::zeros(Format::kF32, {2}),
                                        Tensor::zeros(Format::kF16, {2})};
    if (serve::write_infer("m", "1", *request, outputs, values).body.empty()) std::abort();
  }
  (void)serve::parse_model_config(std::string(text), {});
  return 0;
}
