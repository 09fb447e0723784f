// Resizing of images [batch, height, width, channels].
#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace millrace {
namespace {

absl::Status ExpectOneAlignment(const InferenceContext& context) {
  if (!context.attrs().GetOr<bool>("align_corners", false) || !context.attrs().GetOr<bool>("half_pixel_centers", false)) {
    return absl::OkStatus();
  }
  return context.Error("has both align_corners and half_pixel_centers, expected at most one");
}

// `images` with the height and width that input `size` asks for.
absl::StatusOr<Shape> Resized(const InferenceContext& context, int size) {
  MR_RETURN_IF_ERROR(ExpectImages(context, 0));
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> wanted, KnownInts(context, size));
  if (wanted.size() != 2) return context.Error(absl::StrCat("size has ", wanted.size(), " elements, expected two"));
  if (wanted[0] <= 0 || wanted[1] <= 0) {
    return context.Error(absl::StrCat("size is [", wanted[0], ",", wanted[1], "], output dimensions must be positive"));
  }
  const Shape& images = context.shape(0);
  if (images.unknown_rank()) return Shape({-1, wanted[0], wanted[1], -1});
  if (images.dim(1) == 0 || images.dim(2) == 0) {
    return context.Error(absl::StrCat("images are ", images.ToString(), ", expected some height and width"));
  }
  return Shape({images.dim(0), wanted[0], wanted[1], images.dim(3)});
}

absl::Status ResizeFloatShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  MR_RETURN_IF_ERROR(ExpectOneAlignment(context));
  MR_ASSIGN_OR_RETURN(Shape shape, Resized(context, 1));
  context.AddOutput(DataType::kFloat, std::move(shape));
  return absl::OkStatus();
}

// (grads, size of the original): TensorFlow takes both alignments at once here, though not in the forward op.
absl::Status ResizeNearestGradShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  MR_ASSIGN_OR_RETURN(Shape shape, Resized(context, 1));
  context.AddOutput(context.dtype(0), std::move(shape));
  return absl::OkStatus();
}

absl::Status ResizeNearestShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(ExpectOneAlignment(context));
  return ResizeNearestGradShape(context);
}

// (grads, original_image): only the type of the original counts.
absl::Status ResizeGradShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  MR_RETURN_IF_ERROR(ExpectImages(context, 0));
  MR_RETURN_IF_ERROR(ExpectImages(context, 1));
  MR_RETURN_IF_ERROR(ExpectOneAlignment(context));
  if (context.dtype(0) != DataType::kFloat) {
    return context.Error(absl::StrCat("input 0 is ", context.input(0).ToString(), ", expected float"));
  }
  const Shape &grads = context.shape(0), &original = context.shape(1);
  if (grads.fully_known() && original.fully_known() &&
      (grads.dim(0) != original.dim(0) || grads.dim(3) != original.dim(3))) {
    return context.Error(absl::StrCat("gradients ", grads.ToString(), " and original ", original.ToString(),
                                      " differ in batch or channels"));
  }
  context.AddOutput(context.dtype(1), original);
  return absl::OkStatus();
}

template <int kTaps>
Cost ResizeCost(const OpInstance& node) {
  Cost cost;
  const double resized = std::max(node.inputs[0].shape.num_elements(), node.outputs[0].shape.num_elements());
  cost.flops = 2.0 * kTaps * resized;
  cost.bytes = static_cast<double>(node.inputs[0].size_bytes()) + node.outputs[0].size_bytes();
  return cost;
}

}  // namespace

void RegisterImageOps(OpRegistry& registry) {
  AddOp(registry, {.name = "ResizeBilinear", .shape = ResizeFloatShape, .cost = ResizeCost<4>});
  AddOp(registry, {.name = "ResizeBicubic", .shape = ResizeFloatShape, .cost = ResizeCost<8>});
  AddOp(registry, {.name = "ResizeNearestNeighbor", .shape = ResizeNearestShape, .cost = ResizeCost<1>});
  AddOp(registry, {.name = "ResizeBilinearGrad", .shape = ResizeGradShape, .cost = ResizeCost<4>});
  AddOp(registry, {.name = "ResizeBicubicGrad", .shape = ResizeGradShape, .cost = ResizeCost<8>});
  AddOp(registry, {.name = "ResizeNearestNeighborGrad", .shape = ResizeNearestGradShape, .cost = ResizeCost<1>});
}

}  // namespace millrace
