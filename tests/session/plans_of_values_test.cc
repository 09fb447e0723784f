// Plans that are for values of feeds, or for what a step computes: taken for these alone, and refused where they cannot be such values.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "millrace/op.h"
#include "plan_use.h"
#include "session/checks.h"
#include "text_session.h"
#include "value_graphs.h"

namespace millrace::testing {
namespace {

using ::testing::HasSubstr;

const Session::FeedTypes& SizeTypes() {
  static const auto& types = *new Session::FeedTypes{{"x", {DataType::kFloat, Shape({6})}}, {"dims", {DataType::kInt32, Shape({2})}}};
  return types;
}

TEST(PlansOfValues, APlanForFedValuesIsTakenForThemAlone) {
  const Session::Feeds feeds = {{"x", Tensor(DataType::kFloat, Shape({6}))}, {"dims", Tensor::Vector<int32_t>({2, 3})}};
  const auto makes = SessionOf(kFedSizes), reads = SessionOf(kFedSizes);
  makes->PlanWithFeeds(feeds);
  const auto plan = makes->Plan(SizeTypes(), {"y:0"}, {});
  ASSERT_TRUE(plan.ok()) << plan.status();
  auto silent = std::make_shared<ExecutionPlan>(**plan);
  silent->feed_values.clear();
  EXPECT_THAT(reads->UsePlan(silent, SizeTypes(), {"y:0"}, {}).ToString(), HasSubstr("feeds dims:0, and the plan does not say for which it is"));
  const absl::Status used = reads->UsePlan(Reread(**plan), SizeTypes(), {"y:0"}, {});
  ASSERT_TRUE(used.ok()) << used;
  std::vector<Tensor> out;
  const auto run = [&](std::vector<int32_t> dims) {
    Session::Feeds fed = feeds;
    fed["dims"] = Tensor::Vector<int32_t>(dims);
    return reads->Run(fed, {"y:0"}, {}, &out);
  };
  EXPECT_THAT(run({3, 2}).ToString(), HasSubstr("for another step: feed 'dims:0': element 0 is 2 in it, here 3"));
  EXPECT_EQ(reads->last_run().plan, nullptr);
  for (int step = 0; step < 2; ++step) {
    ASSERT_TRUE(run({2, 3}).ok());
    EXPECT_EQ(out[0].shape(), Shape({2, 3}));
  }
  EXPECT_EQ(reads->last_run().plan_seconds, 0);
}

TEST(PlansOfValues, APlanForWhatTheStepComputesIsTakenForThatAlone) {
  const auto makes = SessionOf(kCountedTurns), reads = SessionOf(kCountedTurns);
  std::vector<Tensor> out;
  const auto run = [&](Session& session, int32_t turns) {
    const absl::Status set = session.SetVariable("turns", Tensor::Scalar<int32_t>(turns));
    return set.ok() ? session.Run({}, {"y:0"}, {}, &out) : set;
  };
  const absl::Status made = run(*makes, 3);
  ASSERT_TRUE(made.ok()) << made;
  const auto plan = makes->last_run().plan;
  auto silent = std::make_shared<ExecutionPlan>(*plan);
  silent->answers.clear();
  EXPECT_THAT(reads->UsePlan(silent, {}, {"y:0"}, {}).ToString(), HasSubstr("and the plan does not say for which results it is"));
  const absl::Status used = reads->UsePlan(Reread(*plan), {}, {"y:0"}, {});
  ASSERT_TRUE(used.ok()) << used;
  for (const int turns : {3, 2, 3, 4, 3}) {
    const absl::Status ran = run(*reads, turns);
    EXPECT_EQ(ran.ok(), turns == 3) << ran;
    if (ran.ok()) {
      EXPECT_EQ(out[0].IntAt(0), 0);
    } else {
      EXPECT_THAT(ran.ToString(), HasSubstr("for another step: what the step computes, 'y"));
    }
  }
}

// The caller's buffer is filled anew in every step; plans for both values, which stay on the device, are there.
TEST(PlansOfValues, EachHasTheValueThatItWasMadeFor) {
  const auto session = SessionOf(std::string(kFedSizes) + R"(
w = Placeholder() {dtype=int32, shape=shape[2]}
z = AddV2(dims, w) {T=int32}
)");
  Session::Feeds feeds = {{"x", Tensor(DataType::kFloat, Shape({6}))}, {"w", Tensor::Vector<int32_t>({0, 0})}, {"dims", Tensor::Vector<int32_t>({2, 3})}};
  for (int step = 0; step < 6; ++step) {
    feeds["dims"].mutable_as<int32_t>()[0] = 2 + step % 2;
    feeds["dims"].mutable_as<int32_t>()[1] = 3 - step % 2;
    std::vector<Tensor> out;
    const absl::Status ran = session->Run(feeds, {"y", "z"}, {}, &out);
    ASSERT_TRUE(ran.ok()) << ran;
    EXPECT_EQ(out[1].as<int32_t>()[0], 2 + step % 2) << step;
  }
}

// What is said of a plan for the one value beside a step that has the other.
std::string Difference(const Tensor& planned, const Tensor& here) {
  ExecutionPlan plan;
  plan.feed_values["x:0"] = planned;
  return std::string(CheckPlanValues(plan, {.feed_values = {{"x:0", here}}}, true).message());
}

Tensor Words(const std::vector<std::string>& words) {
  Tensor tensor(DataType::kString, Shape({static_cast<int64_t>(words.size())}));
  tensor.mutable_strings() = words;
  return tensor;
}

TEST(PlansOfValues, TheFirstDifferenceIsTold) {
  EXPECT_EQ(Difference(Tensor::Scalar<int32_t>(3), Tensor::Scalar<int32_t>(3)), "");
  EXPECT_THAT(Difference(Tensor::Scalar<int32_t>(3), Tensor::Scalar<int32_t>(4)), HasSubstr("feed 'x:0' is 3 in it, here 4; without it"));
  EXPECT_THAT(Difference(Tensor::Scalar<bool>(true), Tensor(DataType::kBool, Shape({0}))), HasSubstr("feed 'x:0' is bool[] in it, here bool[0]; without it"));
  std::vector<int64_t> numbers(100), others(100);
  others[20] = others[30] = -7;
  EXPECT_THAT(Difference(Tensor::Vector<int64_t>(numbers), Tensor::Vector<int64_t>(others)),
              HasSubstr("feed 'x:0': element 20 is 0 in it, here -7; without it"));
  const float nan = std::bit_cast<float>(0x7FC00000u), other_nan = std::bit_cast<float>(0x7FC00001u);
  EXPECT_THAT(Difference(Tensor::Vector<float>({1, 0.0f}), Tensor::Vector<float>({1, -0.0f})), HasSubstr("element 1 is 0 in it, here -0;"));
  EXPECT_THAT(Difference(Tensor::Scalar<float>(nan), Tensor::Scalar<float>(other_nan)),
              HasSubstr("is of the bytes 0000c07f in it, here of the bytes 0100c07f;"));
  EXPECT_THAT(Difference(Words({"a", "b\n"}), Words({"a", "c"})), HasSubstr(R"(element 1 is 'b\x0a' in it, here 'c';)"));
  const std::string megabyte(1 << 20, '\1');
  const std::string message = Difference(Words({megabyte}), Words({megabyte + "end"}));
  EXPECT_LT(message.size(), 1000u);
  EXPECT_THAT(message, HasSubstr("here '...\\x01"));
  EXPECT_THAT(message, HasSubstr("end'"));
}

// A file may say that a list is of any length.
TEST(PlansOfValues, ListsOfLengthsThatNoneHasAreRefused) {
  for (const std::string list : {"list = TensorListReserve(two, n) {element_dtype=float, shape_type=int32}\ny = TensorListLength(list)",
                                 "list = TensorListReserve(two, two) {element_dtype=float, shape_type=int32}\n"
                                 "longer = TensorListResize(list, n)\ny = TensorListLength(longer)",
                                 "list = TensorListReserve(two, two) {element_dtype=float, shape_type=int32}\n"
                                 "longer = TensorListSetItem(list, n, item) {element_dtype=float, resize_if_index_out_of_bounds=true}\n"
                                 "y = TensorListLength(longer)",
                                 "index = Reshape(n, one) {T=int64, Tshape=int32}\n"
                                 "rows = Reshape(item, both) {T=float, Tshape=int32}\n"
                                 "list = TensorListScatterV2(rows, index, two, two) {element_dtype=float, shape_type=int32}\ny = TensorListLength(list)",
                                 "list = TensorListScatterV2(rows, index, two, n) {element_dtype=float, shape_type=int32}\n"
                                 "index = Reshape(two, one) {T=int32, Tshape=int32}\n"
                                 "rows = Reshape(item, both) {T=float, Tshape=int32}\ny = TensorListLength(list)",
                                 "array = TensorArrayV3(n) {dtype=float, element_shape=shape[2]}\ny = TensorArraySizeV3(array, array:1)",
                                 "array = TensorArrayV3(two) {dtype=float, element_shape=shape[2], dynamic_size=true}\n"
                                 "flow = TensorArrayWriteV3(array, n, item, array:1) {T=float}\ny = TensorArraySizeV3(array, flow)"}) {
    SCOPED_TRACE(list);
    const std::string text = absl::StrCat(R"(
n = Placeholder() {dtype=int64, shape=shape[]}
two = Const() {dtype=int32, value=int32[]{2}}
one = Const() {dtype=int32, value=int32[1]{1}}
both = Const() {dtype=int32, value=int32[2]{1,2}}
item = Const() {dtype=float, value=float[2]{1,2}}
)", list, "\n");
    const Session::FeedTypes types = {{"n", {DataType::kInt64, Shape()}}};
    const auto session = SessionOf(text);
    session->PlanWithFeeds({{"n", Tensor::Scalar<int64_t>(3)}});
    const auto plan = session->Plan(types, {"y:0"}, {});
    ASSERT_TRUE(plan.ok()) << plan.status();
    for (const int64_t length : {int64_t{1} << 62, std::numeric_limits<int64_t>::max()}) {
      auto changed = std::make_shared<ExecutionPlan>(**plan);
      changed->feed_values.at("n:0") = Tensor::Scalar<int64_t>(length);
      EXPECT_THAT(session->UsePlan(changed, types, {"y:0"}, {}).ToString(), HasSubstr(absl::StrCat("takes room for ", length, " items, expected at most")));
    }
  }
}

// Code of an embedding program, which may find values of a file unheard of.
TEST(PlansOfValues, ExceptionsOfShapeRulesAreStatuses) {
  const auto ops = std::make_shared<OpRegistry>(OpRegistry::Builtin());
  OpDef picky;
  picky.name = "Picky";
  picky.shape = [](InferenceContext& c) {
    if (c.value(0) != nullptr && c.value(0)->IntAt(0) == 3) throw std::out_of_range("no such size");
    c.AddOutput(DataType::kInt32, c.shape(0));
    return absl::OkStatus();
  };
  ASSERT_TRUE(ops->Register(picky).ok());
  const auto session = SessionOf(absl::StrCat(kFedSizes, "z = Picky(dims)\n"), {.device = "null", .ops = ops});
  session->PlanWithFeeds({{"dims", Tensor::Vector<int32_t>({2, 3})}});
  const auto plan = session->Plan(SizeTypes(), {"y:0", "z:0"}, {});
  ASSERT_TRUE(plan.ok()) << plan.status();
  auto changed = std::make_shared<ExecutionPlan>(**plan);
  changed->feed_values.at("dims:0") = Tensor::Vector<int32_t>({3, 2});
  EXPECT_THAT(session->UsePlan(changed, SizeTypes(), {"y:0", "z:0"}, {}).ToString(), HasSubstr("threw an exception: no such size"));
}

TEST(PlansOfValues, APlanKeepsItsValuesWhereTheCallerFillsTheFeedAnew) {
  const auto session = SessionOf(kFedSizes);
  Tensor dims = Tensor::Vector<int32_t>({2, 3});
  std::vector<Tensor> out;
  const Session::Feeds feeds = {{"x", Tensor(DataType::kFloat, Shape({6}))}, {"dims", dims}};
  ASSERT_TRUE(session->Run(feeds, {"y:0"}, {}, &out).ok());
  const auto plan = session->last_run().plan;
  dims.mutable_as<int32_t>()[0] = 6;
  EXPECT_TRUE(plan->feed_values.at("dims:0").BitEqual(Tensor::Vector<int32_t>({2, 3})));
}

TEST(PlansOfValues, AnswersAreWhatTheStepAsks) {
  const auto makes = SessionOf(kCountedTurns);
  std::vector<Tensor> out;
  ASSERT_TRUE(makes->SetVariable("turns", Tensor::Scalar<int32_t>(2)).ok());
  ASSERT_TRUE(makes->Run({}, {"y:0"}, {}, &out).ok());
  const ExecutionPlan plan = *makes->last_run().plan;
  ASSERT_FALSE(plan.answers.empty());
  const std::string question = plan.answers.begin()->first;
  const auto use = [&](const std::function<void(std::map<std::string, Tensor>&)>& change) {
    auto changed = std::make_shared<ExecutionPlan>(plan);
    change(changed->answers);
    const auto session = SessionOf(kCountedTurns);
    EXPECT_TRUE(session->SetVariable("turns", Tensor::Scalar<int32_t>(2)).ok());
    const absl::Status used = session->UsePlan(changed, {}, {"y:0"}, {});
    return used.ok() ? session->Run({}, {"y:0"}, {}, &out) : used;
  };
  EXPECT_TRUE(use([](auto&) {}).ok());
  for (const Tensor& other : {Tensor::Scalar<int64_t>(1), Tensor(DataType::kBool, Shape({0})), Words({"yes"}), Tensor::Scalar<bool>(false)}) {
    EXPECT_FALSE(use([&](auto& answers) { answers[question] = other; }).ok()) << other.type().ToString();
  }
  EXPECT_THAT(use([&](auto& answers) { answers.erase(question); }).ToString(), HasSubstr("and the plan does not say for which results it is"));
  EXPECT_THAT(use([](auto& answers) { answers["unheard of"] = Tensor::Scalar<bool>(true); }).ToString(),
              HasSubstr("what the step computes, 'unheard of' is in it, and not known here"));
}

}  // namespace
}  // namespace millrace::testing
