// Colours, projections and crops of images: what augmentation and detection put into training graphs.
#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace millrace {
namespace {

// Images whose last dimension is red, green and blue (or hue, saturation and value); other inputs are scalars.
absl::Status ColourShape(InferenceContext& context) {
  const bool hue = context.op() == "AdjustHue", adjusts = hue || context.op() == "AdjustSaturation";
  MR_RETURN_IF_ERROR(context.ExpectInputs(adjusts ? 2 : 1));
  if (adjusts) MR_RETURN_IF_ERROR(ExpectScalar(context, 1, hue ? "delta" : "scale"));
  const Shape& images = context.shape(0);
  if (!images.unknown_rank() && (images.rank() < 1 || images.dim(images.rank() - 1) != 3)) {
    return context.Error(absl::StrCat("input must have 3 channels but instead has shape ", images.ToString()));
  }
  return SameAsFirstInput(context);
}

absl::Status ContrastShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  const Shape& images = context.shape(0);
  if (!images.unknown_rank() && images.rank() < 3) {
    return context.Error(absl::StrCat("input must be at least 3-D, got shape ", images.ToString()));
  }
  MR_RETURN_IF_ERROR(ExpectScalar(context, 1, "contrast_factor"));
  return SameAsFirstInput(context);
}

// (images, transforms, output_shape[, fill_value])
absl::Status ProjectShape(InferenceContext& context) {
  const bool third = context.op() == "ImageProjectiveTransformV3";
  MR_RETURN_IF_ERROR(context.ExpectInputs(third ? 4 : 3));
  if (third) MR_RETURN_IF_ERROR(ExpectScalar(context, 3, "fill_value"));
  MR_RETURN_IF_ERROR(ExpectImages(context, 0));
  const Shape &images = context.shape(0), &transforms = context.shape(1);
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> size, KnownInts(context, 2));
  if (size.size() != 2 || size[0] <= 0 || size[1] <= 0) {
    return context.Error("output_shape must be two positive integers, height and width");
  }
  if (transforms.fully_known() && images.fully_known() &&
      (transforms.rank() != 2 || transforms.dim(1) != 8 ||
       (transforms.dim(0) != 1 && transforms.dim(0) != images.dim(0)))) {
    return context.Error(absl::StrCat("Input transform should be num_images x 8 or 1 x 8, got ", transforms.ToString()));
  }
  context.AddOutput(context.dtype(0), images.unknown_rank() ? Shape({-1, size[0], size[1], -1})
                                                            : Shape({images.dim(0), size[0], size[1], images.dim(3)}));
  return absl::OkStatus();
}

absl::Status ExpectBoxes(const InferenceContext& context, int boxes) {
  if (context.dtype(boxes) != DataType::kFloat || context.dtype(boxes + 1) != DataType::kInt32) {
    return context.Error(absl::StrCat("boxes are ", context.input(boxes).ToString(), " and box_index ",
                                      context.input(boxes + 1).ToString(), ", expected float and int32"));
  }
  MR_RETURN_IF_ERROR(ExpectLayout(context, boxes, 2, "[n,4]"));
  const Shape &corners = context.shape(boxes), &images = context.shape(boxes + 1);
  if (!corners.fully_known() || !images.fully_known()) return absl::OkStatus();
  if (corners.rank() == 2 && corners.dim(1) == 4 && images.rank() == 1 && images.dim(0) == corners.dim(0)) {
    return absl::OkStatus();
  }
  return context.Error(absl::StrCat("boxes are ", corners.ToString(), " and box_index ", images.ToString(),
                                    ", expected [n,4] and [n]"));
}

// (image, boxes, box_ind, crop_size)
absl::Status CropShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(4));
  MR_RETURN_IF_ERROR(ExpectImages(context, 0));
  MR_RETURN_IF_ERROR(ExpectBoxes(context, 1));
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> size, KnownInts(context, 3));
  if (size.size() != 2 || size[0] <= 0 || size[1] <= 0) {
    return context.Error("crop_size must be two positive integers, height and width");
  }
  const Shape &image = context.shape(0), &boxes = context.shape(1);
  context.AddOutput(DataType::kFloat, Shape({boxes.unknown_rank() ? -1 : boxes.dim(0), size[0], size[1],
                                             image.unknown_rank() ? -1 : image.dim(3)}));
  return absl::OkStatus();
}

// Input 0 are the gradients of the crops, one for each box, of images that have `depth` channels.
absl::Status ExpectCropGradients(const InferenceContext& context, int boxes, int64_t depth) {
  MR_RETURN_IF_ERROR(ExpectLayout(context, 0, 4, "[boxes,height,width,channels]"));
  const Shape &grads = context.shape(0), &corners = context.shape(boxes);
  if (grads.fully_known() && !corners.unknown_rank() && corners.dim(0) >= 0 && grads.dim(0) != corners.dim(0)) {
    return context.Error(absl::StrCat("boxes and grads have incompatible shape: ", corners.ToString(), " and ", grads.ToString()));
  }
  if (!grads.fully_known() || depth < 0 || grads.dim(3) == depth) return absl::OkStatus();
  return context.Error(absl::StrCat("image, grads depth differ: ", depth, " and grads ", grads.ToString()));
}

// (grads, boxes, box_ind, image_size)
absl::Status CropGradImageShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(4));
  MR_RETURN_IF_ERROR(ExpectBoxes(context, 1));
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> size, KnownInts(context, 3));
  if (size.size() != 4) return context.Error("image_size must have 4 elements");
  if (size[1] <= 0 || size[2] <= 0) return context.Error(absl::StrCat("image dimensions must be positive, got ", size[1], " and ", size[2]));
  if (size[0] < 0 || size[3] < 0) {
    return context.Error(absl::StrCat("image_size asks for ", size[0], " images of ", size[3], " channels, expected no negative size"));
  }
  MR_RETURN_IF_ERROR(ExpectCropGradients(context, 1, size[3]));
  MR_ASSIGN_OR_RETURN(const DataType dtype, RequiredAttr<DataType>(context, "T"));
  context.AddOutput(dtype, Shape(absl::MakeConstSpan(size)));
  return absl::OkStatus();
}

// (grads, image, boxes, box_ind)
absl::Status CropGradBoxesShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(4));
  MR_RETURN_IF_ERROR(ExpectImages(context, 1));
  MR_RETURN_IF_ERROR(ExpectBoxes(context, 2));
  MR_RETURN_IF_ERROR(ExpectCropGradients(context, 2, context.shape(1).unknown_rank() ? -1 : context.shape(1).dim(3)));
  context.AddOutput(DataType::kFloat, context.shape(2));
  return absl::OkStatus();
}

// (images, boxes[, colours])
absl::Status DrawShape(InferenceContext& context) {
  const bool coloured = context.op() == "DrawBoundingBoxesV2";
  MR_RETURN_IF_ERROR(context.ExpectInputs(coloured ? 3 : 2));
  for (int i = 1; i < context.num_inputs(); ++i) {
    if (context.dtype(i) != DataType::kFloat) return context.Error(absl::StrCat("input ", i, " is ", context.input(i).ToString(), ", expected float"));
  }
  const Shape &images = context.shape(0), &boxes = context.shape(1);
  const auto known = [](const Shape& shape, int dim) { return shape.unknown_rank() ? -1 : shape.dim(dim); };
  if (!images.unknown_rank() && images.rank() != 4) return context.Error(absl::StrCat("The rank of the images should be 4, got ", images.ToString()));
  if (!boxes.unknown_rank() && boxes.rank() != 3) return context.Error(absl::StrCat("The rank of the boxes tensor should be 3, got ", boxes.ToString()));
  const int64_t count = known(images, 0), depth = known(images, 3);
  if (count >= 0 && known(boxes, 0) >= 0 && known(boxes, 0) != count) {
    return context.Error(absl::StrCat("The batch sizes should be the same: ", images.ToString(), " and ", boxes.ToString()));
  }
  if (depth >= 0 && depth != 1 && depth != 3 && depth != 4) {
    return context.Error(absl::StrCat("Channel depth should be either 1 (GRY), 3 (RGB), or 4 (RGBA), got ", depth));
  }
  if (known(boxes, 2) >= 0 && known(boxes, 2) != 4) {
    return context.Error(absl::StrCat("The size of the third dimension of the box must be 4. Received: ", known(boxes, 2)));
  }
  const Shape& colours = context.shape(coloured ? 2 : 1);
  if (coloured && !colours.unknown_rank() && colours.rank() != 2) return context.Error(absl::StrCat("colors must be a 2-D matrix", colours.ToString()));
  if (coloured && known(colours, 1) >= 0 && depth > known(colours, 1)) {
    return context.Error(absl::StrCat("colors must have equal or more channels than the image provided: ", colours.ToString()));
  }
  return SameAsFirstInput(context);
}

template <int kFlops>
Cost PixelCost(const OpInstance& node) {
  Cost cost;
  for (const TensorType& type : node.inputs) cost.bytes += type.size_bytes();
  cost.bytes += node.outputs[0].size_bytes();
  cost.flops = static_cast<double>(kFlops) *
               std::max(node.inputs[0].shape.num_elements(), node.outputs[0].shape.num_elements());
  return cost;
}

}  // namespace

void RegisterPictureOps(OpRegistry& registry) {
  for (const char* name : {"RGBToHSV", "HSVToRGB", "AdjustHue", "AdjustSaturation"}) {
    AddOp(registry, {.name = name, .shape = ColourShape, .cost = PixelCost<8>, .in_place = {{0, 0}}});
  }
  AddOp(registry, {.name = "AdjustContrastv2", .shape = ContrastShape, .cost = PixelCost<3>, .in_place = {{0, 0}}});
  for (const char* name : {"ImageProjectiveTransformV2", "ImageProjectiveTransformV3"}) {
    AddOp(registry, {.name = name, .shape = ProjectShape, .cost = PixelCost<12>});
  }
  for (const char* name : {"DrawBoundingBoxes", "DrawBoundingBoxesV2"}) {
    AddOp(registry, {.name = name, .shape = DrawShape, .cost = MoveCost, .in_place = {{0, 0}}});
  }
  AddOp(registry, {.name = "CropAndResize", .shape = CropShape, .cost = PixelCost<8>});
  AddOp(registry, {.name = "CropAndResizeGradImage", .shape = CropGradImageShape, .cost = PixelCost<8>});
  AddOp(registry, {.name = "CropAndResizeGradBoxes", .shape = CropGradBoxesShape, .cost = PixelCost<12>});
}

}  // namespace millrace
