/* Tasks of many shapes in one stream, in C (tessera/dynamic_pipeline.h). What tessera_c.h says at its head of handles, errors,
 * options and threads holds here.
 *
 *   tessera_runtime_open ─► tessera_dynamic_pipeline_open ─► tessera_dynamic_stream_open ─► tessera_dynamic_submit
 *     ─► tessera_job_wait ─► tessera_result_output
 */
#ifndef TESSERA_TESSERA_DYNAMIC_C_H
#define TESSERA_TESSERA_DYNAMIC_C_H
#pragma once

#include "tessera/tessera_c.h"

#ifdef __cplusplus
extern "C" {
#endif

/* NOLINTBEGIN(readability-identifier-naming,modernize-*): the names and forms of C */

/* A pipeline for each network that inputs ask for. */
typedef struct tessera_dynamic_pipeline tessera_dynamic_pipeline;
/* A sequence of tasks of any shapes. */
typedef struct tessera_dynamic_stream tessera_dynamic_stream;

/* How networks are made, and how the pipeline of each is. */
typedef struct tessera_dynamic_pipeline_options {
  size_t size;
  /* NULL: the defaults. Its sessions_max, device, threads and cores are not asked: the runtime has the devices. */
  const tessera_dynamic_options* networks;
  const tessera_pipeline_options*
      pipeline;               /* without stages; jobs_max is of each shape; NULL: the defaults */
  const char* const* devices; /* names; NULL: all of the runtime */
  size_t device_count;
  int64_t pipelines_max; /* shapes that have a pipeline at once; 0: 8 */
} tessera_dynamic_pipeline_options;

/* Now, and since it was opened. */
typedef struct tessera_dynamic_pipeline_counters {
  int64_t pipelines, pipelines_opened, submitted;
  int64_t failed_shapes; /* tasks for whose shapes there is no network */
  int64_t waiting; /* tasks, for a network that is compiled, or for others before them that do */
  int64_t ran_in_parts; /* tasks */
  int64_t compiled;     /* networks, anew */
} tessera_dynamic_pipeline_counters;

/* An ONNX model, which is read once. `options` may be NULL. */
tessera_error* tessera_dynamic_pipeline_open(tessera_runtime* runtime, const char* path,
                                             const tessera_dynamic_pipeline_options* options,
                                             tessera_dynamic_pipeline** pipeline);
tessera_dynamic_pipeline_counters tessera_dynamic_pipeline_status(
    const tessera_dynamic_pipeline* pipeline);
/* All tasks of all streams, and their callbacks. */
void tessera_dynamic_pipeline_wait_until_done(tessera_dynamic_pipeline* pipeline);
void tessera_dynamic_pipeline_release(tessera_dynamic_pipeline* pipeline);

/* Results come out in the order in which tasks went in, over all shapes, unless `options` (NULL: the defaults) say otherwise. */
tessera_error* tessera_dynamic_stream_open(tessera_dynamic_pipeline* pipeline,
                                           const tessera_stream_options* options,
                                           tessera_dynamic_stream** stream);
/* Copies the inputs, all that the model has, in its order and of any shapes that it takes; a shape that is new is compiled
 * first, by a thread of the pipeline, which also runs models in parts. Inputs that the model does not take are refused here; where no network can be made for a shape, the
 * job fails in its turn, and no other. `job` may be NULL where there is a callback. */
tessera_error* tessera_dynamic_submit(tessera_dynamic_stream* stream, const tessera_tensor* inputs,
                                      size_t input_count, const tessera_submit_options* options,
                                      tessera_job** job);
/* All tasks of this stream. */
void tessera_dynamic_stream_wait_until_done(tessera_dynamic_stream* stream);
void tessera_dynamic_stream_release(tessera_dynamic_stream* stream);

/* NOLINTEND(readability-identifier-naming,modernize-*) */

#ifdef __cplusplus
}
#endif
#endif
