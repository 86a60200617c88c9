/* SPDX-License-Identifier: Apache-2.0
 *
 * Data parallel training in C: y = x * weights + bias. Each rank has its share of the batch and
 * computes its gradients on its own device; they are averaged, and every rank goes on with the same
 * parameters. Ranks are threads, which meet in a store in memory; or processes, where a launcher
 * has started them.
 *   data_parallel_c [--check] [DEVICE...]      a rank on each; npu:0 cpu:0 if none is named
 *   backplane launch -n 2 --devices npu:0,cpu:0 -- ./data_parallel_c [--check]
 * --check: trains once more on one rank with the whole batch, and compares.
 */
#include <backplane/backplane.h>
#include <backplane/ops.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <threads.h>

enum { MOST_RANKS = 16, STEPS = 20, SAMPLES = 97, INPUTS = 2 };
enum { WEIGHTS, BIAS, PARAMETERS }; /* by index */

/* What a rank has on its device. Tensors are NULL until they are made. */
struct model {
  bpa_tensor *x, *target;             /* its rows of the batch */
  bpa_tensor* scale;                  /* of gradients: their average is a step */
  bpa_tensor* parameters[PARAMETERS]; /* [INPUTS, 1] and [1, 1] */
};

static int failed(bpa_status status, const char* what) {
  if (status == BP_OK) return 0;
  fprintf(stderr, "%s: %s: %s\n", what, bpa_status_name(status), bpa_last_error());
  return 1;
}

static int make(bpa_device* device, const float* values, int64_t rows, int64_t columns,
                bpa_tensor** out_tensor) {
  const int64_t sizes[] = {rows, columns};
  const uint64_t bytes = (uint64_t)(rows * columns) * sizeof(float);
  return failed(bpa_tensor_from_host(device, BP_DTYPE_F32, sizes, 2, values, bytes, out_tensor),
                "a tensor");
}

/* Rows of rank `rank` of the batch: two inputs from -1 to 1, and what is to be learnt of them. */
static int make_model(bpa_device* device, uint32_t rank, uint32_t rank_count, struct model* model) {
  const uint32_t begin = SAMPLES * rank / rank_count;
  const uint32_t rows = SAMPLES * (rank + 1) / rank_count - begin;
  float x[SAMPLES * INPUTS], target[SAMPLES];
  for (uint32_t i = 0; i < rows; ++i) {
    x[2 * i] = (float)((begin + i) * 37 % SAMPLES) * 2 / SAMPLES - 1;
    x[2 * i + 1] = (float)((begin + i) * 53 % SAMPLES) * 2 / SAMPLES - 1;
    target[i] = 3 * x[2 * i] - 2 * x[2 * i + 1] + 0.5f;
  }
  /* Shares may differ in size: each sample counts as much, whatever rank has it. */
  const float scale = 0.5f * 2 / SAMPLES * (float)rank_count;
  const float first[INPUTS + 1] = {(float)rank, 1, 0}; /* rank 0's is what counts */
  return make(device, x, rows, INPUTS, &model->x) ||
         make(device, target, rows, 1, &model->target) ||
         make(device, &scale, 1, 1, &model->scale) ||
         make(device, first, INPUTS, 1, &model->parameters[WEIGHTS]) ||
         make(device, first + INPUTS, 1, 1, &model->parameters[BIAS]);
}

/* The error of each row, and the gradients, each of which is ready as soon as it is there. */
static int backward(bpa_ccl_data_parallel* parallel, const struct model* model,
                    bpa_tensor** out_error) {
  const int64_t rows = 0; /* the dimension */
  bp_attrs_reduce_sum over_rows = bp_attrs_reduce_sum_defaults();
  over_rows.axes = (bp_i64_span){&rows, 1};
  bp_attrs_gemm transposed = bp_attrs_gemm_defaults();
  transposed.trans_a = 1;
  bpa_tensor *product = NULL, *guess = NULL, *d_guess = NULL, *d_bias = NULL, *d_weights = NULL;
  int bad = failed(bpa_matmul(NULL, model->x, model->parameters[WEIGHTS], &product), "matmul");
  bad = bad || failed(bpa_add(NULL, product, model->parameters[BIAS], &guess), "add");
  bad = bad || failed(bpa_sub(NULL, guess, model->target, out_error), "sub");
  bad = bad || failed(bpa_mul(NULL, *out_error, model->scale, &d_guess), "mul");
  bad = bad || failed(bpa_reduce_sum(NULL, d_guess, &over_rows, &d_bias), "reduce_sum");
  bad = bad || failed(bpa_ccl_data_parallel_ready(parallel, BIAS, d_bias, NULL), "a gradient");
  bad = bad || failed(bpa_gemm(NULL, model->x, d_guess, NULL, &transposed, &d_weights), "gemm");
  bad = bad || failed(bpa_ccl_data_parallel_ready(parallel, WEIGHTS, d_weights, NULL), "another");
  bpa_tensor_release(d_weights); /* NULL is legal */
  bpa_tensor_release(d_bias);
  bpa_tensor_release(d_guess);
  bpa_tensor_release(guess);
  bpa_tensor_release(product);
  return bad;
}

/* parameter -= the average of its gradients, which are scaled */
static int update(bpa_ccl_data_parallel* parallel, struct model* model, uint64_t index) {
  bpa_tensor *average = NULL, *next = NULL;
  int bad = failed(bpa_ccl_data_parallel_get_gradient(parallel, index, &average), "an average");
  bad = bad || failed(bpa_sub(NULL, model->parameters[index], average, &next), "sub");
  if (!bad) {
    bpa_tensor_release(model->parameters[index]);
    model->parameters[index] = next;
  }
  bpa_tensor_release(average);
  return bad;
}

/* The sum over all ranks of their errors' squares. */
static int sum_squares(bpa_ccl_group* group, const bpa_tensor* error, float* out_sum) {
  bpa_tensor *squares = NULL, *sum = NULL;
  int bad = failed(bpa_mul(NULL, error, error, &squares), "mul");
  bad = bad || failed(bpa_reduce_sum(NULL, squares, NULL, &sum), "reduce_sum");
  bad = bad || failed(bpa_ccl_all_reduce(group, sum, sum, BPA_CCL_SUM, NULL, NULL), "all_reduce");
  bad = bad || failed(bpa_tensor_to_host(sum, out_sum, sizeof(*out_sum)), "reading the loss");
  bpa_tensor_release(sum);
  bpa_tensor_release(squares);
  return bad;
}

/* out: in the end, the weights, then the bias. */
static int train(bpa_ccl_group* group, struct model* model, int prints, float* out) {
  bpa_tensor** const own = model->parameters;
  const bpa_ccl_data_parallel_args args = {.struct_size = sizeof(args),
                                           .parameters = (const bpa_tensor* const*)own,
                                           .parameter_count = PARAMETERS};
  bpa_ccl_data_parallel* parallel = NULL;
  int bad = failed(bpa_ccl_data_parallel_create(group, &args, &parallel), "the buckets");
  bad = bad || failed(bpa_ccl_data_parallel_broadcast_parameters(parallel, own, PARAMETERS, 0),
                      "rank 0's parameters");
  for (int step = 0; step < STEPS && !bad; ++step) {
    bpa_tensor* error = NULL;
    float squares = 0;
    bad = backward(parallel, model, &error);
    /* What comes now comes after the averages; with a queue the host does not wait. */
    bad = bad || failed(bpa_ccl_data_parallel_finish(parallel, NULL), "the averages");
    for (uint64_t i = 0; i < PARAMETERS && !bad; ++i) bad = update(parallel, model, i);
    bad = bad || sum_squares(group, error, &squares);
    if (!bad && prints) printf("step %2d: loss %.6f\n", step, (double)squares / SAMPLES);
    bpa_tensor_release(error);
  }
  bad = bad || failed(bpa_tensor_to_host(own[WEIGHTS], out, INPUTS * sizeof(*out)), "weights");
  bad = bad || failed(bpa_tensor_to_host(own[BIAS], out + INPUTS, sizeof(*out)), "the bias");
  bpa_ccl_data_parallel_release(parallel);
  return bad;
}

struct rank {
  bpa_device* device;
  bpa_ccl_group_args args;
  int prints;
  float parameters[INPUTS + 1]; /* what it comes to */
};

/* What a rank does, be it a thread or a process. */
static int run_rank(void* argument) {
  struct rank* rank = argument;
  struct model model = {0};
  bpa_ccl_group* group = NULL;
  int bad = failed(bpa_ccl_group_create(rank->device, &rank->args, &group), "joining");
  bad = bad || make_model(rank->device, rank->args.rank, rank->args.rank_count, &model);
  bad = bad || train(group, &model, rank->prints, rank->parameters);
  for (int i = 0; i < PARAMETERS; ++i) bpa_tensor_release(model.parameters[i]);
  bpa_tensor_release(model.scale);
  bpa_tensor_release(model.target);
  bpa_tensor_release(model.x);
  bpa_ccl_group_release(group);
  return bad;
}

/* A thread for each rank, which meet in a store of their own. */
static int run_threads(struct rank* ranks, uint32_t count) {
  thrd_t threads[MOST_RANKS];
  uint32_t begun = 0;
  bpa_ccl_store* store = NULL;
  int bad = failed(bpa_ccl_store_create_memory(&store), "the store");
  while (begun < count && !bad) {
    struct rank* const rank = &ranks[begun];
    rank->args = (bpa_ccl_group_args){
        .struct_size = sizeof(rank->args), .store = store, .rank = begun, .rank_count = count};
    bad = thrd_create(&threads[begun], run_rank, rank) != thrd_success;
    if (bad) fprintf(stderr, "no thread for rank %u\n", begun);
    begun += !bad;
  }
  for (uint32_t i = 0; i < begun; ++i) {
    int result = 1;
    thrd_join(threads[i], &result);
    bad = bad || result;
  }
  bpa_ccl_store_release(store);
  return bad;
}

/* One rank alone comes to the same, but for how sums are rounded. */
static int check(const struct rank* rank) {
  struct rank alone = {.device = rank->device};
  const float *a = rank->parameters, *b = alone.parameters;
  int bad = run_threads(&alone, 1);
  for (int i = 0; i < INPUTS + 1; ++i) bad = bad || !(fabs((double)a[i] - b[i]) <= 1e-5);
  printf("%u ranks %s one: y = %.4f x0 + %.4f x1 + %.4f\n", rank->args.rank_count,
         bad ? "do not equal" : "equal", (double)a[0], (double)a[1], (double)a[2]);
  return bad;
}

/* As a rank of a job, each of which is a process. */
static int run_launched(bpa_runtime* runtime, bpa_ccl_job* job, const bpa_ccl_job_info* info,
                        int checks) {
  const char* const name = info->device[0] != '\0' ? info->device : "cpu:0";
  struct rank rank = {.prints = info->rank == 0};
  rank.args = (bpa_ccl_group_args){
      .struct_size = sizeof(rank.args), .rank = info->rank, .rank_count = info->rank_count};
  int bad = failed(bpa_runtime_find_device(runtime, name, &rank.device), "finding a device");
  bad = bad || failed(bpa_ccl_job_get_store(job, &rank.args.store), "the job's store");
  bad = bad || run_rank(&rank);
  bpa_ccl_store_release(rank.args.store);
  return bad || (checks && check(&rank));
}

/* As many ranks as names, in this process. All have the same bits. */
static int run_here(bpa_runtime* runtime, const char* const* names, int count, int checks) {
  struct rank ranks[MOST_RANKS] = {{.prints = 1}};
  int bad = 0;
  for (int i = 0; i < count && !bad; ++i) {
    bad = failed(bpa_runtime_find_device(runtime, names[i], &ranks[i].device), "finding a device");
    for (int j = 0; j < i && !bad; ++j) {
      /* Ranks of one device's queue would wait in it for each other. */
      bad = ranks[j].device == ranks[i].device;
      if (bad) fprintf(stderr, "%s is named twice: a device has one rank here\n", names[i]);
    }
  }
  bad = bad || run_threads(ranks, (uint32_t)count);
  for (int i = 1; i < count && checks && !bad; ++i) {
    bad = memcmp(ranks[i].parameters, ranks[0].parameters, sizeof(ranks[0].parameters)) != 0;
    if (bad) fprintf(stderr, "ranks 0 and %d have different parameters\n", i);
  }
  return bad || (checks && check(&ranks[0]));
}

int main(int argc, char** argv) {
  const char* const pair[] = {"npu:0", "cpu:0"};
  const int checks = argc > 1 && strcmp(argv[1], "--check") == 0;
  const int named = argc - 1 - checks;
  const char* const* names = named > 0 ? (const char* const*)(argv + 1 + checks) : pair;
  if (named > MOST_RANKS) {
    fprintf(stderr, "usage: data_parallel_c [--check] [DEVICE...], at most %d\n", MOST_RANKS);
    return 2;
  }
  bpa_runtime* runtime = NULL;
  bpa_ccl_job* job = NULL;
  bpa_ccl_job_info info = {.struct_size = sizeof(info)};
  int bad = failed(bpa_runtime_create(NULL, &runtime), "starting");
  bad = bad || failed(bpa_ccl_job_create(&job), "the job"); /* without a launcher: of one rank */
  bad = bad || failed(bpa_ccl_job_get_info(job, &info), "the job");
  if (!bad && info.rank_count > 1 && named > 0) {
    fprintf(stderr, "data_parallel_c: %s: the launcher says the device\n", names[0]);
    bad = 1;
  }
  bad = bad || (info.rank_count > 1 ? run_launched(runtime, job, &info, checks)
                                    : run_here(runtime, names, named > 0 ? named : 2, checks));
  bpa_ccl_job_release(job);
  bpa_runtime_release(runtime);
  return bad;
}
