/* SPDX-License-Identifier: Apache-2.0
 *
 * Status codes: each one tells the caller what to do next.
 *
 * Rules: the words that explain a failure go to the host's `report` before the function returns
 * (host.h), so no memory crosses with a code.
 */
#ifndef BACKPLANE_STATUS_H
#define BACKPLANE_STATUS_H

#include <stdint.h>

/* Rules: a receiver treats a code it does not know as BP_INTERNAL. */
typedef int32_t bp_status;

/* Rules: beside each code. */
#define BP_OK 0
#define BP_INVALID_ARGUMENT 1 /* the call is wrong: mend the call */
#define BP_UNSUPPORTED 2      /* a correct call that this side cannot do: choose another way */
#define BP_UNAVAILABLE 3      /* the device or driver is not here: skip it */
#define BP_OUT_OF_MEMORY 4    /* trim, then retry once */
#define BP_PENDING 5          /* not finished yet: ask again */
#define BP_TIMEOUT 6          /* a deadline passed; the work may still finish */
#define BP_CANCELLED 7        /* stopped on request */
#define BP_BUSY 8             /* in use: try later, or use one instance only */
#define BP_POISONED 9         /* an earlier failure on this stream: reset or destroy it */
#define BP_DEVICE_LOST 10     /* device or context failed for good: only destroys still work */
#define BP_GONE 11            /* the object's owner was closed */
#define BP_FORKED 12          /* used in a forked child: only destroys work */
#define BP_INCOMPATIBLE 13    /* versions that cannot work together: refuse */
#define BP_INTERNAL 14        /* a bug on the side that answers */

#endif
