// References and handles that stand for one of several variables, which a step chooses.
#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "millrace/session.h"
#include "text_session.h"
#include "two_references.h"

namespace millrace {
namespace {

using testing::kTwoReferences;
using testing::Numbers;
using testing::SessionOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// `late` is a Merge that takes the reference itself.
constexpr char kReadAfterWriting[] = R"(
c = RefMerge(of_a, of_b:1) {T=float, N=2}
set = AssignAdd(c, x) {T=float}
y = Identity(c) ^set {T=float}
seen = Neg(set) {T=float}
both = Add(seen, c) {T=float}
set_a = AssignAdd(a, x) {T=float}
z = Neg(c) ^set_a {T=float}
q = Less(one, x) {T=float}
a_there = RefSwitch(a, q) {T=float}
b_there = RefSwitch(b, q) {T=float}
either_a = RefSwitch(a_there:1, p) {T=float}
either_b = RefSwitch(b_there:1, p) {T=float}
either = RefMerge(either_a, either_b:1) {T=float, N=2}
one_there = Switch(one, q) {T=float}
merged = Merge(one_there, either) ^set_a {T=float, N=2}
late = Identity(merged) {T=float}
)";

TEST(ChosenVariables, AChosenReferenceIsReadWhenItsValueIsTaken) {
  for (const auto& [p, x, what, value] :
       {std::tuple{false, 10.0f, "y", 11.0f}, {true, 10, "y", 12}, {false, 10, "both", 0}, {true, 10, "both", 0}, {false, 10, "z", -11}, {true, 10, "z", -2},
        {false, 10, "c", 1}, {false, 10, "late", 11}, {true, 10, "late", 2}, {true, 1, "late", 1}}) {
    for (const char* strategy : {"baseline", "planned"}) {
      SessionOptions options;
      options.planning.strategy = strategy;
      const auto session = SessionOf(absl::StrCat(kTwoReferences, kReadAfterWriting), options);
      ASSERT_TRUE(session->Run({}, {}, {"init"}, nullptr).ok());
      std::vector<Tensor> out;
      const absl::Status status = session->Run({{"p", Tensor::Scalar<bool>(p)}, {"x", Tensor::Scalar<float>(x)}}, {what}, {}, &out);
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_THAT(Numbers(out[0]), ElementsAre(value)) << what << " " << strategy;
    }
  }
}

TEST(ChosenVariables, AReferenceIsChosenByItsIndex) {
  const auto session = SessionOf(R"(
i = Placeholder() {dtype=int32, shape=shape[]}
a = VariableV2() {dtype=float, shape=shape[]}
b = VariableV2() {dtype=float, shape=shape[]}
c = VariableV2() {dtype=float, shape=shape[]}
one = Const() {dtype=float, value=float[]{1}}
two = Const() {dtype=float, value=float[]{2}}
three = Const() {dtype=float, value=float[]{3}}
set_a = Assign(a, one) {T=float}
set_b = Assign(b, two) {T=float}
set_c = Assign(c, three) {T=float}
chosen = RefSelect(i, a, b, c) {T=float, N=3}
y = Neg(chosen) {T=float}
set = AssignAdd(chosen, three) {T=float}
after = Neg(chosen) ^set {T=float}
)");
  ASSERT_TRUE(session->Run({}, {}, {"set_a", "set_b", "set_c"}, nullptr).ok());
  std::vector<Tensor> out;
  for (const int32_t i : {0, 1, 2}) {
    const absl::Status status = session->Run({{"i", Tensor::Scalar<int32_t>(i)}}, {"y"}, {}, &out);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_THAT(Numbers(out[0]), ElementsAre(-(i + 1)));
    ASSERT_TRUE(session->Run({{"i", Tensor::Scalar<int32_t>(i)}}, {"after"}, {}, &out).ok());
    EXPECT_THAT(Numbers(out[0]), ElementsAre(-(i + 4)));
  }
  for (const int32_t i : {-1, 3}) {
    const absl::Status status = session->Run({{"i", Tensor::Scalar<int32_t>(i)}}, {"y"}, {}, &out);
    EXPECT_THAT(std::string(status.message()), HasSubstr("'chosen/Assert'"));
  }
}

TEST(ChosenVariables, AHandleIsNotFetched) {
  const auto session = SessionOf(R"(
a = VarHandleOp() {dtype=float, shape=shape[], shared_name="a"}
b = VarHandleOp() {dtype=float, shape=shape[], shared_name="b"}
p = Placeholder() {dtype=bool, shape=shape[]}
of_a = Switch(a, p) {T=resource}
of_b = Switch(b, p) {T=resource}
c = Merge(of_a, of_b:1) {T=resource, N=2}
)");
  std::vector<Tensor> out;
  const absl::Status status = session->Run({{"p", Tensor::Scalar<bool>(true)}}, {"c"}, {}, &out);
  EXPECT_THAT(std::string(status.message()), HasSubstr("(_Fetch) takes one of the variables"));
}

}  // namespace
}  // namespace millrace
