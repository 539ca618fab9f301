# Language, warnings and the options every target of the project shares.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O3")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g")

option(TESSERA_WERROR "Treat warnings as errors" ON)
set(TESSERA_TEST_DATA "${PROJECT_SOURCE_DIR}/test_data" CACHE PATH
    "Models and cases for tests, which say so and skip where it is absent; `make test-data` makes some")
option(TESSERA_BUILD_TESTS "Build the test suite" ON)
option(TESSERA_BUILD_FUZZERS "Build the libFuzzer targets (clang only)" OFF)
set(TESSERA_SANITIZE "" CACHE STRING "Sanitizers, for example address,undefined or thread")

# Everything is compiled as what has threads, so that all take the same precompiled headers.
add_compile_options(-pthread)

# GCC's own garbage collection takes a fifth of the compile time where it may not use a gigabyte.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options("SHELL:--param ggc-min-expand=300" "SHELL:--param ggc-min-heapsize=1000000")
endif()

# Compilations are looked up in ccache where there is one.
find_program(TESSERA_CCACHE ccache)
if(TESSERA_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Without the last two it does not keep what was compiled with a precompiled header.
  set(launcher ${CMAKE_COMMAND} -E env "CCACHE_SLOPPINESS=pch_defines,time_macros" ${TESSERA_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
endif()

if(TESSERA_SANITIZE)
  # Quick to compile; the sanitizers themselves cost more than the optimiser saves.
  set(CMAKE_CXX_FLAGS_RELEASE "-O1")
  add_compile_definitions(TESSERA_SANITIZED)
  add_compile_options(-fsanitize=${TESSERA_SANITIZE} -fno-sanitize-recover=all
                      -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${TESSERA_SANITIZE})
  if(TESSERA_SANITIZE MATCHES undefined)
    # Left out to compile quicker. The address sanitizer stops at a null pointer too; it does not see
    # a wrong dynamic type (vptr), nor all that object-size does.
    add_compile_options(-fno-sanitize=null,vptr,object-size)
  endif()
endif()
if(TESSERA_BUILD_FUZZERS)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "TESSERA_BUILD_FUZZERS needs clang; use: cmake --preset fuzz")
  endif()
  # Coverage for every library; the fuzz targets themselves add the driver (-fsanitize=fuzzer).
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# tessera_library(NAME SOURCES a.cc ... DEPENDS lib ...): one library a folder.
function(tessera_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;PRIVATE" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  tessera_target(${name})
  target_link_libraries(${name} PUBLIC ${ARG_DEPENDS} PRIVATE ${ARG_PRIVATE})
  tessera_standard_headers(${name} 3)
endfunction()

# tessera_standard_headers(NAME LEVEL [COMMAND]): NAME, which is compiled at -OLEVEL, takes the standard library
# precompiled; reading it takes a second for each source otherwise. One set for each level, made at its
# first use. COMMAND: options, JSON and fmt as well, four seconds more. A library says what it includes all
# the same: the checks read sources without them.
function(tessera_standard_headers name level)
  cmake_parse_arguments(ARG "COMMAND" "" "" ${ARGN})
  if(ARG_COMMAND)
    set(headers tessera_command_headers_${level})
  else()
    set(headers tessera_standard_headers_${level})
  endif()
  if(NOT TARGET ${headers})
    set(source ${PROJECT_BINARY_DIR}/${headers}.cc)
    file(CONFIGURE OUTPUT ${source} CONTENT "")
    add_library(${headers} OBJECT EXCLUDE_FROM_ALL ${source})
    tessera_target(${headers})
    target_compile_options(${headers} PRIVATE $<$<CONFIG:Release>:-O${level}>)
    target_precompile_headers(${headers} PRIVATE <algorithm> <array> <atomic> <bit> <chrono> <cmath>
                              <condition_variable> <cstdint> <cstdlib> <cstring> <deque> <filesystem>
                              <fstream> <functional> <limits> <map> <memory> <mutex> <numeric>
                              <optional> <queue> <random> <set> <span> <sstream> <string>
                              <string_view> <thread> <tuple> <unordered_map> <unordered_set> <utility>
                              <variant> <vector>)
    if(ARG_COMMAND)
      target_link_libraries(${headers} PRIVATE CLI11::CLI11 fmt::fmt nlohmann_json::nlohmann_json)
      target_precompile_headers(${headers} PRIVATE <CLI/CLI.hpp> <fmt/format.h> <nlohmann/json.hpp>)
    endif()
  endif()
  set_target_properties(${name} PROPERTIES PRECOMPILE_HEADERS_REUSE_FROM ${headers})
  add_dependencies(${name} ${headers})
endfunction()

# tessera_target(NAME): the compile options of every target. Modelled floating point must not be
# contracted, so that a*b+c rounds twice on every compiler (see docs/numbers.md).
function(tessera_target name)
  target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>
                                            $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
  # GCC 12 sees overlapping copies (-Wrestrict) and copies of negative sizes (-Warray-bounds) inside
  # std::string, and writes beyond the end inside fmt (-Wstringop-overflow), where there are none.
  # Clang 19 warns of a call that std::stable_sort of GCC 12's library makes.
  target_compile_options(${name} PRIVATE -Wall -Wextra -Wpedantic -ffp-contract=off
                                         $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
                                         $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds>
                                         $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow>
                                         $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>
                                         $<$<BOOL:${TESSERA_WERROR}>:-Werror>)
endfunction()

# tessera_light_optimisation(NAME [COMMAND] [EXCEPT a.cc ...]): for folders that read options and texts and
# write pages, where nothing takes long. They compile in half the time at -O1; what computes, and the
# EXCEPT sources, keep -O3. COMMAND: most sources of NAME read options or make JSON.
function(tessera_light_optimisation name)
  cmake_parse_arguments(ARG "COMMAND" "" "EXCEPT" ${ARGN})
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  get_target_property(own_headers ${name} PRECOMPILE_HEADERS)
  if(NOT own_headers)
    # As the libraries, whose precompiled headers it takes, and not as a program (-fPIE).
    target_compile_options(${name} PRIVATE -fPIC)
    if(ARG_COMMAND)
      tessera_standard_headers(${name} 1 COMMAND)
    else()
      tessera_standard_headers(${name} 1)
    endif()
  endif()
  if(NOT TESSERA_SANITIZE)
    set_source_files_properties(${ARG_EXCEPT} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON
                                SKIP_PRECOMPILE_HEADERS ON
                                COMPILE_OPTIONS $<$<CONFIG:Release>:-O3>)
  endif()
endfunction()

# tessera_test_options(NAME LEVEL): a test's own code is compiled as quickly as it can be, at -O0
# unless it computes much itself. The sanitizer of undefined behaviour looks at the product and at the
# tests that compute, which are those that take the product's templates apart.
function(tessera_test_options name level)
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O${level}>)
  if(TESSERA_SANITIZE MATCHES undefined AND level EQUAL 0)
    target_compile_options(${name} PRIVATE -fno-sanitize=undefined)
  endif()
  if(TESSERA_BUILD_FUZZERS)
    target_compile_options(${name} PRIVATE -fno-sanitize=fuzzer-no-link)
  endif()
endfunction()

# tessera_unity(NAME [ALONE a.cc ...]): sources of NAME are compiled a few at a time, as one file,
# which reads the headers once. ALONE: those whose local names meet another's.
option(TESSERA_UNITY "Compile several sources at once: a full build is quicker, a small change is not"
       OFF)
function(tessera_unity name)
  cmake_parse_arguments(ARG "" "" "ALONE" ${ARGN})
  if(NOT TARGET ${name})
    return()
  endif()
  set_target_properties(${name} PROPERTIES UNITY_BUILD ${TESSERA_UNITY} UNITY_BUILD_BATCH_SIZE 20)
  set_source_files_properties(${ARG_ALONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# All programs with the label unit; what a whole sanitizer run builds. A run that has less time takes
# one of the parts, tessera_unit_tests_K, whose tests have the label part_K.
add_custom_target(tessera_unit_tests)
set(TESSERA_UNIT_TEST_PARTS 4)
set_property(GLOBAL PROPERTY TESSERA_UNIT_TEST_COUNT 0)
function(tessera_unit_test name)
  get_property(count GLOBAL PROPERTY TESSERA_UNIT_TEST_COUNT)
  math(EXPR part "${count} % ${TESSERA_UNIT_TEST_PARTS}")
  math(EXPR count "${count} + 1")
  set_property(GLOBAL PROPERTY TESSERA_UNIT_TEST_COUNT ${count})
  if(NOT TARGET tessera_unit_tests_${part})
    add_custom_target(tessera_unit_tests_${part})
    add_dependencies(tessera_unit_tests tessera_unit_tests_${part})
  endif()
  add_dependencies(tessera_unit_tests_${part} ${name})
  set_property(TEST ${name} APPEND PROPERTY LABELS part_${part})
endfunction()

# tessera_test_headers(NAME LEVEL): NAME takes GoogleTest and the standard library precompiled. At -O0
# reading them is half of a test's compile time. One set for each level, made at its first use.
function(tessera_test_headers name level)
  set(headers tessera_test_headers_${level})
  if(NOT TARGET ${headers})
    set(source ${PROJECT_BINARY_DIR}/${headers}.cc)
    file(CONFIGURE OUTPUT ${source} CONTENT "int main() { return 0; }\n")
    add_executable(${headers} EXCLUDE_FROM_ALL ${source})
    tessera_target(${headers})
    tessera_test_options(${headers} ${level})
    target_link_libraries(${headers} PRIVATE GTest::gtest_main GTest::gmock fmt::fmt)
    target_precompile_headers(${headers} PRIVATE <gtest/gtest.h> <fmt/format.h> <algorithm> <array>
                              <cmath> <cstdint> <cstdlib> <cstring> <filesystem> <fstream> <functional>
                              <limits> <map> <memory> <optional> <random> <set> <span> <sstream>
                              <string> <string_view> <tuple> <unordered_map> <utility> <variant>
                              <vector>)
  endif()
  target_precompile_headers(${name} REUSE_FROM ${headers})
endfunction()

# tessera_test(NAME [COMPUTES] [WHOLE] SOURCES ... [ALONE ...] DEPENDS ... LABELS ...): one GoogleTest
# program, one ctest entry. COMPUTES: it spends long in references of its own. ALONE: see tessera_unity().
# Labels: unit agreement timing cli errors driver install house, and slow or threads besides;
# long: left to `make test-long`, because a smaller form is among the others. WHOLE: the program is that
# smaller form by itself (base/test_volume.h); NAME_whole is the long one. The longer a test takes, the
# higher its property COST: ctest starts those first, so that none runs alone at the end.
function(tessera_test name)
  if(NOT TESSERA_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "COMPUTES;WHOLE" "" "SOURCES;ALONE;DEPENDS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  tessera_target(${name})
  tessera_unity(${name} ALONE ${ARG_ALONE})
  if(ARG_COMPUTES)
    set(level 1)
  else()
    set(level 0)
  endif()
  tessera_test_options(${name} ${level})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} GTest::gtest_main GTest::gmock)
  tessera_test_headers(${name} ${level})
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}")
  if(ARG_WHOLE)
    set_tests_properties(${name} PROPERTIES COST 20)
  endif()
  if(ARG_WHOLE AND NOT TESSERA_SANITIZE)
    add_test(NAME ${name}_whole COMMAND ${name})
    set_tests_properties(${name}_whole PROPERTIES LABELS long ENVIRONMENT TESSERA_TEST_WHOLE=1)
  endif()
  if("unit" IN_LIST ARG_LABELS)
    tessera_unit_test(${name})
  endif()
endfunction()
