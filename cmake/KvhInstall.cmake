# What `cmake --install` lays down: the library, its public headers, and the two files by which
# other builds find it (pkg-config and a CMake package). Commands install themselves (kvh_tool).
include(CMakePackageConfigHelpers)

set(cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/kvhold)
set(pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(TARGETS kvhold EXPORT kvhold-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/runtime/include/kvhold
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

install(EXPORT kvhold-targets NAMESPACE kvhold:: DESTINATION ${cmake_dir})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/kvhold-config.cmake.in
  ${PROJECT_BINARY_DIR}/kvhold-config.cmake INSTALL_DESTINATION ${cmake_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/kvhold-config-version.cmake
  VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/kvhold-config.cmake
  ${PROJECT_BINARY_DIR}/kvhold-config-version.cmake DESTINATION ${cmake_dir})

# The .pc file finds its prefix from its own place, so an installed tree can be moved.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}" OR IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
  message(FATAL_ERROR "CMAKE_INSTALL_LIBDIR and CMAKE_INSTALL_INCLUDEDIR must be relative to "
    "CMAKE_INSTALL_PREFIX: the installed files name each other by relative paths")
endif()
file(RELATIVE_PATH pc_to_prefix /prefix/${pc_dir} /prefix)
configure_file(${CMAKE_CURRENT_LIST_DIR}/kvhold.pc.in ${PROJECT_BINARY_DIR}/kvhold.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/kvhold.pc DESTINATION ${pc_dir})
