#include "builder/shaped_by_values.h"

#include <map>
#include <string>

namespace millrace {
namespace {

// The input that has the output's type.
const std::map<std::string, int, std::less<>>& TypedInputs() {
  static const auto& inputs = *new std::map<std::string, int, std::less<>>{
      {"AvgPool3DGrad", 1},
      {"AvgPoolGrad", 1},
      {"BroadcastTo", 0},
      {"Conv2DBackpropFilter", 2},
      {"Conv2DBackpropInput", 2},
      {"Conv3DBackpropFilterV2", 2},
      {"Conv3DBackpropInputV2", 2},
      {"DepthwiseConv2dNativeBackpropFilter", 2},
      {"DepthwiseConv2dNativeBackpropInput", 2},
      {"EuclideanNorm", 0},
      {"Fill", 1},
      {"FractionalAvgPoolGrad", 1},
      {"MatrixDiagV2", 0},
      {"MatrixDiagV3", 0},
      {"Max", 0},
      {"Mean", 0},
      {"Min", 0},
      {"MirrorPad", 0},
      {"Pad", 0},
      {"PadV2", 0},
      {"Prod", 0},
      {"Range", 0},
      {"Reshape", 0},
      {"ResizeNearestNeighbor", 0},
      {"ResizeNearestNeighborGrad", 0},
      {"ScatterNd", 1},
      {"Slice", 0},
      {"SparseSegmentMeanGrad", 0},
      {"SparseSegmentMeanWithNumSegments", 0},
      {"SparseSegmentSqrtNGrad", 0},
      {"SparseSegmentSqrtNWithNumSegments", 0},
      {"SparseSegmentSumGrad", 0},
      {"SparseSegmentSumWithNumSegments", 0},
      {"StridedSlice", 0},
      {"StridedSliceGrad", 4},
      {"Sum", 0},
      {"Tile", 0},
      {"UnsortedSegmentMax", 0},
      {"UnsortedSegmentMin", 0},
      {"UnsortedSegmentProd", 0},
      {"UnsortedSegmentSum", 0},
  };
  return inputs;
}

}  // namespace

std::optional<DataType> TypeShapedByValues(const Node& node, absl::Span<const TensorType> inputs) {
  if (node.op == "CropAndResizeGradImage") return node.attrs.GetOr<DataType>("T", DataType::kFloat);
  if (node.op == "RandomUniform" || node.op == "RandomStandardNormal" || node.op == "TruncatedNormal") {
    return node.attrs.GetOr<DataType>("dtype", DataType::kFloat);
  }
  const auto typed = TypedInputs().find(node.op);
  if (typed == TypedInputs().end() || typed->second >= static_cast<int>(inputs.size())) return std::nullopt;
  return inputs[typed->second].dtype;
}

}  // namespace millrace
