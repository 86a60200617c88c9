/* SPDX-License-Identifier: Apache-2.0
 *
 * The first collective in C: each rank has a tensor on its own device, and all get the sum. Ranks
 * are threads, which meet in a store in memory; or processes, where a launcher has started them.
 *   all_reduce_c [DEVICE...]      a rank on each; cpu:0 twice if none is named
 *   backplane launch -n 2 --devices npu:0,cpu:0 -- ./all_reduce_c
 */
#include <backplane/backplane.h>
#include <stdio.h>
#include <threads.h>

enum { MOST_RANKS = 16 };

static int failed(bpa_status status, const char* what) {
  if (status == BP_OK) return 0;
  fprintf(stderr, "%s: %s: %s\n", what, bpa_status_name(status), bpa_last_error());
  return 1;
}

/* What a rank does, be it a thread or a process. */
static int run(bpa_ccl_group* group, bpa_device* device) {
  bpa_ccl_group_info info = {.struct_size = sizeof(info)};
  bpa_device_info where = {.struct_size = sizeof(where)};
  int bad = failed(bpa_ccl_group_get_info(group, &info), "the group");
  bad = bad || failed(bpa_device_get_info(device, &where), "the device");
  float values[2] = {(float)(info.rank + 1), 10};
  const int64_t sizes[] = {2};
  bpa_tensor* x = NULL;
  bad = bad ||
        failed(bpa_tensor_from_host(device, BP_DTYPE_F32, sizes, 1, values, sizeof(values), &x),
               "a tensor");
  /* Without a work to wait for, it waits for the others. */
  bad = bad || failed(bpa_ccl_all_reduce(group, x, x, BPA_CCL_SUM, NULL, NULL), "all_reduce");
  bad = bad || failed(bpa_tensor_to_host(x, values, sizeof(values)), "reading the sum");
  if (!bad) {
    printf("rank %u of %u on %.*s: %g %g\n", info.rank, info.rank_count, (int)where.name.len,
           where.name.ptr, values[0], values[1]);
  }
  bpa_tensor_release(x); /* NULL is legal */
  return bad;
}

/* As a rank of a job, each of which is a process. */
static int run_launched(bpa_runtime* runtime, bpa_ccl_job* job, const bpa_ccl_job_info* info) {
  const char* const name = info->device[0] != '\0' ? info->device : "cpu:0";
  bpa_ccl_group_args args = {
      .struct_size = sizeof(args), .rank = info->rank, .rank_count = info->rank_count};
  bpa_device* device = NULL;
  bpa_ccl_store* store = NULL;
  bpa_ccl_group* group = NULL;
  int bad = failed(bpa_runtime_find_device(runtime, name, &device), "finding a device");
  bad = bad || failed(bpa_ccl_job_get_store(job, &store), "the job's store");
  args.store = store;
  bad = bad || failed(bpa_ccl_group_create(device, &args, &group), "joining");
  bad = bad || run(group, device);
  bpa_ccl_group_release(group);
  bpa_ccl_store_release(store);
  return bad;
}

struct rank {
  bpa_device* device;
  bpa_ccl_group_args args;
};

static int run_rank(void* argument) {
  const struct rank* rank = argument;
  bpa_ccl_group* group = NULL;
  int bad = failed(bpa_ccl_group_create(rank->device, &rank->args, &group), "joining");
  bad = bad || run(group, rank->device);
  bpa_ccl_group_release(group);
  return bad;
}

/* Starts a thread for each rank; whether any of them failed. */
static int run_all(const struct rank* ranks, int count) {
  thrd_t threads[MOST_RANKS];
  int bad = 0;
  int begun = 0;
  for (; begun < count && !bad; ++begun) {
    struct rank* rank = (struct rank*)&ranks[begun];
    if (thrd_create(&threads[begun], run_rank, rank) == thrd_success) continue;
    fprintf(stderr, "no thread for rank %d\n", begun);
    bad = 1;
    break;
  }
  for (int i = 0; i < begun; ++i) {
    int result = 1;
    thrd_join(threads[i], &result);
    bad = bad || result;
  }
  return bad;
}

/* As many ranks as names, in this process. */
static int run_threads(bpa_runtime* runtime, const char* const* names, int count) {
  struct rank ranks[MOST_RANKS] = {{0}};
  bpa_ccl_store* store = NULL;
  int bad = failed(bpa_ccl_store_create_memory(&store), "the store");
  for (int i = 0; i < count && !bad; ++i) {
    bad = failed(bpa_runtime_find_device(runtime, names[i], &ranks[i].device), "finding a device");
    ranks[i].args = (bpa_ccl_group_args){.struct_size = sizeof(ranks[i].args),
                                         .store = store,
                                         .rank = (uint32_t)i,
                                         .rank_count = (uint32_t)count};
  }
  bad = bad || run_all(ranks, count);
  bpa_ccl_store_release(store);
  return bad;
}

int main(int argc, char** argv) {
  const char* const pair[] = {"cpu:0", "cpu:0"};
  const char* const* names = argc > 1 ? (const char* const*)(argv + 1) : pair;
  const int count = argc > 1 ? argc - 1 : 2;
  if (count > MOST_RANKS) {
    fprintf(stderr, "usage: all_reduce_c [DEVICE...], at most %d\n", MOST_RANKS);
    return 2;
  }
  bpa_runtime* runtime = NULL;
  bpa_ccl_job* job = NULL;
  bpa_ccl_job_info info = {.struct_size = sizeof(info)};
  int bad = failed(bpa_runtime_create(NULL, &runtime), "starting");
  bad = bad || failed(bpa_ccl_job_create(&job), "the job"); /* without a launcher: of one rank */
  bad = bad || failed(bpa_ccl_job_get_info(job, &info), "the job");
  if (!bad && info.rank_count > 1 && argc > 1) {
    fprintf(stderr, "all_reduce_c: %s: the launcher says the device\n", argv[1]);
    bad = 1;
  }
  if (!bad) {
    bad = info.rank_count > 1 ? run_launched(runtime, job, &info)
                              : run_threads(runtime, names, count);
  }
  bpa_ccl_job_release(job);
  bpa_runtime_release(runtime);
  return bad;
}
