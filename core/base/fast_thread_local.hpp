// SPDX-License-Identifier: Apache-2.0
//
// Thread-local pointers of the launch path. The usual way to one in a shared library is a function
// call, several times in each API call; this model costs two instructions, and room in the static
// block of each thread, of which the system lends a library that is loaded late only some hundred
// bytes. So it is for few, and for pointers.
#ifndef BACKPLANE_CORE_BASE_FAST_THREAD_LOCAL_HPP
#define BACKPLANE_CORE_BASE_FAST_THREAD_LOCAL_HPP

#include <cstddef>  // defines __GLIBC__

#if defined(__ELF__) && defined(__GLIBC__)
#define BP_FAST_THREAD_LOCAL [[gnu::tls_model("initial-exec")]]
#else
#define BP_FAST_THREAD_LOCAL
#endif

#endif
