// Number formats by name: what `--format` takes, and what stands behind the '+' of an
// architecture's name ("tessera128+mxfp8e4m3").
//
//   f32, bf16, f16            vectors in this format, matrix inputs left alone
//   bfp[:MX[:MW]][:LONG]      block floating point; MX and MW mantissa bits of activations and
//                             weights (one number: both), LONG exact or q34.40
//   fixed[:MX]:B, log[:MX]:B  the same with weights on a grid (arith/weight_grid.h) of B bits:
//                             integers with one scale an output channel, or powers of two
//   mxfp8e4m3[:WEIGHTS][:SCALE]  Microscaling; an element format of their own for the weights,
//                             SCALE floor, ceil or even
#pragma once

#include <string>

#include "arch/chip_config.h"
#include "base/result.h"

namespace tessera {

// Changes `formats` to what `text` says; what it leaves out stays, but for the scale mode (floor).
Status apply_format_choice(const std::string& text, FormatsConfig& formats);

// The choices in a line, for messages and help.
std::string format_choices();

// "bfp:11:11", "mxfp8e4m3:ceil", "f16": a text that gives these formats.
std::string format_choice_text(const FormatsConfig& formats);

}  // namespace tessera
