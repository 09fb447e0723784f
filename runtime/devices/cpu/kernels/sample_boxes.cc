// Boxes drawn at random for crops of a picture that show enough of an object.
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cpu/kernels/common.h"
#include "cpu/kernels/random_fill.h"
#include "cpu/kernels/random_stream.h"
#include "cpu/kernels/rare.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

// Pixels, the last ones not included.
struct Box {
  int32_t left = 0, top = 0, right = 0, bottom = 0;
  float Area() const { return static_cast<float>((right - left) * (bottom - top)); }
  Box With(const Box& other) const {
    const Box both{std::max(left, other.left), std::max(top, other.top), std::min(right, other.right), std::min(bottom, other.bottom)};
    return both.left > both.right || both.top > both.bottom ? Box() : both;
  }
};

// Whole numbers and floats as TensorFlow draws them from words.
class Draws {
 public:
  explicit Draws(const Philox& philox) : words_(philox) {}
  float Float() { return UniformFloat(words_()); }
  // Below n, without favouring any.
  int32_t Below(int32_t n) {
    const uint32_t range = static_cast<uint32_t>(n), rest = 0xffffffffu % range + 1;
    if ((range & (range - 1)) == 0) return static_cast<int32_t>(words_() & (range - 1));
    uint32_t word;
    do {
      word = words_();
    } while (word < rest);
    return static_cast<int32_t>(word % range);
  }

 private:
  PhiloxWords words_;
};

int32_t Rounded(float value) { return static_cast<int32_t>(std::lrintf(value)); }

struct Limits {
  float least_area, most_area, least_ratio, most_ratio, covered;
  int64_t attempts;
  bool whole_picture;  // counts as the object where there is none
};

// Whether a box of that ratio of width to height was found within the limits of area.
bool DrawBox(int32_t width, int32_t height, const Limits& limits, float ratio, Draws& draws, Box* box) {
  if (limits.most_area <= 0 || ratio <= 0 || width <= 0 || height <= 0 || limits.least_area > limits.most_area) return false;
  const float pixels[] = {static_cast<float>(width), static_cast<float>(height)};
  const float least = limits.least_area * pixels[0] * pixels[1], most = limits.most_area * pixels[0] * pixels[1];
  int32_t rows = Rounded(std::sqrt(least / ratio)), most_rows = Rounded(std::sqrt(most / ratio));
  // The width that goes with so many rows must not round to more than there is.
  if (Rounded(static_cast<float>(most_rows) * ratio) > width) most_rows = static_cast<int32_t>((width + 0.5 - 0.0000001f) / ratio);
  most_rows = std::min(most_rows, height);
  rows = std::min(rows, most_rows);
  if (rows < most_rows) rows += draws.Below(most_rows - rows + 1);
  int32_t columns = Rounded(static_cast<float>(rows) * ratio);
  const auto resize = [&](int32_t by) {
    rows += by;
    columns = Rounded(static_cast<float>(rows) * ratio);
    return static_cast<float>(columns * rows);
  };
  // Rounding may have left the limits by a row.
  float area = static_cast<float>(columns * rows);
  if (area < least) area = resize(1);
  if (area > most) area = resize(-1);
  if (area < least || area > most || columns > width || rows > height || columns <= 0 || rows <= 0) return false;
  const int32_t top = rows < height ? draws.Below(height - rows) : 0, left = columns < width ? draws.Below(width - columns) : 0;
  *box = {left, top, left + columns, top + rows};
  return true;
}

bool ShowsAny(const Box& box, float covered, const std::vector<Box>& objects) {
  constexpr float kLeastArea = 1;
  if (box.Area() < kLeastArea) return false;
  return std::any_of(objects.begin(), objects.end(), [&](const Box& object) {
    return object.Area() >= kLeastArea && box.With(object).Area() / object.Area() >= covered;
  });
}

absl::StatusOr<std::vector<Box>> ReadObjects(const KernelContext& context, int32_t width, int32_t height, bool whole_picture) {
  std::vector<Box> objects;
  const float* at = context.input<float>(1);
  for (int64_t i = 0; i < context.input_type(1).shape.num_elements() / 4; ++i, at += 4) {
    for (int k = 0; k < 4; ++k) {
      if (at[k] >= 0 && at[k] <= 1) continue;
      return absl::InvalidArgumentError(absl::StrCat("All bounding box coordinates must be in [0.0, 1.0]: ", at[k]));
    }
    const auto pixel = [](float place, int32_t size) { return static_cast<int32_t>(place * static_cast<float>(size)); };
    objects.push_back({pixel(at[1], width), pixel(at[0], height), pixel(at[3], width), pixel(at[2], height)});
  }
  if (!objects.empty()) return objects;
  if (!whole_picture) {
    return absl::InvalidArgumentError(
        "No bounding boxes provided as input. One must enable use_image_if_no_bounding_boxes if you wish to not provide any bounding boxes.");
  }
  return std::vector<Box>{{0, 0, width, height}};
}

void WriteInt(const KernelContext& context, int output, int i, int32_t value) {
  switch (DataTypeSize(context.output_type(output).dtype)) {
    case 1: context.output<int8_t>(output)[i] = static_cast<int8_t>(value); return;
    case 2: context.output<int16_t>(output)[i] = static_cast<int16_t>(value); return;
    case 4: context.output<int32_t>(output)[i] = value; return;
    default: context.output<int64_t>(output)[i] = value;
  }
}

int64_t ReadPixels(const KernelContext& context, int i) {
  switch (context.input_type(0).dtype) {
    case DataType::kUint8: return context.input<uint8_t>(0)[i];
    case DataType::kInt8: return context.input<int8_t>(0)[i];
    case DataType::kInt16: return context.input<int16_t>(0)[i];
    default: return ReadInt(context.input_type(0).dtype, context.inputs[0], i);
  }
}

// (image size, boxes[, covered[, seed]]) -> begin, size, box
absl::Status Sample(const KernelContext& context, const Philox& philox, Limits limits) {
  const int64_t size[] = {ReadPixels(context, 0), ReadPixels(context, 1)};
  for (int64_t pixels : size) {
    if (pixels < 0 || pixels >= INT32_MAX) return absl::InvalidArgumentError("image height and width must be in [0, int32 max)");
  }
  const int32_t height = static_cast<int32_t>(size[0]), width = static_cast<int32_t>(size[1]);
  if (context.instance->inputs.size() > 2) limits.covered = *context.input<float>(2);
  if (!(limits.covered >= 0)) return absl::InvalidArgumentError(absl::StrCat("Min object covered must be non-negative: ", limits.covered));
  MR_ASSIGN_OR_RETURN(const std::vector<Box> objects, ReadObjects(context, width, height, limits.whole_picture));
  Draws draws(philox);
  Box box;
  bool found = false;
  for (int64_t i = 0; i < limits.attempts && !found; ++i) {
    const float ratio = draws.Float() * (limits.most_ratio - limits.least_ratio) + limits.least_ratio;
    found = DrawBox(width, height, limits, ratio, draws, &box) && ShowsAny(box, limits.covered, objects);
  }
  if (!found) box = {0, 0, width, height};
  const int32_t begin[] = {box.top, box.left, 0}, extent[] = {box.bottom - box.top, box.right - box.left, -1};
  for (int i = 0; i < 3; ++i) {
    WriteInt(context, 0, i, begin[i]);
    WriteInt(context, 1, i, extent[i]);
  }
  const float rows = static_cast<float>(height), columns = static_cast<float>(width);
  float* out = context.output<float>(2);
  out[0] = static_cast<float>(box.top) / rows;
  out[1] = static_cast<float>(box.left) / columns;
  out[2] = static_cast<float>(box.bottom) / rows;
  out[3] = static_cast<float>(box.right) / columns;
  return absl::OkStatus();
}

template <bool kStateless>
absl::StatusOr<std::unique_ptr<Kernel>> MakeSample(const OpInstance& node) {
  const auto ratio = node.attrs.GetOr<std::vector<float>>("aspect_ratio_range", {0.75f, 1.33f});
  const auto area = node.attrs.GetOr<std::vector<float>>("area_range", {0.05f, 1.0f});
  const Limits limits{area[0], area[1], ratio[0], ratio[1], node.attrs.GetOr<float>("min_object_covered", 0.1f),
                      node.attrs.GetOr<int64_t>("max_attempts", 100), node.attrs.GetOr<bool>("use_image_if_no_bounding_boxes", false)};
  const RandomStream stream(node);
  return MakeKernel([=](const KernelContext& context) {
    // Four words for each attempt.
    return Sample(context, kStateless ? StreamOfSeed(context, 3) : stream.Reserve(context, limits.attempts), limits);
  });
}

}  // namespace

void RegisterSampleBoxesKernels(KernelRegistry& registry) {
  AddKernel(registry, "SampleDistortedBoundingBox", MakeSample<false>);
  AddKernel(registry, "SampleDistortedBoundingBoxV2", MakeSample<false>);
  AddKernel(registry, "StatelessSampleDistortedBoundingBox", MakeSample<true>);
}

}  // namespace millrace::cpu
