# One library per folder of src/ ("room"). What a room may see is what LAYERS says.
#
#   luminal_<room>_objects   the compiled files
#   luminal_<room>           a static library of them: what tests, benchmarks and the rooms above link
#
# A room without a .cpp has no library. A room that needs more than compiling says so in src/<room>/room.cmake,
# which is read after the targets exist (variables: room, room_dir), for example to embed files.
set(LUMINAL_ROOM_LIBRARIES_base fmt::fmt spdlog::spdlog PkgConfig::XXHASH Threads::Threads ${CMAKE_DL_LIBS})
set(LUMINAL_ROOM_LIBRARIES_extract nlohmann_json::nlohmann_json)
set(LUMINAL_ROOM_LIBRARIES_formats nlohmann_json::nlohmann_json PkgConfig::PCRE2 PkgConfig::UTF8PROC PkgConfig::LIBZ)
set(LUMINAL_ROOM_LIBRARIES_codegen luminal_llvm)
set(LUMINAL_ROOM_LIBRARIES_device luminal_llvm)
set(LUMINAL_ROOM_LIBRARIES_search SQLite3::SQLite3 nlohmann_json::nlohmann_json)
set(LUMINAL_ROOM_LIBRARIES_cli CLI11::CLI11 nlohmann_json::nlohmann_json)

function(luminal_room room)
  set(room_dir ${PROJECT_SOURCE_DIR}/src/${room})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${room_dir}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/cli/main\\.cpp$")
  if(NOT sources)
    return()
  endif()
  set(links luminal_options ${LUMINAL_ROOM_LIBRARIES_${room}})
  foreach(below ${ARGN})
    if(TARGET luminal_${below})
      list(APPEND links luminal_${below})
    endif()
  endforeach()
  add_library(luminal_${room}_objects OBJECT ${sources})
  target_link_libraries(luminal_${room}_objects PUBLIC ${links})
  add_library(luminal_${room} STATIC $<TARGET_OBJECTS:luminal_${room}_objects>)
  set_target_properties(luminal_${room} PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(luminal_${room} PUBLIC ${links})
  set_property(GLOBAL APPEND PROPERTY LUMINAL_ROOMS ${room})
  include(${room_dir}/room.cmake OPTIONAL)
endfunction()

function(luminal_rooms_from_layers layers_file)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${layers_file})
  file(STRINGS ${layers_file} lines REGEX "^[a-z]+:")
  foreach(line ${lines})
    string(REGEX MATCH "^([a-z]+):(.*)$" _ "${line}")
    set(room ${CMAKE_MATCH_1})
    separate_arguments(below UNIX_COMMAND "${CMAKE_MATCH_2}")
    luminal_room(${room} ${below})
  endforeach()
endfunction()

# luminal_rooms_present(OUT room...): the libraries of those rooms that have code.
function(luminal_rooms_present out)
  set(present "")
  foreach(room ${ARGN})
    if(TARGET luminal_${room})
      list(APPEND present luminal_${room})
    endif()
  endforeach()
  set(${out} ${present} PARENT_SCOPE)
endfunction()
