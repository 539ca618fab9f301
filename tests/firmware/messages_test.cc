// Queues on a processor with message processors: vectors and matrices come from the network edge.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "arch/architecture_file.h"
#include "concord/lift/lift.h"
#include "example.h"
#include "firmware/disassembler.h"
#include "host/executor.h"

namespace tessera::firmware {
namespace {

using isa::EngineKind;
using ::testing::HasSubstr;

ChipConfig brainwave(std::int32_t ports = 1) {
  auto chip = load_chip_config("brainwave");
  EXPECT_TRUE(chip.ok());
  chip->message.ports = ports;
  return *chip;
}

Result<isa::Program> assemble_text(const std::string& text, const ChipConfig& chip,
                                   bool streaming = false) {
  AssembleOptions options;
  options.chip = &chip;
  options.streaming = streaming;
  return assemble(text, "t.tasm", options);
}

isa::Program assembled(const std::string& text, const ChipConfig& chip, bool streaming = false) {
  auto program = assemble_text(text, chip, streaming);
  EXPECT_TRUE(program.ok()) << program.error().to_string();
  return program.ok() ? std::move(*program) : isa::Program{};
}

std::int64_t tasks_of(const isa::Program& program, EngineKind engine) {
  return std::ranges::count_if(program.tasks,
                               [=](const auto& task) { return task.engine == engine; });
}

// A product with a matrix that comes from a queue, or one that is resident.
std::string product_text(bool queue) {
  return std::string(queue ? "firmware 1\nqueue W [300, 200] in\n" : "firmware 1\n") +
         "queue x [200] in\nqueue y [300] out\nmatrix M [300, 200] in matrix" +
         (queue ? "\nchain \"weights\"\nread W\nwrite M\nend\n" : " = random 5 0.1\n") +
         "chain \"product\"\nread x\nproduct M\nrelu\nwrite y\nend\n";
}

TEST(Messages, AMatrixFromAQueueGivesTheBitsOfAResidentOne) {
  const ChipConfig chip = brainwave();
  const isa::Program program = assembled(product_text(true), chip);
  EXPECT_EQ(tasks_of(program, EngineKind::kMessageIn), 2);
  EXPECT_EQ(tasks_of(program, EngineKind::kMessageOut), 1);
  EXPECT_EQ(tasks_of(program, EngineKind::kLoad) + tasks_of(program, EngineKind::kStore) +
                tasks_of(program, EngineKind::kKernel),
            0);
  const Tensor x = f16_tensor({1, 200}, random_values(9, 1, 200));
  const Tensor w = f16_tensor({1, 300, 200}, random_values(5, 0.1, 300 * 200));
  const RunResult resident = run_program(assembled(product_text(false), chip), chip, {x});
  const RunResult brought = run_program(program, chip, {w, x});
  ASSERT_EQ(brought.outputs.size(), 1u);
  EXPECT_EQ(brought.outputs, resident.outputs);
}

TEST(Messages, AMatrixFromAQueueGivesTheProcessorsBitsOnHostAndRef) {
  const ChipConfig chip = brainwave();
  const isa::Program program = assembled(product_text(true), chip);
  const std::vector<Tensor> inputs = {f16_tensor({1, 300, 200}, random_values(5, 0.1, 300 * 200)),
                                      f16_tensor({1, 200}, random_values(9, 1, 200))};
  const RunResult expected = run_program(program, chip, inputs);
  const auto graph = concord::lift(program, chip);
  ASSERT_TRUE(graph.ok()) << graph.error().to_string();
  const auto outputs_of = [&](Result<std::unique_ptr<host::Executor>> executor) {
    EXPECT_TRUE(executor.ok()) << executor.error().to_string();
    auto outputs = (*executor)->run(inputs);
    EXPECT_TRUE(outputs.ok()) << outputs.error().to_string();
    return std::move(outputs).value();
  };
  EXPECT_EQ(outputs_of(host::make_host_executor(*graph)), expected.outputs);
  EXPECT_EQ(outputs_of(host::make_reference_executor(*graph)), expected.outputs);
}

TEST(Messages, AProcessorWithoutMessageProcessorsSaysSo) {
  const auto refused = assemble_text(product_text(true), brainwave(0));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message,
            "t.tasm:8:1: 'W' brings a matrix, which takes a message processor, and 'brainwave' has "
            "none; use a processor with message.ports, or a matrix in dram");
}

TEST(Messages, OtherUsesOfAQueuesMatrixAreRefused) {
  const auto error_of = [](const std::string& queue, const std::string& lines) {
    const auto program = assemble_text(
        "firmware 1\n" + queue + "matrix M [30, 20] in matrix\nchain \"c\"\n" + lines + "end\n",
        brainwave());
    return program.ok() ? "" : program.error().message;
  };
  EXPECT_EQ(error_of("queue W [30, 20] in\n", "read W\nwrite M\n"), "");
  EXPECT_THAT(
      error_of("queue W [20, 30] in\n", "read W\nwrite M\n"),
      HasSubstr("'W' brings 20 vectors of 30, 'M' is a matrix of 30 x 20; declare the queue "
                "as [30, 20]"));
  EXPECT_THAT(error_of("queue W [600] in\n", "read W\nwrite M\n"),
              HasSubstr("declare the queue as [30, 20]"));
  EXPECT_THAT(error_of("queue W [30, 20] in\n", "read W\nrelu\nwrite M\n"),
              HasSubstr("what a queue brings goes there as it is, behind the read"));
  EXPECT_THAT(error_of("queue W [30, 20] in\n", "iterate 30\nread W\nwrite M\n"),
              HasSubstr("behind the read"));
}

TEST(Messages, ThroughTheEdgeOrThroughTheMemoryTheBitsAreTheSame) {
  for (const char* name : {"perceptron", "lstm", "gru"}) {
    SCOPED_TRACE(name);
    std::vector<std::vector<Tensor>> outputs;
    for (const std::int32_t ports : {0, 1, 3}) {
      const ChipConfig chip = brainwave(ports);
      const isa::Program program = assemble_example(name, chip);
      EXPECT_EQ(tasks_of(program, EngineKind::kMessageIn) > 0, ports > 0);
      std::vector<Tensor> inputs;
      for (const isa::TensorSlot& slot : program.inputs) {
        const auto count = static_cast<std::size_t>(element_count(slot.dims));
        inputs.push_back(f16_tensor(slot.dims, random_values(40 + inputs.size(), 1, count)));
      }
      outputs.push_back(run_program(program, chip, inputs).outputs);
    }
    EXPECT_EQ(outputs[1], outputs[0]);
    EXPECT_EQ(outputs[2], outputs[0]);
  }
}

TEST(Messages, ProgramsAreWrittenAsTextAndReadBack) {
  for (const std::int32_t ports : {1, 2}) {
    const ChipConfig chip = brainwave(ports);
    const isa::Program program = assembled(product_text(true), chip);
    const std::string text = disassemble(program, {});
    EXPECT_THAT(text, HasSubstr("message_in message"));
    EXPECT_THAT(text, HasSubstr("  queue 1\n"));
    const isa::Program again = assembled(text, chip);
    EXPECT_EQ(again.stream, program.stream);
  }
}

// x is 128 bytes, 8 + 3 cycles of the port and 125 behind it. With a buffer it has come while the step
// before ran; without one the step waits for it.
TEST(Messages, AStreamReadsAheadWhileTheCoreWorks) {
  const std::string text =
      "firmware 1\nqueue x [64] in\nqueue y [64] out\n"
      "steps t 3\nchain \"c\"\nread x\nrelu\nwrite y\nend\nend\n";
  const Tensor x = f16_tensor({1, 64}, random_values(6, 1, 64));
  struct Step {
    std::int64_t cycles = 0, message = 0, arrival = 0;
  };
  const auto steps_with = [&](std::int32_t buffer_bytes) {
    ChipConfig chip = brainwave();
    chip.message.buffer_bytes = buffer_bytes;
    auto stream = device::ProgramRun::create(assembled(text, chip, true), chip, {.trace = true});
    EXPECT_TRUE(stream.ok() && (*stream)->begin().ok());
    std::vector<Step> steps;
    for (int t = 0; t < 3; ++t) {
      const auto run = (*stream)->step({x});
      EXPECT_TRUE(run.ok());
      steps.push_back({.cycles = run->cycles});
      for (const TimelineEvent& event : run->timeline) {
        if (event.engine != "message_in") continue;
        steps.back().message = event.end - event.begin;
        steps.back().arrival = event.end;
      }
    }
    return steps;
  };
  const auto with = steps_with(4096), without = steps_with(0);
  EXPECT_EQ(with[0].arrival,
            11 + 125);  // nothing was before the first, which comes from cycle 0 on
  for (std::size_t t = 0; t < 3; ++t) {
    EXPECT_EQ(without[t].message, 11 + 125) << t;
    if (t > 0) {
      EXPECT_EQ(with[t].message, 1) << t;  // through the port of 128 bytes a cycle
    }
    EXPECT_LT(with[t].cycles, without[t].cycles) << t;
  }
}

// Each step of a stream brings its own matrix.
TEST(Messages, AMatrixMayComeAtEveryStep) {
  const ChipConfig chip = brainwave();
  const std::string text =
      "firmware 1\nqueue W [64, 64] in\nqueue x [64] in\nqueue y [64] out\nmatrix M [64, 64] in "
      "matrix\n"
      "steps t 3\nchain \"weights\"\nread W\nwrite M\nend\n"
      "chain \"product\"\nread x\nproduct M\nwrite y\nend\nend\n";
  const Values w = random_values(5, 0.1, 3 * 64 * 64), x = random_values(6, 1, 3 * 64);
  const RunResult whole = run_program(assembled(text, chip), chip,
                                      {f16_tensor({3, 64, 64}, w), f16_tensor({3, 64}, x)});
  auto stream =
      device::ProgramRun::create(assembled(text, chip, true), chip, {.check_hazards = true});
  ASSERT_TRUE(stream.ok() && (*stream)->begin().ok());
  std::vector<std::byte> outputs;
  for (std::size_t t = 0; t < 3; ++t) {
    const auto part = [t](const Values& values, std::size_t count) {
      const auto first = values.begin() + static_cast<std::ptrdiff_t>(t * count);
      return Values(first, first + static_cast<std::ptrdiff_t>(count));
    };
    const auto step = (*stream)->step(
        {f16_tensor({1, 64, 64}, part(w, 64 * 64)), f16_tensor({1, 64}, part(x, 64))});
    ASSERT_TRUE(step.ok()) << step.error().message;
    outputs.insert(outputs.end(), step->outputs[0].bytes.begin(), step->outputs[0].bytes.end());
  }
  ASSERT_EQ(whole.outputs.size(), 1u);
  EXPECT_EQ(outputs, whole.outputs[0].bytes);
}

}  // namespace
}  // namespace tessera::firmware
