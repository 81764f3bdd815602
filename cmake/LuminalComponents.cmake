# One library per folder of src/ ("component"). What a component may see is what LAYERS says.
#
#   luminal_<component>_objects   the compiled files
#   luminal_<component>           a static library of them: what tests, benchmarks and the components above
#                                 link
#
# A component without a .cpp has no library. A component that needs more than compiling says so in
# src/<component>/component.cmake, which is read after the targets exist (variables: component,
# component_dir), for example to embed files.
set(LUMINAL_COMPONENT_LIBRARIES_base fmt::fmt spdlog::spdlog PkgConfig::XXHASH Threads::Threads
  ${CMAKE_DL_LIBS})
set(LUMINAL_COMPONENT_LIBRARIES_extract nlohmann_json::nlohmann_json)
set(LUMINAL_COMPONENT_LIBRARIES_formats nlohmann_json::nlohmann_json PkgConfig::PCRE2 PkgConfig::UTF8PROC
  PkgConfig::LIBZ PkgConfig::SNDFILE luminal_stb)
set(LUMINAL_COMPONENT_LIBRARIES_codegen luminal_llvm)
set(LUMINAL_COMPONENT_LIBRARIES_device luminal_llvm)
set(LUMINAL_COMPONENT_LIBRARIES_search SQLite3::SQLite3 nlohmann_json::nlohmann_json)
set(LUMINAL_COMPONENT_LIBRARIES_cli CLI11::CLI11 nlohmann_json::nlohmann_json PkgConfig::HTTPLIB luminal_toml)

function(luminal_component component)
  set(component_dir ${PROJECT_SOURCE_DIR}/src/${component})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${component_dir}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/cli/main\\.cpp$")
  if(NOT sources)
    return()
  endif()
  set(links luminal_options ${LUMINAL_COMPONENT_LIBRARIES_${component}})
  foreach(below ${ARGN})
    if(TARGET luminal_${below})
      list(APPEND links luminal_${below})
    endif()
  endforeach()
  add_library(luminal_${component}_objects OBJECT ${sources})
  target_link_libraries(luminal_${component}_objects PUBLIC ${links})
  luminal_unity(luminal_${component}_objects)
  # Position-independent: one set of objects serves programs, the shared library and the Python module.
  set_target_properties(luminal_${component}_objects PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_compile_options(luminal_${component}_objects PRIVATE -fno-semantic-interposition)
  add_library(luminal_${component} STATIC $<TARGET_OBJECTS:luminal_${component}_objects>)
  set_target_properties(luminal_${component} PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(luminal_${component} PUBLIC ${links})
  set_property(GLOBAL APPEND PROPERTY LUMINAL_COMPONENTS ${component})
  include(${component_dir}/component.cmake OPTIONAL)
endfunction()

function(luminal_components_from_layers layers_file)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${layers_file})
  file(STRINGS ${layers_file} lines REGEX "^[a-z]+:")
  foreach(line ${lines})
    string(REGEX MATCH "^([a-z]+):(.*)$" _ "${line}")
    set(component ${CMAKE_MATCH_1})
    separate_arguments(below UNIX_COMMAND "${CMAKE_MATCH_2}")
    luminal_component(${component} ${below})
  endforeach()
endfunction()

# luminal_components_present(OUT component...): the libraries of those components that have code.
function(luminal_components_present out)
  set(present "")
  foreach(component ${ARGN})
    if(TARGET luminal_${component})
      list(APPEND present luminal_${component})
    endif()
  endforeach()
  set(${out} ${present} PARENT_SCOPE)
endfunction()
