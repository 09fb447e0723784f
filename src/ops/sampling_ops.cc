// Random ops beyond random_ops.cc: generators kept in variables, gamma and Poisson numbers, candidate samplers.
#include <string>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace millrace {
namespace {

constexpr int64_t kStreamBytes = 8;

absl::StatusOr<Shape> ShapeOfValue(const InferenceContext& context, int input) {
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> dims, KnownInts(context, input));
  for (int64_t dim : dims) {
    if (dim < 0) return context.Error(absl::StrCat("input ", input, " asks for a dimension of ", dim, ", expected none negative"));
  }
  return Shape(absl::MakeConstSpan(dims));
}

// The state of a generator: counter (two words) and key.
absl::Status ExpectGenerator(const InferenceContext& context) {
  if (context.dtype(0) != DataType::kInt64) {
    return context.Error(absl::StrCat("dtype of RNG state variable must be int64, not ", context.input(0).ToString()));
  }
  const Shape& state = context.shape(0);
  if (state.fully_known() && (state.rank() != 1 || state.dim(0) < 3)) {
    return context.Error(absl::StrCat("RNG state must have one and only one dimension of 3 or more, not ", state.ToString()));
  }
  return absl::OkStatus();
}

absl::Status ReadAndSkipShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  MR_RETURN_IF_ERROR(ExpectGenerator(context));
  context.AddOutput(DataType::kInt64, Shape({3}));
  return absl::OkStatus();
}

absl::Status SkipShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  return ExpectGenerator(context);
}

// (generator, algorithm, shape[, minval, maxval])
absl::Status GeneratorShape(InferenceContext& context) {
  const bool bounded = context.op() == "StatefulUniformInt";
  MR_RETURN_IF_ERROR(context.ExpectInputs(bounded ? 5 : 3));
  MR_RETURN_IF_ERROR(ExpectGenerator(context));
  MR_ASSIGN_OR_RETURN(Shape shape, ShapeOfValue(context, 2));
  const DataType fallback = bounded                                  ? context.dtype(3)
                            : context.op() == "StatefulUniformFullInt" ? DataType::kUint64
                                                                       : DataType::kFloat;
  context.AddOutput(context.attrs().GetOr<DataType>("dtype", fallback), std::move(shape));
  return absl::OkStatus();
}

// RandomGamma(shape, alpha), RandomPoissonV2(shape, rate): for every parameter a tensor of `shape`.
absl::Status PerParameterShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  MR_ASSIGN_OR_RETURN(Shape shape, ShapeOfValue(context, 0));
  const Shape& parameters = context.shape(1);
  for (int d = 0; !parameters.unknown_rank() && d < parameters.rank(); ++d) shape.AddDim(parameters.dim(d));
  const bool poisson = context.op() == "RandomPoissonV2";
  const DataType dtype = poisson ? context.attrs().GetOr<DataType>("dtype", DataType::kInt64) : context.dtype(1);
  context.AddOutput(dtype, parameters.unknown_rank() ? Shape::UnknownRank() : std::move(shape));
  return absl::OkStatus();
}

// (shape, seed, parameters) or (shape, key, counter, alg, parameters); the parameters' shape is the end of `shape`.
absl::Status StatelessParameterShape(InferenceContext& context) {
  const int parameters = context.op() == "StatelessRandomGammaV3" ? 4 : 2;
  MR_RETURN_IF_ERROR(context.ExpectInputs(parameters + 1));
  MR_ASSIGN_OR_RETURN(Shape shape, ShapeOfValue(context, 0));
  const Shape& given = context.shape(parameters);
  bool ends = given.unknown_rank() || given.rank() <= shape.rank();
  for (int d = 1; ends && !given.unknown_rank() && d <= given.rank(); ++d) {
    ends = given.dim(given.rank() - d) < 0 || given.dim(given.rank() - d) == shape.dim(shape.rank() - d);
  }
  if (!ends) {
    return context.Error(absl::StrCat("Shape passed in must end with broadcasted shape: ", shape.ToString(),
                                      " does not end with ", given.ToString()));
  }
  const DataType fallback = context.dtype(parameters);
  context.AddOutput(context.attrs().GetOr<DataType>("dtype", fallback), std::move(shape));
  return absl::OkStatus();
}

// (true_classes [batch, num_true]) -> sampled [num_sampled], expected counts of both.
absl::Status AddCandidates(InferenceContext& context, int64_t sampled, int64_t range) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  MR_ASSIGN_OR_RETURN(const int64_t num_true, RequiredAttr<int64_t>(context, "num_true"));
  MR_ASSIGN_OR_RETURN(const bool unique, RequiredAttr<bool>(context, "unique"));
  const Shape& classes = context.shape(0);
  if (classes.fully_known() && (classes.rank() != 2 || classes.dim(1) != num_true)) {
    return context.Error(absl::StrCat("true_classes are ", classes.ToString(), ", expected [batch,", num_true, "]"));
  }
  if (sampled < 1 || range < 1 || (unique && sampled > range)) {
    return context.Error(absl::StrCat("cannot draw ", sampled, unique ? " different" : "", " candidates of ", range));
  }
  context.AddOutput(DataType::kInt64, Shape({sampled}));
  context.AddOutput(DataType::kFloat, classes);
  context.AddOutput(DataType::kFloat, Shape({sampled}));
  return absl::OkStatus();
}

absl::Status CandidateShape(InferenceContext& context) {
  MR_ASSIGN_OR_RETURN(const int64_t sampled, RequiredAttr<int64_t>(context, "num_sampled"));
  MR_ASSIGN_OR_RETURN(const int64_t range, RequiredAttr<int64_t>(context, "range_max"));
  return AddCandidates(context, sampled, range);
}

absl::Status AllCandidatesShape(InferenceContext& context) {
  MR_ASSIGN_OR_RETURN(const int64_t all, RequiredAttr<int64_t>(context, "num_sampled"));
  return AddCandidates(context, all, all);
}

// Classes as often as the attribute `unigrams` counts them, behind reserved ones that never come.
absl::Status FixedUnigramShape(InferenceContext& context) {
  MR_ASSIGN_OR_RETURN(const int64_t range, RequiredAttr<int64_t>(context, "range_max"));
  if (!context.attrs().GetOr<std::string>("vocab_file", "").empty()) {
    return context.Error("reads its counts from vocab_file, which is not supported: give them as unigrams");
  }
  const auto counts = context.attrs().GetOr<std::vector<float>>("unigrams", {});
  const int64_t reserved = context.attrs().GetOr<int64_t>("num_reserved_ids", 0);
  const int64_t shards = context.attrs().GetOr<int64_t>("num_shards", 1), shard = context.attrs().GetOr<int64_t>("shard", 0);
  if (reserved < 0 || shards < 1 || shard < 0 || shard >= shards) {
    return context.Error(absl::StrCat("has ", reserved, " reserved classes and takes part ", shard, " of ", shards));
  }
  const auto kept_of = [&](int64_t first, int64_t end) {
    int64_t kept = 0;
    for (int64_t k = first; k < end; ++k) kept += k % shards == shard ? 1 : 0;
    return kept;
  };
  const int64_t first = kept_of(0, reserved);
  const int64_t kept = first + kept_of(first, first + static_cast<int64_t>(counts.size()));
  if (kept != range) return context.Error(absl::StrCat("range is ", range, " must be equal to weights size ", kept));
  return CandidateShape(context);
}

// (true_classes, sampled_candidates): at most one hit for every true class.
absl::Status AccidentalHitsShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  const Shape& classes = context.shape(0);
  if (!classes.unknown_rank() && classes.rank() != 2) {
    return context.Error(absl::StrCat("true_classes is ", classes.ToString(), ", expected a matrix"));
  }
  const Shape hits({classes.fully_known() ? classes.num_elements() : -1});
  context.AddOutput(DataType::kInt32, hits);
  context.AddOutput(DataType::kInt64, hits);
  context.AddOutput(DataType::kFloat, hits);
  for (int i = 0; i < 3; ++i) context.MarkBound(i);
  return absl::OkStatus();
}

Cost RejectionCost(const OpInstance& node) {
  constexpr double kFlops = 300;
  return {.flops = kFlops * node.outputs[0].shape.num_elements(),
          .bytes = static_cast<double>(node.outputs[0].size_bytes())};
}

}  // namespace

void RegisterSamplingOps(OpRegistry& registry) {
  const std::vector<VariableUse> generator = {{0, VariableAccess::kReadWrite}};
  AddOp(registry, {.name = "RngReadAndSkip", .shape = ReadAndSkipShape, .cost = NoCost, .variables = generator, .stateful = true});
  AddOp(registry, {.name = "RngSkip", .shape = SkipShape, .cost = NoCost, .variables = generator, .stateful = true});
  for (const char* name : {"StatefulUniform", "StatefulStandardNormalV2", "StatefulTruncatedNormal", "StatefulUniformInt",
                           "StatefulUniformFullInt"}) {
    AddOp(registry, {.name = name, .shape = GeneratorShape, .variables = generator, .stateful = true});
  }
  for (const char* name : {"RandomGamma", "RandomPoissonV2"}) {
    AddOp(registry, {.name = name, .shape = PerParameterShape, .cost = RejectionCost, .stateful = true,
                     .state_bytes = kStreamBytes});
  }
  for (const char* name : {"StatelessRandomGammaV2", "StatelessRandomGammaV3", "StatelessRandomPoisson"}) {
    AddOp(registry, {.name = name, .shape = StatelessParameterShape, .cost = RejectionCost});
  }
  for (const char* name : {"UniformCandidateSampler", "LogUniformCandidateSampler"}) {
    AddOp(registry, {.name = name, .shape = CandidateShape, .stateful = true, .state_bytes = kStreamBytes});
  }
  AddOp(registry, {.name = "FixedUnigramCandidateSampler", .shape = FixedUnigramShape, .stateful = true, .state_bytes = kStreamBytes});
  AddOp(registry, {.name = "AllCandidateSampler", .shape = AllCandidatesShape});
  AddOp(registry, {.name = "ComputeAccidentalHits", .shape = AccidentalHitsShape});
}

}  // namespace millrace
