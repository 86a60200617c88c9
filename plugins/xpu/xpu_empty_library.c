/* SPDX-License-Identifier: Apache-2.0
 *
 * A library without a single OpenCL function, which xpu_test puts in the loader's place: what a
 * user of a much too old loader sees. */
int bp_xpu_empty_library(void);
int bp_xpu_empty_library(void) { return 0; }
