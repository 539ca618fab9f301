// What several compilations of one graph have in common: the images of its kernels, cut so or so, and
// its constants' bytes. Cores that share layers by rows have the kernels of one core, so programs for
// any number of cores find most of them here.
//
//   compile for 4 cores ──┐                        ┌─ node 7, one share ──► images
//   compile for 16 cores ─┴─► (node, how it is cut) ┼─ node 7, 4 shares
//                                                   └─ node 9, ...
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "base/result.h"
#include "compile/kernel_slices.h"
#include "compile/weight_region.h"
#include "graph/graph.h"

namespace tessera::compile {

// Of one graph on one chip, with one setting of CompileOptions. Any thread may use it at any time.
class KernelStore {
 public:
  // The least recently used kernels are given up beyond so many bytes.
  explicit KernelStore(std::size_t bytes_max = std::size_t{1} << 30) : bytes_max_(bytes_max) {}

  struct Key {
    graph::NodeIndex node = 0;
    KernelCut how;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  using Make = std::function<Result<CutKernel>()>;
  // What `make` gives at the first call of a key. Its error is not kept.
  Result<std::shared_ptr<const CutKernel>> kernel(const Key& key, const Make& make);
  // Of a constant tensor.
  WeightBytes constant(const std::shared_ptr<const Tensor>& tensor);

  // Of the images that it holds.
  std::size_t bytes() const;

 private:
  struct Entry {
    std::shared_ptr<const CutKernel> kernel;
    std::size_t bytes = 0;
    std::list<Key>::iterator use;
  };
  void make_room();

  const std::size_t bytes_max_;
  mutable std::mutex mutex_;
  std::size_t bytes_ = 0;
  std::map<Key, Entry> kernels_;
  std::list<Key> uses_;                             // the latest first
  std::map<const Tensor*, WeightBytes> constants_;  // which keep the tensors
};

}  // namespace tessera::compile
