// The public C++ interface of Tessera.
#pragma once

#include "tessera/device_kind.h"
#include "tessera/file.h"
#include "tessera/format.h"
#include "tessera/memory.h"
#include "tessera/network.h"
#include "tessera/operation.h"
#include "tessera/picture.h"
#include "tessera/result.h"
#include "tessera/run_result.h"
#include "tessera/runtime.h"
#include "tessera/session.h"
#include "tessera/shared_session.h"
#include "tessera/tensor.h"
#include "tessera/traps.h"
#include "tessera/visible_text.h"
