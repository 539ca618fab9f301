// When a request runs, and with which others: batches, shapes, priorities, timeouts, what is refused at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <future>
#include <numeric>

#include "serve/infer_message.h"
#include "serve/service.h"
#include "serve/testing/model_folder.h"
#include "tessera/session.h"

namespace tessera::serve {
namespace {

using ::testing::HasSubstr;
using testing::ModelFolder;
using testing::scaled;

struct Asked {
  std::string model = "m";
  Tensor x;
  int priority = 0;
  std::optional<std::chrono::microseconds> timeout = {};
};

Tensor rows_of(std::int64_t rows, float first) {
  Tensor x = Tensor::zeros(Format::kF32, {rows, 4});
  float value = first;
  for (float& each : x.as<float>()) each = value += 0.1F;
  return x;
}

std::future<InferOutcome> ask(Service& service, Asked asked) {
  auto promise = std::make_shared<std::promise<InferOutcome>>();
  std::future<InferOutcome> answer = promise->get_future();
  service.infer(
      {}, {asked.model, ""},
      [&](const ModelForm&, const RegionsOfClient&) -> Result<InferRequest> {
        InferRequest request;
        request.inputs.push_back(std::move(asked.x));
        request.outputs = {{0, true, {}}};
        request.priority = asked.priority;
        request.timeout = asked.timeout;
        return request;
      },
      [promise](InferOutcome outcome) -> Send {
        auto kept = std::make_shared<InferOutcome>(std::move(outcome));
        kept->model = nullptr;
        return [promise, kept] { promise->set_value(std::move(*kept)); };
      });
  return answer;
}

Tensor alone(const std::string& path, const Tensor& x) {
  const Network network = Network::load(path, {.shapes = {{"x", x.dims}}}).value();
  return Session::open(network, {.device = DeviceKind::kHost}).value().run({x}).value().outputs[0];
}

ModelStatistics statistics(const Service& service) {
  return service.all_served({}).at(0)->statistics();
}

TEST(Batching, GivesEachRequestTheBitsThatItGetsAlone) {
  const ModelFolder folder("batching_test");
  folder.write("m/1/model.onnx", scaled(0.3F, true));
  // So long that only full batches run.
  folder.write("m/config.json", R"({"batching": {"max_batch": 6, "delay_us": 10000000}})");
  const auto service = folder.serve();
  std::vector<std::future<InferOutcome>> answers;
  const std::vector<std::int64_t> rows = {1, 2, 3, 3, 1, 1, 1, 5, 1, 4, 2};  // 6, 6, 6, 6
  for (std::size_t i = 0; i < rows.size(); ++i) {
    answers.push_back(ask(*service, {.x = rows_of(rows[i], static_cast<float>(i))}));
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    InferOutcome outcome = answers[i].get();
    ASSERT_FALSE(outcome.failure) << outcome.failure->message;
    EXPECT_EQ(outcome.outputs[0],
              alone(folder.path() + "/m/1/model.onnx", rows_of(rows[i], static_cast<float>(i))));
  }
  const ModelStatistics after = statistics(*service);
  EXPECT_EQ(after.success.count, 11);
  EXPECT_LE(after.runs, 5);
}

TEST(Batching, WaitsNoLongerThanItsDelay) {
  const ModelFolder folder("batching_delay_test");
  folder.write("m/1/model.onnx", scaled(2, true));
  folder.write("m/config.json",
               R"({"device": "sim", "batching": {"max_batch": 8, "delay_us": 2000}})");
  const auto service = folder.serve();
  const InferOutcome outcome = ask(*service, {.x = rows_of(3, 1)}).get();
  ASSERT_FALSE(outcome.failure) << outcome.failure->message;
  EXPECT_EQ(outcome.outputs[0], alone(folder.path() + "/m/1/model.onnx", rows_of(3, 1)));
  // Of four rows, of which one is nobody's.
  EXPECT_EQ(statistics(*service).batches.begin()->first, 4);
}

TEST(Batching, TakesTheRequestOfTheHighestPriorityFirst) {
  const ModelFolder folder("batching_priority_test");
  folder.write("m/1/model.onnx", scaled(2, true));
  folder.write("m/config.json", R"({"batching": {"max_batch": 4, "delay_us": 10000000}})");
  const auto service = folder.serve();
  auto low = ask(*service, {.x = rows_of(2, 1)});
  auto first = ask(*service, {.x = rows_of(1, 1), .priority = 7});
  auto second = ask(*service, {.x = rows_of(3, 1), .priority = 7});  // four rows with the first
  EXPECT_FALSE(first.get().failure);
  EXPECT_FALSE(second.get().failure);
  EXPECT_EQ(low.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  auto fill = ask(*service, {.x = rows_of(2, 1)});
  EXPECT_FALSE(low.get().failure);
  EXPECT_FALSE(fill.get().failure);
}

TEST(Batching, AnswersARequestWhoseTimeIsOverBeforeItsBatch) {
  const ModelFolder folder("batching_late_test");
  folder.write("m/1/model.onnx", scaled(2, true));
  folder.write("m/config.json", R"({"batching": {"max_batch": 4, "delay_us": 10000000}})");
  const auto service = folder.serve();
  const InferOutcome late =
      ask(*service, {.x = rows_of(1, 1), .timeout = std::chrono::milliseconds(5)}).get();
  ASSERT_TRUE(late.failure);
  EXPECT_EQ(late.failure->problem, Problem::kLate);
  EXPECT_EQ(statistics(*service).runs, 0);
}

TEST(Batching, SaysAtLoadWhyAModelHasNone) {
  const ModelFolder folder("batching_refusal_test");
  folder.write("fixed/1/model.onnx", scaled(2));
  folder.write("fixed/config.json", R"({"batching": {"max_batch": 4}})");
  Tensor axes = Tensor::zeros(Format::kI64, {1});
  using model::testing::ModelBuilder;
  folder.write("mixed/1/model.onnx", ModelBuilder(13)
                                         .open_input("x", Format::kF32, {"rows", "4"})
                                         .initializer("axes", axes)
                                         .node("ReduceSum", {"x", "axes"}, {"s"})
                                         .node("Add", {"x", "s"}, {"y"})
                                         .output("y")
                                         .proto()
                                         .SerializeAsString());
  folder.write("mixed/config.json", R"({"batching": {"max_batch": 4}})");
  const auto service = folder.serve();
  const auto index = service->index({}, false);
  ASSERT_EQ(index.size(), 2u);
  EXPECT_THAT(index[0].reason, HasSubstr("the first dimension of input 'x' is fixed: [1, 4]"));
  EXPECT_THAT(index[1].reason,
              HasSubstr("output 'y' of a request depends on the others in its batch"));
}

TEST(Shapes, AreCompiledAsTheyAreAskedForAndOnlySoManyKept) {
  const ModelFolder folder("shapes_test");
  folder.write("m/1/model.onnx", scaled(2, true));
  folder.write("m/config.json", R"({"shapes_max": 3})");
  const auto service = folder.serve();
  const auto model = service->all_served({}).at(0);
  EXPECT_EQ(model->form().inputs[0].dims, (Shape{-1, 4}));
  for (const std::int64_t rows : {1, 2, 3, 4, 5, 2, 1}) {
    const InferOutcome outcome = ask(*service, {.x = rows_of(rows, 1)}).get();
    ASSERT_FALSE(outcome.failure) << outcome.failure->message;
    EXPECT_EQ(outcome.outputs[0], alone(folder.path() + "/m/1/model.onnx", rows_of(rows, 1)));
    EXPECT_LE(model->statistics().shapes, 3);
  }
}

// Of sim the time is known before the first run: at a pace of a thousandth a run takes milliseconds.
TEST(Admission, RefusesWhatCannotBeDoneInTimeAndSaysWhatItWouldTake) {
  const ModelFolder folder("admission_test");
  folder.write("m/1/model.onnx", scaled(2));
  folder.write("m/config.json", R"({"device": "sim", "pace": 0.00001})");
  const auto service = folder.serve();
  const InferOutcome refused =
      ask(*service, {.x = rows_of(1, 1), .timeout = std::chrono::milliseconds(1)}).get();
  ASSERT_TRUE(refused.failure);
  EXPECT_EQ(refused.failure->problem, Problem::kTooSlow);
  EXPECT_THAT(refused.failure->message,
              ::testing::MatchesRegex("it would take .* ms: 0.000 ms until its turn, .* ms for its "
                                      "run of .* cycles; its time is "
                                      "1.000 ms"));
  EXPECT_EQ(statistics(*service).failures.at(Problem::kTooSlow), 1);
  EXPECT_EQ(statistics(*service).runs, 0);
  EXPECT_FALSE(ask(*service, {.x = rows_of(1, 1), .timeout = std::chrono::hours(1)}).get().failure);
}

// Those before it count, unless they are of a lower priority.
TEST(Admission, CountsTheRequestsBeforeIt) {
  const ModelFolder folder("admission_queue_test");
  folder.write("m/1/model.onnx", scaled(2));
  folder.write("m/config.json", R"({"device": "sim", "pace": 0.000001})");
  const auto service = folder.serve();
  const InferOutcome probe =
      ask(*service, {.x = rows_of(1, 1), .timeout = std::chrono::microseconds(1)}).get();
  ASSERT_TRUE(probe.failure);
  // "it would take 123.456 ms: ..."
  const double own_ms =
      std::stod(probe.failure->message.substr(std::string("it would take ").size()));
  const std::chrono::microseconds enough_for_one(static_cast<std::int64_t>(own_ms * 1500));
  auto first = ask(*service, {.x = rows_of(1, 1)});
  const InferOutcome behind = ask(*service, {.x = rows_of(1, 1), .timeout = enough_for_one}).get();
  ASSERT_TRUE(behind.failure);
  EXPECT_EQ(behind.failure->problem, Problem::kTooSlow);
  EXPECT_FALSE(first.get().failure);
}

}  // namespace
}  // namespace tessera::serve
