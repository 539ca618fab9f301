// What the [dram] section of an architecture file says, in the terms of the models.
#pragma once

#include "arch/chip_config.h"
#include "arch/dram_channel_model.h"
#include "arch/dram_device.h"

namespace tessera {

// The row of dram_devices(); null for kinds that are no device. It lives as long as the program.
const DramDevice* dram_device(DramKind kind);

// Of each of its channels.
DramChannelSettings dram_channel_settings(const DramConfig& config);

}  // namespace tessera
