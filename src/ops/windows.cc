#include "ops/windows.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "millrace/status.h"

namespace millrace {
namespace {

using Ints = std::vector<int64_t>;

// The spatial entries of list attribute `name`, which has one entry per dimension, 1 for batch and channels.
absl::StatusOr<Ints> SpatialList(const InferenceContext& context, const char* name, int rank, bool channels_first) {
  const Ints list = context.attrs().GetOr<Ints>(name, Ints(rank, 1));
  const std::string shown = absl::StrCat("attribute '", name, "' is [", absl::StrJoin(list, ","), "], expected ");
  if (static_cast<int>(list.size()) != rank) return context.Error(absl::StrCat(shown, rank, " entries"));
  for (int64_t value : list) {
    if (value < 1 || value > INT32_MAX) return context.Error(absl::StrCat(shown, "positive entries"));
  }
  if (list[0] != 1 || list[channels_first ? 1 : rank - 1] != 1) {
    return context.Error(absl::StrCat(shown, "1 for batch and channels"));
  }
  const auto begin = list.begin() + (channels_first ? 2 : 1);
  return Ints(begin, begin + rank - 2);
}

absl::Status ReadPadding(const InferenceContext& context, int rank, WindowAttrs& attrs) {
  MR_ASSIGN_OR_RETURN(const std::string padding, context.attrs().Get<std::string>("padding"));
  attrs.pad_before.assign(rank - 2, 0);
  attrs.pad_after.assign(rank - 2, 0);
  const Ints list = context.attrs().GetOr<Ints>("explicit_paddings", {});
  if (padding == "SAME" || padding == "VALID") {
    attrs.padding = padding == "SAME" ? WindowPadding::kSame : WindowPadding::kValid;
    if (list.empty()) return absl::OkStatus();
    return context.Error(absl::StrCat("attribute 'explicit_paddings' is given with padding ", padding));
  }
  if (padding != "EXPLICIT") {
    return context.Error(absl::StrCat("attribute 'padding' is '", padding, "', expected SAME, VALID or EXPLICIT"));
  }
  attrs.padding = WindowPadding::kExplicit;
  const std::string shown = absl::StrCat("attribute 'explicit_paddings' is [", absl::StrJoin(list, ","), "], expected ");
  if (static_cast<int>(list.size()) != 2 * rank) return context.Error(absl::StrCat(shown, 2 * rank, " entries"));
  for (int dim = 0; dim < rank; ++dim) {
    const int64_t before = list[2 * dim], after = list[2 * dim + 1];
    if (before < 0 || after < 0 || before > INT32_MAX || after > INT32_MAX) {
      return context.Error(absl::StrCat(shown, "no negative entries"));
    }
    if (dim == 0 || dim == attrs.channel_dim) {
      if (before != 0 || after != 0) return context.Error(absl::StrCat(shown, "0 for batch and channels"));
      continue;
    }
    attrs.pad_before[dim - attrs.spatial_dim(0)] = before;
    attrs.pad_after[dim - attrs.spatial_dim(0)] = after;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<WindowAttrs> ReadWindowAttrs(const InferenceContext& context, int rank, bool has_window) {
  WindowAttrs attrs;
  const std::string last = rank == 5 ? "NDHWC" : "NHWC", first = rank == 5 ? "NCDHW" : "NCHW";
  const std::string format = context.attrs().GetOr<std::string>("data_format", last);
  if (format != last && format != first) {
    return context.Error(absl::StrCat("attribute 'data_format' is '", format, "', expected ", last, " or ", first));
  }
  attrs.channels_first = format == first;
  attrs.channel_dim = attrs.channels_first ? 1 : rank - 1;
  MR_ASSIGN_OR_RETURN(attrs.strides, SpatialList(context, "strides", rank, attrs.channels_first));
  MR_ASSIGN_OR_RETURN(attrs.dilations, SpatialList(context, "dilations", rank, attrs.channels_first));
  if (has_window) {
    MR_ASSIGN_OR_RETURN(attrs.window, SpatialList(context, "ksize", rank, attrs.channels_first));
  }
  const absl::Status padding = ReadPadding(context, rank, attrs);
  if (!padding.ok()) return padding;
  return attrs;
}

absl::StatusOr<int64_t> WindowOutputSize(const InferenceContext& context, const WindowAttrs& attrs, int i,
                                         int64_t size, int64_t window) {
  if (size < 0) return -1;
  const int64_t stride = attrs.strides[i];
  if (attrs.padding == WindowPadding::kSame) return (size + stride - 1) / stride;
  if (window < 0) return -1;
  const int64_t padded = size + attrs.pad_before[i] + attrs.pad_after[i];
  const int64_t extent = (window - 1) * attrs.dilations[i] + 1;
  if (padded + stride < extent) {
    return context.Error(absl::StrCat("a window of ", extent, " does not fit into ", padded,
                                      " of spatial dimension ", i));
  }
  return (padded - extent + stride) / stride;
}

}  // namespace millrace
