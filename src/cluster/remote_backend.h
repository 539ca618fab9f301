// A processor of a cluster as a device: memory and queues are here, the kernels run there. One message goes for
// a run, with the inputs, and one comes, with the outputs and what the run cost.
//
// A tensor that one run wrote and the next reads stays on the node from the second time on: a state of a session
// goes over twice and then no more. Several runs are on their way at once, one for each kernel.
#pragma once

#include <memory>
#include <string>

#include "arch/chip_config.h"
#include "base/result.h"
#include "cluster/address.h"
#include "device/device.h"
#include "device/device_options.h"

namespace tessera::cluster {

struct RemoteDevice {
  std::unique_ptr<device::Device> device;
  ChipConfig chip;
};

// Name, kernels, split, images, values, traps, trace, check_hazards, queue_depth and run_limit of `options` hold;
// the cores are those of the address. Of `chip`, if it is there, the cluster must have a card.
Result<RemoteDevice> make_remote_device(const ClusterAddress& address,
                                        const device::DeviceConfig& options);

}  // namespace tessera::cluster
