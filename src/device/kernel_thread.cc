#include "device/kernel_thread.h"

namespace tessera::device {
namespace {

thread_local bool thread_of_kernel = false;

}  // namespace

bool in_thread_of_kernel() { return thread_of_kernel; }
void become_thread_of_kernel() { thread_of_kernel = true; }

}  // namespace tessera::device
