# Functions for authors of plugins.
set(CRUCIBLE_EXPORTS_MAP ${CMAKE_CURRENT_LIST_DIR}/exports.map)

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

# crucible_check_plugin(TARGET [OPTION...]): a CTest test that runs the conformance kit on a plugin of crucible_add_plugin;
# the options are those of `crucible plugin check`, such as --quick.
function(crucible_check_plugin target)
  add_test(NAME ${target}.conformance COMMAND Crucible::crucible plugin check $<TARGET_FILE:${target}> ${ARGN})
  set_tests_properties(${target}.conformance PROPERTIES TIMEOUT 600)
endfunction()
