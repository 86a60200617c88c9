/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks as processes: what a process learns of its job from who started it (`backplane launch`,
 * torchrun, mpirun, mpiexec, srun), and the stores in which processes meet. Included by
 * backplane.h, which has the rules. docs/launch.md tells it from the beginning.
 *
 *   bpa_ccl_job_create(&job);                    once in each process
 *   bpa_ccl_job_get_info(job, &info);            info.rank, info.rank_count, info.device
 *   bpa_ccl_job_get_store(job, &args.store);     for bpa_ccl_group_create
 *
 * A program that no launcher started is a job of one rank, and runs unchanged.
 *
 * Who connects to a store over TCP proves to know the job's token, and so does the store. What
 * follows is neither encrypted nor signed: on a network that others use too, a tunnel is needed.
 */
#ifndef BACKPLANE_API_CCL_JOB_H
#define BACKPLANE_API_CCL_JOB_H

#include "backplane/api/ccl.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- Jobs ---------------------------------------------------------------------------------- */

typedef struct bpa_ccl_job bpa_ccl_job;

/* Reads the environment, opens the job's store, and waits until all ranks have done so: up to
 * BACKPLANE_CCL_TIMEOUT. Once in each process, also where several launchers' variables are set: the
 * one nearest to the process counts. No other thread may change the environment meanwhile.
 * Errors: INVALID_ARGUMENT for variables that contradict themselves, are set by halves or are no
 * values, naming them; for a rank that is there already, and for ranks that disagree on their
 * number; TIMEOUT naming the ranks that did not come; UNAVAILABLE for a store that cannot be
 * opened, and in a process with raised privileges, which believes no environment; INCOMPATIBLE;
 * OUT_OF_MEMORY. */
BPA_API bpa_status bpa_ccl_job_create(bpa_ccl_job** out_job);

/* Where this rank serves the job's store (rank 0 of a launcher other than `backplane launch`, with
 * ranks on several hosts), it waits up to 5 s for the other ranks to release theirs. NULL is legal.
 * Stores of the job are the caller's own. */
BPA_API void bpa_ccl_job_release(bpa_ccl_job* job);

/* Texts: lifetime object (the job). */
typedef struct bpa_ccl_job_info {
  uint32_t struct_size;
  uint32_t flags; /* 0 */
  uint32_t rank;
  uint32_t rank_count;
  uint32_t local_rank;  /* among the ranks on this host, from 0 */
  uint32_t local_count; /* ranks on this host */
  uint32_t restart;     /* how often the job was started anew */
  uint32_t reserved;
  const char* device;   /* that the launcher gave to this rank: "npu:0"; "": none */
  const char* launcher; /* "backplane", "torchrun", "mpirun", "mpiexec", "srun"; "": none */
} bpa_ccl_job_info;

BPA_API bpa_status bpa_ccl_job_get_info(bpa_ccl_job* job, bpa_ccl_job_info* out_info);

/* The store in which the job's ranks meet; another for each restart. It may outlive the job. */
BPA_API bpa_status bpa_ccl_job_get_store(bpa_ccl_job* job, bpa_ccl_store** out_store);

/* --- Stores between processes -------------------------------------------------------------- */

/* A file for ranks on one host: no process serves it, and nothing listens. It is made where there
 * is none, for this user alone, and stays. job: 1 to 256 bytes, the same on all ranks, and another
 * for each run, so that the file that an earlier one left is not taken for this one's.
 * Errors: INVALID_ARGUMENT also for a file of another job, for no store's, and for one that others
 * may read; UNAVAILABLE where it cannot be opened or made; TIMEOUT where another process keeps it.
 */
BPA_API bpa_status bpa_ccl_store_create_file(const char* path, const char* job,
                                             bpa_ccl_store** out_store);

/* flags: this process serves the store, as long as it has it. */
#define BPA_CCL_SERVE_BIT 1u

/* Pointers: lifetime call. */
typedef struct bpa_ccl_tcp_store_args {
  uint32_t struct_size;
  uint32_t flags;         /* BPA_CCL_SERVE_BIT: on one rank */
  const char* endpoint;   /* "10.0.0.1:4711", "[fd00::1]:4711": where it is served. Only that
                             address listens. With BPA_CCL_SERVE_BIT also "eth0:4711" */
  const char* token_file; /* with 64 hexadecimal digits, for its user alone (mode 0600) */
  const char* job;        /* 1 to 256 bytes, the same on all ranks */
  uint64_t timeout_ns;    /* how long a server that is not there yet is waited for; 0:
                             BACKPLANE_CCL_TIMEOUT */
} bpa_ccl_tcp_store_args;

/* Errors: INVALID_ARGUMENT also for another token or job than the server's; UNAVAILABLE with the
 * address where nobody serves it, and where it cannot be served; TIMEOUT for a server that does not
 * answer; INCOMPATIBLE for one of another kind. */
BPA_API bpa_status bpa_ccl_store_create_tcp(const bpa_ccl_tcp_store_args* args,
                                            bpa_ccl_store** out_store);

#ifdef __cplusplus
}
#endif

#endif
