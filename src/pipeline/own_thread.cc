#include "pipeline/own_thread.h"

#include <utility>

namespace tessera::pipeline {
namespace {

thread_local const void* owner_of_this_thread = nullptr;

}  // namespace

OwnThread::OwnThread(const void* owner) : before_(std::exchange(owner_of_this_thread, owner)) {}
OwnThread::~OwnThread() { owner_of_this_thread = before_; }
const void* OwnThread::owner() { return owner_of_this_thread; }

}  // namespace tessera::pipeline
