# luminal_embed(TARGET NAME FILE...): put files into the binary, readable as luminal::embedded::NAME().
#
# In a component: src/<component>/component.cmake says luminal_embed(luminal_${component}_objects
# rules ${component_dir}/fuse.egg ...), and a .cpp of the component declares at file scope
#   #include "base/embedded.h"
#   LUMINAL_EMBEDDED(rules)           // std::span<const luminal::EmbeddedFile> luminal::embedded::rules()
# Files keep the order given; each is known by its name without folders, aligned to 64 bytes and
# followed by a zero byte that is not counted. The assembler copies the bytes (.incbin), so a large
# file costs no compile time.
function(luminal_embed target name)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/embedded/${target}/${name}.cpp)
  set(declarations "")
  set(blobs "")
  set(rows "")
  set(index 0)
  set(seen "")
  set(paths "")
  foreach(file ${ARGN})
    cmake_path(ABSOLUTE_PATH file BASE_DIRECTORY ${CMAKE_CURRENT_LIST_DIR} NORMALIZE)
    if(NOT EXISTS ${file})
      message(FATAL_ERROR "luminal_embed(${target} ${name}): there is no ${file}")
    endif()
    cmake_path(GET file FILENAME file_name)
    if(file_name IN_LIST seen)
      message(FATAL_ERROR "luminal_embed(${target} ${name}): two files are called ${file_name}")
    endif()
    list(APPEND seen ${file_name})
    list(APPEND paths ${file})
    set(symbol luminal_embedded_${name}_${index})
    string(APPEND blobs "EMBED(\"${symbol}\", \"${file}\")\n")
    string(APPEND declarations "extern const char ${symbol}_begin[], ${symbol}_end[];\n")
    string(APPEND rows "      file(\"${file_name}\", ${symbol}_begin, ${symbol}_end),\n")
    math(EXPR index "${index} + 1")
  endforeach()
  if(index EQUAL 0)
    message(FATAL_ERROR "luminal_embed(${target} ${name}) names no file")
  endif()
  configure_file(${PROJECT_SOURCE_DIR}/cmake/embedded.cpp.in ${source} @ONLY)
  set_source_files_properties(${source} TARGET_DIRECTORY ${target} PROPERTIES
    OBJECT_DEPENDS "${paths}" SKIP_UNITY_BUILD_INCLUSION ON)
  target_sources(${target} PRIVATE ${source})
endfunction()
