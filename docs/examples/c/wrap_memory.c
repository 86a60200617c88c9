/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that the program owns becomes a tensor without a copy, and is given back when the library
 * needs it no more. Then a run writes its output straight into such memory.
 *   wrap_memory MODEL
 */
#include <backplane/backplane.h>
#include <backplane/ops.h>
#include <stdio.h>
#include <stdlib.h>

/* Called once, when the last user of the memory is done. */
static void give_back(void* memory) {
  printf("the memory is ours again\n");
  free(memory);
}

static int failed(bpa_status status, const char* what) {
  if (status == BP_OK) return 0;
  fprintf(stderr, "%s: %s: %s\n", what, bpa_status_name(status), bpa_last_error());
  return 1;
}

/* Two rows of three, the second row first: strides count elements and may be negative. */
static int wrap_upside_down(bpa_device* device) {
  float* memory = malloc(6 * sizeof(float));
  if (memory == NULL) return 1;
  for (int i = 0; i < 6; ++i) memory[i] = (float)(i - 2);
  const int64_t sizes[] = {2, 3};
  const int64_t strides[] = {-3, 1};
  const bpa_wrap_args args = {
      .struct_size = sizeof(args),
      .memory = {.handle = (uint64_t)(uintptr_t)memory, .offset_bytes = 3 * sizeof(float)},
      .bytes = 6 * sizeof(float),
      .dtype = BP_DTYPE_F32,
      .rank = 2,
      .sizes = sizes,
      .strides = strides,
      .deleter = give_back,
      .user = memory};
  bpa_tensor* wrapped = NULL;
  if (failed(bpa_tensor_wrap(device, &args, &wrapped), "wrapping")) {
    free(memory); /* after an error the deleter is not called */
    return 1;
  }
  bpa_tensor* result = NULL;
  float values[6] = {0};
  int bad = failed(bpa_relu(NULL, wrapped, &result), "relu");
  bad = bad || failed(bpa_tensor_to_host(result, values, sizeof(values)), "reading");
  if (!bad) {
    printf("relu: %g %g %g, %g %g %g\n", values[0], values[1], values[2], values[3], values[4],
           values[5]);
  }
  bpa_tensor_release(result);
  bpa_tensor_release(wrapped);
  return bad;
}

/* The digits model writes its ten scores into `scores`, aligned as the planner wants it. */
static int run_into(bpa_runtime* runtime, bpa_device* device, const char* path) {
  static _Alignas(256) float scores[10];
  static float image[64];
  for (int i = 0; i < 64; ++i) image[i] = (float)(i % 8) / 8.0f;
  const int64_t image_sizes[] = {1, 1, 8, 8};
  const int64_t score_sizes[] = {1, 10};
  const bpa_wrap_args room = {.struct_size = sizeof(room),
                              .memory = {.handle = (uint64_t)(uintptr_t)scores},
                              .bytes = sizeof(scores),
                              .dtype = BP_DTYPE_F32,
                              .rank = 2,
                              .sizes = score_sizes};
  const bpa_session_args session_args = {.struct_size = sizeof(session_args), .device = device};
  bpa_session* session = NULL;
  bpa_tensor* input = NULL;
  bpa_tensor* output = NULL;
  int bad = failed(bpa_session_load(runtime, path, &session_args, &session), "loading");
  bad = bad || failed(bpa_tensor_from_host(device, BP_DTYPE_F32, image_sizes, 4, image,
                                           sizeof(image), &input),
                      "the image");
  bad = bad || failed(bpa_tensor_wrap(device, &room, &output), "wrapping");
  bpa_io_info io = {.struct_size = sizeof(io)};
  bad = bad || failed(bpa_session_get_input(session, 0, &io), "the input's name");
  const char* const names[] = {bad ? "" : io.name};
  const bpa_tensor* const inputs[] = {input};
  bpa_tensor* const outputs[] = {output};
  const bpa_run_args args = {.struct_size = sizeof(args),
                             .input_names = names,
                             .inputs = inputs,
                             .input_count = 1,
                             .bound_outputs = outputs,
                             .bound_output_count = 1,
                             .timeout_ns = UINT64_C(60000000000)};
  /* With a timeout the run waits, so `scores` may be read at once. */
  bad = bad || failed(bpa_session_run_with(session, &args, NULL, 1), "running");
  int best = 0;
  for (int i = 1; i < 10; ++i) {
    if (scores[i] > scores[best]) best = i;
  }
  bpa_device_info info = {.struct_size = sizeof(info)};
  bad = bad || failed(bpa_device_get_info(device, &info), "counters");
  if (!bad) {
    printf("the image looks like a %d; %llu outputs were copied\n", best,
           (unsigned long long)info.output_copy_count);
  }
  bpa_tensor_release(output);
  bpa_tensor_release(input);
  bpa_session_release(session);
  return bad;
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: wrap_memory MODEL\n");
    return 2;
  }
  bpa_runtime* runtime = NULL;
  bpa_device* device = NULL;
  int bad = failed(bpa_runtime_create(NULL, &runtime), "starting");
  bad = bad || failed(bpa_runtime_find_device(runtime, "cpu:0", &device), "finding cpu:0");
  bad = bad || wrap_upside_down(device);
  bad = bad || run_into(runtime, device, argv[1]);
  bpa_runtime_release(runtime);
  return bad;
}
