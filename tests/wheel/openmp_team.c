/* SPDX-License-Identifier: Apache-2.0
 *
 * Another library that computes with OpenMP, as PyTorch's do.
 */
#include <omp.h>

int team_size(void) {
  int size = 0;
#pragma omp parallel
  {
#pragma omp single
    size = omp_get_num_threads();
  }
  return size;
}
