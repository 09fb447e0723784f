// TensorFlow's _FusedBatchNormEx as the passes make it: FusedBatchNormV3 of (x, scale, offset, mean, variance), perhaps a tensor of
// the result's shape that is added (`side`, the sixth input), perhaps a Relu, as one node. Each step rounds as the op alone does.
//
// Its gradient is _FusedBatchNormReluGrad of (dy, x, scale, mean, variance, offset): FusedBatchNormGradV3 of what a Relu behind the
// batch norm lets through of dy, where the batch norm's result, computed again from x, was positive. Same results as
// FusedBatchNormGradV3.
#ifndef MILLRACE_SRC_GRAPH_FUSED_NORM_H_
#define MILLRACE_SRC_GRAPH_FUSED_NORM_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "millrace/attr.h"

namespace millrace {

inline constexpr char kFusedNorm[] = "_FusedBatchNormEx", kFusedNormGrad[] = "_FusedBatchNormReluGrad";

// Alone, forward, of any version.
inline bool IsBatchNorm(std::string_view op) { return op == "FusedBatchNorm" || op == "FusedBatchNormV2" || op == "FusedBatchNormV3"; }

// A batch norm's inputs that are statistics, and its outputs that are those of the batch as its gradient wants them. In kernels here a
// batch norm out of training that is given the latter has the same result as in training, bit by bit, from one pass over x: what
// is computed again does so, and has this attribute (true).
inline constexpr char kGivenStatistics[] = "_given_statistics";
inline constexpr int kNormStatistics[] = {3, 4};

struct NormEpilogue {
  bool side = false, relu = false;
};

// Of a plain batch norm: nothing. InvalidArgument says what may be there.
inline absl::StatusOr<NormEpilogue> NormEpilogueOf(const AttrMap& attrs) {
  const auto sides = attrs.GetOr<int64_t>("num_side_inputs", 0);
  const auto activation = attrs.GetOr<std::string>("activation_mode", "Identity");
  if (sides < 0 || sides > 1) return absl::InvalidArgumentError(absl::StrCat("num_side_inputs is ", sides, ", expected 0 or 1"));
  if (activation != "Identity" && activation != "Relu") {
    return absl::InvalidArgumentError(absl::StrCat("activation_mode is '", activation, "', expected Identity or Relu"));
  }
  return NormEpilogue{sides == 1, activation == "Relu"};
}

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_FUSED_NORM_H_
