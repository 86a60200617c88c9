// SPDX-License-Identifier: Apache-2.0
#ifndef BACKPLANE_TESTS_FUZZ_FUZZER_HPP
#define BACKPLANE_TESTS_FUZZ_FUZZER_HPP

#include <cstddef>
#include <cstdint>

/// libFuzzer's entry. Ends the process where the library breaks its word.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes);

#endif
