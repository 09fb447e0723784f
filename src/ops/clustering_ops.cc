// What k-means is made of: first centers, and the centers nearest to each point.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "ops/rarest.h"
#include "ops/rules.h"

namespace millrace {
namespace {

absl::Status ExpectMatrix(const InferenceContext& context, int input, const char* name) {
  const Shape& shape = context.shape(input);
  if (context.dtype(input) == DataType::kFloat && (shape.unknown_rank() || shape.rank() == 2)) return absl::OkStatus();
  return context.Error(absl::StrCat("Input ", name, " should be a matrix, is ", context.input(input).ToString()));
}

absl::Status ExpectInt64Scalar(const InferenceContext& context, int input, const char* name) {
  const Shape& shape = context.shape(input);
  if (context.dtype(input) == DataType::kInt64 && (shape.unknown_rank() || shape.rank() == 0)) return absl::OkStatus();
  return context.Error(absl::StrCat("Input ", name, " should be a scalar, is ", context.input(input).ToString(), ", expected int64"));
}

int64_t DimOf(const Shape& shape, int dim) { return shape.unknown_rank() ? -1 : shape.dim(dim); }

// (points [n,dims], num_to_sample, seed, num_retries_per_sample) -> [num_to_sample,dims]
absl::Status CentersShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(4));
  MR_RETURN_IF_ERROR(ExpectMatrix(context, 0, "points"));
  MR_RETURN_IF_ERROR(ExpectInt64Scalar(context, 1, "num_to_sample"));
  MR_RETURN_IF_ERROR(ExpectInt64Scalar(context, 2, "seed"));
  MR_RETURN_IF_ERROR(ExpectInt64Scalar(context, 3, "num_retries_per_sample"));
  MR_ASSIGN_OR_RETURN(const int64_t count, KnownInt(context, 1));
  const int64_t points = DimOf(context.shape(0), 0);
  if (points == 0) return context.Error("Expected points.rows() > 0.");
  if (count <= 0) return context.Error(absl::StrCat("Expected num_to_sample > 0., got ", count));
  if (points > 0 && count > points) return context.Error(absl::StrCat("Expected num_to_sample <= points.rows(). ", count, " vs ", points, "."));
  context.AddOutput(DataType::kFloat, Shape({count, DimOf(context.shape(0), 1)}));
  return absl::OkStatus();
}

// (distances [n], seed) -> which point
absl::Status ChainShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  const Shape& distances = context.shape(0);
  if (context.dtype(0) != DataType::kFloat || (!distances.unknown_rank() && distances.rank() != 1)) {
    return context.Error(absl::StrCat("Input distances should be a vector, is ", context.input(0).ToString()));
  }
  if (DimOf(distances, 0) == 0) return context.Error("Expected distances_tensor.size() > 0.");
  MR_RETURN_IF_ERROR(ExpectInt64Scalar(context, 1, "seed"));
  context.AddOutput(DataType::kInt64, Shape());
  return absl::OkStatus();
}

// (points [n,dims], centers [m,dims], k) -> indices and squared distances [n,min(k,m)]
absl::Status NearestShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  MR_RETURN_IF_ERROR(ExpectMatrix(context, 0, "points"));
  MR_RETURN_IF_ERROR(ExpectMatrix(context, 1, "centers"));
  MR_RETURN_IF_ERROR(ExpectInt64Scalar(context, 2, "k"));
  const int64_t points = DimOf(context.shape(0), 0), centers = DimOf(context.shape(1), 0);
  const int64_t dims = DimOf(context.shape(0), 1), center_dims = DimOf(context.shape(1), 1);
  if (points == 0) return context.Error("Expected points.rows() > 0.");
  if (dims >= 0 && center_dims >= 0 && dims != center_dims) {
    return context.Error(absl::StrCat("Expected point_dimensions == center_dimensions: ", dims, " vs ", center_dims, "."));
  }
  MR_ASSIGN_OR_RETURN(const int64_t k, KnownInt(context, 2));
  if (k < 0) return context.Error(absl::StrCat("Expected k >= 0., got ", k));
  const Shape shape({points, centers < 0 ? -1 : std::min(k, centers)});
  context.AddOutput(DataType::kInt64, shape);
  context.AddOutput(DataType::kFloat, shape);
  return absl::OkStatus();
}

// Two flops for every number of every pair.
Cost NearestCost(const OpInstance& node) {
  Cost cost;
  for (const TensorType& type : node.inputs) cost.bytes += static_cast<double>(type.size_bytes());
  for (const TensorType& type : node.outputs) cost.bytes += static_cast<double>(type.size_bytes());
  cost.flops = 2.0 * static_cast<double>(node.inputs[0].shape.num_elements()) * static_cast<double>(node.inputs[1].shape.dim(0));
  return cost;
}

// Two flops for every number of every point, every draw and the tries of it.
Cost CentersCost(const OpInstance& node) {
  constexpr double kTries = 4;
  Cost cost;
  cost.bytes = static_cast<double>(node.inputs[0].size_bytes() + node.outputs[0].size_bytes());
  cost.flops = 2.0 * kTries * static_cast<double>(node.inputs[0].shape.num_elements()) * static_cast<double>(node.outputs[0].shape.dim(0));
  return cost;
}

}  // namespace

void RegisterClusteringOps(OpRegistry& registry) {
  AddOp(registry, {.name = "KmeansPlusPlusInitialization", .shape = CentersShape, .cost = CentersCost});
  AddOp(registry, {.name = "KMC2ChainInitialization", .shape = ChainShape});
  AddOp(registry, {.name = "NearestNeighbors", .shape = NearestShape, .cost = NearestCost});
}

}  // namespace millrace
