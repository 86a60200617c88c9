# SPDX-License-Identifier: Apache-2.0
# Precompiled headers: the standard library for the product, with GoogleTest for tests. Headers of
# this project stay out, since a change of one would compile everything again. A compiler takes a
# precompiled header only where the flags are those it was made with, so there is one for each kind
# of target, made once and used by all of that kind.
include_guard(GLOBAL)

# OFF finds sources that lean on an include they do not have; the preset clang builds so.
option(BP_PCH "Precompile the headers of the standard library and of GoogleTest" ON)

# What most sources include. <filesystem> is not among them: it brings std::quoted, which an
# argument of the standard library finds before our own.
set(BP_PCH_STANDARD
    <algorithm> <array> <atomic> <bit> <chrono> <cmath> <condition_variable> <cstddef> <cstdint>
    <cstdio> <cstdlib> <cstring> <deque> <functional> <limits> <map> <memory> <mutex> <new>
    <optional> <set> <span> <sstream> <string> <string_view> <system_error> <thread> <type_traits>
    <unordered_map> <utility> <vector>)

# bp_add_pch(KIND [HEADERS <header> ...] DEPS ...): the target bp_pch_KIND, which precompiles these
# headers and the standard ones with the flags of DEPS.
function(bp_add_pch kind)
  if(NOT BP_PCH)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "HEADERS;DEPS")
  set(source "${CMAKE_BINARY_DIR}/precompiled/${kind}.cpp")
  file(CONFIGURE OUTPUT "${source}" CONTENT "" @ONLY)
  add_library(bp_pch_${kind} OBJECT EXCLUDE_FROM_ALL "${source}")
  target_link_libraries(bp_pch_${kind} PRIVATE backplane_flags ${arg_DEPS})
  target_precompile_headers(bp_pch_${kind} PRIVATE ${BP_PCH_STANDARD} ${arg_HEADERS})
endfunction()

# bp_use_pch(TARGET KIND): a source that needs other flags than the target's has the property
# SKIP_PRECOMPILE_HEADERS.
function(bp_use_pch target kind)
  if(BP_PCH)
    target_precompile_headers(${target} REUSE_FROM bp_pch_${kind})
  endif()
endfunction()

bp_add_pch(product)
set(BP_OPTIMISED_PCH product)
if(NOT BP_SANITIZER STREQUAL "none")
  bp_add_pch(optimised DEPS backplane_optimised_flags)
  set(BP_OPTIMISED_PCH optimised)
endif()
set(BP_PLUGIN_PCH ${BP_OPTIMISED_PCH})
if(BP_BUILD_TESTS)
  find_package(GTest CONFIG REQUIRED)
  bp_add_pch(test_plugin DEPS backplane_test_flags)
  bp_add_pch(test HEADERS <gmock/gmock.h> <gtest/gtest.h> DEPS backplane_test_flags GTest::gmock)
  if(BP_PCH)
    set_target_properties(bp_pch_test_plugin bp_pch_test PROPERTIES BP_TEST_CODE ON)
    # A program's code, unlike a library's.
    set_target_properties(bp_pch_test PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(bp_pch_test PRIVATE -fPIE)
  endif()
endif()
