// Plans as files: what is written is read back, runs with the same bits, and broken files are refused.
#include "millrace/plan_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <random>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "graph/text.h"
#include "import/plan_proto.h"
#include "millrace/session.h"
#include "models/models.h"
#include "plan/plan_text.h"
#include "plan/plan_verifier.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

const Session::FeedTypes& Feeds() {
  static const auto* feeds = new Session::FeedTypes{{"inputs", {DataType::kFloat, Shape({8, 12})}}, {"labels", {DataType::kInt32, Shape({8})}}};
  return *feeds;
}

absl::StatusOr<std::unique_ptr<Session>> MlpSession(const std::string& device, const std::string& strategy,
                                                     int64_t device_bytes = 0, int64_t host_bytes = 0) {
  auto graph = BuildModel("mlp", {.batch = 8, .classes = 4, .layers = 3, .hidden = 16, .channels = 12, .seed = 7});
  EXPECT_TRUE(graph.ok()) << graph.status();
  SessionOptions options;
  options.device = device;
  options.planning.strategy = strategy;
  options.planning.partition_size = strategy == "tensorflowmem" ? 5 : 0;
  options.planning.device_memory_bytes = device_bytes;
  options.planning.host_memory_bytes = host_bytes;
  return Session::Create(*std::move(graph), options);
}

ExecutionPlan MlpPlan(const std::string& device) {
  auto session = MlpSession(device, "tensorflowmem");
  EXPECT_TRUE(session.ok()) << session.status();
  const auto plan = (*session)->Plan(Feeds(), {"loss:0"}, {"train"});
  EXPECT_TRUE(plan.ok()) << plan.status();
  return **plan;
}

TEST(PlanFileTest, ReadsWhatItWrites) {
  const ExecutionPlan plan = MlpPlan("null");
  ASSERT_GT(plan.counts.swap_ins, 0);
  for (const bool text : {true, false}) {
    const std::string bytes = *PlanToBytes(plan, text);
    const auto read = PlanFromBytes(bytes);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(PlanToText(*read, {.seconds = true, .types = true}), PlanToText(plan, {.seconds = true, .types = true}));
    EXPECT_EQ(*PlanToBytes(*read, text), bytes);
  }
}

// Text has one NaN only.
TEST(PlanFileTest, NansKeepTheirBits) {
  const auto nan = [](uint32_t bits) { return std::bit_cast<float>(bits); };
  const std::vector<float> nans = {nan(0xFFC00000), 1, nan(0x7FC00001)};
  ExecutionPlan plan = MlpPlan("null");
  plan.constants.push_back({"nans", Tensor::Vector<float>(std::vector<float>(4, nans[0]))});
  plan.instances[0].attrs.Set("alone", nans[0]);
  plan.instances[0].attrs.Set("list", nans);
  for (const bool text : {true, false}) {
    const std::string bytes = *PlanToBytes(plan, text);
    const auto read = PlanFromBytes(bytes);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_TRUE(read->constants.back().value.BitEqual(plan.constants.back().value));
    EXPECT_EQ(std::bit_cast<uint32_t>(read->instances[0].attrs.GetOr<float>("alone", 0)), 0xFFC00000);
    const auto list = read->instances[0].attrs.GetOr<std::vector<float>>("list", {});
    EXPECT_TRUE(Tensor::Vector<float>(list).BitEqual(Tensor::Vector<float>(nans)));
    EXPECT_EQ(*PlanToBytes(*read, text), bytes);
  }
}

Tensor Words(const std::vector<std::string>& words) {
  Tensor tensor(DataType::kString, Shape({static_cast<int64_t>(words.size())}));
  tensor.mutable_strings() = words;
  return tensor;
}

TEST(PlanFileTest, ValuesThatAPlanIsForKeepTheirBits) {
  std::vector<uint8_t> many(1 << 20);
  for (size_t i = 0; i < many.size(); ++i) many[i] = static_cast<uint8_t>(i * i >> 3);
  ExecutionPlan plan = MlpPlan("null");
  plan.feed_values = {{"nan:0", Tensor::Vector<float>({std::bit_cast<float>(0xFFC00000), -0.0f})},
                      {"nans:0", Tensor::Vector<float>(std::vector<float>(4, std::bit_cast<float>(0x7FC00001)))},
                      {"words:0", Words({"", std::string("a\0b", 3)})},
                      {"none:0", Tensor(DataType::kInt64, Shape({0}))},
                      {"many:0", Tensor::Vector<uint8_t>(many)}};
  plan.answers = plan.feed_values;
  plan.answers["a line\nand another"] = Tensor::Scalar<bool>(true);
  for (const bool text : {true, false}) {
    const std::string bytes = *PlanToBytes(plan, text);
    const auto read = PlanFromBytes(bytes);
    ASSERT_TRUE(read.ok()) << read.status();
    for (const auto& [written, values] : {std::make_pair(&plan.feed_values, &read->feed_values), std::make_pair(&plan.answers, &read->answers)}) {
      ASSERT_EQ(values->size(), written->size());
      for (const auto& [name, value] : *written) EXPECT_TRUE(values->at(name).BitEqual(value)) << name;
    }
    EXPECT_EQ(*PlanToBytes(*read, text), bytes);
  }
}

TEST(PlanFileTest, ValuesWithoutANameOrABitAreRefused) {
  ExecutionPlan plan = MlpPlan("null");
  plan.feed_values = {{"a\n:0", Tensor::Scalar<int32_t>(1)}};
  plan.answers = {{"turn", Tensor::Scalar<bool>(true)}};
  const auto read = [&](const std::function<void(proto::Plan&)>& change) {
    proto::Plan message;
    PlanToProto(plan, &message);
    change(message);
    return PlanFromProto(message).status().ToString();
  };
  EXPECT_EQ(read([](proto::Plan&) {}), "OK");
  EXPECT_THAT(read([](proto::Plan& p) { *p.add_answers() = p.answers(0); }), HasSubstr("the plan has two values of answer 'turn'"));
  EXPECT_THAT(read([](proto::Plan& p) { *p.add_feed_values() = p.feed_values(0); }), HasSubstr(R"(the plan has two values of feed 'a\x0a:0')"));
  EXPECT_THAT(read([](proto::Plan& p) { p.mutable_feed_values(0)->clear_name(); }), HasSubstr("the plan has a value of a feed without a name"));
  for (const DataType dtype : {DataType::kResource, DataType::kVariant}) {
    EXPECT_THAT(read([&](proto::Plan& p) { p.mutable_answers(0)->mutable_value()->set_dtype(static_cast<proto::DataType>(dtype)); }),
                HasSubstr(absl::StrCat("a value of answer 'turn' of type ", TensorType{dtype, Shape()}.ToString(), ", expected numbers, bools or strings")));
  }
  EXPECT_NE(read([](proto::Plan& p) { p.mutable_answers(0)->clear_value(); }), "OK");
}

// The loss after three steps.
double Train(Session& session) {
  EXPECT_TRUE(session.Run({}, {}, {"init"}, nullptr).ok());
  Tensor inputs(DataType::kFloat, Shape({8, 12})), labels(DataType::kInt32, Shape({8}));
  for (int i = 0; i < 96; ++i) inputs.mutable_as<float>()[i] = 0.01f * static_cast<float>(i % 17);
  for (int i = 0; i < 8; ++i) labels.mutable_as<int32_t>()[i] = i % 4;
  std::vector<Tensor> outputs;
  for (int step = 0; step < 3; ++step) {
    const absl::Status status = session.Run({{"inputs", inputs}, {"labels", labels}}, {"loss:0"}, {"train"}, &outputs);
    EXPECT_TRUE(status.ok()) << status;
    if (!status.ok()) return 0;
  }
  return outputs[0].DoubleAt(0);
}

TEST(PlanFileTest, APlanFromAFileRunsWithTheSameBits) {
  auto session = MlpSession("cpu", "baseline");
  ASSERT_TRUE(session.ok()) << session.status();
  const double want = Train(**session);
  auto planned = MlpSession("cpu", "baseline");
  ASSERT_TRUE(planned.ok());
  const auto plan = PlanFromBytes(*PlanToBytes(MlpPlan("cpu"), false));
  ASSERT_TRUE(plan.ok()) << plan.status();
  const absl::Status used = (*planned)->UsePlan(std::make_shared<const ExecutionPlan>(*plan), Feeds(), {"loss:0"}, {"train"});
  ASSERT_TRUE(used.ok()) << used;
  EXPECT_EQ(Train(**planned), want);
  EXPECT_EQ((*planned)->last_run().strategy, "tensorflowmem");
}

TEST(PlanFileTest, APlanOfADeviceWithOtherKernelsIsRefusedBeforeAnythingRuns) {
  auto session = MlpSession("cpu", "baseline");
  ASSERT_TRUE(session.ok());
  const absl::Status used = (*session)->UsePlan(std::make_shared<const ExecutionPlan>(MlpPlan("null")), Feeds(), {"loss:0"}, {"train"});
  EXPECT_TRUE(absl::IsInvalidArgument(used)) << used;
  EXPECT_THAT(std::string(used.message()), testing::HasSubstr("or of another version of Millrace: node"));
}

TEST(PlanFileTest, APlanForOtherFeedsOrFetchesIsRefused) {
  auto session = MlpSession("null", "baseline");
  ASSERT_TRUE(session.ok());
  const auto plan = std::make_shared<const ExecutionPlan>(MlpPlan("null"));
  Session::FeedTypes others = Feeds();
  others["inputs"].shape = Shape({9, 12});
  EXPECT_FALSE((*session)->UsePlan(plan, others, {"loss:0"}, {"train"}).ok());
  EXPECT_FALSE((*session)->UsePlan(plan, Feeds(), {"logits:0"}, {"train"}).ok());
}

TEST(PlanFileTest, APlanForOtherTargetsIsRefused) {
  auto session = MlpSession("null", "baseline");
  ASSERT_TRUE(session.ok());
  const auto plan = std::make_shared<const ExecutionPlan>(MlpPlan("null"));
  const absl::Status none = (*session)->UsePlan(plan, Feeds(), {"loss:0"}, {});
  EXPECT_TRUE(absl::IsInvalidArgument(none)) << none;
  EXPECT_THAT(std::string(none.message()), HasSubstr("the plan is for the targets train, asked for are none"));
  EXPECT_FALSE((*session)->UsePlan(plan, Feeds(), {"loss:0"}, {"init", "train"}).ok());
  EXPECT_TRUE((*session)->UsePlan(plan, Feeds(), {"loss:0"}, {"train"}).ok());
}

TEST(PlanFileTest, APlanOfAnotherGraphIsRefused) {
  // The same nodes with another constant: a larger step along the gradient.
  auto graph = BuildModel("mlp", {.batch = 8, .classes = 4, .layers = 3, .hidden = 16, .channels = 12, .learning_rate = 5, .seed = 7});
  ASSERT_TRUE(graph.ok()) << graph.status();
  SessionOptions options;
  options.device = "null";
  auto session = Session::Create(*std::move(graph), options);
  ASSERT_TRUE(session.ok());
  ExecutionPlan plan = MlpPlan("null");
  const auto use = [&] { return (*session)->UsePlan(std::make_shared<const ExecutionPlan>(plan), Feeds(), {"loss:0"}, {"train"}); };
  EXPECT_TRUE(absl::IsInvalidArgument(use())) << use();
  EXPECT_THAT(std::string(use().message()), HasSubstr("the plan is of another graph"));
  // A plan that no session made is taken at its word.
  plan.graph_fingerprint = 0;
  EXPECT_TRUE(use().ok()) << use();
}

// What is left of a plan when the first step that takes a variable no longer knows where it lies.
ExecutionPlan WithoutAddressOfVariable(ExecutionPlan plan) {
  for (Lane& lane : plan.lanes) {
    for (ComputeStep& step : lane.compute) {
      for (size_t i = 0; i < step.input_variables.size(); ++i) {
        if (step.input_variables[i] < 0) continue;
        step.inputs[i] = kNoAddress;
        return plan;
      }
    }
  }
  ADD_FAILURE() << "no step takes a variable";
  return plan;
}

TEST(PlanFileTest, APlanWithoutTheAddressOfAVariableIsRefused) {
  auto session = MlpSession("null", "baseline");
  ASSERT_TRUE(session.ok());
  const auto plan = std::make_shared<const ExecutionPlan>(WithoutAddressOfVariable(MlpPlan("null")));
  const absl::Status used = (*session)->UsePlan(plan, Feeds(), {"loss:0"}, {"train"});
  EXPECT_TRUE(absl::IsInvalidArgument(used)) << used;
  EXPECT_THAT(std::string(used.message()), HasSubstr("without an address for it"));
}

// The verifier does not know the op: whether a variable has a value is asked without its address.
TEST(PlanFileTest, APlanWithoutTheAddressOfAVariableThatIsOnlyReadIsRefused) {
  const auto use = [](const std::string& op) {
    absl::StatusOr<Graph> graph = ParseGraphText(absl::StrCat(R"(
v = VarHandleOp() {dtype=float, shape=shape[3], shared_name="v"}
ids = Const() {dtype=int32, value=int32[2]{0, 2}}
out = )", op));
    EXPECT_TRUE(graph.ok()) << graph.status();
    auto session = Session::Create(*std::move(graph), {.device = "null"});
    EXPECT_TRUE(session.ok()) << session.status();
    const auto plan = (*session)->Plan({}, {"out:0"}, {});
    EXPECT_TRUE(plan.ok()) << plan.status();
    return (*session)->UsePlan(std::make_shared<const ExecutionPlan>(WithoutAddressOfVariable(**plan)), {}, {"out:0"}, {});
  };
  const absl::Status gathered = use("ResourceGather(v, ids) {dtype=float, Tindices=int32}");
  EXPECT_TRUE(absl::IsInvalidArgument(gathered)) << gathered;
  EXPECT_THAT(std::string(gathered.message()), HasSubstr("the plan has no address for input 0 of node 'out' (ResourceGather)"));
  const absl::Status asked = use("VarIsInitializedOp(v) {}");
  EXPECT_TRUE(asked.ok()) << asked;
}

TEST(PlanFileTest, APlanThatWasReadHasTheFactsOfItsGraph) {
  auto session = MlpSession("null", "baseline");
  ASSERT_TRUE(session.ok());
  ASSERT_TRUE((*session)->Plan(Feeds(), {"loss:0"}, {"train"}).ok());
  const GraphSummary want = (*session)->graph_summary();
  EXPECT_GT(want.edges, want.nodes);
  // Two layers of 12 to 16 and 16 units, one of 4 classes, each with its biases; no slots of the optimizer.
  EXPECT_EQ(want.parameter_bytes, 4 * (12 * 16 + 16 + 16 * 16 + 16 + 16 * 4 + 4));
  auto other = MlpSession("null", "lru");
  ASSERT_TRUE(other.ok());
  ASSERT_TRUE((*other)->UsePlan(std::make_shared<const ExecutionPlan>(MlpPlan("null")), Feeds(), {"loss:0"}, {"train"}).ok());
  EXPECT_EQ((*other)->last_run().strategy, "tensorflowmem");
  const GraphSummary& read = (*other)->graph_summary();
  EXPECT_EQ(std::tie(read.nodes, read.edges, read.parameter_bytes, read.largest_node, read.largest_node_bytes),
            std::tie(want.nodes, want.edges, want.parameter_bytes, want.largest_node, want.largest_node_bytes));
}

// What runs on the first device of a plan must not run on another, under its budget, because the names came in another order.
TEST(PlanFileTest, APlanForDevicesInAnotherOrderIsRefused) {
  const auto session_on = [](std::vector<std::string> devices) {
    auto graph = BuildModel("moe_transformer", {.batch = 2, .layers = 1, .hidden = 16, .heads = 2, .steps_unrolled = 4, .vocab = 20,
                                                .experts = 2, .devices = 2});
    EXPECT_TRUE(graph.ok()) << graph.status();
    SessionOptions options;
    options.device = "null";
    options.planning.devices = std::move(devices);
    auto session = Session::Create(*std::move(graph), options);
    EXPECT_TRUE(session.ok()) << session.status();
    return *std::move(session);
  };
  const Session::FeedTypes feeds = {{"tokens", {DataType::kInt32, Shape({2, 4})}}, {"labels", {DataType::kInt32, Shape({2, 4})}}};
  const auto plan = session_on({"cpu:1", "cpu:0"})->Plan(feeds, {"loss:0"}, {"train"});
  ASSERT_TRUE(plan.ok()) << plan.status();
  const absl::Status turned = session_on({"cpu:0", "cpu:1"})->UsePlan(*plan, feeds, {"loss:0"}, {"train"});
  EXPECT_TRUE(absl::IsInvalidArgument(turned)) << turned;
  EXPECT_THAT(std::string(turned.message()), HasSubstr("the plan is for the devices cpu:1,cpu:0, the session has cpu:0,cpu:1"));
  // Devices of another kind in their order are told of by the names that they have here.
  const auto same = session_on({"null:1", "null:0"});
  const absl::Status used = same->UsePlan(*plan, feeds, {"loss:0"}, {"train"});
  ASSERT_TRUE(used.ok()) << used;
  EXPECT_EQ(same->last_run().devices[0].name, "null:1");
}

TEST(PlanFileTest, APlanOverTheBudgetsIsRefused) {
  const auto plan = std::make_shared<const ExecutionPlan>(MlpPlan("null"));
  const auto use = [&](int64_t device_bytes, int64_t host_bytes) {
    auto session = MlpSession("null", "baseline", device_bytes, host_bytes);
    EXPECT_TRUE(session.ok()) << session.status();
    return (*session)->UsePlan(plan, Feeds(), {"loss:0"}, {"train"});
  };
  const int64_t arena = plan->devices[0].arena_bytes;
  EXPECT_TRUE(use(arena, plan->host_bytes).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(use(arena - 1, 0)));
  EXPECT_THAT(std::string(use(arena - 1, 0).message()), HasSubstr("of memory of cpu:0"));
  EXPECT_TRUE(absl::IsResourceExhausted(use(0, plan->host_bytes - 1)));
}

TEST(PlanFileTest, BrokenFilesAreRefused) {
  const std::string whole = *PlanToBytes(MlpPlan("null"), false);
  std::mt19937 random(1);
  for (int i = 0; i < 300; ++i) {
    std::string bytes = whole;
    for (int k = 0; k < 3; ++k) bytes[random() % bytes.size()] = static_cast<char>(random());
    if (i % 4 == 0) bytes.resize(random() % bytes.size());
    EXPECT_FALSE(PlanFromBytes(bytes).ok());
  }
  EXPECT_FALSE(PlanFromBytes("not a plan").ok());
  EXPECT_TRUE(absl::IsNotFound(LoadPlan("no/such.pb").status()));
}

// Behind the digest: what a message says wrongly is refused too, or is a plan still.
TEST(PlanFileTest, BrokenMessagesAreRefusedOrStillPlans) {
  const std::string whole = *PlanToBytes(MlpPlan("null"), false);
  std::mt19937 random(1);
  int parsed = 0, refused = 0;
  for (int i = 0; i < 1000; ++i) {
    std::string bytes = whole;
    for (int k = 0; k < 3; ++k) bytes[random() % bytes.size()] = static_cast<char>(random());
    proto::Plan message;
    if (!message.ParseFromString(bytes)) continue;
    ++parsed;
    const auto plan = PlanFromProto(message);
    refused += plan.ok() && VerifyPlan(*plan).ok() ? 0 : 1;
  }
  EXPECT_GT(parsed, 50);
  EXPECT_GT(refused, 20);
}

// An attribute, a shape or a step of another kind gives other bits, and the rest of the plan does not tell.
TEST(PlanFileTest, APlanThatWasEditedIsRefused) {
  const std::string whole = *PlanToBytes(MlpPlan("null"), true);
  EXPECT_TRUE(PlanFromBytes(whole).ok());
  const auto with = [&](const std::string& old_text, const std::string& new_text) {
    EXPECT_THAT(whole, HasSubstr(old_text));
    return PlanFromBytes(absl::StrReplaceAll(whole, {{old_text, new_text}})).status();
  };
  EXPECT_THAT(std::string(with("transpose_a", "transpose_b").message()), HasSubstr("is not as it was written"));
  EXPECT_THAT(std::string(with("graph_fingerprint: ", "# ").message()), HasSubstr("is not as it was written"));
  EXPECT_THAT(std::string(with("\ndigest: ", "\n# ").message()), HasSubstr("has no digest"));
  // White space and comments are no contents.
  EXPECT_TRUE(with("\ndigest: ", "\n# the end\n\ndigest: ").ok());
}

// configs/plans/mlp.pbtxt; with MILLRACE_UPDATE_GOLDENS it is written anew.
TEST(PlanFileTest, TheCheckedInPlanIsReproducedByteForByte) {
  const std::string path = MILLRACE_SOURCE_DIR "/configs/plans/mlp.pbtxt";
  const ExecutionPlan plan = MlpPlan("null");
  if (std::getenv("MILLRACE_UPDATE_GOLDENS") != nullptr) {
    ASSERT_TRUE(SavePlan(plan, path).ok());
  }
  std::ifstream file(path, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  EXPECT_EQ(*PlanToBytes(plan, true), bytes.str());
  EXPECT_TRUE(LoadPlan(path).ok());
}

}  // namespace
}  // namespace millrace
