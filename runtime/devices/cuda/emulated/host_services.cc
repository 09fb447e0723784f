#include "cuda/emulated/host_services.h"

#include <cstring>
#include <vector>

namespace millrace::cuda {
namespace {

// Definitions written out: what matters here is what the kernels around them do.
class HostProduct final : public Product {
 public:
  explicit HostProduct(const ProductShape& shape) : s_(shape) {}
  int64_t scratch_bytes() const override { return 0; }
  absl::Status Run(const Queue&, const void* a, const void* b, const void* onto, const void*, void* c,
                   void*) const override {
    const float *x = static_cast<const float*>(a), *y = static_cast<const float*>(b);
    const float* base = static_cast<const float*>(onto);
    float* out = static_cast<float*>(c);
    for (int64_t p = 0; p < s_.batch; ++p) {
      for (int64_t i = 0; i < s_.m; ++i) {
        for (int64_t j = 0; j < s_.n; ++j) {
          double sum = 0;
          for (int64_t k = 0; k < s_.k; ++k) {
            sum += static_cast<double>(x[p * s_.stride_a + (s_.transpose_a ? k * s_.m + i : i * s_.k + k)]) *
                   y[p * s_.stride_b + (s_.transpose_b ? j * s_.k + k : k * s_.n + j)];
          }
          const int64_t at = p * s_.stride_c + i * s_.n + j;
          out[at] = static_cast<float>(sum + (base != nullptr ? base[at] : 0.0));
        }
      }
    }
    return absl::OkStatus();
  }

 private:
  const ProductShape s_;
};

class HostConvolution final : public Convolution {
 public:
  explicit HostConvolution(const ConvShape& shape) : s_(shape) {}
  int64_t scratch_bytes() const override { return 0; }
  absl::Status Run(const Queue&, const ConvTensors& tensors, void*) const override {
    const int64_t inner = s_.in_channels / s_.groups, outer = s_.out_channels / s_.groups;
    const int64_t taps = s_.kernel[0] * s_.kernel[1] * s_.kernel[2], out_pixels = s_.out[0] * s_.out[1] * s_.out[2];
    const int64_t in_pixels = s_.in[0] * s_.in[1] * s_.in[2];
    std::vector<double> sums(s_.part == ConvPart::kForward ? s_.batch * out_pixels * s_.out_channels
                             : s_.part == ConvPart::kInput ? s_.batch * in_pixels * s_.in_channels
                                                           : taps * inner * s_.out_channels);
    float *x = static_cast<float*>(tensors.input), *w = static_cast<float*>(tensors.filter), *y = static_cast<float*>(tensors.output);
    for (int64_t n = 0; n < s_.batch; ++n) {
      for (int64_t pixel = 0; pixel < out_pixels; ++pixel) {
        for (int64_t tap = 0; tap < taps; ++tap) {
          const int64_t from = PixelOf(pixel, tap);
          if (from < 0) continue;
          for (int64_t o = 0; o < s_.out_channels; ++o) {
            for (int64_t c = 0; c < inner; ++c) {
              const int64_t xi = At(n, in_pixels, from, s_.in_channels, o / outer * inner + c);
              const int64_t wi = s_.channels_first ? (o * inner + c) * taps + tap : (o * taps + tap) * inner + c;
              const int64_t yi = At(n, out_pixels, pixel, s_.out_channels, o);
              if (s_.part == ConvPart::kForward) sums[yi] += static_cast<double>(x[xi]) * w[wi];
              if (s_.part == ConvPart::kInput) sums[xi] += static_cast<double>(y[yi]) * w[wi];
              if (s_.part == ConvPart::kFilter) sums[wi] += static_cast<double>(x[xi]) * y[yi];
            }
          }
        }
      }
    }
    float* result = s_.part == ConvPart::kForward ? y : s_.part == ConvPart::kInput ? x : w;
    for (size_t i = 0; i < sums.size(); ++i) result[i] = static_cast<float>(sums[i]);
    return absl::OkStatus();
  }

 private:
  int64_t At(int64_t image, int64_t pixels, int64_t pixel, int64_t channels, int64_t channel) const {
    return s_.channels_first ? (image * channels + channel) * pixels + pixel : (image * pixels + pixel) * channels + channel;
  }
  // The input pixel under tap `tap` of output pixel `pixel`; -1 in the padding.
  int64_t PixelOf(int64_t pixel, int64_t tap) const {
    int64_t at[3], from = 0;
    for (int d = s_.spatial - 1; d >= 0; --d) {
      at[d] = pixel % s_.out[d] * s_.stride[d] - s_.pad[d] + tap % s_.kernel[d] * s_.dilation[d];
      if (at[d] < 0 || at[d] >= s_.in[d]) return -1;
      pixel /= s_.out[d];
      tap /= s_.kernel[d];
    }
    for (int d = 0; d < s_.spatial; ++d) from = from * s_.in[d] + at[d];
    return from;
  }

  const ConvShape s_;
};

}  // namespace

Queue HostServices::QueueOf(const KernelContext& context) {
  // Of the launch that this thread is about to make: two devices may run at once.
  static thread_local Fault fault;
  fault = Fault();
  return {context.stream, &fault, 0};
}

absl::StatusOr<std::unique_ptr<Product>> HostServices::PlanProduct(const ProductShape& shape) {
  if (!written_out_ || shape.type != Type::kFloat || shape.epilogue != Epilogue::kNone) {
    return absl::UnimplementedError("no such product");
  }
  return std::make_unique<HostProduct>(shape);
}

absl::StatusOr<std::unique_ptr<Convolution>> HostServices::PlanConvolution(const ConvShape& shape) {
  if (!written_out_ || shape.type != Type::kFloat || shape.epilogue != Epilogue::kNone) {
    return absl::UnimplementedError("no such convolution");
  }
  return std::make_unique<HostConvolution>(shape);
}

absl::Status HostServices::LoadState(const Queue&, void* device, const void* host, int64_t bytes) {
  std::memcpy(device, host, static_cast<size_t>(bytes));
  return absl::OkStatus();
}

absl::Status HostServices::StoreState(const Queue&, void* host, const void* device, int64_t bytes) {
  std::memcpy(host, device, static_cast<size_t>(bytes));
  return absl::OkStatus();
}

}  // namespace millrace::cuda
