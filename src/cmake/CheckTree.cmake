# House rules that a program can check, on every build (src/cmake/check_tree.sh).
add_custom_target(check_tree ALL
  COMMAND ${CMAKE_SOURCE_DIR}/src/cmake/check_tree.sh ${CMAKE_SOURCE_DIR}
  COMMENT "Checking file lengths and include directions"
  VERBATIM)
if(MILLRACE_TESTS)
  add_test(NAME check_tree COMMAND ${CMAKE_SOURCE_DIR}/src/cmake/check_tree.sh ${CMAKE_SOURCE_DIR} --lines)
endif()
