// Shape rules meet nodes that no checked graph holds: each op with too few inputs, of every small rank.

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/op.h"

namespace millrace {
namespace {

std::vector<TensorType> Inputs(int count, DataType dtype, int rank) {
  return std::vector<TensorType>(count, {dtype, Shape(std::vector<int64_t>(rank, 2))});
}

// A rule may accept fewer inputs than TensorFlow's op has, but it must not read beyond them.
TEST(ShapeRulesTest, EveryOpRefusesOrAcceptsTooFewInputs) {
  const OpRegistry& registry = OpRegistry::Builtin();
  int refused = 0;
  for (const std::string& name : registry.Names()) {
    SCOPED_TRACE(name);
    for (int count = 0; count <= 4; ++count) {
      for (int rank : {0, 1, 4}) {
        for (DataType dtype : {DataType::kFloat, DataType::kInt32}) {
          const std::vector<TensorType> inputs = Inputs(count, dtype, rank);
          const std::vector<const Tensor*> values(count, nullptr);
          const AttrMap attrs;
          InferenceContext context("node", name, attrs, inputs, values);
          const absl::Status status = registry.Find(name)->InferShapes(context);
          if (!status.ok()) ++refused;
          EXPECT_TRUE(context.ExpectInputsRead().ok() || !status.ok());
        }
      }
    }
  }
  EXPECT_GT(refused, static_cast<int>(registry.Names().size()));
}

TEST(ShapeRulesTest, ARuleThatReadsAMissingInputIsRefusedWhateverItReturns) {
  OpDef def;
  def.name = "Careless";
  def.shape = [](InferenceContext& context) {
    context.AddOutput(context.dtype(0), context.shape(1));
    return context.value(1) == nullptr ? absl::OkStatus() : context.Error("has a value from nowhere");
  };
  const std::vector<TensorType> inputs = Inputs(1, DataType::kFloat, 1);
  const AttrMap attrs;
  const std::vector<const Tensor*> values(1, nullptr);
  InferenceContext context("n", def.name, attrs, inputs, values);
  const absl::Status status = def.InferShapes(context);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("node 'n' (Careless): has 1 inputs, expected an input 1"));
  EXPECT_EQ(context.by_value(), 0u);
}

}  // namespace
}  // namespace millrace
