// The driver of reductions: which pieces of the input go into which accumulators, and who adds them up.
#include "cpu/kernels/reduce.h"

#include <array>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "cpu/kernels/convert.h"
#include "cpu/kernels/register.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

static_assert(kMaxColumns <= kBlockElements);
// Rows of as many columns, in blocks of no more elements, are taken faster one by one than in groups whose sums are then added up.
constexpr int64_t kFewColumns = 4, kSmallBlock = 2048;
// Rows that Reducer::rows takes together; so often rows repeat before they pay as columns, and so often in a segment of its own.
constexpr int64_t kRowsAtOnce = 16, kFewTimes = 8, kManyTimes = 512;

struct Dim {
  int64_t size;
  int64_t stride;
};
using Dims = absl::InlinedVector<Dim, 4>;

int64_t OffsetOf(const Dims& dims, int64_t index) {
  int64_t offset = 0;
  for (size_t d = dims.size(); d-- > 1;) {
    offset += index % dims[d].size * dims[d].stride;
    index /= dims[d].size;
  }
  return dims.empty() ? 0 : offset + index * dims[0].stride;
}

// The input as kept × reduced × (rows × columns): `rows` is the innermost reduced dimension, `columns` the kept ones
// inside it, 1 when there are none.
struct ReduceLayout {
  Dims kept;
  Dims reduced;
  int64_t rows = 1;
  int64_t columns = 1;
  int64_t num_kept = 1;     // product of `kept`
  int64_t num_reduced = 1;  // product of `reduced`
  int64_t count() const { return num_reduced * rows; }
  int64_t outputs() const { return num_kept * columns; }
};

ReduceLayout MakeLayout(const Shape& shape, absl::Span<const bool> reduced) {
  // Merged dimensions, innermost first; kept and reduced ones alternate.
  absl::InlinedVector<Dim, 8> merged;
  absl::InlinedVector<bool, 8> flags;
  int64_t stride = 1;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    if (shape.dim(d) == 1) continue;
    if (!flags.empty() && flags.back() == reduced[d]) {
      merged.back().size *= shape.dim(d);
    } else {
      merged.push_back({shape.dim(d), stride});
      flags.push_back(reduced[d]);
    }
    stride *= shape.dim(d);
  }
  ReduceLayout layout;
  size_t next = 0;
  if (next < merged.size() && !flags[next]) layout.columns = merged[next++].size;
  if (next < merged.size()) layout.rows = merged[next++].size;
  for (size_t d = merged.size(); d-- > next;) {
    (flags[d] ? layout.reduced : layout.kept).push_back(merged[d]);
    (flags[d] ? layout.num_reduced : layout.num_kept) *= merged[d].size;
  }
  return layout;
}

class ReduceKernel final : public Kernel {
 public:
  ReduceKernel(const Reducer& reducer, const Widening& widening, DataType dtype, const ReduceLayout& layout)
      : reducer_(reducer), widening_(widening), bytes_(DataTypeSize(dtype)), layout_(layout) {
    const int64_t elements = layout_.outputs() * layout_.count();
    column_chunks_ = (layout_.columns + kMaxColumns - 1) / kMaxColumns;
    const int64_t items = std::max<int64_t>(1, layout_.num_kept * column_chunks_);
    if (layout_.columns > 1) group_ = std::max<int64_t>(1, kMaxColumns / 2 / layout_.columns);
    // Of small blocks, what comes after the rows of a group would take longer than they do.
    const bool small = layout_.columns >= kFewColumns && layout_.rows * layout_.columns <= kSmallBlock && layout_.reduced.empty() && layout_.num_kept > 1;
    if (small || layout_.rows < group_) group_ = 1;
    if (items < kMaxShards) {
      segments_ = std::clamp<int64_t>(NumShards(elements, kElementGrain) / items, 1, layout_.count() / 64 + 1);
    }
    shards_ = NumShards(elements, kElementGrain);
    // Rows of kept indices that follow one another in memory, for which a block has room if they are converted.
    const bool adjacent = layout_.columns == 1 && layout_.num_kept > 1 && (layout_.reduced.empty() || layout_.kept.back().size >= kRowsAtOnce);
    has_rows_ = adjacent && segments_ == 1 && (widening_.load == nullptr || layout_.rows <= kBlockElements);
    const bool repeated = layout_.columns == 1 && layout_.num_kept > 1 && !layout_.reduced.empty() && layout_.reduced.back().size >= kFewTimes;
    if (repeated && segments_ == 1 && 2 * layout_.rows <= kMaxColumns && layout_.kept.back().size * layout_.rows >= kRowsAtOnce) {
      line_chunks_ = (layout_.kept.back().size * layout_.rows * 2 + kMaxColumns - 1) / kMaxColumns;
      segments_ = std::clamp<int64_t>(shards_ / (lines() * line_chunks_), 1, std::max<int64_t>(layout_.reduced.back().size / kManyTimes, 1));
    }
    const bool blocks = layout_.columns > 1 && layout_.reduced.empty() && layout_.num_kept > 1;
    has_blocks_ = blocks && segments_ == 1 && group_ == 1 && 2 * layout_.columns <= kMaxColumns;
  }

  // Segments leave partial accumulators, one for every output.
  int64_t scratch_bytes() const override {
    return segments_ == 1 ? 0 : layout_.outputs() * segments_ * static_cast<int64_t>(sizeof(Accumulator));
  }

  absl::Status Run(const KernelContext& context) const override {
    const int64_t items = layout_.num_kept * column_chunks_ * segments_;
    if (layout_.outputs() == 0) return absl::OkStatus();
    if (line_chunks_ > 0) {
      const int64_t of_item = layout_.count() * layout_.kept.back().size / (line_chunks_ * segments_);
      ParallelRange(context, lines() * line_chunks_ * segments_, std::max<int64_t>(kElementGrain / std::max<int64_t>(of_item, 1), 1),
                    [&](int64_t begin, int64_t end) { RunRowsAsColumns(context, begin, end); });
      if (segments_ > 1) MergeSegments(context);
      return absl::OkStatus();
    }
    if (has_rows_) {
      ParallelRange(context, items, std::max<int64_t>(kElementGrain / std::max<int64_t>(layout_.count(), 1), 1),
                    [&](int64_t begin, int64_t end) { RunRowByRow(context, begin, end); });
      return absl::OkStatus();
    }
    if (has_blocks_) {
      ParallelRange(context, layout_.num_kept, std::max<int64_t>(kElementGrain / std::max<int64_t>(layout_.rows * layout_.columns, 1), 1),
                    [&](int64_t begin, int64_t end) { RunBlocks(context, begin, end); });
      return absl::OkStatus();
    }
    if (shards_ == 1) {
      for (int64_t item = 0; item < items; ++item) RunItem(context, item);
    } else {
      const int64_t shards = std::min(shards_, items);
      context.parallel->For(shards, [&](int64_t s) {
        for (int64_t item = items * s / shards; item < items * (s + 1) / shards; ++item) RunItem(context, item);
      });
    }
    if (segments_ > 1) MergeSegments(context);
    return absl::OkStatus();
  }

 private:
  // Item: (kept index, chunk of columns, segment of the reduced elements).
  void RunItem(const KernelContext& context, int64_t item) const {
    const int64_t segment = item % segments_, chunk = item / segments_ % column_chunks_;
    const int64_t kept = item / segments_ / column_chunks_;
    const int64_t column = layout_.columns * chunk / column_chunks_;
    const int64_t columns = layout_.columns * (chunk + 1) / column_chunks_ - column;
    std::array<Accumulator, kMaxColumns> acc;
    const bool grouped = group_ > 1;
    std::fill_n(acc.begin(), grouped ? columns * group_ : columns, reducer_.identity);
    const char* base = context.input<char>(0) + (OffsetOf(layout_.kept, kept) + column) * bytes_;
    const int64_t count = layout_.count();
    const int64_t end = count * (segment + 1) / segments_;
    for (int64_t at = count * segment / segments_; at < end;) {
      const int64_t row = at % layout_.rows, n = std::min(layout_.rows - row, end - at);
      TakeRows(base + (OffsetOf(layout_.reduced, at / layout_.rows) + row * layout_.columns) * bytes_, n, columns,
               grouped, acc.data());
      at += n;
    }
    if (grouped) {
      for (int64_t left = group_, half = left / 2; half > 0; left -= half, half = left / 2) {
        reducer_.merge(acc.data() + (left - half) * columns, half * columns, acc.data());
      }
    }
    if (segments_ == 1) {
      Finish(context, acc.data(), kept * layout_.columns + column, columns);
    } else {
      std::copy_n(acc.data(), columns, Partial(context, segment) + kept * layout_.columns + column);
    }
  }

  // The rows of the kept indices [begin, end): of those that follow one another at a time as many as a block has room for, in groups of
  // Reducer::rows if it can be.
  void RunRowByRow(const KernelContext& context, int64_t begin, int64_t end) const {
    const int64_t count = layout_.rows, side = layout_.kept.back().size;
    const int64_t room = widening_.load == nullptr ? kBlockElements : kBlockElements / std::max<int64_t>(count, 1);
    const int64_t most = room < kRowsAtOnce ? room : room / kRowsAtOnce * kRowsAtOnce;
    std::array<Accumulator, kBlockElements> acc;
    Block wide;
    for (int64_t kept = begin; kept < end;) {
      const int64_t n = std::min({most, end - kept, side - kept % side});
      std::fill_n(acc.begin(), n, reducer_.identity);
      const char* first = context.input<char>(0) + OffsetOf(layout_.kept, kept) * bytes_;
      for (int64_t reduced = 0; reduced < layout_.num_reduced; ++reduced) {
        const char* x = first + OffsetOf(layout_.reduced, reduced) * bytes_;
        if (widening_.load != nullptr) {
          widening_.load(x, wide.bytes, n * count);
          x = wide.bytes;
        }
        reducer_.rows(x, n, count, acc.data());
      }
      Finish(context, acc.data(), kept, n);
      kept += n;
    }
  }

  // Of kept indices that follow one another in memory.
  int64_t lines() const { return layout_.num_kept / layout_.kept.back().size; }

  // Items [begin, end), each a segment of a chunk of a line of rows that repeat along a reduced dimension: a line's elements are columns,
  // whose accumulators are then merged row by row.
  void RunRowsAsColumns(const KernelContext& context, int64_t begin, int64_t end) const {
    const int64_t rows = layout_.rows, side = layout_.kept.back().size;
    const Dim& repeated = layout_.reduced.back();
    std::array<Accumulator, kMaxColumns> acc;
    for (int64_t item = begin; item < end; ++item) {
      const int64_t segment = item % segments_, chunk = item / segments_ % line_chunks_;
      const int64_t first = side * chunk / line_chunks_, n = side * (chunk + 1) / line_chunks_ - first;
      const int64_t kept = item / segments_ / line_chunks_ * side + first;
      const int64_t start = repeated.size * segment / segments_, times = repeated.size * (segment + 1) / segments_ - start;
      std::fill_n(acc.begin(), n * rows, reducer_.identity);
      for (int64_t reduced = 0; reduced < layout_.num_reduced; reduced += repeated.size) {
        const int64_t at = OffsetOf(layout_.kept, kept) + OffsetOf(layout_.reduced, reduced + start);
        TakeColumns(context.input<char>(0) + at * bytes_, times, repeated.stride, n * rows, acc.data());
      }
      for (int64_t r = 0; r < n; ++r) {
        Accumulator total = acc[r * rows];
        for (int64_t i = 1; i < rows; ++i) reducer_.merge(&acc[r * rows + i], 1, &total);
        acc[r] = total;
      }
      if (segments_ == 1) {
        Finish(context, acc.data(), kept, n);
      } else {
        std::copy_n(acc.data(), n, Partial(context, segment) + kept);
      }
    }
  }

  // The columns of the kept indices [begin, end), as many of them at a time as there are accumulators for.
  void RunBlocks(const KernelContext& context, int64_t begin, int64_t end) const {
    const int64_t columns = layout_.columns, rows = layout_.rows, most = kMaxColumns / columns;
    std::array<Accumulator, kMaxColumns> acc;
    for (int64_t kept = begin; kept < end; kept += most) {
      const int64_t n = std::min(most, end - kept);
      std::fill_n(acc.begin(), n * columns, reducer_.identity);
      for (int64_t i = 0; i < n; ++i) {
        TakeColumns(context.input<char>(0) + (kept + i) * rows * columns * bytes_, rows, columns, columns, acc.data() + i * columns);
      }
      Finish(context, acc.data(), kept * columns, n * columns);
    }
  }

  // n rows of the innermost reduced dimension. Grouped: several short rows at a time as one long one.
  void TakeRows(const char* x, int64_t n, int64_t columns, bool grouped, Accumulator* acc) const {
    if (layout_.columns == 1) {
      TakeLine(x, n, acc);
    } else if (grouped) {
      const int64_t whole = n / group_;
      TakeColumns(x, whole, columns * group_, columns * group_, acc);
      TakeColumns(x + whole * group_ * columns * bytes_, n - whole * group_, columns, columns, acc);
    } else {
      TakeColumns(x, n, layout_.columns, columns, acc);
    }
  }

  void TakeLine(const char* x, int64_t n, Accumulator* acc) const {
    if (widening_.load == nullptr) {
      reducer_.row(x, n, acc);
      return;
    }
    Block wide;
    for (int64_t i = 0; i < n; i += kBlockElements) {
      const int64_t count = std::min(kBlockElements, n - i);
      widening_.load(x + i * bytes_, wide.bytes, count);
      reducer_.row(wide.bytes, count, acc);
    }
  }

  void TakeColumns(const char* x, int64_t rows, int64_t stride, int64_t columns, Accumulator* acc) const {
    if (widening_.load == nullptr) {
      reducer_.columns(x, rows, stride, columns, acc);
      return;
    }
    Block wide;
    const int64_t at_once = stride == columns ? kBlockElements / columns : 1;
    for (int64_t r = 0; r < rows; r += at_once) {
      const int64_t n = std::min(at_once, rows - r);
      widening_.load(x + r * stride * bytes_, wide.bytes, n * columns);
      reducer_.columns(wide.bytes, n, columns, columns, acc);
    }
  }

  void Finish(const KernelContext& context, const Accumulator* acc, int64_t at, int64_t n) const {
    char* out = context.output<char>(0) + at * bytes_;
    if (widening_.store == nullptr) {
      reducer_.finish(acc, n, layout_.count(), out);
      return;
    }
    Block wide;
    reducer_.finish(acc, n, layout_.count(), wide.bytes);
    widening_.store(wide.bytes, out, n);
  }

  Accumulator* Partial(const KernelContext& context, int64_t segment) const {
    return static_cast<Accumulator*>(context.scratch) + segment * layout_.outputs();
  }

  void MergeSegments(const KernelContext& context) const {
    const int64_t outputs = layout_.outputs();
    Accumulator* total = Partial(context, 0);
    for (int64_t s = 1; s < segments_; ++s) reducer_.merge(Partial(context, s), outputs, total);
    for (int64_t at = 0; at < outputs; at += kMaxColumns) Finish(context, total + at, at, std::min(kMaxColumns, outputs - at));
  }

  Reducer reducer_;
  Widening widening_;
  int64_t bytes_;
  ReduceLayout layout_;
  int64_t column_chunks_ = 1;
  int64_t group_ = 1;        // rows taken at a time when they are short
  int64_t segments_ = 1;     // of the reduced elements
  int64_t line_chunks_ = 0;  // of a line of rows as columns, if they are
  bool has_rows_ = false, has_blocks_ = false;
  int64_t shards_ = 1;
};

Widening ReduceWidening(Reduction reduction, DataType dtype) {
  const Widening widening = WideningOf(dtype);
  const DataType computed = ComputedTypeOf(reduction, dtype);
  if (computed == dtype) return {dtype};
  return computed == widening.compute ? widening : Widening{computed, ConversionOf(dtype, computed).first, ConversionOf(computed, dtype).first};
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeAxesReduction(const OpInstance& instance, Reduction reduction) {
  const Shape& shape = instance.inputs[0].shape;
  if (instance.input_values.size() < 2 || instance.input_values[1].empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("node '", instance.name, "' (", instance.op, "): the axes must be known when planning"));
  }
  const Tensor& axes = instance.input_values[1];
  absl::InlinedVector<bool, 8> reduced(shape.rank(), false);
  for (int64_t i = 0; i < axes.num_elements(); ++i) {
    const int64_t axis = axes.IntAt(i);
    reduced[axis < 0 ? axis + shape.rank() : axis] = true;
  }
  return MakeReduction(instance, reduction, shape, reduced);
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeL2Loss(const OpInstance& instance) {
  const Shape& shape = instance.inputs[0].shape;
  const absl::InlinedVector<bool, 8> all(shape.rank(), true);
  return MakeReduction(instance, Reduction::kL2Loss, shape, all);
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeBiasAddGrad(const OpInstance& instance) {
  const Shape& shape = instance.inputs[0].shape;
  absl::InlinedVector<bool, 8> reduced(shape.rank(), true);
  const bool nchw = instance.attrs.GetOr<std::string>("data_format", "NHWC") == "NCHW";
  reduced[nchw ? 1 : shape.rank() - 1] = false;
  return MakeReduction(instance, Reduction::kSum, shape, reduced);
}

// _SumColumns: input after input, each reduced as BiasAddGrad reduces it.
class SumColumnsKernel final : public Kernel {
 public:
  SumColumnsKernel(std::unique_ptr<Kernel> reduce, const OpInstance& instance, int64_t columns)
      : reduce_(std::move(reduce)),
        dtype_(instance.outputs[0].dtype),
        inputs_(instance.inputs.size()),
        columns_(columns),
        divisor_(instance.attrs.GetOr<int64_t>("divisor", 1)) {}

  int64_t scratch_bytes() const override { return sums_bytes() + reduce_->scratch_bytes(); }

  absl::Status Run(const KernelContext& context) const override {
    if (dtype_ == DataType::kFloat) return RunAs<float>(context);
    return RunAs<double>(context);
  }

 private:
  int64_t sums_bytes() const { return AlignUp(columns_ * DataTypeSize(dtype_)); }

  template <typename T>
  absl::Status RunAs(const KernelContext& context) const {
    KernelContext one = context;
    one.scratch = static_cast<char*>(context.scratch) + sums_bytes();
    T* const out = context.output<T>(0);
    T* const sums = static_cast<T*>(context.scratch);
    for (size_t i = 0; i < inputs_; ++i) {
      void* to = i == 0 ? static_cast<void*>(out) : sums;
      one.inputs = context.inputs + i;
      one.outputs = &to;
      MR_RETURN_IF_ERROR(reduce_->Run(one));
      for (int64_t c = 0; c < columns_ && i > 0; ++c) out[c] += sums[c];
    }
    for (int64_t c = 0; c < columns_ && divisor_ != 1; ++c) out[c] /= static_cast<T>(divisor_);
    return absl::OkStatus();
  }

  const std::unique_ptr<Kernel> reduce_;
  const DataType dtype_;
  const size_t inputs_;
  const int64_t columns_, divisor_;
};

absl::StatusOr<std::unique_ptr<Kernel>> MakeSumColumns(const OpInstance& instance) {
  const DataType dtype = instance.outputs[0].dtype;
  if (dtype != DataType::kFloat && dtype != DataType::kDouble) return UnsupportedType(instance, dtype);
  const int64_t columns = instance.attrs.GetOr<int64_t>("columns", 1);
  const Shape rows({instance.inputs[0].shape.num_elements() / columns, columns});
  MR_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> reduce, MakeReduction(instance, Reduction::kSum, rows, {true, false}));
  return std::make_unique<SumColumnsKernel>(std::move(reduce), instance, columns);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeReduction(const OpInstance& instance, Reduction reduction,
                                                      const Shape& shape, absl::Span<const bool> reduced) {
  const DataType dtype = instance.inputs[0].dtype;
  const Reducer reducer = ReducerOf(reduction, dtype);
  if (reducer.row == nullptr) return UnsupportedType(instance, dtype);
  return std::make_unique<ReduceKernel>(reducer, ReduceWidening(reduction, dtype), dtype, MakeLayout(shape, reduced));
}

void RegisterReductionKernels(KernelRegistry& registry) {
  constexpr std::pair<const char*, Reduction> kReductions[] = {
      {"Sum", Reduction::kSum},   {"Mean", Reduction::kMean},
      {"Prod", Reduction::kProd}, {"Max", Reduction::kMax},
      {"Min", Reduction::kMin},   {"All", Reduction::kAll},
      {"Any", Reduction::kAny},   {"EuclideanNorm", Reduction::kEuclideanNorm}};
  for (const auto& [op, reduction] : kReductions) {
    AddKernel(registry, op,
              [reduction = reduction](const OpInstance& instance) { return MakeAxesReduction(instance, reduction); });
  }
  AddKernel(registry, "L2Loss", MakeL2Loss);
  AddKernel(registry, "BiasAddGrad", MakeBiasAddGrad);
  AddKernel(registry, "_SumColumns", MakeSumColumns);
}

}  // namespace millrace::cpu
