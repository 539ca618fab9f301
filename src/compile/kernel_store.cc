#include "compile/kernel_store.h"

namespace tessera::compile {

Result<std::shared_ptr<const CutKernel>> KernelStore::kernel(const Key& key, const Make& make) {
  const std::lock_guard lock(mutex_);
  if (const auto found = kernels_.find(key); found != kernels_.end()) {
    uses_.splice(uses_.begin(), uses_, found->second.use);
    return found->second.kernel;
  }
  TESSERA_TRY(CutKernel made, make());
  Entry entry{std::make_shared<const CutKernel>(std::move(made)), 0, {}};
  for (const WeightBytes& image : entry.kernel->images) entry.bytes += image.bytes().size();
  uses_.push_front(key);
  entry.use = uses_.begin();
  bytes_ += entry.bytes;
  std::shared_ptr<const CutKernel> result = entry.kernel;
  kernels_.emplace(key, std::move(entry));
  make_room();
  return result;
}

void KernelStore::make_room() {
  while (bytes_ > bytes_max_ && uses_.size() > 1) {
    const auto last = kernels_.find(uses_.back());
    bytes_ -= last->second.bytes;
    kernels_.erase(last);
    uses_.pop_back();
  }
}

WeightBytes KernelStore::constant(const std::shared_ptr<const Tensor>& tensor) {
  const std::lock_guard lock(mutex_);
  const auto found = constants_.find(tensor.get());
  if (found != constants_.end()) return found->second;
  return constants_.emplace(tensor.get(), WeightBytes(tensor, tensor->bytes)).first->second;
}

std::size_t KernelStore::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace tessera::compile
