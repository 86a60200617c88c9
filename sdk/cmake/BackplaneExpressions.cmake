# SPDX-License-Identifier: Apache-2.0
# bp_expression_kernels(): the kernels of all elementwise operators and reductions, emitted by
# bp-exprgen. The same file serves the tree itself and the installed SDK.
include_guard(GLOBAL)

set(BP_EXPRESSIONS_CMAKE_DIR "${CMAKE_CURRENT_LIST_DIR}")

# bp_expression_kernels(out_kernels LANGUAGE C|OPENCL [HEADER file])
# Sources for bp_add_plugin(KERNELS ...), in C++ where the project has it and else in C.
# LANGUAGE C: kernels that run on the host. HEADER has bp_expression_launch and bp_reduction_launch;
#   without one, launches run at once on memory at handle + offset.
# LANGUAGE OPENCL: descriptors with OpenCL C sources. HEADER, which is needed, declares what plans
#   and launches them: bp_expression_supports, bp_expression_plan, bp_reduction_plan,
#   bp_expression_plan_free, bp_expression_launch, bp_expression_state_create and
#   bp_expression_state_destroy.
function(bp_expression_kernels out_kernels)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "LANGUAGE;HEADER" "")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "bp_expression_kernels: unknown arguments: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(TARGET backplane_flags)  # inside the tree
    set(generator bp_exprgen)
    set(skeletons "${BP_EXPRESSIONS_CMAKE_DIR}/../include/backplane/sdk/expression")
  else()
    set(generator backplane::bp_exprgen)
    set(skeletons "${BP_EXPRESSIONS_CMAKE_DIR}/../../../include/backplane/sdk/expression")
  endif()
  cmake_path(NORMAL_PATH skeletons)
  get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  set(suffix c)
  if("CXX" IN_LIST languages)
    set(suffix cpp)
  endif()
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/expressions")
  file(MAKE_DIRECTORY "${folder}")

  if(arg_LANGUAGE STREQUAL "C")
    if(NOT arg_HEADER)
      set(arg_HEADER "backplane/sdk/expression/launch.h")
    endif()
    # Two files compile side by side.
    set(files expressions_0 expressions_1 reductions)
    set(command c "${folder}" 2 ${suffix} "${arg_HEADER}")
    set(texts "")
  elseif(arg_LANGUAGE STREQUAL "OPENCL")
    if(NOT arg_HEADER)
      message(FATAL_ERROR "bp_expression_kernels: LANGUAGE OPENCL needs a HEADER")
    endif()
    set(files expressions_opencl)
    set(command opencl "${folder}" "${skeletons}" ${suffix} "${arg_HEADER}")
    set(texts layout.h words.h memory.cl elementwise.cl reduction.cl)
    list(TRANSFORM texts PREPEND "${skeletons}/")
  else()
    message(FATAL_ERROR "bp_expression_kernels: LANGUAGE '${arg_LANGUAGE}'; expected C or OPENCL")
  endif()
  list(TRANSFORM files PREPEND "${folder}/")
  list(TRANSFORM files APPEND ".${suffix}")
  add_custom_command(OUTPUT ${files} COMMAND ${generator} ${command} DEPENDS ${generator} ${texts}
                     COMMENT "Generating the kernels of expressions" VERBATIM)
  # A product and a sum are two roundings. In C++ a descriptor's absent members are warned about.
  set_source_files_properties(${files} PROPERTIES BP_LINK m
      COMPILE_OPTIONS "-ffp-contract=off;-Wno-missing-field-initializers")
  set(${out_kernels} ${files} PARENT_SCOPE)
endfunction()
