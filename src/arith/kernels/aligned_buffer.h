// A growing array aligned to a vector register; its contents are undefined after growing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace tessera::kernels {

template <typename T>
class AlignedBuffer {
 public:
  static constexpr std::align_val_t kAlignment{64};

  // At least `count` elements.
  T* reserve(std::int64_t count) {
    if (count > capacity_) {
      data_.reset();  // never both at once
      const auto bytes = static_cast<std::size_t>(count) * sizeof(T);
      data_.reset(static_cast<T*>(::operator new(bytes, kAlignment)));
      capacity_ = count;
    }
    return data_.get();
  }
  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  std::int64_t capacity() const { return capacity_; }

 private:
  struct Delete {
    void operator()(T* pointer) const { ::operator delete(pointer, kAlignment); }
  };
  std::unique_ptr<T, Delete> data_;
  std::int64_t capacity_ = 0;
};

}  // namespace tessera::kernels
