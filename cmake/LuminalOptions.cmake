# Compiler flags shared by every target.
if(PROJECT_IS_TOP_LEVEL)
  if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
  endif()
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
  find_program(LUMINAL_CCACHE ccache)
  if(LUMINAL_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${LUMINAL_CCACHE})
  endif()
endif()

set(LUMINAL_SANITIZE "" CACHE STRING "Sanitizers, as in -fsanitize=: address, undefined, thread")

add_library(luminal_options INTERFACE)
target_compile_features(luminal_options INTERFACE cxx_std_20)
target_compile_options(luminal_options INTERFACE -Wall -Wextra -Wshadow -Wno-missing-field-initializers -ffp-contract=off)
if(LUMINAL_SANITIZE)
  target_compile_options(luminal_options INTERFACE -fsanitize=${LUMINAL_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(luminal_options INTERFACE -fsanitize=${LUMINAL_SANITIZE})
endif()
target_include_directories(luminal_options INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>)
