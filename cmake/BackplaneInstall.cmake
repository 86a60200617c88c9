# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` copies, by component, and the two packages for find_package:
#   runtime  libbackplane, the command, the plugins
#   sdk      headers, the list of operators, bp-conform, bp-exprgen, and CMake packages:
#            backplane (applications), backplane_sdk (plugins)
# Every path is relative to the prefix, so the installed tree can be moved.
include_guard(GLOBAL)
include(CMakePackageConfigHelpers)

install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION share/doc/backplane COMPONENT runtime)

# bp_install_package(NAME TARGETS ... FILES ...): lib/cmake/NAME with config, version and targets.
function(bp_install_package name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "TARGETS;FILES")
  set(folder "lib/cmake/${name}")
  install(TARGETS ${arg_TARGETS} EXPORT ${name}-targets
          LIBRARY DESTINATION lib COMPONENT runtime NAMELINK_COMPONENT sdk
          RUNTIME DESTINATION bin COMPONENT runtime)
  install(EXPORT ${name}-targets NAMESPACE backplane:: DESTINATION "${folder}" COMPONENT sdk)
  configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/${name}-config.cmake.in"
                                "${PROJECT_BINARY_DIR}/cmake/${name}-config.cmake"
                                INSTALL_DESTINATION "${folder}"
                                NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
  # 0.x promises nothing between minor versions.
  write_basic_package_version_file("${PROJECT_BINARY_DIR}/cmake/${name}-config-version.cmake"
                                   COMPATIBILITY SameMinorVersion)
  install(FILES "${PROJECT_BINARY_DIR}/cmake/${name}-config.cmake"
                "${PROJECT_BINARY_DIR}/cmake/${name}-config-version.cmake" ${arg_FILES}
          DESTINATION "${folder}" COMPONENT sdk)
endfunction()

install(TARGETS bp_exprgen EXPORT backplane_sdk-targets RUNTIME DESTINATION bin COMPONENT sdk)
bp_install_package(backplane_sdk TARGETS bp_device_api bp_sdk bp_ops_headers
                   FILES "${PROJECT_SOURCE_DIR}/sdk/cmake/BackplanePlugin.cmake"
                         "${PROJECT_SOURCE_DIR}/sdk/cmake/BackplaneExpressions.cmake"
                         "${PROJECT_SOURCE_DIR}/sdk/cmake/plugin.map")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/device_api/include/"
                  "${PROJECT_SOURCE_DIR}/sdk/include/"
                  "${BP_GENERATED_INCLUDE_DIR}/"
        DESTINATION include COMPONENT sdk)
# What a vendor begins with, and the page about it.
install(DIRECTORY "${PROJECT_SOURCE_DIR}/sdk/template/"
        DESTINATION share/backplane/template COMPONENT sdk)
# bp_install_page(SOURCE NAME HERE:INSTALLED...): a page whose links lead into this tree, as NAME;
# those of the installed copy lead into the installed one. Text about how it is inside stays here.
function(bp_install_page source name)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${source}")
  file(READ "${source}" text)
  foreach(link IN LISTS ARGN)
    string(REGEX MATCH "^[^:]*" here "${link}")
    string(REGEX REPLACE "^[^:]*:" "" installed "${link}")
    string(REPLACE "](${here}" "](${installed}" text "${text}")
  endforeach()
  string(REGEX REPLACE " How it works inside: [^\n]*" "" text "${text}")
  string(REGEX REPLACE "[ \n]+\\(\\[ADR [^)]*\\)\\)" "" text "${text}")
  string(REPLACE "build/release/bin/backplane" "backplane" text "${text}")
  file(WRITE "${PROJECT_BINARY_DIR}/generated/${name}" "${text}")
  install(FILES "${PROJECT_BINARY_DIR}/generated/${name}"
          DESTINATION share/doc/backplane COMPONENT sdk)
endfunction()
bp_install_page("${PROJECT_SOURCE_DIR}/sdk/README.md" writing_a_plugin.md
                "../device_api/include:../../../include" "include/:../../../include/"
                "template:../../backplane/template"
                "../plugins/npu/:../../backplane/examples/npu/"
                "cmake/:../../../lib/cmake/backplane_sdk/")
# What the headers and the command's help name.
foreach(page IN ITEMS collectives launch)
  bp_install_page("${PROJECT_SOURCE_DIR}/docs/${page}.md" ${page}.md
                  "../core/api/include/:../../../include/")
endforeach()
install(FILES "${PROJECT_SOURCE_DIR}/docs/examples/all_reduce.cpp"
              "${PROJECT_SOURCE_DIR}/docs/examples/data_parallel.cpp"
        DESTINATION share/doc/backplane/examples COMPONENT sdk)
install(FILES "${PROJECT_SOURCE_DIR}/docs/examples/c/all_reduce.c"
              "${PROJECT_SOURCE_DIR}/docs/examples/c/data_parallel.c"
        DESTINATION share/doc/backplane/examples/c COMPONENT sdk)
# The operators that a kernel may be for, for people and for programs.
install(FILES "${PROJECT_BINARY_DIR}/generated/ops/operators.md"
              "${PROJECT_BINARY_DIR}/generated/ops/ops.json"
        DESTINATION share/doc/backplane COMPONENT sdk)

install(TARGETS bp_conform RUNTIME DESTINATION bin COMPONENT sdk)

bp_install_package(backplane TARGETS backplane)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/core/api/include/" DESTINATION include COMPONENT sdk)
install(TARGETS backplane_cli RUNTIME DESTINATION bin COMPONENT runtime)
