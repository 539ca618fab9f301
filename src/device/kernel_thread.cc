#include "device/kernel_thread.h"

#include <utility>

namespace tessera::device {
namespace {

thread_local bool thread_of_kernel = false;

}  // namespace

bool in_thread_of_kernel() { return thread_of_kernel; }
void become_thread_of_kernel() { thread_of_kernel = true; }

KernelWorkHere::KernelWorkHere() : before_(std::exchange(thread_of_kernel, true)) {}
KernelWorkHere::~KernelWorkHere() { thread_of_kernel = before_; }

}  // namespace tessera::device
