// SPDX-License-Identifier: Apache-2.0
//
// The C++ application API, header-only over backplane.h: counted handles, exceptions, containers.
// This is the header to include; its parts are by topic in api/.
//
//   auto rt = bp::Runtime::create();
//   auto dev = rt.device("npu:0");
//   auto a = bp::Tensor::from_host<float>(dev, values, {2, 3});
//   auto b = bp::relu(a);                    // <backplane/ops.hpp>
//   std::vector<float> out = b.to_vector<float>();
//
// Handles are cheap to copy and may be used from any thread. Every failure is a bp::Error.
#ifndef BACKPLANE_BACKPLANE_HPP
#define BACKPLANE_BACKPLANE_HPP

#include "backplane/api/ccl.hpp"
#include "backplane/api/ccl_dist.hpp"
#include "backplane/api/ccl_job.hpp"
#include "backplane/api/error.hpp"
#include "backplane/api/runtime.hpp"
#include "backplane/api/session.hpp"
#include "backplane/api/stream.hpp"
#include "backplane/api/tensor.hpp"

#endif
