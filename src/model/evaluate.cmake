# evaluate() and infer(): operators by definition, shapes, constant folding.
target_sources(tessera_model PRIVATE
    evaluate.cc
    infer.cc
    infer_loop.cc
    infer_sequence.cc
    infer_walk.cc piece.cc
    ops/algebra.cc
    ops/apply.cc
    ops/attention.cc
    ops/binary.cc
    ops/call.cc
    ops/draw.cc
    ops/elements.cc
    ops/errors.cc
    ops/feature.cc
    ops/generate.cc
    ops/geometry.cc
    ops/index.cc
    ops/layout.cc
    ops/linear_attention.cc
    ops/loss.cc
    ops/normalise.cc
    ops/operators.cc
    ops/order.cc
    ops/pool.cc
    ops/product.cc
    ops/quantise.cc
    ops/recurrent.cc
    ops/reduce.cc
    ops/refusal.cc
    ops/resize.cc
    ops/sample.cc
    ops/slice.cc
    ops/spectral.cc
    ops/unary.cc
    ops/window.cc)

# Definitions, written to be read; those that the constants of large models wait for stay quick.
tessera_light_optimisation(tessera_model EXCEPT import_tensor.cc ops/binary.cc ops/elements.cc ops/product.cc ops/unary.cc)

if(TESSERA_BUILD_TESTS)
  tessera_test(evaluate_test
    SOURCES
      evaluate_newer_test.cc
      evaluate_random_test.cc
      evaluate_test.cc
      infer_control_test.cc
      infer_operands_test.cc
      infer_test.cc
      ops/elements_test.cc
    ALONE evaluate_test.cc infer_control_test.cc infer_test.cc
    DEPENDS tessera_model fmt::fmt
    LABELS unit)
  # GCC 12 warns of overlapping copies in inlined std::string assignments that cannot overlap.
  target_compile_options(evaluate_test PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
  tessera_test(evaluate_conformance_test
    SOURCES evaluate_conformance_test.cc
    DEPENDS tessera_model fmt::fmt
    LABELS agreement)
endif()
