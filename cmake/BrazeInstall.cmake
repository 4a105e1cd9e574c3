# `cmake --install`: the command, headers, static libraries and a package, so that other projects say
#
#   find_package(braze)
#   target_link_libraries(app PRIVATE braze::braze)
#   #include <braze/braze.h>
#
# or from C `braze::braze_c` and <braze.h>.
include(CMakePackageConfigHelpers)

set(braze_package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/braze)

install(TARGETS braze braze_compiler braze_emit braze_runtime braze_ir EXPORT brazeTargets)
install(TARGETS braze_c EXPORT brazeTargets)
install(FILES frontends/c/braze.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS braze_command)
install(EXPORT brazeTargets NAMESPACE braze:: DESTINATION ${braze_package_folder})

# The front end's headers become <braze/...>. Those of the layers lie beside them and include each other by layer.
install(DIRECTORY frontends/cpp/braze DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(DIRECTORY support ir compiler runtime DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/braze
        FILES_MATCHING PATTERN "*.h" PATTERN "*.def"
        PATTERN emit EXCLUDE PATTERN cuda EXCLUDE PATTERN sim EXCLUDE PATTERN interpret EXCLUDE)
target_include_directories(braze INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

configure_package_config_file(cmake/brazeConfig.cmake.in ${PROJECT_BINARY_DIR}/brazeConfig.cmake
                              INSTALL_DESTINATION ${braze_package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/brazeConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/brazeConfig.cmake ${PROJECT_BINARY_DIR}/brazeConfigVersion.cmake
        DESTINATION ${braze_package_folder})
