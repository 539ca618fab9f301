#include "compile/testing/compiled_program.h"

#include <gtest/gtest.h>

#include <utility>

#include "isa/verify.h"
#include "link/link.h"

namespace tessera::compile::testing {

isa::Program build(std::shared_ptr<const graph::Graph> graph, const ChipConfig& chip,
                   const CompileOptions& options) {
  const auto package = compile(std::move(graph), chip, options);
  EXPECT_TRUE(package.ok()) << package.error().to_string();
  auto program = link::link(*package, chip);
  EXPECT_TRUE(program.ok()) << program.error().to_string();
  const Status status = isa::verify_program(*program, chip);
  EXPECT_TRUE(status.ok()) << status.error().to_string();
  return std::move(*program);
}

}  // namespace tessera::compile::testing
