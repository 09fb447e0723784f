// DrawBoundingBoxes: the outlines of boxes, given by corners in [0, 1], one pixel wide, in colours that take turns.
#include <algorithm>
#include <limits>
#include <vector>

#include "cpu/kernels/common.h"
#include "cpu/kernels/rarest.h"

namespace millrace::cpu {
namespace {

// Those that TensorFlow takes where none are given: yellow, blue, red, lime, purple, olive, maroon, navy, aqua, fuchsia.
constexpr float kColours[][4] = {{1, 1, 0, 1},       {0, 0, 1, 1},    {1, 0, 0, 1},    {0, 1, 0, 1}, {0.5f, 0, 0.5f, 1},
                                 {0.5f, 0.5f, 0, 1}, {0.5f, 0, 0, 1}, {0, 0, 0.5f, 1}, {0, 1, 1, 1}, {1, 0, 1, 1}};

struct Drawing {
  int64_t images, height, width, channels, boxes;
  int64_t colours, colour_step;  // 0 colours: kColours

  int64_t image_elements() const { return height * width * channels; }
};

// Where a corner is on an axis of `length` pixels. What no int64 holds, NaN among it, is the least one, as in TensorFlow's conversion.
int64_t PixelAt(float corner, int64_t length) {
  const float at = corner * static_cast<float>(length - 1);
  return at >= -0x1p63f && at < 0x1p63f ? static_cast<int64_t>(at) : std::numeric_limits<int64_t>::min();
}

// A box whose corners are the wrong way round, or that is beside the image, is not drawn.
template <typename T>
void DrawBox(const Drawing& drawing, const float* box, const T* colour, T* image) {
  const int64_t height = drawing.height, width = drawing.width;
  const int64_t top = PixelAt(box[0], height), left = PixelAt(box[1], width), bottom = PixelAt(box[2], height), right = PixelAt(box[3], width);
  if (top > bottom || left > right || top >= height || bottom < 0 || left >= width || right < 0) return;
  const auto dot = [&](int64_t row, int64_t column) {
    std::copy_n(colour, drawing.channels, image + (row * width + column) * drawing.channels);
  };
  for (int64_t column = std::max<int64_t>(left, 0); column <= std::min(right, width - 1); ++column) {
    if (top >= 0) dot(top, column);
    if (bottom < height) dot(bottom, column);
  }
  for (int64_t row = std::max<int64_t>(top, 0); row <= std::min(bottom, height - 1); ++row) {
    if (left >= 0) dot(row, left);
    if (right < width) dot(row, right);
  }
}

// The colours as pixels of the image. Of the ones above, those of a single channel are all white.
template <typename T>
std::vector<T> Palette(const Drawing& drawing, const float* given) {
  const bool own = drawing.colours > 0;
  const int64_t count = own ? drawing.colours : std::size(kColours), step = own ? drawing.colour_step : 4;
  const float* colours = own ? given : &kColours[0][0];
  std::vector<T> palette;
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t c = 0; c < drawing.channels; ++c) {
      palette.push_back(static_cast<T>(!own && drawing.channels == 1 ? 1.0f : colours[i * step + c]));
    }
  }
  return palette;
}

// (images, boxes[, colours]). A shard owns whole images and draws their boxes in order.
absl::StatusOr<std::unique_ptr<Kernel>> MakeDrawBoxes(const OpInstance& node) {
  const Shape &images = node.inputs[0].shape, &boxes = node.inputs[1].shape;
  Drawing drawing{.images = images.dim(0), .height = images.dim(1), .width = images.dim(2), .channels = images.dim(3), .boxes = boxes.dim(1)};
  if (node.inputs.size() > 2) drawing.colours = node.inputs[2].shape.dim(0), drawing.colour_step = node.inputs[2].shape.dim(1);
  return DispatchFloating(node, node.inputs[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    return MakeKernel([drawing](const KernelContext& context) {
      const int64_t size = drawing.image_elements();
      if (size == 0) return absl::OkStatus();
      const std::vector<T> palette = Palette<T>(drawing, drawing.colours > 0 ? context.input<float>(2) : nullptr);
      const int64_t colours = static_cast<int64_t>(palette.size()) / drawing.channels;
      ParallelRange(context, drawing.images, std::max<int64_t>(kElementGrain / size, 1), [&](int64_t begin, int64_t end) {
        const T* from = context.input<T>(0);
        T* to = context.output<T>(0);
        if (from != to) std::copy(from + begin * size, from + end * size, to + begin * size);
        for (int64_t image = begin; image < end; ++image) {
          for (int64_t b = 0; b < drawing.boxes; ++b) {
            const float* box = context.input<float>(1) + 4 * (image * drawing.boxes + b);
            DrawBox(drawing, box, palette.data() + b % colours * drawing.channels, to + image * size);
          }
        }
      });
      return absl::OkStatus();
    });
  });
}

}  // namespace

void RegisterDrawBoxesKernels(KernelRegistry& registry) {
  for (const char* op : {"DrawBoundingBoxes", "DrawBoundingBoxesV2"}) AddKernel(registry, op, MakeDrawBoxes);
}

}  // namespace millrace::cpu
