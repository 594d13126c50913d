# What crucible_install_manifest (CruciblePlugin.cmake) does when a plugin is installed and when it is uninstalled. A script of its
# own, for both happen after the project was configured. It is told:
#   CRUCIBLE_ACTION   install or uninstall
#   CRUCIBLE_NAME     the plugin's name
#   CRUCIBLE_RECORD   a file of the build folder: a line "PLUGIN|MANIFEST" for each place where it was installed
# and to install also:
#   CRUCIBLE_PLUGIN   the installed file, without DESTDIR
#   CRUCIBLE_FOLDER   the folder of the manifest, or "": the user's, or the system's where DESTDIR says that a package is made

function(crucible_choose_folder out)
  if(CRUCIBLE_FOLDER)
    set(folder ${CRUCIBLE_FOLDER})
  elseif(NOT "$ENV{DESTDIR}" STREQUAL "")
    set(folder /etc/crucible/plugins.d)
  elseif(IS_ABSOLUTE "$ENV{XDG_CONFIG_HOME}")
    set(folder $ENV{XDG_CONFIG_HOME}/crucible/plugins.d)
  elseif(IS_ABSOLUTE "$ENV{HOME}")
    set(folder $ENV{HOME}/.config/crucible/plugins.d)
  else()
    message(FATAL_ERROR "the manifest of ${CRUCIBLE_NAME}: neither XDG_CONFIG_HOME nor HOME is set: name a folder with "
                        "-DCRUCIBLE_MANIFEST_FOLDER=/etc/crucible/plugins.d")
  endif()
  set(${out} ${folder} PARENT_SCOPE)
endfunction()

function(crucible_write_manifest)
  crucible_choose_folder(folder)
  set(manifest "$ENV{DESTDIR}${folder}/${CRUCIBLE_NAME}.json")
  set(plugin "$ENV{DESTDIR}${CRUCIBLE_PLUGIN}")
  # Of the installed file: installing changes search paths in it, and with --strip its symbols.
  file(SHA256 "${plugin}" sha256)
  string(REGEX REPLACE "([\\\"])" "\\\\\\1" path "${CRUCIBLE_PLUGIN}")
  message(STATUS "Manifest: ${manifest}")
  file(WRITE "${manifest}" "{\"path\": \"${path}\", \"name\": \"${CRUCIBLE_NAME}\", \"sha256\": \"${sha256}\"}\n")
  set(lines "")
  if(EXISTS "${CRUCIBLE_RECORD}")
    file(STRINGS "${CRUCIBLE_RECORD}" lines)
  endif()
  list(APPEND lines "${plugin}|${manifest}")
  list(REMOVE_DUPLICATES lines)
  list(JOIN lines "\n" text)
  file(WRITE "${CRUCIBLE_RECORD}" "${text}\n")
endfunction()

function(crucible_remove_file file)
  if(EXISTS "${file}" OR IS_SYMLINK "${file}")
    file(REMOVE "${file}")
    message(STATUS "Removed: ${file}")
  endif()
endfunction()

function(crucible_uninstall)
  if(NOT EXISTS "${CRUCIBLE_RECORD}")
    message(STATUS "Nothing to remove: plugin ${CRUCIBLE_NAME} was not installed from this build folder")
    return()
  endif()
  file(STRINGS "${CRUCIBLE_RECORD}" lines)
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^(.*)\\|(.*)$" "\\1" plugin "${line}")
    string(REGEX REPLACE "^(.*)\\|(.*)$" "\\2" manifest "${line}")
    crucible_remove_file("${manifest}")  # first: it must not name what is gone
    crucible_remove_file("${plugin}.certificate.json")
    crucible_remove_file("${plugin}")
  endforeach()
  file(REMOVE "${CRUCIBLE_RECORD}")
  if(IS_ABSOLUTE "$ENV{XDG_CACHE_HOME}")
    set(cache $ENV{XDG_CACHE_HOME}/crucible/${CRUCIBLE_NAME})
  else()
    set(cache $ENV{HOME}/.cache/crucible/${CRUCIBLE_NAME})
  endif()
  message(STATUS "Left: kernels that were compiled for ${CRUCIBLE_NAME}, in ${cache} of each user (or where the option "
                 "cache_dir said), and its tables in crucible.toml files")
endfunction()

if(CRUCIBLE_ACTION STREQUAL "install")
  crucible_write_manifest()
else()
  crucible_uninstall()
endif()
