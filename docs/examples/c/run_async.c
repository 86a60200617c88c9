/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs that nobody waits for: four at once with a callback, and one that is cancelled.
 *   run_async DEVICE MODEL
 */
#include <backplane/backplane.h>
#include <stdatomic.h>
#include <stdio.h>
#include <threads.h>

enum { kRuns = 4 };

static atomic_int done;
static atomic_int cancelled;

static int failed(bpa_status status, const char* what) {
  if (status == BP_OK) return 0;
  fprintf(stderr, "%s: %s: %s\n", what, bpa_status_name(status), bpa_last_error());
  return 1;
}

/* On a thread of the Runtime. The outputs are ours; they are done, so that reading does not wait.
 */
static void on_end(void* user, bpa_status status, const char* message, bpa_tensor** outputs,
                   uint64_t output_count) {
  (void)user;
  if (status == BP_CANCELLED) {
    atomic_fetch_add(&cancelled, 1);
  } else if (status != BP_OK) {
    fprintf(stderr, "a run failed: %s\n", message);
  }
  for (uint64_t i = 0; i < output_count; ++i) bpa_tensor_release(outputs[i]);
  atomic_fetch_add(&done, 1);
}

static int start_runs(bpa_session* session, bpa_tensor* image, bpa_cancel* cancel) {
  bpa_io_info io = {.struct_size = sizeof(io)};
  if (failed(bpa_session_get_input(session, 0, &io), "the input's name")) return 1;
  const char* const names[] = {io.name};
  const bpa_tensor* const inputs[] = {image};
  bpa_run_args args = {.struct_size = sizeof(args),
                       .input_names = names,
                       .inputs = inputs,
                       .input_count = 1,
                       .timeout_ns = UINT64_C(60000000000)};
  for (int i = 0; i < kRuns; ++i) {
    if (failed(bpa_session_run_async(session, &args, on_end, NULL), "starting a run")) return 1;
  }
  args.cancel = cancel; /* requested already: this run ends before it begins */
  return failed(bpa_session_run_async(session, &args, on_end, NULL), "starting a run");
}

static int run(bpa_runtime* runtime, const char* device_name, const char* path) {
  static float pixels[64];
  const int64_t sizes[] = {1, 1, 8, 8};
  bpa_device* device = NULL;
  bpa_session* session = NULL;
  bpa_tensor* image = NULL;
  bpa_cancel* cancel = NULL;
  int bad = failed(bpa_runtime_find_device(runtime, device_name, &device), "finding the device");
  const bpa_session_args args = {.struct_size = sizeof(args), .device = device};
  bad = bad || failed(bpa_session_load(runtime, path, &args, &session), "loading");
  bad = bad ||
        failed(bpa_tensor_from_host(device, BP_DTYPE_F32, sizes, 4, pixels, sizeof(pixels), &image),
               "the image");
  bad = bad || failed(bpa_cancel_create(&cancel), "a token");
  bad = bad || failed(bpa_cancel_request(cancel), "cancelling");
  bad = bad || start_runs(session, image, cancel);
  /* All may be released at once: runs keep what they need. */
  bpa_cancel_release(cancel);
  bpa_tensor_release(image);
  bpa_session_release(session);
  while (!bad && atomic_load(&done) < kRuns + 1) thrd_yield();
  if (!bad) printf("%d runs ended, %d of them cancelled\n", done, cancelled);
  return bad;
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: run_async DEVICE MODEL\n");
    return 2;
  }
  bpa_runtime* runtime = NULL;
  int bad = failed(bpa_runtime_create(NULL, &runtime), "starting");
  bad = bad || run(runtime, argv[1], argv[2]);
  /* Ends what is still pending, and waits for it. */
  bad = failed(bpa_runtime_close(runtime), "closing") || bad;
  bpa_runtime_release(runtime);
  return bad;
}
