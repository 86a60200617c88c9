# SPDX-License-Identifier: Apache-2.0
# bp_add_plugin(): makes one plugin. The same file serves the tree itself and the installed SDK,
# so it relies on nothing but header-only targets: backplane::device_api, backplane::ops_headers
# (the operators' attribute structs) and backplane::sdk.
include_guard(GLOBAL)

set(BP_PLUGIN_CMAKE_DIR "${CMAKE_CURRENT_LIST_DIR}")

# bp_add_plugin(NAME id SOURCES ... MANIFEST manifest.json.in [KERNELS ...] [LINK ...]
#               [INCLUDE ...] [DEFINES ...] [TARGET name] [OUTPUT_DIRECTORY dir] [NO_INSTALL])
# KERNELS are sources that each end with BP_SDK_KERNELS(<file's name>, ...); the list of them that
# backplane/sdk/kernels.h reads is made here, in their order. Projects may be in C, C++ or both.
# Makes the module libbackplane_<id>.so, target TARGET (default backplane_<id>), that exports
# bp_plugin_entry and nothing else, with its configured manifest
# libbackplane_<id>.backplane.json beside it, and conformance.json, where the project has one: what
# bp-conform is to excuse. LINK names vendor libraries. The folder is
# <build>/lib/backplane/plugins/<id> unless OUTPUT_DIRECTORY says otherwise.
# In the manifest @BP_PLUGIN_SANITIZER@, @BP_PLUGIN_COMPILER@, @BP_ABI_BUILT@ ("major.minor"),
# @BP_ABI_MAJOR@, @BP_ABI_MINOR@ and @BP_PLUGIN_NAME@ are replaced.
function(bp_add_plugin)
  cmake_parse_arguments(PARSE_ARGV 0 arg "NO_INSTALL" "NAME;MANIFEST;TARGET;OUTPUT_DIRECTORY"
                        "SOURCES;KERNELS;LINK;INCLUDE;DEFINES")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "bp_add_plugin(${arg_NAME}): unknown arguments: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  foreach(needed IN ITEMS NAME SOURCES MANIFEST)
    if(NOT arg_${needed})
      message(FATAL_ERROR "bp_add_plugin(${arg_NAME}): ${needed} is missing")
    endif()
  endforeach()
  if(NOT arg_TARGET)
    set(arg_TARGET "backplane_${arg_NAME}")
  endif()
  if(NOT arg_OUTPUT_DIRECTORY)
    set(arg_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib/backplane/plugins/${arg_NAME}")
  endif()

  bp_write_kernel_list(${arg_NAME} "${arg_KERNELS}" kernel_list)
  add_library(${arg_TARGET} MODULE ${arg_SOURCES} ${arg_KERNELS} ${kernel_list})
  target_include_directories(${arg_TARGET} PRIVATE ${arg_INCLUDE})
  target_compile_definitions(${arg_TARGET} PRIVATE ${arg_DEFINES})
  target_link_libraries(${arg_TARGET} PRIVATE backplane::device_api backplane::ops_headers
                                              backplane::sdk ${arg_LINK})
  # What emitted kernels call (bp_expression_kernels).
  foreach(source IN LISTS arg_KERNELS)
    get_source_file_property(library "${source}" BP_LINK)
    if(library)
      target_link_libraries(${arg_TARGET} PRIVATE ${library})
      break()
    endif()
  endforeach()
  bp_set_plugin_properties(${arg_TARGET} ${arg_NAME} "${arg_OUTPUT_DIRECTORY}")
  bp_set_plugin_flags(${arg_TARGET})
  bp_configure_plugin_manifest(${arg_TARGET} ${arg_NAME} "${arg_MANIFEST}"
                               "${arg_OUTPUT_DIRECTORY}")
  set(beside "${arg_OUTPUT_DIRECTORY}/libbackplane_${arg_NAME}.backplane.json")
  if(EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/conformance.json")
    configure_file(conformance.json "${arg_OUTPUT_DIRECTORY}/conformance.json" COPYONLY)
    list(APPEND beside "${arg_OUTPUT_DIRECTORY}/conformance.json")
  endif()
  if(NOT arg_NO_INSTALL)
    set(folder "lib/backplane/plugins/${arg_NAME}")
    install(TARGETS ${arg_TARGET} LIBRARY DESTINATION "${folder}" COMPONENT runtime)
    install(FILES ${beside} DESTINATION "${folder}" COMPONENT runtime)
    set_property(GLOBAL APPEND PROPERTY BP_PLUGIN_IDS ${arg_NAME})
    set_property(GLOBAL APPEND PROPERTY BP_PLUGIN_TARGETS ${arg_TARGET})
    if(TARGET backplane_product)
      add_dependencies(backplane_product ${arg_TARGET})
    endif()
  endif()
endfunction()

# Writes the source that names the kernel set of each file; empty without kernels. An unchanged one
# is left alone.
function(bp_write_kernel_list name kernels out_source)
  set(${out_source} "" PARENT_SCOPE)
  if(NOT kernels)
    return()
  endif()
  set(declarations "")
  set(rows "")
  foreach(source IN LISTS kernels)
    cmake_path(GET source STEM file)
    if(NOT file MATCHES "^[A-Za-z_][A-Za-z0-9_]*$")
      message(FATAL_ERROR "bp_add_plugin(${name}): KERNELS ${source}: '${file}' is not a C name")
    endif()
    if("${rows}" MATCHES "_of_${file},")
      message(FATAL_ERROR "bp_add_plugin(${name}): KERNELS: two files are called ${file}")
    endif()
    string(APPEND declarations "BP_SDK_EXTERN const bp_sdk_kernel_set bp_sdk_kernels_of_${file};\n")
    string(APPEND rows "    &bp_sdk_kernels_of_${file},\n")
  endforeach()
  get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  set(extension c)
  if("CXX" IN_LIST languages)
    set(extension cpp)
  endif()
  set(path "${CMAKE_CURRENT_BINARY_DIR}/${name}_kernel_list.${extension}")
  file(CONFIGURE OUTPUT "${path}" @ONLY CONTENT
"/* Made by bp_add_plugin from KERNELS; edits are lost. */
#include \"backplane/sdk/kernels.h\"

@declarations@
const bp_sdk_kernel_set* const bp_sdk_kernel_sets[] = {
@rows@    NULL,
};
")
  set(${out_source} "${path}" PARENT_SCOPE)
endfunction()

# Names, visibility, search path and what the linker checks. $ORIGIN alone: a plugin folder can be
# moved anywhere.
function(bp_set_plugin_properties target name output_directory)
  set_target_properties(${target} PROPERTIES
      OUTPUT_NAME "backplane_${name}" PREFIX "lib" SUFFIX ".so"
      LIBRARY_OUTPUT_DIRECTORY "${output_directory}"
      C_STANDARD 11 C_VISIBILITY_PRESET hidden
      CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF CXX_VISIBILITY_PRESET hidden
      VISIBILITY_INLINES_HIDDEN ON POSITION_INDEPENDENT_CODE ON
      SKIP_BUILD_RPATH OFF BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN"
      INSTALL_RPATH_USE_LINK_PATH OFF
      LINK_DEPENDS "${BP_PLUGIN_CMAKE_DIR}/plugin.map")
  target_link_options(${target} PRIVATE
                      "LINKER:--version-script=${BP_PLUGIN_CMAKE_DIR}/plugin.map")
  # Every symbol must come from a library the plugin names. Clang leaves those of a sanitizer's
  # runtime to the program.
  bp_plugin_compiler(compiler)
  if(NOT BP_SANITIZER OR BP_SANITIZER STREQUAL "none" OR compiler STREQUAL "GNU")
    target_link_options(${target} PRIVATE "LINKER:-z,defs")
  endif()
endfunction()

# Inside the tree the shared flag targets exist, and precompiled headers of
# the kind BP_PLUGIN_PCH; outside, only the sanitizer kind matters.
function(bp_set_plugin_flags target)
  if(TARGET backplane_flags)
    target_link_libraries(${target} PRIVATE backplane_flags backplane_optimised_flags
                                            backplane_no_global_constructors)
    bp_use_pch(${target} ${BP_PLUGIN_PCH})
  elseif(BP_SANITIZER STREQUAL "address")
    target_compile_options(${target} PRIVATE -fsanitize=address,undefined -fno-omit-frame-pointer)
    target_link_options(${target} PRIVATE -fsanitize=address,undefined)
  elseif(BP_SANITIZER STREQUAL "thread")
    target_compile_options(${target} PRIVATE -fsanitize=thread -fno-omit-frame-pointer)
    target_link_options(${target} PRIVATE -fsanitize=thread)
  endif()
endfunction()

# The compiler of C++ where the project has it, else that of C.
function(bp_plugin_compiler out_id)
  set(${out_id} "${CMAKE_C_COMPILER_ID}" PARENT_SCOPE)
  if(CMAKE_CXX_COMPILER_ID)
    set(${out_id} "${CMAKE_CXX_COMPILER_ID}" PARENT_SCOPE)
  endif()
endfunction()

# The loader checks these values before any code of the plugin runs.
function(bp_configure_plugin_manifest target name manifest output_directory)
  set(BP_PLUGIN_NAME "${name}")
  set(BP_PLUGIN_SANITIZER "none")
  if(BP_SANITIZER)
    set(BP_PLUGIN_SANITIZER "${BP_SANITIZER}")
  endif()
  bp_plugin_compiler(compiler)
  if(compiler MATCHES "Clang")
    set(BP_PLUGIN_COMPILER "clang")
  elseif(compiler STREQUAL "GNU")
    set(BP_PLUGIN_COMPILER "gcc")
  else()
    message(FATAL_ERROR "bp_add_plugin(${name}): compiler '${compiler}'; "
                        "expected GNU or Clang")
  endif()
  bp_read_abi_version(BP_ABI_MAJOR BP_ABI_MINOR)
  set(BP_ABI_BUILT "${BP_ABI_MAJOR}.${BP_ABI_MINOR}")
  set(configured "${output_directory}/libbackplane_${name}.backplane.json")
  configure_file("${manifest}" "${configured}" @ONLY)
  # Devices are called by the manifest's id, files by NAME. What is no JSON is the loader's to tell.
  file(READ "${configured}" text)
  string(JSON id ERROR_VARIABLE error GET "${text}" id)
  if(NOT error AND NOT id STREQUAL name)
    message(FATAL_ERROR "bp_add_plugin(${name}): ${manifest}: its id is '${id}'; "
                        "expected \"@BP_PLUGIN_NAME@\" there, which becomes '${name}'")
  endif()
endfunction()

# Reads BP_ABI_MAJOR and BP_ABI_MINOR from the header that the plugin compiles against.
function(bp_read_abi_version out_major out_minor)
  get_target_property(folders backplane::device_api INTERFACE_INCLUDE_DIRECTORIES)
  set(header "")
  foreach(folder IN LISTS folders)
    string(REGEX REPLACE "^\\$<BUILD_INTERFACE:(.*)>$" "\\1" folder "${folder}")
    if(EXISTS "${folder}/backplane/version.h")
      set(header "${folder}/backplane/version.h")
    endif()
  endforeach()
  if(NOT header)
    message(FATAL_ERROR "backplane/version.h is in none of: ${folders}")
  endif()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${header}")
  file(STRINGS "${header}" lines REGEX "^#define BP_ABI_(MAJOR|MINOR)[ \t]+[0-9]+")
  foreach(part IN ITEMS MAJOR MINOR)
    if(NOT "${lines}" MATCHES "BP_ABI_${part}[ \t]+([0-9]+)")
      message(FATAL_ERROR "${header} does not define BP_ABI_${part} as a number")
    endif()
    string(TOLOWER ${part} lower)
    set(${out_${lower}} "${CMAKE_MATCH_1}" PARENT_SCOPE)
  endforeach()
endfunction()
