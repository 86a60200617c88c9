/* SPDX-License-Identifier: Apache-2.0
 *
 * The C API from end to end: the devices, two tensors, one operator, the result.
 *   first_c [DEVICE]
 */
#include <backplane/backplane.h>
#include <backplane/ops.h>
#include <stdio.h>

/* Prints what failed and answers whether it did. */
static int failed(bpa_status status, const char* what) {
  if (status == BP_OK) return 0;
  fprintf(stderr, "%s: %s: %s\n", what, bpa_status_name(status), bpa_last_error());
  return 1;
}

static int print_devices(bpa_runtime* runtime) {
  uint64_t count = 0;
  if (failed(bpa_runtime_device_count(runtime, &count), "counting devices")) return 1;
  for (uint64_t i = 0; i < count; ++i) {
    bpa_device* device = NULL;
    bpa_device_info info = {.struct_size = sizeof(info)};
    if (failed(bpa_runtime_device(runtime, i, &device), "a device")) return 1;
    if (failed(bpa_device_get_info(device, &info), "its properties")) return 1;
    printf("device %.*s: %.*s\n", (int)info.name.len, info.name.ptr, (int)info.full_name.len,
           info.full_name.ptr);
  }
  return 0;
}

static int add_on(bpa_device* device) {
  const float values[] = {1, 2, 3, 4};
  const int64_t sizes[] = {2, 2};
  float sums[4] = {0};
  bpa_tensor* x = NULL;
  bpa_tensor* y = NULL;
  /* Copies the values to the device. */
  int bad = failed(bpa_tensor_from_host(device, BP_DTYPE_F32, sizes, 2, values, sizeof(values), &x),
                   "a tensor");
  /* Runs where its inputs are; every operator has such a function in backplane/ops.h. */
  bad = bad || failed(bpa_add(NULL, x, x, &y), "add");
  /* Waits for the device, and says if the work failed there. */
  bad = bad || failed(bpa_tensor_to_host(y, sums, sizeof(sums)), "reading the result");
  if (!bad) printf("x + x = %g %g %g %g\n", sums[0], sums[1], sums[2], sums[3]);
  bpa_tensor_release(y); /* NULL is legal */
  bpa_tensor_release(x);
  return bad;
}

int main(int argc, char** argv) {
  if (argc > 2) {
    fprintf(stderr, "usage: first_c [DEVICE], and no %s\n", argv[2]);
    return 2;
  }
  bpa_runtime* runtime = NULL;
  bpa_device* device = NULL; /* belongs to the runtime */
  int bad = failed(bpa_runtime_create(NULL, &runtime), "starting");
  bad = bad || print_devices(runtime);
  bad = bad || failed(bpa_runtime_find_device(runtime, argc > 1 ? argv[1] : "cpu:0", &device),
                      "finding the device");
  bad = bad || add_on(device);
  bpa_runtime_release(runtime);
  return bad;
}
