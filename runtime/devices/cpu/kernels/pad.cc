// Pad, PadV2, MirrorPad and its gradient.
#include <cstring>
#include <vector>

#include "cpu/kernels/complex.h"
#include "cpu/kernels/register.h"
#include "cpu/kernels/values.h"

namespace millrace::cpu {
namespace {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

// Dimensions outermost first, neighbours without padding merged into the one before them.
struct PadDim {
  int64_t in, before, out;
};
using PadDims = absl::InlinedVector<PadDim, 8>;

absl::StatusOr<PadDims> ReadPaddings(const ValueReader& reader, bool merge) {
  const OpInstance& instance = reader.instance();
  const Shape &in = instance.inputs[0].shape, &out = instance.outputs[0].shape;
  MR_ASSIGN_OR_RETURN(const Ints paddings, reader.ints(1));
  if (static_cast<int>(paddings.size()) != 2 * in.rank()) {
    return absl::InvalidArgumentError(
        absl::StrCat("paddings has ", paddings.size(), " entries, expected ", 2 * in.rank()));
  }
  PadDims dims;
  for (int i = 0; i < in.rank(); ++i) {
    const PadDim dim = {in.dim(i), paddings[2 * i], out.dim(i)};
    if (merge && !dims.empty() && dim.in == dim.out) {
      dims.back() = {dims.back().in * dim.in, dims.back().before * dim.in, dims.back().out * dim.in};
    } else {
      dims.push_back(dim);
    }
  }
  if (dims.empty()) dims.push_back({1, 0, 1});
  return dims;
}

// Writes rows [begin, end) of the output: a row lies in the padding of an outer dimension or holds a row of the input.
template <typename T>
void PadRows(const PadDims& dims, const T* in, T value, T* out, int64_t begin, int64_t end) {
  const int last = static_cast<int>(dims.size()) - 1;
  const PadDim row = dims[last];
  for (int64_t r = begin; r < end; ++r) {
    int64_t rest = r, in_row = 0, in_scale = 1;
    bool inside = true;
    for (int i = last - 1; i >= 0 && inside; --i) {
      const int64_t index = rest % dims[i].out - dims[i].before;
      rest /= dims[i].out;
      inside = index >= 0 && index < dims[i].in;
      in_row += index * in_scale;
      in_scale *= dims[i].in;
    }
    T* to = out + r * row.out;
    if (!inside) {
      std::fill_n(to, row.out, value);
      continue;
    }
    std::fill_n(to, row.before, value);
    std::memcpy(static_cast<void*>(to + row.before), in + in_row * row.in, row.in * sizeof(T));
    std::fill_n(to + row.before + row.in, row.out - row.before - row.in, value);
  }
}

KernelOr MakePad(const OpInstance& instance) {
  return DispatchBySize(instance, instance.outputs[0].dtype, [&](auto tag) -> KernelOr {
    using T = typename decltype(tag)::type;
    return MakePlannedKernel(
        instance, {1}, [](const ValueReader& reader) { return ReadPaddings(reader, true); },
        [](const PadDims& dims, const KernelContext& context) {
          const T value = context.instance->inputs.size() > 2 ? *context.input<T>(2) : T{};
          const int64_t row = dims.back().out;
          const int64_t rows = row == 0 ? 0 : context.output_type(0).shape.num_elements() / row;
          ParallelRange(context, rows, std::max<int64_t>(kElementGrain / std::max<int64_t>(row, 1), 1),
                        [&](int64_t begin, int64_t end) {
                          PadRows(dims, context.input<T>(0), value, context.output<T>(0), begin, end);
                        });
          return absl::OkStatus();
        });
  });
}

// SYMMETRIC repeats the border element, REFLECT does not.
absl::StatusOr<int64_t> MirrorOffset(const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const std::string mode, instance.attrs.Get<std::string>("mode"));
  if (mode == "SYMMETRIC") return 0;
  if (mode == "REFLECT") return 1;
  return absl::InvalidArgumentError(absl::StrCat("mode is ", mode, ", expected REFLECT or SYMMETRIC"));
}

struct Mirror {
  PadDims dims;  // of the padded side against the inner one: in = inner size, out = padded size
  int64_t offset;

  // The inner index that element `index` of the padded dimension shows.
  int64_t Source(int d, int64_t index) const {
    const PadDim& dim = dims[d];
    const int64_t at = index - dim.before;
    if (at < 0) return -at - 1 + offset;
    if (at >= dim.in) return 2 * dim.in - 1 - at - offset;
    return at;
  }
};

template <typename T>
void MirrorRows(const Mirror& mirror, const T* in, T* out, int64_t begin, int64_t end) {
  const int last = static_cast<int>(mirror.dims.size()) - 1;
  const PadDim row = mirror.dims[last];
  for (int64_t r = begin; r < end; ++r) {
    int64_t rest = r, in_row = 0, in_scale = 1;
    for (int i = last - 1; i >= 0; --i) {
      in_row += mirror.Source(i, rest % mirror.dims[i].out) * in_scale;
      rest /= mirror.dims[i].out;
      in_scale *= mirror.dims[i].in;
    }
    T* to = out + r * row.out;
    const T* from = in + in_row * row.in;
    for (int64_t c = 0; c < row.before; ++c) to[c] = from[mirror.Source(last, c)];
    std::memcpy(static_cast<void*>(to + row.before), from, row.in * sizeof(T));
    for (int64_t c = row.before + row.in; c < row.out; ++c) to[c] = from[mirror.Source(last, c)];
  }
}

KernelOr MakeMirrorPad(const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const int64_t offset, MirrorOffset(instance));
  return DispatchBySize(instance, instance.outputs[0].dtype, [&](auto tag) -> KernelOr {
    using T = typename decltype(tag)::type;
    return MakePlannedKernel(
        instance, {1},
        [offset](const ValueReader& reader) -> absl::StatusOr<Mirror> {
          MR_ASSIGN_OR_RETURN(PadDims dims, ReadPaddings(reader, false));
          return Mirror{std::move(dims), offset};
        },
        [](const Mirror& mirror, const KernelContext& context) {
          const int64_t row = mirror.dims.back().out;
          const int64_t rows = row == 0 ? 0 : context.output_type(0).shape.num_elements() / row;
          ParallelRange(context, rows, std::max<int64_t>(kElementGrain / std::max<int64_t>(row, 1), 1),
                        [&](int64_t begin, int64_t end) {
                          MirrorRows(mirror, context.input<T>(0), context.output<T>(0), begin, end);
                        });
          return absl::OkStatus();
        });
  });
}

// The padded side of a gradient against the inner one.
struct MirrorGrad {
  struct Dim {
    int64_t in, before, out;
    std::vector<int64_t> sources;  // by padded index
    int64_t in_stride, out_stride;
  };
  std::vector<Dim> dims;  // two at least
  int64_t block = 1;      // elements of the dimensions without padding that come last
};

MirrorGrad MakeMirrorGrad(Mirror mirror) {
  MirrorGrad grad;
  PadDims& dims = mirror.dims;
  for (; !dims.empty() && dims.back().in == dims.back().out; dims.pop_back()) grad.block *= dims.back().in;
  while (dims.size() > 2 && dims[0].out == 1) dims.erase(dims.begin());
  while (dims.size() < 2) dims.insert(dims.begin(), PadDim{1, 0, 1});
  int64_t in_stride = grad.block, out_stride = grad.block;
  for (int d = static_cast<int>(dims.size()) - 1; d >= 0; --d) {
    const PadDim& dim = dims[d];
    std::vector<int64_t> sources(dim.out);
    for (int64_t i = 0; i < dim.out; ++i) sources[i] = mirror.Source(d, i);
    grad.dims.insert(grad.dims.begin(), {dim.in, dim.before, dim.out, std::move(sources), in_stride, out_stride});
    in_stride *= dim.in;
    out_stride *= dim.out;
  }
  return grad;
}

template <typename T>
void AddTo(const T* from, int64_t n, T* to) {
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(to[i] + from[i]);
}

// Adds what dimension d and those after it hold of the padded side: every padded element to the one that it shows, in row-major
// order of the padded side.
template <typename T>
void AddMirrored(const MirrorGrad& grad, size_t d, const T* padded, T* inner) {
  const MirrorGrad::Dim& dim = grad.dims[d];
  if (d + 1 < grad.dims.size()) {
    for (int64_t i = 0; i < dim.out; ++i) AddMirrored(grad, d + 1, padded + i * dim.out_stride, inner + dim.sources[i] * dim.in_stride);
    return;
  }
  const auto add = [&](int64_t i, int64_t n) { AddTo(padded + i * grad.block, n * grad.block, inner + dim.sources[i] * grad.block); };
  for (int64_t i = 0; i < dim.before; ++i) add(i, 1);
  if (dim.in > 0) add(dim.before, dim.in);
  for (int64_t i = dim.before + dim.in; i < dim.out; ++i) add(i, 1);
}

KernelOr MakeMirrorPadGrad(const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const int64_t offset, MirrorOffset(instance));
  return DispatchNumericOrComplex(instance, instance.outputs[0].dtype, [&](auto tag) -> KernelOr {
    using T = typename decltype(tag)::type;
    return MakePlannedKernel(
        instance, {1},
        [offset](const ValueReader& reader) -> absl::StatusOr<MirrorGrad> {
          MR_ASSIGN_OR_RETURN(PadDims dims, ReadPaddings(reader, false));
          for (PadDim& dim : dims) std::swap(dim.in, dim.out);
          return MakeMirrorGrad({std::move(dims), offset});
        },
        [](const MirrorGrad& grad, const KernelContext& context) {
          T* out = context.output<T>(0);
          const MirrorGrad::Dim& rows = grad.dims[0];
          const int64_t grain = std::max<int64_t>(kElementGrain / std::max<int64_t>(rows.in_stride, 1), 1);
          ParallelRange(context, rows.in, grain, [&](int64_t begin, int64_t end) {
            std::fill(out + begin * rows.in_stride, out + end * rows.in_stride, T(0));
            for (int64_t i = 0; i < rows.out; ++i) {
              const int64_t row = rows.sources[i];
              if (row >= begin && row < end) AddMirrored(grad, 1, context.input<T>(0) + i * rows.out_stride, out + row * rows.in_stride);
            }
          });
          return absl::OkStatus();
        });
  });
}

}  // namespace

void RegisterPadKernels(KernelRegistry& registry) {
  AddKernel(registry, "Pad", ForAnyType(MakePad));
  AddKernel(registry, "PadV2", ForAnyType(MakePad));
  AddKernel(registry, "MirrorPad", MakeMirrorPad);
  AddKernel(registry, "MirrorPadGrad", MakeMirrorPadGrad);
}

}  // namespace millrace::cpu
