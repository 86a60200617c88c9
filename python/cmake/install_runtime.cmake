# SPDX-License-Identifier: Apache-2.0
# Runs at installation: puts the runtime of the built tree bp_build_dir into the package. Wheels
# have no links, so of a library's names only the one that is loaded stays.
set(folder "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/backplane")
execute_process(
  COMMAND "${CMAKE_COMMAND}" --install "${bp_build_dir}" --component runtime --prefix "${folder}"
  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
file(GLOB links "${folder}/lib/libbackplane.so.*")
foreach(link IN LISTS links)
  if(IS_SYMLINK "${link}")
    file(REAL_PATH "${link}" library)
    file(REMOVE "${link}")
    file(RENAME "${library}" "${link}")
  endif()
endforeach()
file(COPY_FILE "${bp_libgomp}" "${folder}/lib/backplane/plugins/cpu/libgomp.so.1")
