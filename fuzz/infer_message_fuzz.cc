// The body of an inference request: a tensor list or an error, and what is read is answered as it was asked. And the
// same bytes as the config.json of a model, and as a file of tenants.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "serve/access.h"
#include "serve/infer_message.h"
#include "serve/model_repository.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera;
  const serve::ModelForm form = {
      {{"x", Format::kF32, {-1, 2}}, {"n", Format::kI64, {3}}, {"b", Format::kBool, {1}}},
      {{"y", Format::kF32, {2}}, {"h", Format::kF16, {2}}}};
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  // The first byte says where the JSON ends.
  const std::size_t header = size == 0 ? 0 : data[0];
  for (const bool has_header : {false, true}) {
    const auto request = serve::parse_infer(
        text, has_header ? std::optional<std::size_t>(header) : std::nullopt, form);
    if (!request.ok()) continue;
    if (request->inputs.size() != form.inputs.size()) std::abort();
    for (const Tensor& tensor : request->inputs) {
      const auto elements = static_cast<std::size_t>(element_count(tensor.dims));
      const auto bytes = elements * static_cast<std::size_t>(format_bytes(tensor.format));
      if (tensor.bytes.size() != bytes) std::abort();
    }
    const std::vector<Tensor> values = {Tensor::zeros(Format::kF32, {2}),
                                        Tensor::zeros(Format::kF16, {2})};
    if (serve::write_infer("m", "1", *request, form.outputs, values).body.empty()) std::abort();
  }
  (void)serve::parse_model_config(std::string(text), {});
  (void)serve::Access::parse(std::string(text));
  return 0;
}
