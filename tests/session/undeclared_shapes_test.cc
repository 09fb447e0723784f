// Variables that are declared without a shape (validate_shape=False, shape=[None, 2]): planned before they exist.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text_session.h"

namespace millrace {
namespace {

using testing::Numbers;
using testing::SessionOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The slot begins as zeros like its variable, so its shape follows from the other one's.
constexpr char kWithSlot[] = R"(
w = VarHandleOp() {dtype=float, shape=shape[?, 2], shared_name="w"}
begin = Const() {dtype=float, value=float[1, 2]{3, 5}}
init_w = AssignVariableOp(w, begin) {dtype=float, validate_shape=false}
slot = VariableV2() {dtype=float}
like = ReadVariableOp(w) ^init_w {dtype=float}
zeros = ZerosLike(like) {T=float}
init_slot = Assign(slot, zeros) {T=float, validate_shape=false}
init = NoOp() ^init_w ^init_slot
x = Placeholder() {dtype=float, shape=shape[1, 2]}
read = ReadVariableOp(w) {dtype=float}
sum = AddV2(read, x) {T=float}
kept = AssignAdd(slot, sum) {T=float}
less = AssignSubVariableOp(w, kept) {dtype=float}
)";

TEST(UndeclaredShapes, FollowFromWhatInitialises) {
  const auto session = SessionOf(kWithSlot);
  const TensorType fed{DataType::kFloat, Shape({1, 2})};
  const auto plan = session->Plan({{"x:0", fed}}, {"kept:0"}, {"less"});
  ASSERT_TRUE(plan.ok()) << plan.status();
  for (const PlanVariable& variable : (*plan)->variables) EXPECT_EQ(variable.type, fed) << variable.name;
  ASSERT_TRUE(session->Run({}, {}, {"init"}, nullptr).ok());
  Tensor x(fed.dtype, fed.shape);
  x.mutable_as<float>()[0] = 1;
  x.mutable_as<float>()[1] = 2;
  std::vector<Tensor> out;
  ASSERT_TRUE(session->Run({{"x", x}}, {"kept:0"}, {"less"}, &out).ok());
  EXPECT_THAT(Numbers(out[0]), ElementsAre(4, 7));
  ASSERT_TRUE(session->Run({{"x", x}}, {"kept:0"}, {"less"}, &out).ok());
  EXPECT_THAT(Numbers(out[0]), ElementsAre(4 + (3 - 4 + 1), 7 + (5 - 7 + 2)));
}

TEST(UndeclaredShapes, OfAVariableThatExistsAreAsItIs) {
  const auto session = SessionOf(R"(
w = VarHandleOp() {dtype=float, shared_name="w"}
two = Const() {dtype=float, value=float[2]{3, 5}}
three = Const() {dtype=float, value=float[3]{1, 2, 3}}
init = AssignVariableOp(w, two) {dtype=float}
other = AssignVariableOp(w, three) {dtype=float}
read = ReadVariableOp(w) {dtype=float}
y = Neg(read) {T=float}
)");
  // Which of them comes first nobody can tell.
  const absl::Status refused = session->Plan({}, {"y:0"}, {}).status();
  EXPECT_THAT(refused.message(), HasSubstr("expected a shape that is known once feeds are"));
  ASSERT_TRUE(session->Run({}, {}, {"other"}, nullptr).ok());
  std::vector<Tensor> out;
  const absl::Status ran = session->Run({}, {"y:0"}, {}, &out);
  ASSERT_TRUE(ran.ok()) << ran;
  EXPECT_THAT(Numbers(out[0]), ElementsAre(-1, -2, -3));
}

}  // namespace
}  // namespace millrace
