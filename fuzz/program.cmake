# Packages, programs, descriptors and the text of graphs: fuzz targets, the program that writes their
# seeds out of compiled files, and the corpus of the containers as a plain test.
tessera_library(tessera_program_target
  SOURCES foreign_program.cc program_target.cc
  DEPENDS tessera_fuzz_support tessera_link tessera_isa tessera_package tessera_graph tessera_arch tessera_concord
          tessera_device tessera_host tessera_model)
tessera_light_optimisation(tessera_program_target)

tessera_fuzz_target(container BYTES 32768 DEPENDS tessera_program_target)
tessera_fuzz_target(descriptor BYTES 2048 DEPENDS tessera_program_target)
tessera_fuzz_target(graph_text DEPENDS tessera_program_target)
tessera_fuzz_target(container_file BYTES 8192 DEPENDS tessera_fuzz_support tessera_isa tessera_package)
tessera_fuzz_target(derive BYTES 32768
  DEPENDS tessera_program_target
  SEEDS ${CMAKE_CURRENT_SOURCE_DIR}/corpus/container)
tessera_fuzz_target(firmware_run BYTES 8192 DICTIONARY firmware_text
  DEPENDS tessera_program_target tessera_firmware)

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
