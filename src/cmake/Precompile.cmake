# Precompiled headers: the standard library's and Abseil's are two thirds of what a source file of ours reads, so a build
# from nothing is shorter by a fifth. ccache saves more from the second build on, but does not keep what begins with a
# precompiled header; where it is, it goes alone, and finds the includes that a file forgot.
set(precompile_default OFF)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(precompile_default ON)
endif()
option(MILLRACE_PRECOMPILE "Precompile the headers of the standard library and Abseil; by default where there is no ccache" ${precompile_default})

set(MILLRACE_COMMON_HEADERS
  <algorithm> <array> <atomic> <chrono> <cmath> <cstdint> <cstring> <functional> <limits> <map> <memory> <numeric> <optional> <set> <string>
  <string_view> <tuple> <utility> <variant> <vector>
  <absl/status/status.h> <absl/status/statusor.h> <absl/strings/match.h> <absl/strings/str_cat.h> <absl/strings/str_format.h>
  <absl/strings/str_join.h> <absl/types/span.h>)
# One takes as long as two files, and a hundred megabytes; it serves what is compiled with the same flags only. Libraries share one, but for
# these, whose flags are others (OpenMP's, those of threads, hidden symbols), and where a sanitizer may watch some boxes and not others.
set(MILLRACE_FEWEST_SOURCES_TO_PRECOMPILE 6)
set(MILLRACE_WITH_FLAGS_OF_THEIR_OWN millrace_session millrace_interpreter millrace_onnx millrace_report millrace_cuda_plugin millrace_cuda_fake)

# g++ 12 forgets in a precompiled header which lines are the library's, and then reports what it sees falsely in its strings.
set(MILLRACE_FALSE_WARNINGS $<$<COMPILE_LANGUAGE:CXX>:-Wno-array-bounds> $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>
  $<$<COMPILE_LANGUAGE:CXX>:-Wno-stringop-overflow> $<$<COMPILE_LANGUAGE:CXX>:-Wno-stringop-overread>)

# millrace_precompile(target [header ...]): has a target begin with the common headers, or one of enough sources with these as well.
function(millrace_precompile target)
  if(NOT MILLRACE_PRECOMPILE)
    return()
  endif()
  if(NOT ARGN AND NOT MILLRACE_SANITIZE AND NOT target IN_LIST MILLRACE_WITH_FLAGS_OF_THEIR_OWN)
    millrace_library_headers()
    target_precompile_headers(${target} REUSE_FROM millrace_library_headers)
  else()
    get_target_property(sources ${target} SOURCES)
    list(LENGTH sources count)
    if(count LESS MILLRACE_FEWEST_SOURCES_TO_PRECOMPILE)
      return()
    endif()
    target_precompile_headers(${target} PRIVATE ${MILLRACE_COMMON_HEADERS} ${ARGN})
  endif()
  target_compile_options(${target} PRIVATE ${MILLRACE_FALSE_WARNINGS})
endfunction()

# The target of the one that libraries share.
function(millrace_library_headers)
  if(TARGET millrace_library_headers)
    return()
  endif()
  set(source ${CMAKE_BINARY_DIR}/library_headers.cc)
  file(CONFIGURE OUTPUT ${source} CONTENT "")
  add_library(millrace_library_headers OBJECT ${source})
  target_link_libraries(millrace_library_headers PRIVATE millrace_flags absl::status absl::statusor absl::strings absl::str_format absl::span)
  target_precompile_headers(millrace_library_headers PRIVATE ${MILLRACE_COMMON_HEADERS})
  target_compile_options(millrace_library_headers PRIVATE ${MILLRACE_FALSE_WARNINGS})
endfunction()

# millrace_precompile_test(target): has a test begin with the common headers and GoogleTest's, which are compiled once for all tests.
function(millrace_precompile_test target)
  if(NOT MILLRACE_PRECOMPILE)
    return()
  endif()
  if(NOT TARGET millrace_test_headers)
    set(source ${CMAKE_BINARY_DIR}/test_headers.cc)
    file(CONFIGURE OUTPUT ${source} CONTENT "int main() {}\n")
    add_executable(millrace_test_headers ${source})
    target_link_libraries(millrace_test_headers PRIVATE millrace_test_flags)
    target_precompile_headers(millrace_test_headers PRIVATE ${MILLRACE_COMMON_HEADERS} <gmock/gmock.h> <gtest/gtest.h>)
  endif()
  target_precompile_headers(${target} REUSE_FROM millrace_test_headers)
  target_compile_options(${target} PRIVATE ${MILLRACE_FALSE_WARNINGS})
endfunction()
