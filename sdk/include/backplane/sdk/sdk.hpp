// SPDX-License-Identifier: Apache-2.0
//
// What a plugin written in C++ needs on its side of the ABI, header-only, over the ABI headers and
// the standard library alone. comm_init.hpp, exit_gate.hpp, resize.hpp and test_inject.hpp are for
// some plugins, and stand apart.
#ifndef BACKPLANE_SDK_SDK_HPP
#define BACKPLANE_SDK_SDK_HPP

#include "backplane/device_api.h"
#include "backplane/sdk/host.hpp"
#include "backplane/sdk/kernel.hpp"
#include "backplane/sdk/options.hpp"
#include "backplane/sdk/query.hpp"
#include "backplane/sdk/slot.hpp"

#endif
