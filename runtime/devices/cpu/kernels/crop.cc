// CropAndResize: boxes of images, given by corners in [0, 1], sampled on a grid; and its gradients.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "cpu/kernels/common.h"
#include "cpu/kernels/families.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

// One axis of a box on an axis of `length` pixels, sampled `samples` times.
struct BoxAxis {
  BoxAxis(float low, float high, int64_t length, int64_t samples) : low_(low), high_(high), last_(length - 1), samples_(samples) {
    ratio_ = samples > 1 ? static_cast<float>(last_) / static_cast<float>(samples - 1) : 0;
  }
  float At(int64_t i) const {
    if (samples_ <= 1) return 0.5f * (low_ + high_) * static_cast<float>(last_);
    return low_ * static_cast<float>(last_) + static_cast<float>(i) * ((high_ - low_) * ratio_);
  }
  bool Inside(float at) const { return at >= 0 && at <= static_cast<float>(last_); }
  // d At(i) / d low and d high.
  float ByLow(int64_t i) const { return samples_ > 1 ? static_cast<float>(last_) - static_cast<float>(i) * ratio_ : 0.5f * last_; }
  float ByHigh(int64_t i) const { return samples_ > 1 ? static_cast<float>(i) * ratio_ : 0.5f * static_cast<float>(last_); }

 private:
  float low_, high_, ratio_;
  int64_t last_, samples_;
};

struct Crop {
  int64_t batch, height, width, channels, boxes, crop_height, crop_width;
  bool nearest;
  float extrapolation;

  int64_t image_elements() const { return height * width * channels; }
  int64_t crop_elements() const { return crop_height * crop_width * channels; }
  absl::Status CheckBoxes(const float* corners) const {
    if (std::all_of(corners, corners + 4 * boxes, [](float corner) { return std::isfinite(corner); })) return absl::OkStatus();
    return absl::InvalidArgumentError("Boxes contains at least one element that is not finite");
  }
  absl::Status Check(const int32_t* images) const {
    for (int64_t b = 0; b < boxes; ++b) {
      if (images[b] < 0 || images[b] >= batch) {
        return absl::InvalidArgumentError(
            absl::StrCat("box_index has values outside [0, batch_size): box_index[", b, "] = ", images[b], ", batch_size ", batch));
      }
    }
    return absl::OkStatus();
  }
};

Crop CropOf(const OpInstance& node, const Shape& image, const Shape& crops) {
  return {.batch = image.dim(0), .height = image.dim(1), .width = image.dim(2), .channels = image.dim(3),
          .boxes = crops.dim(0), .crop_height = crops.dim(1), .crop_width = crops.dim(2),
          .nearest = node.attrs.GetOr<std::string>("method", "bilinear") == "nearest",
          .extrapolation = node.attrs.GetOr<float>("extrapolation_value", 0.0f)};
}

// Corner offsets and weights of a position between four pixels.
struct Corners {
  Corners(const Crop& crop, float y, float x) {
    const int64_t top = static_cast<int64_t>(std::floor(y)), bottom = static_cast<int64_t>(std::ceil(y));
    const int64_t left = static_cast<int64_t>(std::floor(x)), right = static_cast<int64_t>(std::ceil(x));
    y_part = y - static_cast<float>(top);
    x_part = x - static_cast<float>(left);
    offset[0] = (top * crop.width + left) * crop.channels;
    offset[1] = (top * crop.width + right) * crop.channels;
    offset[2] = (bottom * crop.width + left) * crop.channels;
    offset[3] = (bottom * crop.width + right) * crop.channels;
  }
  int64_t offset[4];
  float y_part, x_part;
};

int64_t NearestOffset(const Crop& crop, float y, float x) {
  return (static_cast<int64_t>(std::round(y)) * crop.width + static_cast<int64_t>(std::round(x))) * crop.channels;
}

// Calls visit(sample offset, y, x, row, column, inside) for every sample of a box.
template <typename Visit>
void ForEachSample(const Crop& crop, const float* box, Visit&& visit) {
  const BoxAxis rows(box[0], box[2], crop.height, crop.crop_height), columns(box[1], box[3], crop.width, crop.crop_width);
  for (int64_t i = 0; i < crop.crop_height; ++i) {
    const float y = rows.At(i);
    for (int64_t j = 0; j < crop.crop_width; ++j) {
      const float x = columns.At(j);
      visit((i * crop.crop_width + j) * crop.channels, y, x, i, j, rows.Inside(y) && columns.Inside(x));
    }
  }
}

template <typename T>
void CropBox(const Crop& crop, const T* image, const float* box, float* out) {
  ForEachSample(crop, box, [&](int64_t at, float y, float x, int64_t, int64_t, bool inside) {
    if (!inside) {
      std::fill(out + at, out + at + crop.channels, crop.extrapolation);
    } else if (crop.nearest) {
      const T* from = image + NearestOffset(crop, y, x);
      for (int64_t c = 0; c < crop.channels; ++c) out[at + c] = static_cast<float>(from[c]);
    } else {
      const Corners corners(crop, y, x);
      for (int64_t c = 0; c < crop.channels; ++c) {
        float v[4];
        for (int k = 0; k < 4; ++k) v[k] = static_cast<float>(image[corners.offset[k] + c]);
        const float top = v[0] + (v[1] - v[0]) * corners.x_part, bottom = v[2] + (v[3] - v[2]) * corners.x_part;
        out[at + c] = top + (bottom - top) * corners.y_part;
      }
    }
  });
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeCrop(const OpInstance& node) {
  const Crop crop = CropOf(node, node.inputs[0].shape, node.outputs[0].shape);
  return DispatchNumeric(node, node.inputs[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    return MakeKernel([crop](const KernelContext& context) -> absl::Status {
      const int32_t* images = context.input<int32_t>(2);
      MR_RETURN_IF_ERROR(crop.Check(images));
      MR_RETURN_IF_ERROR(crop.CheckBoxes(context.input<float>(1)));
      ParallelRange(context, crop.boxes, std::max<int64_t>(4096 / std::max<int64_t>(crop.crop_elements(), 1), 1),
                    [&](int64_t begin, int64_t end) {
                      for (int64_t b = begin; b < end; ++b) {
                        CropBox(crop, context.input<T>(0) + images[b] * crop.image_elements(),
                                context.input<float>(1) + 4 * b, context.output<float>(0) + b * crop.crop_elements());
                      }
                    });
      return absl::OkStatus();
    });
  });
}

template <typename T>
void SpreadBox(const Crop& crop, const float* gradient, const float* box, T* image) {
  ForEachSample(crop, box, [&](int64_t at, float y, float x, int64_t, int64_t, bool inside) {
    if (!inside) return;
    if (crop.nearest) {
      T* to = image + NearestOffset(crop, y, x);
      for (int64_t c = 0; c < crop.channels; ++c) to[c] += static_cast<T>(gradient[at + c]);
      return;
    }
    const Corners corners(crop, y, x);
    for (int64_t c = 0; c < crop.channels; ++c) {
      const float top = (1 - corners.y_part) * gradient[at + c], bottom = corners.y_part * gradient[at + c];
      image[corners.offset[0] + c] += static_cast<T>((1 - corners.x_part) * top);
      image[corners.offset[1] + c] += static_cast<T>(corners.x_part * top);
      image[corners.offset[2] + c] += static_cast<T>((1 - corners.x_part) * bottom);
      image[corners.offset[3] + c] += static_cast<T>(corners.x_part * bottom);
    }
  });
}

// A shard owns whole images and adds the boxes of its images in order.
absl::StatusOr<std::unique_ptr<Kernel>> MakeCropGradImage(const OpInstance& node) {
  const Crop crop = CropOf(node, node.outputs[0].shape, node.inputs[0].shape);
  return DispatchFloating(node, node.outputs[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    return MakeKernel([crop](const KernelContext& context) -> absl::Status {
      const int32_t* images = context.input<int32_t>(2);
      MR_RETURN_IF_ERROR(crop.Check(images));
      context.parallel->For(crop.batch, [&](int64_t image) {
        T* out = context.output<T>(0) + image * crop.image_elements();
        std::fill(out, out + crop.image_elements(), T(0));
        for (int64_t b = 0; b < crop.boxes; ++b) {
          if (images[b] != image) continue;
          SpreadBox(crop, context.input<float>(0) + b * crop.crop_elements(), context.input<float>(1) + 4 * b, out);
        }
      });
      return absl::OkStatus();
    });
  });
}

template <typename T>
void BoxGradient(const Crop& crop, const float* gradient, const T* image, const float* box, float* out) {
  const BoxAxis rows(box[0], box[2], crop.height, crop.crop_height), columns(box[1], box[3], crop.width, crop.crop_width);
  std::fill(out, out + 4, 0.0f);
  ForEachSample(crop, box, [&](int64_t at, float y, float x, int64_t i, int64_t j, bool inside) {
    if (!inside) return;
    const Corners corners(crop, y, x);
    for (int64_t c = 0; c < crop.channels; ++c) {
      float v[4];
      for (int k = 0; k < 4; ++k) v[k] = static_cast<float>(image[corners.offset[k] + c]);
      const float g = gradient[at + c];
      const float by_y = ((1 - corners.x_part) * (v[2] - v[0]) + corners.x_part * (v[3] - v[1])) * g;
      const float by_x = ((1 - corners.y_part) * (v[1] - v[0]) + corners.y_part * (v[3] - v[2])) * g;
      out[0] += by_y * rows.ByLow(i);
      out[1] += by_x * columns.ByLow(j);
      out[2] += by_y * rows.ByHigh(i);
      out[3] += by_x * columns.ByHigh(j);
    }
  });
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeCropGradBoxes(const OpInstance& node) {
  const Crop crop = CropOf(node, node.inputs[1].shape, node.inputs[0].shape);
  return DispatchNumeric(node, node.inputs[1].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    return MakeKernel([crop](const KernelContext& context) -> absl::Status {
      const int32_t* images = context.input<int32_t>(3);
      MR_RETURN_IF_ERROR(crop.Check(images));
      ParallelRange(context, crop.boxes, 1, [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b) {
          BoxGradient(crop, context.input<float>(0) + b * crop.crop_elements(),
                      context.input<T>(1) + images[b] * crop.image_elements(), context.input<float>(2) + 4 * b,
                      context.output<float>(0) + 4 * b);
        }
      });
      return absl::OkStatus();
    });
  });
}

}  // namespace

void RegisterCropKernels(KernelRegistry& registry) {
  AddKernel(registry, "CropAndResize", MakeCrop);
  AddKernel(registry, "CropAndResizeGradImage", MakeCropGradImage);
  AddKernel(registry, "CropAndResizeGradBoxes", MakeCropGradBoxes);
}

}  // namespace millrace::cpu
