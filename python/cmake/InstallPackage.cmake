# SPDX-License-Identifier: Apache-2.0
# The component `python` of an installation: the package, complete in one folder, as the wheel has
# it.
#   backplane/_core.abi3.so, *.py       the package
#   backplane/bin/backplane             the command
#   backplane/lib/libbackplane.so.0     the library; plugins in the folder where it looks for them
#   backplane/share/doc/backplane       licences
# The shared objects find each other by $ORIGIN, so that the folder may lie anywhere.
install(TARGETS backplane_core LIBRARY DESTINATION backplane COMPONENT python)
install(DIRECTORY ${bp_package_dir}/ DESTINATION backplane COMPONENT python
  FILES_MATCHING PATTERN "*.py" PATTERN "*.pyi" PATTERN "py.typed"
  PATTERN "__pycache__" EXCLUDE PATTERN "bin" EXCLUDE)
set_target_properties(backplane_core PROPERTIES INSTALL_RPATH "$ORIGIN/lib")

# OpenMP's runtime lies beside the plugin `cpu`, under its own name: where a process has one of that
# name, it serves the plugin too, and there is one pool of threads.
execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libgomp.so.1
  OUTPUT_STRIP_TRAILING_WHITESPACE OUTPUT_VARIABLE bp_libgomp COMMAND_ERROR_IS_FATAL ANY)
if(NOT IS_ABSOLUTE ${bp_libgomp})
  message(FATAL_ERROR "${CMAKE_CXX_COMPILER} has no libgomp.so.1, which the plugin cpu needs")
endif()

install(CODE "set(bp_build_dir \"${BACKPLANE_BUILD_DIR}\")\nset(bp_libgomp \"${bp_libgomp}\")"
  COMPONENT python)
install(SCRIPT ${CMAKE_CURRENT_LIST_DIR}/install_runtime.cmake COMPONENT python)
if(SKBUILD_METADATA_DIR)
  install(FILES ${bp_tree}/LICENSE DESTINATION ${SKBUILD_METADATA_DIR}/licenses COMPONENT python)
endif()
