# SPDX-License-Identifier: Apache-2.0
# The three target kinds inside the tree: static library, executable, test. Flags travel on
# interface targets, so a module's CMakeLists.txt lists sources and dependencies and nothing else.
include_guard(GLOBAL)
include(BackplaneFlags)
include(BackplanePrecompiled)

# Most of the time of a compiler goes into headers, so that eight sources in one cost little more
# than one. OFF compiles each by itself: for work on one file, and to find sources that lean on what
# stands before them; the presets dev and clang do.
option(BP_UNITY "Compile the sources of a target several at once" ON)

function(bp_use_unity target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${BP_UNITY} UNITY_BUILD_BATCH_SIZE 8)
endfunction()

# bp_compile_alone(SOURCE ...): sources whose local names are those of their neighbours, since they
# say the same of something else.
function(bp_compile_alone)
  set_source_files_properties(${ARGV} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# bp_optimise(SOURCE ...): sources of what is not optimised as a whole, so without its precompiled
# header.
function(bp_optimise)
  set_source_files_properties(${ARGV} PROPERTIES COMPILE_OPTIONS -O1 SKIP_PRECOMPILE_HEADERS ON)
endfunction()

# bp_optimise_under_sanitizers(SOURCE ...): sources of a library that is not OPTIMISED as a whole.
function(bp_optimise_under_sanitizers)
  if(NOT BP_SANITIZER STREQUAL "none")
    bp_compile_alone(${ARGV})
    bp_optimise(${ARGV})
  endif()
endfunction()

# bp_add_library(NAME SOURCES ... [DEPS ...] [PRIVATE_DEPS ...] [OPTIMISED])
# Static library NAME with the alias backplane::NAME; DEPS are public. Headers are included by
# their path from the root ("core/base/status.hpp"). Without SOURCES it is an interface library.
# OPTIMISED: also under sanitizers, since tests wait for it longer than for the compiler.
function(bp_add_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "OPTIMISED" "" "SOURCES;DEPS;PRIVATE_DEPS")
  bp_refuse_unparsed("bp_add_library(${name})" "${arg_UNPARSED_ARGUMENTS}")
  if(NOT arg_SOURCES)
    add_library(${name} INTERFACE)
    target_include_directories(${name} INTERFACE "${PROJECT_SOURCE_DIR}")
    target_link_libraries(${name} INTERFACE ${arg_DEPS})
  else()
    add_library(${name} STATIC ${arg_SOURCES})
    set_target_properties(${name} PROPERTIES OUTPUT_NAME "bp_${name}")
    target_include_directories(${name} PUBLIC "${PROJECT_SOURCE_DIR}")
    target_link_libraries(${name} PUBLIC ${arg_DEPS}
                          PRIVATE backplane_flags backplane_no_global_constructors
                                  backplane_fixed_thread_locals
                                  ${arg_PRIVATE_DEPS})
    if(arg_OPTIMISED)
      target_link_libraries(${name} PRIVATE backplane_optimised_flags)
      bp_use_pch(${name} ${BP_OPTIMISED_PCH})
    else()
      bp_use_pch(${name} product)
    endif()
    bp_use_unity(${name})
  endif()
  add_library(backplane::${name} ALIAS ${name})
endfunction()

# bp_add_engine(NAME SOURCES ... [INCLUDE ...] [LINK ...] [OUTPUT_DIRECTORY dir])
# A library that carries messages between ranks, which libbackplane opens at run time: the module
# backplane_engine_NAME.so beside the plugins. With OUTPUT_DIRECTORY it is a test's, not installed.
function(bp_add_engine name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "OUTPUT_DIRECTORY" "SOURCES;INCLUDE;LINK")
  bp_refuse_unparsed("bp_add_engine(${name})" "${arg_UNPARSED_ARGUMENTS}")
  set(target backplane_engine_${name})
  set(folder lib/backplane/plugins/engines)
  set(exports "${PROJECT_SOURCE_DIR}/ccl/engine/abi/engine.map")
  add_library(${target} MODULE ${arg_SOURCES})
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}" ${arg_INCLUDE})
  target_link_libraries(${target} PRIVATE backplane::device_api backplane_flags
                                          backplane_no_global_constructors ${arg_LINK})
  target_link_options(${target} PRIVATE "LINKER:--version-script=${exports}"
                                        "LINKER:--exclude-libs,ALL" "LINKER:-z,defs")
  # It needs no library of ours: see INSTALL_RPATH in core/api/CMakeLists.txt.
  set_target_properties(${target} PROPERTIES PREFIX "" LINK_DEPENDS "${exports}" INSTALL_RPATH "")
  if(arg_OUTPUT_DIRECTORY)
    set_target_properties(${target} PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${arg_OUTPUT_DIRECTORY}")
    return()
  endif()
  set_target_properties(${target} PROPERTIES
                        LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/${folder}")
  bp_use_unity(${target})
  install(TARGETS ${target} LIBRARY DESTINATION "${folder}" COMPONENT runtime)
  add_dependencies(backplane_product ${target})
endfunction()

# bp_add_executable(NAME SOURCES ... [DEPS ...] [OUTPUT_NAME file] [FOLDER subfolder])
# A program in bin/, or in a folder of it.
function(bp_add_executable name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "OUTPUT_NAME;FOLDER" "SOURCES;DEPS")
  bp_refuse_unparsed("bp_add_executable(${name})" "${arg_UNPARSED_ARGUMENTS}")
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE backplane_flags ${arg_DEPS})
  if(arg_OUTPUT_NAME)
    set_target_properties(${name} PROPERTIES OUTPUT_NAME "${arg_OUTPUT_NAME}")
  endif()
  set_target_properties(${name} PROPERTIES
                        RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin/${arg_FOLDER}"
                        POSITION_INDEPENDENT_CODE OFF)
  # A library's code serves a program as well, and its precompiled header is there already.
  target_compile_options(${name} PRIVATE -fPIC)
  bp_use_pch(${name} product)
  bp_use_unity(${name})
  add_dependencies(backplane_product ${name})
endfunction()

# bp_add_benchmark(NAME SOURCES ... [DEPS ...])
# A google-benchmark program in bin/perf, run by ./dev bench only. A sanitizer is not measured.
function(bp_add_benchmark name)
  if(NOT BP_BUILD_TESTS OR NOT BP_SANITIZER STREQUAL "none")
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPS")
  bp_refuse_unparsed("bp_add_benchmark(${name})" "${arg_UNPARSED_ARGUMENTS}")
  find_package(benchmark CONFIG REQUIRED)
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE backplane_flags ${arg_DEPS} benchmark::benchmark)
  set_target_properties(${name} PROPERTIES
                        RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin/perf")
endfunction()

# bp_add_test_program(NAME SOURCES ... [DEPS ...] [DEFINES ...] [OPTIMISED source ...])
# A program in bin/tests that is only for tests, mostly one that a test starts. OPTIMISED are those
# of its sources that would run for minutes without.
function(bp_add_test_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPS;DEFINES;OPTIMISED")
  bp_refuse_unparsed("bp_add_test_program(${name})" "${arg_UNPARSED_ARGUMENTS}")
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_compile_definitions(${name} PRIVATE ${arg_DEFINES})
  # GoogleTest is in the precompiled header: a macro of its package must be the same in both.
  target_link_libraries(${name} PRIVATE backplane_flags backplane_test_flags ${arg_DEPS}
                                        GTest::gtest)
  set_target_properties(${name} PROPERTIES BP_TEST_CODE ON
                        RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin/tests")
  bp_optimise(${arg_OPTIMISED})
  bp_use_pch(${name} test)
  bp_use_unity(${name})
endfunction()

# bp_add_test(NAME SOURCES ... [DEPS ...] [DEFINES ...] [ENVIRONMENT VAR=value ...] [ARGS ...]
#             [PLUGINS target ...] [LABELS quick|full] [TIMEOUT seconds] [COST seconds]
#             [OPTIMISED source ...])
# A GoogleTest program in bin/tests, one ctest entry each: discovering single cases would start
# every program once more at build time, which is slow under sanitizers. PLUGINS are targets that
# must be built before the test runs, without being linked. The label defaults to quick. COST: see
# bp_set_test_properties.
function(bp_add_test name)
  if(NOT BP_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT;COST"
                        "SOURCES;DEPS;DEFINES;ENVIRONMENT;ARGS;PLUGINS;LABELS;OPTIMISED")
  bp_refuse_unparsed("bp_add_test(${name})" "${arg_UNPARSED_ARGUMENTS}")
  find_package(GTest CONFIG REQUIRED)
  bp_add_test_program(${name} SOURCES ${arg_SOURCES} DEFINES ${arg_DEFINES}
                      DEPS ${arg_DEPS} GTest::gmock GTest::gtest_main OPTIMISED ${arg_OPTIMISED})
  if(BP_SANITIZER STREQUAL "address")
    target_link_libraries(${name} PRIVATE bp_leak_check)
  endif()
  if(arg_PLUGINS)
    add_dependencies(${name} ${arg_PLUGINS})
  endif()
  add_test(NAME ${name} COMMAND ${name} ${arg_ARGS})
  bp_set_test_properties(${name} "${arg_LABELS}" "${arg_TIMEOUT}" "${arg_ENVIRONMENT}"
                         "${arg_COST}")
endfunction()

# bp_set_test_properties(NAME LABELS TIMEOUT ENVIRONMENT [COST])
# Label, deadline and environment of one ctest entry; used for scripts as well as for programs. COST
# is how many seconds it takes where it is slowest, for those of ten and more: the longest begin
# first, so that none of them is left to run alone at the end.
function(bp_set_test_properties name labels timeout environment)
  if(NOT labels)
    set(labels quick)
  endif()
  foreach(label IN LISTS labels)
    if(NOT label MATCHES "^(quick|full)$")
      message(FATAL_ERROR "test ${name}: label '${label}'; expected quick or full")
    endif()
  endforeach()
  bp_left_out_label(${name} left_out_label)
  if(left_out_label)
    set(labels ${left_out_label})
  endif()
  # It is for what hangs: a busy machine takes ten times as long as a free one.
  if(NOT timeout OR timeout LESS 600)
    set(timeout 600)
  endif()
  if(NOT BP_SANITIZER STREQUAL "none")
    math(EXPR timeout "${timeout} * 4")
  endif()
  # OMP_NUM_THREADS in the caller's shell would change what the threading tests see.
  set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT ${timeout} COST "${ARGN}"
                       ENVIRONMENT "${BP_SANITIZER_TEST_ENVIRONMENT};${environment}"
                       ENVIRONMENT_MODIFICATION "OMP_NUM_THREADS=unset:")
endfunction()

# bp_left_out_label(NAME OUT): left_out where this build's run leaves out the test, or the folder of
# tests, NAME; left_to_full where only the full suite runs it; else nothing. The list says why.
set(BP_LEFT_OUT_FILE "${PROJECT_SOURCE_DIR}/tests/left_out_of_sanitizers.txt")
function(bp_left_out_label name out)
  set(${out} "" PARENT_SCOPE)
  if(BP_SANITIZER STREQUAL "none")
    return()
  endif()
  bp_read_left_out()
  foreach(label IN ITEMS left_out left_to_full)
    if(name IN_LIST ${label})
      set(${out} ${label} PARENT_SCOPE)
      set_property(GLOBAL APPEND PROPERTY BP_LEFT_OUT ${name})
    endif()
  endforeach()
endfunction()

# bp_read_left_out(): sets left_out and left_to_full to what the list has for this sanitizer.
function(bp_read_left_out)
  set(left_out "")
  set(left_to_full "")
  set(where_address asan)
  set(where_thread tsan)
  set(where ${where_${BP_SANITIZER}})
  set_property(DIRECTORY "${PROJECT_SOURCE_DIR}" APPEND
               PROPERTY CMAKE_CONFIGURE_DEPENDS "${BP_LEFT_OUT_FILE}")
  file(STRINGS "${BP_LEFT_OUT_FILE}" lines REGEX "^[^#]")
  foreach(line IN LISTS lines)
    if(NOT line MATCHES "^([a-z0-9_]+) (asan|tsan|both|asan_quick): .+")
      message(FATAL_ERROR "${BP_LEFT_OUT_FILE}: '${line}'; \
expected NAME asan|tsan|both|asan_quick: REASON")
    endif()
    set(name ${CMAKE_MATCH_1})
    set(listed ${CMAKE_MATCH_2})  # each MATCHES sets CMAKE_MATCH_2 anew
    if(listed MATCHES "^(${where}|both)$")
      list(APPEND left_out ${name})
    elseif(listed STREQUAL "${where}_quick")
      list(APPEND left_to_full ${name})
    endif()
  endforeach()
  set(left_out "${left_out}" PARENT_SCOPE)
  set(left_to_full "${left_to_full}" PARENT_SCOPE)
endfunction()

# For the end of the tests' CMakeLists.txt: a line of the list that leaves nothing out is an error.
function(bp_check_left_out)
  if(BP_SANITIZER STREQUAL "none" OR NOT BP_BUILD_TESTS)
    return()
  endif()
  bp_read_left_out()
  get_property(found GLOBAL PROPERTY BP_LEFT_OUT)
  foreach(name IN LISTS left_out left_to_full)
    if(NOT name IN_LIST found)
      message(FATAL_ERROR "${BP_LEFT_OUT_FILE}: there is no test '${name}'")
    endif()
  endforeach()
endfunction()

function(bp_refuse_unparsed where unparsed)
  if(unparsed)
    message(FATAL_ERROR "${where}: unknown arguments: ${unparsed}")
  endif()
endfunction()
