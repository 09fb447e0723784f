// Random ops: stateful ones go on with their stream from run to run, stateless ones take it as an input.
#include <string>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace millrace {
namespace {

// Bytes of a stateful node's state: the samples it has used.
constexpr int64_t kStreamBytes = 8;

absl::StatusOr<Shape> RequestedShape(const InferenceContext& context) {
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> dims, KnownInts(context, 0));
  for (int64_t dim : dims) {
    if (dim < 0) return context.Error(absl::StrCat("input 0 asks for a dimension of ", dim, ", expected none negative"));
  }
  return Shape(absl::MakeConstSpan(dims));
}

absl::StatusOr<DataType> OutputType(const InferenceContext& context, DataType fallback) {
  for (const char* name : {"dtype", "Tout"}) {
    if (!context.attrs().Has(name)) continue;
    absl::StatusOr<DataType> dtype = context.attrs().Get<DataType>(name);
    if (!dtype.ok()) return ErrorAtNode(context, dtype.status());
    return *dtype;
  }
  return fallback;
}

absl::Status ExpectType(const InferenceContext& context, int input, DataType dtype) {
  if (context.dtype(input) == dtype) return absl::OkStatus();
  return context.Error(absl::StrCat("input ", input, " is ", context.input(input).ToString(), ", expected ",
                                    std::string(DataTypeName(dtype))));
}

// minval and maxval of the output's type.
absl::Status ExpectBounds(const InferenceContext& context, int first, DataType dtype) {
  for (int i = first; i < first + 2; ++i) {
    MR_RETURN_IF_ERROR(ExpectType(context, i, dtype));
    MR_RETURN_IF_ERROR(ExpectScalar(context, i, i == first ? "minval" : "maxval"));
  }
  return absl::OkStatus();
}

absl::Status RandomShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  MR_ASSIGN_OR_RETURN(Shape shape, RequestedShape(context));
  MR_ASSIGN_OR_RETURN(const DataType dtype, OutputType(context, DataType::kFloat));
  context.AddOutput(dtype, std::move(shape));
  return absl::OkStatus();
}

absl::Status RandomIntShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  MR_ASSIGN_OR_RETURN(Shape shape, RequestedShape(context));
  MR_ASSIGN_OR_RETURN(const DataType dtype, OutputType(context, context.dtype(1)));
  MR_RETURN_IF_ERROR(ExpectBounds(context, 1, dtype));
  context.AddOutput(dtype, std::move(shape));
  return absl::OkStatus();
}

// (shape, seed) or with kKeyed (shape, key, counter, alg), then minval and maxval with kBounds.
template <bool kKeyed, bool kBounds>
absl::Status StatelessShape(InferenceContext& context) {
  constexpr int kFirstBound = kKeyed ? 4 : 2;
  MR_RETURN_IF_ERROR(context.ExpectInputs(kFirstBound + (kBounds ? 2 : 0)));
  MR_ASSIGN_OR_RETURN(Shape shape, RequestedShape(context));
  MR_ASSIGN_OR_RETURN(const DataType dtype, OutputType(context, DataType::kFloat));
  if (kKeyed) {
    MR_RETURN_IF_ERROR(ExpectType(context, 1, DataType::kUint64));
    MR_RETURN_IF_ERROR(ExpectType(context, 2, DataType::kUint64));
    MR_RETURN_IF_ERROR(ExpectType(context, 3, DataType::kInt32));
    MR_RETURN_IF_ERROR(ExpectKeyCounterAlg(context, 1));
  } else {
    MR_RETURN_IF_ERROR(ExpectSeed(context, 1));
  }
  if (kBounds) MR_RETURN_IF_ERROR(ExpectBounds(context, kFirstBound, dtype));
  context.AddOutput(dtype, std::move(shape));
  return absl::OkStatus();
}

absl::Status KeyCounterShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  MR_RETURN_IF_ERROR(ExpectSeed(context, 0));
  context.AddOutput(DataType::kUint64, Shape({1}));
  context.AddOutput(DataType::kUint64, Shape({2}));
  if (context.op() == "StatelessRandomGetKeyCounterAlg") context.AddOutput(DataType::kInt32, Shape());
  return absl::OkStatus();
}

absl::Status AlgShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(0));
  context.AddOutput(DataType::kInt32, Shape());
  return absl::OkStatus();
}

// (logits [batch, classes], num_samples[, seed]) -> [batch, num_samples].
absl::Status MultinomialShape(InferenceContext& context) {
  const bool stateless = context.op() == "StatelessMultinomial";
  MR_RETURN_IF_ERROR(context.ExpectInputs(stateless ? 3 : 2));
  if (stateless) MR_RETURN_IF_ERROR(ExpectSeed(context, 2));
  const Shape& logits = context.shape(0);
  if (!logits.unknown_rank() && (logits.rank() != 2 || logits.dim(1) == 0)) {
    return context.Error(absl::StrCat("logits are ", logits.ToString(), ", expected [batch,classes]"));
  }
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> samples, KnownInts(context, 1));
  if (samples.size() != 1 || samples[0] < 0) return context.Error("num_samples must be one integer, not negative");
  const DataType dtype = context.attrs().GetOr<DataType>("output_dtype", DataType::kInt64);
  if (dtype != DataType::kInt32 && dtype != DataType::kInt64) {
    return context.Error(absl::StrCat("output_dtype is ", std::string(DataTypeName(dtype)), ", expected int32 or int64"));
  }
  context.AddOutput(dtype, Shape({logits.unknown_rank() ? -1 : logits.dim(0), samples[0]}));
  return absl::OkStatus();
}

// What generators begin with: different in every run of TensorFlow, here they follow from the session's seed.
absl::Status AnyIntsShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  MR_ASSIGN_OR_RETURN(Shape shape, RequestedShape(context));
  context.AddOutput(context.attrs().GetOr<DataType>("dtype", DataType::kInt64), std::move(shape));
  return absl::OkStatus();
}

template <int kFlops>
Cost RandomCost(const OpInstance& node) {
  Cost cost;
  cost.flops = static_cast<double>(kFlops) * node.outputs[0].shape.num_elements();
  cost.bytes = node.outputs[0].size_bytes();
  return cost;
}

void AddStateless(OpRegistry& registry, const char* name, OpDef::ShapeRule seeded, OpDef::ShapeRule keyed,
                  OpDef::CostRule cost) {
  AddOp(registry, {.name = name, .shape = std::move(seeded), .cost = cost});
  AddOp(registry, {.name = absl::StrCat(name, "V2"), .shape = std::move(keyed), .cost = cost});
}

}  // namespace

void RegisterRandomOps(OpRegistry& registry) {
  constexpr int kUniformFlops = 20, kNormalFlops = 60, kTruncatedFlops = 150;
  AddOp(registry, {.name = "RandomUniform", .shape = RandomShape, .cost = RandomCost<kUniformFlops>, .stateful = true,
                   .state_bytes = kStreamBytes});
  AddOp(registry, {.name = "RandomStandardNormal", .shape = RandomShape, .cost = RandomCost<kNormalFlops>,
                   .stateful = true, .state_bytes = kStreamBytes});
  AddOp(registry, {.name = "TruncatedNormal", .shape = RandomShape, .cost = RandomCost<kTruncatedFlops>,
                   .stateful = true, .state_bytes = kStreamBytes});
  AddOp(registry, {.name = "RandomUniformInt", .shape = RandomIntShape, .cost = RandomCost<kUniformFlops>,
                   .stateful = true, .state_bytes = kStreamBytes});
  AddOp(registry, {.name = "NonDeterministicInts", .shape = AnyIntsShape, .cost = RandomCost<kUniformFlops>, .stateful = true,
                   .state_bytes = kStreamBytes});
  AddOp(registry, {.name = "RandomShuffle", .shape = SameAsFirstInput, .stateful = true, .state_bytes = kStreamBytes});
  AddOp(registry, {.name = "Multinomial", .shape = MultinomialShape, .stateful = true, .state_bytes = kStreamBytes});
  AddOp(registry, {.name = "StatelessMultinomial", .shape = MultinomialShape});
  AddStateless(registry, "StatelessRandomUniform", StatelessShape<false, false>, StatelessShape<true, false>,
               RandomCost<kUniformFlops>);
  AddStateless(registry, "StatelessRandomNormal", StatelessShape<false, false>, StatelessShape<true, false>,
               RandomCost<kNormalFlops>);
  AddStateless(registry, "StatelessTruncatedNormal", StatelessShape<false, false>, StatelessShape<true, false>,
               RandomCost<kTruncatedFlops>);
  AddStateless(registry, "StatelessRandomUniformInt", StatelessShape<false, true>, StatelessShape<true, true>,
               RandomCost<kUniformFlops>);
  AddStateless(registry, "StatelessRandomUniformFullInt", StatelessShape<false, false>, StatelessShape<true, false>,
               RandomCost<kUniformFlops>);
  AddOp(registry, {.name = "StatelessRandomGetKeyCounter", .shape = KeyCounterShape});
  AddOp(registry, {.name = "StatelessRandomGetKeyCounterAlg", .shape = KeyCounterShape});
  AddOp(registry, {.name = "StatelessRandomGetAlg", .shape = AlgShape});
}

}  // namespace millrace
