// Ops, kernels and cost rules of an embedding program, right and wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "graph/text.h"
#include "millrace/device.h"
#include "millrace/session.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using RunFunction = std::function<absl::Status(const KernelContext&)>;

class OwnKernel final : public Kernel {
 public:
  OwnKernel(RunFunction run, int64_t scratch_bytes) : run_(std::move(run)), scratch_bytes_(scratch_bytes) {}
  int64_t scratch_bytes() const override { return scratch_bytes_; }
  absl::Status Run(const KernelContext& context) const override { return run_(context); }

 private:
  const RunFunction run_;
  const int64_t scratch_bytes_;
};

absl::Status Copy(const KernelContext& context) {
  for (int64_t i = 0; i < context.input_type(0).shape.num_elements(); ++i) context.output<float>(0)[i] = context.input<float>(0)[i];
  return absl::OkStatus();
}

// The op Own, whose output is as its input.
OpDef Own() {
  OpDef def;
  def.name = "Own";
  def.shape = [](InferenceContext& context) {
    context.AddOutput(context.dtype(0), context.shape(0));
    return absl::OkStatus();
  };
  return def;
}

SessionOptions With(const OpDef& def, const KernelFactory& factory) {
  auto ops = std::make_shared<OpRegistry>(OpRegistry::Builtin());
  EXPECT_TRUE(ops->Register(def).ok());
  auto kernels = std::make_shared<KernelRegistry>(CpuKernels());
  EXPECT_TRUE(kernels->Register(def.name, factory).ok());
  SessionOptions options;
  options.ops = ops;
  options.kernels = kernels;
  return options;
}

SessionOptions With(const OpDef& def, RunFunction run = Copy, int64_t scratch_bytes = 0) {
  return With(def, [=](const OpInstance&) -> absl::StatusOr<std::unique_ptr<Kernel>> { return std::make_unique<OwnKernel>(run, scratch_bytes); });
}

std::unique_ptr<Session> SessionOf(const std::string& text, const SessionOptions& options) {
  absl::StatusOr<Graph> graph = ParseGraphText(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  absl::StatusOr<std::unique_ptr<Session>> session = Session::Create(*std::move(graph), options);
  EXPECT_TRUE(session.ok()) << session.status();
  return *std::move(session);
}

const char* const kOfFed = "x = Placeholder() {dtype=float, shape=shape[4]}\ny = Own(x) {}\n";
const char* const kOfConst = "x = Const() {dtype=float, value=float[4]{1, 2, 3, 4}}\ny = Own(x) {}\n";

absl::Status RunOf(const std::string& text, const SessionOptions& options, std::vector<Tensor>* out = nullptr) {
  Session::Feeds feeds;
  if (text == kOfFed) feeds.emplace("x", Tensor::Vector<float>({1, 2, 3, 4}));
  return SessionOf(text, options)->Run(feeds, {"y"}, {}, out);
}

TEST(OwnOps, AValueThatIsNotKnownBeforeTheNodeRunsIsAnInput) {
  OpDef scale = Own();
  scale.shape = [](InferenceContext& context) {
    static_cast<void>(context.value(1));
    context.AddOutput(context.dtype(0), context.shape(0));
    return absl::OkStatus();
  };
  const SessionOptions options = With(scale, [](const KernelContext& context) -> absl::Status {
    const std::vector<Tensor>& values = context.instance->input_values;
    if (values.size() != 2) return absl::InternalError("no values");
    const float factor = values[1].empty() ? context.input<float>(1)[0] : values[1].as<float>()[0];
    for (int i = 0; i < 2; ++i) context.output<float>(0)[i] = factor * context.input<float>(0)[i];
    return absl::OkStatus();
  });
  const auto session = SessionOf(R"(
x = Placeholder() {dtype=float, shape=shape[2]}
f = Placeholder() {dtype=float, shape=shape[]}
three = Const() {dtype=float, value=float[]{3}}
by_f = Own(x, f) {}
by_three = Own(x, three) {}
)", options);
  std::vector<Tensor> out;
  const absl::Status ran = session->Run({{"x", Tensor::Vector<float>({1, 2})}, {"f", Tensor::Scalar<float>(5)}}, {"by_f", "by_three"}, {}, &out);
  ASSERT_TRUE(ran.ok()) << ran;
  EXPECT_THAT(out[0].as<float>(), ElementsAre(5, 10));
  EXPECT_THAT(out[1].as<float>(), ElementsAre(3, 6));
}

TEST(OwnOps, ShapesBeyondTheirBoundsAreErrors) {
  OpDef def = Own();
  def.shape = [](InferenceContext& context) {
    context.AddOutput(context.dtype(0), context.shape(0));
    context.MarkBound(0);
    return absl::OkStatus();
  };
  for (const Shape& wrong : {Shape({5}), Shape({2, 2}), Shape({-1}), Shape({int64_t{1} << 40})}) {
    const SessionOptions options = With(def, [=](const KernelContext& context) {
      context.output_shapes[0] = wrong;
      return Copy(context);
    });
    for (const char* text : {kOfFed, kOfConst}) {
      const absl::Status status = RunOf(text, options);
      EXPECT_TRUE(absl::IsInternal(status)) << status;
      EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("node 'y' (Own)"), HasSubstr("output 0 is " + wrong.ToString())));
    }
  }
  std::vector<Tensor> out;
  for (const char* text : {kOfFed, kOfConst}) {
    const absl::Status ran = RunOf(text, With(def, [](const KernelContext& context) {
      context.output_shapes[0] = Shape({3});
      return Copy(context);
    }), &out);
    ASSERT_TRUE(ran.ok()) << ran;
    EXPECT_THAT(out[0].as<float>(), ElementsAre(1, 2, 3));
  }
}

// The kernel has run by then.
TEST(OwnOps, VariablesWrittenByAKernelWhoseShapesAreWrongCountAsChanged) {
  OpDef def = Own();
  def.variables = {{0, VariableAccess::kReadWrite}};
  def.stateful = true;
  def.shape = [](InferenceContext& context) {
    context.AddOutput(context.dtype(0), context.shape(0));
    context.MarkBound(0);
    return absl::OkStatus();
  };
  SessionOptions options = With(def, [](const KernelContext& context) {
    context.variable<float>(0)[0] = 7;
    context.output_shapes[0] = Shape({5});
    return absl::OkStatus();
  });
  for (const char* device : {"cpu", "cuda_emulated"}) {
    options.device = device;
    const auto session = SessionOf(R"(
w = VarHandleOp() {dtype=float, shape=shape[2], shared_name="w"}
y = Own(w) {}
)", options);
    ASSERT_TRUE(session->SetVariable("w", Tensor::Vector<float>({1, 2})).ok());
    EXPECT_TRUE(absl::IsInternal(session->Run({}, {"y"}, {}, nullptr)));
    EXPECT_THAT(session->last_run().changed_variables, ElementsAre("w")) << device;
  }
}

TEST(OwnOps, DescriptionsThatNoNodeFitsAreRefused) {
  using Set = void (*)(OpDef&);
  const std::pair<const char*, Set> wrong[] = {
      {"op '' has no name", [](OpDef& def) { def.name = ""; }},
      {"op 'Own' has no shape rule", [](OpDef& def) { def.shape = nullptr; }},
      {"negative number in place", [](OpDef& def) { def.in_place = {{0, -1}}; }},
      {"negative number in place", [](OpDef& def) { def.in_place = {{-1, 0}}; }},
      {"a variable as an input of negative number", [](OpDef& def) { def.variables = {{-1, VariableAccess::kRead}}; }},
      {"less than no state", [](OpDef& def) { def.state_bytes = -1; }},
  };
  for (const auto& [message, set] : wrong) {
    OpDef def = Own();
    set(def);
    OpRegistry ops;
    const absl::Status status = ops.Register(def);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }
}

TEST(OwnOps, NodesWithoutTheInputsThatTheirOpNamesAreRefused) {
  using Set = void (*)(OpDef&);
  const std::pair<const char*, Set> wrong[] = {
      {"y = Own() {}", [](OpDef& def) { def.is_view = true; }},
      {"y = Own() {}", [](OpDef& def) { def.returns_variable = true; }},
      {"x = Const() {dtype=float, value=float[4]{1, 2, 3, 4}}\ny = Own(x) {}", [](OpDef& def) { def.variables = {{1, VariableAccess::kReadWrite}}; }},
  };
  for (const auto& [text, set] : wrong) {
    OpDef def = Own();
    def.shape = [](InferenceContext& context) {
      context.AddOutput(DataType::kFloat, Shape({4}));
      return absl::OkStatus();
    };
    set(def);
    const absl::Status status = RunOf(text, With(def));
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("node 'y' (Own)"), HasSubstr("expected at least")));
  }
}

TEST(OwnOps, AViewThatIsLargerThanItsInputIsRefused) {
  OpDef def = Own();
  def.is_view = true;
  def.shape = [](InferenceContext& context) {
    context.AddOutput(context.dtype(0), Shape({2 * context.shape(0).num_elements()}));
    return absl::OkStatus();
  };
  for (const char* text : {kOfFed, kOfConst}) {
    const absl::Status status = RunOf(text, With(def));
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("node 'y' (Own): is float[8], expected no more than its input float[4]"));
  }
}

TEST(OwnOps, FactoriesWithoutKernelsAndLessThanNoScratchAreErrors) {
  const KernelFactory none = [](const OpInstance&) -> absl::StatusOr<std::unique_ptr<Kernel>> { return std::unique_ptr<Kernel>(); };
  for (const char* text : {kOfFed, kOfConst}) {
    const absl::Status without = RunOf(text, With(Own(), none));
    EXPECT_TRUE(absl::IsInternal(without)) << without;
    EXPECT_THAT(std::string(without.message()), AllOf(HasSubstr("node 'y' (Own)"), HasSubstr("returned no kernel")));
    const absl::Status negative = RunOf(text, With(Own(), Copy, -5));
    EXPECT_TRUE(absl::IsInternal(negative)) << negative;
    EXPECT_THAT(std::string(negative.message()), AllOf(HasSubstr("node 'y' (Own)"), HasSubstr("scratch memory of -5 bytes")));
  }
}

TEST(OwnOps, CostsThatAreNoNumbersOfWorkNameTheNode) {
  const std::pair<const char*, OpDef::CostRule> wrong[] = {
      {"the cost rule says nan flops", [](const OpInstance&) { return Cost{std::nan(""), 1, 0}; }},
      {"the cost rule says -1 flops and 2 bytes", [](const OpInstance&) { return Cost{-1, 2, 0}; }},
      {"the cost rule says 1 flops and inf bytes", [](const OpInstance&) { return Cost{1, HUGE_VAL, 0}; }},
      {"the cost rule says scratch memory of -7 bytes", [](const OpInstance&) { return Cost{1, 2, -7}; }},
      {"the cost rule threw an exception: boom", [](const OpInstance&) -> Cost { throw std::runtime_error("boom"); }},
  };
  for (const auto& [message, cost] : wrong) {
    OpDef def = Own();
    def.cost = cost;
    const absl::Status status = RunOf(kOfFed, With(def));
    EXPECT_TRUE(absl::IsInternal(status)) << status;
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("node 'y' (Own)"), HasSubstr(message)));
  }
  OpDef def = Own();
  def.cost = [](const OpInstance&) -> Cost { throw std::bad_alloc(); };
  const absl::Status without_memory = RunOf(kOfFed, With(def));
  EXPECT_TRUE(absl::IsResourceExhausted(without_memory)) << without_memory;
  EXPECT_THAT(std::string(without_memory.message()), HasSubstr("node 'y' (Own): the cost rule: there is no memory for it"));
  def.cost = [](const OpInstance&) { return Cost{1, 1, -7}; };
  SessionOptions options = With(def);
  options.device = "null";
  const absl::Status planned = SessionOf(kOfFed, options)->Plan({{"x", {DataType::kFloat, Shape({4})}}}, {"y"}, {}).status();
  EXPECT_THAT(std::string(planned.message()), AllOf(HasSubstr("node 'y' (Own)"), HasSubstr("scratch memory of -7 bytes")));
}

TEST(OwnOps, ALengthErrorOfAKernelIsAnInternalError) {
  const auto throws = [](const KernelContext&) -> absl::Status { throw std::length_error("a queue is full"); };
  for (const char* text : {kOfFed, kOfConst}) {
    const absl::Status status = RunOf(text, With(Own(), throws));
    EXPECT_TRUE(absl::IsInternal(status)) << status;
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("node 'y' (Own)"), HasSubstr("a queue is full")));
  }
}

TEST(OwnOps, StateThatNoMachineHasIsAnError) {
  OpDef def = Own();
  def.stateful = true;
  def.state_bytes = std::numeric_limits<int64_t>::max();
  const absl::Status status = RunOf(kOfFed, With(def));
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
}

TEST(OwnOps, WithoutTheBuiltInOnesThereIsNoSession) {
  auto ops = std::make_shared<OpRegistry>();
  ASSERT_TRUE(ops->Register(Own()).ok());
  SessionOptions options;
  options.ops = ops;
  const absl::Status status = Session::Create(Graph(), options).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("a copy of OpRegistry::Builtin()"));
}

TEST(OwnOps, KernelsWithoutANameOrAFactoryAndSecondOnesAreRefused) {
  const KernelFactory factory = [](const OpInstance&) -> absl::StatusOr<std::unique_ptr<Kernel>> { return std::make_unique<OwnKernel>(Copy, 0); };
  KernelRegistry kernels(CpuKernels());
  EXPECT_EQ(kernels.Register("", factory), absl::InvalidArgumentError("a kernel is registered for an op without a name"));
  EXPECT_EQ(kernels.Register("Own", nullptr), absl::InvalidArgumentError("the kernel of op 'Own' is registered without a factory"));
  EXPECT_EQ(kernels.Find("Own"), nullptr);
  EXPECT_EQ(kernels.Register("Relu", factory), absl::AlreadyExistsError("a kernel of op 'Relu' is registered twice"));
}

}  // namespace
}  // namespace millrace
