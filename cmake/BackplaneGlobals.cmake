# SPDX-License-Identifier: Apache-2.0
# What holds for every target of the project: only variables that initialise target properties,
# so nothing here leaks flags into a folder behind a target's back.

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_INTERPROCEDURAL_OPTIMIZATION OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
# tests/abi builds targets of other folders again, with what these found.
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)

set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
set(BP_GENERATED_INCLUDE_DIR "${CMAKE_BINARY_DIR}/generated/include")
set(BP_PLUGIN_OUTPUT_DIR "${CMAKE_BINARY_DIR}/lib/backplane/plugins")
file(MAKE_DIRECTORY "${BP_GENERATED_INCLUDE_DIR}")

# The tree must run from any folder: programs find the library beside them, never by build path.
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
set(CMAKE_INSTALL_RPATH "$ORIGIN/../lib")

if(NOT BP_SANITIZER MATCHES "^(none|address|thread)$")
  message(FATAL_ERROR "BP_SANITIZER is '${BP_SANITIZER}'; expected none, address or thread")
endif()

if(BP_USE_CCACHE)
  find_program(BP_CCACHE_PROGRAM ccache)
  if(BP_CCACHE_PROGRAM)
    foreach(language IN ITEMS C CXX)
      if(NOT DEFINED CMAKE_${language}_COMPILER_LAUNCHER)
        # It keeps what was compiled with a precompiled header only when it may trust that
        # header's macros, and preprocesses twice what it does not have unless the compiler's own
        # list of included files is enough for it. By paths relative to the tree a copy of the tree
        # finds what another one compiled, but for unity files, which name their parts by absolute
        # paths: tests of mutations and growth build copies.
        set(CMAKE_${language}_COMPILER_LAUNCHER env
            CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_DEPEND=1
            "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_ABSSTDERR=1 "${BP_CCACHE_PROGRAM}")
      endif()
    endforeach()
  endif()
endif()
