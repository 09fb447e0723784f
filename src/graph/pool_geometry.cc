#include "graph/pool_geometry.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "millrace/status.h"

namespace millrace {
namespace {

using Ints = std::vector<int64_t>;

absl::Status CheckList(const char* name, const Ints& list, int rank) {
  if (static_cast<int>(list.size()) == rank) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is [", absl::StrJoin(list, ","), "], expected ", rank, " entries"));
}

// Pooling across depth, which TensorFlow defines only alone and with windows that divide the depth.
absl::Status FoldDepthWindow(const WindowSpec& spec, const DataLayout& layout, const Shape& input,
                             PoolGeometry& geometry) {
  const int channel = layout.channel();
  const int64_t window = spec.sizes[channel], stride = spec.strides[channel], depth = input.dim(channel);
  if (window < 1 || stride < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("Sliding window ksize and strides must be positive, got ", window, " and ", stride, " for the channels"));
  }
  bool alone = !layout.channels_first;
  for (int i = 0; i < layout.num_spatial(); ++i) {
    alone = alone && spec.sizes[layout.spatial(i)] == 1 && spec.strides[layout.spatial(i)] == 1;
  }
  if (!alone || window != stride || (depth >= 0 && depth % window != 0)) {
    return absl::UnimplementedError(absl::StrCat(
        "pooling across depth needs channels last, windows of 1 in rows and columns, and a depth window equal to its "
        "stride that divides the depth; it is ", window, " with stride ", stride, " for ", input.ToString()));
  }
  geometry.batch = 1;
  for (int i = 0; i < channel; ++i) geometry.batch *= input.dim(i);
  geometry.channels = 1;
  geometry.dims = {};
  MR_ASSIGN_OR_RETURN(geometry.dims[2], MakeWindowDim(depth, window, stride, 1, "VALID"));
  geometry.output = input;
  geometry.output.set_dim(channel, geometry.dims[2].output);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PoolGeometry> MakePoolGeometry(const AttrMap& attrs, const Shape& input, int rank,
                                              const PoolWindow* window) {
  MR_ASSIGN_OR_RETURN(const DataLayout layout,
                      ParseDataFormat(attrs.GetOr<std::string>("data_format", rank == 4 ? "NHWC" : "NDHWC")));
  if (layout.rank != rank) {
    return absl::InvalidArgumentError(absl::StrCat("data_format has ", layout.rank, " dimensions, expected ", rank));
  }
  const Ints ksize = window != nullptr ? window->ksize : attrs.GetOr<Ints>("ksize", {});
  const Ints strides = window != nullptr ? window->strides : attrs.GetOr<Ints>("strides", {});
  const Ints pads = attrs.GetOr<Ints>("explicit_paddings", {});
  MR_RETURN_IF_ERROR(CheckList("ksize", ksize, rank));
  MR_RETURN_IF_ERROR(CheckList("strides", strides, rank));
  MR_ASSIGN_OR_RETURN(const std::string padding, attrs.Get<std::string>("padding"));
  if (padding != "EXPLICIT" && !pads.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("explicit_paddings must be empty where padding is ", padding, ", has ", pads.size(), " entries"));
  }
  const WindowSpec spec{ksize, strides, {}, pads, padding};
  PoolGeometry geometry;
  if (input.unknown_rank()) {
    geometry.output = Shape(std::vector<int64_t>(rank, -1));
    return geometry;
  }
  if (input.rank() != rank) {
    return absl::InvalidArgumentError(absl::StrCat("input is ", input.ToString(), ", expected ", rank, " dimensions"));
  }
  if (ksize[0] != 1 || strides[0] != 1) {
    return absl::UnimplementedError(
        absl::StrCat("pooling across the batch: ksize ", ksize[0], " and stride ", strides[0], ", expected 1"));
  }
  const int channel = layout.channel();
  if (ksize[channel] != 1 || strides[channel] != 1) {
    MR_RETURN_IF_ERROR(FoldDepthWindow(spec, layout, input, geometry));
    return geometry;
  }
  geometry.batch = input.dim(0) * (layout.channels_first ? input.dim(channel) : 1);
  geometry.channels = layout.channels_first ? 1 : input.dim(channel);
  geometry.output = input;
  for (int i = 0; i < layout.num_spatial(); ++i) {
    const int dim = layout.spatial(i);
    WindowDim& into = geometry.dims[3 - layout.num_spatial() + i];
    MR_ASSIGN_OR_RETURN(into, MakeWindowDim(input.dim(dim), spec, dim));
    if (into.pad_before >= into.window || into.pad_after >= into.window) {
      return absl::InvalidArgumentError(absl::StrCat("padding ", into.pad_before, " and ", into.pad_after,
                                                     " must be smaller than the window of ", into.window));
    }
    geometry.output.set_dim(dim, into.output);
  }
  return geometry;
}

}  // namespace millrace
