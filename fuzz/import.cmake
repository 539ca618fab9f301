# Models: the importer (src/model), and models that are compiled and run; the program that writes
# the importer's corpus, and that corpus as a plain test that also knows what each file should give.
tessera_library(tessera_import_target
  SOURCES import_target.cc
  DEPENDS tessera_model)
tessera_light_optimisation(tessera_import_target)
target_include_directories(tessera_import_target PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})

tessera_library(tessera_model_target
  SOURCES grown_model.cc model_target.cc
  DEPENDS tessera_fuzz_support tessera_concord tessera_device tessera_host tessera_link tessera_model_testing
          tessera_network
  PRIVATE fmt::fmt)
tessera_light_optimisation(tessera_model_target)
tessera_use_onnx(tessera_model_target)

tessera_fuzz_target(import BYTES 8192 DEPENDS tessera_import_target)
tessera_fuzz_target(model_run DEPENDS tessera_model_target)

if(TESSERA_BUILD_TESTS)
  add_executable(make_import_corpus make_import_corpus.cc)
  tessera_target(make_import_corpus)
  tessera_test_options(make_import_corpus 0)
  target_link_libraries(make_import_corpus PRIVATE tessera_model_testing)
  tessera_use_onnx(make_import_corpus)

  tessera_test(import_corpus_test
    SOURCES import_corpus_test.cc
    DEPENDS tessera_import_target
    LABELS unit)
  target_compile_definitions(import_corpus_test
    PRIVATE TESSERA_IMPORT_CORPUS="${CMAKE_CURRENT_SOURCE_DIR}/corpus/import")
endif()
