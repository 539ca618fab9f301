/* Reads the lines of pictures: a detector on one device finds them, a C function cuts them out, a
 * recogniser on another device reads them.
 *
 *   reading DETECTOR RECOGNISER PICTURE...
 *
 *   [decode] -> [find: detector] -> [crop] -> [read: recogniser] -> [text]
 *
 * Prints a line for each picture: its name and the text of each line in it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tessera/tessera_c.h>

enum { kBands = 4, kLineMax = 64 };

/* A picture on its way through the pipeline. */
typedef struct page {
  const char* path;
  size_t line_count;
  char lines[kBands][kLineMax];
} page;

/* What the stages need to know; lives as long as the pipeline. */
typedef struct reader {
  const tessera_network* detector;
  tessera_tensor_description line; /* the recogniser's input */
  int calls_left;                  /* of release_reader, for the two stages that have it */
} reader;

static void check(tessera_error* error) {
  if (error == NULL) return;
  fprintf(stderr, "%s\n", tessera_error_message(error));
  exit(2);
}

static size_t bytes_of(tessera_tensor_description tensor) {
  size_t bytes = tessera_format_bytes(tensor.format);
  for (size_t i = 0; i < tensor.rank; ++i) bytes *= (size_t)tensor.dims[i];
  return bytes;
}

/* The file as the detector's input. */
static tessera_error* decode(void* context, tessera_task* task) {
  const reader* self = context;
  const page* sheet = tessera_task_payload(task);
  tessera_picture* picture = NULL;
  tessera_error* error = tessera_picture_read(sheet->path, &picture);
  if (error != NULL) return error;
  const tessera_tensor_description wanted = tessera_network_input(self->detector, 0);
  const size_t bytes = bytes_of(wanted);
  void* data = malloc(bytes);
  if (data == NULL) error = tessera_error_create(TESSERA_UNAVAILABLE, "no memory is left");
  if (error == NULL) error = tessera_picture_fill(picture, self->detector, 0, NULL, data, bytes);
  if (error == NULL) {
    const tessera_tensor tensor = {wanted.format, wanted.rank, wanted.dims, data, bytes};
    const tessera_run run = {&tensor, 1};
    error = tessera_task_set_runs(task, &run, 1);
  }
  free(data);
  tessera_picture_release(picture);
  return error;
}

/* How many of the band's scores (f16) are above zero. */
static size_t count_positive(const uint16_t* scores, size_t count) {
  size_t positive = 0;
  for (size_t i = 0; i < count; ++i) positive += scores[i] != 0 && scores[i] < 0x8000;
  return positive;
}

/* In: the detector's scores. Out: the bands with more positive scores than others, a run each. */
static tessera_error* crop(void* context, tessera_task* task) {
  const reader* self = context;
  const tessera_tensor map = tessera_task_tensor(task, 0, 0);
  const size_t bytes = bytes_of(self->line);
  if (map.format != TESSERA_F16 || map.bytes != kBands * bytes) {
    return tessera_error_create(TESSERA_INVALID_MODEL, "the recogniser does not fit the detector");
  }
  const uint16_t* const scores = map.data;
  const size_t count = bytes / sizeof *scores;
  const size_t all = count_positive(scores, kBands * count);
  tessera_tensor tensors[kBands];
  tessera_run runs[kBands];
  size_t found = 0;
  for (size_t band = 0; band < kBands; ++band) {
    if (kBands * count_positive(scores + band * count, count) <= all) continue;
    tensors[found] = (tessera_tensor){self->line.format, self->line.rank, self->line.dims,
                                      scores + band * count, bytes};
    runs[found] = (tessera_run){&tensors[found], 1};
    ++found;
  }
  return tessera_task_set_runs(task, runs, found);
}

/* A letter for the sign of each element of the recogniser's first channel. */
static tessera_error* read_text(void* context, tessera_task* task) {
  (void)context;
  page* sheet = tessera_task_payload(task);
  sheet->line_count = tessera_task_run_count(task);
  for (size_t run = 0; run < sheet->line_count; ++run) {
    const tessera_tensor letters = tessera_task_tensor(task, run, 0);
    const uint16_t* const bits = letters.data;
    size_t count = (size_t)letters.dims[3];
    if (count >= kLineMax) count = kLineMax - 1;
    for (size_t i = 0; i < count; ++i) sheet->lines[run][i] = "abcdefgh"[bits[i] % 8];
    sheet->lines[run][count] = 0;
  }
  return NULL;
}

static void release_reader(void* context) { ((reader*)context)->calls_left -= 1; }

static tessera_pipeline* open_pipeline(tessera_runtime* runtime, const tessera_network* recogniser,
                                       reader* self) {
  const char* const finder = "finder";
  const char* const in_words = "reader";
  tessera_model *find = NULL, *read = NULL;
  tessera_pipeline* pipeline = NULL;
  check(tessera_model_load(runtime, self->detector, &finder, 1, &find));
  check(tessera_model_load(runtime, recogniser, &in_words, 1, &read));
  const tessera_stage_options stages[] = {
      {.size = sizeof stages[0],
       .name = "decode",
       .function = decode,
       .context = self,
       .release_context = release_reader},
      {.size = sizeof stages[0], .kind = TESSERA_STAGE_EXECUTE, .name = "find", .model = find},
      {.size = sizeof stages[0],
       .name = "crop",
       .function = crop,
       .context = self,
       .release_context = release_reader,
       .threads = 2},
      {.size = sizeof stages[0], .kind = TESSERA_STAGE_EXECUTE, .name = "read", .model = read},
      {.size = sizeof stages[0], .name = "text", .function = read_text}};
  const tessera_pipeline_options options = {
      .size = sizeof options, .stages = stages, .stage_count = sizeof stages / sizeof *stages};
  check(tessera_pipeline_open(runtime, NULL, &options, &pipeline));
  tessera_model_release(find);
  tessera_model_release(read);
  return pipeline;
}

static tessera_runtime* open_runtime(void) {
  const tessera_device_options devices[] = {
      {.size = sizeof devices[0],
       .kind = TESSERA_HOST,
       .name = "finder",
       .kernels = 2,
       .threads = 2},
      {.size = sizeof devices[0], .kind = TESSERA_SIM, .name = "reader"}};
  const tessera_runtime_options options = {
      .size = sizeof options, .devices = devices, .device_count = 2};
  tessera_runtime* runtime = NULL;
  check(tessera_runtime_open(&options, &runtime));
  return runtime;
}

/* Whether it could be read. */
static bool print_page(const page* sheet, tessera_job* job) {
  tessera_result* result = NULL;
  tessera_error* error = tessera_job_wait(job, -1, &result);
  printf("%s", sheet->path);
  if (error != NULL) {
    printf(" - %s (stage %s)\n", tessera_error_message(error), tessera_error_stage(error));
    tessera_error_release(error);
    return false;
  }
  for (size_t i = 0; i < sheet->line_count; ++i) printf(" [%s]", sheet->lines[i]);
  printf("\n");
  tessera_result_release(result);
  return true;
}

int main(int argc, char** argv) {
  if (argc < 4) {
    fprintf(stderr, "usage: reading DETECTOR RECOGNISER PICTURE...\n");
    return 2;
  }
  const size_t count = (size_t)argc - 3;
  tessera_network *detector = NULL, *recogniser = NULL;
  check(tessera_network_load(argv[1], NULL, &detector));
  check(tessera_network_load(argv[2], NULL, &recogniser));
  tessera_runtime* const runtime = open_runtime();
  reader self = {detector, tessera_network_input(recogniser, 0), 2};
  tessera_pipeline* const pipeline = open_pipeline(runtime, recogniser, &self);
  tessera_stream* stream = NULL;
  check(tessera_stream_open(pipeline, &stream));
  page* const pages = calloc(count, sizeof *pages);
  tessera_job** const jobs = calloc(count, sizeof(tessera_job*));
  if (pages == NULL || jobs == NULL) return 2;
  for (size_t i = 0; i < count; ++i) {
    pages[i].path = argv[3 + i];
    const tessera_submit_options options = {.size = sizeof options, .payload = &pages[i]};
    check(tessera_submit(stream, NULL, 0, &options, &jobs[i]));
  }
  size_t failed = 0;
  for (size_t i = 0; i < count; ++i) {
    failed += !print_page(&pages[i], jobs[i]);
    tessera_job_release(jobs[i]);
  }
  tessera_runtime_release(runtime);
  tessera_pipeline_release(pipeline);
  tessera_stream_release(stream); /* the last handle: nothing of the pipeline runs any more */
  const bool given_back = self.calls_left == 0;
  tessera_network_release(detector);
  tessera_network_release(recogniser);
  free(jobs);
  free(pages);
  if (!given_back) return 3;
  return failed == 0 ? 0 : 1;
}
