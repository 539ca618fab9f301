/* The same first program in C, through the runtime: a stage of its own in front of the model, eight
 * tasks, one callback, and what it is told about a mistake. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tessera/tessera_c.h>

static void check(tessera_error* error) {
  if (error == NULL) return;
  fprintf(stderr, "%s\n", tessera_error_message(error));
  tessera_error_release(error);
  exit(1);
}

static void count_call(void* context, tessera_result* result, tessera_error* error) {
  check(error);
  *(int*)context += 1;
  tessera_result_release(result);
}

/* Lets tasks of one input pass. */
static tessera_error* look(void* context, tessera_task* task) {
  *(int*)context += 1; /* the stage has one thread */
  if (tessera_task_tensor_count(task, 0) == 1) return NULL;
  return tessera_error_create(TESSERA_INVALID_ARGUMENT, "a task has one input");
}

static tessera_pipeline* open_pipeline(tessera_runtime* runtime, const tessera_model* model,
                                       int* seen) {
  const tessera_stage_options stages[] = {
      {.size = sizeof stages[0],
       .kind = TESSERA_STAGE_HOST,
       .name = "look",
       .function = look,
       .context = seen},
      {.size = sizeof stages[0], .kind = TESSERA_STAGE_PRE, .model = model},
      {.size = sizeof stages[0], .kind = TESSERA_STAGE_EXECUTE, .model = model},
      {.size = sizeof stages[0], .kind = TESSERA_STAGE_POST, .model = model}};
  const tessera_pipeline_options options = {
      .size = sizeof options, .stages = stages, .stage_count = 4};
  tessera_pipeline* pipeline = NULL;
  check(tessera_pipeline_open(runtime, NULL, &options, &pipeline));
  return pipeline;
}

static void print_output(const tessera_result* result) {
  const tessera_tensor output = tessera_result_output(result, 0);
  const float* values = output.data;
  printf("%zu elements: %g %g %g %g\n", output.bytes / sizeof(float), values[0], values[1],
         values[2], values[3]);
}

/* -1, 0, 1, 2, ... in the shape that the model asks for. */
static tessera_tensor make_input(const tessera_network* network) {
  const tessera_tensor_description wanted = tessera_network_input(network, 0);
  size_t count = 1;
  for (size_t i = 0; i < wanted.rank; ++i) count *= (size_t)wanted.dims[i];
  float* values = malloc(count * sizeof(float));
  for (size_t i = 0; i < count; ++i) values[i] = (float)i - 1;
  const tessera_tensor input = {wanted.format, wanted.rank, wanted.dims, values,
                                count * sizeof(float)};
  return input;
}

static void run(tessera_stream* stream, const tessera_tensor* input) {
  enum { kTasks = 8 };
  tessera_job* jobs[kTasks];
  for (int i = 0; i < kTasks; ++i) check(tessera_submit(stream, input, 1, NULL, &jobs[i]));
  for (int i = 0; i < kTasks; ++i) {
    tessera_result* result = NULL;
    check(tessera_job_wait(jobs[i], -1, &result));
    if (i == 0) print_output(result);
    tessera_result_release(result);
    tessera_job_release(jobs[i]);
  }
  int calls = 0;
  const tessera_submit_options options = {
      .size = sizeof options, .callback = count_call, .context = &calls};
  check(tessera_submit(stream, input, 1, &options, NULL));
  tessera_stream_wait_until_done(stream);
  if (calls != 1) exit(1);
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  tessera_network* network = NULL;
  tessera_error* error = tessera_network_load("no_such_model.onnx", NULL, &network);
  if (error == NULL || strstr(tessera_error_message(error), "no_such_model.onnx") == NULL) return 1;
  tessera_error_release(error);
  check(tessera_network_load(argv[1], NULL, &network));

  tessera_runtime* runtime = NULL;
  tessera_model* model = NULL;
  tessera_stream* stream = NULL;
  int seen = 0;
  check(tessera_runtime_open(NULL, &runtime));
  check(tessera_model_load(runtime, network, NULL, 0, &model));
  tessera_pipeline* const pipeline = open_pipeline(runtime, model, &seen);
  check(tessera_stream_open(pipeline, &stream));
  const tessera_tensor input = make_input(network);
  run(stream, &input);
  free((void*)input.data);

  tessera_stream_release(stream);
  tessera_pipeline_release(pipeline);
  tessera_model_release(model);
  tessera_runtime_release(runtime);
  tessera_network_release(network);
  return seen == 9 ? 0 : 1;
}
