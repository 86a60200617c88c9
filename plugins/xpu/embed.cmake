# SPDX-License-Identifier: Apache-2.0
# Writes a C++ file that holds the kernels' sources as strings:
#   cmake -DOUTPUT=file.cpp "-DSOURCES=kGeometrySource=geometry.h;..." -P embed.cmake
# In the build folder only, so that the sources in the tree stay plain files that tools can read.
set(text "// Made by embed.cmake from the files in kernels/.\n#include \"kernels/program.hpp\"\n\n")
string(APPEND text "namespace bp::xpu {\n")
foreach(entry IN LISTS SOURCES)
  string(REGEX MATCH "^([A-Za-z]+)=(.+)$" matched "${entry}")
  if(NOT matched)
    message(FATAL_ERROR "embed.cmake: '${entry}' is not NAME=FILE")
  endif()
  set(name "${CMAKE_MATCH_1}")
  file(READ "${CMAKE_MATCH_2}" source)
  string(APPEND text "\nconst char* const ${name} = R\"opencl(${source})opencl\";\n")
endforeach()
string(APPEND text "\n}  // namespace bp::xpu\n")
file(WRITE "${OUTPUT}" "${text}")
