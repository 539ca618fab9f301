// The structures of the C interface as options of the C++ one.
#pragma once

#include "c/handles.h"

namespace tessera::c {

tessera_device_kind kind_in_c(DeviceKind kind);
Result<RuntimeOptions> runtime_of(const tessera_runtime_options* options);
Result<DebugOptions> debug_of(const tessera_debug_options* options);
// Whatever comes of it, the release functions in `options` are called once.
Result<PipelineOptions> pipeline_of(const tessera_pipeline_options* options);
PictureInput picture_of(const tessera_picture_input* how);
// Whatever comes of it, `release_payload` is called once.
SubmitOptions submit_of(const tessera_submit_options* options);

}  // namespace tessera::c
