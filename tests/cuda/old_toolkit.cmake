# Configures with a compiler that says it is of an older CUDA toolkit: the plugin is left out, and the reason is said.
# cmake -DSOURCE=<tree> -DFOLDER=<to work in> -DGENERATOR=<name> -P old_toolkit.cmake
file(REMOVE_RECURSE ${FOLDER})
file(WRITE ${FOLDER}/nvcc "#!/bin/sh\necho 'Cuda compilation tools, release 12.6, V12.6.85'\n")
file(CHMOD ${FOLDER}/nvcc PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${FOLDER}/build -G ${GENERATOR} -DCMAKE_CUDA_COMPILER=${FOLDER}/nvcc
  OUTPUT_VARIABLE said ERROR_VARIABLE complaints RESULT_VARIABLE result)
file(REMOVE_RECURSE ${FOLDER})
if(NOT result EQUAL 0 OR NOT said MATCHES "CUDA 12.6 of [^\n]*nvcc is older than 12.8: without --device=cuda")
  message(FATAL_ERROR "${result}: ${said}${complaints}")
endif()
