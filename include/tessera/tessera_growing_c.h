/* Sequences whose states grow, in C (tessera/growing_pipeline.h). What tessera_c.h says at its head of handles, errors, options
 * and threads holds here.
 *
 *   tessera_runtime_open ─► tessera_growing_pipeline_open ─► tessera_growing_stream_open ─► tessera_growing_submit
 *     ─► tessera_job_wait ─► tessera_result_output
 */
#ifndef TESSERA_TESSERA_GROWING_C_H
#define TESSERA_TESSERA_GROWING_C_H
#pragma once

#include "tessera/tessera_c.h"

#ifdef __cplusplus
extern "C" {
#endif

/* NOLINTBEGIN(readability-identifier-naming,modernize-*): the names and forms of C */

/* A model whose states grow by a row with each task, on the devices of a runtime. */
typedef struct tessera_growing_pipeline tessera_growing_pipeline;
/* One sequence. Its memory goes with it. */
typedef struct tessera_growing_stream tessera_growing_stream;

/* Names of an input and of the output that is it with one more row. */
typedef struct tessera_growing_state {
  const char *input, *output;
} tessera_growing_state;

/* What grows, how far, and how the pipeline of each capacity is. */
typedef struct tessera_growing_options {
  size_t size;
  const tessera_growing_state* states; /* at least one */
  size_t state_count;
  int64_t rows_max;     /* that a state may have; its memory is taken at once; 0: 1024 */
  int64_t capacity_min; /* rows of the first network; 0: 64 */
  const tessera_load_options* load;         /* NULL: the defaults */
  const tessera_pipeline_options* pipeline; /* without stages; NULL: the defaults */
  const char* const* devices;               /* names; NULL: all of the runtime */
  size_t device_count;
} tessera_growing_options;

/* Now, and since it was opened. */
typedef struct tessera_growing_counters {
  int64_t streams, submitted, networks_compiled;
} tessera_growing_counters;

/* An ONNX model, which is read once. */
tessera_error* tessera_growing_pipeline_open(tessera_runtime* runtime, const char* path,
                                             const tessera_growing_options* options,
                                             tessera_growing_pipeline** pipeline);
/* How many inputs a task has: those that are no states. */
size_t tessera_growing_input_count(const tessera_growing_pipeline* pipeline);
/* Extents that the model leaves open are -1. Zeros, with a name of NULL, beyond the last. */
tessera_tensor_description tessera_growing_input(const tessera_growing_pipeline* pipeline,
                                                 size_t index);
tessera_growing_counters tessera_growing_pipeline_status(const tessera_growing_pipeline* pipeline);
/* All tasks of all streams, and their callbacks. */
void tessera_growing_pipeline_wait_until_done(tessera_growing_pipeline* pipeline);
void tessera_growing_pipeline_release(tessera_growing_pipeline* pipeline);

/* An empty sequence on that device; `device` NULL: on the one that holds the fewest. `options` may be NULL. */
tessera_error* tessera_growing_stream_open(tessera_growing_pipeline* pipeline, const char* device,
                                           const tessera_stream_options* options,
                                           tessera_growing_stream** stream);
/* Copies the inputs, of shapes for tessera_growing_capacity() rows; the task appends a row, and its result has the outputs that
 * are no states. Behind a task that failed others fail, until tessera_growing_keep_rows() says where the sequence goes on.
 * `job` may be NULL where there is a callback. */
tessera_error* tessera_growing_submit(tessera_growing_stream* stream, const tessera_tensor* inputs,
                                      size_t input_count, const tessera_submit_options* options,
                                      tessera_job** job);
/* That the states have when the tasks submitted are done, or before the one that failed. */
int64_t tessera_growing_rows(const tessera_growing_stream* stream);
/* Rows that the next task's network sees beside the one that it makes; 0: there is no room. */
int64_t tessera_growing_capacity(const tessera_growing_stream* stream);
/* The sequence goes on with its first `rows` rows; waits for the tasks that were submitted. */
tessera_error* tessera_growing_keep_rows(tessera_growing_stream* stream, int64_t rows);
/* All tasks of this stream. */
void tessera_growing_stream_wait_until_done(tessera_growing_stream* stream);
void tessera_growing_stream_release(tessera_growing_stream* stream);

/* NOLINTEND(readability-identifier-naming,modernize-*) */

#ifdef __cplusplus
}
#endif
#endif
