// Steps of which a part only is refused, or ends, on the faked CUDA (runtime/devices/cuda/fake/faults.h): some of several launches, some of
// several devices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "fake_library.h"
#include "fake_session.h"

namespace millrace::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class FakePartialStepsTest : public ::testing::Test {
 protected:
  void SetUp() override { Throw(""); }
  void TearDown() override { Throw(""); }
};

std::map<std::string, float> ValuesOf(Session& session) {
  std::map<std::string, float> values;
  const auto variables = session.Variables();
  EXPECT_TRUE(variables.ok()) << variables.status();
  if (!variables.ok()) return values;
  for (const auto& [name, value] : *variables) values[name] = value.as<float>()[0];
  return values;
}

// More updates than one launch takes: those of the launch that was not refused have been made.
TEST_F(FakePartialStepsTest, UpdatesBesideALaunchThatIsRefusedAreNamed) {
  constexpr int kVariables = 40;
  std::string text = R"(
gradient = Placeholder() {dtype=float, shape=shape[1]}
zero = Const() {dtype=float, value=float[1]{0}}
rate = Const() {dtype=float, value=float[]{1}}
)";
  std::vector<std::string> inits, updates;
  for (int i = 0; i < kVariables; ++i) {
    absl::StrAppend(&text, "v", i, " = VarHandleOp() {dtype=float, shape=shape[1], shared_name=\"v", i, "\"}\n");
    absl::StrAppend(&text, "init", i, " = AssignVariableOp(v", i, ", zero) {dtype=float}\n");
    absl::StrAppend(&text, "step", i, " = ResourceApplyGradientDescent(v", i, ", rate, gradient) {T=float, use_locking=false}\n");
    inits.push_back(absl::StrCat("init", i));
    updates.push_back(absl::StrCat("step", i));
  }
  const auto session = OpenOnFake(text, "off", 1800);
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE((*session)->Run({}, {}, inits, nullptr).ok());
  const auto step = [&] { return (*session)->Run({{"gradient", Tensor::Vector<float>({1})}}, {}, updates, nullptr); };
  Throw("");
  ASSERT_TRUE(step().ok());
  const int64_t launches = Count("launch");
  ASSERT_EQ(launches, 2);
  for (int64_t n = 0; n < launches; ++n) {
    SCOPED_TRACE(n);
    const std::map<std::string, float> before = ValuesOf(**session);
    Throw(absl::StrCat("launch@", n));
    const absl::Status status = step();
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("cudaErrorLaunchOutOfResources"), HasSubstr("changed already by this step: ")));
    const std::vector<std::string> changed = (*session)->last_run().changed_variables;
    const std::map<std::string, float> after = ValuesOf(**session);
    int updated = 0;
    for (const auto& [name, value] : after) {
      if (value == before.at(name)) continue;
      ++updated;
      EXPECT_THAT(changed, ::testing::Contains(name));
    }
    EXPECT_TRUE(updated > 0 && updated < kVariables) << updated;
  }
}

// A graph is in a stream of the first device alone.
TEST_F(FakePartialStepsTest, SeveralDevicesThatHangInAGraphAreGivenUp) {
  const auto warm_up = [](double timeout) -> absl::StatusOr<std::unique_ptr<Session>> {
    auto session = OpenOnFake(R"(
a = VarHandleOp() {dtype=float, shape=shape[2], shared_name="a"} on "/gpu:0"
b = VarHandleOp() {dtype=float, shape=shape[2], shared_name="b"} on "/gpu:1"
start = Const() {dtype=float, value=float[2]{1, 0.5}}
init_a = AssignVariableOp(a, start) {dtype=float}
init_b = AssignVariableOp(b, start) {dtype=float}
a_now = ReadVariableOp(a) {dtype=float}
b_now = ReadVariableOp(b) {dtype=float}
da = Square(a_now) {T=float} on "/gpu:0"
db = Mul(da, b_now) {T=float} on "/gpu:1"
add_a = AssignSubVariableOp(a, da) {dtype=float}
add_b = AssignAddVariableOp(b, db) {dtype=float}
)", "auto", timeout, {"cuda:0", "cuda:1"});
    if (!session.ok()) return session;
    for (const std::vector<std::string>& targets : {std::vector<std::string>{"init_a", "init_b"}, {"add_a", "add_b"}}) {
      const absl::Status status = (*session)->Run({}, {}, targets, nullptr);
      if (!status.ok()) return status;
    }
    return session;
  };
  const auto step = [](Session& session) { return session.Run({}, {}, {"add_a", "add_b"}, nullptr); };
  constexpr double kTimeout = 0.002;
  int64_t places = 0;
  {
    const auto session = warm_up(1800);
    ASSERT_TRUE(session.ok()) << session.status();
    Throw("");
    ASSERT_TRUE(step(**session).ok());
    ASSERT_EQ(Count("graph"), 1);
    constexpr int64_t kWordsOfFaults = 2;  // read behind the graph
    places = Count("operation") - kWordsOfFaults;
    EXPECT_GT(places, 4);
  }
  for (int64_t n = 0; n < places; ++n) {
    SCOPED_TRACE(n);
    Throw("");
    const auto session = warm_up(kTimeout);
    ASSERT_TRUE(session.ok()) << session.status();
    Throw(absl::StrCat("hang@", n));
    const absl::Status status = step(**session);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("did not answer for 0.002 s"));
    EXPECT_FALSE(step(**session).ok());
  }
}

}  // namespace
}  // namespace millrace::testing
