// Tensors in host memory (a public type).
#pragma once

#include "tessera/tensor.h"
