// Queues of numbers that wait from step to step: components of any shape, many at a time, closed ones, and those that shuffle.
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "millrace/session.h"
#include "text_session.h"

namespace millrace {
namespace {

using testing::Numbers;
using testing::SessionOf;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Pairs of two floats and a number: many go in, one or several come out.
constexpr char kPairs[] = R"(
queue = FIFOQueueV2() {component_types=[float, int64], shapes=[shape[2], shape[]], capacity=20, shared_name="q"}
x = Placeholder() {dtype=float, shape=shape[?,2]}
y = Placeholder() {dtype=int64, shape=shape[?]}
put = QueueEnqueueManyV2(queue, x, y) {Tcomponents=[float, int64]}
three = Const() {dtype=int32, value=int32[]{3}}
one = QueueDequeueV2(queue) {component_types=[float, int64]}
many = QueueDequeueManyV2(queue, three) {component_types=[float, int64]}
four = Const() {dtype=int32, value=int32[]{4}}
rest = QueueDequeueUpToV2(queue, four) {component_types=[float, int64]}
double = AddV2(rest:1, rest:1) {T=int64}
close = QueueCloseV2(queue)
closed = QueueIsClosedV2(queue)
size = QueueSizeV2(queue)
)";

std::string Shuffled() {
  return absl::StrReplaceAll(kPairs, {{"FIFOQueueV2() {", "RandomShuffleQueueV2() {min_after_dequeue=2, seed=87654321, seed2=7, "}});
}

std::map<std::string, Tensor> Rows(int64_t count) {
  Tensor x(DataType::kFloat, Shape({count, 2})), y(DataType::kInt64, Shape({count}));
  for (int64_t i = 0; i < count; ++i) y.mutable_as<int64_t>()[i] = i;
  for (int64_t i = 0; i < 2 * count; ++i) x.mutable_as<float>()[i] = static_cast<float>(i);
  return {{"x", x}, {"y", y}};
}

std::vector<double> Taken(Session& session, const std::string& fetch) {
  std::vector<Tensor> out;
  const absl::Status status = session.Run({}, {fetch}, {}, &out);
  EXPECT_TRUE(status.ok()) << status;
  return status.ok() ? Numbers(out[0]) : std::vector<double>();
}

std::string Refusal(Session& session, const std::string& fetch) {
  std::vector<Tensor> out;
  return session.Run({}, {fetch}, {}, &out).ToString();
}

TEST(Queues, ElementsLeaveInTheOrderInWhichTheyCame) {
  const auto session = SessionOf(kPairs);
  ASSERT_TRUE(session->Run(Rows(5), {}, {"put"}, nullptr).ok());
  EXPECT_THAT(Taken(*session, "one:0"), ElementsAre(0, 1));
  std::vector<Tensor> out;
  ASSERT_TRUE(session->Run({}, {"many:0", "many:1"}, {}, &out).ok());
  EXPECT_EQ(out[0].shape(), Shape({3, 2}));
  EXPECT_THAT(Numbers(out[0]), ElementsAre(2, 3, 4, 5, 6, 7));
  EXPECT_THAT(Numbers(out[1]), ElementsAre(1, 2, 3));
  EXPECT_THAT(Refusal(*session, "many:0"), AllOf(HasSubstr("'many'"), HasSubstr("of the 1 elements in the queue 1 may leave, 3 are wanted")));
  EXPECT_THAT(Taken(*session, "size"), ElementsAre(1));
  EXPECT_THAT(Taken(*session, "one:1"), ElementsAre(4));
  EXPECT_THAT(Refusal(*session, "one:1"), HasSubstr("the queue is empty"));
}

// A step takes and gives: what it gives comes first, also where the queue is full.
TEST(Queues, AStepMayGiveAndTakeWhereTheQueueIsFull) {
  const auto session = SessionOf(absl::StrReplaceAll(kPairs, {{"capacity=20", "capacity=3"}}));
  std::vector<Tensor> out;
  ASSERT_TRUE(session->Run(Rows(3), {}, {"put"}, nullptr).ok());
  for (int step = 0; step < 5; ++step) {
    const absl::Status status = session->Run(Rows(3), {"many:1", "size"}, {"put"}, &out);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_THAT(Numbers(out[0]), ElementsAre(0, 1, 2));
  }
  ASSERT_TRUE(session->Run(Rows(3), {}, {"put"}, nullptr).ok());
  EXPECT_THAT(session->Run(Rows(1), {}, {"put"}, nullptr).ToString(), HasSubstr("room for 6 (its capacity is 3) and holds 6"));
}

// The close is created before what it comes after.
TEST(Queues, WhatClosesComesBetweenWhatGivesAndWhatTakes) {
  std::string graph = kPairs;
  graph = absl::StrReplaceAll(graph, {{"close = QueueCloseV2(queue)\n", ""}, {"x = Placeholder", "close = QueueCloseV2(queue)\nx = Placeholder"}});
  const auto session = SessionOf(graph);
  std::vector<Tensor> out;
  const absl::Status status = session->Run(Rows(3), {"rest:1"}, {"put", "close"}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Numbers(out[0]), ElementsAre(0, 1, 2));
}

int64_t BytesOf(const std::string& queue) {
  const auto session = SessionOf(absl::StrCat(queue, "\nsize = QueueSizeV2(queue)\n"));
  std::vector<Tensor> out;
  const absl::Status status = session->Run({}, {"size"}, {}, &out);
  EXPECT_TRUE(status.ok()) << status;
  const auto variables = session->Variables();
  EXPECT_TRUE(variables.ok()) << variables.status();
  return status.ok() && variables.ok() ? variables->at("q/queue").num_elements() : 0;
}

TEST(Queues, HaveRoomForTheirCapacityUnlessItIsThereToBeNeverReached) {
  const auto bytes = [](const std::string& op, const std::string& attrs) {
    return BytesOf(absl::StrCat("queue = ", op, "() {", attrs, ", shared_name=\"q\"}"));
  };
  constexpr int64_t kHeader = 16;
  EXPECT_EQ(bytes("FIFOQueueV2", "component_types=[int64], shapes=[shape[]], capacity=100"), kHeader + 100 * 8);
  EXPECT_EQ(bytes("FIFOQueueV2", "component_types=[int64], capacity=-1"), kHeader + 512 * 8);
  EXPECT_EQ(bytes("FIFOQueueV2", "component_types=[int32], shapes=[shape[]], capacity=1000000000"), kHeader + 512 * 4);
  EXPECT_EQ(bytes("FIFOQueueV2", "component_types=[float], shapes=[shape[65536]], capacity=4"), kHeader + 8 * 4 * 65536);
  EXPECT_LE(bytes("FIFOQueueV2", "component_types=[float], shapes=[shape[]], capacity=1000000000"), int64_t{4} << 20);
  EXPECT_GE(bytes("RandomShuffleQueueV2", "component_types=[float], shapes=[shape[256]], capacity=5000, min_after_dequeue=2000"), 2001 * 4 * 256);
  EXPECT_EQ(bytes("FIFOQueueV2", "component_types=[float], shapes=[shape[0]], capacity=4"), kHeader + 8);
  const auto session = SessionOf("queue = RandomShuffleQueueV2() {component_types=[double], shapes=[shape[1000000]], min_after_dequeue=1000000000000}\n"
                                 "size = QueueSizeV2(queue)\n");
  EXPECT_THAT(Refusal(*session, "size"), AllOf(HasSubstr("'queue'"), HasSubstr("more than any memory has room for")));
}

TEST(Queues, ThatKeepFewerThanNoElementsAreRefused) {
  const auto session = SessionOf(absl::StrReplaceAll(Shuffled(), {{"min_after_dequeue=2", "min_after_dequeue=-2"}}));
  for (const char* const fetch : {"one:0", "size", "closed"}) {
    EXPECT_THAT(Refusal(*session, fetch), AllOf(HasSubstr("'queue'"), HasSubstr("min_after_dequeue is -2, expected 0 or more"))) << fetch;
  }
}

// As a plan of another make may have them.
TEST(Queues, AreAskedAndClosedOnlyWhereTheVariableIsAQueues) {
  for (const char* const op : {"_QueueCount", "_QueueIsClosed", "_QueueClose"}) {
    const auto session = SessionOf(absl::StrCat("v = VarHandleOp() {dtype=uint8, shape=shape[1]}\n",
                                                "used = ", op, "(v) {component_types=[float], shapes=[shape[]]}\n"));
    EXPECT_THAT(session->Run({}, {}, {"used"}, nullptr).ToString(), AllOf(HasSubstr("'used'"), HasSubstr("the queue is uint8[1]"))) << op;
  }
}

Tensor Block(const std::vector<int64_t>& numbers) {
  Tensor bytes(DataType::kUint8, Shape({static_cast<int64_t>(numbers.size() * sizeof(int64_t))}));
  std::memcpy(bytes.mutable_as<uint8_t>().data(), numbers.data(), numbers.size() * sizeof(int64_t));
  return bytes;
}

constexpr char kTokens[] = R"(
queue = FIFOQueueV2() {component_types=[int64], shapes=[shape[]], capacity=4, shared_name="q"}
one = QueueDequeueV2(queue) {component_types=[int64]}
close = QueueCloseV2(queue)
size = QueueSizeV2(queue)
)";

// Two tokens, the first one in the last place: a block as checkpoints have had it since there are queues.
TEST(Queues, TokensOfCheckpointsStayWhereTheyAre) {
  const auto session = SessionOf(kTokens);
  const absl::Status set = session->SetVariable("q/queue", Block({3, 2, 8, 0, 0, 7}));
  ASSERT_TRUE(set.ok()) << set;
  EXPECT_THAT(Taken(*session, "one"), ElementsAre(7));
  ASSERT_TRUE(session->Run({}, {}, {"close"}, nullptr).ok());
  EXPECT_THAT(Taken(*session, "one"), ElementsAre(8));
  EXPECT_THAT(Refusal(*session, "one"), HasSubstr("is closed and has insufficient elements"));
}

TEST(Queues, BytesThatAreNoQueueAreRefused) {
  for (const auto& [first, count] : std::vector<std::pair<int64_t, int64_t>>{{-3, 2}, {4, 1}, {0, 5}, {0, ~int64_t{5}}}) {
    const auto session = SessionOf(kTokens);
    ASSERT_TRUE(session->SetVariable("q/queue", Block({first, count, 0, 0, 0, 0})).ok());
    for (const char* fetch : {"one", "size"}) EXPECT_THAT(Refusal(*session, fetch), AllOf(HasSubstr(fetch), HasSubstr("the bytes are those of no queue")));
  }
}

TEST(Queues, ClosedOnesGiveWhatIsLeft) {
  const auto session = SessionOf(kPairs);
  ASSERT_TRUE(session->Run(Rows(7), {}, {"put"}, nullptr).ok());
  EXPECT_THAT(Taken(*session, "closed"), ElementsAre(0));
  ASSERT_TRUE(session->Run({}, {}, {"close"}, nullptr).ok());
  EXPECT_THAT(Taken(*session, "closed"), ElementsAre(1));
  EXPECT_THAT(Taken(*session, "rest:1"), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(Taken(*session, "double"), ElementsAre(8, 10, 12));
  for (const char* fetch : {"rest:1", "many:0", "one:0"}) {
    std::vector<Tensor> out;
    const absl::Status ended = session->Run({}, {fetch}, {}, &out);
    EXPECT_TRUE(absl::IsOutOfRange(ended)) << ended;
    EXPECT_THAT(ended.ToString(), HasSubstr("is closed and has insufficient elements (requested "));
  }
  EXPECT_TRUE(absl::IsCancelled(session->Run(Rows(1), {}, {"put"}, nullptr)));
  EXPECT_TRUE(absl::IsCancelled(session->Run({}, {}, {"close"}, nullptr)));
}

// The numbers are TensorFlow's for these seeds.
TEST(Queues, ShufflingOnesDrawAsTensorFlowDoes) {
  const auto session = SessionOf(Shuffled());
  ASSERT_TRUE(session->Run(Rows(10), {}, {"put"}, nullptr).ok());
  EXPECT_THAT(Taken(*session, "one:0"), ElementsAre(14, 15));
  EXPECT_THAT(Taken(*session, "many:0"), ElementsAre(2, 3, 10, 11, 12, 13));
  EXPECT_THAT(Taken(*session, "size"), ElementsAre(6));
  ASSERT_TRUE(session->Run(Rows(10), {}, {"put"}, nullptr).ok());
  EXPECT_THAT(Taken(*session, "many:1"), ElementsAre(0, 2, 4));
  ASSERT_TRUE(session->Run({}, {}, {"close"}, nullptr).ok());
  EXPECT_THAT(Taken(*session, "rest:1"), ElementsAre(5, 8, 0, 9));
  EXPECT_THAT(Taken(*session, "rest:1"), ElementsAre(8, 6, 3, 1));
  EXPECT_THAT(Taken(*session, "rest:1"), ElementsAre(9, 2, 4, 7));
  EXPECT_THAT(Taken(*session, "rest:1"), ElementsAre(3));
}

TEST(Queues, ShufflingOnesKeepSomeBack) {
  const auto session = SessionOf(Shuffled());
  ASSERT_TRUE(session->Run(Rows(4), {}, {"put"}, nullptr).ok());
  EXPECT_THAT(Refusal(*session, "many:0"), HasSubstr("of the 4 elements in the queue 2 may leave, 3 are wanted"));
  ASSERT_TRUE(session->Run({}, {}, {"close"}, nullptr).ok());
  EXPECT_EQ(Taken(*session, "many:1").size(), 3);
}

// Its elements have their priority in front: {5, 3, 5, ...} goes with {0, 1, 2, ...}.
constexpr char kPriorities[] = R"(
queue = PriorityQueueV2() {component_types=[int64], shapes=[shape[]], capacity=40, shared_name="q"}
priorities = Const() {dtype=int64, value=int64[14]{5, 3, 5, 1, 3, 5, 1, 3, 2, 2, 5, 5, 1, 3}}
values = Const() {dtype=int64, value=int64[14]{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}}
put = QueueEnqueueManyV2(queue, priorities, values) {Tcomponents=[int64, int64]}
one = QueueDequeueV2(queue) {component_types=[int64, int64]}
four = Const() {dtype=int32, value=int32[]{4}}
many = QueueDequeueManyV2(queue, four) {component_types=[int64, int64]}
nineteen = Const() {dtype=int32, value=int32[]{19}}
rest = QueueDequeueManyV2(queue, nineteen) {component_types=[int64, int64]}
upto = QueueDequeueUpToV2(queue, nineteen) {component_types=[int64, int64]}
least = Const() {dtype=int64, value=int64[]{-9}}
value = Const() {dtype=int64, value=int64[]{77}}
urgent = QueueEnqueueV2(queue, least, value) {Tcomponents=[int64, int64]}
close = QueueCloseV2(queue)
size = QueueSizeV2(queue)
)";

// Of equal priorities, too, those leave first that do in TensorFlow.
TEST(Queues, TheLeastPriorityLeavesFirst) {
  const auto session = SessionOf(kPriorities);
  ASSERT_TRUE(session->Run({}, {}, {"put"}, nullptr).ok());
  std::vector<Tensor> out;
  ASSERT_TRUE(session->Run({}, {"one:0", "one:1"}, {}, &out).ok());
  EXPECT_THAT(Numbers(out[0]), ElementsAre(1));
  EXPECT_THAT(Numbers(out[1]), ElementsAre(3));
  EXPECT_THAT(Taken(*session, "many:1"), ElementsAre(6, 12, 8, 9));
  EXPECT_THAT(Taken(*session, "size"), ElementsAre(9));
  ASSERT_TRUE(session->Run({}, {}, {"put"}, nullptr).ok());
  EXPECT_THAT(Taken(*session, "many:1"), ElementsAre(3, 6, 12, 8));
  ASSERT_TRUE(session->Run({}, {"rest:0", "rest:1"}, {}, &out).ok());
  EXPECT_THAT(Numbers(out[0]), ElementsAre(2, 3, 3, 3, 3, 3, 3, 3, 3, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5));
  EXPECT_THAT(Numbers(out[1]), ElementsAre(9, 13, 4, 1, 13, 7, 4, 7, 1, 5, 11, 2, 0, 5, 2, 10, 0, 10, 11));
}

TEST(Queues, WhatIsUrgentLeavesInTheStepInWhichItComes) {
  const auto session = SessionOf(kPriorities);
  ASSERT_TRUE(session->Run({}, {}, {"put"}, nullptr).ok());
  std::vector<Tensor> out;
  const absl::Status status = session->Run({}, {"one:1"}, {"urgent"}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Numbers(out[0]), ElementsAre(77));
  ASSERT_TRUE(session->Run({}, {}, {"close"}, nullptr).ok());
  EXPECT_THAT(Taken(*session, "upto:1").size(), 14);
  EXPECT_THAT(Refusal(*session, "one:1"), HasSubstr("is closed and has insufficient elements"));
}

// As a plan of another make may have them.
TEST(Queues, WithoutPrioritiesInFrontAreRefused) {
  const auto session = SessionOf("v = VarHandleOp() {dtype=uint8, shape=shape[64]}\n"
                                 "used = _QueueCount(v) {component_types=[uint8], shapes=[shape[]], component_shapes=[shape[]], by_priority=true}\n");
  EXPECT_THAT(session->Run({}, {}, {"used"}, nullptr).ToString(), AllOf(HasSubstr("'used'"), HasSubstr("the queue is uint8[64]")));
}

TEST(Queues, EveryPlanGivesTheSameBits) {
  std::vector<Tensor> first;
  for (const char* strategy : {"baseline", "tensorflowmem", "lru", "planned"}) {
    SessionOptions options;
    options.planning.strategy = strategy;
    options.planning.device_memory_bytes = std::string(strategy) == "baseline" ? 0 : 16 << 10;
    const auto session = SessionOf(Shuffled(), options);
    std::vector<Tensor> out;
    for (int step = 0; step < 3; ++step) {
      const absl::Status status = session->Run(Rows(6), {"many:0", "many:1", "size"}, {"put"}, &out);
      ASSERT_TRUE(status.ok()) << strategy << ": " << status;
    }
    const auto variables = session->Variables();
    ASSERT_TRUE(variables.ok()) << variables.status();
    out.push_back(variables->at("q/queue"));
    if (first.empty()) first = out;
    for (size_t i = 0; i < out.size(); ++i) EXPECT_TRUE(out[i].BitEqual(first[i])) << strategy << " " << i;
  }
}

TEST(Queues, WhatCannotGoInIsRefusedByName) {
  const auto put = [](const std::string& from, const std::string& to, std::map<std::string, Tensor> feeds) {
    return SessionOf(absl::StrReplaceAll(kPairs, {{from, to}}))->Run(std::move(feeds), {}, {"put"}, nullptr).ToString();
  };
  EXPECT_THAT(put("shapes=[shape[2]", "shapes=[shape[3]", Rows(2)), AllOf(HasSubstr("'put'"), HasSubstr("puts float[2,2]"), HasSubstr("expected float[2,3]")));
  std::map<std::string, Tensor> uneven = Rows(2);
  uneven["y"] = Tensor::Vector<int64_t>({1, 2, 3});
  EXPECT_THAT(put("?", "?", uneven), AllOf(HasSubstr("puts int64[3]"), HasSubstr("component 1, expected int64[2]")));
  EXPECT_THAT(put("float, int64], shapes", "float, int32], shapes", Rows(2)), HasSubstr("expected int32[2]"));
}

}  // namespace
}  // namespace millrace
