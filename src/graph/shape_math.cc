#include "graph/shape_math.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include <Eigen/Core>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"

namespace millrace {
namespace {

constexpr int kNewAxis = -1;
constexpr int kShrunkAxis = -2;

bool Bit(int64_t mask, int64_t i) { return i < 63 && ((mask >> i) & 1) != 0; }

// The spec with its ellipsis expanded: one entry per dimension of the input.
struct DenseSpec {
  std::vector<int64_t> begin, end, stride;
  std::vector<bool> begin_masked, end_masked, shrink;
  std::vector<int> gather;  // per dimension of the result: an input dimension, kNewAxis or kShrunkAxis
};

absl::StatusOr<DenseSpec> ExpandEllipsis(int rank, absl::Span<const int64_t> begin, absl::Span<const int64_t> end,
                                         absl::Span<const int64_t> strides, const StridedSliceMasks& masks) {
  const int64_t entries = static_cast<int64_t>(strides.size());
  int64_t ellipsis_at = entries, new_axes_after = 0;
  for (int64_t i = 0; i < entries; ++i) {
    if (Bit(masks.ellipsis, i)) {
      if (ellipsis_at < entries) return absl::InvalidArgumentError("Multiple ellipses in slice spec not allowed");
      ellipsis_at = i;
    } else if (ellipsis_at < entries && Bit(masks.new_axis, i)) {
      ++new_axes_after;
    }
  }
  DenseSpec spec;
  auto add_whole_dims_until = [&](int64_t dim) {
    while (static_cast<int64_t>(spec.begin.size()) < dim) {
      spec.gather.push_back(static_cast<int>(spec.begin.size()));
      spec.begin.push_back(0);
      spec.end.push_back(0);
      spec.stride.push_back(1);
      spec.begin_masked.push_back(true);
      spec.end_masked.push_back(true);
      spec.shrink.push_back(false);
    }
  };
  for (int64_t i = 0; i < entries; ++i) {
    const int64_t dim = static_cast<int64_t>(spec.begin.size());
    if (Bit(masks.ellipsis, i)) {
      add_whole_dims_until(std::min<int64_t>(rank - (entries - i) + 1 + new_axes_after, rank));
    } else if (Bit(masks.new_axis, i)) {
      spec.gather.push_back(kNewAxis);
    } else if (dim == rank) {
      return absl::InvalidArgumentError(
          absl::StrCat("Index out of range using input dim ", dim, "; input has only ", rank, " dims"));
    } else {
      const bool shrink = Bit(masks.shrink_axis, i);
      spec.gather.push_back(shrink ? kShrunkAxis : static_cast<int>(dim));
      spec.begin.push_back(begin.empty() ? 0 : begin[i]);
      spec.end.push_back(end.empty() ? 0 : end[i]);
      spec.stride.push_back(strides[i]);
      spec.begin_masked.push_back(Bit(masks.begin, i));
      spec.end_masked.push_back(Bit(masks.end, i));
      spec.shrink.push_back(shrink);
    }
  }
  add_whole_dims_until(rank);
  return spec;
}

// Brings a bound of the slice into the dimension: [0, dim] going up, [-1, dim - 1] going down.
int64_t ClampBound(int64_t value, int64_t dim, bool up) {
  if (value < 0) value += dim;
  return std::clamp<int64_t>(value, up ? 0 : -1, up ? dim : dim - 1);
}

struct DimRange {
  int64_t begin = 0, size = -1;
};

absl::StatusOr<DimRange> ResolveDim(const DenseSpec& spec, int d, int64_t dim, bool begin_known, bool end_known) {
  const int64_t stride = spec.stride[d];
  if (stride == 0) return absl::InvalidArgumentError(absl::StrCat("strides[", d, "] must be non-zero"));
  if (spec.shrink[d]) {
    if (stride < 0) return absl::InvalidArgumentError("only stride 1 allowed on non-range indexing.");
    const int64_t begin = spec.begin[d] < 0 && dim >= 0 ? spec.begin[d] + dim : spec.begin[d];
    if (begin_known && dim >= 0 && (begin < 0 || begin >= dim)) {
      return absl::InvalidArgumentError(
          absl::StrCat("slice index ", spec.begin[d], " of dimension ", d, " out of bounds."));
    }
    return DimRange{begin, 1};
  }
  if ((!spec.begin_masked[d] && !begin_known) || (!spec.end_masked[d] && !end_known)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the bounds of dimension ", d, " must be known when the graph is planned"));
  }
  if (dim < 0) return DimRange{};
  const bool up = stride > 0;
  const int64_t begin = spec.begin_masked[d] ? (up ? 0 : dim - 1) : ClampBound(spec.begin[d], dim, up);
  const int64_t end = spec.end_masked[d] ? (up ? dim : -1) : ClampBound(spec.end[d], dim, up);
  const int64_t interval = end - begin;
  if (interval == 0 || (interval < 0) != (stride < 0)) return DimRange{begin, 0};
  return DimRange{begin, interval / stride + (interval % stride != 0 ? 1 : 0)};
}

}  // namespace

absl::StatusOr<StridedSliceSpec> ResolveStridedSlice(const Shape& input, absl::Span<const int64_t> begin,
                                                     absl::Span<const int64_t> end,
                                                     absl::Span<const int64_t> strides,
                                                     const StridedSliceMasks& masks) {
  if ((!begin.empty() && begin.size() != strides.size()) || (!end.empty() && end.size() != strides.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("Expected begin, end, and strides to be 1D equal size tensors, but got lengths ", begin.size(),
                     ", ", end.size(), ", and ", strides.size(), " instead."));
  }
  StridedSliceSpec result;
  if (input.unknown_rank()) {
    result.final_shape = Shape::UnknownRank();
    return result;
  }
  MR_ASSIGN_OR_RETURN(const DenseSpec spec, ExpandEllipsis(input.rank(), begin, end, strides, masks));
  for (int d = 0; d < input.rank(); ++d) {
    MR_ASSIGN_OR_RETURN(const DimRange range, ResolveDim(spec, d, input.dim(d), !begin.empty(), !end.empty()));
    result.begin.push_back(range.begin);
    result.stride.push_back(spec.shrink[d] ? 1 : spec.stride[d]);
    result.size.push_back(range.size);
    result.final_dim.push_back(-1);
  }
  for (int source : spec.gather) {
    if (source >= 0) {
      result.final_dim[source] = result.final_shape.rank();
      result.final_shape.AddDim(result.size[source]);
    }
    if (source == kNewAxis) result.final_shape.AddDim(1);
  }
  return result;
}

absl::StatusOr<std::pair<std::vector<int64_t>, std::vector<int64_t>>> BroadcastGradientAxes(
    absl::Span<const int64_t> a, absl::Span<const int64_t> b) {
  std::pair<std::vector<int64_t>, std::vector<int64_t>> axes;
  if (a == b) return axes;
  const int64_t rank = static_cast<int64_t>(std::max(a.size(), b.size()));
  for (int64_t i = 0; i < rank; ++i) {
    const int64_t ia = i - (rank - static_cast<int64_t>(a.size()));
    const int64_t ib = i - (rank - static_cast<int64_t>(b.size()));
    const int64_t da = ia < 0 ? 1 : a[ia], db = ib < 0 ? 1 : b[ib];
    if (da != db && da != 1 && db != 1) {
      return absl::InvalidArgumentError(absl::StrCat("Incompatible shapes: ", Shape(a).ToString(), " vs. ",
                                                     Shape(b).ToString()));
    }
    if (da == 1) axes.first.push_back(i);
    if (db == 1) axes.second.push_back(i);
  }
  return axes;
}

absl::StatusOr<Shape> ResolveReshape(const Shape& input, absl::Span<const int64_t> target) {
  Shape shape(target);
  int missing = -1;
  bool has_zero = false;
  int64_t product = 1;  // of the dimensions that are not 0: with a 0 the missing one follows from those
  for (int i = 0; i < shape.rank(); ++i) {
    const int64_t dim = shape.dim(i);
    if (dim == -1) {
      if (missing >= 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("Only one input size may be -1, not both ", missing, " and ", i));
      }
      missing = i;
    } else if (dim < 0) {
      return absl::InvalidArgumentError(absl::StrCat("Size ", i, " must be non-negative, not ", dim));
    } else if (dim == 0) {
      has_zero = true;
    } else if (product > std::numeric_limits<int64_t>::max() / dim) {
      return absl::InvalidArgumentError(absl::StrCat("the requested shape ", shape.ToString(), " is too large"));
    } else {
      product *= dim;
    }
  }
  if (!input.fully_known()) return shape;
  const int64_t elements = input.num_elements();
  if (missing >= 0) {
    int64_t counted = 1;
    for (int64_t dim : input.dims()) counted *= has_zero && dim == 0 ? 1 : dim;
    if (elements % product != 0) {
      return absl::InvalidArgumentError(absl::StrCat("Input to reshape is a tensor with ", elements,
                                                     " values, but the requested shape requires a multiple of ",
                                                     product));
    }
    shape.set_dim(missing, counted / product);
  }
  if (shape.num_elements() != elements) {
    return absl::InvalidArgumentError(absl::StrCat("Input to reshape is a tensor with ", elements,
                                                   " values, but the requested shape has ", shape.num_elements()));
  }
  return shape;
}

absl::StatusOr<int64_t> DenseElements(absl::Span<const int64_t> sizes) {
  int64_t product = 1;
  for (int64_t size : sizes) {
    if (size < 0) return absl::InvalidArgumentError(absl::StrCat("Expected shape dimensions to be non-negative, got ", size));
    if (__builtin_mul_overflow(product, size, &product)) {
      return absl::InvalidArgumentError(absl::StrCat("Encountered overflow when multiplying the dimensions of ", Shape(sizes).ToString()));
    }
  }
  return product;
}

absl::StatusOr<std::vector<int64_t>> ResolveSparseReshape(absl::Span<const int64_t> from, absl::Span<const int64_t> to) {
  std::vector<int64_t> sizes(to.begin(), to.end());
  int64_t missing = -1;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] != -1) continue;
    if (missing >= 0) return absl::InvalidArgumentError(absl::StrCat("only one output dimension may be -1, not both ", missing, " and ", d));
    missing = static_cast<int64_t>(d);
    sizes[d] = 1;
  }
  MR_ASSIGN_OR_RETURN(const int64_t elements, DenseElements(from));
  MR_ASSIGN_OR_RETURN(const int64_t known, DenseElements(sizes));
  if (missing >= 0 && known == 0) {
    return absl::InvalidArgumentError(
        "reshape cannot infer the missing input size for an empty tensor unless all specified input sizes are non-zero");
  }
  if (missing >= 0 ? elements % known != 0 : elements != known) {
    return absl::InvalidArgumentError(absl::StrCat("Input to reshape is a tensor with ", elements, " dense values, but the requested shape ",
                                                   missing >= 0 ? "requires a multiple of " : "has ", known));
  }
  if (missing >= 0) sizes[missing] = elements / known;
  return sizes;
}

int64_t SparseSliceSize(int64_t dim, int64_t start, int64_t size) {
  int64_t left = 0;
  if (__builtin_sub_overflow(dim, start, &left)) return size;  // more than int64 counts, as start is that far below 0
  return std::min(size, std::max<int64_t>(left, 0));
}

int64_t DiagonalRange::Length(int64_t d, int64_t rows, int64_t columns) const {
  return std::min(rows + std::min<int64_t>(d, 0), columns - std::max<int64_t>(d, 0));
}

int64_t DiagonalRange::MaxLength(int64_t rows, int64_t columns) const {
  return std::min(rows + std::min<int64_t>(upper, 0), columns - std::max<int64_t>(lower, 0));
}

namespace {

template <typename T>
absl::Status CheckRange(T start, T limit, T delta) {
  if (delta == 0) return absl::InvalidArgumentError("Requires delta != 0: 0");
  if (delta > 0 && start > limit) {
    return absl::InvalidArgumentError(absl::StrCat("Requires start <= limit when delta > 0: ", start, "/", limit));
  }
  if (delta < 0 && start < limit) {
    return absl::InvalidArgumentError(absl::StrCat("Requires start >= limit when delta < 0: ", start, "/", limit));
  }
  return absl::OkStatus();
}

template <typename T>
bool PointsAway(T start, T limit, T delta) {
  return (delta > 0 && limit < start) || (delta < 0 && limit > start);
}

// How many steps it is to the limit, rounded to the type T after each operation, as TensorFlow does.
template <typename T>
double StepsIn(double start, double limit, double delta) {
  const T distance = static_cast<T>(limit) - static_cast<T>(start);
  const T steps = distance / static_cast<T>(delta);
  return std::ceil(std::abs(static_cast<double>(steps)));
}

double StepsIn(DataType dtype, double start, double limit, double delta) {
  switch (dtype) {
    case DataType::kFloat: return StepsIn<float>(start, limit, delta);
    case DataType::kHalf: return StepsIn<Eigen::half>(start, limit, delta);
    case DataType::kBfloat16: return StepsIn<Eigen::bfloat16>(start, limit, delta);
    default: return StepsIn<double>(start, limit, delta);
  }
}

}  // namespace

absl::StatusOr<int64_t> RangeSize(int64_t start, int64_t limit, int64_t delta) {
  MR_RETURN_IF_ERROR(CheckRange(start, limit, delta));
  // Unsigned: the distance of two int64 need not be one.
  const uint64_t distance = delta > 0 ? static_cast<uint64_t>(limit) - static_cast<uint64_t>(start)
                                      : static_cast<uint64_t>(start) - static_cast<uint64_t>(limit);
  const uint64_t step = delta > 0 ? static_cast<uint64_t>(delta) : ~static_cast<uint64_t>(delta) + 1;
  return static_cast<int64_t>(std::min<uint64_t>(distance / step + (distance % step != 0 ? 1 : 0), INT64_MAX));
}

absl::StatusOr<int64_t> RangeSize(DataType dtype, double start, double limit, double delta) {
  MR_RETURN_IF_ERROR(CheckRange(start, limit, delta));
  const double size = StepsIn(dtype, start, limit, delta);
  if (!(size < 9.0e18)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a range from ", start, " to ", limit, " by ", delta, " has no countable size"));
  }
  return static_cast<int64_t>(size);
}

absl::StatusOr<int64_t> RowRangeSize(int64_t start, int64_t limit, int64_t delta) {
  return PointsAway(start, limit, delta) ? 0 : RangeSize(start, limit, delta);
}

absl::StatusOr<int64_t> RowRangeSize(DataType dtype, double start, double limit, double delta) {
  return PointsAway(start, limit, delta) ? 0 : RangeSize(dtype, start, limit, delta);
}

}  // namespace millrace
