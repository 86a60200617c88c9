// SPDX-License-Identifier: Apache-2.0
//
// The NPU's kernels, each behind a descriptor whose launch records where the stream does.
#ifndef BACKPLANE_TESTS_SKETCHES_CAPTURE_MOCK_KERNELS_HPP
#define BACKPLANE_TESTS_SKETCHES_CAPTURE_MOCK_KERNELS_HPP

#include "backplane/kernel.h"

namespace bp::sketch {

extern const bp_kernel_api kRecordingKernels;

}  // namespace bp::sketch

#endif
