# luminal_python_module(FOLDER): the target luminal_core, whose file goes to FOLDER. Used by the
# tree and by the wheel.
set(LUMINAL_PYTHON_DIR ${CMAKE_CURRENT_LIST_DIR})

function(luminal_python_module folder)
  set(generated ${CMAKE_CURRENT_BINARY_DIR}/generated)
  set(made enums.h enum_casters.h results.h operations_0.cpp operations_1.cpp operations_2.cpp
    operations_3.cpp)
  list(TRANSFORM made PREPEND ${generated}/)
  file(GLOB headers CONFIGURE_DEPENDS ${LUMINAL_PYTHON_DIR}/../include/luminal/*.h)
  add_custom_command(OUTPUT ${made}
    COMMAND ${Python_EXECUTABLE} ${LUMINAL_PYTHON_DIR}/generate.py --out ${generated}
    DEPENDS ${LUMINAL_PYTHON_DIR}/generate.py ${LUMINAL_PYTHON_DIR}/headers.py ${headers}
    COMMENT "Bindings of the operations, from the public headers" VERBATIM)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${LUMINAL_PYTHON_DIR}/bind/*.cpp)
  nanobind_add_module(luminal_core STABLE_ABI NB_STATIC NB_SUPPRESS_WARNINGS ${sources} ${made})
  luminal_unity(luminal_core)
  set_target_properties(luminal_core PROPERTIES OUTPUT_NAME _core LIBRARY_OUTPUT_DIRECTORY ${folder})
  target_compile_features(luminal_core PRIVATE cxx_std_20)
  target_include_directories(luminal_core PRIVATE ${LUMINAL_PYTHON_DIR}/bind ${CMAKE_CURRENT_BINARY_DIR})
  target_link_libraries(luminal_core PRIVATE Luminal::luminal)
  if(UNIX AND NOT APPLE)
    # Nothing but the module's own entry is seen.
    target_link_options(luminal_core PRIVATE -Wl,--exclude-libs,ALL)
  endif()
endfunction()
