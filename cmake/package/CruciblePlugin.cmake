# Functions for authors of plugins.
set(CRUCIBLE_EXPORTS_MAP ${CMAKE_CURRENT_LIST_DIR}/exports.map)
set(CRUCIBLE_MANIFEST_SCRIPT ${CMAKE_CURRENT_LIST_DIR}/CrucibleManifest.cmake)

# crucible_add_plugin(NAME SOURCE...): the plugin NAME as the target crucible_NAME, a shared object libcrucible_NAME.so in
# the build folder, with the SDK, that exports crucible_plugin_query alone and in which nothing stays undefined. Installed, it lies in
# lib/crucible below the prefix, where a Crucible with the same prefix looks.
function(crucible_add_plugin name)
  if(NOT name MATCHES "^[a-z][a-z0-9_]*$")
    message(FATAL_ERROR "crucible_add_plugin: '${name}' is not a plugin's name: small letters, digits and '_'")
  endif()
  if(NOT ARGN)
    message(FATAL_ERROR "crucible_add_plugin(${name}): no sources")
  endif()
  add_library(crucible_${name} MODULE ${ARGN})
  target_link_libraries(crucible_${name} PRIVATE Crucible::sdk ${CMAKE_DL_LIBS})
  target_link_options(crucible_${name} PRIVATE
    -Wl,--version-script=${CRUCIBLE_EXPORTS_MAP} -Wl,-z,defs -Wl,--as-needed)
  set_target_properties(crucible_${name} PROPERTIES
    C_VISIBILITY_PRESET hidden
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON
    PREFIX lib
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}
    LINK_DEPENDS ${CRUCIBLE_EXPORTS_MAP})
  install(TARGETS crucible_${name} LIBRARY DESTINATION lib/crucible)
endfunction()

# crucible_install_manifest(TARGET [FOLDER FOLDER]): installing also writes NAME.json, by which every Crucible of this user finds the
# installed plugin and knows its SHA-256, and the target `uninstall` removes plugin, manifest and certificate of each place
# where it was installed from this build folder. The manifest lies in FOLDER or CRUCIBLE_MANIFEST_FOLDER
# (/etc/crucible/plugins.d: all users); without either in the user's folder, or where DESTDIR says that a package is made in
# /etc/crucible/plugins.d.
function(crucible_install_manifest target)
  cmake_parse_arguments(PARSE_ARGV 1 manifest "" "FOLDER" "")
  if(NOT target MATCHES "^crucible_[a-z][a-z0-9_]*$" OR NOT TARGET ${target})
    message(FATAL_ERROR "crucible_install_manifest: '${target}' is no target of crucible_add_plugin: give crucible_NAME")
  endif()
  if(manifest_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "crucible_install_manifest(${target}): '${manifest_UNPARSED_ARGUMENTS}' is none of its words: FOLDER")
  endif()
  set(folder "${manifest_FOLDER}")
  if(NOT folder)
    set(folder "${CRUCIBLE_MANIFEST_FOLDER}")
  endif()
  if(folder AND NOT IS_ABSOLUTE "${folder}")
    message(FATAL_ERROR "crucible_install_manifest(${target}): the folder ${folder} is not absolute")
  endif()
  string(REGEX REPLACE "^crucible_" "" name ${target})
  set(record ${PROJECT_BINARY_DIR}/CMakeFiles/installed_${target}.txt)
  # After the rule of crucible_add_plugin, for rules run in the order in which they are written.
  install(CODE "
    set(CRUCIBLE_ACTION install)
    set(CRUCIBLE_NAME [[${name}]])
    set(CRUCIBLE_RECORD [[${record}]])
    set(CRUCIBLE_FOLDER [[${folder}]])
    get_filename_component(CRUCIBLE_PLUGIN \"\${CMAKE_INSTALL_PREFIX}/lib/crucible/lib${target}.so\" ABSOLUTE)
    include([[${CRUCIBLE_MANIFEST_SCRIPT}]])")
  add_custom_target(uninstall_${target}
    COMMAND ${CMAKE_COMMAND} -DCRUCIBLE_ACTION=uninstall -DCRUCIBLE_NAME=${name} -DCRUCIBLE_RECORD=${record}
            -P ${CRUCIBLE_MANIFEST_SCRIPT}
    VERBATIM)
  if(NOT TARGET uninstall)
    add_custom_target(uninstall)
  endif()
  add_dependencies(uninstall uninstall_${target})
endfunction()

# crucible_check_plugin(TARGET [OPTION...]): a CTest test that runs the conformance kit on a plugin of crucible_add_plugin;
# the options are those of `crucible plugin check`, such as --quick or --set library=PATH. The plugin also has the options whose
# variables are set where the test runs.
function(crucible_check_plugin target)
  add_test(NAME ${target}.conformance COMMAND Crucible::crucible plugin check $<TARGET_FILE:${target}> ${ARGN})
  set_tests_properties(${target}.conformance PROPERTIES TIMEOUT 600)
endfunction()
