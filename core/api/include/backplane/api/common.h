/* SPDX-License-Identifier: Apache-2.0
 *
 * What all parts of the C application API share: object types, errors, the log. Included by
 * backplane.h, which has the rules.
 */
#ifndef BACKPLANE_API_COMMON_H
#define BACKPLANE_API_COMMON_H

#include <stdint.h>

#include "backplane/status.h"
#include "backplane/types.h"

#if defined(_WIN32)
#define BPA_API __declspec(dllimport)
#elif defined(BPA_BUILDING)
#define BPA_API __attribute__((visibility("default")))
#else
#define BPA_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef bp_status bpa_status;
typedef struct bpa_runtime bpa_runtime;
typedef struct bpa_device bpa_device; /* owned by its runtime; never released */
typedef struct bpa_tensor bpa_tensor;
typedef struct bpa_session bpa_session;
typedef struct bpa_cancel bpa_cancel;
typedef struct bpa_stream bpa_stream;

/* Told that the library needs memory no more that the application lent it. */
typedef void (*bpa_deleter)(void* user);

/* "0.1.0". Lifetime: process. */
BPA_API const char* bpa_version(void);

/* The words of the newest error on the calling thread, "" if there was none. Lifetime: until this
 * thread's next failing call. */
BPA_API const char* bpa_last_error(void);

/* The operator that failed with it, by its name in the library: "matmul". Of a model's node it is
 * the operator that the node became; where simpler operators do one's work, the one of them that
 * failed; where a call met an earlier failure, that one's. "" where the error is about none, and
 * where the library does not know it, as of one in a queue whose device tells only that some work
 * there failed. Longer names than 63 bytes are cut. Lifetime: as bpa_last_error. */
BPA_API const char* bpa_last_error_op(void);

/* "OUT_OF_MEMORY" for BP_OUT_OF_MEMORY; unknown codes are "INTERNAL". Lifetime: process. */
BPA_API const char* bpa_status_name(bpa_status status);

/* --- Log ----------------------------------------------------------------------------------- */

/* level: 1 error, 2 warning, 3 info, 4 debug. `line` is UTF-8, not terminated. Called one line at a
 * time, and no lock of the library's is held: it may call the API. What it logs itself goes to
 * standard error.
 *
 * Lines of an API call come in order on the thread that made it, when the outermost call on that
 * thread has done its work, just before it returns; its status and bpa_last_error stay what they
 * are, whatever the sink calls. Beyond 1000 lines of one call the last one tells how many more
 * there were. Lines of a device's queued work come on a thread that does this work, before it
 * counts as done; there the sink must not wait for the device (sync, run, reading a tensor), and
 * cannot close a runtime (BUSY); one whose last owner it releases ends on another thread. All other
 * lines come at once, on whatever thread has them. */
typedef void (*bpa_log_sink)(void* user, uint32_t level, const char* line, uint64_t line_bytes);

/* Sends the log of the whole process to `sink`; NULL: back to standard error. Lines that wait for
 * the end of their call go to the new one; after this the old one gets none any more, unless it is
 * still busy with a line after 2 s. */
BPA_API void bpa_log_set_sink(bpa_log_sink sink, void* user);

/* Drops lines above `level` in the whole process: 0 drops all; 1 shows errors, 2 also warnings,
 * 3 also info, 4 also debug. Once set, it is stronger than BACKPLANE_LOG.
 * Errors: INVALID_ARGUMENT above 4. */
BPA_API bpa_status bpa_log_set_level(uint32_t level);

#ifdef __cplusplus
}
#endif

#endif
