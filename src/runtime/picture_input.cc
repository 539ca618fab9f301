// Pictures as inputs of models, and the stage that makes them.
#include <fmt/format.h>

#include "arith/rounding.h"
#include "tessera/picture.h"
#include "tessera/runtime.h"

namespace tessera {

Result<Tensor> picture_tensor(const Picture& picture, const TensorDescription& input,
                              const PictureInput& how) {
  const auto refuse = [&](const char* what) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("input '{}' is {}, {}", input.name, fmt::join(input.dims, "x"), what)};
  };
  if (input.dims.size() != 4) return refuse("a picture needs 4 dimensions");
  const bool channels_last = input.dims[3] == 3 && input.dims[1] != 3;
  const std::int64_t height = input.dims[channels_last ? 1 : 2];
  const std::int64_t width = input.dims[channels_last ? 2 : 3];
  if (input.dims[channels_last ? 3 : 1] != 3 || input.dims[0] != 1) {
    return refuse("a picture gives 1x3xHxW or 1xHxWx3");
  }
  const bool fits = picture.width == width && picture.height == height;
  const Picture resized = fits ? Picture{} : resize(picture, width, height);
  const Picture& pixels = fits ? picture : resized;
  Tensor tensor = Tensor::zeros(input.format, input.dims);
  const std::int64_t element = format_bytes(input.format);
  for (std::int64_t c = 0; c < 3; ++c) {
    const std::int64_t source = how.bgr ? 2 - c : c;
    for (std::int64_t i = 0; i < height * width; ++i) {
      const auto level = static_cast<float>(pixels.rgb[static_cast<std::size_t>(i * 3 + source)]);
      const std::int64_t at = channels_last ? i * 3 + c : c * height * width + i;
      arith::write_element(input.format, (level - how.mean[c]) / how.deviation[c],
                           tensor.bytes.data() + at * element);
    }
  }
  return tensor;
}

StageOptions picture_stage(const Model& model, const PictureInput& how) {
  StageOptions stage;
  stage.name = "decode";
  stage.function = [network = model.network(), how](Task& task) -> Status {
    const auto path = std::static_pointer_cast<const std::string>(task.payload);
    if (path == nullptr) {
      return Error{ErrorCode::kInvalidArgument,
                   "a picture's task has its path as payload, a shared pointer to std::string"};
    }
    if (network.inputs().size() != 1) {
      return Error{
          ErrorCode::kInvalidArgument,
          fmt::format("a picture is one input, the model has {}", network.inputs().size())};
    }
    TESSERA_TRY(const Picture picture, read_picture(*path));
    auto tensor = picture_tensor(picture, network.inputs()[0], how);
    if (!tensor.ok()) return tensor.error().with_context(*path);
    task.runs.assign(1, {std::move(tensor).value()});
    return {};
  };
  return stage;
}

}  // namespace tessera
