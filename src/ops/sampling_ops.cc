// Random ops beyond random_ops.cc: generators kept in variables, gamma and Poisson numbers, candidate samplers.
#include <string>

#include "absl/strings/str_cat.h"
#include "graph/random_algorithm.h"
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

// The state of a generator: counter (two words) and key. Input 1 is the algorithm.
absl::Status ExpectGenerator(const InferenceContext& context) {
  if (context.dtype(0) != DataType::kInt64) {
    return context.Error(absl::StrCat("dtype of RNG state variable must be int64, not ", context.input(0).ToString()));
  }
  const Shape& state = context.shape(0);
  if (state.fully_known() && (state.rank() != 1 || state.dim(0) < 3)) {
    return context.Error(absl::StrCat("RNG state must have one and only one dimension of 3 or more, not ", state.ToString()));
  }
  if (context.shape(1).rank() > 0) return context.Error(absl::StrCat("algorithm must be of shape [], not ", context.shape(1).ToString()));
  const Tensor* const algorithm = context.value(1);
  if (algorithm != nullptr && !IsPhilox(algorithm->IntAt(0))) {
    return context.Error(absl::StrCat("Unsupported algorithm id: ", algorithm->IntAt(0), ", expected ", kAlgorithmPhilox, " (Philox) or ",
                                      kAlgorithmAuto, " (auto)"));
  }
  return absl::OkStatus();
}

absl::Status ReadAndSkipShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  MR_RETURN_IF_ERROR(ExpectGenerator(context));
  MR_RETURN_IF_ERROR(ExpectScalar(context, 2, "delta"));
  context.AddOutput(DataType::kInt64, Shape({3}));
  return absl::OkStatus();
}

absl::Status SkipShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  MR_RETURN_IF_ERROR(ExpectScalar(context, 2, "delta"));
  return ExpectGenerator(context);
}

// (generator, algorithm, shape[, minval, maxval])
absl::Status GeneratorShape(InferenceContext& context) {
  const bool bounded = context.op() == "StatefulUniformInt";
  MR_RETURN_IF_ERROR(context.ExpectInputs(bounded ? 5 : 3));
  MR_RETURN_IF_ERROR(ExpectGenerator(context));
  if (context.dtype(2) != DataType::kInt32 && context.dtype(2) != DataType::kInt64) {
    return context.Error(absl::StrCat("shape is ", context.input(2).ToString(), ", expected int32 or int64"));
  }
  for (int i = 3; i < context.num_inputs(); ++i) MR_RETURN_IF_ERROR(ExpectScalar(context, i, i == 3 ? "minval" : "maxval"));
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
  MR_RETURN_IF_ERROR(parameters == 4 ? ExpectKeyCounterAlg(context, 1) : ExpectSeed(context, 1));
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

// (value, key, counter, alg) -> the rows in another order
absl::Status ShuffleShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(4));
  if (context.dtype(1) != DataType::kUint64 || context.dtype(2) != DataType::kUint64) {
    return context.Error(absl::StrCat("key and counter are ", context.input(1).ToString(), " and ", context.input(2).ToString(), ", expected uint64"));
  }
  MR_RETURN_IF_ERROR(ExpectKeyCounterAlg(context, 1));
  return SameAsFirstInput(context);
}

// (index, seed [3] or [n,3], max_index): scalars, or vectors of n
absl::Status IndexShuffleShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {0, 2}));
  const int64_t rounds = context.attrs().GetOr<int64_t>("rounds", 4);
  constexpr int64_t kMostRounds = 1 << 16;
  if (rounds < 4 || rounds % 2 != 0 || rounds > kMostRounds) return context.Error(absl::StrCat("rounds must be even and at least 4, got ", rounds));
  for (int i = 0; i < 3; ++i) {
    const DataType dtype = context.dtype(i);
    const bool good = dtype == DataType::kInt32 || dtype == DataType::kInt64 || dtype == DataType::kUint32 || dtype == DataType::kUint64;
    if (!good) return context.Error(absl::StrCat("input ", i, " is ", context.input(i).ToString(), ", expected integers of 32 or 64 bits"));
  }
  if (!context.shape(0).fully_known() || !context.shape(1).fully_known() || !context.shape(2).fully_known()) {
    context.AddOutput(context.dtype(0), Shape::UnknownRank());
    return absl::OkStatus();
  }
  const Shape &index = context.shape(0), &seed = context.shape(1), &most = context.shape(2);
  const int64_t count = std::max({index.num_elements(), most.num_elements(), seed.num_elements() / 3});
  const auto fits = [&](const Shape& shape) { return shape.rank() == 0 || (shape.rank() == 1 && shape.dim(0) == count); };
  if (!fits(index)) return context.Error(absl::StrCat("Index must be a scalar or vector of ", count, " elements, is ", index.ToString()));
  if (!(seed == Shape({3}) || seed == Shape({count, 3}))) {
    return context.Error(absl::StrCat("Seed must be a vector of size [3] or a matrix of size [", count, ", 3] but got ", seed.ToString()));
  }
  if (!fits(most)) return context.Error(absl::StrCat("Maxval must be a scalar or a vector of the same size as index but got ", most.ToString()));
  const bool scalar = index.rank() == 0 && seed.rank() == 1 && most.rank() == 0;
  context.AddOutput(context.dtype(0), scalar ? Shape() : Shape({count}));
  return absl::OkStatus();
}

// (shape, seed, parameters ...) or (generator, algorithm, shape, parameters ...): the parameters broadcast to the end of `shape`.
absl::Status BroadcastParametersShape(InferenceContext& context) {
  const bool stateful = context.op() == "StatefulRandomBinomial", binomial = stateful || context.op() == "StatelessRandomBinomial";
  const int first = stateful ? 3 : 2, inputs = first + (binomial ? 2 : 4);
  MR_RETURN_IF_ERROR(context.ExpectInputs(inputs));
  MR_ASSIGN_OR_RETURN(Shape shape, ShapeOfValue(context, stateful ? 2 : 0));
  MR_RETURN_IF_ERROR(stateful ? ExpectGenerator(context) : ExpectSeed(context, 1));
  Shape all;
  for (int i = first; i < inputs; ++i) {
    MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {first, i}));
    if (!context.shape(i).fully_known()) return context.Error(absl::StrCat("parameters ", i, " have no known shape"));
    absl::StatusOr<Shape> both = BroadcastShapes(all, context.shape(i));
    if (!both.ok()) return ErrorAtNode(context, both.status());
    all = *std::move(both);
  }
  bool ends = all.rank() <= shape.rank();
  for (int d = 1; ends && d <= all.rank(); ++d) ends = all.dim(all.rank() - d) == shape.dim(shape.rank() - d);
  if (!ends) {
    return context.Error(absl::StrCat("Shape passed in must end with broadcasted shape: ", shape.ToString(), " does not end with ", all.ToString()));
  }
  const DataType dtype = binomial ? context.attrs().GetOr<DataType>("dtype", DataType::kInt64) : context.dtype(2);
  context.AddOutput(dtype, std::move(shape));
  return absl::OkStatus();
}

// (shape, means, deviations, lower bounds, upper bounds): numbers for one batch after another, parameters for all or one for each.
absl::Status BatchesShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(5));
  MR_ASSIGN_OR_RETURN(Shape shape, ShapeOfValue(context, 0));
  if (shape.rank() < 1) return context.Error("Shape tensor must not be empty, got []");
  for (int i = 1; i < 5; ++i) {
    MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {1, i}));
    const Shape& given = context.shape(i);
    const bool fits = !given.fully_known() || given.rank() == 0 || (given.rank() == 1 && (given.dim(0) == 1 || given.dim(0) == shape.dim(0)));
    if (!fits) {
      return context.Error(absl::StrCat("Input parameters should have length 1 or shape[0] = ", shape.dim(0), ", input ", i, " is ", given.ToString()));
    }
  }
  context.AddOutput(context.attrs().GetOr<DataType>("dtype", context.dtype(1)), std::move(shape));
  return absl::OkStatus();
}

// (image size, boxes[, covered[, seed]]) -> begin [3], size [3], box [1, 1, 4]
absl::Status SampledBoxShape(InferenceContext& context) {
  const int inputs = context.op() == "SampleDistortedBoundingBox" ? 2 : context.op() == "SampleDistortedBoundingBoxV2" ? 3 : 4;
  MR_RETURN_IF_ERROR(context.ExpectInputs(inputs));
  if (inputs > 2) MR_RETURN_IF_ERROR(ExpectScalar(context, 2, "min_object_covered"));
  if (inputs > 3) MR_RETURN_IF_ERROR(ExpectSeed(context, 3));
  const Shape &size = context.shape(0), &boxes = context.shape(1);
  if (size.fully_known() && size != Shape({3})) return context.Error(absl::StrCat("image_size must contain 3 elements ", size.ToString()));
  if (!boxes.unknown_rank() && (boxes.rank() != 3 || (boxes.dim(2) >= 0 && boxes.dim(2) != 4))) {
    return context.Error(absl::StrCat("input boxes must be 3-dimensional [batch, num_boxes, coords]: ", boxes.ToString()));
  }
  const auto area = context.attrs().GetOr<std::vector<float>>("area_range", {0.05f, 1.0f});
  const auto ratio = context.attrs().GetOr<std::vector<float>>("aspect_ratio_range", {0.75f, 1.33f});
  if (area.size() != 2 || ratio.size() != 2 || !(area[0] > 0 && area[0] <= 1) || !(area[1] > 0 && area[1] <= 1) || !(ratio[0] > 0) || !(ratio[1] > 0)) {
    return context.Error("area_range must be two numbers of (0, 1], aspect_ratio_range two positive ones");
  }
  if (context.attrs().GetOr<int64_t>("max_attempts", 100) < 1) return context.Error("max_attempts must be positive");
  for (int i = 0; i < 2; ++i) context.AddOutput(context.dtype(0), Shape({3}));
  context.AddOutput(DataType::kFloat, Shape({1, 1, 4}));
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
  const auto kept_below = [&](int64_t end) { return end <= shard ? 0 : (end - 1 - shard) / shards + 1; };
  const int64_t first = kept_below(reserved);
  const int64_t kept = first + kept_below(first + static_cast<int64_t>(counts.size())) - kept_below(first);
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
  MR_ASSIGN_OR_RETURN(const int64_t num_true, RequiredAttr<int64_t>(context, "num_true"));
  if (!classes.unknown_rank() && classes.dim(1) >= 0 && classes.dim(1) != num_true) {
    return context.Error(absl::StrCat("true_classes is ", classes.ToString(), ", expected ", num_true, " columns by num_true"));
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
  AddOp(registry, {.name = "ParameterizedTruncatedNormal", .shape = BatchesShape, .cost = RejectionCost, .stateful = true,
                   .state_bytes = kStreamBytes});
  for (const char* name : {"StatelessRandomGammaV2", "StatelessRandomGammaV3", "StatelessRandomPoisson"}) {
    AddOp(registry, {.name = name, .shape = StatelessParameterShape, .cost = RejectionCost});
  }
  for (const char* name : {"UniformCandidateSampler", "LogUniformCandidateSampler"}) {
    AddOp(registry, {.name = name, .shape = CandidateShape, .stateful = true, .state_bytes = kStreamBytes});
  }
  AddOp(registry, {.name = "FixedUnigramCandidateSampler", .shape = FixedUnigramShape, .stateful = true, .state_bytes = kStreamBytes});
  AddOp(registry, {.name = "AllCandidateSampler", .shape = AllCandidatesShape});
  AddOp(registry, {.name = "RandomIndexShuffle", .shape = IndexShuffleShape, .cost = RejectionCost});
  AddOp(registry, {.name = "StatelessShuffle", .shape = ShuffleShape, .cost = MoveCost});
  for (const char* name : {"StatelessRandomBinomial", "StatelessParameterizedTruncatedNormal"}) {
    AddOp(registry, {.name = name, .shape = BroadcastParametersShape, .cost = RejectionCost});
  }
  AddOp(registry, {.name = "StatefulRandomBinomial", .shape = BroadcastParametersShape, .cost = RejectionCost, .variables = generator, .stateful = true});
  for (const char* name : {"SampleDistortedBoundingBox", "SampleDistortedBoundingBoxV2"}) {
    AddOp(registry, {.name = name, .shape = SampledBoxShape, .cost = NoCost, .stateful = true, .state_bytes = kStreamBytes});
  }
  AddOp(registry, {.name = "StatelessSampleDistortedBoundingBox", .shape = SampledBoxShape, .cost = NoCost});
  AddOp(registry, {.name = "ComputeAccidentalHits", .shape = AccidentalHitsShape});
}

}  // namespace millrace
