# SPDX-License-Identifier: Apache-2.0
# Compile and link flags as interface targets. backplane_flags goes to every target of the tree
# privately; the sanitizer part must reach plugins too, since an instrumented plugin loads only
# in a core of the same kind.
include_guard(GLOBAL)

# Contraction off everywhere: fused multiply-add happens only where the source says so, which
# keeps results equal between compilers and devices.
add_library(backplane_flags INTERFACE)
target_compile_options(backplane_flags INTERFACE
                       -Wall -Wextra -Wconversion -Wshadow -ffp-contract=off)

# A constructor that runs at load time has effects that were not asked for (design 2.1, law 6).
# GoogleTest registers its cases that way, so tests do without this warning.
add_library(backplane_no_global_constructors INTERFACE)
target_compile_options(backplane_no_global_constructors INTERFACE
                       $<$<CXX_COMPILER_ID:Clang>:-Wglobal-constructors>)

# Thread-local variables of libbackplane at fixed places, for a lookup by a function call costs as
# much as what is done with them, twenty times in a call of an operator. Such places are few
# (tests/lint/library_symbols.py says how many are taken), and a plugin takes none.
add_library(backplane_fixed_thread_locals INTERFACE)
target_compile_options(backplane_fixed_thread_locals INTERFACE -ftls-model=initial-exec)

# What computes, under sanitizers: unoptimised, an image takes a plugin's kernels as long as sixty,
# vector code takes minutes, and the oracle and the conformance cases take twice as long.
add_library(backplane_optimised_flags INTERFACE)
target_compile_options(backplane_optimised_flags INTERFACE
                       $<$<NOT:$<STREQUAL:${BP_SANITIZER},none>>:-O1>)

# Code of tests runs once for each time that it is compiled: optimising it costs more than it gains.
# GoogleTest guards its macros against a dangling else, which gcc does not see once these come out
# of a precompiled header.
add_library(backplane_test_flags INTERFACE)
target_compile_options(backplane_test_flags INTERFACE -O0 -Wno-dangling-else)
define_property(TARGET PROPERTY BP_TEST_CODE BRIEF_DOCS "Code of tests, not of the product")

add_library(backplane_sanitizer INTERFACE)
target_link_libraries(backplane_flags INTERFACE backplane_sanitizer)
set(BP_SANITIZER_TEST_ENVIRONMENT "")
set(BP_SANITIZER_SWEEP_ENVIRONMENT "")
if(BP_SANITIZER STREQUAL "address")
  # Undefined behaviour is looked for in the product. In tests and in what they alone load it would
  # cost a third of their compile time.
  target_compile_options(backplane_sanitizer INTERFACE
                         -fsanitize=address -fno-omit-frame-pointer
                         $<$<NOT:$<BOOL:$<TARGET_PROPERTY:BP_TEST_CODE>>>:-fsanitize=undefined>
                         -fno-sanitize-recover=all)
  target_link_options(backplane_sanitizer INTERFACE -fsanitize=address,undefined)
  # use_sigaltstack=0: the OpenCL driver's compiler puts its own alternate signal stack on its
  # threads, and AddressSanitizer would unmap that one at their end instead of its own.
  # intercept_tls_get_addr=0: before gcc 14 the runtime takes the words in front of a loaded
  # library's thread-local variables for a header of an old glibc if their address looks like it, by
  # chance, and the search for leaks then reads wild memory ("Tracer caught signal 11").
  set(asan_options use_sigaltstack=0 detect_leaks=1 strict_string_checks=1
                   intercept_tls_get_addr=0 detect_stack_use_after_return=1)
  list(JOIN asan_options ":" asan_options)
  set(BP_SANITIZER_TEST_ENVIRONMENT
      "ASAN_OPTIONS=${asan_options}"
      "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tools/lsan.supp:print_suppressions=0"
      "UBSAN_OPTIONS=print_stacktrace=1")
  # For fault_injection and cli tests, which open thousands of devices and start hundreds of
  # programs: a stack of its own for each call takes a quarter of their time. All other tests look
  # for uses of a stack after its function's return, those of queues, hangs and threads among them.
  string(REPLACE "detect_stack_use_after_return=1" "detect_stack_use_after_return=0"
         sweep_options "${asan_options}")
  set(BP_SANITIZER_SWEEP_ENVIRONMENT "ASAN_OPTIONS=${sweep_options}")
  if(BP_FUZZER)
    target_compile_options(backplane_sanitizer INTERFACE -fsanitize=fuzzer-no-link)
  endif()
elseif(BP_SANITIZER STREQUAL "thread")
  target_compile_options(backplane_sanitizer INTERFACE -fsanitize=thread -fno-omit-frame-pointer)
  target_link_options(backplane_sanitizer INTERFACE -fsanitize=thread)
  # handle_*=0: the OpenCL driver's compiler sets handlers of its own, and that it took the place of
  # the sanitizer's would be told as a warning, as with an application's.
  set(BP_SANITIZER_TEST_ENVIRONMENT "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:\
handle_segv=0:handle_sigbus=0:handle_sigfpe=0:suppressions=${PROJECT_SOURCE_DIR}/tools/tsan.supp")
endif()
