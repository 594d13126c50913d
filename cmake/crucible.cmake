# Compiler settings and the two functions that every folder uses.

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(PkgConfig REQUIRED)
pkg_check_modules(zstd REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(seccomp REQUIRED IMPORTED_TARGET libseccomp)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
if(CRUCIBLE_BUILD_TESTS)
  find_package(GTest REQUIRED)
  find_package(benchmark REQUIRED)
endif()

add_library(crucible_settings INTERFACE)
target_include_directories(crucible_settings INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(crucible_settings INTERFACE -Wall -Wextra -Wpedantic -Wno-unused-parameter)
if(CRUCIBLE_SANITIZER STREQUAL "address")
  target_compile_options(crucible_settings INTERFACE -fsanitize=address,undefined -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
  target_link_options(crucible_settings INTERFACE -fsanitize=address,undefined)
elseif(CRUCIBLE_SANITIZER STREQUAL "thread")
  target_compile_options(crucible_settings INTERFACE -fsanitize=thread -fno-omit-frame-pointer)
  target_link_options(crucible_settings INTERFACE -fsanitize=thread)
elseif(CRUCIBLE_SANITIZER)
  message(FATAL_ERROR "CRUCIBLE_SANITIZER is '${CRUCIBLE_SANITIZER}': use address or thread")
endif()

if(CRUCIBLE_FUZZERS)
  target_compile_options(crucible_settings INTERFACE -fsanitize=fuzzer-no-link,address,undefined -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
  target_link_options(crucible_settings INTERFACE -fsanitize=address,undefined)
endif()

# Headers that most files include are parsed once and kept. They are only a saving: every file includes what it uses, and
# -DCRUCIBLE_PRECOMPILED_HEADERS=OFF builds without. Clang takes no precompiled header of other options, which GCC does.
set(crucible_precompile_default OFF)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT CRUCIBLE_SANITIZER)
  set(crucible_precompile_default ON)
endif()
option(CRUCIBLE_PRECOMPILED_HEADERS "Precompile the headers that most files include" ${crucible_precompile_default})
# Named by what they are called in brackets: no path of this clone is in what is compiled, so that the compiler cache serves others, too. Nothing
# of ours is among them: a change of ours would compile everything.
set(crucible_standard_headers
    <algorithm> <array> <bit> <charconv> <cmath> <cstdint> <cstring> <deque> <expected> <functional> <limits>
    <map> <memory> <mutex> <numeric> <optional> <ranges> <set> <span> <string> <string_view> <unordered_map>
    <unordered_set> <utility> <variant> <vector>)

# crucible_precompile(NAME HEADERS ... [EXECUTABLE] [OPTIONS ...] [LIBRARIES ...]): the target crucible_NAME, whose precompiled headers others reuse.
# EXECUTABLE: for the objects of executables, which are compiled as such (-fPIE).
function(crucible_precompile name)
  cmake_parse_arguments(arg "EXECUTABLE" "" "HEADERS;OPTIONS;LIBRARIES" ${ARGN})
  set(source ${CMAKE_BINARY_DIR}/precompiled/${name}.cpp)
  if(arg_EXECUTABLE)
    file(CONFIGURE OUTPUT ${source} CONTENT "int main() {}\n" @ONLY)
    add_executable(crucible_${name} EXCLUDE_FROM_ALL ${source})
  else()
    file(CONFIGURE OUTPUT ${source} CONTENT "// Nothing but the headers.\n" @ONLY)
    add_library(crucible_${name} OBJECT EXCLUDE_FROM_ALL ${source})
  endif()
  target_link_libraries(crucible_${name} PRIVATE crucible_settings ${arg_LIBRARIES})
  target_compile_options(crucible_${name} PRIVATE ${arg_OPTIONS})
  target_precompile_headers(crucible_${name} PRIVATE ${arg_HEADERS})
endfunction()

# GoogleTest's templates take most of the build's time when they are optimised; what is tested is in the modules.
set(crucible_test_options -O0 -g0)
if(CRUCIBLE_PRECOMPILED_HEADERS)
  crucible_precompile(pch_std HEADERS ${crucible_standard_headers})  # for plugins and emulators, which have nothing of others
  crucible_precompile(pch_core HEADERS ${crucible_standard_headers} <fmt/format.h> LIBRARIES fmt::fmt)
  if(CRUCIBLE_BUILD_TESTS)
    set(test_headers ${crucible_standard_headers} <fmt/format.h> <gmock/gmock.h> <gtest/gtest.h>)
    set(test_libraries fmt::fmt GTest::gtest GTest::gmock)
    crucible_precompile(pch_test EXECUTABLE HEADERS ${test_headers} OPTIONS ${crucible_test_options} LIBRARIES ${test_libraries})
    crucible_precompile(pch_test_objects HEADERS ${test_headers} OPTIONS ${crucible_test_options} LIBRARIES ${test_libraries})
  endif()
endif()

# crucible_reuse(TARGET PCH): TARGET's C++ files see the precompiled header of the target crucible_PCH, where there is one.
function(crucible_reuse target pch)
  if(TARGET crucible_${pch})
    target_precompile_headers(${target} REUSE_FROM crucible_${pch})
  endif()
endfunction()

# crucible_as_tests_are(TARGET): a library of objects for tests, compiled as tests are.
function(crucible_as_tests_are target)
  target_link_libraries(${target} PUBLIC fmt::fmt GTest::gtest GTest::gmock)
  target_compile_options(${target} PRIVATE ${crucible_test_options})
  crucible_reuse(${target} pch_test_objects)
endfunction()

# crucible_add_module(NAME SOURCES ... LINKS ...): one module of core/ as a static library crucible_NAME, for tests
# and the recorder. The objects of all modules together are the shared library crucible_core (core/CMakeLists.txt).
function(crucible_add_module name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINKS" ${ARGN})
  add_library(crucible_${name}_objects OBJECT ${arg_SOURCES})
  target_link_libraries(crucible_${name}_objects PUBLIC crucible_settings ${arg_LINKS} fmt::fmt)
  crucible_reuse(crucible_${name}_objects pch_core)
  add_library(crucible_${name} STATIC $<TARGET_OBJECTS:crucible_${name}_objects>)
  add_library(crucible::${name} ALIAS crucible_${name})
  target_link_libraries(crucible_${name} PUBLIC crucible_settings ${arg_LINKS})
endfunction()

# crucible_add_test(NAME SOURCES ... LINKS ... [LABELS ...]): a GoogleTest program; each of its cases is one CTest test.
# LABELS say what it needs: none (default), torch, emulator, nvidia, amd, intel.
function(crucible_add_test name)
  if(NOT CRUCIBLE_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(arg "" "" "SOURCES;LINKS;LABELS" ${ARGN})
  if(NOT arg_LABELS)
    set(arg_LABELS none)
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE crucible_settings ${arg_LINKS} fmt::fmt GTest::gtest_main GTest::gmock)
  target_compile_options(${name} PRIVATE ${crucible_test_options})
  crucible_reuse(${name} pch_test)
  include(GoogleTest)
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES LABELS "${arg_LABELS}" TIMEOUT 300)
endfunction()
