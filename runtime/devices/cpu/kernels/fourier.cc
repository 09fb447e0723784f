// Discrete Fourier transforms over the last dimensions, of any length, in the precision of their numbers.
#include <memory>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>

#include "cpu/kernels/complex.h"
#include "cpu/kernels/families.h"
#include "cpu/kernels/fourier_lines.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

// Lines along one dimension of an array: element i of line (before, after) is at (before * size + i) * after_size + after.
struct Lines {
  Lines(const Shape& shape, int dim) : size(shape.dim(dim)) {
    for (int d = 0; d < dim; ++d) before *= shape.dim(d);
    for (int d = dim + 1; d < shape.rank(); ++d) after *= shape.dim(d);
  }
  int64_t count() const { return before * after; }
  int64_t size, before = 1, after = 1;
};

// Calls body(first, lines, buffer, buffer) for groups of lines that lie side by side, `run` of them at a time at most.
template <typename T, typename Body>
void ForLineGroups(const KernelContext& context, const LineFourier<T>& fourier, int64_t runs, int64_t run, void* scratch,
                   Body&& body) {
  constexpr int64_t kLanes = LineFourier<T>::kLanes;
  const int64_t groups_of_run = (run + kLanes - 1) / kLanes, groups = runs * groups_of_run;
  const int64_t shards = std::min(groups, fourier.shards()), room = fourier.shard_bytes();
  context.parallel->For(shards, [&](int64_t s) {
    auto* a = reinterpret_cast<ComplexLanes<T>*>(static_cast<char*>(scratch) + s * room);
    ComplexLanes<T>* b = a + room / (2 * static_cast<int64_t>(sizeof(*a)));
    for (int64_t g = groups * s / shards; g < groups * (s + 1) / shards; ++g) {
      const int64_t first = g % groups_of_run * kLanes;
      body(g / groups_of_run, first, std::min(kLanes, run - first), a, b);
    }
  });
}

// Transforms of an array along one dimension, in place.
template <typename T>
class AlongDim {
 public:
  AlongDim(const Shape& shape, int dim, bool tables)
      : lines_(shape, dim), fourier_(std::max<int64_t>(lines_.size, 1), lines_.count(), GroupsOf(lines_), lines_.after == 1, tables) {}

  int64_t scratch_bytes() const { return fourier_.scratch_bytes(); }

  template <bool kForward>
  void Run(const KernelContext& context, std::complex<T>* array, void* scratch) const {
    const int64_t n = lines_.size, after = lines_.after;
    if (n <= 1 || lines_.count() == 0) return;
    const T scale = kForward ? T(1) : static_cast<T>(1.0 / static_cast<double>(n));
    T* data = reinterpret_cast<T*>(array);
    if (after == 1 && fourier_.in_parts()) {
      for (int64_t line = 0; line < lines_.before; ++line) {
        fourier_.template RunLine<kForward>(context, data + 2 * n * line, scale, scratch);
      }
      return;
    }
    const int64_t line_step = after == 1 ? 2 * n : 2;
    ForLineGroups(context, fourier_, after == 1 ? 1 : lines_.before, after == 1 ? lines_.before : after, scratch,
                  [&](int64_t run, int64_t first, int64_t count, ComplexLanes<T>* a, ComplexLanes<T>* b) {
                    T* at = data + 2 * run * n * after + first * line_step;
                    LaneMover<T>::Load(at, line_step, 2 * after, count, n, a);
                    const ComplexLanes<T>* done = fourier_.whole().template Run<kForward>(a, b);
                    LaneMover<T>::Store(done, scale, at, line_step, 2 * after, count, n);
                  });
  }

 private:
  static int64_t GroupsOf(const Lines& lines) {
    constexpr int64_t kLanes = LineFourier<T>::kLanes;
    return lines.after == 1 ? (lines.before + kLanes - 1) / kLanes : lines.before * ((lines.after + kLanes - 1) / kLanes);
  }

  Lines lines_;
  LineFourier<T> fourier_;
};

// The transforms along the last `dims` dimensions but for the last `without`.
template <typename T>
std::vector<AlongDim<T>> AlongLast(const Shape& shape, int dims, int without, bool tables) {
  std::vector<AlongDim<T>> result;
  for (int d = shape.rank() - dims; d < shape.rank() - without; ++d) result.emplace_back(shape, d, tables);
  return result;
}
template <typename T>
int64_t MostScratch(const std::vector<AlongDim<T>>& transforms) {
  int64_t most = 0;
  for (const AlongDim<T>& transform : transforms) most = std::max(most, transform.scratch_bytes());
  return most;
}

// What `make` gives with tables, when a kernel first runs: a planner asks for scratch alone, and the tables of long lines take
// time and memory of their own.
template <typename Make>
class AtFirstRun {
 public:
  explicit AtFirstRun(Make make) : state_(std::make_shared<State>(std::move(make))) {}
  const auto& Get() const {
    std::call_once(state_->once, [this] { state_->made.emplace(state_->make(true)); });
    return *state_->made;
  }

 private:
  struct State {
    explicit State(Make given) : make(std::move(given)) {}
    const Make make;
    std::once_flag once;
    std::optional<std::invoke_result_t<const Make&, bool>> made;
  };
  const std::shared_ptr<State> state_;
};

// Calls visit(row of `from`, row of `to`, rows) for runs of rows (lines of the last dimension) of the overlap of two
// arrays that differ in the last dimensions; other rows of `to` are not visited.
template <typename Visit>
void ForEachCommonRun(const Shape& from, const Shape& to, Visit&& visit) {
  int64_t rows = 1, start = 0, start_of = 0, length = 0;
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
    if (!common) continue;
    if (length > 0 && row == start + length && other == start_of + length) {
      ++length;
      continue;
    }
    if (length > 0) visit(start_of, start, length);
    start = row, start_of = other, length = 1;
  }
  if (length > 0) visit(start_of, start, length);
}

// As much of `in` as `out` has room for; zeros in the rest of it.
template <typename C>
void CopyCommon(const C* from, const Shape& in, const Shape& out, C* to) {
  if (from == to) return;
  if (in == out) {
    std::copy_n(from, in.num_elements(), to);
    return;
  }
  std::fill_n(to, out.num_elements(), C(0));
  const int64_t step = in.dim(in.rank() - 1), step_to = out.dim(out.rank() - 1);
  if (step == 0 || step_to == 0) return;
  ForEachCommonRun(in, out, [&](int64_t from_row, int64_t to_row, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row) std::copy_n(from + (from_row + row) * step, std::min(step, step_to), to + (to_row + row) * step_to);
  });
}

// Of how many of the last dimensions the transform is: kDims, or where that is 0 as many as there are axes.
template <int kDims>
absl::StatusOr<int> DimsOf(const OpInstance& node) {
  if (kDims > 0) return kDims;
  if (node.input_values.size() < 3 || node.input_values[2].empty()) return absl::InvalidArgumentError("axes are not known");
  return static_cast<int>(node.input_values[2].num_elements());
}

template <int kDims, bool kForward>
absl::StatusOr<std::unique_ptr<Kernel>> MakeFft(const OpInstance& node) {
  const Shape in = node.inputs[0].shape, shape = node.outputs[0].shape;
  MR_ASSIGN_OR_RETURN(const int dims, DimsOf<kDims>(node));
  return DispatchComplex(node, node.inputs[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using C = typename decltype(tag)::type;
    const auto make = [shape, dims](bool tables) { return AlongLast<typename C::value_type>(shape, dims, 0, tables); };
    return MakeKernel(
        [in, shape, transforms = AtFirstRun(make)](const KernelContext& context) {
          C* data = context.output<C>(0);
          CopyCommon(context.input<C>(0), in, shape, data);
          for (const auto& transform : transforms.Get()) transform.template Run<kForward>(context, data, context.scratch);
          return absl::OkStatus();
        },
        MostScratch(make(false)));
  });
}

// Lines of n real numbers and their n / 2 + 1 complex ones, the rest being mirror images. Of an even length they are
// taken as n / 2 complex numbers: x[2j] + i x[2j+1] has the spectrum even[k] + i odd[k], where the wanted one is
// even[k] + root^k odd[k], and even and odd are its parts that mirror with and against their sign.
template <typename T>
class RealLines {
 public:
  using Lanes = ComplexLanes<T>;
  static constexpr int64_t kLanes = LineFourier<T>::kLanes;
  RealLines(int64_t n, int64_t count, bool tables)
      : n_(n), even_(n % 2 == 0), fourier_(even_ ? n / 2 : n, count, (count + kLanes - 1) / kLanes, even_, tables) {
    for (int64_t k = 0; tables && even_ && k <= n / 2; ++k) roots_.push_back(std::complex<T>(LaneFourier<T>::Root(k, n)));
  }

  int64_t scratch_bytes() const { return fourier_.scratch_bytes(); }

  // Rows of `in_step` real numbers at least n, to rows of `half` complex ones.
  void Forward(const KernelContext& context, const T* in, int64_t in_step, T* out, int64_t rows, void* scratch) const {
    const int64_t half = n_ / 2 + 1;
    if (even_ && fourier_.in_parts()) {
      for (int64_t row = 0; row < rows; ++row) {
        T* line = out + row * 2 * half;
        std::copy_n(in + row * in_step, n_, line);
        fourier_.template RunLine<true>(context, line, T(1), scratch);
        SplitLine(line);
      }
      return;
    }
    ForLineGroups(context, fourier_, 1, rows, scratch,
                  [&](int64_t, int64_t first, int64_t count, Lanes* a, Lanes* b) {
                    const T* from = in + first * in_step;
                    if (even_) {
                      LaneMover<T>::Load(from, in_step, 2, count, n_ / 2, a);
                    } else {
                      LaneMover<T>::LoadReal(from, in_step, count, n_, a);
                    }
                    Lanes* done = fourier_.whole().template Run<true>(a, b);
                    if (even_) {
                      Split(done);
                    } else {
                      done[0].im = typename Lanes::Vector{};  // a sum of real numbers
                    }
                    LaneMover<T>::Store(done, T(1), out + first * 2 * half, 2 * half, 2, count, half);
                  });
  }

  // Back: rows of `half` complex numbers to rows of n real ones.
  void Backward(const KernelContext& context, const T* in, T* out, int64_t rows, void* scratch) const {
    const int64_t half = n_ / 2 + 1;
    const T scale = static_cast<T>(1.0 / static_cast<double>(even_ ? n_ / 2 : n_));
    if (even_ && fourier_.in_parts()) {
      for (int64_t row = 0; row < rows; ++row) {
        JoinLine(in + row * 2 * half, out + row * n_);
        fourier_.template RunLine<false>(context, out + row * n_, scale, scratch);
      }
      return;
    }
    ForLineGroups(context, fourier_, 1, rows, scratch,
                  [&](int64_t, int64_t first, int64_t count, Lanes* a, Lanes* b) {
                    LaneMover<T>::Load(in + first * 2 * half, 2 * half, 2, count, half, a);
                    a[0].im = typename Lanes::Vector{};
                    if (even_) {
                      Join(a);
                    } else {
                      for (int64_t i = half; i < n_; ++i) a[i] = {a[n_ - i].re, -a[n_ - i].im};
                    }
                    const Lanes* done = fourier_.whole().template Run<false>(a, b);
                    if (even_) {
                      LaneMover<T>::Store(done, scale, out + first * n_, n_, 2, count, n_ / 2);
                    } else {
                      LaneMover<T>::StoreReal(done, scale, out + first * n_, n_, count, n_);
                    }
                  });
  }

 private:
  // Of z[k] and z[m - k], m = n / 2, the wanted numbers k and m - k.
  template <typename Number>
  static void SplitPair(std::complex<T> root, const Number& x, const Number& y, Number& low, Number& high) {
    const T h = T(0.5);
    const Number even = {(x.re + y.re) * h, (x.im - y.im) * h}, odd = {(x.im + y.im) * h, (y.re - x.re) * h};
    const Number turned = {odd.re * root.real() - odd.im * root.imag(), odd.re * root.imag() + odd.im * root.real()};
    low = {even.re + turned.re, even.im + turned.im};
    high = {even.re - turned.re, turned.im - even.im};
  }
  // The way back.
  template <typename Number>
  static void JoinPair(std::complex<T> root, const Number& x, const Number& y, Number& low, Number& high) {
    const T h = T(0.5);
    const Number even = {(x.re + y.re) * h, (x.im - y.im) * h}, turned = {(x.re - y.re) * h, (x.im + y.im) * h};
    const Number odd = {turned.re * root.real() + turned.im * root.imag(), turned.im * root.real() - turned.re * root.imag()};
    low = {even.re - odd.im, even.im + odd.re};
    high = {even.re + odd.im, odd.re - even.im};
  }
  struct Plain {
    T re, im;
  };

  // In place: m numbers to m + 1. A number in the middle is its own partner.
  template <typename Number>
  void SplitAll(Number* z) const {
    const int64_t m = n_ / 2;
    const Number first = z[0];
    SplitPair(roots_[0], first, first, z[0], z[m]);
    for (int64_t k = 1; 2 * k <= m; ++k) {
      const Number x = z[k], y = z[m - k];
      Number low, high;
      SplitPair(roots_[k], x, y, low, high);
      z[m - k] = high;
      z[k] = low;
    }
  }
  template <typename Number>
  void JoinAll(const Number* x, Number* z) const {
    const int64_t m = n_ / 2;
    const Number first = {x[0].re, {}}, last = {x[m].re, {}};
    Number low, high;
    JoinPair(roots_[0], first, last, low, high);
    z[0] = low;
    for (int64_t k = 1; 2 * k <= m; ++k) {
      JoinPair(roots_[k], x[k], x[m - k], low, high);
      z[m - k] = high;
      z[k] = low;
    }
  }
  void Split(Lanes* z) const { SplitAll(z); }
  void Join(Lanes* z) const { JoinAll(z, z); }
  void SplitLine(T* line) const { SplitAll(reinterpret_cast<Plain*>(line)); }
  void JoinLine(const T* x, T* line) const { JoinAll(reinterpret_cast<const Plain*>(x), reinterpret_cast<Plain*>(line)); }

  int64_t n_;
  bool even_;
  LineFourier<T> fourier_;
  std::vector<std::complex<T>> roots_;
};

int64_t RowsOf(const Shape& shape) {
  int64_t rows = 1;
  for (int d = 0; d + 1 < shape.rank(); ++d) rows *= shape.dim(d);
  return rows;
}

// Lines of the last dimension, and the transforms along the `dims` - 1 before it of the spectrum.
template <typename T>
struct RealTransforms {
  RealTransforms(int64_t n, const Shape& spectrum, int dims, bool tables)
      : real(std::max<int64_t>(n, 1), RowsOf(spectrum), tables), others(AlongLast<T>(spectrum, dims, 1, tables)) {}
  int64_t scratch_bytes() const { return std::max(MostScratch(others), real.scratch_bytes()); }
  RealLines<T> real;
  std::vector<AlongDim<T>> others;
};

// Real numbers, cropped to fft_length, to the half of the spectrum that is not a mirror image.
template <int kDims>
absl::StatusOr<std::unique_ptr<Kernel>> MakeRfft(const OpInstance& node) {
  const Shape in = node.inputs[0].shape, out = node.outputs[0].shape;
  if (node.input_values.size() < 2 || node.input_values[1].empty()) return absl::InvalidArgumentError("fft_length is not known");
  MR_ASSIGN_OR_RETURN(const int dims, DimsOf<kDims>(node));
  const int64_t n = node.input_values[1].IntAt(dims - 1), half = out.dim(out.rank() - 1);
  return DispatchComplex(node, node.outputs[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using C = typename decltype(tag)::type;
    using T = typename C::value_type;
    const auto make = [n, out, dims](bool tables) { return RealTransforms<T>(n, out, dims, tables); };
    return MakeKernel(
        [in, out, half, transforms = AtFirstRun(make)](const KernelContext& context) {
          std::fill_n(context.output<C>(0), in.num_elements() == 0 ? out.num_elements() : 0, C(0));
          if (out.num_elements() == 0 || in.num_elements() == 0) return absl::OkStatus();
          const auto& [real, others] = transforms.Get();
          const int64_t step = in.dim(in.rank() - 1);
          T* to = reinterpret_cast<T*>(context.output<C>(0));
          ForEachCommonRun(in, out, [&](int64_t from_row, int64_t to_row, int64_t rows) {
            real.Forward(context, context.input<T>(0) + from_row * step, step, to + to_row * 2 * half, rows, context.scratch);
          });
          for (const auto& other : others) other.template Run<true>(context, context.output<C>(0), context.scratch);
          return absl::OkStatus();
        },
        make(false).scratch_bytes());
  });
}

// The inverse: half a spectrum, cropped to fft_length / 2 + 1, to real numbers.
template <int kDims>
absl::StatusOr<std::unique_ptr<Kernel>> MakeIrfft(const OpInstance& node) {
  const Shape in = node.inputs[0].shape, out = node.outputs[0].shape;
  MR_ASSIGN_OR_RETURN(const int dims, DimsOf<kDims>(node));
  const int64_t n = out.dim(out.rank() - 1), half = n / 2 + 1;
  Shape middle = out;
  middle.set_dim(out.rank() - 1, half);
  const int64_t spectrum = AlignUp(middle.num_elements() * DataTypeSize(node.inputs[0].dtype));
  return DispatchComplex(node, node.inputs[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using C = typename decltype(tag)::type;
    using T = typename C::value_type;
    const auto make = [n, middle, dims](bool tables) { return RealTransforms<T>(n, middle, dims, tables); };
    return MakeKernel(
        [=, transforms = AtFirstRun(make)](const KernelContext& context) {
          std::fill_n(context.output<T>(0), in.num_elements() == 0 ? out.num_elements() : 0, T(0));
          if (out.num_elements() == 0 || in.num_elements() == 0) return absl::OkStatus();
          const auto& [real, others] = transforms.Get();
          C* values = static_cast<C*>(context.scratch);
          void* rest = static_cast<char*>(context.scratch) + spectrum;
          const int64_t step = in.dim(in.rank() - 1);
          ForEachCommonRun(in, middle, [&](int64_t from_row, int64_t to_row, int64_t rows) {
            for (int64_t row = 0; row < rows; ++row) {
              std::copy_n(context.input<C>(0) + (from_row + row) * step, half, values + (to_row + row) * half);
            }
          });
          for (const auto& other : others) other.template Run<false>(context, values, rest);
          real.Backward(context, reinterpret_cast<const T*>(values), context.output<T>(0), middle.num_elements() / half, rest);
          return absl::OkStatus();
        },
        spectrum + make(false).scratch_bytes());
  });
}

}  // namespace

void RegisterFourierKernels(KernelRegistry& registry) {
  AddKernel(registry, "FFT", MakeFft<1, true>);
  AddKernel(registry, "FFT2D", MakeFft<2, true>);
  AddKernel(registry, "FFT3D", MakeFft<3, true>);
  AddKernel(registry, "FFTND", MakeFft<0, true>);
  AddKernel(registry, "IFFT", MakeFft<1, false>);
  AddKernel(registry, "IFFT2D", MakeFft<2, false>);
  AddKernel(registry, "IFFT3D", MakeFft<3, false>);
  AddKernel(registry, "IFFTND", MakeFft<0, false>);
  AddKernel(registry, "RFFT", MakeRfft<1>);
  AddKernel(registry, "RFFT2D", MakeRfft<2>);
  AddKernel(registry, "RFFT3D", MakeRfft<3>);
  AddKernel(registry, "RFFTND", MakeRfft<0>);
  AddKernel(registry, "IRFFT", MakeIrfft<1>);
  AddKernel(registry, "IRFFT2D", MakeIrfft<2>);
  AddKernel(registry, "IRFFT3D", MakeIrfft<3>);
  AddKernel(registry, "IRFFTND", MakeIrfft<0>);
}

}  // namespace millrace::cpu
