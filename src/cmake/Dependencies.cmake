# Everything from Debian's packages; see .ci/install_packages.sh for their names.
find_package(Threads REQUIRED)
find_package(absl REQUIRED)
find_package(Protobuf REQUIRED)
find_package(TBB REQUIRED)
find_package(glog REQUIRED)
find_package(gflags REQUIRED)
find_package(Eigen3 REQUIRED NO_MODULE)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(ZLIB REQUIRED)
find_package(JPEG REQUIRED)
find_package(PNG REQUIRED)
find_package(GIF REQUIRED)
find_package(ICU REQUIRED COMPONENTS uc)
find_package(leveldb REQUIRED)
find_package(Snappy REQUIRED)

# Debian's dnnl package file needs OpenCL headers that it does not depend on, so oneDNN is found by hand.
find_path(DNNL_INCLUDE_DIR dnnl.hpp REQUIRED)
find_library(DNNL_LIBRARY dnnl REQUIRED)
add_library(millrace_dnnl INTERFACE)
target_include_directories(millrace_dnnl SYSTEM INTERFACE ${DNNL_INCLUDE_DIR})
target_link_libraries(millrace_dnnl INTERFACE ${DNNL_LIBRARY})

find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
find_library(XXHASH_LIBRARY xxhash REQUIRED)
add_library(millrace_xxhash INTERFACE)
target_include_directories(millrace_xxhash SYSTEM INTERFACE ${XXHASH_INCLUDE_DIR})
target_link_libraries(millrace_xxhash INTERFACE ${XXHASH_LIBRARY})

find_path(FARMHASH_INCLUDE_DIR farmhash.h REQUIRED)
find_library(FARMHASH_LIBRARY farmhash REQUIRED)
add_library(millrace_farmhash INTERFACE)
target_include_directories(millrace_farmhash SYSTEM INTERFACE ${FARMHASH_INCLUDE_DIR})
target_link_libraries(millrace_farmhash INTERFACE ${FARMHASH_LIBRARY})

# Headers only: the graph library's flows, and random's Sobol points.
find_path(BOOST_INCLUDE_DIR boost/graph/boykov_kolmogorov_max_flow.hpp REQUIRED)
find_path(BOOST_SOBOL_INCLUDE_DIR boost/random/sobol.hpp REQUIRED)
add_library(millrace_boost INTERFACE)
target_include_directories(millrace_boost SYSTEM INTERFACE ${BOOST_INCLUDE_DIR})

find_path(RE2_INCLUDE_DIR re2/re2.h REQUIRED)
find_library(RE2_LIBRARY re2 REQUIRED)
add_library(millrace_re2 INTERFACE)
target_include_directories(millrace_re2 SYSTEM INTERFACE ${RE2_INCLUDE_DIR})
target_link_libraries(millrace_re2 INTERFACE ${RE2_LIBRARY})

find_path(WEBP_INCLUDE_DIR webp/demux.h REQUIRED)
find_library(WEBP_LIBRARY webp REQUIRED)
find_library(WEBPDEMUX_LIBRARY webpdemux REQUIRED)
add_library(millrace_webp INTERFACE)
target_include_directories(millrace_webp SYSTEM INTERFACE ${WEBP_INCLUDE_DIR})
target_link_libraries(millrace_webp INTERFACE ${WEBPDEMUX_LIBRARY} ${WEBP_LIBRARY})

# Debian's libzip package file asks for command line tools that it does not depend on.
find_path(ZIP_INCLUDE_DIR zip.h REQUIRED)
find_library(ZIP_LIBRARY zip REQUIRED)
add_library(millrace_zip INTERFACE)
target_include_directories(millrace_zip SYSTEM INTERFACE ${ZIP_INCLUDE_DIR})
target_link_libraries(millrace_zip INTERFACE ${ZIP_LIBRARY})

# Optional: pictures as PNG.
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(RSVG QUIET IMPORTED_TARGET librsvg-2.0 cairo)
  # Optional: the disk tier through io_uring.
  pkg_check_modules(URING QUIET IMPORTED_TARGET liburing)
endif()

if(MILLRACE_TESTS)
  find_package(GTest REQUIRED)
endif()
if(MILLRACE_BENCH)
  find_package(benchmark REQUIRED)
endif()
