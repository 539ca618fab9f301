// The threads of the kernels of all devices.
#pragma once

namespace tessera::device {

// Whether the calling thread is one of a device's kernels. It cannot wait for the end of its
// device.
bool in_thread_of_kernel();
// The calling thread is one from now on.
void become_thread_of_kernel();

}  // namespace tessera::device
