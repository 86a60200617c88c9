/* SPDX-License-Identifier: Apache-2.0
 *
 * A table of two functions in one band, as growth_test.py adds it to the contract of its copy of
 * the tree.
 */
#ifndef BACKPLANE_TOY_H
#define BACKPLANE_TOY_H

#include "backplane/host.h"
#include "backplane/status.h"
#include "backplane/types.h"

#define BP_FEATURE_TOY_BIT ((uint64_t)1 << 6) /* toy table: toy_wind, toy_unwind */

/* Allocated by the core, read during the call. Required: all. */
typedef struct bp_toy_args {
  uint32_t struct_size;
  uint32_t flags;
  uint64_t turn_count;
} bp_toy_args;

typedef struct bp_toy_api {
  uint32_t struct_size;
  uint32_t flags; /* bands: BP_FEATURE_TOY_BIT */

  /* toy_wind (band TOY): winds the device up. Errors: BP_UNSUPPORTED. Threads: any-thread.
   * Blocks: no. Absent: nothing winds. */
  bp_status (*toy_wind)(bp_device* device, const bp_toy_args* args);

  /* toy_unwind (band TOY): lets it run down, and tells how many turns it had.
   * Threads: any-thread. Blocks: no. */
  bp_status (*toy_unwind)(bp_device* device, uint64_t* out_turn_count);
} bp_toy_api;

#endif
