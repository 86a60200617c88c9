# SPDX-License-Identifier: Apache-2.0
# Builds the whole project as ./dev build does, for who names no built tree. Sets
# BACKPLANE_BUILD_DIR and bp_library, which will be there. Generators and oneDNN come from the
# packages of the Python that builds (pyproject.toml).
include(ExternalProject)

execute_process(
  COMMAND ${Python_EXECUTABLE} -c
    "import importlib.metadata as m; print(*(f.locate().resolve().parent for f in \
m.files('onednn-devel-cpu-gomp') if f.name == 'dnnl-config.cmake'))"
  OUTPUT_STRIP_TRAILING_WHITESPACE OUTPUT_VARIABLE bp_dnnl_dir COMMAND_ERROR_IS_FATAL ANY)

set(BACKPLANE_BUILD_DIR ${CMAKE_CURRENT_BINARY_DIR}/tree)
set(bp_library ${BACKPLANE_BUILD_DIR}/lib/libbackplane.so)
set(bp_made ${BACKPLANE_BUILD_DIR}/generated/python/operators.cpp
  ${BACKPLANE_BUILD_DIR}/generated/python/ops.py)
set_source_files_properties(${bp_made} PROPERTIES GENERATED ON)
ExternalProject_Add(backplane_tree
  SOURCE_DIR ${bp_tree}
  BINARY_DIR ${BACKPLANE_BUILD_DIR}
  CONFIGURE_COMMAND ${CMAKE_COMMAND} --preset release -S <SOURCE_DIR> -B <BINARY_DIR>
    -DBP_BUILD_TESTS=OFF -DBACKPLANE_PYTHON=${Python_EXECUTABLE} -Ddnnl_DIR=${bp_dnnl_dir}
  BUILD_COMMAND ${CMAKE_COMMAND} --build <BINARY_DIR> --target backplane_product
  BUILD_ALWAYS ON
  BUILD_BYPRODUCTS ${bp_library} ${bp_made}
  INSTALL_COMMAND ""
  USES_TERMINAL_BUILD ON)
