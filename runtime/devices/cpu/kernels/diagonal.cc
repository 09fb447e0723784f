// MatrixDiag, MatrixDiagPart, MatrixSetDiag, MatrixBandPart, Diag and DiagPart.
#include "cpu/kernels/register.h"
#include "cpu/kernels/strided_copy.h"
#include "cpu/kernels/values.h"
#include "graph/shape_math.h"

namespace millrace::cpu {
namespace {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

// Matrices [batch, rows, columns] and their diagonals [batch, count, length], topmost first. Shorter diagonals are
// padded to `length` on the left or on the right, by `align`.
struct Diagonals {
  DiagonalRange range;
  int64_t batch = 1, rows = 0, columns = 0, length = 0;
  bool left_above = true, left_below = true;  // alignment of the diagonals above and below the main one

  // Where the element of diagonal d in column j is in [count, length].
  int64_t At(int64_t d, int64_t j) const {
    return (range.upper - d) * length + j - std::max<int64_t>(d, 0) + Padding(d);
  }
  int64_t Padding(int64_t d) const {
    const bool left = (d >= 0 && left_above) || (d <= 0 && left_below);
    return left ? 0 : length - range.Length(d, rows, columns);
  }
};

absl::StatusOr<Diagonals> ReadDiagonals(const ValueReader& reader, const Shape& matrix, int k_input) {
  const OpInstance& instance = reader.instance();
  Diagonals diagonals;
  if (k_input < static_cast<int>(instance.inputs.size())) {
    MR_ASSIGN_OR_RETURN(const Ints k, reader.ints(k_input));
    if (k.empty()) return absl::InvalidArgumentError("diag_index is empty");
    diagonals.range = {k.front(), k.back()};
  }
  for (int i = 0; i + 2 < matrix.rank(); ++i) diagonals.batch *= matrix.dim(i);
  diagonals.rows = matrix.dim(matrix.rank() - 2);
  diagonals.columns = matrix.dim(matrix.rank() - 1);
  diagonals.length = diagonals.range.MaxLength(diagonals.rows, diagonals.columns);
  const bool third = instance.op.size() > 2 && instance.op.substr(instance.op.size() - 2) == "V3";
  const std::string align = instance.attrs.GetOr<std::string>("align", third ? "RIGHT_LEFT" : "LEFT_LEFT");
  diagonals.left_above = align == "LEFT_LEFT" || align == "LEFT_RIGHT";
  diagonals.left_below = align == "LEFT_LEFT" || align == "RIGHT_LEFT";
  return diagonals;
}

// Calls fn(b) for the matrices, side by side when there is enough work.
template <typename Fn>
void ForEachMatrix(const KernelContext& context, const Diagonals& d, Fn&& fn) {
  const int64_t grain = std::max<int64_t>(kElementGrain / std::max<int64_t>(d.rows * d.columns, 1), 1);
  ParallelRange(context, d.batch, grain, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) fn(b);
  });
}

// Calls fn(place in the matrix, place in [count, length]) for every element of the diagonals.
template <typename Fn>
void ForEachElement(const Diagonals& diagonals, Fn&& fn) {
  for (int64_t d = diagonals.range.upper; d >= diagonals.range.lower; --d) {
    const int64_t first = std::max<int64_t>(d, 0), length = diagonals.range.Length(d, diagonals.rows, diagonals.columns);
    for (int64_t j = first; j < first + length; ++j) fn((j - d) * diagonals.columns + j, diagonals.At(d, j));
  }
}

// The input that chooses the diagonals, if the op has one.
std::vector<int> KInputs(const OpInstance& instance, int input) {
  return input < static_cast<int>(instance.inputs.size()) ? std::vector<int>{input} : std::vector<int>();
}

template <typename T>
T PaddingValue(const KernelContext& context, int input) {
  return input < static_cast<int>(context.instance->inputs.size()) ? *context.input<T>(input) : T{};
}

KernelOr MakeMatrixDiag(const OpInstance& instance) {
  return DispatchBySize(instance, instance.outputs[0].dtype, [&](auto tag) -> KernelOr {
    using T = typename decltype(tag)::type;
    return MakePlannedKernel(
        instance, KInputs(instance, 1),
        [](const ValueReader& reader) -> absl::StatusOr<Diagonals> {
          MR_ASSIGN_OR_RETURN(Diagonals d, ReadDiagonals(reader, reader.instance().outputs[0].shape, 1));
          const Shape& in = reader.instance().inputs[0].shape;
          d.length = in.dim(in.rank() - 1);
          return d;
        },
        [](const Diagonals& d, const KernelContext& context) {
          const T padding = PaddingValue<T>(context, 4);
          const int64_t matrix = d.rows * d.columns, parts = d.range.count() * d.length;
          ForEachMatrix(context, d, [&](int64_t b) {
            T* out = context.output<T>(0) + b * matrix;
            const T* in = context.input<T>(0) + b * parts;
            std::fill_n(out, matrix, padding);
            ForEachElement(d, [&](int64_t in_matrix, int64_t in_parts) { out[in_matrix] = in[in_parts]; });
          });
          return absl::OkStatus();
        });
  });
}

KernelOr MakeMatrixDiagPart(const OpInstance& instance) {
  return DispatchBySize(instance, instance.outputs[0].dtype, [&](auto tag) -> KernelOr {
    using T = typename decltype(tag)::type;
    return MakePlannedKernel(
        instance, KInputs(instance, 1),
        [](const ValueReader& reader) { return ReadDiagonals(reader, reader.instance().inputs[0].shape, 1); },
        [](const Diagonals& d, const KernelContext& context) {
          const T padding = PaddingValue<T>(context, 2);
          const int64_t matrix = d.rows * d.columns, parts = d.range.count() * d.length;
          ForEachMatrix(context, d, [&](int64_t b) {
            T* out = context.output<T>(0) + b * parts;
            const T* in = context.input<T>(0) + b * matrix;
            std::fill_n(out, parts, padding);
            ForEachElement(d, [&](int64_t in_matrix, int64_t in_parts) { out[in_parts] = in[in_matrix]; });
          });
          return absl::OkStatus();
        });
  });
}

KernelOr MakeMatrixSetDiag(const OpInstance& instance) {
  return DispatchBySize(instance, instance.outputs[0].dtype, [&](auto tag) -> KernelOr {
    using T = typename decltype(tag)::type;
    auto build = [](const ValueReader& reader) { return ReadDiagonals(reader, reader.instance().inputs[0].shape, 2); };
    auto run = [](const Diagonals& d, const KernelContext& context) {
      CopyTensor(context, context.inputs[0], context.outputs[0], context.output_type(0).size_bytes());
      const int64_t matrix = d.rows * d.columns, parts = d.range.count() * d.length;
      ForEachMatrix(context, d, [&](int64_t b) {
        T* out = context.output<T>(0) + b * matrix;
        const T* in = context.input<T>(1) + b * parts;
        ForEachElement(d, [&](int64_t in_matrix, int64_t in_parts) { out[in_matrix] = in[in_parts]; });
      });
      return absl::OkStatus();
    };
    return MakePlannedKernel(instance, KInputs(instance, 2), build, run);
  });
}

struct Band {
  int64_t lower, upper;  // diagonals kept below and above the main one, -1 for all
};

KernelOr MakeMatrixBandPart(const OpInstance& instance) {
  return DispatchBySize(instance, instance.outputs[0].dtype, [&](auto tag) -> KernelOr {
    using T = typename decltype(tag)::type;
    return MakePlannedKernel(
        instance, {1, 2},
        [](const ValueReader& reader) -> absl::StatusOr<Band> {
          MR_ASSIGN_OR_RETURN(const int64_t lower, reader.scalar(1));
          MR_ASSIGN_OR_RETURN(const int64_t upper, reader.scalar(2));
          const Shape& shape = reader.instance().inputs[0].shape;
          const int64_t rows = shape.dim(shape.rank() - 2), columns = shape.dim(shape.rank() - 1);
          if (lower > rows || upper > columns) {
            return absl::InvalidArgumentError(
                absl::StrCat(lower > rows ? "num_lower must be negative or less or equal to number of rows ("
                                          : "num_upper must be negative or less or equal to number of columns (",
                             lower > rows ? rows : columns, ") got: ", lower > rows ? lower : upper));
          }
          return Band{lower, upper};
        },
        [](const Band& band, const KernelContext& context) {
          const Shape& shape = context.input_type(0).shape;
          const int64_t rows = shape.dim(shape.rank() - 2), columns = shape.dim(shape.rank() - 1);
          const T* in = context.input<T>(0);
          T* out = context.output<T>(0);
          const int64_t all_rows = columns == 0 ? 0 : shape.num_elements() / columns;
          ParallelRange(context, all_rows, std::max<int64_t>(kElementGrain / std::max<int64_t>(columns, 1), 1),
                        [&](int64_t begin, int64_t end) {
                          for (int64_t r = begin; r < end; ++r) {
                            const int64_t i = r % rows;
                            const int64_t first = band.lower < 0 ? 0 : std::clamp<int64_t>(i - band.lower, 0, columns);
                            const int64_t last =
                                band.upper < 0 ? columns : std::clamp<int64_t>(i + band.upper + 1, first, columns);
                            std::fill(out + r * columns, out + r * columns + first, T{});
                            if (in != out) std::copy(in + r * columns + first, in + r * columns + last, out + r * columns + first);
                            std::fill(out + r * columns + last, out + (r + 1) * columns, T{});
                          }
                        });
          return absl::OkStatus();
        });
  });
}

// A tensor [n] against its diagonal matrix [n, n], shapes flattened.
KernelOr MakeDiag(const OpInstance& instance) {
  const int64_t size = instance.inputs[0].shape.num_elements();
  return DispatchBySize(instance, instance.outputs[0].dtype, [&](auto tag) -> KernelOr {
    using T = typename decltype(tag)::type;
    return MakeKernel([size](const KernelContext& context) {
      FillZero(context, context.outputs[0], context.output_type(0).size_bytes());
      for (int64_t i = 0; i < size; ++i) context.output<T>(0)[i * (size + 1)] = context.input<T>(0)[i];
      return absl::OkStatus();
    });
  });
}

KernelOr MakeDiagPart(const OpInstance& instance) {
  const int64_t size = instance.outputs[0].shape.num_elements();
  return DispatchBySize(instance, instance.outputs[0].dtype, [&](auto tag) -> KernelOr {
    using T = typename decltype(tag)::type;
    return MakeKernel([size](const KernelContext& context) {
      for (int64_t i = 0; i < size; ++i) context.output<T>(0)[i] = context.input<T>(0)[i * (size + 1)];
      return absl::OkStatus();
    });
  });
}

}  // namespace

void RegisterDiagonalKernels(KernelRegistry& registry) {
  for (const char* name : {"MatrixDiag", "BatchMatrixDiag", "MatrixDiagV2", "MatrixDiagV3"}) {
    AddKernel(registry, name, MakeMatrixDiag);
  }
  for (const char* name : {"MatrixDiagPart", "BatchMatrixDiagPart", "MatrixDiagPartV2", "MatrixDiagPartV3"}) {
    AddKernel(registry, name, MakeMatrixDiagPart);
  }
  for (const char* name : {"MatrixSetDiag", "BatchMatrixSetDiag", "MatrixSetDiagV2", "MatrixSetDiagV3"}) {
    AddKernel(registry, name, MakeMatrixSetDiag);
  }
  for (const char* name : {"MatrixBandPart", "BatchMatrixBandPart"}) AddKernel(registry, name, MakeMatrixBandPart);
  AddKernel(registry, "Diag", MakeDiag);
  AddKernel(registry, "DiagPart", MakeDiagPart);
}

}  // namespace millrace::cpu
