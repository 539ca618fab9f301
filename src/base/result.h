// Result<T>, Status, Error and TESSERA_TRY (public types).
#pragma once

#include "tessera/result.h"
