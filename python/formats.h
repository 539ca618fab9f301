// Number formats of layers, as dictionaries of Python.
#pragma once

#include "binding.h"
#include "tessera/network.h"

namespace tessera::python {

// {"mantissa_bits": {layer: bits}, "wide": [value, ...]}, whatever else is in it; None: none.
LayerFormats to_layer_formats(const py::object& given);

}  // namespace tessera::python
