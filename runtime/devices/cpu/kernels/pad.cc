// Pad, PadV2, MirrorPad and its gradient.
#include <cstring>

#include "cpu/kernels/complex.h"
#include "cpu/kernels/register.h"
#include "cpu/kernels/strided_copy.h"
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

// Every padded element is added to the one that it shows, in row-major order of the padded side.
template <typename T>
void MirrorGrad(const Mirror& mirror, const T* in, T* out, int64_t elements) {
  const int rank = static_cast<int>(mirror.dims.size());
  for (int64_t e = 0; e < elements; ++e) {
    int64_t rest = e, to = 0, scale = 1;
    for (int i = rank - 1; i >= 0; --i) {
      to += mirror.Source(i, rest % mirror.dims[i].out) * scale;
      rest /= mirror.dims[i].out;
      scale *= mirror.dims[i].in;
    }
    out[to] = static_cast<T>(out[to] + in[e]);
  }
}

KernelOr MakeMirrorPadGrad(const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const int64_t offset, MirrorOffset(instance));
  return DispatchNumericOrComplex(instance, instance.outputs[0].dtype, [&](auto tag) -> KernelOr {
    using T = typename decltype(tag)::type;
    return MakePlannedKernel(
        instance, {1},
        [offset](const ValueReader& reader) -> absl::StatusOr<Mirror> {
          MR_ASSIGN_OR_RETURN(PadDims dims, ReadPaddings(reader, false));
          for (PadDim& dim : dims) std::swap(dim.in, dim.out);
          return Mirror{std::move(dims), offset};
        },
        [](const Mirror& mirror, const KernelContext& context) {
          FillZero(context, context.outputs[0], context.output_type(0).size_bytes());
          MirrorGrad(mirror, context.input<T>(0), context.output<T>(0), context.input_type(0).shape.num_elements());
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
