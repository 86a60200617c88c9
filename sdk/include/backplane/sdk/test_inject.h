/* SPDX-License-Identifier: Apache-2.0
 *
 * The extension "bp.test_inject": a test makes the driver below a plugin fail on demand. Errors
 * that real hardware shows once a year are then seen at every place where they can happen. A plugin
 * that offers it counts its *driver calls*: each point where it would ask its vendor's driver or
 * the device for something (memory, a queue, an event, a command, the execution of a command). What
 * gives back (frees, destroys, closes) is never counted and never fails.
 */
#ifndef BACKPLANE_SDK_TEST_INJECT_H
#define BACKPLANE_SDK_TEST_INJECT_H

#include "backplane/host.h"
#include "backplane/status.h"

#define BP_TEST_INJECT_NAME "bp.test_inject"
#define BP_TEST_INJECT_VERSION 1u

/* bp_inject_args.kind */
#define BP_INJECT_NONE 0u        /* no call fails; a device that is lost stays lost */
#define BP_INJECT_FAIL_CALL 1u   /* call nth fails, once */
#define BP_INJECT_FAIL_FROM 2u   /* call nth and all later ones fail */
#define BP_INJECT_LOSE_DEVICE 3u /* call nth loses the device that makes it, until it is closed */

/* What is to fail. Allocated by the test, read during the call. */
typedef struct bp_inject_args {
  uint32_t struct_size;
  uint32_t flags;   /* 0 */
  uint32_t kind;    /* BP_INJECT_* */
  bp_status status; /* what a failing call answers; 0: BP_INTERNAL. A lost device answers
                       BP_DEVICE_LOST. */
  uint64_t nth;     /* counted from inject_arm; 1 is the next call */
} bp_inject_args;

/* What happened since inject_arm. Allocated by the test; the plugin writes at most struct_size
 * bytes. */
typedef struct bp_inject_info {
  uint32_t struct_size;
  uint32_t flags;
  uint64_t call_count;   /* driver calls, failed ones too */
  uint64_t failed_count; /* those that this extension made fail */
} bp_inject_info;

typedef struct bp_test_inject_api {
  uint32_t struct_size;
  uint32_t flags;

  /* inject_arm: begins counting the driver calls of all devices of the instance, and says which of
   * them fail. A device that is lost answers BP_DEVICE_LOST to everything but what gives back; its
   * pending work ends and its waits return at once.
   * Errors: BP_INVALID_ARGUMENT for NULL and for nth 0; BP_UNSUPPORTED for an unknown kind.
   * Threads: any-thread. Blocks: no. */
  bp_status (*inject_arm)(bp_instance* instance, const bp_inject_args* args);

  /* inject_read: how many calls there were and how many failed.
   * Errors: BP_INVALID_ARGUMENT for NULL. Threads: any-thread. Blocks: no. */
  bp_status (*inject_read)(bp_instance* instance, bp_inject_info* out_info);
} bp_test_inject_api;

#endif
