/* The C interface of Tessera (C11): what tessera/session.h and tessera/runtime.h offer.
 *
 *   tessera_network_load ─► tessera_runtime_open ─► tessera_model_load ─► tessera_pipeline_open
 *     ─► tessera_stream_open ─► tessera_submit ─► tessera_job_wait ─► tessera_result_output
 *
 * Handles.  Everything behind a pointer to an incomplete type is made by this library and given
 *   back with the function of its name, tessera_X_release, which takes NULL too. Handles may be
 *   given back in any order: what one of them needs lives until the last has gone. A handle may be
 *   used by several threads at once, but for its release.
 * Errors.   A function that can fail returns tessera_error*: NULL is success; anything else belongs
 *   to the caller, says why in words, and is given back with tessera_error_release. Out parameters
 *   are set on success only, but for handles, which are NULL on failure.
 * Text.     Strings are UTF-8, end with a zero, and belong to the handle that they were asked of;
 *   they live as long as it does.
 * Options.  A structure of zeros means the defaults, and so does NULL in its place.
 */
#ifndef TESSERA_TESSERA_C_H
#define TESSERA_TESSERA_C_H
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* NOLINTBEGIN(readability-identifier-naming,modernize-*): the names and forms of C */

typedef struct tessera_error tessera_error;
typedef struct tessera_network tessera_network;
typedef struct tessera_runtime tessera_runtime;
typedef struct tessera_model tessera_model;
typedef struct tessera_pipeline tessera_pipeline;
typedef struct tessera_stream tessera_stream;
typedef struct tessera_job tessera_job;
typedef struct tessera_result tessera_result;
typedef struct tessera_statistics tessera_statistics;

/* "0.1.0" */
const char* tessera_version(void);

/* ------------------------------------------------------------------------------- errors */

/* Tells the caller what to do about it. */
typedef enum tessera_code {
  TESSERA_INVALID_ARGUMENT = 1, /* mend the call */
  TESSERA_INVALID_MODEL = 2,    /* mend the model, or any other foreign file */
  TESSERA_DOES_NOT_FIT = 3,     /* choose another configuration */
  TESSERA_UNSUPPORTED = 4,      /* the operator or feature is refused by name */
  TESSERA_UNAVAILABLE = 5,      /* retry */
  TESSERA_INTERNAL = 6          /* give up; it is the library's fault */
} tessera_code;

/* Why a task has no result. */
typedef enum tessera_failure {
  TESSERA_FAILURE_NONE = 0,      /* not an error of a task */
  TESSERA_FAILURE_ERROR = 1,     /* its own: a bad input, an operator that failed */
  TESSERA_FAILURE_CANCELLED = 2, /* by tessera_job_cancel */
  TESSERA_FAILURE_DEADLINE = 3,  /* passed first */
  TESSERA_FAILURE_DEVICE = 4,    /* the device failed, hung, or lost it */
  TESSERA_FAILURE_MISMATCH = 5   /* debugging: two devices gave different bits */
} tessera_failure;

tessera_code tessera_error_code(const tessera_error* error);
const char* tessera_error_message(const tessera_error* error);
/* Of a task's error; empty where that is not known. */
tessera_failure tessera_error_failure(const tessera_error* error);
const char* tessera_error_stage(const tessera_error* error);
const char* tessera_error_device(const tessera_error* error);
const char* tessera_error_layer(const tessera_error* error);
void tessera_error_release(tessera_error* error);

/* ------------------------------------------------------------------------------- tensors */

typedef enum tessera_format {
  TESSERA_F16 = 0,
  TESSERA_BF16 = 1,
  TESSERA_F32 = 2,
  TESSERA_I8 = 3,
  TESSERA_U8 = 4,
  TESSERA_I16 = 5,
  TESSERA_I32 = 6,
  TESSERA_F64 = 7,
  TESSERA_U16 = 8,
  TESSERA_U32 = 9,
  TESSERA_I64 = 10,
  TESSERA_U64 = 11,
  TESSERA_BOOL = 12
} tessera_format;
/* Bytes of an element; 0 for a number that is no format. */
size_t tessera_format_bytes(tessera_format format);

/* Elements in row-major order that belong to somebody else. */
typedef struct tessera_tensor {
  tessera_format format;
  size_t rank;         /* 0: a scalar */
  const int64_t* dims; /* `rank` extents */
  const void* data;
  size_t bytes; /* product of the extents times the bytes of an element */
} tessera_tensor;

/* The name, format and shape of a network's input or output. */
typedef struct tessera_tensor_description {
  const char* name;
  tessera_format format;
  size_t rank;
  const int64_t* dims;
} tessera_tensor_description;

/* ------------------------------------------------------------------------------- networks */

/* The shape of an input whose dimensions the model leaves open. */
typedef struct tessera_named_shape {
  const char* name;
  size_t rank;
  const int64_t* dims;
} tessera_named_shape;

/* The value of an input that is known at compile time; the network has no such input then. */
typedef struct tessera_named_tensor {
  const char* name;
  tessera_tensor tensor;
} tessera_named_tensor;

typedef struct tessera_load_options {
  const char* arch; /* profile, or path of an architecture file; NULL: "tessera128" */
  const tessera_named_shape* shapes;
  size_t shape_count;
  const tessera_named_tensor* constants;
  size_t constant_count;
  bool require_full_offload; /* a step on the host is an error */
} tessera_load_options;

/* An ONNX model or a package (.tpkg). */
tessera_error* tessera_network_load(const char* path, const tessera_load_options* options,
                                    tessera_network** network);
size_t tessera_network_input_count(const tessera_network* network);
size_t tessera_network_output_count(const tessera_network* network);
/* Zeros, with a name of NULL, for an index beyond the last. */
tessera_tensor_description tessera_network_input(const tessera_network* network, size_t index);
tessera_tensor_description tessera_network_output(const tessera_network* network, size_t index);
int64_t tessera_network_nodes_on_processor(const tessera_network* network);
int64_t tessera_network_nodes_on_host(const tessera_network* network);
tessera_error* tessera_network_save_package(const tessera_network* network, const char* path);
void tessera_network_release(tessera_network* network);

/* ------------------------------------------------------------------------------- runtimes */

typedef enum tessera_device_kind {
  TESSERA_HOST = 0, /* the bits of the processor at CPU speed */
  TESSERA_SIM = 1,  /* the virtual processor: bits and cycles */
  TESSERA_REF = 2   /* obvious loops, the oracle */
} tessera_device_kind;

typedef struct tessera_device_options {
  tessera_device_kind kind;
  const char* name;        /* NULL: kind and number, "host0" */
  const char* arch;        /* sim: what networks were compiled for; NULL: "tessera128" */
  int kernels;             /* that run side by side, 1 to 64; 0: one */
  int threads;             /* host: of all kernels together; 0: all cores */
  bool timing_only;        /* sim: skip the values, same cycles */
  double pace;             /* sim: simulated time on the wall clock; 1: real time, 0: free */
  int64_t hang_timeout_ms; /* a run that takes longer is given up; 0: never */
} tessera_device_options;

typedef struct tessera_runtime_options {
  const tessera_device_options* devices; /* NULL: one host device */
  size_t device_count;
  bool no_metrics; /* record nothing for traces */
} tessera_runtime_options;

tessera_error* tessera_runtime_open(const tessera_runtime_options* options,
                                    tessera_runtime** runtime);
/* What ran when, as Perfetto / Chrome trace JSON. */
tessera_error* tessera_runtime_write_trace(const tessera_runtime* runtime, const char* path);
void tessera_runtime_release(tessera_runtime* runtime);

/* Puts the network on the devices named, on all where `device_count` is 0. */
tessera_error* tessera_model_load(tessera_runtime* runtime, const tessera_network* network,
                                  const char* const* devices, size_t device_count,
                                  tessera_model** model);
void tessera_model_release(tessera_model* model);

/* ------------------------------------------------------------------------------- pipelines */

typedef struct tessera_pipeline_options {
  size_t jobs_max;       /* in flight, of all streams together; 0: 256 */
  bool lock_step;        /* all tasks move on together; false: each as soon as it can */
  bool low_latency;      /* one task at a time to a kernel; false: batches of 8 */
  bool tune;             /* balance the threads of the stages while running */
  int64_t compare_every; /* of so many tasks one runs on the host too and is compared; 0: none */
} tessera_pipeline_options;

/* pre | execute | post of one model. */
tessera_error* tessera_pipeline_open(tessera_runtime* runtime, const tessera_model* model,
                                     const tessera_pipeline_options* options,
                                     tessera_pipeline** pipeline);
/* Stages are "pre", "execute" and "post". While tasks flow; none is lost. */
tessera_error* tessera_pipeline_set_threads(tessera_pipeline* pipeline, const char* stage,
                                            int threads);
tessera_error* tessera_pipeline_set_kernels(tessera_pipeline* pipeline, const char* stage,
                                            int kernels);
void tessera_pipeline_wait_until_done(tessera_pipeline* pipeline);
void tessera_pipeline_release(tessera_pipeline* pipeline);

/* ------------------------------------------------------------------------------- tasks */

/* Results come out in the order the tasks of one stream went in. */
tessera_error* tessera_stream_open(tessera_pipeline* pipeline, tessera_stream** stream);
/* False: there was no room after `patience_ns` (negative: no limit). */
bool tessera_stream_wait_for_room(tessera_stream* stream, int64_t patience_ns);
void tessera_stream_wait_until_done(tessera_stream* stream);
void tessera_stream_release(tessera_stream* stream);

/* One of `result` and `error` is NULL; the other belongs to the callback. Called by a thread of the
 * library, in the order of the stream; it must not wait for other jobs of its stream. */
typedef void (*tessera_callback)(void* context, tessera_result* result, tessera_error* error);

typedef struct tessera_submit_options {
  tessera_callback callback; /* NULL: the result is for tessera_job_wait */
  void* context;             /* what the callback gets */
  int64_t deadline_ns;       /* from now on; 0: none */
  bool fail_if_full;         /* TESSERA_UNAVAILABLE where there is no room; false: wait for it */
} tessera_submit_options;

/* Copies the inputs, which are those of the model in their order. `job` may be NULL where there is
 * a callback. */
tessera_error* tessera_submit(tessera_stream* stream, const tessera_tensor* inputs,
                              size_t input_count, const tessera_submit_options* options,
                              tessera_job** job);

/* Waits for the task and hands its result over, once. After `patience_ns` (negative: no limit) both
 * the error and `*result` are NULL, and the task goes on. */
tessera_error* tessera_job_wait(tessera_job* job, int64_t patience_ns, tessera_result** result);
/* Waits for one of several. False: none was done after `patience_ns`, or there are no jobs. */
bool tessera_wait_any(tessera_job* const* jobs, size_t job_count, int64_t patience_ns,
                      size_t* index);
bool tessera_job_done(const tessera_job* job);
/* The task ends with TESSERA_FAILURE_CANCELLED unless it is done first. Returns at once. */
void tessera_job_cancel(tessera_job* job);
uint64_t tessera_job_id(const tessera_job* job);
/* The task goes on. */
void tessera_job_release(tessera_job* job);

size_t tessera_result_output_count(const tessera_result* result);
/* Points into the result; zeros for an index beyond the last. */
tessera_tensor tessera_result_output(const tessera_result* result, size_t index);
/* Simulated; 0 on host and ref. */
int64_t tessera_result_cycles(const tessera_result* result);
const char* tessera_result_device(const tessera_result* result);
uint64_t tessera_result_sequence(const tessera_result* result); /* in its stream, from 0 */

typedef struct tessera_times {
  int64_t total_ns; /* from submit to result */
  int64_t queued_ns;
  int64_t transfer_in_ns, kernel_ns, transfer_out_ns;
} tessera_times;
tessera_times tessera_result_times(const tessera_result* result);
void tessera_result_release(tessera_result* result);

/* ------------------------------------------------------------------------------- statistics */

typedef struct tessera_device_statistics {
  const char* name;
  tessera_device_kind kind;
  int kernels;
  bool healthy;
  const char* fault; /* why not */
  int64_t runs, bytes_in, bytes_out, weight_bytes;
  int64_t busy_ns; /* of all kernels together */
} tessera_device_statistics;

typedef struct tessera_stage_statistics {
  const char* name;
  int threads, running, kernels;
  size_t queued, capacity;
  int64_t tasks, batches;
  int64_t busy_ns; /* of all threads together */
} tessera_stage_statistics;

typedef struct tessera_task_statistics {
  size_t in_flight, jobs_max;
  int64_t submitted, succeeded, failed, cancelled, late;
  int64_t compared, mismatches;
} tessera_task_statistics;

/* As of now; `pipeline` may be NULL, and there are no stages then. */
tessera_error* tessera_statistics_take(const tessera_runtime* runtime,
                                       const tessera_pipeline* pipeline,
                                       tessera_statistics** statistics);
/* Arrays that belong to `statistics`. */
const tessera_device_statistics* tessera_statistics_devices(const tessera_statistics* statistics,
                                                            size_t* count);
const tessera_stage_statistics* tessera_statistics_stages(const tessera_statistics* statistics,
                                                          size_t* count);
tessera_task_statistics tessera_statistics_tasks(const tessera_statistics* statistics);
void tessera_statistics_release(tessera_statistics* statistics);

/* NOLINTEND(readability-identifier-naming,modernize-*) */

#ifdef __cplusplus
}
#endif

#endif /* TESSERA_TESSERA_C_H */
