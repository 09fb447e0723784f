# Unity builds: several source files are compiled as one, since most of the time goes to what they all include. A build from nothing
# is shorter by a fifth, the next one after an edit longer; so it is for machines that build once (tests/run_all.sh).
#
# Files of one batch share an anonymous namespace. One that has a name in it that another one has too is compiled apart:
# APART in millrace_library and millrace_test names these. Sources with flags of their own are apart by themselves.
option(MILLRACE_UNITY "Compile several source files as one: a build from nothing takes less time" OFF)

set(MILLRACE_FEWEST_SOURCES_AS_ONE 5)

# g++ looks for memory that it can use again whenever it has taken so much more, 128 MB by default. With this it takes a sixteenth less time,
# and a tenth more memory.
if(MILLRACE_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=500000>)
endif()

# millrace_unity(target [source ...]): has a target compiled so, but for the sources that are named.
function(millrace_unity target)
  get_target_property(sources ${target} SOURCES)
  list(LENGTH sources count)
  if(NOT MILLRACE_UNITY OR count LESS MILLRACE_FEWEST_SOURCES_AS_ONE)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 5)
  if(ARGN)
    set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()
