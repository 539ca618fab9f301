// Single operations on the memory of a device: im2col, matrix product, ReLU, maximum pooling.
//
// A simple accelerator offers functions, not networks. Here a task is one of four, given by sizes
// and addresses:
//
//   image ─► im2col ─► matrix product ─► ReLU ─► maximum pooling ─► image
//                            ▲
//               weights: a region that was sent once + an offset in it
//
// Everything on the device is a matrix of the vector format, dense and row-major: an image has a
// row for each pixel and a column for each channel, so the output of a product is an image again.
// The sum of a product runs along tap x channel, as im2col lays it out.
//
// The bits are those of the same operations in a network (docs/numbers.md). The chain equals a
// fused convolution without bias where the convolution's blocks lie as the product's do: with the
// block cut `im2col` always, with `channel` where the channels are a multiple of the block's N.
// Elsewhere the blocks hold other values, so their exponents differ. A bias would be rounded by
// itself here, and not together with the sum.
//
// Each operation of a size is compiled once, to a small program, and runs on every kind of device.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "device/device.h"
#include "tessera/operation.h"

namespace tessera::device {

using operations::Im2col;
using operations::ImageSize;
using operations::MatrixProduct;
using operations::MaximumPool;
using operations::Operation;
using operations::Relu;
using operations::Window;

// Positions of the window on the image, as an image of as many channels.
ImageSize window_positions(const ImageSize& image, const Window& window);

const char* operation_name(const Operation& operation);
// Rows and columns of its result.
Shape output_dims(const Operation& operation);

struct OperationSubmission {
  Operation operation;
  Address input, output;
  Address weights;  // of the region, where the operation is a product
  Bytes weight_offset;
  int kernel = kAnyKernel;
  std::uint64_t tag = 0;
  std::shared_ptr<void> keeps = {};  // as in Submission
};

// Any thread may call.
class OperationSet {
 public:
  // The device outlives the set. Formats are those of `chip`, which is the device's if it is a sim.
  OperationSet(Device& device, const ChipConfig& chip) : device_(device), chip_(chip) {}
  ~OperationSet();
  OperationSet(const OperationSet&) = delete;
  OperationSet& operator=(const OperationSet&) = delete;

  // Compiles and loads the operation, unless that was done before. The error names what does not
  // fit together.
  Result<LoadedId> prepare(const Operation& operation);
  Result<SequenceNumber> submit(const OperationSubmission& task, TimePoint deadline = kNoDeadline);

  std::size_t compiled() const;

 private:
  Device& device_;
  const ChipConfig chip_;
  mutable std::mutex mutex_;
  std::map<Operation, LoadedId> known_;
};

}  // namespace tessera::device
