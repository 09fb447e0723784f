#include "passes/shapes/sparse_shapes.h"

#include <algorithm>
#include <optional>

#include "graph/shape_math.h"

namespace millrace {
namespace {

using Dims = std::vector<int64_t>;

std::optional<Dims> ValueOf(const OpInstance& instance, size_t input) {
  if (input >= instance.input_values.size() || instance.input_values[input].empty()) return std::nullopt;
  const Tensor& value = instance.input_values[input];
  Dims dims;
  for (int64_t i = 0; i < value.num_elements(); ++i) dims.push_back(value.IntAt(i));
  return dims;
}

Tensor TensorOf(const Dims& dims) {
  Tensor tensor(DataType::kInt64, Shape({static_cast<int64_t>(dims.size())}));
  std::copy(dims.begin(), dims.end(), tensor.mutable_as<int64_t>().begin());
  return tensor;
}

// The dimension that numbers from the end where negative, or -1.
int64_t AxisOf(int64_t axis, size_t rank) {
  if (axis < 0) axis += static_cast<int64_t>(rank);
  return axis < static_cast<int64_t>(rank) ? axis : -1;
}

std::optional<Dims> ConcatDims(const OpInstance& instance) {
  const size_t count = instance.inputs.size() / 3;
  std::optional<Dims> all = ValueOf(instance, 2 * count);
  if (!all.has_value()) return std::nullopt;
  const int64_t axis = AxisOf(instance.attrs.GetOr<int64_t>("concat_dim", 0), all->size());
  for (size_t i = 1; i < count; ++i) {
    const std::optional<Dims> dims = ValueOf(instance, 2 * count + i);
    if (axis < 0 || !dims.has_value() || dims->size() != all->size()) return std::nullopt;
    if (__builtin_add_overflow((*all)[axis], (*dims)[axis], &(*all)[axis])) return std::nullopt;  // the kernel's error
  }
  return all;
}

std::optional<Dims> SliceDims(const OpInstance& instance) {
  const std::optional<Dims> dims = ValueOf(instance, 2), start = ValueOf(instance, 3);
  std::optional<Dims> size = ValueOf(instance, 4);
  if (!dims.has_value() || !start.has_value() || !size.has_value()) return std::nullopt;
  if (dims->size() != start->size() || dims->size() != size->size()) return std::nullopt;
  for (size_t d = 0; d < dims->size(); ++d) (*size)[d] = SparseSliceSize((*dims)[d], (*start)[d], (*size)[d]);
  return size;
}

// -1 in the new shape takes what the others leave of the old one.
std::optional<Dims> ReshapeDims(const OpInstance& instance) {
  const std::optional<Dims> from = ValueOf(instance, 1);
  const std::optional<Dims> to = ValueOf(instance, 2);
  if (!from.has_value() || !to.has_value()) return std::nullopt;
  absl::StatusOr<Dims> dims = ResolveSparseReshape(*from, *to);
  return dims.ok() ? std::optional<Dims>(*std::move(dims)) : std::nullopt;  // the kernel's error
}

std::vector<std::pair<int, Tensor>> SplitShapes(const OpInstance& instance) {
  const std::optional<Dims> axes = ValueOf(instance, 0);
  std::optional<Dims> dims = ValueOf(instance, 3);
  const int parts = static_cast<int>(instance.outputs.size()) / 3;
  if (!axes.has_value() || axes->size() != 1 || !dims.has_value() || parts < 1) return {};
  const int64_t axis = AxisOf(axes->front(), dims->size());
  if (axis < 0) return {};
  const int64_t whole = (*dims)[axis];
  std::vector<std::pair<int, Tensor>> shapes;
  for (int i = 0; i < parts; ++i) {
    (*dims)[axis] = whole / parts + (i < whole % parts ? 1 : 0);
    shapes.emplace_back(2 * parts + i, TensorOf(*dims));
  }
  return shapes;
}

// Row splits of the rows that are taken, level by level as far as those before are known.
std::vector<std::pair<int, Tensor>> GatheredSplits(const OpInstance& instance) {
  const int levels = static_cast<int>(instance.inputs.size()) - 2;
  const std::optional<Dims> indices = levels < 1 ? std::nullopt : ValueOf(instance, levels + 1);
  if (!indices.has_value()) return {};
  std::vector<std::pair<int, Tensor>> all;
  const auto add = [&](const Dims& splits) {
    const int output = static_cast<int>(all.size());
    Tensor tensor(instance.outputs[output].dtype, Shape({static_cast<int64_t>(splits.size())}));
    for (size_t i = 0; i < splits.size(); ++i) {
      if (tensor.dtype() == DataType::kInt32) tensor.mutable_as<int32_t>()[i] = static_cast<int32_t>(splits[i]);
      else tensor.mutable_as<int64_t>()[i] = splits[i];
    }
    all.emplace_back(output, std::move(tensor));
  };
  const Shape& table = instance.inputs[levels + 1].shape;
  int64_t rows_before = 1;
  for (int d = 0; d + 1 < table.rank(); ++d) {
    rows_before *= table.dim(d);
    Dims splits;
    for (int64_t i = 0; i <= rows_before; ++i) splits.push_back(i * table.dim(d + 1));
    add(splits);
  }
  Dims rows = *indices;
  for (int level = 0; level < levels; ++level) {
    const std::optional<Dims> splits = ValueOf(instance, level);
    if (!splits.has_value()) break;
    Dims taken = {0}, below;
    for (int64_t row : rows) {
      if (row < 0 || row + 1 >= static_cast<int64_t>(splits->size())) return {};
      for (int64_t k = (*splits)[row]; k < (*splits)[row + 1]; ++k) below.push_back(k);
      taken.push_back(static_cast<int64_t>(below.size()));
    }
    add(taken);
    rows = std::move(below);
  }
  return all;
}

// [batch, longest] per path, of scores [time, batch, classes].
std::vector<std::pair<int, ValueBounds>> DecodedBounds(const OpInstance& instance, const Shape& scores) {
  if (scores.rank() != 3 || scores.dim(0) < 0 || scores.dim(1) < 0) return {};
  const int paths = static_cast<int>(instance.attrs.GetOr<int64_t>("top_paths", 1));
  const ValueBounds bounds{TensorOf({scores.dim(1), 0}), TensorOf({scores.dim(1), scores.dim(0)})};
  std::vector<std::pair<int, ValueBounds>> all;
  for (int p = 0; p < paths; ++p) all.emplace_back(2 * paths + p, bounds);
  return all;
}

// [rows, longest row per level, inner dimensions] of nested splits and values.
std::vector<std::pair<int, ValueBounds>> RaggedBounds(const OpInstance& instance, absl::Span<const BoundedInput> inputs) {
  const size_t levels = inputs.size() - 1;
  const Shape &values = inputs[levels].partial, &most = inputs[levels].type.shape;
  if (levels < 1 || inputs[0].partial.rank() != 1 || inputs[0].partial.dim(0) < 1 || values.rank() < 1 || most.rank() != values.rank()) return {};
  Dims low = {inputs[0].partial.dim(0) - 1}, high = low;
  for (size_t level = 0; level < levels; ++level) {
    const Shape& below = level + 1 < levels ? inputs[level + 1].type.shape : most;
    int64_t longest = -1;
    if (const std::optional<Dims> splits = ValueOf(instance, level); splits.has_value()) {
      for (size_t row = 0; row + 1 < splits->size(); ++row) longest = std::max(longest, (*splits)[row + 1] - (*splits)[row]);
      longest = std::max<int64_t>(longest, 0);
    }
    low.push_back(std::max<int64_t>(longest, 0));
    high.push_back(longest >= 0 ? longest : std::max<int64_t>(below.rank() > 0 ? below.dim(0) : 0, 0));
  }
  for (int d = 1; d < values.rank(); ++d) {
    low.push_back(std::max<int64_t>(values.dim(d), 0));
    high.push_back(most.dim(d));
  }
  return {{2, {TensorOf(low), TensorOf(high)}}};
}

}  // namespace

std::vector<std::pair<int, ValueBounds>> SparseShapeBounds(const OpInstance& instance, absl::Span<const BoundedInput> inputs) {
  if (instance.op == "CTCGreedyDecoder" || instance.op == "CTCBeamSearchDecoder") return DecodedBounds(instance, inputs[0].partial);
  if (instance.op == "RaggedTensorToSparse") return RaggedBounds(instance, inputs);
  return {};
}

std::vector<std::pair<int, Tensor>> SparseShapes(const OpInstance& instance) {
  if (instance.op == "SparseSplit") return SplitShapes(instance);
  if (instance.op == "RaggedGather") return GatheredSplits(instance);
  std::optional<Dims> dims;
  int output = 2;
  if (instance.op == "SparseAdd") {
    dims = ValueOf(instance, 2);
  } else if (instance.op == "SparseConcat") {
    dims = ConcatDims(instance);
  } else if (instance.op == "SparseSlice") {
    dims = SliceDims(instance);
  } else if (instance.op == "SparseReshape") {
    dims = ReshapeDims(instance);
    output = 1;
  }
  if (!dims.has_value()) return {};
  return {{output, TensorOf(*dims)}};
}

}  // namespace millrace
