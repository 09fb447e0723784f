// Greedy decoding of class scores over time, the distance between sequences, ragged rows laid out as a tensor.
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cpu/kernels/complex.h"
#include "cpu/kernels/rare.h"
#include "cpu/kernels/real_shapes.h"
#include "cpu/kernels/sparse_shapes.h"
#include "cpu/kernels/values.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

template <typename T>
absl::Status Greedy(const KernelContext& context) {
  const Shape& shape = context.input_type(0).shape;
  const int64_t time = shape.dim(0), batch = shape.dim(1), classes = shape.dim(2);
  const AttrMap& attrs = context.instance->attrs;
  const bool merge = attrs.GetOr<bool>("merge_repeated", false);
  int64_t blank = attrs.GetOr<int64_t>("blank_index", -1);
  if (blank < 0) blank += classes;
  if (blank < 0 || blank >= classes) return absl::InvalidArgumentError(absl::StrCat("blank_index is not one of ", classes, " classes"));
  int64_t found = 0, longest = 0;
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t length = context.input<int32_t>(1)[b];
    if (length < 0 || length > time) return absl::InvalidArgumentError(absl::StrCat("sequence_length(", b, ") = ", length, ", expected 0 to ", time));
    T sum(0);
    int64_t last = -1, count = 0;
    for (int64_t t = 0; t < length; ++t) {
      const T* scores = context.input<T>(0) + (t * batch + b) * classes;
      const int64_t best = std::max_element(scores, scores + classes) - scores;
      sum -= scores[best];
      if (best != blank && !(merge && best == last)) {
        context.output<int64_t>(0)[2 * found] = b;
        context.output<int64_t>(0)[2 * found + 1] = count++;
        context.output<int64_t>(1)[found++] = best;
      }
      last = best;
    }
    context.output<T>(3)[b] = sum;
    longest = std::max(longest, count);
  }
  context.output<int64_t>(2)[0] = batch;
  context.output<int64_t>(2)[1] = longest;
  SetRealRows(context, 0, 1, found, 2);
  return absl::OkStatus();
}

KernelOr MakeGreedy(const OpInstance& node) {
  if (node.inputs[0].dtype == DataType::kDouble) return MakeKernel([](const KernelContext& context) { return Greedy<double>(context); });
  if (node.inputs[0].dtype == DataType::kFloat) return MakeKernel([](const KernelContext& context) { return Greedy<float>(context); });
  return UnsupportedType(node, node.inputs[0].dtype);
}

// Insertions, deletions and replacements that turn one sequence into the other (Levenshtein).
template <typename T>
int64_t Distance(const std::vector<T>& a, const std::vector<T>& b) {
  std::vector<int64_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<int64_t>(j);
  for (size_t i = 0; i < a.size(); ++i) {
    int64_t corner = row[0];
    row[0] = static_cast<int64_t>(i) + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const int64_t replaced = corner + (a[i] == b[j] ? 0 : 1);
      corner = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row[b.size()];
}

template <typename T>
absl::Status EditDistance(const KernelContext& context) {
  MR_ASSIGN_OR_RETURN(const Ints first, DenseShape(context, 2));
  MR_ASSIGN_OR_RETURN(const Ints second, DenseShape(context, 5));
  const int64_t groups = static_cast<int64_t>(first.size()) - 1;
  std::vector<int64_t> dims(groups);
  int64_t elements = 1;
  for (int64_t d = 0; d < groups; ++d) elements *= dims[d] = std::max(first[d], second[d]);
  std::map<int64_t, std::pair<std::vector<T>, std::vector<T>>> sequences;
  for (int side : {0, 1}) {
    const int64_t count = context.input_type(3 * side + 1).shape.num_elements();
    for (int64_t i = 0; i < count; ++i) {
      int64_t at = 0;
      for (int64_t d = 0; d < groups; ++d) {
        const int64_t index = context.input<int64_t>(3 * side)[i * (groups + 1) + d];
        if (index < 0 || index >= dims[d]) return absl::InvalidArgumentError(absl::StrCat("index ", index, " is not in [0, ", dims[d], ")"));
        at = at * dims[d] + index;
      }
      auto& pair = sequences[at];
      (side == 0 ? pair.first : pair.second).push_back(context.input<T>(3 * side + 1)[i]);
    }
  }
  const bool normalize = context.instance->attrs.GetOr<bool>("normalize", true);
  float* out = context.output<float>(0);
  std::fill_n(out, elements, 0.0f);
  for (const auto& [at, pair] : sequences) {
    const float distance = static_cast<float>(Distance(pair.first, pair.second));
    const float length = static_cast<float>(pair.second.size());
    out[at] = !normalize ? distance : length > 0 ? distance / length : distance > 0 ? std::numeric_limits<float>::infinity() : 0;
  }
  return absl::OkStatus();
}

KernelOr MakeEditDistance(const OpInstance& node) {
  const DataType dtype = node.inputs[1].dtype == DataType::kBool ? DataType::kUint8 : node.inputs[1].dtype;
  return DispatchNumericOrComplex(node, dtype, [](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    return MakeKernel([](const KernelContext& context) { return EditDistance<T>(context); });
  });
}

// Where the rows of a level begin among what they hold, and its end; `rows` are there, which hold `most` at most. The last ones
// may be left out when they hold nothing. Of row ids, those from `limit` on are of rows that are left out: they are numbered one after another.
absl::StatusOr<std::vector<int64_t>> RowSplits(const ValueReader& reader, int input, const std::string& type, int64_t rows, int64_t most,
                                               int64_t limit) {
  MR_ASSIGN_OR_RETURN(const Ints partition, reader.ints(input));
  if (type == "VALUE_ROWIDS") {
    if (!std::is_sorted(partition.begin(), partition.end())) return absl::InvalidArgumentError("value_rowids are not sorted");
    if (!partition.empty() && (partition.front() < 0 || partition.back() >= rows)) {
      return absl::InvalidArgumentError(absl::StrCat("value_rowids name rows ", partition.front(), " to ", partition.back(),
                                                     ", which are not all in [0, ", rows, ")"));
    }
    std::vector<int64_t> splits = {0};
    int64_t row = -1;
    for (size_t k = 0; k < partition.size(); ++k) {
      if (k == 0 || partition[k] != partition[k - 1]) row = std::min<int64_t>(partition[k], std::max(row, limit - 1) + 1);
      splits.resize(row + 2, static_cast<int64_t>(k));
      ++splits.back();
    }
    return splits;
  }
  if (type != "ROW_SPLITS") return absl::InvalidArgumentError(absl::StrCat("row partition of type ", type, ", expected ROW_SPLITS or VALUE_ROWIDS"));
  if (partition.empty() || partition[0] != 0) return absl::InvalidArgumentError("row_splits do not begin with 0");
  for (size_t row = 0; row + 1 < partition.size(); ++row) {
    if (partition[row + 1] < partition[row]) return absl::InvalidArgumentError("row_splits are not sorted");
    if (partition[row + 1] > most) {
      return absl::InvalidArgumentError(absl::StrCat("row_splits hold ", partition[row + 1], " rows or values, where ", most, " are"));
    }
  }
  return std::vector<int64_t>(partition.begin(), partition.end());
}

// What the values of a ragged tensor are written by.
template <typename T>
struct RaggedWriter {
  const std::vector<std::vector<int64_t>>& splits;  // by level
  const std::vector<int64_t>& dims;                 // of the output
  const std::vector<int64_t>& strides;              // of its first dimensions: of its rows, of the rows of each level
  const T* values;
  const T* fill;  // strides.back() is a multiple of `fills`
  int64_t fills;

  void Fill(T* out, int64_t elements) const {
    if (fills == 1) {
      std::fill_n(out, elements, *fill);
      return;
    }
    for (int64_t i = 0; i < elements; i += fills) std::copy_n(fill, fills, out + i);
  }
  // A row of a level.
  void Write(size_t level, int64_t row, T* out) const {
    const std::vector<int64_t>& starts = splits[level];
    const bool holds = row + 1 < static_cast<int64_t>(starts.size());
    const int64_t first = holds ? starts[row] : 0, most = dims[level + 1], stride = strides[level + 1];
    const int64_t count = holds ? std::min(starts[row + 1] - first, most) : 0;
    if (level + 1 == splits.size()) {
      std::copy_n(values + first * stride, count * stride, out);
    } else {
      for (int64_t k = 0; k < count; ++k) Write(level + 1, first + k, out + k * stride);
    }
    Fill(out + count * stride, (most - count) * stride);
  }
};

template <typename T>
absl::Status RaggedToTensor(const KernelContext& context) {
  const ValueReader reader(context);
  const auto types = context.instance->attrs.GetOr<std::vector<std::string>>("row_partition_types", {});
  const int skipped = types[0] == "FIRST_DIM_SIZE" ? 1 : 0;
  const int levels = static_cast<int>(types.size()) - skipped;
  const Shape &values = context.input_type(1).shape, &bound = context.output_type(0).shape;
  MR_ASSIGN_OR_RETURN(const Ints asked, reader.ints(0));
  std::vector<int64_t> dims(bound.dims().begin(), bound.dims().end());
  std::vector<std::vector<int64_t>> splits(levels);
  int64_t rows = 0;  // of the level before; of the first one ROW_SPLITS tell
  if (skipped == 1) {
    MR_ASSIGN_OR_RETURN(rows, reader.scalar(3));
  }
  for (int level = 0; level < levels; ++level) {
    // What comes next has as many rows; row ids do not tell how many.
    const int next = 3 + skipped + level + 1;
    const bool told = level + 1 < levels && types[skipped + level + 1] == "ROW_SPLITS";
    const int64_t most = level + 1 == levels ? values.dim(0) : told ? context.input_type(next).shape.num_elements() - 1 : INT32_MAX;
    MR_ASSIGN_OR_RETURN(splits[level], RowSplits(reader, 3 + skipped + level, types[skipped + level], rows, most, level == 0 ? dims[0] : rows));
    rows = splits[level].back();
    int64_t longest = 0;
    for (size_t row = 0; row + 1 < splits[level].size(); ++row) longest = std::max(longest, splits[level][row + 1] - splits[level][row]);
    const bool given = static_cast<int>(asked.size()) == bound.rank() && asked[level + 1] >= 0;
    if (!given && longest > bound.dim(level + 1)) {
      return absl::InvalidArgumentError(absl::StrCat("a row of ", longest, ", where the longest can be ", bound.dim(level + 1)));
    }
    if (!given) dims[level + 1] = longest;
  }
  const int64_t held = levels > 0 ? rows : 0;
  if (held != values.dim(0)) {
    return absl::InvalidArgumentError(absl::StrCat("row partitions hold ", held, " values of ", values.dim(0)));
  }
  int64_t width = 1;
  for (int d = levels + 1; d < bound.rank(); ++d) width *= dims[d];
  std::vector<int64_t> strides(levels + 1, width);
  for (int d = levels; d > 0; --d) strides[d - 1] = strides[d] * dims[d];
  // The default value, broadcast over the inner dimensions.
  const Shape& fill = context.input_type(2).shape;
  const int64_t fills = fill.num_elements();
  if (fills == 0 || width % std::max<int64_t>(fills, 1) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("default_value ", fill.ToString(), " does not broadcast to rows of values ", values.ToString()));
  }
  const RaggedWriter<T> writer = {splits, dims, strides, context.input<T>(1), context.input<T>(2), fills};
  ParallelRange(context, dims[0], std::max<int64_t>(kElementGrain / std::max<int64_t>(strides[0], 1), 1), [&](int64_t begin, int64_t end) {
    T* out = context.output<T>(0);
    if (levels == 0) return writer.Fill(out + begin * width, (end - begin) * width);
    for (int64_t row = begin; row < end; ++row) writer.Write(0, row, out + row * strides[0]);
  });
  SetRealShape(context, 0, Shape(dims));
  return absl::OkStatus();
}

KernelOr MakeRaggedToTensor(const OpInstance& node) {
  return DispatchBySize(node, node.inputs[1].dtype, [](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    return MakeKernel([](const KernelContext& context) { return RaggedToTensor<T>(context); });
  });
}

}  // namespace

void RegisterDecodeKernels(KernelRegistry& registry) {
  AddKernel(registry, "CTCGreedyDecoder", MakeGreedy);
  AddKernel(registry, "EditDistance", MakeEditDistance);
  AddKernel(registry, "RaggedTensorToTensor", MakeRaggedToTensor);
}

}  // namespace millrace::cpu
