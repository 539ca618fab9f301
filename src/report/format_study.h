// A model under one number format after the other: what each costs in accuracy, bytes and cycles.
//
//   1 - cosine │ x mxfp4e2m1                  the page an engineer looks at before choosing a
//              │     x bfp:3                  format: how far the outputs are from those in
//              │         x mxfp8e4m3          float32, over the bytes that the operands of the
//              │             x bfp:7 ...      products take
//              └──────────────────── bytes
//
// Outputs are those of the host device, which has the bits of the processor; cycles are those of
// the compiled program.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "arith/tensor.h"
#include "base/result.h"
#include "graph/graph.h"
#include "model/model.h"
#include "tessera/session.h"

namespace tessera::report {

// How far outputs lie from those in float32, over all cases; numbers that are not finite in
// float32 are left out.
struct Accuracy {
  double cosine = 1;     // of the output that has the smallest
  double max_error = 0;  // the largest difference of two elements
  double largest = 0;    // the largest magnitude in float32 of the output with that difference
  // The share of rows (along the last axis of the first output) whose largest element is at the
  // same place; only where the first output has scores: two axes or three, the last one not of 1.
  std::optional<double> top1;
  // The share of texts that are the same: the best class of each step, repetitions and class 0
  // left out (CTC).
  std::optional<double> texts;
};

struct FormatRow {
  std::string format;  // as --format takes it
  std::string error;   // why the model does not run in it; the rest is empty then
  Accuracy accuracy;
  std::int64_t weight_bytes = 0;      // the constant operands of products, in the format
  std::int64_t activation_bytes = 0;  // the computed operands of products
  std::optional<std::int64_t> cycles;
  std::string cycles_error;  // why there are none
};

struct FormatStudyOptions {
  LoadOptions load;  // `arch` without a format
  std::vector<std::string> formats;
  std::vector<std::vector<Tensor>> cases;  // inputs, in the order of the network's
  bool texts = false;
  int threads = 0;
};

struct FormatStudy {
  std::size_t cases = 0;
  std::vector<FormatRow> rows;  // float32 first
  std::vector<std::string> notes;
  std::vector<std::string> external_files;  // that the model's tensors were read from
};

// f32, f16, bfp with m = 15..3, int8 and the formats of Microscaling.
//
// int8 is what post-training quantisation makes of the model's float products
// (model/insert_quantisation.h), with the range of each activation over the cases in float32;
// products of two computed operands stay in the architecture's own format.
std::vector<std::string> study_formats();

// The inputs of the model, as the cases must give them.
Result<std::vector<TensorDescription>> study_inputs(const std::string& path,
                                                    const LoadOptions& options);
Result<std::vector<TensorDescription>> study_inputs(const model::Model& model,
                                                    const LoadOptions& options);

Result<FormatStudy> format_study(const std::string& path, const FormatStudyOptions& options);

// The pieces, for tests.
Accuracy accuracy_of(const std::vector<std::vector<Tensor>>& expected,
                     const std::vector<std::vector<Tensor>>& found, bool texts);

}  // namespace tessera::report
