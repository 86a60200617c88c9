# SPDX-License-Identifier: Apache-2.0
# Writes a C++ file that holds the kernels' sources as strings, by the names of their files:
#   cmake -DOUTPUT=file.cpp "-DSOURCES=geometry.h;copy.cl;..." -P embed.cmake
# In the build folder only, so that the sources in the tree stay plain files that tools can read.
set(text "// Made by embed.cmake from the files in kernels/.\n#include \"kernels/program.hpp\"\n\n")
string(APPEND text "namespace bp::xpu {\n\nconst SourceFile kSourceFiles[] = {\n")
foreach(file IN LISTS SOURCES)
  get_filename_component(name "${file}" NAME)
  file(READ "${file}" source)
  string(APPEND text "{\"${name}\", R\"opencl(${source})opencl\"},\n")
endforeach()
string(APPEND text "{nullptr, nullptr}};\n\n}  // namespace bp::xpu\n")
file(WRITE "${OUTPUT}" "${text}")
