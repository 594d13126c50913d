# What `cmake --install` puts under a prefix, and find_package(Crucible) for authors of plugins outside this tree.
#
#   bin/crucible  lib/libcrucible_core.so  lib/crucible/libcrucible_*.so
#   libexec/crucible/crucible-probe (plugins/loader/CMakeLists.txt)  lib/crucible/python/* (the recorder)
#   include/crucible/crucible_plugin.h  include/crucible/{sdk,kernel_ir}/*.hpp  lib/libcrucible_sdk.a  lib/cmake/Crucible/*
#
# Plugins lie in lib/crucible whatever the library folder is called (lib/x86_64-linux-gnu under /usr on Debian): the loader
# looks in ../lib/crucible beside the program. Everything finds its neighbours by relative paths, so a prefix may be moved.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(CRUCIBLE_PLUGIN_FOLDER lib/crucible)
set(CRUCIBLE_CMAKE_FOLDER ${CMAKE_INSTALL_LIBDIR}/cmake/Crucible)
file(RELATIVE_PATH crucible_bin_to_lib ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})

set_target_properties(crucible PROPERTIES INSTALL_RPATH "$ORIGIN/${crucible_bin_to_lib}")
set_target_properties(crucible_core PROPERTIES INSTALL_RPATH "$ORIGIN")
set_target_properties(crucible_sdk PROPERTIES EXPORT_NAME sdk)
set_target_properties(crucible_plugin_abi PROPERTIES EXPORT_NAME plugin_abi)

install(TARGETS crucible EXPORT CrucibleTargets RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
install(TARGETS crucible_core LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime)
foreach(plugin amd cpu intel null nvidia opencl)
  if(TARGET crucible_${plugin})
    install(TARGETS crucible_${plugin} LIBRARY DESTINATION ${CRUCIBLE_PLUGIN_FOLDER} COMPONENT runtime)
  endif()
endforeach()
if(TARGET crucible_torch)  # in a folder of its own: it is loaded when it is asked for by name alone
  install(TARGETS crucible_torch LIBRARY DESTINATION ${CRUCIBLE_PLUGIN_FOLDER}/torch COMPONENT runtime)
endif()
if(TARGET crucible_recorder)  # the recorder finds torch's libraries in the process, which has imported torch
  install(TARGETS crucible_recorder crucible_accelerate
    LIBRARY DESTINATION ${CRUCIBLE_PLUGIN_FOLDER}/python/crucible_torch COMPONENT runtime)
  install(DIRECTORY ${PROJECT_BINARY_DIR}/python DESTINATION ${CRUCIBLE_PLUGIN_FOLDER} COMPONENT runtime
    FILES_MATCHING PATTERN *.py PATTERN py.typed)
endif()

install(TARGETS crucible_sdk crucible_plugin_abi EXPORT CrucibleTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
install(DIRECTORY ${PROJECT_BINARY_DIR}/include/crucible DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
install(EXPORT CrucibleTargets NAMESPACE Crucible:: DESTINATION ${CRUCIBLE_CMAKE_FOLDER} COMPONENT development)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/package/CrucibleConfig.cmake.in
  ${PROJECT_BINARY_DIR}/package/CrucibleConfig.cmake INSTALL_DESTINATION ${CRUCIBLE_CMAKE_FOLDER})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/CrucibleConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/package/CrucibleConfig.cmake ${PROJECT_BINARY_DIR}/package/CrucibleConfigVersion.cmake
  ${CMAKE_CURRENT_LIST_DIR}/package/CruciblePlugin.cmake ${CMAKE_CURRENT_LIST_DIR}/package/crucible-config.cmake
  ${CMAKE_CURRENT_LIST_DIR}/package/exports.map ${CMAKE_CURRENT_LIST_DIR}/package/CrucibleManifest.cmake
  DESTINATION ${CRUCIBLE_CMAKE_FOLDER} COMPONENT development)
install(FILES ${PROJECT_BINARY_DIR}/package/CrucibleConfigVersion.cmake RENAME crucible-config-version.cmake
  DESTINATION ${CRUCIBLE_CMAKE_FOLDER} COMPONENT development)
