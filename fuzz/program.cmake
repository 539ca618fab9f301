# Packages, programs, descriptors and the text of graphs: fuzz targets, the program that writes their
# seeds out of compiled files, and the corpus of the containers as a plain test.
tessera_library(tessera_program_target
  SOURCES program_target.cc
  DEPENDS tessera_link tessera_program tessera_graph tessera_arch)
tessera_light_optimisation(tessera_program_target)
target_include_directories(tessera_program_target PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})

foreach(name container descriptor graph_text)
  tessera_fuzz_target(${name}_fuzz
    DEPENDS tessera_program_target
    CORPUS ${CMAKE_CURRENT_SOURCE_DIR}/corpus/${name})
endforeach()

if(TESSERA_BUILD_TESTS)
  add_executable(make_program_corpus make_program_corpus.cc)
  tessera_target(make_program_corpus)
  tessera_test_options(make_program_corpus 0)
  target_link_libraries(make_program_corpus PRIVATE tessera_program_target)

  tessera_test(program_corpus_test WHOLE
    SOURCES program_corpus_test.cc
    DEPENDS tessera_program_target
    LABELS unit)
  target_compile_definitions(program_corpus_test
    PRIVATE TESSERA_CONTAINER_CORPUS="${CMAKE_CURRENT_SOURCE_DIR}/corpus/container")
endif()
