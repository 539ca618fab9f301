// What a model is for, done with our outputs and with the stored ones: classes, objects, voices,
// pitch. What is expected comes from the stored files.
#pragma once

#include <string>
#include <vector>

#include "model_case.h"
#include "model_runner.h"

namespace tessera::cases {

// Inputs, our outputs and the stored ones of one case.
struct CaseOutcome {
  const ModelCase* one = nullptr;
  std::vector<Tensor> inputs, found, expected;
};

struct TaskContext {
  const std::string& folder;
  const ModelRow& model;
  ModelRunner& runner;
  const std::vector<CaseOutcome>& outcomes;
  bool exact = false;  // float32 throughout: the task's result has to be the stored one
  std::size_t series_max = SIZE_MAX;  // elements of a data set or frames of a recording
};

// One result of a task: what was counted or measured, as stored, as found.
struct Finding {
  std::string what, stored, found;
  bool ok = true;
  std::string detail;  // where they differ; may be empty
};

// All that can be said about the model. Models without a task of their own are only compared
// number by number; they have no finding.
Result<std::vector<Finding>> run_tasks(const TaskContext& context);

}  // namespace tessera::cases
