// tessera bench --suite pipeline, tuning, unequal and outcomes: what the pipeline is worth in front
// of a processor with real time behaviour.
#pragma once

#include "base/result.h"

namespace tessera::tools {

struct PipelineSuite {
  double seconds = 2;  // about, of each measurement
  bool json = false;
};

// Five mixes of stage times: one task after the other, in lock step, in free flow. Throughput as a
// share of the ideal 1 / longest stage, and how much of the time the processor is busy.
Status run_pipeline_suite(const PipelineSuite& suite);

// From one thread in each stage: how long tuning takes to 95 % of the best setting by hand, and
// whether it stays there.
Status run_tuning_suite(const PipelineSuite& suite);

// Devices of unequal speed, one of them hanging: throughput as a share of the sum of the speeds of
// those that work.
Status run_unequal_suite(const PipelineSuite& suite);

// How long after its deadline, or after cancel(), the caller is notified of a job, also behind one
// that is stuck; and when each of sixteen equal jobs comes out.
Status run_outcome_suite(const PipelineSuite& suite);

}  // namespace tessera::tools
