# SPDX-License-Identifier: Apache-2.0
# Generated sources: one helper that runs a Python script of the tree at build time. Output goes
# only into the build folder, and a target stands for it, so that users depend on the target.
include_guard(GLOBAL)

# bp_add_generated(NAME SCRIPT file.py INPUTS ... OUTPUTS ... ARGS ...)
# Runs BACKPLANE_PYTHON SCRIPT ARGS when the script or an input changes; OUTPUTS are absolute paths
# in the build folder. Makes the custom target NAME. The script must leave untouched files whose
# content stays the same, and may not write anything else.
function(bp_add_generated name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "SCRIPT" "INPUTS;OUTPUTS;ARGS")
  bp_refuse_unparsed("bp_add_generated(${name})" "${arg_UNPARSED_ARGUMENTS}")
  bp_require_python()
  foreach(output IN LISTS arg_OUTPUTS)
    cmake_path(IS_PREFIX CMAKE_BINARY_DIR "${output}" NORMALIZE is_inside)
    if(NOT is_inside)
      message(FATAL_ERROR "bp_add_generated(${name}): output ${output} is outside the build folder")
    endif()
  endforeach()
  add_custom_command(OUTPUT ${arg_OUTPUTS}
                     COMMAND "${BACKPLANE_PYTHON}" "${arg_SCRIPT}" ${arg_ARGS}
                     DEPENDS "${arg_SCRIPT}" ${arg_INPUTS}
                     WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}"
                     COMMENT "Generating ${name}" VERBATIM)
  add_custom_target(${name} DEPENDS ${arg_OUTPUTS})
endfunction()

function(bp_require_python)
  if(NOT EXISTS "${BACKPLANE_PYTHON}")
    message(FATAL_ERROR "BACKPLANE_PYTHON is ${BACKPLANE_PYTHON}, which does not exist. "
                        "Run ./dev build, which makes it, or pass -DBACKPLANE_PYTHON=<python>.")
  endif()
endfunction()
