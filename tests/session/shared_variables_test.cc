// Variables that several nodes declare: which of them are one. Expected values are TensorFlow's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/text.h"
#include "millrace/session.h"
#include "testlib/open_session.h"

namespace millrace {
namespace {

using testing::OpenSession;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kReferences[] = R"(
init = Assign(a, start) {T=float}
begin = Assign(b, begin_value) {T=float}
add = AssignAdd(a, x) {T=float}
read = Identity(b) ^add {T=float}
y = Neg(read) {T=float}
)";
constexpr char kHandles[] = R"(
init = AssignVariableOp(a, start) {dtype=float}
begin = AssignVariableOp(b, begin_value) {dtype=float}
add = AssignAddVariableOp(a, x) {dtype=float}
read = ReadVariableOp(b) ^add {dtype=float}
y = Neg(read) {T=float}
)";

// Adds x = 2 to a, which begins at 1, and reads b, twice. Both are declared as given; b begins at 10 if `begins`.
absl::StatusOr<std::vector<float>> ValuesOfB(const std::string& a, const std::string& b, bool begins = false, const std::string& strategy = "planned") {
  const bool handles = a.find("VarHandleOp") != std::string::npos;
  absl::StatusOr<Graph> graph = ParseGraphText(absl::StrCat(R"(
x = Placeholder() {dtype=float, shape=shape[]}
start = Const() {dtype=float, value=float[]{1}}
begin_value = Const() {dtype=float, value=float[]{10}}
)", "a = ", a, "\nb = ", b, "\n", handles ? kHandles : kReferences));
  if (!graph.ok()) return graph.status();
  SessionOptions options;
  options.planning.strategy = strategy;
  auto session = OpenSession(*std::move(graph), options);
  if (!session.ok()) return session.status();
  absl::Status status = (*session)->Run({}, {}, {"init"}, nullptr);
  if (begins) status.Update((*session)->Run({}, {}, {"begin"}, nullptr));
  std::vector<float> values;
  for (int step = 0; step < 2 && status.ok(); ++step) {
    std::vector<Tensor> fetched;
    status = (*session)->Run({{"x", Tensor::Scalar(2.0f)}}, {"y:0"}, {}, &fetched);
    if (status.ok()) values.push_back(fetched[0].as<float>()[0]);
  }
  if (!status.ok()) return status;
  return values;
}

TEST(SharedVariables, NodesOfOneSharedNameAreOneVariable) {
  for (const char* op : {"VariableV2", "Variable", "VarHandleOp"}) {
    const std::string node = absl::StrCat(op, R"(() {dtype=float, shape=shape[], shared_name="w"})");
    for (const char* strategy : {"baseline", "tensorflowmem", "planned"}) {
      const auto values = ValuesOfB(node, node, false, strategy);
      ASSERT_TRUE(values.ok()) << op << values.status();
      EXPECT_THAT(*values, ElementsAre(-3, -5)) << op << strategy;
    }
  }
}

TEST(SharedVariables, ASharedNameMayBeThatOfANode) {
  const auto values = ValuesOfB("VariableV2() {dtype=float, shape=shape[]}", R"(VariableV2() {dtype=float, shape=shape[], shared_name="a"})");
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_THAT(*values, ElementsAre(-3, -5));
}

TEST(SharedVariables, ContainersAreApart) {
  for (const char* op : {"VariableV2", "VarHandleOp"}) {
    const auto in = [&](const char* container) {
      return absl::StrCat(op, R"(() {dtype=float, shape=shape[], shared_name="w", container=")", container, "\"}");
    };
    for (const auto& [a, b] : {std::pair("", "c"), {"c", ""}, {"c", "d"}}) {
      const auto values = ValuesOfB(in(a), in(b), true);
      ASSERT_TRUE(values.ok()) << op << values.status();
      EXPECT_THAT(*values, ElementsAre(-10, -10)) << op << a << b;
      EXPECT_THAT(ValuesOfB(in(a), in(b)).status().message(), HasSubstr("w")) << "b has no value";
    }
    for (const auto& [a, b] : {std::pair("c", "c"), {"", "localhost"}}) {
      const auto values = ValuesOfB(in(a), in(b));
      ASSERT_TRUE(values.ok()) << op << values.status();
      EXPECT_THAT(*values, ElementsAre(-3, -5)) << op << a << b;
    }
  }
}

TEST(SharedVariables, ShapesThatOneNodeSaysHoldForAll) {
  const std::string open = R"(VarHandleOp() {dtype=float, shape=shape<unknown>, shared_name="w"})";
  const std::string known = R"(VarHandleOp() {dtype=float, shape=shape[], shared_name="w"})";
  for (const auto& [a, b] : {std::pair(open, known), {known, open}, {open, open}}) {
    const auto values = ValuesOfB(a, b, true);
    ASSERT_TRUE(values.ok()) << values.status();
    EXPECT_THAT(*values, ElementsAre(-12, -14));
  }
}

// What TensorFlow takes for two variables or refuses, under one name here.
TEST(SharedVariables, NodesThatDoNotAgreeAreRefused) {
  const std::string first = R"(VarHandleOp() {dtype=float, shape=shape[], shared_name="w"})";
  for (const char* other : {R"(VarHandleOp() {dtype=float, shape=shape[3], shared_name="w"})", R"(VarHandleOp() {dtype=int32, shape=shape[], shared_name="w"})",
                            R"(VariableV2() {dtype=float, shape=shape[], shared_name="w"})"}) {
    absl::StatusOr<Graph> graph = ParseGraphText(absl::StrCat("a = ", first, "\nb = ", other, R"(
start = Const() {dtype=float, value=float[]{1}}
init = AssignVariableOp(a, start) {dtype=float}
there = VarIsInitializedOp(a) ^init
size = VariableShape(b) ^there
)"));
    ASSERT_TRUE(graph.ok()) << graph.status();
    auto session = OpenSession(*std::move(graph), SessionOptions());
    ASSERT_TRUE(session.ok()) << session.status();
    std::vector<Tensor> fetched;
    const absl::Status status = (*session)->Run({}, {"size:0"}, {}, &fetched);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << other;
    EXPECT_THAT(status.message(), HasSubstr("variable 'w' is float[] by node 'a' (VarHandleOp) and ")) << other;
  }
}

}  // namespace
}  // namespace millrace
