// Every operator new and delete of a test program, in one place: by itself for each program, since
// they count or fail for all that is in it. Included by one source, behind
//
//   namespace {
//   struct OwnAllocations {
//     static bool fails();            // asked before each: true, and there is no memory for it
//     static void made(void* block);  // never null
//     static void gone(void* block);  // not null, before it is freed
//   };
//   }
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

void* own_block(std::size_t bytes) {
  if (OwnAllocations::fails()) return nullptr;
  void* const block = std::malloc(bytes == 0 ? 1 : bytes);
  if (block != nullptr) OwnAllocations::made(block);
  return block;
}

void* own_block(std::size_t bytes, std::align_val_t alignment) {
  if (OwnAllocations::fails()) return nullptr;
  const auto multiple = static_cast<std::size_t>(alignment);
  const std::size_t rounded = (bytes + multiple - 1) / multiple * multiple;
  void* const block = std::aligned_alloc(multiple, rounded == 0 ? multiple : rounded);
  if (block != nullptr) OwnAllocations::made(block);
  return block;
}

void* or_throw(void* block) {
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

void give_back(void* block) {
  if (block != nullptr) OwnAllocations::gone(block);
  std::free(block);
}

}  // namespace

void* operator new(std::size_t bytes) { return or_throw(own_block(bytes)); }
void* operator new[](std::size_t bytes) { return or_throw(own_block(bytes)); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return own_block(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return own_block(bytes); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return or_throw(own_block(bytes, alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return or_throw(own_block(bytes, alignment));
}
void operator delete(void* block) noexcept { give_back(block); }
void operator delete[](void* block) noexcept { give_back(block); }
void operator delete(void* block, std::size_t) noexcept { give_back(block); }
void operator delete[](void* block, std::size_t) noexcept { give_back(block); }
void operator delete(void* block, std::align_val_t) noexcept { give_back(block); }
void operator delete[](void* block, std::align_val_t) noexcept { give_back(block); }
void operator delete(void* block, std::size_t, std::align_val_t) noexcept { give_back(block); }
void operator delete[](void* block, std::size_t, std::align_val_t) noexcept { give_back(block); }
