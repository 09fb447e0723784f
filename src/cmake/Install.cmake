# What `cmake --install` puts in place: the headers, one library of all boxes, find_package(millrace), a file for pkg-config, the program,
# machines.
#
# The library is shared, so that a program which embeds it names nothing but millrace::millrace: of what the boxes
# use, only Abseil shows in the headers.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

get_property(boxes GLOBAL PROPERTY MILLRACE_LIBRARIES)
list(REMOVE_ITEM boxes millrace_cli)  # the program's own
get_property(external GLOBAL PROPERTY MILLRACE_EXTERNAL)
list(REMOVE_DUPLICATES external)

add_library(millrace SHARED)
set(absl_in_headers absl::status absl::statusor absl::strings absl::inlined_vector absl::span absl::function_ref)
foreach(box ${boxes})
  target_sources(millrace PRIVATE $<TARGET_OBJECTS:${box}>)
endforeach()
target_link_libraries(millrace PRIVATE millrace_flags ${external}
  PUBLIC ${absl_in_headers})
target_include_directories(millrace INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(millrace INTERFACE cxx_std_20)
if(NOT MILLRACE_SANITIZE)
  target_link_options(millrace PRIVATE -Wl,--no-undefined)
endif()
target_link_options(millrace PRIVATE -Wl,--version-script=${CMAKE_SOURCE_DIR}/src/cmake/exports.map)
set_target_properties(millrace PROPERTIES VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}  # before 1.0 a minor version may change what programs see
  LINK_DEPENDS ${CMAKE_SOURCE_DIR}/src/cmake/exports.map)

install(TARGETS millrace EXPORT millraceTargets)
install(TARGETS millrace_main)
install(DIRECTORY include/millrace DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(DIRECTORY configs/machines DESTINATION ${CMAKE_INSTALL_DATADIR}/millrace FILES_MATCHING PATTERN "*.pbtxt")

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/millrace)
install(EXPORT millraceTargets NAMESPACE millrace:: DESTINATION ${package_dir})
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/millraceConfig.cmake CONTENT
  "include(CMakeFindDependencyMacro)\nfind_dependency(absl)\ninclude(\${CMAKE_CURRENT_LIST_DIR}/millraceTargets.cmake)\n"
  @ONLY)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/millraceConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/millraceConfig.cmake ${CMAKE_BINARY_DIR}/millraceConfigVersion.cmake
  DESTINATION ${package_dir})

# The same for builds that are not CMake's: pkg-config --cflags --libs millrace. A program needs C++20. Paths are relative to the .pc
# file's own folder.
list(TRANSFORM absl_in_headers REPLACE "::" "_" OUTPUT_VARIABLE requires)
list(JOIN requires " " requires)
file(RELATIVE_PATH to_headers ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_FULL_INCLUDEDIR})
set(prefix_line "")
if(NOT IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  file(RELATIVE_PATH to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  string(REGEX REPLACE "/$" "" to_prefix "${to_prefix}")
  set(prefix_line "prefix=\${pcfiledir}/${to_prefix}\n")
endif()
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/millrace.pc CONTENT
  "${prefix_line}Name: millrace
Description: ${PROJECT_DESCRIPTION}
Version: ${PROJECT_VERSION}
Requires: ${requires}
Cflags: -I\${pcfiledir}/${to_headers}
Libs: -L\${pcfiledir}/.. -lmillrace
" @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/millrace.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
