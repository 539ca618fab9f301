// The bytes of a gRPC message as a request for inference: tensors of the sizes that their shapes say, or an error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "inference_service.pb.h"
#include "serve/grpc/infer_message.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera;
  const serve::ModelForm form = {
      {{"x", Format::kF32, {-1, 2}}, {"n", Format::kI8, {3}}, {"b", Format::kBool, {1}}},
      {{"y", Format::kF32, {2}}, {"h", Format::kF16, {2}}}};
  inference::ModelInferRequest message;
  if (!message.ParseFromArray(data, static_cast<int>(size))) return 0;
  const serve::SharedRegions regions;
  const auto request = serve::parse_infer(message, form, {&regions, ""});
  if (!request.ok()) return request.error().message.empty() ? (std::abort(), 0) : 0;
  if (request->inputs.size() != form.inputs.size()) std::abort();
  for (const Tensor& tensor : request->inputs) {
    const auto elements = static_cast<std::size_t>(element_count(tensor.dims));
    if (tensor.bytes.size() != elements * static_cast<std::size_t>(format_bytes(tensor.format))) {
      std::abort();
    }
  }
  for (const serve::WantedOutput& wanted : request->outputs) {
    if (wanted.index >= form.outputs.size()) std::abort();
  }
  return 0;
}
