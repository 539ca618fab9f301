// Positions in a plane: cropping and padding about the centre, columns back to an image, sampling
// grids, convolution at displaced positions.
#pragma once

#include "model/ops/call.h"

namespace tessera::model::ops {

Result<Outputs> center_crop_pad_shape(const Call& call);
Result<Outputs> column_to_image_shape(const Call& call);  // Col2Im
Result<Outputs> affine_grid_shape(const Call& call);
Result<Outputs> deform_conv_shape(const Call& call);

Status center_crop_pad(const Call& call, std::vector<Tensor>& outputs);
Status column_to_image(const Call& call, std::vector<Tensor>& outputs);
Status affine_grid(const Call& call, std::vector<Tensor>& outputs);
Status deform_conv(const Call& call, std::vector<Tensor>& outputs);

}  // namespace tessera::model::ops
