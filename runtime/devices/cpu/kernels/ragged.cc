// Rows of different lengths as sparse tensors, counts of their elements, ranges of their own per row.
#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cpu/kernels/common.h"
#include "cpu/kernels/random_fill.h"
#include "cpu/kernels/rare.h"
#include "cpu/kernels/real_shapes.h"
#include "cpu/kernels/sparse_shapes.h"
#include "cpu/kernels/values.h"
#include "graph/shape_math.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

absl::StatusOr<std::vector<int64_t>> Splits(const KernelContext& context, int input, int64_t rows_below) {
  const TensorType& type = context.input_type(input);
  std::vector<int64_t> splits(type.shape.num_elements());
  for (size_t i = 0; i < splits.size(); ++i) splits[i] = ReadInt(type.dtype, context.inputs[input], static_cast<int64_t>(i));
  if (splits.empty() || splits[0] != 0) return absl::InvalidArgumentError("splits must start with 0");
  if (!std::is_sorted(splits.begin(), splits.end())) return absl::InvalidArgumentError("splits must be sorted");
  if (rows_below >= 0 && splits.back() != rows_below) {
    return absl::InvalidArgumentError(absl::StrCat("splits must end with the number of values, got ", splits.back(), " instead of ", rows_below));
  }
  return splits;
}

// (nested splits, values) -> indices [n, rank], values [n], dense shape [rank]
template <typename T>
absl::Status RaggedToSparse(const KernelContext& context) {
  const int levels = static_cast<int>(context.instance->inputs.size()) - 1;
  const Shape& values = context.input_type(levels).shape;
  std::vector<std::vector<int64_t>> splits(levels);
  for (int level = levels - 1; level >= 0; --level) {
    const int64_t below = level + 1 == levels ? values.dim(0) : static_cast<int64_t>(splits[level + 1].size()) - 1;
    MR_ASSIGN_OR_RETURN(splits[level], Splits(context, level, below));
  }
  const int rank = levels + values.rank();
  int64_t* shape = context.output<int64_t>(2);
  shape[0] = static_cast<int64_t>(splits[0].size()) - 1;
  for (int level = 0; level < levels; ++level) {
    shape[level + 1] = 0;
    for (size_t row = 0; row + 1 < splits[level].size(); ++row) {
      shape[level + 1] = std::max(shape[level + 1], splits[level][row + 1] - splits[level][row]);
    }
  }
  for (int d = 1; d < values.rank(); ++d) shape[levels + d] = values.dim(d);
  // Per value its index so far, level by level from the rows down.
  std::vector<std::vector<int64_t>> index(shape[0]);
  for (int64_t row = 0; row < shape[0]; ++row) index[row] = {row};
  for (int level = 0; level < levels; ++level) {
    std::vector<std::vector<int64_t>> next;
    for (size_t row = 0; row < index.size(); ++row) {
      for (int64_t k = splits[level][row]; k < splits[level][row + 1]; ++k) {
        next.push_back(index[row]);
        next.back().push_back(k - splits[level][row]);
      }
    }
    index = std::move(next);
  }
  const int64_t elements = values.num_elements();
  const int64_t width = values.dim(0) > 0 ? elements / values.dim(0) : 0;
  for (int64_t i = 0; i < elements; ++i) {
    int64_t* out = context.output<int64_t>(0) + i * rank;
    std::copy(index[i / width].begin(), index[i / width].end(), out);
    int64_t rest = i % width;
    for (int d = values.rank() - 1; d >= 1; --d) {
      out[levels + d] = rest % values.dim(d);
      rest /= values.dim(d);
    }
    context.output<T>(1)[i] = context.input<T>(levels)[i];
  }
  SetRealRows(context, 0, 1, elements, rank);
  return absl::OkStatus();
}

KernelOr MakeRaggedToSparse(const OpInstance& node) {
  return DispatchBySize(node, node.outputs[1].dtype, [](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    return MakeKernel([](const KernelContext& context) { return RaggedToSparse<T>(context); });
  });
}

// What is counted into `size` bins of a row; row(i) is that of value i.
template <typename T, typename Row>
absl::Status Count(const KernelContext& context, int values_at, Row&& row) {
  const Shape& out_shape = context.output_type(0).shape;
  const int64_t size = out_shape.dim(out_shape.rank() - 1), rows = out_shape.rank() == 2 ? out_shape.dim(0) : 1;
  const TensorType& values = context.input_type(values_at);
  const int weights_at = static_cast<int>(context.instance->inputs.size()) - 1;
  const bool weighted = context.input_type(weights_at).shape.num_elements() > 0;
  const bool binary = context.instance->attrs.GetOr<bool>("binary_output", false);
  const int64_t count = values.shape.num_elements();
  T* out = context.output<T>(0);
  std::fill(out, out + rows * size, T(0));
  if (weighted && context.input_type(weights_at).shape.num_elements() != count) {
    return absl::InvalidArgumentError("weights and values must have the same number of elements");
  }
  for (int64_t i = 0; i < count; ++i) {
    const int64_t value = ReadInt(values.dtype, context.inputs[values_at], i), r = row(i);
    if (value < 0) return absl::InvalidArgumentError(absl::StrCat("Input must be non-negative, value ", i, " is ", value));
    if (r < 0 || r >= rows) return absl::InvalidArgumentError(absl::StrCat("row ", r, " of value ", i, " is not in [0, ", rows, ")"));
    if (value >= size) continue;
    T& bin = out[r * size + value];
    bin = binary ? T(1) : bin + (weighted ? context.input<T>(weights_at)[i] : T(1));
  }
  return absl::OkStatus();
}

// (splits, values, size, weights) -> [rows, size]
template <typename T>
absl::Status RaggedCount(const KernelContext& context) {
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> splits, Splits(context, 0, context.input_type(1).shape.num_elements()));
  int64_t row = 0;
  return Count<T>(context, 1, [&](int64_t i) {
    while (i >= splits[row + 1]) ++row;
    return row;
  });
}

// (indices, values, dense shape, size, weights) -> [size] of a vector, else [rows, size]
template <typename T>
absl::Status SparseCount(const KernelContext& context) {
  const Shape& indices = context.input_type(0).shape;
  const bool vector = context.output_type(0).shape.rank() == 1;
  if (indices.rank() != 2 || indices.dim(0) != context.input_type(1).shape.num_elements()) {
    return absl::InvalidArgumentError(absl::StrCat("indices ", indices.ToString(), " and values ", context.input_type(1).ToString(), " differ in number"));
  }
  MR_ASSIGN_OR_RETURN(const Ints dims, ValueReader(context).ints(2));
  if (indices.dim(1) != static_cast<int64_t>(dims.size())) {
    return absl::InvalidArgumentError(absl::StrCat("indices ", indices.ToString(), " and a dense shape of ", dims.size(), " dimensions do not fit each other"));
  }
  MR_RETURN_IF_ERROR(CheckInside<int64_t>(context, 0, dims));
  return Count<T>(context, 1, [&](int64_t i) { return vector ? 0 : context.input<int64_t>(0)[i * indices.dim(1)]; });
}

template <bool kSparse>
KernelOr MakeCount(const OpInstance& node) {
  return DispatchNumeric(node, node.outputs[0].dtype, [](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    return MakeKernel([](const KernelContext& context) { return kSparse ? SparseCount<T>(context) : RaggedCount<T>(context); });
  });
}

// Counts of the values that are there, by row: sparse.
template <typename T>
absl::Status CountThere(const KernelContext& context) {
  const std::string& op = context.instance->op;
  const bool dense = op[0] == 'D', sparse = op[0] == 'S';
  const int values_at = dense ? 0 : 1, weights_at = static_cast<int>(context.instance->inputs.size()) - 1;
  const TensorType& values = context.input_type(values_at);
  const int64_t count = values.shape.num_elements(), rank = context.output_type(0).shape.dim(1);
  const AttrMap& attrs = context.instance->attrs;
  const int64_t least = attrs.GetOr<int64_t>("minlength", -1), limit = attrs.GetOr<int64_t>("maxlength", -1);
  const bool binary = attrs.GetOr<bool>("binary_output", false), weighted = context.input_type(weights_at).shape.num_elements() > 0;
  if (weighted && context.input_type(weights_at).shape.num_elements() != count) {
    return absl::InvalidArgumentError("Weights and values must have the same shape.");
  }
  int64_t rows = 1;
  std::vector<int64_t> splits;
  if (dense && rank == 2) rows = values.shape.dim(0);
  if (sparse) rows = rank == 2 ? context.input<int64_t>(2)[0] : 1;
  if (!dense && !sparse) {
    MR_ASSIGN_OR_RETURN(splits, Splits(context, 0, count));
    rows = static_cast<int64_t>(splits.size()) - 1;
  }
  for (int64_t i = 0; sparse && i < count * rank; ++i) {
    const int64_t index = context.input<int64_t>(0)[i], size = context.input<int64_t>(2)[i % rank];
    if (index >= 0 && index < size) continue;
    return absl::InvalidArgumentError(absl::StrCat("Invalid index value at ", i / rank, ": dimension ", i % rank, " has value ", index,
                                                   " which is not in [0, ", size, ") as given by the dense shape"));
  }
  if (rows < 0 || rows > (int64_t{1} << 40)) return absl::InvalidArgumentError(absl::StrCat("dense shape has ", rows, " rows"));
  std::map<std::pair<int64_t, int64_t>, T> bins;
  int64_t row = 0, largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (dense && rank == 2) row = i / values.shape.dim(1);
    if (sparse && rank == 2) row = context.input<int64_t>(0)[i * rank];
    while (!dense && !sparse && i >= splits[row + 1]) ++row;
    const int64_t value = ReadInt(values.dtype, context.inputs[values_at], i);
    if (value < 0) return absl::InvalidArgumentError("Input values must all be non-negative");
    if (limit >= 0 && value >= limit) continue;
    T& bin = bins.try_emplace({row, value}, T(0)).first->second;
    bin = binary ? T(1) : bin + (weighted ? context.input<T>(weights_at)[i] : T(1));
    largest = std::max(largest, value);
  }
  int64_t found = 0;
  for (const auto& [at, bin] : bins) {
    int64_t* index = context.output<int64_t>(0) + rank * found;
    if (rank == 2) index[0] = at.first;
    index[rank - 1] = at.second;
    context.output<T>(1)[found++] = bin;
  }
  if (rank == 2) context.output<int64_t>(2)[0] = rows;
  context.output<int64_t>(2)[rank - 1] = limit >= 0 ? limit : std::max(largest + 1, least);
  SetRealRows(context, 0, 1, found, rank);
  return absl::OkStatus();
}

KernelOr MakeCountThere(const OpInstance& node) {
  return DispatchNumeric(node, node.outputs[1].dtype, [](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    return MakeKernel([](const KernelContext& context) { return CountThere<T>(context); });
  });
}

template <typename T>
absl::StatusOr<int64_t> SizeOf(DataType dtype, T start, T limit, T delta) {
  if constexpr (std::is_floating_point_v<T>) {
    return RowRangeSize(dtype, start, limit, delta);
  } else {
    return RowRangeSize(start, limit, delta);
  }
}

// (starts, limits, deltas) -> splits [rows + 1], values: a scalar counts for every row
template <typename T>
absl::Status RaggedRange(const KernelContext& context) {
  const ValueReader reader(context);
  const auto element = [&](int input, int64_t row) {
    return static_cast<const T*>(reader.data(input))[context.input_type(input).shape.rank() == 0 ? 0 : row];
  };
  const TensorType& splits = context.output_type(0);
  int64_t total = 0;
  const int64_t rows = splits.shape.num_elements() - 1, room = context.output_type(1).shape.num_elements();
  for (int64_t row = 0; row <= rows; ++row) {
    if (splits.dtype == DataType::kInt32) context.output<int32_t>(0)[row] = static_cast<int32_t>(total);
    else context.output<int64_t>(0)[row] = total;
    if (row == rows) break;
    const T start = element(0, row), delta = element(2, row);
    MR_ASSIGN_OR_RETURN(const int64_t size, SizeOf(context.output_type(1).dtype, start, element(1, row), delta));
    if (size > room - total) return absl::InvalidArgumentError("a range is longer than was planned for");
    T value = start;  // added up, as TensorFlow does
    for (int64_t k = 0; k < size; ++k) {
      context.output<T>(1)[total++] = value;
      if (k + 1 < size) value += delta;
    }
  }
  return absl::OkStatus();
}

KernelOr MakeRaggedRange(const OpInstance& node) {
  const auto make = [](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    return MakeKernel([](const KernelContext& context) { return RaggedRange<T>(context); });
  };
  switch (node.outputs[1].dtype) {
    case DataType::kFloat: return make(TypeTag<float>());
    case DataType::kDouble: return make(TypeTag<double>());
    case DataType::kInt32: return make(TypeTag<int32_t>());
    case DataType::kInt64: return make(TypeTag<int64_t>());
    default: return UnsupportedType(node, node.outputs[1].dtype);
  }
}

}  // namespace

void RegisterRaggedKernels(KernelRegistry& registry) {
  AddKernel(registry, "RaggedTensorToSparse", MakeRaggedToSparse);
  AddKernel(registry, "RaggedBincount", MakeCount<false>);
  AddKernel(registry, "SparseBincount", MakeCount<true>);
  for (const char* op : {"DenseCountSparseOutput", "SparseCountSparseOutput", "RaggedCountSparseOutput"}) AddKernel(registry, op, MakeCountThere);
  AddKernel(registry, "RaggedRange", MakeRaggedRange);
}

}  // namespace millrace::cpu
