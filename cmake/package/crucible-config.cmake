# find_package(crucible): the same package for who writes its name as the command is called.
include(${CMAKE_CURRENT_LIST_DIR}/CrucibleConfig.cmake)
set(crucible_FOUND ${Crucible_FOUND})
