# libmillrace_cuda.so, where the CUDA toolkit with cuBLASLt and cuDNN is found; nothing where it is not. The program
# loads it at run time and links nothing of it.
#
# Included by runtime/devices/cuda/CMakeLists.txt.
option(MILLRACE_CUDA "Build the CUDA plugin where the toolkit is found" ON)
set(MILLRACE_CUDA_ARCHITECTURES "80-real;90-real;100" CACHE STRING
  "compute capabilities of the plugin's device code; a plain number adds PTX for later devices. One is quicker to build")

get_property(launchers GLOBAL PROPERTY MILLRACE_CUDA_LAUNCHERS)
set(plugin_folder ${CMAKE_CURRENT_SOURCE_DIR})

# The launchers' sources as C++ for the host, for tests on machines without a device.
set(host_sources)
foreach(name ${launchers})
  set(wrapper ${CMAKE_CURRENT_BINARY_DIR}/host/${name}.cc)
  file(CONFIGURE OUTPUT ${wrapper} CONTENT "#include \"cuda/launch/${name}.cu\"\n" @ONLY)
  list(APPEND host_sources ${wrapper})
endforeach()
add_library(millrace_cuda_launch_host STATIC ${host_sources})
target_include_directories(millrace_cuda_launch_host PRIVATE ${CMAKE_BINARY_DIR}/include_roots/cuda ${CMAKE_BINARY_DIR}/include_roots/graph)
# Kernels of the device, run by the host: -O3 takes half as long again to compile (reduce.cc on a grid: 19 s, 13 with -O2).
set(quick_to_compile $<$<CONFIG:Release>:-O2>)
target_compile_options(millrace_cuda_launch_host PRIVATE ${quick_to_compile} -ffp-contract=off)
target_link_libraries(millrace_cuda_launch_host PRIVATE millrace_flags)
millrace_watch(millrace_cuda_launch_host cuda_kernels)
set_property(GLOBAL APPEND PROPERTY MILLRACE_LIBRARIES millrace_cuda_launch_host)
# Behind the kernels that call it, as linkers of static libraries want it.
target_link_libraries(millrace_cuda_emulated PUBLIC millrace_cuda_kernels millrace_cuda_launch_host)

# The same once more as the kernels that the device is given, on a grid of threads that the host runs: with what g++ does not
# read, launches between three angle brackets, written as calls.
if(MILLRACE_TESTS)
  set(grid_sources)
  file(GLOB launch_files RELATIVE ${plugin_folder} ${plugin_folder}/launch/*.h)
  list(TRANSFORM launchers PREPEND launch/ OUTPUT_VARIABLE launch_sources)
  list(TRANSFORM launch_sources APPEND .cu)
  list(APPEND launch_files ${launch_sources})
  foreach(name ${launch_files})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${plugin_folder}/${name})
    file(READ ${plugin_folder}/${name} text)
    if(NOT name STREQUAL "launch/scalar.h")
      string(REGEX REPLACE "([A-Za-z]+(<[A-Za-z]+>)?)<<<([^;]*), (k[A-Za-z]+), 0, [^;]*>>>\\(([^;]*)\\);"
        "fake::LaunchGrid(queue.stream, \\3, \\4, [=] { \\1(\\5); });" text "${text}")
      string(REGEX REPLACE "defined\\(__CUDA(CC|_ARCH)__\\)" "defined(MILLRACE_GRID_ON_HOST)" text "${text}")
      string(REPLACE "<cuda_runtime.h>" "\"cuda/fake/grid.h\"" text "${text}")
      string(FIND "${text}" "<<<" launch)
      if(NOT launch EQUAL -1)
        message(FATAL_ERROR "${name} has a launch that is not written as the others are")
      endif()
    endif()
    file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/grid/cuda/${name} CONTENT "${text}" @ONLY)
    if(name MATCHES "launch/(.*)\\.cu")
      list(APPEND grid_sources ${CMAKE_CURRENT_BINARY_DIR}/host/${CMAKE_MATCH_1}.cc)
    endif()
  endforeach()
  add_library(millrace_cuda_launch_grid STATIC EXCLUDE_FROM_ALL ${grid_sources} ${plugin_folder}/fake/grid.cc)
  target_compile_definitions(millrace_cuda_launch_grid PRIVATE MILLRACE_GRID_ON_HOST)
  target_include_directories(millrace_cuda_launch_grid BEFORE PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/grid)
  target_include_directories(millrace_cuda_launch_grid PUBLIC ${CMAKE_BINARY_DIR}/include_roots/cuda PRIVATE ${CMAKE_BINARY_DIR}/include_roots/graph)
  # The compiler unrolls turns that a list of a few numbers never comes to, and warns of them. What checks longjmp allows
  # none from one stack to another.
  target_compile_options(millrace_cuda_launch_grid PRIVATE ${quick_to_compile} -include ${plugin_folder}/fake/grid.h -U_FORTIFY_SOURCE -ffp-contract=off
    -Wno-unknown-pragmas -Wno-array-bounds
    -Wno-aggressive-loop-optimizations -Wno-unused-variable)
  target_link_libraries(millrace_cuda_launch_grid PRIVATE millrace_flags PUBLIC glog::glog)
  millrace_watch(millrace_cuda_launch_grid cuda_kernels)
  set_target_properties(millrace_cuda_launch_grid PROPERTIES POSITION_INDEPENDENT_CODE ON)
endif()

if(NOT MILLRACE_CUDA)
  return()
endif()
include(CheckLanguage)
include(GNUInstallDirs)
if(NOT CMAKE_CUDA_COMPILER)
  find_program(CMAKE_CUDA_COMPILER nvcc PATHS /usr/local/cuda/bin)
endif()
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  message(STATUS "CUDA toolkit not found: without --device=cuda")
  return()
endif()
# Kernels that are compiled at run time are loaded by cudaLibraryLoadData, which is there since 12.8, as is compute capability 10.0.
# Asked before the language is enabled, which an older compiler would fail to be for that device.
execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --version OUTPUT_VARIABLE nvcc_words ERROR_QUIET)
string(REGEX MATCH "release ([0-9.]+)" nvcc_words "${nvcc_words}")
if(CMAKE_MATCH_1 VERSION_LESS 12.8)
  message(STATUS "CUDA ${CMAKE_MATCH_1} of ${CMAKE_CUDA_COMPILER} is older than 12.8: without --device=cuda")
  return()
endif()
set(CMAKE_CUDA_ARCHITECTURES ${MILLRACE_CUDA_ARCHITECTURES})
if(CCACHE_PROGRAM AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()
enable_language(CUDA)
find_package(CUDAToolkit QUIET)
# What the toolkit's folders lack may be there as Python packages (nvidia-cudnn, nvidia-cublas), whose libraries have no
# names without numbers.
set(python_packages "")
find_program(MILLRACE_PYTHON_OF_PACKAGES python3)
if(MILLRACE_PYTHON_OF_PACKAGES)
  execute_process(COMMAND ${MILLRACE_PYTHON_OF_PACKAGES} -c
    "import glob, sys; print(';'.join(f for p in sys.path for f in sorted(glob.glob(p + '/nvidia/*')) if glob.glob(f + '/include')))"
    OUTPUT_VARIABLE python_packages OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
set(package_includes "${python_packages}")
set(package_libraries "${python_packages}")
list(TRANSFORM package_includes APPEND /include)
list(TRANSFORM package_libraries APPEND /lib)
find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS} PATHS ${package_includes})
find_library(CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 HINTS ${CUDAToolkit_LIBRARY_DIR} PATHS ${package_libraries})
find_path(CUBLASLT_INCLUDE_DIR cublasLt.h HINTS ${CUDAToolkit_INCLUDE_DIRS} PATHS ${package_includes})
find_library(CUBLASLT_LIBRARY NAMES cublasLt libcublasLt.so.${CUDAToolkit_VERSION_MAJOR} HINTS ${CUDAToolkit_LIBRARY_DIR}
  PATHS ${package_libraries})
find_path(NVRTC_INCLUDE_DIR nvrtc.h HINTS ${CUDAToolkit_INCLUDE_DIRS} PATHS ${package_includes})
foreach(part CUDNN_INCLUDE_DIR CUDNN_LIBRARY CUBLASLT_INCLUDE_DIR CUBLASLT_LIBRARY NVRTC_INCLUDE_DIR)
  if(NOT ${part})
    message(STATUS "${part} not found: without --device=cuda")
    return()
  endif()
endforeach()
# Devices are described to cuDNN's graph interface since 9.8.
set(cudnn_lines "")
if(EXISTS ${CUDNN_INCLUDE_DIR}/cudnn_version.h)
  file(STRINGS ${CUDNN_INCLUDE_DIR}/cudnn_version.h cudnn_lines REGEX "^#define CUDNN_(MAJOR|MINOR) +[0-9]+")
endif()
string(REGEX REPLACE "[^0-9;]" "" cudnn_version "${cudnn_lines}")
string(REPLACE ";" "." cudnn_version "${cudnn_version}")
if(cudnn_version VERSION_LESS 9.8)
  message(STATUS "cuDNN ${cudnn_version} in ${CUDNN_INCLUDE_DIR} is older than 9.8: without --device=cuda")
  return()
endif()
message(STATUS "CUDA ${CUDAToolkit_VERSION}, cuDNN ${cudnn_version} in ${CUDNN_LIBRARY}, cuBLASLt in ${CUBLASLT_LIBRARY}")
# For the tests, which are in another folder.
set_target_properties(CUDA::cudart_static CUDA::cudart_static_deps PROPERTIES IMPORTED_GLOBAL TRUE)
# CMake 3.25.1 does not know nvcc's C++20.
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")

set(device_sources)
foreach(name ${launchers})
  list(APPEND device_sources ${plugin_folder}/launch/${name}.cu)
endforeach()
add_library(millrace_cuda_launch OBJECT ${device_sources})
set_target_properties(millrace_cuda_launch PROPERTIES CUDA_STANDARD 20 CUDA_ARCHITECTURES "${MILLRACE_CUDA_ARCHITECTURES}")
target_include_directories(millrace_cuda_launch PRIVATE ${CMAKE_BINARY_DIR}/include_roots/cuda ${CMAKE_BINARY_DIR}/include_roots/graph)
# Without fused multiply-adds, which round otherwise than the host and than the same ops one by one.
target_compile_options(millrace_cuda_launch PRIVATE --fmad=false -Xcompiler=-Wall,-Wextra -Xcudafe=--display_error_number)
if(MILLRACE_WERROR)
  target_compile_options(millrace_cuda_launch PRIVATE --Werror=all-warnings -Xcompiler=-Werror)
endif()

# Kernels that are compiled while a program runs include these: their texts travel in the plugin. NVRTC is loaded by then,
# where it is found.
set(kernel_headers)
foreach(name elementwise_math elementwise_ops fused_body fused_reduce_body queue scalar sum_kernels)
  set(header ${plugin_folder}/launch/${name}.h)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${header})
  file(READ ${header} text)
  string(APPEND kernel_headers "    {\"cuda/launch/${name}.h\", R\"kernel(${text})kernel\"},\n")
endforeach()
file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/kernel_headers.cc CONTENT [=[
#include "cuda/plugin/kernel_headers.h"

namespace millrace::cuda {
const std::vector<KernelHeader>& KernelHeaders() {
  static const auto* const headers = new std::vector<KernelHeader>{
@kernel_headers@  };
  return *headers;
}
}  // namespace millrace::cuda
]=] @ONLY)
add_library(millrace_cuda_compiler STATIC ${plugin_folder}/plugin/run_time_compiler.cc
  ${CMAKE_CURRENT_BINARY_DIR}/kernel_headers.cc)
set_target_properties(millrace_cuda_compiler PROPERTIES POSITION_INDEPENDENT_CODE ON)
target_include_directories(millrace_cuda_compiler PUBLIC ${CMAKE_BINARY_DIR}/include_roots/cuda)
target_include_directories(millrace_cuda_compiler SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS} ${NVRTC_INCLUDE_DIR})
list(JOIN package_libraries ":" library_folders)
target_compile_definitions(millrace_cuda_compiler PRIVATE
  MILLRACE_CUDA_LIBRARIES="${CUDAToolkit_LIBRARY_DIR}:${library_folders}"
  MILLRACE_CUDA_MAJOR=${CUDAToolkit_VERSION_MAJOR})
target_link_libraries(millrace_cuda_compiler PRIVATE millrace_graph millrace_flags ${CMAKE_DL_LIBS})
millrace_watch(millrace_cuda_compiler cuda)

set(plugin_sources)
set(plugin_names blas_product compiled_fusion cuda_driver cuda_errors cuda_services device_watch dnn_convolution dnn_descriptor
  dnn_graph dnn_plan dnn_trial host_fallback page_locked plugin run_ahead)
# For the tests, which compile them for a CUDA that is faked.
set_property(GLOBAL PROPERTY MILLRACE_CUDA_PLUGIN_SOURCES ${plugin_names})
foreach(name ${plugin_names})
  list(APPEND plugin_sources ${plugin_folder}/plugin/${name}.cc)
endforeach()
add_library(millrace_cuda_plugin MODULE ${plugin_sources} $<TARGET_OBJECTS:millrace_cuda_launch>)
set_target_properties(millrace_cuda_plugin PROPERTIES OUTPUT_NAME millrace_cuda LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin
  CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
  INSTALL_RPATH_USE_LINK_PATH ON)  # to Python packages and toolkits that the loader does not know
target_include_directories(millrace_cuda_plugin SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS} ${CUDNN_INCLUDE_DIR}
  ${CUBLASLT_INCLUDE_DIR})
target_link_libraries(millrace_cuda_plugin PRIVATE millrace_cuda_kernels millrace_cuda_compiler millrace_stream CUDA::cudart_static
  ${CUBLASLT_LIBRARY} ${CUDNN_LIBRARY})
millrace_precompile(millrace_cuda_plugin)
millrace_unity(millrace_cuda_plugin)
# Only the plugin's one symbol is seen outside: what it shares with the program in source it has for itself.
target_link_options(millrace_cuda_plugin PRIVATE -Wl,--version-script=${plugin_folder}/plugin/exports.map)
set_target_properties(millrace_cuda_plugin PROPERTIES LINK_DEPENDS ${plugin_folder}/plugin/exports.map)
install(TARGETS millrace_cuda_plugin LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
