// What programs that embed Millrace may do to a session, and what they are told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "graph/text.h"
#include "millrace/device.h"
#include "millrace/session.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

enum class Where { kShapeRule, kFactory, kKernel, kNowhere };

class PassingKernel final : public Kernel {
 public:
  explicit PassingKernel(bool throws) : throws_(throws) {}
  absl::Status Run(const KernelContext& context) const override {
    if (throws_ && context.input<float>(0)[0] < 0) throw std::runtime_error("boom");
    for (int i = 0; i < 2; ++i) context.output<float>(0)[i] = context.input<float>(0)[i];
    return absl::OkStatus();
  }

 private:
  const bool throws_;
};

// The op Pass of an embedding program, whose parts may throw.
SessionOptions WithPass(Where where) {
  auto ops = std::make_shared<OpRegistry>(OpRegistry::Builtin());
  OpDef def;
  def.name = "Pass";
  def.shape = [where](InferenceContext& context) -> absl::Status {
    if (where == Where::kShapeRule) throw std::runtime_error("boom");
    context.AddOutput(context.dtype(0), context.shape(0));
    return absl::OkStatus();
  };
  EXPECT_TRUE(ops->Register(def).ok());
  auto kernels = std::make_shared<KernelRegistry>(CpuKernels());
  const absl::Status registered =
      kernels->Register("Pass", [where](const OpInstance&) -> absl::StatusOr<std::unique_ptr<Kernel>> {
        if (where == Where::kFactory) throw 7;
        return std::make_unique<PassingKernel>(where == Where::kKernel);
      });
  EXPECT_TRUE(registered.ok());
  SessionOptions options;
  options.ops = ops;
  options.kernels = kernels;
  return options;
}

Graph Parsed(const char* text) {
  absl::StatusOr<Graph> graph = ParseGraphText(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *std::move(graph);
}

const char* const kFedPass = R"(
x = Placeholder() {dtype=float, shape=shape[2]}
y = Pass(x) {}
z = Neg(y) {T=float}
other = Neg(x) {T=float}
)";

TEST(Exceptions, OfAProgramsOwnOpAreErrorsThatNameTheNode) {
  const Tensor good = Tensor::Vector<float>({1, 2}), bad = Tensor::Vector<float>({-1, 2});
  std::vector<Tensor> out;
  for (const Where where : {Where::kShapeRule, Where::kFactory, Where::kKernel}) {
    SCOPED_TRACE(static_cast<int>(where));
    const auto session = Session::Create(Parsed(kFedPass), WithPass(where));
    ASSERT_TRUE(session.ok()) << session.status();
    for (int turn = 0; turn < 2; ++turn) {
      const absl::Status status = (*session)->Run({{"x", bad}}, {"z"}, {}, &out);
      EXPECT_TRUE(absl::IsInternal(status)) << status;
      EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("node 'y' (Pass)"), HasSubstr("threw")));
      // The session goes on.
      const absl::Status other = (*session)->Run({{"x", good}}, {where == Where::kKernel ? "z" : "other"}, {}, &out);
      ASSERT_TRUE(other.ok()) << other;
      EXPECT_EQ(out[0].as<float>()[1], -2);
    }
  }
}

TEST(Exceptions, OfAKernelThatComputesAConstantAreErrors) {
  const char* const constant = R"(
x = Const() {dtype=float, value=float[2]{-1, 2}}
y = Pass(x) {}
)";
  const auto session = Session::Create(Parsed(constant), WithPass(Where::kKernel));
  ASSERT_TRUE(session.ok()) << session.status();
  std::vector<Tensor> out;
  const absl::Status status = (*session)->Run({}, {"y"}, {}, &out);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("node 'y' (Pass)"), HasSubstr("boom")));
}

}  // namespace
}  // namespace millrace
