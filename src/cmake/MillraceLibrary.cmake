# millrace_library(NAME DIR dir SOURCES a.cc b.cc DEPS other_box ... LINK external ...)
#
# One library per box of the design. A box's headers are included as "box/header.h" and are reachable only for
# the boxes that name it in DEPS: each box has an include root of its own, which holds nothing but a link to its
# folder. So an include in the wrong direction does not compile.

add_library(millrace_flags INTERFACE)
target_compile_options(millrace_flags INTERFACE -Wall -Wextra -Werror -Wno-sign-compare -Wno-missing-field-initializers
  -Wno-maybe-uninitialized)  # g++ 12 reports it falsely in absl::InlinedVector
target_include_directories(millrace_flags INTERFACE $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>)
if(MILLRACE_SANITIZE STREQUAL "address")
  target_compile_options(millrace_flags INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  target_link_options(millrace_flags INTERFACE -fsanitize=address,undefined)
elseif(MILLRACE_SANITIZE STREQUAL "thread")
  target_compile_options(millrace_flags INTERFACE -fsanitize=thread)
  target_link_options(millrace_flags INTERFACE -fsanitize=thread)
endif()

function(millrace_library name)
  cmake_parse_arguments(ARG "" "PREFIX" "SOURCES;DEPS;LINK" ${ARGN})
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
  foreach(dep ${ARG_DEPS})
    target_link_libraries(${target} PUBLIC millrace_${dep})
  endforeach()
  target_link_libraries(${target} PUBLIC ${ARG_LINK})
endfunction()

# millrace_test(name SOURCES a_test.cc DEPS box ...): one program, one CTest entry per test case.
function(millrace_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;DEPS;LINK;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE millrace_flags ${ARG_LINK} GTest::gmock GTest::gtest GTest::gtest_main)
  foreach(dep ${ARG_DEPS})
    target_link_libraries(${name} PRIVATE millrace_${dep})
  endforeach()
  target_compile_definitions(${name} PRIVATE
    MILLRACE_SOURCE_DIR="${CMAKE_SOURCE_DIR}" MILLRACE_BINARY_DIR="${CMAKE_BINARY_DIR}")
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
endfunction()
