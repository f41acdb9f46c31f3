# Compiler settings and the few functions that the folders use to say what they build.
include(GNUInstallDirs)

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

# Checks of ours (KVH_CHECK) do not hang on NDEBUG, so no build type sets it.
set(CMAKE_C_FLAGS_RELEASE "-O2 -g")
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

# Found here, at the top, so that every folder sees the imported targets.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
if(KVH_TESTS)
  pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
  pkg_check_modules(FIU REQUIRED IMPORTED_TARGET libfiu)
endif()

# Every target of ours takes its flags from here and nowhere else.
add_library(kvh_flags INTERFACE)
target_compile_definitions(kvh_flags INTERFACE _GNU_SOURCE)
target_compile_options(kvh_flags INTERFACE
  -Wall -Wextra -Wshadow -Wvla -Wstrict-prototypes -Wmissing-prototypes -Wwrite-strings
  -Wpointer-arith -Wcast-qual -Wundef -fno-omit-frame-pointer -fexceptions
  $<$<BOOL:${KVH_WERROR}>:-Werror>
  $<$<C_COMPILER_ID:Clang>:-Wthread-safety>)
if(KVH_SANITIZE)
  # gcc's own page: with sanitizers this warning has false positives. The other builds keep it.
  target_compile_options(kvh_flags INTERFACE -fsanitize=${KVH_SANITIZE} -fno-sanitize-recover=all
    $<$<C_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  target_link_options(kvh_flags INTERFACE -fsanitize=${KVH_SANITIZE})
endif()
if(KVH_COVERAGE)
  target_compile_options(kvh_flags INTERFACE --coverage -fprofile-update=atomic)
  target_link_options(kvh_flags INTERFACE --coverage)
endif()

# kvh_sources(file...): adds runtime sources to the one list that makes both libraries.
function(kvh_sources)
  foreach(file IN LISTS ARGN)
    set_property(GLOBAL APPEND PROPERTY KVH_SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/${file})
  endforeach()
endfunction()

# kvh_tool(NAME name SOURCES file... [LIBS lib...]): one command of the product. The target is
# NAME_tool, the program lies at the top of the build folder and is installed.
function(kvh_tool)
  cmake_parse_arguments(T "" "NAME" "SOURCES;LIBS" ${ARGN})
  set(target ${T_NAME}_tool)
  add_executable(${target} ${T_SOURCES})
  target_link_libraries(${target} PRIVATE kvh_flags ${T_LIBS})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${T_NAME}
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}
    INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  install(TARGETS ${target} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endfunction()

# How sanitizers behave in tests. An allocation that can't be is refused, as by the C library: tests
# ask for such ones.
set(KVH_SANITIZER_OPTIONS
  ASAN_OPTIONS=allocator_may_return_null=1:strict_string_checks=1:detect_stack_use_after_return=1
  UBSAN_OPTIONS=print_stacktrace=1
  TSAN_OPTIONS=allocator_may_return_null=1:halt_on_error=1:second_deadlock_stack=1)

# kvh_test(NAME name LABEL label SOURCES file... [ARGS arg...] [LIBS lib...] [TIMEOUT seconds]):
# one cmocka program over the testing library, registered with CTest. It runs through
# run_cmocka.sh, which leaves the outcome of every test function in results/ for the reports.
function(kvh_test)
  # Not ${ARGN}, which would take a list of labels apart.
  cmake_parse_arguments(PARSE_ARGV 0 T "" "NAME;LABEL;TIMEOUT" "SOURCES;ARGS;LIBS")
  string(REPLACE "." "_" target "test_${T_NAME}")
  add_executable(${target} ${T_SOURCES})
  target_link_libraries(${target} PRIVATE kvhold_testing kvh_flags PkgConfig::CMOCKA ${T_LIBS})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 300)
  endif()
  add_test(NAME ${T_NAME} COMMAND ${PROJECT_SOURCE_DIR}/cmake/run_cmocka.sh
    ${PROJECT_BINARY_DIR}/results/${T_NAME} $<TARGET_FILE:${target}> ${T_ARGS})
  set_tests_properties(${T_NAME} PROPERTIES LABELS "${T_LABEL}" TIMEOUT ${T_TIMEOUT}
    ENVIRONMENT "KVH_TEST_DATA=${PROJECT_SOURCE_DIR}/tests/data;${KVH_SANITIZER_OPTIONS}")
endfunction()
