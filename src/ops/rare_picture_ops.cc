// Detection, antialiased resizing and morphology.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "ops/rare.h"
#include "ops/rules.h"

namespace millrace {
namespace {

// (boxes, scores, max_output_size[, iou_threshold[, score_threshold[, soft_nms_sigma]]])
absl::Status SuppressionShape(InferenceContext& context) {
  const bool fourth = context.op() == "NonMaxSuppressionV4", fifth = context.op() == "NonMaxSuppressionV5";
  MR_RETURN_IF_ERROR(context.ExpectInputs(context.op() == "NonMaxSuppression" ? 3 : context.op() == "NonMaxSuppressionV2" ? 4
                                          : fifth ? 6 : 5));
  MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {0, 1}));
  for (int i = 3; i < context.num_inputs(); ++i) {
    const Shape& limit = context.shape(i);
    if ((context.dtype(i) != DataType::kFloat && context.dtype(i) != DataType::kHalf) ||
        (limit.fully_known() && limit.rank() != 0)) {
      return context.Error(absl::StrCat("input ", i, " is ", context.input(i).ToString(), ", expected a scalar float or half"));
    }
  }
  const Shape &boxes = context.shape(0), &scores = context.shape(1);
  if (boxes.fully_known() && scores.fully_known() &&
      (boxes.rank() != 2 || boxes.dim(1) != 4 || scores.rank() != 1 || scores.dim(0) != boxes.dim(0))) {
    return context.Error(absl::StrCat("boxes are ", boxes.ToString(), " and scores ", scores.ToString(), ", expected [n,4] and [n]"));
  }
  MR_ASSIGN_OR_RETURN(int64_t most, KnownInt(context, 2));
  if (most < 0) return context.Error("output size must be non-negative");
  const bool padded = context.attrs().GetOr("pad_to_max_output_size", false);
  if (!padded && boxes.rank() == 2 && boxes.dim(0) >= 0) most = std::min(most, boxes.dim(0));
  for (int k = 0; k < (fifth ? 2 : 1); ++k) {
    context.AddOutput(k == 0 ? DataType::kInt32 : context.dtype(0), Shape({most}));
    if (!padded) context.MarkBound(k);
  }
  if (fourth || fifth) context.AddOutput(DataType::kInt32, Shape());
  return absl::OkStatus();
}

// (overlaps [n, n], scores [n], max_output_size, overlap_threshold, score_threshold)
absl::Status OverlapsShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(5));
  for (int i : {0, 1, 3, 4}) {
    if (context.dtype(i) != DataType::kFloat) return context.Error(absl::StrCat("input ", i, " must be float"));
  }
  MR_RETURN_IF_ERROR(ExpectScalar(context, 3, "overlap_threshold"));
  MR_RETURN_IF_ERROR(ExpectScalar(context, 4, "score_threshold"));
  const Shape &overlaps = context.shape(0), &scores = context.shape(1);
  if (overlaps.fully_known() && scores.fully_known() &&
      (overlaps.rank() != 2 || overlaps.dim(1) != overlaps.dim(0) || scores.rank() != 1 || scores.dim(0) != overlaps.dim(0))) {
    return context.Error(absl::StrCat("overlaps are ", overlaps.ToString(), " and scores ", scores.ToString(), ", expected [n,n] and [n]"));
  }
  MR_ASSIGN_OR_RETURN(int64_t most, KnownInt(context, 2));
  if (most < 0) return context.Error("output size must be non-negative");
  if (overlaps.rank() == 2 && overlaps.dim(0) >= 0) most = std::min(most, overlaps.dim(0));
  context.AddOutput(DataType::kInt32, Shape({most}));
  context.MarkBound(0);
  return absl::OkStatus();
}

// (boxes [batch, n, classes or 1, 4], scores [batch, n, classes], most per class, most, iou_threshold, score_threshold)
absl::Status CombinedShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(6));
  const Shape &boxes = context.shape(0), &scores = context.shape(1);
  if (!boxes.fully_known() || !scores.fully_known() || boxes.rank() != 4 || scores.rank() != 3 || boxes.dim(3) != 4 ||
      boxes.dim(0) != scores.dim(0) || boxes.dim(1) != scores.dim(1) || (boxes.dim(2) != 1 && boxes.dim(2) != scores.dim(2))) {
    return context.Error(absl::StrCat("boxes are ", boxes.ToString(), " and scores ", scores.ToString(),
                                      ", expected [batch,n,classes or 1,4] and [batch,n,classes]"));
  }
  for (int i : {0, 1, 4, 5}) {
    if (context.dtype(i) != DataType::kFloat) return context.Error(absl::StrCat("input ", i, " must be float"));
  }
  MR_RETURN_IF_ERROR(ExpectScalar(context, 4, "iou_threshold"));
  MR_RETURN_IF_ERROR(ExpectScalar(context, 5, "score_threshold"));
  MR_ASSIGN_OR_RETURN(const int64_t each, KnownInt(context, 2));
  MR_ASSIGN_OR_RETURN(int64_t most, KnownInt(context, 3));
  if (each <= 0 || most <= 0) return context.Error("max_size_per_class and max_total_size must be positive");
  if (context.attrs().GetOr("pad_per_class", false)) most = std::min(most, each * scores.dim(2));
  context.AddOutput(DataType::kFloat, Shape({boxes.dim(0), most, 4}));
  for (int i = 0; i < 2; ++i) context.AddOutput(DataType::kFloat, Shape({boxes.dim(0), most}));
  context.AddOutput(DataType::kInt32, Shape({boxes.dim(0)}));
  return absl::OkStatus();
}

absl::Status ExpectPairs(const InferenceContext& context) {
  for (int i : {2, 3}) {
    const Shape& shape = context.shape(i);
    if (context.dtype(i) != DataType::kFloat || (shape.fully_known() && !(shape == Shape({2})))) {
      return context.Error(absl::StrCat("input ", i, " is ", context.input(i).ToString(), ", expected float[2]"));
    }
  }
  return absl::OkStatus();
}

// Input 0's images in the height and width that input 1 gives, as floats.
absl::Status AddResizedImages(InferenceContext& context) {
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> size, KnownInts(context, 1));
  if (size.size() != 2 || size[0] <= 0 || size[1] <= 0) return context.Error("size must be two positive integers, height and width");
  const Shape& images = context.shape(0);
  if (images.fully_known() && (images.dim(1) == 0 || images.dim(2) == 0)) return context.Error("input image must be of non-zero size");
  context.AddOutput(DataType::kFloat, images.unknown_rank() ? Shape({-1, size[0], size[1], -1})
                                                            : Shape({images.dim(0), size[0], size[1], images.dim(3)}));
  return absl::OkStatus();
}

// (images, size, scale, translation)
absl::Status ScaleShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(4));
  MR_RETURN_IF_ERROR(ExpectImages(context, 0));
  MR_RETURN_IF_ERROR(ExpectPairs(context));
  return AddResizedImages(context);
}

// (images, size)
absl::Status AreaShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  MR_RETURN_IF_ERROR(ExpectImages(context, 0));
  return AddResizedImages(context);
}

// (grads, original_image, scale, translation)
absl::Status ScaleGradShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(4));
  MR_RETURN_IF_ERROR(ExpectImages(context, 0));
  MR_RETURN_IF_ERROR(ExpectImages(context, 1));
  MR_RETURN_IF_ERROR(ExpectPairs(context));
  const Shape &gradients = context.shape(0), &images = context.shape(1);
  if (gradients.fully_known() && images.fully_known() &&
      (gradients.dim(0) != images.dim(0) || gradients.dim(3) != images.dim(3) || images.dim(1) == 0 || images.dim(2) == 0)) {
    return context.Error(absl::StrCat("gradients ", gradients.ToString(), " are not of images ", images.ToString()));
  }
  context.AddOutput(context.dtype(0), context.shape(1));
  return absl::OkStatus();
}

absl::StatusOr<int64_t> DilatedSize(const InferenceContext& context, int64_t size, int64_t taps, int64_t stride, int64_t rate,
                                    bool same) {
  const int64_t reach = (taps - 1) * rate + 1;
  if (size < 0 || taps < 0) return -1;
  if (same) return (size + stride - 1) / stride;
  if (size - reach + stride < 0) return context.Error(absl::StrCat("the window covers ", reach, " pixels, the input has ", size));
  return (size - reach + stride) / stride;
}

// The shape of Dilation2D's result; inputs 0 and 1 are the images and the filter.
absl::StatusOr<Shape> Dilated(const InferenceContext& context) {
  MR_RETURN_IF_ERROR(ExpectImages(context, 0));
  MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {0, 1}));
  const Shape &images = context.shape(0), &filter = context.shape(1);
  MR_ASSIGN_OR_RETURN(const auto strides, RequiredAttr<std::vector<int64_t>>(context, "strides"));
  MR_ASSIGN_OR_RETURN(const auto rates, RequiredAttr<std::vector<int64_t>>(context, "rates"));
  MR_ASSIGN_OR_RETURN(const std::string padding, RequiredAttr<std::string>(context, "padding"));
  for (const auto* values : {&strides, &rates}) {
    if (values->size() != 4 || (*values)[0] != 1 || (*values)[3] != 1 || (*values)[1] < 1 || (*values)[2] < 1 ||
        (*values)[1] > 1 << 20 || (*values)[2] > 1 << 20) {
      return context.Error("strides and rates must be [1, y, x, 1] with positive y and x");
    }
  }
  if (images.unknown_rank() || filter.unknown_rank()) return Shape::UnknownRank();
  if (filter.rank() != 3 || (filter.dim(2) >= 0 && images.dim(3) >= 0 && filter.dim(2) != images.dim(3))) {
    return context.Error(absl::StrCat("the filter is ", filter.ToString(), ", expected [height,width,", images.dim(3), "]"));
  }
  if (filter.fully_known() && filter.num_elements() == 0) return context.Error("the filter is empty");
  Shape shape = images;
  for (int d : {1, 2}) {
    MR_ASSIGN_OR_RETURN(const int64_t size, DilatedSize(context, images.dim(d), filter.dim(d - 1), strides[d], rates[d], padding == "SAME"));
    shape.set_dim(d, size);
  }
  return shape;
}

absl::Status DilationShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  MR_ASSIGN_OR_RETURN(Shape shape, Dilated(context));
  context.AddOutput(context.dtype(0), std::move(shape));
  return absl::OkStatus();
}

// (input, filter, out_backprop)
template <int kInput>
absl::Status DilationGradShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  MR_ASSIGN_OR_RETURN(const Shape shape, Dilated(context));
  MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {0, 2}));
  if (shape.fully_known() && context.shape(2).fully_known() && shape != context.shape(2)) {
    return context.Error(absl::StrCat("out_backprop is ", context.shape(2).ToString(), ", expected ", shape.ToString()));
  }
  context.AddOutput(context.dtype(0), context.shape(kInput));
  return absl::OkStatus();
}

Cost DilationCost(const OpInstance& node) {
  Cost cost = MoveCost(node);
  const Shape& filter = node.inputs[1].shape;
  const Shape& result = node.inputs.size() > 2 ? node.inputs[2].shape : node.outputs[0].shape;
  cost.flops = 2.0 * result.num_elements() * filter.dim(0) * filter.dim(1);
  return cost;
}

// (images, [height, width] of the windows, places [batch, 2])
absl::Status GlimpseShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  const Shape &images = context.shape(0), &places = context.shape(2);
  if (!images.unknown_rank() && images.rank() != 4) {
    return context.Error(absl::StrCat("input must be 4-dimensional (batch_size, height, width, depth)", images.ToString()));
  }
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> size, KnownInts(context, 1));
  if (size.size() != 2) return context.Error("input must be a vector of size 2 (height, width)");
  if (size[0] < 0 || size[1] < 0) return context.Error(absl::StrCat("Expected a non-negative size, got ", std::min(size[0], size[1])));
  if (!places.unknown_rank() && (places.rank() != 2 || (places.dim(1) >= 0 && places.dim(1) != 2) ||
                                 (images.fully_known() && places.dim(0) >= 0 && places.dim(0) != images.dim(0)))) {
    return context.Error(absl::StrCat("offsets are ", places.ToString(), ", expected two for each of ", images.ToString()));
  }
  const auto noise = context.attrs().GetOr<std::string>("noise", "uniform");
  if (noise != "uniform" && noise != "gaussian" && noise != "zero") {
    return context.Error(absl::StrCat("The noise could only be uniform, gaussian, or zero, got", noise));
  }
  if (noise != "uniform" && context.attrs().GetOr("uniform_noise", true)) {
    return context.Error("The uniform_noise and noise could not be specified at the same time");
  }
  context.AddOutput(DataType::kFloat, images.unknown_rank() ? Shape({-1, size[0], size[1], -1})
                                                            : Shape({images.dim(0), size[0], size[1], images.dim(3)}));
  return absl::OkStatus();
}

// Filters of about six pixels along each axis.
Cost ScaleCost(const OpInstance& node) {
  Cost cost = MoveCost(node);
  cost.flops = 24.0 * std::max(node.inputs[0].shape.num_elements(), node.outputs[0].shape.num_elements());
  return cost;
}

}  // namespace

void RegisterRarePictureOps(OpRegistry& registry) {
  AddOp(registry, {.name = "CombinedNonMaxSuppression", .shape = CombinedShape});
  AddOp(registry, {.name = "NonMaxSuppressionWithOverlaps", .shape = OverlapsShape});
  AddOp(registry, {.name = "ResizeArea", .shape = AreaShape});
  for (const char* name : {"NonMaxSuppression", "NonMaxSuppressionV2", "NonMaxSuppressionV3", "NonMaxSuppressionV4", "NonMaxSuppressionV5"}) {
    AddOp(registry, {.name = name, .shape = SuppressionShape});
  }
  for (const char* name : {"ExtractGlimpse", "ExtractGlimpseV2"}) {
    AddOp(registry, {.name = name, .shape = GlimpseShape, .cost = MoveCost, .stateful = true, .state_bytes = sizeof(uint64_t)});
  }
  AddOp(registry, {.name = "ScaleAndTranslate", .shape = ScaleShape, .cost = ScaleCost});
  AddOp(registry, {.name = "ScaleAndTranslateGrad", .shape = ScaleGradShape, .cost = ScaleCost});
  AddOp(registry, {.name = "Dilation2D", .shape = DilationShape, .cost = DilationCost});
  AddOp(registry, {.name = "Dilation2DBackpropInput", .shape = DilationGradShape<0>, .cost = DilationCost});
  AddOp(registry, {.name = "Dilation2DBackpropFilter", .shape = DilationGradShape<1>, .cost = DilationCost});
}

}  // namespace millrace
