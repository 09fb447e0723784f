// Windows of images around given places; what of them is outside of the image is zero or noise. TensorFlow's noise is another in
// every run, here it is of the node's stream.
#include <algorithm>
#include <cmath>
#include <string>

#include "cpu/kernels/common.h"
#include "cpu/kernels/random_stream.h"
#include "cpu/kernels/rare.h"

namespace millrace::cpu {
namespace {

class Glimpse {
 public:
  explicit Glimpse(const OpInstance& node)
      : image_(node.inputs[0].shape),
        window_(node.outputs[0].shape),
        first_version_(node.op == "ExtractGlimpse"),
        centered_(node.attrs.GetOr("centered", true)),
        normalized_(node.attrs.GetOr("normalized", true)),
        noise_(node.attrs.GetOr<std::string>("noise", "uniform")),
        stream_(node) {}

  absl::Status Run(const KernelContext& context) const {
    PhiloxWords words(stream_.Reserve(context, noise_ == "zero" ? 0 : window_.num_elements()));
    if (window_.num_elements() == 0) return absl::OkStatus();
    const int64_t in_size = image_.num_elements() / image_.dim(0), out_size = window_.num_elements() / window_.dim(0);
    for (int64_t b = 0; b < image_.dim(0); ++b) {
      const float* image = context.input<float>(0) + b * in_size;
      float* window = context.output<float>(0) + b * out_size;
      const int64_t top = Begin(context.input<float>(2)[2 * b], 1), left = Begin(context.input<float>(2)[2 * b + 1], 2);
      const bool inside = top >= 0 && left >= 0 && top + window_.dim(1) <= image_.dim(1) && left + window_.dim(2) <= image_.dim(2);
      if (!inside) Fill(words, image, in_size, window, out_size);
      Copy(image, top, left, window);
    }
    return absl::OkStatus();
  }

 private:
  // Where the window begins in dimension `dim`.
  int64_t Begin(float offset, int dim) const {
    const float size = static_cast<float>(image_.dim(dim)), window = static_cast<float>(window_.dim(dim));
    if (normalized_) offset *= size;
    if (centered_) {
      if (first_version_ || normalized_) offset /= 2;
      offset += size / 2;
      if (!first_version_ && normalized_) offset -= window / 2;
    }
    if (first_version_) offset -= window / 2;
    const float beyond = size + window;
    return static_cast<int64_t>(std::abs(offset) <= beyond ? offset : beyond);
  }

  void Copy(const float* image, int64_t top, int64_t left, float* window) const {
    const int64_t depth = image_.dim(3), begin = std::max<int64_t>(-left, 0), end = std::min(window_.dim(2), image_.dim(2) - left);
    for (int64_t y = std::max<int64_t>(-top, 0); y < std::min(window_.dim(1), image_.dim(1) - top) && begin < end; ++y) {
      const float* row = image + ((top + y) * image_.dim(2) + left + begin) * depth;
      std::copy_n(row, (end - begin) * depth, window + (y * window_.dim(2) + begin) * depth);
    }
  }

  // Uniform numbers between the image's least and largest, or a channel's normal ones between its own.
  void Fill(PhiloxWords& words, const float* image, int64_t in_size, float* window, int64_t out_size) const {
    if (noise_ == "zero" || in_size == 0) {
      std::fill_n(window, out_size, 0.0f);
    } else if (noise_ == "uniform") {
      const auto [least, largest] = std::minmax_element(image, image + in_size);
      for (int64_t i = 0; i < out_size; ++i) window[i] = *least + UniformFloat(words()) * (*largest - *least);
    } else {
      for (int64_t c = 0; c < image_.dim(3); ++c) FillNormal(words, image, in_size, window, out_size, c);
    }
  }

  void FillNormal(PhiloxWords& words, const float* image, int64_t in_size, float* window, int64_t out_size, int64_t channel) const {
    const int64_t depth = image_.dim(3);
    double sum = 0, squares = 0;
    float least = image[channel], largest = least;
    for (int64_t i = channel; i < in_size; i += depth) {
      sum += image[i];
      squares += static_cast<double>(image[i]) * image[i];
      least = std::min(least, image[i]);
      largest = std::max(largest, image[i]);
    }
    const double count = static_cast<double>(in_size / depth), mean = sum / count;
    const double deviation = std::sqrt(std::max(squares / count - mean * mean, 0.0));
    float normal[2] = {};
    int left = 0;
    for (int64_t i = channel; i < out_size; i += depth) {
      if (left == 0) {
        const uint32_t pair[2] = {words(), words()};
        NormalPair(pair, normal);
        left = 2;
      }
      window[i] = std::clamp(static_cast<float>(mean + deviation * normal[--left]), least, largest);
    }
  }

  Shape image_, window_;
  bool first_version_, centered_, normalized_;
  std::string noise_;
  RandomStream stream_;
};

absl::StatusOr<std::unique_ptr<Kernel>> MakeGlimpse(const OpInstance& node) {
  if (node.inputs[0].dtype != DataType::kFloat) return UnsupportedType(node, node.inputs[0].dtype);
  return MakeKernel([glimpse = Glimpse(node)](const KernelContext& context) { return glimpse.Run(context); });
}

}  // namespace

void RegisterGlimpseKernels(KernelRegistry& registry) {
  for (const char* op : {"ExtractGlimpse", "ExtractGlimpseV2"}) AddKernel(registry, op, MakeGlimpse);
}

}  // namespace millrace::cpu
