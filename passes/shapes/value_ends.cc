#include "passes/shapes/value_ends.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"

namespace millrace {
namespace {

template <typename T>
void SetInt(Tensor& tensor, size_t i, int64_t value) {
  using Limits = std::numeric_limits<T>;
  tensor.mutable_as<T>()[i] = std::in_range<T>(value) ? static_cast<T>(value) : value < 0 ? Limits::min() : Limits::max();
}

// Ops each dimension of whose outputs either grows or gets smaller with each of their values, of those that are at least 0 and of those that
// are less, which may mean another thing.
const std::set<std::string>& Monotone() {
  static const auto* ops = new std::set<std::string>{
      "Fill", "Empty", "Range", "LinSpace", "OneHot", "Tile", "BroadcastTo", "Reshape", "Pad", "PadV2", "MirrorPad", "MirrorPadGrad",
      "Slice", "StridedSlice", "StridedSliceGrad", "SplitV", "ScatterNd", "SparseToDense", "TopKV2",
      "SpaceToBatch", "SpaceToBatchND", "BatchToSpace", "BatchToSpaceND",
      "RFFT", "RFFT2D", "RFFT3D", "IRFFT", "IRFFT2D", "IRFFT3D",
      "Bincount", "DenseBincount", "RaggedBincount", "SparseBincount", "HistogramFixedWidth",
      "ResizeArea", "ResizeBicubic", "ResizeBilinear", "ResizeNearestNeighbor", "ResizeNearestNeighborGrad", "ScaleAndTranslate",
      "CropAndResize", "CropAndResizeGradImage", "ImageProjectiveTransformV2", "ImageProjectiveTransformV3",
      "NonMaxSuppression", "NonMaxSuppressionV2", "NonMaxSuppressionV3", "NonMaxSuppressionV4", "NonMaxSuppressionV5",
      "NonMaxSuppressionWithOverlaps", "CombinedNonMaxSuppression", "ExtractGlimpse", "ExtractGlimpseV2", "MaxPoolV2", "MaxPoolGradGradV2",
      "AvgPoolGrad", "AvgPool3DGrad", "FractionalAvgPoolGrad",
      "Conv2DBackpropInput", "Conv2DBackpropFilter", "Conv3DBackpropInputV2", "Conv3DBackpropFilterV2",
      "DepthwiseConv2dNativeBackpropInput", "DepthwiseConv2dNativeBackpropFilter",
      "RaggedTensorToTensor", "SparseFillEmptyRows", "RaggedFillEmptyRows", "SparseTensorDenseMatMul",
      // Outputs of the shape of an input, whatever the values are.
      "Reverse", "ReverseV2", "Cumsum", "Cumprod", "CumulativeLogsumexp", "MatrixSetDiagV2", "MatrixSetDiagV3", "TensorStridedSliceUpdate",
      "MaxPoolGradV2"};
  return *ops;
}

bool DrawsNumbers(const std::string& op) {
  const auto starts = [&](const char* prefix) { return absl::StartsWith(op, prefix); };
  return starts("Random") || starts("Stateless") || starts("Stateful") || starts("Truncated") || starts("Parameterized") ||
         op == "Multinomial" || op == "NonDeterministicInts";
}

// The input that is one axis along which outputs lie; -1 where there is none.
int AxisInput(const OpInstance& instance) {
  static const auto* inputs = new std::map<std::string, int>{
      {"ArgMax", 1}, {"ArgMin", 1}, {"GatherV2", 2}, {"UniqueV2", 1}, {"UniqueWithCountsV2", 1},
      {"Concat", 0}, {"Split", 0},  {"SplitV", 2},   {"ExpandDims", 1}};
  if (instance.op == "ConcatV2") return static_cast<int>(instance.inputs.size()) - 1;
  if (IsReduction(instance.op)) return 1;
  const auto found = inputs->find(instance.op);
  return found == inputs->end() ? -1 : found->second;
}

}  // namespace

Tensor Ints(const TensorType& like, const std::vector<int64_t>& values) {
  Tensor tensor(like.dtype, Shape({static_cast<int64_t>(values.size())}));
  for (size_t i = 0; i < values.size(); ++i) {
    switch (like.dtype) {
      case DataType::kInt8: SetInt<int8_t>(tensor, i, values[i]); break;
      case DataType::kInt16: SetInt<int16_t>(tensor, i, values[i]); break;
      case DataType::kInt32: SetInt<int32_t>(tensor, i, values[i]); break;
      case DataType::kInt64: SetInt<int64_t>(tensor, i, values[i]); break;
      case DataType::kUint8: SetInt<uint8_t>(tensor, i, values[i]); break;
      case DataType::kUint16: SetInt<uint16_t>(tensor, i, values[i]); break;
      case DataType::kUint32: SetInt<uint32_t>(tensor, i, values[i]); break;
      case DataType::kUint64: SetInt<uint64_t>(tensor, i, values[i]); break;
      default: break;  // the rule refuses what are no integers
    }
  }
  return tensor;
}

bool IsReduction(const std::string& op) {
  static const auto* ops =
      new std::set<std::string>{"Sum", "Mean", "Prod", "Max", "Min", "All", "Any", "EuclideanNorm"};
  return ops->count(op) > 0;
}

// The value itself where that is known.
const Tensor& ValueEnds::End(size_t i, bool high) const {
  if (!Open(i)) return instance_.input_values[i];
  return high ? inputs_[i].bounds->high : inputs_[i].bounds->low;
}

Tensor ValueEnds::LikeInput(size_t i, const std::vector<int64_t>& values) const {
  return Ints(instance_.inputs[i], values).Reshaped(instance_.inputs[i].shape);
}

// The ends of what input i may be: of numbers that may be less than 0 or not, of both kinds. Empty when none are known.
std::vector<Tensor> ValueEnds::Ends(size_t i) const {
  if (!inputs_[i].bounds.has_value()) return {};
  const Tensor &low = inputs_[i].bounds->low, &high = inputs_[i].bounds->high;
  std::vector<int64_t> negative, positive;
  for (int64_t e = 0; e < low.num_elements(); ++e) {
    const bool both = low.IntAt(e) < 0 && high.IntAt(e) >= 0;
    negative.push_back(both ? -1 : high.IntAt(e));
    positive.push_back(both ? 0 : low.IntAt(e));
  }
  std::vector<Tensor> ends;
  for (const Tensor& end : {low, LikeInput(i, negative), LikeInput(i, positive), high}) {
    const auto equal = [&](const Tensor& other) { return other.BitEqual(end); };
    if (std::none_of(ends.begin(), ends.end(), equal)) ends.push_back(end);
  }
  return ends;
}

std::vector<OpInstance> ValueEnds::WithAllEnds(const OpInstance& base) const {
  constexpr size_t kMost = 64;
  std::vector<OpInstance> candidates = {base};
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!Open(i) || (instance_.op == "Slice" && i == 1)) continue;
    std::vector<OpInstance> more;
    for (const Tensor& end : Ends(i)) {
      for (const OpInstance& candidate : candidates) {
        more.push_back(candidate);
        more.back().input_values[i] = end;
      }
    }
    if (more.size() > kMost) return {};
    candidates = std::move(more);
  }
  return candidates;
}

bool ValueEnds::FollowsValues() const {
  const std::string& op = instance_.op;
  const int axis = AxisInput(instance_);
  if (axis >= 0 && Open(axis)) return false;
  return Monotone().count(op) > 0 || DrawsNumbers(op) || absl::StartsWith(op, "UnsortedSegment") || absl::StartsWith(op, "SparseSegment");
}

bool ValueEnds::OnlyAxisOpen() const {
  const int axis = AxisInput(instance_);
  return axis >= 0 && Open(axis) && open_ == uint64_t{1} << axis && inputs_[axis].partial.fully_known() &&
         inputs_[axis].partial.num_elements() == 1;
}

std::vector<OpInstance> ValueEnds::WithEachAxis(const OpInstance& base) const {
  const size_t axis = AxisInput(instance_);
  int64_t axes = 0;
  for (const TensorType& input : instance_.inputs) axes = std::max<int64_t>(axes, input.shape.rank());
  if (instance_.op == "ExpandDims") ++axes;
  const std::optional<ValueBounds>& bounds = inputs_[axis].bounds;
  std::vector<OpInstance> candidates;
  for (int64_t d = axes - 1; d >= -axes; --d) {
    if (bounds.has_value() ? d < bounds->low.IntAt(0) || d > bounds->high.IntAt(0) : d < 0) continue;
    candidates.push_back(base);
    candidates.back().input_values[axis] = LikeInput(axis, {d});
  }
  return candidates;
}

void ValueEnds::SetLargest(OpInstance& candidate) const {
  const std::string& op = instance_.op;
  if (op == "Range") SetLongestRange(candidate);
  if ((op == "MatrixDiagPartV2" || op == "MatrixDiagPartV3") && Open(1)) SetLongestDiagonals(candidate);
  if ((op == "MatrixDiagV2" || op == "MatrixDiagV3") && Open(1) && End(1, true).num_elements() == 1) {
    const bool below = -End(1, false).IntAt(0) > End(1, true).IntAt(0);
    candidate.input_values[1] = End(1, !below);
  }
  const bool crops = op == "BatchToSpaceND" || op == "BatchToSpace" || op == "MirrorPadGrad";
  if (crops) candidate.input_values[op == "BatchToSpaceND" ? 2 : 1] = End(op == "BatchToSpaceND" ? 2 : 1, false);
}

// Up from the least start, or down from the largest, by the least step; one of 0 is an error.
void ValueEnds::SetLongestRange(OpInstance& candidate) const {
  for (size_t i = 0; i < 3; ++i) {
    if (End(i, true).num_elements() != 1) return;
  }
  const auto number = [&](size_t i, bool high) { return End(i, high).IntAt(0); };
  double longest = -std::numeric_limits<double>::infinity();
  for (const bool up : {true, false}) {
    if (up ? number(2, true) < 1 : number(2, false) > -1) continue;
    const int64_t step = up ? std::max<int64_t>(number(2, false), 1) : std::min<int64_t>(number(2, true), -1);
    const double length = (static_cast<double>(number(1, up)) - static_cast<double>(number(0, !up))) / static_cast<double>(step);
    if (length <= longest) continue;
    longest = length;
    candidate.input_values = {End(0, !up), End(1, up), LikeInput(2, {step})};
  }
}

// The one nearest the main diagonal, or as many on both sides of it as there may be.
void ValueEnds::SetLongestDiagonals(OpInstance& candidate) const {
  const Tensor &low = End(1, false), &high = End(1, true);
  const Shape& in = instance_.inputs[0].shape;
  if (low.num_elements() == 1) {
    candidate.input_values[1] = LikeInput(1, {std::clamp<int64_t>(0, low.IntAt(0), high.IntAt(0))});
  } else if (low.num_elements() == 2 && in.rank() >= 2) {
    const int64_t lowest = 1 - in.dim(in.rank() - 2), highest = in.dim(in.rank() - 1) - 1;
    candidate.input_values[1] = LikeInput(1, {std::max(low.IntAt(0), lowest), std::min(high.IntAt(1), highest)});
  }
}

void ValueEnds::SetShortestSteps(OpInstance& candidate) const {
  const Tensor &low = End(3, false), &high = End(3, true);
  std::vector<int64_t> steps;
  int64_t either_way = 0;
  for (int64_t i = 0; i < low.num_elements(); ++i) {
    const int64_t least = low.IntAt(i), most = high.IntAt(i);
    if (least < 0 && most > 0) either_way |= int64_t{1} << std::min<int64_t>(i, 62);
    steps.push_back(most > 0 ? std::max<int64_t>(least, 1) : std::min<int64_t>(most, -1));
  }
  candidate.input_values[3] = LikeInput(3, steps);
  either_way &= ~candidate.attrs.GetOr<int64_t>("shrink_axis_mask", 0);
  for (const char* mask : {"begin_mask", "end_mask"}) candidate.attrs.Set(mask, candidate.attrs.GetOr<int64_t>(mask, 0) | either_way);
}

}  // namespace millrace
