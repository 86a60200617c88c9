/* SPDX-License-Identifier: Apache-2.0
 *
 * Built against the installed tree as C11: prints the library's version and every device.
 */
#include <backplane/backplane.h>
#include <backplane/ops.h>
#include <stdio.h>

int main(void) {
  bpa_runtime* runtime = NULL;
  uint64_t count = 0;
  if (bpa_runtime_create(NULL, &runtime) != BP_OK) {
    fprintf(stderr, "%s\n", bpa_last_error());
    return 1;
  }
  if (bpa_runtime_device_count(runtime, &count) != BP_OK) return 1;
  printf("version %s\n", bpa_version());
  for (uint64_t index = 0; index < count; ++index) {
    bpa_device* device = NULL;
    bpa_device_info info = {.struct_size = sizeof(info)};
    if (bpa_runtime_device(runtime, index, &device) != BP_OK) return 1;
    if (bpa_device_get_info(device, &info) != BP_OK) return 1;
    printf("device %.*s\n", (int)info.name.len, info.name.ptr);
  }
  bpa_runtime_release(runtime);
  return 0;
}
