// Discrete Fourier transforms over the last one to three dimensions, of any length, in double precision:
// decimation in time by the prime factors of the length (Cooley and Tukey 1965), O(n sum of factors).
#include <cmath>
#include <vector>

#include "cpu/kernels/complex.h"
#include "cpu/kernels/families.h"

namespace millrace::cpu {
namespace {

using Number = std::complex<double>;

class Transform {
 public:
  // sign -1 forward, 1 backward; unscaled.
  Transform(int64_t length, double sign) : length_(length) {
    for (int64_t rest = length, factor = 2; rest > 1;) {
      if (rest % factor == 0) {
        factors_.push_back(factor);
        rest /= factor;
      } else {
        factor = factor * factor > rest ? rest : factor + 1;
      }
    }
    for (int64_t i = 0; i < length; ++i) {
      const double angle = sign * 2 * M_PI * static_cast<double>(i) / static_cast<double>(length);
      roots_.emplace_back(std::cos(angle), std::sin(angle));
    }
  }
  int64_t length() const { return length_; }
  // `room` holds as many numbers as the largest factor.
  void Run(const Number* in, Number* out, Number* room) const { Step(in, 1, out, length_, 0, room); }

 private:
  void Step(const Number* in, int64_t stride, Number* out, int64_t n, size_t factor, Number* room) const {
    if (n == 1) {
      *out = *in;
      return;
    }
    const int64_t p = factors_[factor], m = n / p;
    for (int64_t q = 0; q < p; ++q) Step(in + q * stride, stride * p, out + q * m, m, factor + 1, room);
    const int64_t turn = length_ / n;
    for (int64_t k = 0; k < m; ++k) {
      for (int64_t q = 0; q < p; ++q) room[q] = out[k + q * m];
      for (int64_t r = 0; r < p; ++r) {
        const int64_t at = (k + r * m) * turn;
        Number sum = room[0];
        for (int64_t q = 1, root = at % length_; q < p; ++q, root = (root + at) % length_) sum += Times(room[q], roots_[root]);
        out[k + r * m] = sum;
      }
    }
  }

  int64_t length_;
  std::vector<int64_t> factors_;
  std::vector<Number> roots_;
};

// Lines along one dimension of an array: element i of line (before, after) is at (before * size + i) * after_size + after.
struct Lines {
  Lines(const Shape& shape, int dim) : size(shape.dim(dim)) {
    for (int d = 0; d < dim; ++d) before *= shape.dim(d);
    for (int d = dim + 1; d < shape.rank(); ++d) after *= shape.dim(d);
  }
  int64_t size, before = 1, after = 1;
};

// Transforms every line of `data` (complex numbers of shape `shape`) along `dim`. Scratch: 3 * size numbers a shard.
template <typename C>
void TransformLines(const KernelContext& context, const Transform& transform, const Shape& shape, int dim, C* data,
                    double scale, Number* scratch) {
  const Lines lines(shape, dim);
  const int64_t n = lines.size, count = lines.before * lines.after;
  const int64_t shards = NumShards(count, std::max<int64_t>(kElementGrain / 8 / std::max<int64_t>(n, 1), 1));
  context.parallel->For(shards, [&](int64_t s) {
    Number *in = scratch + s * 3 * n, *out = in + n, *room = out + n;
    for (int64_t line = count * s / shards; line < count * (s + 1) / shards; ++line) {
      C* first = data + line / lines.after * n * lines.after + line % lines.after;
      for (int64_t i = 0; i < n; ++i) in[i] = Number(first[i * lines.after]);
      transform.Run(in, out, room);
      for (int64_t i = 0; i < n; ++i) first[i * lines.after] = C(out[i] * scale);
    }
  });
}

int64_t ScratchOf(const Shape& shape, int dims) {
  int64_t longest = 0;
  for (int d = shape.rank() - dims; d < shape.rank(); ++d) longest = std::max(longest, shape.dim(d));
  return kMaxShards * 3 * longest * static_cast<int64_t>(sizeof(Number));
}

template <int kDims, bool kInverse>
absl::StatusOr<std::unique_ptr<Kernel>> MakeFft(const OpInstance& node) {
  const Shape shape = node.outputs[0].shape;
  std::vector<Transform> transforms;
  for (int d = 0; d < kDims; ++d) transforms.emplace_back(shape.dim(shape.rank() - kDims + d), kInverse ? 1 : -1);
  return DispatchComplex(node, node.inputs[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using C = typename decltype(tag)::type;
    return MakeKernel(
        [=](const KernelContext& context) {
          C* data = context.output<C>(0);
          if (data != context.input<C>(0)) std::copy_n(context.input<C>(0), shape.num_elements(), data);
          if (shape.num_elements() == 0) return absl::OkStatus();
          for (int d = 0; d < kDims; ++d) {
            const double scale = kInverse ? 1.0 / static_cast<double>(transforms[d].length()) : 1;
            TransformLines(context, transforms[d], shape, shape.rank() - kDims + d, data, scale,
                           static_cast<Number*>(context.scratch));
          }
          return absl::OkStatus();
        },
        ScratchOf(shape, kDims));
  });
}

// Calls visit(row of `from`, row of `to`) for the rows (lines of the last dimension) of the overlap of two arrays that
// differ in the last dimensions; other rows of `to` are not visited.
template <typename Visit>
void ForEachCommonRow(const Shape& from, const Shape& to, Visit&& visit) {
  int64_t rows = 1;
  for (int d = 0; d + 1 < to.rank(); ++d) rows *= to.dim(d);
  for (int64_t row = 0; row < rows; ++row) {
    int64_t rest = row, other = 0, stride = 1;
    bool common = true;
    for (int d = to.rank() - 2; d >= 0; --d) {
      const int64_t i = rest % to.dim(d);
      rest /= to.dim(d);
      common = common && i < from.dim(d);
      other += i * stride;
      stride *= from.dim(d);
    }
    if (common) visit(other, row);
  }
}

// Real numbers, cropped to fft_length, to the half of the spectrum that is not a mirror image.
template <int kDims>
absl::StatusOr<std::unique_ptr<Kernel>> MakeRfft(const OpInstance& node) {
  const Shape in = node.inputs[0].shape, out = node.outputs[0].shape;
  if (node.input_values.size() < 2 || node.input_values[1].empty()) return absl::InvalidArgumentError("fft_length is not known");
  const int64_t n = node.input_values[1].IntAt(kDims - 1), half = out.dim(out.rank() - 1);
  std::vector<Transform> transforms;
  for (int d = 0; d + 1 < kDims; ++d) transforms.emplace_back(out.dim(out.rank() - kDims + d), -1);
  const Transform last(n, -1);
  return DispatchComplex(node, node.outputs[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using C = typename decltype(tag)::type;
    using T = typename C::value_type;
    return MakeKernel(
        [=](const KernelContext& context) {
          if (out.num_elements() == 0) return absl::OkStatus();
          Number *line = static_cast<Number*>(context.scratch), *result = line + n, *room = result + n;
          ForEachCommonRow(in, out, [&](int64_t from, int64_t to) {
            const T* x = context.input<T>(0) + from * in.dim(in.rank() - 1);
            for (int64_t i = 0; i < n; ++i) line[i] = static_cast<double>(x[i]);
            last.Run(line, result, room);
            for (int64_t i = 0; i < half; ++i) context.output<C>(0)[to * half + i] = C(result[i]);
          });
          for (int d = 0; d + 1 < kDims; ++d) {
            TransformLines(context, transforms[d], out, out.rank() - kDims + d, context.output<C>(0), 1, line);
          }
          return absl::OkStatus();
        },
        std::max(ScratchOf(out, kDims), 3 * n * static_cast<int64_t>(sizeof(Number))));
  });
}

// The inverse: half a spectrum, cropped to fft_length / 2 + 1, to real numbers.
template <int kDims>
absl::StatusOr<std::unique_ptr<Kernel>> MakeIrfft(const OpInstance& node) {
  const Shape in = node.inputs[0].shape, out = node.outputs[0].shape;
  const int64_t n = out.dim(out.rank() - 1), half = n / 2 + 1;
  Shape middle = out;
  middle.set_dim(out.rank() - 1, half);
  std::vector<Transform> transforms;
  for (int d = 0; d + 1 < kDims; ++d) transforms.emplace_back(out.dim(out.rank() - kDims + d), 1);
  const Transform last(n, 1);
  const int64_t spectrum = AlignUp(middle.num_elements() * DataTypeSize(node.inputs[0].dtype));
  return DispatchComplex(node, node.inputs[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using C = typename decltype(tag)::type;
    using T = typename C::value_type;
    return MakeKernel(
        [=](const KernelContext& context) {
          if (out.num_elements() == 0) return absl::OkStatus();
          C* values = static_cast<C*>(context.scratch);
          Number* line = reinterpret_cast<Number*>(static_cast<char*>(context.scratch) + spectrum);
          Number *result = line + n, *room = result + n;
          ForEachCommonRow(in, middle, [&](int64_t from, int64_t to) {
            std::copy_n(context.input<C>(0) + from * in.dim(in.rank() - 1), half, values + to * half);
          });
          for (int d = 0; d + 1 < kDims; ++d) {
            TransformLines(context, transforms[d], middle, out.rank() - kDims + d, values,
                           1.0 / static_cast<double>(transforms[d].length()), line);
          }
          for (int64_t row = 0; row < out.num_elements() / n; ++row) {
            const C* x = values + row * half;
            line[0] = static_cast<double>(x[0].real());
            for (int64_t i = 1; i < half; ++i) line[i] = Number(x[i]);
            if (n % 2 == 0) line[n / 2] = line[n / 2].real();
            for (int64_t i = half; i < n; ++i) line[i] = std::conj(line[n - i]);
            last.Run(line, result, room);
            T* y = context.output<T>(0) + row * n;
            for (int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(result[i].real() / static_cast<double>(n));
          }
          return absl::OkStatus();
        },
        spectrum + std::max(ScratchOf(middle, kDims), 3 * n * static_cast<int64_t>(sizeof(Number))));
  });
}

}  // namespace

void RegisterFourierKernels(KernelRegistry& registry) {
  AddKernel(registry, "FFT", MakeFft<1, false>);
  AddKernel(registry, "FFT2D", MakeFft<2, false>);
  AddKernel(registry, "FFT3D", MakeFft<3, false>);
  AddKernel(registry, "IFFT", MakeFft<1, true>);
  AddKernel(registry, "IFFT2D", MakeFft<2, true>);
  AddKernel(registry, "IFFT3D", MakeFft<3, true>);
  AddKernel(registry, "RFFT", MakeRfft<1>);
  AddKernel(registry, "RFFT2D", MakeRfft<2>);
  AddKernel(registry, "RFFT3D", MakeRfft<3>);
  AddKernel(registry, "IRFFT", MakeIrfft<1>);
  AddKernel(registry, "IRFFT2D", MakeIrfft<2>);
  AddKernel(registry, "IRFFT3D", MakeIrfft<3>);
}

}  // namespace millrace::cpu
