# millrace_library(NAME DIR dir SOURCES a.cc b.cc DEPS other_box ... LINK external ... PRECOMPILE <header> ... APART a.cc ...)
#
# One library per box of the design. A box's headers are included as "box/header.h" and are reachable only for
# the boxes that name it in DEPS: each box has an include root of its own, which holds nothing but a link to its
# folder. So an include in the wrong direction does not compile.

option(MILLRACE_WERROR "Warnings are errors; off for compilers that this was not written with" ON)
add_library(millrace_flags INTERFACE)
target_compile_options(millrace_flags INTERFACE -Wall -Wextra $<$<BOOL:${MILLRACE_WERROR}>:-Werror> -Wno-sign-compare
  -Wno-missing-field-initializers -Wno-maybe-uninitialized)  # g++ 12 reports it falsely in absl::InlinedVector
target_include_directories(millrace_flags INTERFACE $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>)
# Boxes that are left out of a list are compiled as a release build compiles them.
set(MILLRACE_SANITIZE_BOXES "" CACHE STRING "boxes that the sanitizer watches, beside the tests; empty: all")
add_library(millrace_sanitizer INTERFACE)
if(MILLRACE_SANITIZE STREQUAL "address")
  target_compile_options(millrace_sanitizer INTERFACE -O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=undefined
    -fno-omit-frame-pointer)
  target_link_options(millrace_flags INTERFACE -fsanitize=address,undefined)
elseif(MILLRACE_SANITIZE STREQUAL "thread")
  target_compile_options(millrace_sanitizer INTERFACE -O1 -g1 -fsanitize=thread)
  target_link_options(millrace_flags INTERFACE -fsanitize=thread)
endif()

# Whether there is a sanitizer that watches the box.
function(millrace_is_watched out box)
  if(MILLRACE_SANITIZE AND (NOT MILLRACE_SANITIZE_BOXES OR box IN_LIST MILLRACE_SANITIZE_BOXES))
    set(${out} ON PARENT_SCOPE)
  else()
    set(${out} OFF PARENT_SCOPE)
  endif()
endfunction()
# Has it watch a target, which belongs to a box.
function(millrace_watch target box)
  millrace_is_watched(watched ${box})
  if(watched)
    target_link_libraries(${target} PRIVATE millrace_sanitizer)
  endif()
endfunction()

# Directions: a box that is listed here may depend on these boxes only. The others put parts together (session, cli,
# import, models, tests) and may use what they need.
set(MILLRACE_MAY_USE_files)
set(MILLRACE_MAY_USE_proto)
set(MILLRACE_MAY_USE_graph files)
set(MILLRACE_MAY_USE_ops graph)
set(MILLRACE_MAY_USE_plan graph)
set(MILLRACE_MAY_USE_passes graph ops plan)
set(MILLRACE_MAY_USE_runtime graph plan)
set(MILLRACE_MAY_USE_cpu graph plan runtime)
set(MILLRACE_MAY_USE_null graph plan runtime)
set(MILLRACE_MAY_USE_stream graph plan runtime)
set(MILLRACE_MAY_USE_cuda_kernels graph runtime stream)
set(MILLRACE_MAY_USE_cuda_emulated graph runtime cuda_kernels)
set(MILLRACE_MAY_USE_cuda graph plan runtime stream)
set(MILLRACE_MAY_USE_report files graph plan proto)
set(MILLRACE_BOXES_WITH_DIRECTIONS files proto graph ops plan passes runtime cpu null stream cuda_kernels cuda_emulated cuda report)

# Kernels take their time in what they instantiate, cases of gradients have helpers of the same names, and who takes the
# plan, or tests' tools, need not have the boxes that one file of them takes.
set(MILLRACE_NOT_AS_ONE cpu proto plan testlib gradient_cases)

function(millrace_library name)
  cmake_parse_arguments(ARG "" "PREFIX" "SOURCES;DEPS;LINK;PRECOMPILE;APART" ${ARGN})
  if(name IN_LIST MILLRACE_BOXES_WITH_DIRECTIONS)
    foreach(dep ${ARG_DEPS})
      if(NOT dep IN_LIST MILLRACE_MAY_USE_${name})
        message(FATAL_ERROR "box ${name} may not depend on ${dep}, only on: ${MILLRACE_MAY_USE_${name}}")
      endif()
    endforeach()
  endif()
  set(target millrace_${name})
  add_library(${target} STATIC ${ARG_SOURCES})
  set_property(GLOBAL APPEND PROPERTY MILLRACE_LIBRARIES ${target})
  if(NOT ARG_PREFIX)
    set(ARG_PREFIX ${name})
  endif()
  set(root ${CMAKE_BINARY_DIR}/include_roots/${name})
  get_filename_component(parent ${root}/${ARG_PREFIX} DIRECTORY)
  file(MAKE_DIRECTORY ${parent})
  file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR} ${root}/${ARG_PREFIX} SYMBOLIC)
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${root}>)
  target_link_libraries(${target} PUBLIC millrace_flags)
  millrace_watch(${target} ${name})
  foreach(dep ${ARG_DEPS})
    target_link_libraries(${target} PUBLIC millrace_${dep})
  endforeach()
  target_link_libraries(${target} PUBLIC ${ARG_LINK})
  set_property(GLOBAL APPEND PROPERTY MILLRACE_EXTERNAL ${ARG_LINK})
  millrace_precompile(${target} ${ARG_PRECOMPILE})
  if(NOT name IN_LIST MILLRACE_NOT_AS_ONE)
    millrace_unity(${target} ${ARG_APART})
  endif()
endfunction()

# What all tests are compiled with. Half of a build from nothing is tests: a quarter of that goes to optimizing what runs for
# seconds.
add_library(millrace_test_flags INTERFACE)
target_link_libraries(millrace_test_flags INTERFACE millrace_flags millrace_sanitizer OpenMP::OpenMP_CXX GTest::gmock GTest::gtest)
target_compile_options(millrace_test_flags INTERFACE $<$<CONFIG:Release>:-O1>)
target_compile_definitions(millrace_test_flags INTERFACE
  MILLRACE_SOURCE_DIR="${CMAKE_SOURCE_DIR}" MILLRACE_BINARY_DIR="${CMAKE_BINARY_DIR}")

# millrace_test(name SOURCES a_test.cc DEPS box ... APART a_test.cc ...): one program, one CTest entry per test case.
function(millrace_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;DEPS;LINK;LABELS;APART" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE millrace_test_flags ${ARG_LINK} GTest::gtest_main)
  foreach(dep ${ARG_DEPS})
    target_link_libraries(${name} PRIVATE millrace_${dep})
  endforeach()
  millrace_precompile_test(${name})
  millrace_unity(${name} ${ARG_APART})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
endfunction()
