// Convolutions as matrix products of patches: row p of `patches` holds the input elements under the filter at output
// pixel p, [taps * channels] of them. Blocks of output rows one after another, each block's work side by side:
//
//   forward  output   = patches * filter
//   kFilter  filter  += patches^T * output gradient
//   kInput   patches  = output gradient * filter^T, then added onto the input gradient where they came from
//
// It suits layers of few channels and large windows, for which oneDNN has no fast form, and those of float64, for which it has none.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "cpu/kernels/common.h"
#include "cpu/kernels/conv_kernels.h"
#include "cpu/kernels/gemm.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

// Bytes of patches in hand: a part of the cache, so that they are still there for the product.
constexpr int64_t kPatchBytes = 1 << 20;
constexpr int64_t kCopyGrain = 32768;

using Sizes = ConvGeometry::Sizes;

// A plane has its rows last, so that taps side by side are side by side in memory too.
Sizes RowsLast(const Sizes& sizes, int spatial, int64_t filler) {
  return spatial == 2 ? Sizes{sizes[0], filler, sizes[1]} : sizes;
}

ConvGeometry Canonical(ConvGeometry g) {
  for (Sizes* sizes : {&g.in, &g.out, &g.kernel, &g.stride, &g.dilation}) *sizes = RowsLast(*sizes, g.spatial, 1);
  for (Sizes* sizes : {&g.pad_before, &g.pad_after}) *sizes = RowsLast(*sizes, g.spatial, 0);
  return g;
}

template <typename T>
class GemmConv final : public Kernel {
 public:
  GemmConv(const ConvGeometry& geometry, ConvKind kind) : g_(Canonical(geometry)), kind_(kind) {
    width_ = g_.taps() * g_.in_channels;
    row_pixels_ = g_.out[1] * g_.out[2];
    rows_ = g_.batch * g_.out[0];
    const int64_t most_rows = kPatchBytes / static_cast<int64_t>(sizeof(T)) / std::max<int64_t>(width_ * row_pixels_, 1);
    block_rows_ = std::clamp<int64_t>(most_rows, 1, rows_);
    const int64_t blocks = (rows_ + block_rows_ - 1) / block_rows_;
    block_rows_ = (rows_ + blocks - 1) / blocks;
  }

  absl::Status Prepare(const OpInstance& instance) {
    const int64_t last = rows_ - (rows_ - 1) / block_rows_ * block_rows_;
    MR_ASSIGN_OR_RETURN(whole_, MakeProduct(instance, block_rows_));
    MR_ASSIGN_OR_RETURN(rest_, MakeProduct(instance, last));
    return absl::OkStatus();
  }

  // Patches, a block's filter gradient, and what the products need.
  int64_t scratch_bytes() const override {
    return patch_bytes() + partial_bytes() + std::max(whole_->scratch_bytes(), rest_->scratch_bytes());
  }

  absl::Status Run(const KernelContext& context) const override {
    auto* patches = static_cast<T*>(context.scratch);
    auto* partial = reinterpret_cast<T*>(static_cast<std::byte*>(context.scratch) + patch_bytes());
    void* scratch = reinterpret_cast<std::byte*>(partial) + partial_bytes();
    if (kind_ == ConvKind::kInput) Clear(context, context.output<T>(0), g_.input_elements());
    for (int64_t row = 0; row < rows_; row += block_rows_) {
      const int64_t end = std::min(row + block_rows_, rows_);
      const Gemm& product = end - row == block_rows_ ? *whole_ : *rest_;
      const int64_t at = row * row_pixels_ * g_.out_channels;
      if (kind_ != ConvKind::kInput) Gather(context, row, end, patches);
      if (kind_ == ConvKind::kForward) {
        MR_RETURN_IF_ERROR(product.Run(context, patches, context.inputs[1], context.output<T>(0) + at, scratch));
      } else if (kind_ == ConvKind::kFilter) {
        T* sum = row == 0 ? context.output<T>(0) : partial;
        MR_RETURN_IF_ERROR(product.Run(context, patches, context.input<T>(2) + at, sum, scratch));
        if (row > 0) Add(context, partial, context.output<T>(0));
      } else {
        MR_RETURN_IF_ERROR(product.Run(context, context.input<T>(2) + at, context.inputs[1], patches, scratch));
        Scatter(context, row, end, patches);
      }
    }
    return absl::OkStatus();
  }

 private:
  int64_t patch_bytes() const { return AlignUp(block_rows_ * row_pixels_ * width_ * static_cast<int64_t>(sizeof(T))); }
  int64_t partial_bytes() const {
    const bool needed = kind_ == ConvKind::kFilter && block_rows_ < rows_;
    return needed ? AlignUp(g_.filter_elements() * static_cast<int64_t>(sizeof(T))) : 0;
  }

  absl::StatusOr<std::unique_ptr<Gemm>> MakeProduct(const OpInstance& instance, int64_t rows) const {
    const int64_t pixels = rows * row_pixels_;
    GemmSizes sizes = GemmSizes::Dense(pixels, g_.out_channels, width_, false, false);
    if (kind_ == ConvKind::kFilter) sizes = GemmSizes::Dense(width_, g_.out_channels, pixels, true, false);
    if (kind_ == ConvKind::kInput) sizes = GemmSizes::Dense(pixels, width_, g_.out_channels, false, true);
    return MakeGemm(instance, std::is_same_v<T, float> ? DataType::kFloat : DataType::kDouble, sizes, {GemmOffsets()});
  }

  static void Clear(const KernelContext& context, T* to, int64_t elements) {
    ParallelRange(context, elements, kCopyGrain,
                  [&](int64_t begin, int64_t end) { std::memset(to + begin, 0, (end - begin) * sizeof(T)); });
  }

  void Add(const KernelContext& context, const T* partial, T* sum) const {
    ParallelRange(context, g_.filter_elements(), kCopyGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) sum[i] += partial[i];
    });
  }

  // Taps [first, last) of dimension d that fall into the input for output index o.
  std::pair<int64_t, int64_t> TapsInside(int d, int64_t o) const {
    const int64_t start = o * g_.stride[d] - g_.pad_before[d], step = g_.dilation[d];
    const int64_t first = start >= 0 ? 0 : (-start + step - 1) / step;
    const int64_t last = g_.in[d] - start <= 0 ? 0 : (g_.in[d] - start + step - 1) / step;
    return {std::min(first, g_.kernel[d]), std::clamp<int64_t>(last, std::min(first, g_.kernel[d]), g_.kernel[d])};
  }

  int64_t InputAt(int64_t n, int64_t i0, int64_t i1, int64_t i2) const {
    return (((n * g_.in[0] + i0) * g_.in[1] + i1) * g_.in[2] + i2) * g_.in_channels;
  }

  // Calls fn(patch elements before the run, input element, elements) for runs of taps of pixel (n; o) whose outermost
  // tap is k0, at input row i0.
  template <typename Fn>
  void ForRuns(int64_t n, int64_t k0, int64_t i0, int64_t o1, int64_t o2, Fn&& fn) const {
    const auto [first1, last1] = TapsInside(1, o1);
    const auto [first2, last2] = TapsInside(2, o2);
    const int64_t channels = g_.in_channels, start2 = o2 * g_.stride[2] - g_.pad_before[2];
    for (int64_t k1 = first1; k1 < last1; ++k1) {
      const int64_t i1 = o1 * g_.stride[1] - g_.pad_before[1] + k1 * g_.dilation[1];
      const int64_t tap = (k0 * g_.kernel[1] + k1) * g_.kernel[2];
      if (g_.dilation[2] == 1) {
        if (first2 < last2) {
          fn((tap + first2) * channels, InputAt(n, i0, i1, start2 + first2), (last2 - first2) * channels);
        }
        continue;
      }
      for (int64_t k2 = first2; k2 < last2; ++k2) {
        fn((tap + k2) * channels, InputAt(n, i0, i1, start2 + k2 * g_.dilation[2]), channels);
      }
    }
  }

  void Gather(const KernelContext& context, int64_t row, int64_t end, T* patches) const {
    const T* input = context.input<T>(0);
    const int64_t pixels = (end - row) * row_pixels_;
    ParallelRange(context, pixels, std::max<int64_t>(kCopyGrain / width_, 1), [&](int64_t begin, int64_t stop) {
      for (int64_t p = begin; p < stop; ++p) {
        const int64_t r = row + p / row_pixels_, n = r / g_.out[0], o0 = r % g_.out[0];
        const int64_t o1 = p % row_pixels_ / g_.out[2], o2 = p % g_.out[2];
        T* patch = patches + p * width_;
        const bool inside = WholeInside(o0, o1, o2);
        if (!inside) std::memset(patch, 0, width_ * sizeof(T));
        const auto [first, last] = TapsInside(0, o0);
        for (int64_t k0 = first; k0 < last; ++k0) {
          const int64_t i0 = o0 * g_.stride[0] - g_.pad_before[0] + k0 * g_.dilation[0];
          ForRuns(n, k0, i0, o1, o2, [&](int64_t to, int64_t from, int64_t elements) {
            for (int64_t e = 0; e < elements; ++e) patch[to + e] = input[from + e];
          });
        }
      }
    });
  }

  bool WholeInside(int64_t o0, int64_t o1, int64_t o2) const {
    const Sizes o{o0, o1, o2};
    for (int d = 0; d < 3; ++d) {
      if (TapsInside(d, o[d]) != std::pair<int64_t, int64_t>(0, g_.kernel[d])) return false;
    }
    return true;
  }

  // Adds patches of output rows [row, end) onto the input rows that they came from; every input row by one shard, in
  // the order of output rows.
  void Scatter(const KernelContext& context, int64_t row, int64_t end, const T* patches) const {
    T* gradient = context.output<T>(0);
    const int64_t first_image = row / g_.out[0], images = (end - 1) / g_.out[0] + 1 - first_image;
    const int64_t row_work = std::max<int64_t>(g_.kernel[0] * row_pixels_ * width_ / (g_.kernel[0] * g_.stride[0]), 1);
    ParallelRange(context, images * g_.in[0], std::max<int64_t>(kCopyGrain / row_work, 1), [&](int64_t begin, int64_t stop) {
      for (int64_t i = begin; i < stop; ++i) {
        const int64_t n = first_image + i / g_.in[0], i0 = i % g_.in[0];
        for (int64_t k0 = g_.kernel[0] - 1; k0 >= 0; --k0) {
          const int64_t shifted = i0 + g_.pad_before[0] - k0 * g_.dilation[0];
          if (shifted < 0 || shifted % g_.stride[0] != 0) continue;
          const int64_t o0 = shifted / g_.stride[0], r = n * g_.out[0] + o0;
          if (o0 >= g_.out[0] || r < row || r >= end) continue;
          AddRow(n, k0, i0, patches + (r - row) * row_pixels_ * width_, gradient);
        }
      }
    });
  }

  void AddRow(int64_t n, int64_t k0, int64_t i0, const T* patches, T* gradient) const {
    for (int64_t p = 0; p < row_pixels_; ++p) {
      const T* patch = patches + p * width_;
      ForRuns(n, k0, i0, p / g_.out[2], p % g_.out[2], [&](int64_t from, int64_t to, int64_t elements) {
        for (int64_t e = 0; e < elements; ++e) gradient[to + e] += patch[from + e];
      });
    }
  }

  const ConvGeometry g_;
  const ConvKind kind_;
  int64_t width_ = 0;       // elements of a patch
  int64_t row_pixels_ = 0;  // output pixels of a row of the outermost dimension
  int64_t rows_ = 0, block_rows_ = 1;
  std::unique_ptr<Gemm> whole_, rest_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeGemmConv(const OpInstance& instance, const ConvGeometry& geometry,
                                                     ConvKind kind, DataType dtype) {
  const auto make = [&](auto tag) -> absl::StatusOr<std::unique_ptr<Kernel>> {
    auto kernel = std::make_unique<GemmConv<typename decltype(tag)::type>>(geometry, kind);
    MR_RETURN_IF_ERROR(kernel->Prepare(instance));
    return kernel;
  };
  return dtype == DataType::kDouble ? make(TypeTag<double>()) : make(TypeTag<float>());
}

}  // namespace millrace::cpu
