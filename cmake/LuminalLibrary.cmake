# The installed library (Luminal::luminal, all components but cli), the program, and their install rules.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

get_property(components GLOBAL PROPERTY LUMINAL_COMPONENTS)
list(REMOVE_ITEM components cli)

set(objects "")
set(libraries "")
foreach(component ${components})
  list(APPEND objects $<TARGET_OBJECTS:luminal_${component}_objects>)
  list(APPEND libraries ${LUMINAL_COMPONENT_LIBRARIES_${component}})
endforeach()
list(REMOVE_DUPLICATES libraries)
set(uses_llvm OFF)
if(luminal_llvm IN_LIST libraries)
  set(uses_llvm ON)
  list(REMOVE_ITEM libraries luminal_llvm)
endif()
# Headers only: nothing to link.
list(REMOVE_ITEM libraries nlohmann_json::nlohmann_json CLI11::CLI11 luminal_boost luminal_stb luminal_toml)

# The e-graph engine alone (docs/egraph.md): the headers of its folders under the names that users
# include, <luminal/egraph/..>.
set(engine_folder ${PROJECT_BINARY_DIR}/generated/engine)
foreach(header base/hash.h egraph/types.h egraph/rule.h egraph/report.h egraph/egraph.h extract/extract.h
  egg/egg_values.h
        egg/egg_program.h)
  set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
    ${PROJECT_SOURCE_DIR}/src/${header})
  file(READ ${PROJECT_SOURCE_DIR}/src/${header} text)
  string(REGEX REPLACE "#include \"(base|egraph|extract|egg)/" "#include \"luminal/egraph/" text "${text}")
  cmake_path(GET header FILENAME name)
  file(CONFIGURE OUTPUT ${engine_folder}/luminal/egraph/${name} CONTENT "${text}" @ONLY)
endforeach()

# No public header shows a type of another library, so users compile against include/luminal alone;
# what is linked behind it matters to them only where the library is static.
add_library(luminal_library ${objects})
add_library(Luminal::luminal ALIAS luminal_library)
set_target_properties(luminal_library PROPERTIES
  OUTPUT_NAME luminal EXPORT_NAME luminal LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
target_compile_features(luminal_library PUBLIC cxx_std_20)
target_include_directories(luminal_library PUBLIC
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<BUILD_INTERFACE:${engine_folder}>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(luminal_library PRIVATE $<BUILD_INTERFACE:luminal_options> ${libraries})
if(uses_llvm)
  target_link_libraries(luminal_library PRIVATE $<BUILD_INTERFACE:luminal_llvm>
    $<INSTALL_INTERFACE:Luminal::LLVM>)
endif()

if(TARGET luminal_cli_objects)
  target_compile_definitions(luminal_cli_objects PRIVATE LUMINAL_VERSION="${PROJECT_VERSION}")
endif()

# The program. The file build_info.h is made anew when the commit changes, and seen by main.cpp only.
if(EXISTS ${PROJECT_SOURCE_DIR}/src/cli/main.cpp)
  set(info_command ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR}
    -DOUT=${PROJECT_BINARY_DIR}/generated/build_info.h
      -DLLVM=${LLVM_PACKAGE_VERSION} -DBUILD_TYPE=${CMAKE_BUILD_TYPE}
      "-DCOMPILER=${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}"
      -P ${PROJECT_SOURCE_DIR}/cmake/BuildInfo.cmake)
  add_custom_target(luminal_build_info BYPRODUCTS ${PROJECT_BINARY_DIR}/generated/build_info.h
    COMMAND ${info_command} COMMENT "Reading the commit" VERBATIM)
  add_executable(luminal src/cli/main.cpp)
  add_dependencies(luminal luminal_build_info)
  target_include_directories(luminal PRIVATE ${PROJECT_BINARY_DIR}/generated)
  target_compile_definitions(luminal PRIVATE LUMINAL_VERSION="${PROJECT_VERSION}")
  luminal_components_present(program_components cli ${components})
  target_link_libraries(luminal PRIVATE luminal_options ${program_components})
  set_target_properties(luminal PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
endif()

# The C interface alone (luminal/c.h): what other languages load. It shows luminal_* and nothing else.
add_library(luminal_c SHARED EXCLUDE_FROM_ALL $<TARGET_OBJECTS:luminal_capi_objects>)
luminal_components_present(c_components ${components})
target_link_libraries(luminal_c PRIVATE luminal_options ${c_components})
target_include_directories(luminal_c INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
set_target_properties(luminal_c PROPERTIES LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION} SOVERSION
  ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
  LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
if(UNIX AND NOT APPLE)
  target_link_options(luminal_c PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/src/capi/exported.map)
  set_target_properties(luminal_c PROPERTIES LINK_DEPENDS ${PROJECT_SOURCE_DIR}/src/capi/exported.map)
endif()

option(LUMINAL_INSTALL "Make install rules" ${PROJECT_IS_TOP_LEVEL})
if(NOT LUMINAL_INSTALL)
  return()
endif()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Luminal)
if(TARGET luminal)
  install(TARGETS luminal RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
# The component `library` is what python/wheel links.
install(TARGETS luminal_library EXPORT LuminalTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  COMPONENT library
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT library)
install(TARGETS luminal_c LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} OPTIONAL)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/luminal DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT
  library
  FILES_MATCHING PATTERN "*.h")
install(DIRECTORY ${engine_folder}/luminal/egraph DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/luminal)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE-MIT ${PROJECT_SOURCE_DIR}/LICENSE-APACHE
  DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/luminal)
install(EXPORT LuminalTargets NAMESPACE Luminal:: DESTINATION ${package_dir} COMPONENT library)

# What a user of the static library must find: the lines of LuminalConfig.cmake and luminal.pc.
set(config_dependencies "")
set(pc_modules "")
set(pc_flags -pthread)
if(NOT BUILD_SHARED_LIBS)
  foreach(library ${libraries})
    if(library STREQUAL "Threads::Threads")
      string(APPEND config_dependencies "find_dependency(Threads)\n")
    elseif(library STREQUAL "fmt::fmt")
      string(APPEND config_dependencies "find_dependency(fmt)\n")
      list(APPEND pc_modules fmt)
    elseif(library STREQUAL "spdlog::spdlog")
      string(APPEND config_dependencies "find_dependency(spdlog)\n")
      list(APPEND pc_modules spdlog)
    elseif(library STREQUAL "SQLite3::SQLite3")
      string(APPEND config_dependencies "find_dependency(SQLite3)\n"
        "if(NOT TARGET SQLite3::SQLite3) # the name before CMake 4.3\n"
        "  add_library(SQLite3::SQLite3 ALIAS SQLite::SQLite3)\nendif()\n")
      list(APPEND pc_modules sqlite3)
    elseif(library MATCHES "^PkgConfig::(.*)$")
      set(prefix ${CMAKE_MATCH_1})
      list(APPEND pc_modules ${${prefix}_MODULE_NAME})
      string(APPEND config_dependencies
        "find_dependency(PkgConfig)\n"
        "pkg_check_modules(${prefix} REQUIRED QUIET IMPORTED_TARGET ${${prefix}_MODULE_NAME})\n")
    elseif(library MATCHES "::")
      message(FATAL_ERROR "LuminalLibrary.cmake does not know how a user finds ${library}")
    else()
      list(APPEND pc_flags -l${library})
    endif()
  endforeach()
  if(uses_llvm)
    string(APPEND config_dependencies "luminal_find_llvm(${LLVM_VERSION_MAJOR} \"${LLVM_LIBRARY_DIR}\")\n")
    list(APPEND pc_flags -L${LLVM_LIBRARY_DIR} -lLLVM-${LLVM_VERSION_MAJOR})
  endif()
endif()
file(RELATIVE_PATH pc_prefix "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" /)
string(REGEX REPLACE "/$" "" pc_prefix "${pc_prefix}")
list(JOIN pc_modules " " pc_modules)
list(JOIN pc_flags " " pc_flags)

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/LuminalConfig.cmake.in
  ${PROJECT_BINARY_DIR}/generated/LuminalConfig.cmake INSTALL_DESTINATION ${package_dir})
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(compatibility SameMinorVersion)  # the interface may still change with each minor version
else()
  set(compatibility SameMajorVersion)
endif()
write_basic_package_version_file(${PROJECT_BINARY_DIR}/generated/LuminalConfigVersion.cmake COMPATIBILITY
  ${compatibility})
configure_file(${PROJECT_SOURCE_DIR}/cmake/luminal.pc.in ${PROJECT_BINARY_DIR}/generated/luminal.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/generated/LuminalConfig.cmake
  ${PROJECT_BINARY_DIR}/generated/LuminalConfigVersion.cmake DESTINATION ${package_dir} COMPONENT library)
install(FILES ${PROJECT_BINARY_DIR}/generated/luminal.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
