/* The C interface of Tessera (C11): what runtime.h, memory.h, operation.h and picture.h offer.
 *
 *   tessera_network_load ─► tessera_runtime_open ─► tessera_model_load ─► tessera_pipeline_open
 *     ─► tessera_stream_open ─► tessera_submit ─► tessera_job_wait ─► tessera_result_output
 *
 * Handles.  Everything behind a pointer to an incomplete type is made by this library and released
 *   with the function of its name, tessera_X_release, which takes NULL too. Handles may be released
 *   in any order: what one of them needs lives until the last is released. A handle may be used by
 *   several threads at once, but for its release.
 * Errors.   A function that can fail returns tessera_error*: NULL is success; anything else belongs
 *   to the caller, has a message, and is released with tessera_error_release. Out parameters are
 *   set on success only, but for handles, which are NULL on failure.
 * Text.     Strings are UTF-8, end with a zero, and belong to the handle that they were asked of;
 *   they live as long as it does.
 * Options.  A structure that the caller fills, and one that the library fills, begins with its size
 *   as the caller was compiled, so that later versions can add members at its end:
 *     tessera_device_options options = {.size = sizeof options, .kind = TESSERA_SIM};
 *   Members that are zero mean the defaults, as do members that an older caller does not have, and
 *   NULL in place of the structure. A member that this library does not know has to be zero. With a
 *   wrong size (0, say) the call is an error, nothing of the structure is read, and what it holds
 *   is not released. All entries of an array have one size. tessera_tensor, tessera_run and similar
 *   structures have no size: they do not change.
 * NULL.     A function that can fail names the argument that must not be NULL. Of a NULL handle
 *   every other function gives 0, false, an empty text or, for other pointers, NULL, and does
 *   nothing. An array may be NULL where its count is 0.
 * Calls     of the application by the library come on threads of the library, callbacks also on one
 *   that calls tessera_job_cancel: a stage's function on as many at once as the stage has threads,
 *   each with a task of its own; callbacks of one stream one after the other; a tuning log on one
 *   thread. They may call everything here, and release any handle; they must not wait for tasks
 *   that come behind their own, nor leave by longjmp. A C++ exception ends the task of the stage,
 *   or becomes the error of the job whose callback it left, and is counted. While one of them
 *   lasts, its stage, stream or tuner waits.
 * fork()    copies none of the library's threads. In the child every call on a handle that was
 *   opened before is TESSERA_UNAVAILABLE at once, or does nothing where it has no error to return;
 *   handles may be released, and networks used. The child opens its own runtime.
 * Ends.     Releasing the last handle of a pipeline and its streams waits for the tasks inside, so
 *   nothing of the application is called after that; within such a call it does not wait: another
 *   thread does, and `release_context` is called when it is over.
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

typedef struct tessera_error tessera_error;           /* why a call or a task failed */
typedef struct tessera_network tessera_network;       /* a model compiled for an architecture */
typedef struct tessera_runtime tessera_runtime;       /* devices, and all that runs on them */
typedef struct tessera_model tessera_model;           /* a network on the devices of a runtime */
typedef struct tessera_pipeline tessera_pipeline;     /* stages, and queues between them */
typedef struct tessera_stream tessera_stream;         /* a sequence of tasks into one pipeline */
typedef struct tessera_job tessera_job;               /* a task that was submitted */
typedef struct tessera_result tessera_result;         /* what a task gave */
typedef struct tessera_statistics tessera_statistics; /* counts and times of one moment */
typedef struct tessera_text tessera_text;             /* a text that was made for the caller */
typedef struct tessera_live_view tessera_live_view;   /* a server of the live page */
typedef struct tessera_shared_session tessera_shared_session;   /* several networks on one core */
typedef struct tessera_shared_result tessera_shared_result;     /* what they gave */
typedef struct tessera_dynamic_session tessera_dynamic_session; /* a model for many shapes */
typedef struct tessera_dynamic_result tessera_dynamic_result;   /* what a run of it gave */
typedef struct tessera_picture tessera_picture;                 /* an 8-bit RGB picture */
typedef struct tessera_memory tessera_memory;       /* that the host and one device hold together */
typedef struct tessera_block tessera_block;         /* bytes in such a memory */
typedef struct tessera_layers tessera_layers;       /* a network on a device layer by layer */
typedef struct tessera_card tessera_card;           /* a card that tenants share */
typedef struct tessera_processor tessera_processor; /* a tenant's part of it */
/* What a stage of the application sees of a task; belongs to the library and ends with the call. */
typedef struct tessera_task tessera_task;

/* "0.1.0" */
const char* tessera_version(void);

/* ------------------------------------------------------------------------------- errors */

/* Tells the caller what to do about it. */
typedef enum tessera_code {
  TESSERA_OK = 0,               /* of NULL: no error */
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

/* What the caller can do about it; TESSERA_OK of NULL. */
tessera_code tessera_error_code(const tessera_error* error);
/* In words: where, what was found, what is allowed. */
const char* tessera_error_message(const tessera_error* error);
/* Of a task's error; empty where that is not known. */
tessera_failure tessera_error_failure(const tessera_error* error);
/* Names, as far as known; empty texts otherwise. */
const char* tessera_error_stage(const tessera_error* error);
const char* tessera_error_device(const tessera_error* error); /* likewise */
const char* tessera_error_layer(const tessera_error* error);  /* likewise */
/* Number of the task in this process; 0 where it is no task's error. */
uint64_t tessera_error_task(const tessera_error* error);
/* Its place in its stream, from 0; 0 where it is no task's error. */
uint64_t tessera_error_sequence(const tessera_error* error);
/* An error of the application's own, for a stage's function to return. */
tessera_error* tessera_error_create(tessera_code code, const char* message);
void tessera_error_release(tessera_error* error);

/* ------------------------------------------------------------------------------- tensors */

/* The format of elements. */
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

/* Elements in row-major order; a view, which does not own them. */
typedef struct tessera_tensor {
  tessera_format format;
  size_t rank;         /* 0: a scalar */
  const int64_t* dims; /* `rank` extents */
  const void* data;
  size_t bytes; /* product of the extents times the bytes of an element */
} tessera_tensor;

/* The inputs or the outputs of one run of a network. */
typedef struct tessera_run {
  const tessera_tensor* tensors;
  size_t count;
} tessera_run;

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

/* How a model is compiled. */
typedef struct tessera_load_options {
  size_t size;
  const char* arch; /* profile, or path of an architecture file; NULL: "tessera128" */
  const tessera_named_shape* shapes;
  size_t shape_count;
  const tessera_named_tensor* constants;
  size_t constant_count;
  bool require_full_offload; /* a step on the host is an error */
  const char* folder;  /* of tessera_network_load_memory: where the files lie that a model or a
                         firmware text names; NULL: it may name none */
  double region_share; /* of state buffer and kernel memory that the network may use, for a core
                          that several share; 0: all of them */
  const char* weights_file; /* of a program whose weights are elsewhere: the package or program that
                               has them; NULL: where the program says, from its folder */
  int64_t deadline_ns; /* from now on; past it loading is an error that names the pass; 0: none */
} tessera_load_options;

/* An ONNX model, a package (.tpkg), a linked program (.tprog) or a firmware text (.tasm). A program
 * runs as it is on sim, and on host and ref as the layers that are read out of it; shapes and
 * constants are not for programs, and `arch` NULL then means the architecture that it names. */
tessera_error* tessera_network_load(const char* path, const tessera_load_options* options,
                                    tessera_network** network);
/* The same from memory, which is not needed any more afterwards. */
tessera_error* tessera_network_load_memory(const void* data, size_t bytes,
                                           const tessera_load_options* options,
                                           tessera_network** network);
size_t tessera_network_input_count(const tessera_network* network);  /* that a run takes */
size_t tessera_network_output_count(const tessera_network* network); /* that a run gives */
/* Zeros, with a name of NULL, for an index beyond the last. */
tessera_tensor_description tessera_network_input(const tessera_network* network, size_t index);
/* Likewise. */
tessera_tensor_description tessera_network_output(const tessera_network* network, size_t index);
/* How many nodes of the network run on the processor, and how many on the host. */
int64_t tessera_network_nodes_on_processor(const tessera_network* network);
int64_t tessera_network_nodes_on_host(const tessera_network* network); /* likewise */
/* Writes a package (.tpkg); TESSERA_UNSUPPORTED of a program. */
tessera_error* tessera_network_save_package(const tessera_network* network, const char* path);
void tessera_network_release(tessera_network* network);

/* ----------------------------------------------------------- several networks on one core */

/* One of the networks. All are for one architecture. */
typedef struct tessera_shared_network {
  size_t size;
  const tessera_network* network;
  int32_t priority;  /* higher first */
  double arrival_us; /* when the host enqueues it, in microseconds of the core's clock */
  double share;      /* of state buffer and kernel memory; 0: as many bytes as its tasks need */
} tessera_shared_network;

/* How they run. */
typedef struct tessera_shared_options {
  size_t size;
  bool timing_only;   /* skip the values, same cycles */
  bool check_hazards; /* report two tasks that race */
  /* Values that stop a network alone, "nan,overflow" say (tessera/traps.h); NULL: none. */
  const char* traps;
} tessera_shared_options;

/* Puts the networks on one core of the virtual processor, each in a part of its memories
 * (tessera_load_options.region_share) and with a task queue of its own, after a proof that they keep
 * apart. `options` may be NULL. For one thread at a time. */
tessera_error* tessera_shared_session_open(const tessera_shared_network* networks, size_t count,
                                           const tessera_shared_options* options,
                                           tessera_shared_session** session);
/* Runs all of them; inputs[n] are those of network n. An error only where no network could run. */
tessera_error* tessera_shared_session_run(tessera_shared_session* session,
                                          const tessera_run* inputs, size_t count,
                                          tessera_shared_result** result);
void tessera_shared_session_release(tessera_shared_session* session);

/* Why network `network` was stopped, with task and reason; NULL: it was not. To be released. */
tessera_error* tessera_shared_result_status(const tessera_shared_result* result, size_t network);
/* How many outputs network `network` has; 0 for an index beyond the last, or a stopped network. */
size_t tessera_shared_result_output_count(const tessera_shared_result* result, size_t network);
/* Valid as long as the result; zeros for an index beyond the last. */
tessera_tensor tessera_shared_result_output(const tessera_shared_result* result, size_t network,
                                            size_t index);
int64_t tessera_shared_result_arrival(const tessera_shared_result* result,
                                      size_t network); /* in cycles */
/* In cycles; 0 of a network that was stopped. */
int64_t tessera_shared_result_end(const tessera_shared_result* result, size_t network);
int64_t tessera_shared_result_cycles(const tessera_shared_result* result); /* of the whole run */
/* Of one network's host steps, and of its transfers, in cycles of the processor's clock. */
int64_t tessera_shared_result_host_cycles(const tessera_shared_result* result, size_t network);
int64_t tessera_shared_result_transfer_cycles(const tessera_shared_result* result,
                                              size_t network); /* likewise */
void tessera_shared_result_release(tessera_shared_result* result);

/* ------------------------------------------------------------- one model for many shapes */

/* The kinds of device, all with the same bits. */
typedef enum tessera_device_kind {
  TESSERA_HOST = 0, /* the bits of the processor at CPU speed */
  TESSERA_SIM = 1,  /* the virtual processor: bits and cycles */
  TESSERA_REF = 2   /* obvious loops, the oracle */
} tessera_device_kind;

/* How many elements each dimension of an input may have, both ends included; `most` 0: no end. */
typedef struct tessera_named_ranges {
  const char* name;
  size_t rank;
  const int64_t *least, *most;
} tessera_named_ranges;

/* Sizes, in ascending order, that a dimension of an input is padded to with zeros at its end. */
typedef struct tessera_named_buckets {
  const char* name;
  size_t dimension;
  const int64_t* sizes;
  size_t count;
} tessera_named_buckets;

/* How the networks of a model are made, kept and run (tessera/dynamic_network.h). */
typedef struct tessera_dynamic_options {
  size_t size;
  const tessera_load_options* load; /* NULL: the defaults */
  const tessera_named_ranges* ranges;
  size_t range_count;
  const tessera_named_buckets* buckets;
  size_t bucket_count;
  int64_t networks_max;     /* that are kept in memory; 0: 16 */
  const char* cache_folder; /* where packages are kept between processes; NULL: nowhere */
  int64_t cache_bytes_max;  /* of all of them; 0: 4 GiB */
  int64_t sessions_max;     /* networks that are on the device at once; 0: 4 */
  tessera_device_kind device;
  int threads, cores; /* of host, 0: all; of a card of sim, that run it together, 0: one */
} tessera_dynamic_options;

/* Of its runs: networks that were there, that were found in the folder, and anew. */
typedef struct tessera_dynamic_counters {
  int64_t kept, loaded, compiled;
} tessera_dynamic_counters;

/* An ONNX model, which is read once; for each combination of shapes that comes, and of values that
 * decide what is computed, a network is compiled. `options` may be NULL. For one thread at a time. */
tessera_error* tessera_dynamic_session_open(const char* path,
                                            const tessera_dynamic_options* options,
                                            tessera_dynamic_session** session);
/* How many a run takes. */
size_t tessera_dynamic_session_input_count(const tessera_dynamic_session* session);
/* Extents that the model leaves open are -1. Zeros, with a name of NULL, beyond the last. */
tessera_tensor_description tessera_dynamic_session_input(const tessera_dynamic_session* session,
                                                         size_t index);
/* Since it was opened. */
tessera_dynamic_counters tessera_dynamic_session_counters(const tessera_dynamic_session* session);
/* All inputs in their order. The error says which of them does not fit, or what cannot be compiled. */
tessera_error* tessera_dynamic_session_run(tessera_dynamic_session* session,
                                           const tessera_run* inputs,
                                           tessera_dynamic_result** result);
void tessera_dynamic_session_release(tessera_dynamic_session* session);

/* How many outputs the run gave. */
size_t tessera_dynamic_result_output_count(const tessera_dynamic_result* result);
/* Valid as long as the result; zeros for an index beyond the last. */
tessera_tensor tessera_dynamic_result_output(const tessera_dynamic_result* result, size_t index);
/* Likewise; NULL for an index beyond the last. */
const char* tessera_dynamic_result_output_name(const tessera_dynamic_result* result, size_t index);
/* Simulated; 0 on host and ref. */
int64_t tessera_dynamic_result_cycles(const tessera_dynamic_result* result);
/* Of the host's steps, and of transfers, in cycles of the processor's clock. */
int64_t tessera_dynamic_result_host_cycles(const tessera_dynamic_result* result);
int64_t tessera_dynamic_result_transfer_cycles(const tessera_dynamic_result* result); /* likewise */
void tessera_dynamic_result_release(tessera_dynamic_result* result);

/* ------------------------------------------------------------------------------- runtimes */

/* A device to open. */
typedef struct tessera_device_options {
  size_t size;
  tessera_device_kind kind;
  const char* name;        /* NULL: kind and number, "host0" */
  const char* arch;        /* sim: what networks were compiled for; NULL: "tessera128" */
  int kernels;             /* that run side by side, 1 to 64; 0: one */
  int threads;             /* host: of all kernels together; 0: all cores */
  bool timing_only;        /* sim: skip the values, same cycles */
  double pace;             /* sim: simulated time on the wall clock; 1: real time, 0: free */
  int64_t hang_timeout_ms; /* a run that takes longer is given up; 0: never */
  /* sim: makes as many devices of it, "sim0.0" and so on, that share its cores: each has its part of
   * the memories, a task queue and blocks of its own. 1 to 16, at most the queues of the
   * architecture's task manager; 0: one */
  int virtual_functions;
  /* sim that computes values: those that end a task with an error, "nan,overflow" say
   * (tessera/traps.h); NULL: none */
  const char* traps;
  /* sim: cores of a card, or of several, that run each task together; 0: one. And how layers are shared
   * out among them, "auto", "w" (rows) or "oc" (output channels); NULL: "auto" */
  int cores;
  int cards;
  const char* split;
  /* sim: the part of a card that the device is; NULL: a card of its own. It keeps the part. */
  const tessera_processor* processor;
  /* A processor of a cluster, "cluster:HOST:PORT?cores=4" (docs/cluster.md), whatever `kind` says of host and
   * sim; NULL: a device of this machine */
  const char* cluster;
} tessera_device_options;

/* The devices of a runtime, which are opened together. */
typedef struct tessera_runtime_options {
  size_t size;
  const tessera_device_options* devices; /* NULL: one host device */
  size_t device_count;
  bool no_metrics; /* record nothing for traces */
} tessera_runtime_options;

/* Opens the devices; the error names the option that is wrong. */
tessera_error* tessera_runtime_open(const tessera_runtime_options* options,
                                    tessera_runtime** runtime);
/* What ran when, as far as the history reaches, as Perfetto / Chrome trace JSON. */
tessera_error* tessera_runtime_write_trace(const tessera_runtime* runtime, const char* path);
/* The same as JSON lines. */
tessera_error* tessera_runtime_write_events(const tessera_runtime* runtime, const char* path);
/* Figures of now as Prometheus text. */
tessera_error* tessera_runtime_prometheus(const tessera_runtime* runtime, tessera_text** text);
void tessera_runtime_release(tessera_runtime* runtime);

/* The text itself, until it is given back. */
const char* tessera_text_value(const tessera_text* text);
void tessera_text_release(tessera_text* text);

/* Puts the network on the devices named, on all where `device_count` is 0. */
tessera_error* tessera_model_load(tessera_runtime* runtime, const tessera_network* network,
                                  const char* const* devices, size_t device_count,
                                  tessera_model** model);
/* The same, but the stages pre and post convert at the network's edges, and what moves between host
 * and device is in the device's formats: the same bits, fewer bytes. Compiles the network again. */
tessera_error* tessera_model_load_in_device_form(tessera_runtime* runtime,
                                                 const tessera_network* network,
                                                 const char* const* devices, size_t device_count,
                                                 tessera_model** model);
void tessera_model_release(tessera_model* model);

/* ----------------------------------------------------------------- tenants of a virtual card */

/* What a tenant asks for (tessera/virtual_card.h). */
typedef struct tessera_processor_options {
  size_t size;
  const char* name;        /* of its own on the card; NULL: "tenant0", "tenant1", ... */
  int cores;               /* that the card chooses; 0: one */
  const int* core_numbers; /* these cores, and not `cores`; NULL: any */
  size_t core_count;       /* of core_numbers */
  int64_t memory_bytes;    /* of each group in which it has a core; 0: a group's by its cores */
  int64_t weight;          /* of each channel, 1 to 16; 0: 1 */
} tessera_processor_options;

/* What it has and has done. */
typedef struct tessera_processor_status {
  size_t size;
  int cores;
  int64_t memory_bytes, weight;
  bool running;           /* a run is under way */
  int64_t runs, failures; /* that ended well; that ended with an error */
  /* Of the last run that ended well, on the card's clock; and the images that it made at once. */
  int64_t last_run_cycles;
  int last_run_images;
  int64_t changes; /* how often it got other cores */
  /* Of what it has given up: bytes of memory that were cleared, and how long that took. */
  int64_t cleared_bytes, cleared_cycles;
} tessera_processor_status;

/* A card of the architecture, or several with a network between them; NULL: "cloud16"; 0: one card. It
 * lives as long as the card or one of its tenants' parts. */
tessera_error* tessera_card_open(const char* arch, int cards, tessera_card** card);
void tessera_card_release(tessera_card* card);
/* The error names what somebody else has, or what is out of bounds. Cores and memory go back, cleared,
 * when nobody has the part any more: released, and no device on it. */
tessera_error* tessera_card_take(const tessera_card* card, const tessera_processor_options* options,
                                 tessera_processor** processor);
void tessera_processor_release(tessera_processor* processor);
/* Other cores, while runs go on: so many. After an error it has what it had. */
tessera_error* tessera_processor_resize(const tessera_processor* processor, int cores);
/* The same, with just these. */
tessera_error* tessera_processor_move(const tessera_processor* processor, const int* core_numbers,
                                      size_t core_count);
/* Fills the caller's structure, whose size is set. */
tessera_error* tessera_processor_status_get(const tessera_processor* processor,
                                            tessera_processor_status* status);
/* Its cores by number, ascending, as far as there is `room`. */
tessera_error* tessera_processor_cores(const tessera_processor* processor, int* core_numbers,
                                       size_t room, size_t* core_count);

/* ------------------------------------------------------------------------------- pictures */

/* How the levels of a pixel become elements: (level - mean) / deviation of each channel. */
typedef struct tessera_picture_input {
  size_t size;
  float mean[3];
  float deviation[3]; /* 0: 255 */
  bool bgr;           /* blue first */
} tessera_picture_input;

/* 8-bit RGB, height x width x 3. Reads .png and .jpg files, the kind detected from the contents. */
tessera_error* tessera_picture_read(const char* path, tessera_picture** picture);
/* A copy of width x height x 3 levels; black where `rgb` is NULL. */
tessera_error* tessera_picture_create(int64_t width, int64_t height, const uint8_t* rgb,
                                      tessera_picture** picture);
/* Another one of this size: bilinear, pixel centres aligned. */
tessera_error* tessera_picture_resize(const tessera_picture* picture, int64_t width, int64_t height,
                                      tessera_picture** resized);
/* 8 bits a channel. */
tessera_error* tessera_picture_write_png(const tessera_picture* picture, const char* path);
int64_t tessera_picture_width(const tessera_picture* picture);  /* in pixels */
int64_t tessera_picture_height(const tessera_picture* picture); /* in pixels */
/* May be changed. */
uint8_t* tessera_picture_rgb(tessera_picture* picture);
/* The picture, resized, as input `input` of the network ([1, 3, H, W] or [1, H, W, 3]), into
 * `data`, which has exactly its bytes. `how` may be NULL. */
tessera_error* tessera_picture_fill(const tessera_picture* picture, const tessera_network* network,
                                    size_t input, const tessera_picture_input* how, void* data,
                                    size_t bytes);
void tessera_picture_release(tessera_picture* picture);

/* ------------------------------------------------------------------------------- pipelines */

/* What a stage does with a task. */
typedef enum tessera_stage_kind {
  TESSERA_STAGE_HOST = 0,    /* a function of the application */
  TESSERA_STAGE_PRE = 1,     /* the model's inputs into the device's format */
  TESSERA_STAGE_EXECUTE = 2, /* the model on a device */
  TESSERA_STAGE_POST = 3,    /* outputs back into the application's format */
  TESSERA_STAGE_PICTURE = 4  /* a host stage made here: reads the .png or .jpg file whose path
                                (const char*) is the task's payload, as the model's only input */
} tessera_stage_kind;

/* NULL, or an error that ends the task (tessera_error_create) and then belongs to the library. */
typedef tessera_error* (*tessera_stage_function)(void* context, tessera_task* task);
/* Called once, when what it is given is not needed any more. */
typedef void (*tessera_release_function)(void* what);

/* One stage of a pipeline. */
typedef struct tessera_stage_options {
  size_t size;
  tessera_stage_kind kind;
  const char* name;                         /* NULL: "host", "pre", "execute", "post", "decode" */
  tessera_stage_function function;          /* of a host stage */
  void* context;                            /* what the function gets */
  tessera_release_function release_context; /* called once, when the pipeline is gone or could not
                                               be opened; may be NULL */
  const tessera_model* model;               /* of the other kinds */
  const char* const* devices; /* execute: of those that hold the model; NULL: all of them */
  size_t device_count;
  int threads;                          /* 0: one; execute: two per kernel */
  size_t capacity;                      /* tasks that wait in front of it; 0: 16; of the first
                                           stage always jobs_max */
  size_t batch;                         /* tasks that a thread takes at once; 0: as fits */
  const tessera_picture_input* picture; /* of a picture stage; NULL: levels / 255, red first */
} tessera_stage_options;

/* Who computes what an execute stage gives. */
typedef enum tessera_debug_mode {
  TESSERA_DEBUG_DEVICE = 0, /* as configured */
  TESSERA_DEBUG_HOST = 1,   /* the host computes in place of the devices */
  TESSERA_DEBUG_BOTH = 2    /* both, and the first difference is an error that names its layer */
} tessera_debug_mode;

/* What is compared while a pipeline runs. */
typedef struct tessera_debug_options {
  size_t size;
  tessera_debug_mode mode;
  int64_t every; /* one of `every` tasks, the others run on the device; 0: each */
} tessera_debug_options;

/* `text` says what tuning did and why, and ends with the call. */
typedef void (*tessera_tuning_log)(void* context, const char* text);

/* The stages of a pipeline, and how tasks go through them. */
typedef struct tessera_pipeline_options {
  size_t size;
  size_t jobs_max;  /* in flight, of all streams together; 0: 256 */
  bool lock_step;   /* all tasks move on together; false: each as soon as it can */
  bool low_latency; /* a kernel gets one run in advance at most; false: several short ones */
  bool tune;        /* balance the threads of the stages while running */
  const tessera_debug_options* debug;  /* NULL: as configured */
  const tessera_stage_options* stages; /* 1 to 16, each name once; NULL: pre | execute | post */
  size_t stage_count;
  tessera_tuning_log tuning_log;
  void* tuning_context;
  tessera_release_function release_tuning_context; /* as that of a stage */
} tessera_pipeline_options;

/* `model` is that of the default stages; with stages of one's own it may be NULL. */
tessera_error* tessera_pipeline_open(tessera_runtime* runtime, const tessera_model* model,
                                     const tessera_pipeline_options* options,
                                     tessera_pipeline** pipeline);
/* By the stage's name, while tasks flow; none is lost. */
tessera_error* tessera_pipeline_set_threads(tessera_pipeline* pipeline, const char* stage,
                                            int threads);
/* Likewise. */
tessera_error* tessera_pipeline_set_kernels(tessera_pipeline* pipeline, const char* stage,
                                            int kernels);
/* A tuning log may switch it off, not on again. */
void tessera_pipeline_set_tuning(tessera_pipeline* pipeline, bool on);
/* While tasks flow. */
tessera_error* tessera_pipeline_set_debug(tessera_pipeline* pipeline,
                                          const tessera_debug_options* options);
/* Waits until all tasks of all streams are done. */
void tessera_pipeline_wait_until_done(tessera_pipeline* pipeline);
void tessera_pipeline_release(tessera_pipeline* pipeline);

/* ------------------------------------------------------------------------------- stages */

/* The execute stage behind runs the network once for each run and puts the outputs in its place. */
size_t tessera_task_run_count(const tessera_task* task);
/* Of one run; 0 for an index beyond the last. */
size_t tessera_task_tensor_count(const tessera_task* task, size_t run);
/* Points into the task until its runs are set; zeros for an index beyond the last. */
tessera_tensor tessera_task_tensor(const tessera_task* task, size_t run, size_t index);
/* The same elements, to be changed in place; NULL for an index beyond the last. */
void* tessera_task_data(tessera_task* task, size_t run, size_t index);
/* Copies, in place of all runs there are; may point at tensors of these. No runs are allowed: the
 * models behind have nothing to do. */
tessera_error* tessera_task_set_runs(tessera_task* task, const tessera_run* runs, size_t run_count);
void* tessera_task_payload(const tessera_task* task);     /* of tessera_submit_options */
uint32_t tessera_task_stream(const tessera_task* task);   /* tessera_stream_id */
uint64_t tessera_task_sequence(const tessera_task* task); /* in its stream, from 0 */

/* ------------------------------------------------------------------------------- tasks */

/* In what order the results of a stream come out. */
typedef enum tessera_stream_order {
  TESSERA_ORDER_SUBMISSION, /* results in the order in which the tasks went in */
  TESSERA_ORDER_COMPLETION  /* each as soon as it is there */
} tessera_stream_order;

/* A task that is cancelled, or whose deadline passes, is done at once in any stream. */
typedef struct tessera_stream_options {
  size_t size;
  tessera_stream_order order;
  int priority; /* of its tasks, -7 to 7: of two that wait the higher one goes first, always */
} tessera_stream_options;

/* Results come out in the order the tasks of one stream went in. */
tessera_error* tessera_stream_open(tessera_pipeline* pipeline, tessera_stream** stream);
/* The same with an order and a priority. */
tessera_error* tessera_stream_open_with(tessera_pipeline* pipeline,
                                        const tessera_stream_options* options,
                                        tessera_stream** stream);
/* False: there was no room after `patience_ns` (negative: no limit). */
bool tessera_stream_wait_for_room(tessera_stream* stream, int64_t patience_ns);
/* Waits until all tasks of this stream are done. */
void tessera_stream_wait_until_done(tessera_stream* stream);
uint32_t tessera_stream_id(const tessera_stream* stream); /* its number in its runtime */
void tessera_stream_release(tessera_stream* stream);

/* One of `result` and `error` is NULL; the other belongs to the callback. Called by a thread of the
 * library or one that cancels, one of a stream at a time, as its tasks are done: results in the
 * stream's order, cancelled and late tasks at once. It must not wait for other jobs of its stream.
 */
typedef void (*tessera_callback)(void* context, tessera_result* result, tessera_error* error);

/* Of one task. */
typedef struct tessera_submit_options {
  size_t size;
  tessera_callback callback; /* NULL: the result is for tessera_job_wait */
  void* context;             /* what the callback gets */
  int64_t deadline_ns;       /* from now on; 0: none */
  bool fail_if_full;         /* TESSERA_UNAVAILABLE where there is no room; false: wait for it */
  void* payload;             /* the application's own, for stages and the result */
  tessera_release_function release_payload; /* called once when the last of them is gone, and where
                                               the task is refused; may be NULL */
  const char* const* skipped_stages;        /* names */
  size_t skipped_stage_count;
  const int* priority; /* -7 to 7; NULL: that of the stream */
} tessera_submit_options;

/* Copies the inputs, which are those of the model in their order; where the pipeline begins with a
 * model, others are refused here. `job` may be NULL where there is a callback. */
tessera_error* tessera_submit(tessera_stream* stream, const tessera_tensor* inputs,
                              size_t input_count, const tessera_submit_options* options,
                              tessera_job** job);

/* One task with several runs of the network. */
tessera_error* tessera_submit_runs(tessera_stream* stream, const tessera_run* runs,
                                   size_t run_count, const tessera_submit_options* options,
                                   tessera_job** job);
/* One task for each entry; `options` are those of each, `jobs` has room for `task_count`. Where a
 * task is refused, those before it go on: their jobs are in `jobs`, the others are NULL. */
tessera_error* tessera_submit_batch(tessera_stream* stream, const tessera_run* tasks,
                                    size_t task_count, const tessera_submit_options* options,
                                    tessera_job** jobs);

/* Waits for the task and hands its result over, once. After `patience_ns` (negative: no limit) both
 * the error and `*result` are NULL, and the task goes on. */
tessera_error* tessera_job_wait(tessera_job* job, int64_t patience_ns, tessera_result** result);
/* Waits for one of several; entries may be NULL, and so may `index`. False: none was done after
 * `patience_ns`, or there are no jobs. */
bool tessera_wait_any(tessera_job* const* jobs, size_t job_count, int64_t patience_ns,
                      size_t* index);
bool tessera_job_done(const tessera_job* job); /* true of NULL: there is nothing to wait for */
/* The task ends with TESSERA_FAILURE_CANCELLED unless it is done first. Callbacks of its stream
 * may be called here, by this thread. */
void tessera_job_cancel(tessera_job* job);
uint64_t tessera_job_id(const tessera_job* job); /* number of the task in this process */
/* The task goes on. */
void tessera_job_release(tessera_job* job);

/* Of the first run. */
size_t tessera_result_output_count(const tessera_result* result);
/* Points into the result; zeros for an index beyond the last. */
tessera_tensor tessera_result_output(const tessera_result* result, size_t index);
/* Of any run: as many as were submitted, or as the last stage made. */
size_t tessera_result_run_count(const tessera_result* result);
/* Of one run; 0 for an index beyond the last. */
size_t tessera_result_run_output_count(const tessera_result* result, size_t run);
/* Points into the result; zeros for an index beyond the last. */
tessera_tensor tessera_result_run_output(const tessera_result* result, size_t run, size_t index);
void* tessera_result_payload(const tessera_result* result); /* of tessera_submit_options */
/* Simulated; 0 on host and ref. */
int64_t tessera_result_cycles(const tessera_result* result);
/* Besides them the host's steps, in cycles of the processor's clock, by the model of the architecture
 * file. */
int64_t tessera_result_host_cycles(const tessera_result* result);
/* And what went over the link for them and for the runs' inputs and outputs, likewise. */
int64_t tessera_result_transfer_cycles(const tessera_result* result);
const char* tessera_result_device(const tessera_result* result); /* that ran it last */
uint64_t tessera_result_sequence(const tessera_result* result);  /* in its stream, from 0 */

/* Layers whose results left the range of their format, or lost all bits, though what they read was sound. */
typedef enum tessera_value_trouble {
  TESSERA_VALUES_SATURATED = 0,  /* at the end of the format's range */
  TESSERA_VALUES_INFINITE = 1,   /* an infinity among them */
  TESSERA_VALUES_NOT_NUMBER = 2, /* a NaN among them */
  TESSERA_VALUES_LOST = 3,       /* below the format's normal numbers, all of them */
  TESSERA_VALUES_ACCUMULATOR = 4 /* a sum of 2^33 or more units in an accumulator of the array */
} tessera_value_trouble;
/* A layer, and what befell its results. */
typedef struct tessera_value_note {
  size_t size;
  const char* layer; /* points into the result */
  tessera_value_trouble trouble;
  tessera_format format; /* of the layer's results */
} tessera_value_note;
/* Of all runs of the task together, each layer and trouble once. */
size_t tessera_result_value_note_count(const tessera_result* result);
/* Into `*note`, whose size is set; no layer for an index beyond the last. */
tessera_error* tessera_result_value_note(const tessera_result* result, size_t index,
                                         tessera_value_note* note);

/* Where the time of a task went. */
typedef struct tessera_times {
  size_t size;
  int64_t total_ns; /* from submit to result */
  int64_t queued_ns;
  int64_t transfer_in_ns, kernel_ns, transfer_out_ns;
} tessera_times;
/* Into `*times`, whose size is set. */
tessera_error* tessera_result_times(const tessera_result* result, tessera_times* times);
/* The time of a task at one stage. */
typedef struct tessera_stage_times {
  size_t size;
  int64_t queued_ns, busy_ns; /* before the stage; in it */
} tessera_stage_times;
/* Stages count from 0; zeros beyond the last. */
tessera_error* tessera_result_stage_times(const tessera_result* result, size_t stage,
                                          tessera_stage_times* times);
void tessera_result_release(tessera_result* result);

/* ------------------------------------------------------------------------------- memory */

/* Memory that the host and a device hold together, and tasks on it: single layers of a network and
 * single operations, chained without moving what lies between them. A byte is moved only when the
 * other side has a newer one and it is needed there. Tasks use a block in the order in which they
 * were submitted, whatever their streams and pipelines; its bytes on the host are the application's
 * while no task that was submitted uses it. If a task that was to write a block ends without a
 * result, tasks that read the block fail, until it is written again. */
tessera_error* tessera_memory_open(tessera_runtime* runtime, const char* device,
                                   tessera_memory** memory);
/* The name of its device. */
const char* tessera_memory_device(const tessera_memory* memory);
void tessera_memory_release(tessera_memory* memory);

/* Zeros, or what was there before. */
tessera_error* tessera_block_allocate(tessera_memory* memory, size_t bytes, tessera_block** block);
void* tessera_block_data(const tessera_block* block);     /* on the host */
size_t tessera_block_bytes(const tessera_block* block);   /* how many */
tessera_error* tessera_block_wrote(tessera_block* block); /* the host has changed them */
tessera_error* tessera_block_fetch(
    tessera_block* block); /* makes them what the device last wrote */
void tessera_block_release(tessera_block* block);
/* Of a tensor's format and shape. Networks take blocks that have those of their inputs and outputs,
 * or that were allocated by a number of bytes. */
tessera_error* tessera_block_allocate_tensor(tessera_memory* memory, tessera_format format,
                                             size_t rank, const int64_t* dims,
                                             tessera_block** block);
/* A copy of the tensor as a block; it is sent with the first task that reads it, and once. */
tessera_error* tessera_block_upload(tessera_memory* memory, const tessera_tensor* tensor,
                                    tessera_block** block);
/* The tensor's memory as a block, which tasks may write: in place where host and device share
 * memory and it begins at a multiple of 16 bytes, else copied, or mirrored on the device. It must
 * stay until `release_owner(owner)` is called, by any thread and in any case once: when the block
 * has been released and no run uses it, or when wrapping failed. `release_owner` may be NULL:
 * then it must outlive the runtime. A byte may be in one block of a device's. */
tessera_error* tessera_block_wrap(tessera_memory* memory, const tessera_tensor* tensor, void* owner,
                                  tessera_release_function release_owner, tessera_block** block);
/* What lies in the block; u8 in one dimension where it was allocated by a number of bytes. An
 * output that was kept where the architecture has matrices in blocks has their shape: blocks down,
 * blocks across, rows and columns of a block. */
tessera_tensor_description tessera_block_description(const tessera_block* block);

/* One layer of a network: a node of the typed graph. Its tensors are in the device's formats, its
 * weights bytes [weight_offset, weight_offset + weight_bytes) of the region that all layers share.
 */
typedef struct tessera_layer {
  size_t size;
  const char* name;
  size_t input_count, output_count;
  int64_t weight_offset, weight_bytes;
} tessera_layer;

/* The layers of a network on the memory's device. */
tessera_error* tessera_layers_load(tessera_runtime* runtime, const tessera_network* network,
                                   const tessera_memory* memory, tessera_layers** layers);
/* How many layers there are. */
size_t tessera_layers_count(const tessera_layers* layers);
/* Into `*described`, whose size is set; its name belongs to `layers`. */
tessera_error* tessera_layers_layer(const tessera_layers* layers, size_t layer,
                                    tessera_layer* described);
/* Zeros, with a name of NULL, for an index beyond the last. */
tessera_tensor_description tessera_layers_input(const tessera_layers* layers, size_t layer,
                                                size_t index);
/* Likewise. */
tessera_tensor_description tessera_layers_output(const tessera_layers* layers, size_t layer,
                                                 size_t index);
void tessera_layers_release(tessera_layers* layers);

/* The four functions of a simple accelerator, on dense row-major matrices of f16: an image has a
 * row for each pixel and a column for each channel. */
typedef enum tessera_operation_kind {
  TESSERA_IM2COL = 0,         /* [pixels, channels] to [positions, size x size x channels] */
  TESSERA_MATRIX_PRODUCT = 1, /* [rows, inner] x weights [inner, columns] to [rows, columns] */
  TESSERA_RELU = 2,           /* of [rows, columns] */
  TESSERA_MAXIMUM_POOL = 3    /* [pixels, channels] to [positions, channels] */
} tessera_operation_kind;

/* A size of 0 is 1. */
typedef struct tessera_operation {
  size_t size;
  tessera_operation_kind kind;
  int64_t image_rows, image_columns, image_channels; /* im2col, pool */
  int64_t window_size, window_stride, window_pad;    /* im2col, pool: a square window */
  int64_t rows, inner, columns;                      /* product; ReLU: rows, columns */
} tessera_operation;

/* A pipeline pre | execute | post of layers and operations. Of the options the stages do not count.
 */
tessera_error* tessera_operations_open(tessera_runtime* runtime,
                                       const tessera_pipeline_options* options,
                                       tessera_pipeline** pipeline);

/* Blocks of exactly the layer's tensors, in their order. */
typedef struct tessera_layer_task {
  size_t size;
  size_t layer;
  tessera_block* const* inputs;
  size_t input_count;
  tessera_block* const* outputs;
  size_t output_count;
  bool fetch; /* bring the outputs back as part of the task */
} tessera_layer_task;

/* One operation on blocks of the device. */
typedef struct tessera_operation_task {
  size_t size;
  const tessera_operation* operation;
  const tessera_block* input;
  const tessera_block* output;
  const tessera_block* weights; /* of a matrix product: a region of many; NULL for the others */
  int64_t weight_offset;        /* bytes into it */
  bool fetch;
} tessera_operation_task;

/* The result has no outputs: they are in the blocks, which the task keeps until it is done. */
tessera_error* tessera_submit_layer(tessera_stream* stream, const tessera_layers* layers,
                                    const tessera_layer_task* task,
                                    const tessera_submit_options* options, tessera_job** job);
/* Likewise. */
tessera_error* tessera_submit_operation(tessera_stream* stream, const tessera_operation_task* task,
                                        const tessera_submit_options* options, tessera_job** job);

/* An input of a network's task: the block, or else the tensor, which is copied; with `in_place` its
 * memory is read where it lies, and must stay as tessera_block_wrap says. */
typedef struct tessera_task_input {
  size_t size;
  const tessera_block* block;
  tessera_tensor tensor;
  bool in_place;
  void* owner;
  tessera_release_function release_owner;
} tessera_task_input;

/* Where an output goes; zeros: into the result. */
typedef struct tessera_task_output {
  size_t size;
  const tessera_block* block; /* written on its device, and left there */
  bool keep;                  /* the same, in a new block: tessera_result_block */
  bool fetch;                 /* of a block: brought to the host as part of the task */
  tessera_tensor into;        /* where `into.data` is not NULL: that memory is filled, which must
                                 stay as tessera_block_wrap says */
  void* owner;
  tessera_release_function release_owner;
} tessera_task_output;

/* One run of a network, on the device that has its blocks if the stage uses it; else they move. */
typedef struct tessera_network_task {
  size_t size;
  const tessera_task_input* inputs;
  size_t input_count;
  const tessera_task_output* outputs; /* NULL, or one for each */
  size_t output_count;
} tessera_network_task;

/* Each owner is released once, whatever comes of it, but where its structure has a wrong size. */
tessera_error* tessera_submit_network(tessera_stream* stream, const tessera_network_task* task,
                                      const tessera_submit_options* options, tessera_job** job);
/* The block of an output of tessera_submit_network; NULL where it is in none. */
tessera_error* tessera_result_block(const tessera_result* result, size_t index,
                                    tessera_block** block);

/* An output that is an input of the next task: the state of a recurrent network. */
typedef struct tessera_state_binding {
  size_t size;
  size_t output, input;
  tessera_tensor initial; /* copied; zeros where `initial.data` is NULL */
} tessera_state_binding;

/* From now on each task of the stream reads what the one before it wrote: tessera_submit_network
 * leaves out these inputs, and these outputs, which stay in `memory`. The tasks may be submitted
 * in sequence, without waiting. When one fails, so do those behind it, until the states
 * are bound again, which begins anew. No bindings: ordinary inputs and outputs again. */
tessera_error* tessera_stream_bind_states(tessera_stream* stream, const tessera_memory* memory,
                                          const tessera_state_binding* bindings,
                                          size_t binding_count);

/* ------------------------------------------------------------------------------- statistics */

/* A device, now and since the runtime was opened. */
typedef struct tessera_device_statistics {
  size_t size;
  const char* name;
  tessera_device_kind kind;
  int kernels;
  bool healthy;
  const char* fault; /* why not */
  int64_t runs, bytes_in, bytes_out, weight_bytes;
  int64_t busy_ns;               /* of all kernels together */
  int64_t late_runs;             /* paced: the model was slower than the modelled processor */
  const int64_t* kernel_busy_ns; /* of each of `kernels` */
  /* Within the host's memory, where the bytes of a tensor could not be used in place. */
  int64_t bytes_copied;
  int64_t runs_made_again; /* given up here, since they lasted far too long, and made elsewhere */
  int64_t functions;       /* virtual functions of its cores, of which it is one */
  int64_t joint_runs;      /* of a virtual function, beside those of others */
} tessera_device_statistics;

/* A stage, now and since the pipeline was opened. */
typedef struct tessera_stage_statistics {
  size_t size;
  const char* name;
  tessera_stage_kind kind;
  int threads, running, kernels;
  size_t queued, capacity;
  int64_t tasks, batches;
  int64_t busy_ns;   /* of all threads together */
  int64_t thread_ns; /* threads times time: what `busy_ns` is a share of */
} tessera_stage_statistics;

/* The tasks of a pipeline, now and since it was opened. */
typedef struct tessera_task_statistics {
  size_t size;
  size_t in_flight, jobs_max;
  int64_t submitted, succeeded, failed, cancelled, late;
  int64_t compared, mismatches; /* debugging */
  bool tuning;
  tessera_debug_mode debug;
  int64_t callbacks_threw;    /* callbacks of tasks and tuning logs written in C++ */
  const char* callback_error; /* what the last of them threw */
} tessera_task_statistics;

/* As of now; `pipeline` may be NULL, and there are no stages then. */
tessera_error* tessera_statistics_take(const tessera_runtime* runtime,
                                       const tessera_pipeline* pipeline,
                                       tessera_statistics** statistics);
/* How many devices the runtime has, and how many stages the pipeline. */
size_t tessera_statistics_device_count(const tessera_statistics* statistics);
size_t tessera_statistics_stage_count(const tessera_statistics* statistics); /* likewise */
/* Into a structure whose size is set; texts and arrays in it belong to `statistics`. */
tessera_error* tessera_statistics_device(const tessera_statistics* statistics, size_t index,
                                         tessera_device_statistics* device);
/* Likewise. */
tessera_error* tessera_statistics_stage(const tessera_statistics* statistics, size_t index,
                                        tessera_stage_statistics* stage);
/* Likewise; zeros where there is no pipeline. */
tessera_error* tessera_statistics_tasks(const tessera_statistics* statistics,
                                        tessera_task_statistics* tasks);
void tessera_statistics_release(tessera_statistics* statistics);

/* Where the page is served, and of what. */
typedef struct tessera_live_view_options {
  size_t size;
  const char* listen; /* PORT or ADDRESS:PORT, port 0: any that is free; NULL: "127.0.0.1:0" */
  const char* title;  /* NULL: "Tessera" */
  tessera_pipeline* const* pipelines; /* whose stages can be changed there; they stay open */
  size_t pipeline_count;
} tessera_live_view_options;

/* Serves the live page, figures for Prometheus and what `tessera top` shows, until it is released. */
tessera_error* tessera_live_view_open(tessera_runtime* runtime,
                                      const tessera_live_view_options* options,
                                      tessera_live_view** view);
const char* tessera_live_view_url(const tessera_live_view* view); /* "http://127.0.0.1:8080" */
void tessera_live_view_release(tessera_live_view* view);

/* NOLINTEND(readability-identifier-naming,modernize-*) */

#ifdef __cplusplus
}
#endif

#endif /* TESSERA_TESSERA_C_H */
