# Compiler and linker flags shared by every target, and ccache.
if(PROJECT_IS_TOP_LEVEL)
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
  endif()
  # Kernels are generated at run time; the compiler's own code gains nothing from -O3 and builds a
  # third longer.
  if(CMAKE_CXX_FLAGS_RELEASE STREQUAL "-O3 -DNDEBUG")
    set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
  endif()
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
  find_program(LUMINAL_CCACHE ccache)
  if(LUMINAL_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${LUMINAL_CCACHE})
  endif()
endif()

# Much of the time of a file is its headers and the templates that it shares with its folder.
option(LUMINAL_UNITY "Compile the files of a folder in groups: a clean build takes less than half of the time"
  ${PROJECT_IS_TOP_LEVEL})
# luminal_unity(target): its files are compiled in groups of about the same size, at most sixteen.
function(luminal_unity target)
  if(LUMINAL_UNITY)
    get_target_property(sources ${target} SOURCES)
    list(LENGTH sources count)
    math(EXPR groups "(${count} + 15) / 16")
    math(EXPR size "(${count} + ${groups} - 1) / ${groups}")
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${size}
      UNITY_BUILD_RELOCATABLE ON)
    # In a group g++ takes a type of a file's unnamed namespace for one of a header.
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
endfunction()

set(LUMINAL_SANITIZE "" CACHE STRING "Sanitizers, as in -fsanitize=: address, undefined, thread")
option(LUMINAL_WERROR "Warnings are errors" OFF)

add_library(luminal_options INTERFACE)
target_compile_features(luminal_options INTERFACE cxx_std_20)
# A local may have the name of what another file of its group holds.
target_compile_options(luminal_options INTERFACE
  -Wall -Wextra $<$<NOT:$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>>:-Wshadow>
  -Wno-missing-field-initializers -ffp-contract=off
  $<$<BOOL:${LUMINAL_WERROR}>:-Werror>)
# g++ 12's straight-line vectorizer drops the rounding of double(float(x)) where two lanes meet
# (tests/ir: FmaRoundsOnce).
target_compile_options(luminal_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:-fno-tree-slp-vectorize>)
# g++ may leave the unlikely part of a function empty. lld then keeps one unwind entry for two functions,
# and an exception in the other one ends the program (tools/check_tidy.py takes the flag away for clang).
target_compile_options(luminal_options INTERFACE
  $<$<CXX_COMPILER_ID:GNU>:-fno-reorder-blocks-and-partition>)
if(BUILD_SHARED_LIBS)
  target_compile_options(luminal_options INTERFACE -fPIC -fno-semantic-interposition)
endif()
if(LUMINAL_SANITIZE)
  # vptr needs the type information of LLVM, which distributions may build without.
  target_compile_options(luminal_options INTERFACE
    -fsanitize=${LUMINAL_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -fno-sanitize=vptr)
  string(REPLACE "fuzzer-no-link," "" luminal_link_sanitizers "${LUMINAL_SANITIZE}")
  target_link_options(luminal_options INTERFACE -fsanitize=${luminal_link_sanitizers})
endif()
target_include_directories(luminal_options INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>)
if(UNIX AND NOT APPLE)
  target_link_options(luminal_options INTERFACE -Wl,--as-needed)
endif()
