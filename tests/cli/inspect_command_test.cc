// inspect on real sessions of the null device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include "cli/commands.h"
#include "graph/text.h"
#include "millrace/status.h"

namespace millrace::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class InspectCommandTest : public testing::Test {
 protected:
  InspectCommandTest() {
    environment_.out = &out_;
    environment_.err = &err_;
    environment_.create_session = [](std::shared_ptr<const Graph> graph, SessionOptions options) {
      return Session::Create(std::move(graph), std::move(options));
    };
    environment_.load_saved_model = [this](const std::string&) { return Model(); };
    options_.input = {.saved_model = "folder"};
  }

  // y is what f makes of x: two nodes of its body.
  absl::StatusOr<SavedModel> Model() const {
    SavedModel model;
    MR_ASSIGN_OR_RETURN(model.graph, ParseGraphText("function f\n  a = _Arg() {T=float, index=0}\n  b = Neg(a) {T=float}\n  c = Neg(b) {T=float}\n"
                                                    "  r = _Retval(c) {T=float, index=0}\nend\n"
                                                    "x = Placeholder() {dtype=float, shape=shape[2]}\ny = f(x)\ninit = NoOp()\n"));
    const SavedSignature::Info x = {"x:0", {DataType::kFloat, Shape({2})}}, y = {"y:0", {DataType::kFloat, Shape({2})}};
    model.signatures["negate"] = {.inputs = {{"x", x}}, .outputs = {{"y", y}}};
    model.signatures["__saved_model_init_op"] = {.targets = {"init"}};
    if (two_signatures_) model.signatures["again"] = model.signatures["negate"];
    return model;
  }

  std::string Inspected() {
    out_.str("");
    const absl::Status status = InspectCommand(options_, environment_);
    EXPECT_TRUE(status.ok()) << status;
    return out_.str();
  }

  std::ostringstream out_, err_;
  Environment environment_;
  Options options_;
  bool two_signatures_ = false;
};

TEST_F(InspectCommandTest, NodesOfFunctionsAreCountedApart) {
  EXPECT_THAT(Inspected(), AllOf(HasSubstr("nodes        3 (and 2 in the functions that they call)\n"), HasSubstr("Neg 2")));
}

TEST_F(InspectCommandTest, TheOnlySignatureIsPlanned) {
  EXPECT_THAT(Inspected(), AllOf(HasSubstr("signature    negate: "), Not(HasSubstr("__saved_model_init_op")), HasSubstr("\nstep         ")));
  EXPECT_THAT(out_.str(), Not(HasSubstr("not planned")));
}

TEST_F(InspectCommandTest, OfSeveralSignaturesOneIsAskedFor) {
  two_signatures_ = true;
  EXPECT_THAT(Inspected(), HasSubstr("step         not planned: give --signature: the model has again, negate\n"));
  options_.input.signature = "again";
  EXPECT_THAT(Inspected(), Not(HasSubstr("not planned")));
}

TEST(InspectCommand, TakesAllThatSaysWhatTheStepIs) {
  const auto& flags = FindCommand("inspect")->flags;
  for (const std::string flag : InputFlags()) EXPECT_EQ(std::find(flags.begin(), flags.end(), flag) != flags.end(), flag != "seed") << flag;
}

}  // namespace
}  // namespace millrace::cli
