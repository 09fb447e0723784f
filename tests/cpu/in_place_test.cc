// Every op that declares that an output may overwrite an input computes the same bits when it does.
#include <gmock/gmock.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "kernel_testing.h"
#include "typed_values.h"

namespace millrace::cpu {
namespace {

Tensor Copy(const Tensor& tensor) {
  Tensor copy(tensor.dtype(), tensor.shape());
  std::memcpy(copy.mutable_data(), tensor.data(), tensor.size_bytes());
  return copy;
}

// Output 0 when it lies in the memory of input `reused`.
Tensor EvaluateInPlace(const NodeRun& run, int reused) {
  const auto instance = Infer(run);
  EXPECT_TRUE(instance.ok()) << instance.status();
  auto kernel = (*CpuKernels().Find(run.op))(*instance);
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  std::vector<Tensor> inputs;
  std::vector<void*> pointers;
  for (const Tensor& input : run.inputs) {
    inputs.push_back(Copy(input));
    pointers.push_back(inputs.back().mutable_data());
  }
  EXPECT_EQ(instance->outputs[0].size_bytes(), inputs[reused].size_bytes());
  Tensor scratch(DataType::kUint8, Shape({(*kernel)->scratch_bytes()}));
  void* output = pointers[reused];
  ThreadsRunner runner(2);
  KernelContext context;
  context.instance = &*instance;
  context.inputs = pointers.data();
  context.outputs = &output;
  context.scratch = scratch.mutable_data();
  context.parallel = &runner;
  EXPECT_TRUE((*kernel)->Run(context).ok());
  return Tensor::Wrap(instance->outputs[0].dtype, instance->outputs[0].shape, output,
                      std::make_shared<Tensor>(inputs[reused]));
}

void CheckInPlace(const NodeRun& run) {
  const OpDef* def = OpRegistry::Builtin().Find(run.op);
  ASSERT_NE(def, nullptr) << run.op;
  const Tensor expected = EvaluateOnThreads(run);
  for (const auto& [output, input] : def->in_place) {
    if (input >= static_cast<int>(run.inputs.size())) continue;
    if (run.inputs[input].size_bytes() != expected.size_bytes()) continue;
    SCOPED_TRACE(absl::StrCat(run.op, " ", run.inputs[input].type().ToString(), " over input ", input));
    EXPECT_TRUE(EvaluateInPlace(run, input).BitEqual(expected));
  }
}

// Positive and small, in the domain of every function.
Tensor Positive(DataType dtype, const Shape& shape, uint32_t seed) {
  std::vector<double> values(shape.num_elements());
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = IsInteger(dtype) ? 1 + (i * seed) % 7 : ((i * seed) % 97 + 1) / 100.0;
  return TensorOf(dtype, values, shape);
}

// Ops whose inputs all have one type and shape (or broadcast), with operands that bite: full and repeated ones.
TEST(InPlaceTest, EveryElementwiseOpOverwritesWhatItDeclares) {
  const Shape full({50, 1400}), row({1400}), column({50, 1});
  int checked = 0;
  for (const std::string& name : OpRegistry::Builtin().Names()) {
    const OpDef* def = OpRegistry::Builtin().Find(name);
    if (def->in_place.empty() || def->state_bytes > 0 || CpuKernels().Find(name) == nullptr) continue;
    for (DataType dtype : {DataType::kFloat, DataType::kDouble, DataType::kInt32, DataType::kInt8, DataType::kHalf}) {
      const Tensor a = Positive(dtype, full, 3), b = Positive(dtype, full, 5);
      std::vector<NodeRun> runs = {{name, {}, {a}},
                                   {name, {}, {a, b}},
                                   {name, {}, {a, Positive(dtype, row, 7)}},
                                   {name, {}, {Positive(dtype, column, 7), b}}};
      for (const NodeRun& run : runs) {
        const auto result = Evaluate(run);
        if (!result.ok() || result->size() != 1) continue;  // another number of inputs, shape or type
        CheckInPlace(run);
        ++checked;
      }
    }
  }
  EXPECT_GT(checked, 400);
}

TEST(InPlaceTest, OpsOfOtherFormsOverwriteWhatTheyDeclare) {
  const Shape shape({50, 1400});
  const auto x = [&](uint32_t seed, DataType dtype = DataType::kFloat) { return NumbersOf(dtype, shape, seed); };
  const Tensor condition = EvaluateOnThreads({"Less", {}, {x(1), x(2)}});
  CheckInPlace({"SelectV2", {}, {condition, x(3), x(4)}});
  CheckInPlace({"Select", {}, {condition, x(3), x(4)}});
  CheckInPlace({"SelectV2", {}, {TensorOf(DataType::kBool, {1}, Shape()), x(3), x(4)}});
  CheckInPlace({"ClipByValue", {}, {x(1), TensorOf(DataType::kFloat, {-2}, Shape()), x(2)}});
  for (size_t inputs : {1, 2, 3, 8}) {
    std::vector<Tensor> terms;
    for (size_t k = 0; k < inputs; ++k) terms.push_back(x(static_cast<uint32_t>(k)));
    CheckInPlace({"AddN", {}, terms});
  }
  for (bool exclusive : {false, true}) {
    for (int32_t axis : {0, 1}) {
      AttrMap attrs;
      attrs.Set("exclusive", exclusive);
      CheckInPlace({"Cumsum", attrs, {x(1), Tensor::Scalar<int32_t>(axis)}, {false, true}});
    }
  }
  const auto image = [](DataType dtype, uint32_t seed) { return NumbersOf(dtype, Shape({2, 3, 60, 17}), seed); };
  for (const DataType dtype : {DataType::kFloat, DataType::kHalf}) {
    AttrMap attrs;
    attrs.Set("depth_radius", int64_t{2});
    CheckInPlace({"LRNGrad", attrs, {image(dtype, 1), image(dtype, 2), image(dtype, 3)}});
  }
  for (const auto& [from, to] : {std::pair{DataType::kFloat, DataType::kInt32},
                                 {DataType::kInt32, DataType::kFloat},
                                 {DataType::kInt64, DataType::kDouble},
                                 {DataType::kHalf, DataType::kInt16},
                                 {DataType::kUint32, DataType::kInt32}}) {
    AttrMap attrs;
    attrs.Set("DstT", to);
    CheckInPlace({"Cast", attrs, {x(1, from)}});
  }
}

}  // namespace
}  // namespace millrace::cpu
