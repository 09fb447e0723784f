// Shape rules that several families share, and the helper that registers a built-in op.
#ifndef MILLRACE_SRC_OPS_RULES_H_
#define MILLRACE_SRC_OPS_RULES_H_

#include "absl/status/statusor.h"
#include "millrace/op.h"

namespace millrace {

// Rough operations per element of something like exp.
inline constexpr double kMathFlops = 10;

// CHECK-fails when the name is taken: built-in names are ours.
void AddOp(OpRegistry& registry, OpDef def);

// Output 0 has the type of input 0.
absl::Status SameAsFirstInput(InferenceContext& context);
// OK when these inputs have the same element type, else an error that names two that differ.
absl::Status ExpectEqualTypes(const InferenceContext& context, std::initializer_list<int> inputs);
// OK unless the input, of that name in TensorFlow, is known to be no scalar / no vector of so many elements: kernels read as many.
absl::Status ExpectScalar(const InferenceContext& context, int input, const char* name);
absl::Status ExpectVector(const InferenceContext& context, int input, const char* name, int64_t elements);
// OK unless the input is known to be of another rank than that of `layout`, such as "[n,4]".
absl::Status ExpectLayout(const InferenceContext& context, int input, int rank, const char* layout);
// The same of [batch,height,width,channels].
absl::Status ExpectImages(const InferenceContext& context, int input);
// OK unless the input is known to have another shape.
absl::Status ExpectShape(const InferenceContext& context, int input, const Shape& expected);
// Whether two shapes do not differ in what is known of them.
bool MayBeEqual(const Shape& a, const Shape& b);
// OK unless these inputs are known to be no sparse tensor: indices and values of as many rows, and the dense shape.
absl::Status ExpectSparse(const InferenceContext& context, int indices_at, int values_at, int shape_at);
// A seed of two integers.
absl::Status ExpectSeed(const InferenceContext& context, int input);
// Inputs `key`, `key` + 1 and `key` + 2 say which random numbers: key [1], counter (two elements or more), algorithm.
absl::Status ExpectKeyCounterAlg(const InferenceContext& context, int key);
// The attribute that says of what type indices and sizes are: int32 or int64, `fallback` where it is not given.
absl::StatusOr<DataType> IndexTypeAttr(const InferenceContext& context, const char* name, DataType fallback);
// Whether `data_format` (NHWC where it is not given) is NCHW, of whatever rank; an error for a third one.
absl::StatusOr<bool> ChannelsAreSecond(const InferenceContext& context);
// No outputs.
absl::Status NoOutputs(InferenceContext& context);
// NumPy broadcasting of two shapes; InvalidArgument names both.
absl::StatusOr<Shape> BroadcastShapes(const Shape& a, const Shape& b);
// Output 0 is inputs 0 and 1 broadcast, with input 0's dtype.
absl::Status BroadcastBinary(InferenceContext& context);
// Axis in [-rank, rank) -> [0, rank).
absl::StatusOr<int> NormalizeAxis(const InferenceContext& context, int64_t axis, int rank);
// The ints of a known integer input, or an error that says the value must be known when planning.
absl::StatusOr<std::vector<int64_t>> KnownInts(const InferenceContext& context, int input);
// The only element of a known integer input.
absl::StatusOr<int64_t> KnownInt(const InferenceContext& context, int input);
// The same of a size: an error where it is negative.
absl::StatusOr<int64_t> KnownSize(const InferenceContext& context, int input);
// The message of a status from shape arithmetic as an error of this node.
absl::Status ErrorAtNode(const InferenceContext& context, const absl::Status& status);
// The attribute's value, or an error of this node.
template <typename T>
absl::StatusOr<T> RequiredAttr(const InferenceContext& context, std::string_view name) {
  absl::StatusOr<T> value = context.attrs().Get<T>(name);
  if (!value.ok()) return ErrorAtNode(context, value.status());
  return value;
}

// Cost rule of ops that only move bytes: what they write, read once.
Cost MoveCost(const OpInstance& instance);
// Cost rule of ops whose kernel does next to nothing (Shape, ConcatOffset).
Cost NoCost(const OpInstance& instance);

}  // namespace millrace

#endif  // MILLRACE_SRC_OPS_RULES_H_
