// XlaReduceWindow and XlaSelectAndScatter: pools and their gradients where the windows are over dimensions that lie together.
#include <algorithm>
#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/pool_geometry.h"
#include "passes/control_flow/xla_ops.h"
#include "passes/rewrite/lower_xla.h"
#include "passes/rewrite/xla_bodies.h"

namespace millrace {
namespace {

using Ints = std::vector<int64_t>;

// The dimensions that windows are over, as those of an image or a volume: [before, spatial..., behind].
struct XlaImages {
  Ints dims;
  std::vector<XlaWindow> windows;  // two or three
};

// None where windows are over more than three dimensions, or over some that lie apart.
std::optional<XlaImages> XlaImagesOf(const Ints& dims, const std::vector<XlaWindow>& windows) {
  const size_t rank = dims.size();
  size_t first = rank, last = 0;
  for (size_t d = 0; d < rank; ++d) {
    if (windows[d].trivial()) continue;
    first = std::min(first, d);
    last = d;
  }
  if (first == rank || last - first > 2) return std::nullopt;
  XlaImages images;
  images.dims.push_back(ProductOf(dims, 0, first));
  for (size_t d = first; d <= last; ++d) {
    images.dims.push_back(dims[d]);
    images.windows.push_back(windows[d]);
  }
  if (first == last) {
    images.dims.push_back(1);
    images.windows.emplace_back();
  }
  images.dims.push_back(ProductOf(dims, last + 1, rank));
  return images;
}

AttrMap XlaPoolAttrs(const XlaImages& images, DataType dtype, bool with_pads) {
  const bool volumes = images.windows.size() == 3;
  Ints sizes = {1}, strides = {1}, pads = {0, 0};
  for (const XlaWindow& window : images.windows) {
    sizes.push_back(window.size);
    strides.push_back(window.stride);
    pads.insert(pads.end(), {window.low, window.high});
  }
  sizes.push_back(1);
  strides.push_back(1);
  pads.insert(pads.end(), {0, 0});
  AttrMap attrs{{"T", dtype}, {"ksize", sizes}, {"strides", strides}, {"data_format", volumes ? "NDHWC" : "NHWC"}};
  const bool padded = with_pads && std::any_of(pads.begin(), pads.end(), [](int64_t pad) { return pad > 0; });
  attrs.Set("padding", padded ? "EXPLICIT" : "VALID");
  if (padded) attrs.Set("explicit_paddings", pads);
  return attrs;
}

Ints XlaPooledDims(const XlaImages& images, bool with_pads) {
  Ints dims = images.dims;
  for (size_t i = 0; i < images.windows.size(); ++i) {
    XlaWindow window = images.windows[i];
    if (!with_pads) window.low = window.high = 0;
    dims[i + 1] = window.Output(dims[i + 1]);
  }
  return dims;
}

// Pools have pads that are smaller than their windows, volumes have none.
bool XlaTakesPads(const XlaImages& images) {
  return images.windows.size() == 2 && std::all_of(images.windows.begin(), images.windows.end(), [](const XlaWindow& window) {
           return window.low >= 0 && window.high >= 0 && window.low < window.size && window.high < window.size;
         });
}

std::string XlaPoolKey(const XlaValue& operand, const std::vector<XlaWindow>& windows) {
  std::string key = absl::StrCat(operand.ref.node.value, ":", operand.ref.index);
  for (const XlaWindow& window : windows) absl::StrAppend(&key, " ", window.size, ",", window.stride, ",", window.low, ",", window.high);
  return key;
}

// Every input's pads as a tensor of its own.
XlaValue PadXlaImages(XlaWriter& writer, const XlaValue& value, XlaImages& images, const XlaValue& with) {
  Ints low = {0}, high = {0};
  for (size_t i = 0; i < images.windows.size(); ++i) {
    XlaWindow& window = images.windows[i];
    low.push_back(window.low);
    high.push_back(window.high);
    images.dims[i + 1] += window.low + window.high;
    window.low = window.high = 0;
  }
  low.push_back(0);
  high.push_back(0);
  return writer.PadAny(value, low, high, Ints(low.size(), 0), with);
}

class XlaWindowReduction {
 public:
  XlaWindowReduction(XlaWriter& writer, XlaPools& pools) : writer_(writer), pools_(pools), value_(writer.Input(0)), initial_(writer.Input(1)) {
    const Ints sizes = writer.Numbers(2), strides = writer.Numbers(3), base = writer.Numbers(4), dilations = writer.Numbers(5), pads = writer.Numbers(6);
    for (size_t d = 0; d < sizes.size(); ++d) {
      windows_.push_back({sizes[d], strides[d], pads[2 * d], pads[2 * d + 1], base[d], dilations[d]});
    }
  }

  absl::Status Run() {
    op_ = XlaBinaryOp(writer_.graph(), writer_.node(), "computation");
    static constexpr const char* kOps[] = {"AddV2", "Mul", "Maximum", "Minimum", "LogicalAnd", "LogicalOr"};
    if (std::none_of(std::begin(kOps), std::end(kOps), [&](const char* known) { return op_ == known; })) op_.clear();
    if (op_.empty() && !XlaIsOfElements(writer_.graph(), writer_.node(), "computation", 1)) {
      return writer_.Refuse("joins elements by a function that holds ops other than those of single elements");
    }
    const XlaValue output = writer_.Output();
    if (output.num_elements() == 0 || value_.num_elements() == 0) {
      writer_.Finish(writer_.Broadcast(initial_, output.dims));
      return absl::OkStatus();
    }
    Dilate();
    const std::string key = XlaPoolKey(value_, windows_);
    const bool pools = Pools();
    XlaValue made = Cumulates() ? Cumulated() : pools ? Pooled() : Joined();
    if (!StartsWithNothing()) made = op_.empty() ? Join(initial_, made) : Join(made, initial_);
    writer_.Finish(made);
    const bool is_pool = pools && op_ == "Maximum" && StartsWithNothing();
    if (is_pool) pools_.largest.emplace(key, XlaValue{{writer_.id(), 0}, output.dtype, output.dims});
    return absl::OkStatus();
  }

 private:
  XlaValue Join(const XlaValue& a, const XlaValue& b) {
    return op_.empty() ? XlaAppliedTo(writer_, "computation", {a, b})[0] : writer_.Same(op_, {a, b});
  }

  // The initial value changes nothing.
  bool StartsWithNothing() const {
    if (op_.empty()) return false;
    const std::optional<double> start = writer_.Known(initial_);
    if (!start) return false;
    const double end = std::numeric_limits<double>::infinity();
    if (op_ == "AddV2" || op_ == "LogicalOr") return *start == 0;
    if (op_ == "Mul" || op_ == "LogicalAnd") return *start == 1;
    if (IsFloating(initial_.dtype)) return *start == (op_ == "Maximum" ? -end : end);
    return initial_.dtype == DataType::kInt32 && *start == (op_ == "Maximum" ? std::numeric_limits<int32_t>::min() : std::numeric_limits<int32_t>::max());
  }

  // What lies between the operand's elements is written, with pads that cut elements off.
  void Dilate() {
    const Ints none(windows_.size(), 0);
    Ints interior = none, low = none, high = none;
    const auto positive = [](int64_t pad) { return pad > 0; };
    for (size_t d = 0; d < windows_.size(); ++d) {
      XlaWindow& window = windows_[d];
      interior[d] = window.base_dilation - 1;
      if (interior[d] == 0 && window.low >= 0 && window.high >= 0) continue;
      low[d] = window.low;
      high[d] = window.high;
      window.low = window.high = 0;
      window.base_dilation = 1;
    }
    filled_ = interior != none || std::any_of(low.begin(), low.end(), positive) || std::any_of(high.begin(), high.end(), positive);
    if (filled_ || low != none || high != none) value_ = writer_.PadAny(value_, low, high, interior, initial_);
  }

  // The only dimension that windows are over; -1 where there are more.
  int64_t OnlyDim() const {
    int64_t only = -1;
    for (size_t d = 0; d < windows_.size(); ++d) {
      if (windows_[d].trivial()) continue;
      if (only >= 0) return -1;
      only = static_cast<int64_t>(d);
    }
    return only;
  }

  bool Cumulates() const {
    const int64_t d = OnlyDim();
    if (d < 0 || op_ != "AddV2" || !StartsWithNothing()) return false;
    const XlaWindow& window = windows_[d];
    return window.size == value_.dims[d] && window.stride == 1 && window.dilation == 1 && window.low + window.high == window.size - 1 &&
           (window.low == 0 || window.high == 0);
  }

  XlaValue Cumulated() {
    const int64_t d = OnlyDim();
    const XlaValue axis = writer_.Constant(Tensor::Scalar<int32_t>(static_cast<int32_t>(d)));
    return writer_.Same("Cumsum", {value_, axis}, {{"T", value_.dtype}, {"Tidx", DataType::kInt32}, {"exclusive", false}, {"reverse", windows_[d].low == 0}});
  }

  bool Pools() const {
    const bool dilated = std::any_of(windows_.begin(), windows_.end(), [](const XlaWindow& window) { return window.dilation > 1 && window.size > 1; });
    const std::optional<XlaImages> images = XlaImagesOf(value_.dims, windows_);
    if (!IsFloating(value_.dtype) || dilated || !images) return false;
    if (op_ == "AddV2") {  // a mean times its area: the sum itself where dividing is exact
      int64_t area = 1;
      for (const XlaWindow& window : windows_) area *= window.size;
      return (area & (area - 1)) == 0;
    }
    // Halves are joined in far fewer steps than a long row of windows has.
    constexpr int64_t kLong = 8;
    const int64_t only = OnlyDim();
    if (only >= 0 && windows_[only].stride == 1 && windows_[only].size > kLong) return false;
    const bool some_pads = std::any_of(windows_.begin(), windows_.end(), [](const XlaWindow& window) { return window.low > 0 || window.high > 0; });
    return (op_ == "Maximum" || op_ == "Minimum") && !filled_ && (!some_pads || (StartsWithNothing() && XlaTakesPads(*images)));
  }

  XlaValue Pooled() {
    XlaImages images = *XlaImagesOf(value_.dims, windows_);
    const bool sums = op_ == "AddV2", smallest = op_ == "Minimum", volumes = images.windows.size() == 3;
    XlaValue value = writer_.Reshape(value_, images.dims);
    if (sums) value = PadXlaImages(writer_, value, images, initial_);
    if (smallest) value = writer_.Same("Neg", {value});
    const std::string op = absl::StrCat(sums ? "AvgPool" : "MaxPool", volumes ? "3D" : "");
    AttrMap attrs = XlaPoolAttrs(images, value.dtype, !sums);
    if (!sums) attrs.Set(kPoolsAsXla, true);
    value = writer_.Add(op, {value}, value.dtype, XlaPooledDims(images, !sums), std::move(attrs));
    if (smallest) value = writer_.Same("Neg", {value});
    int64_t area = 1;
    for (const XlaWindow& window : images.windows) area *= window.size;
    if (sums && area != 1) value = writer_.Same("Mul", {value, writer_.Scalar(static_cast<double>(area), value.dtype)});
    return writer_.Reshape(value, writer_.Output().dims);
  }

  // Dimension by dimension, every window of two halves; a function's from the last dimension on, so that it has the elements in their order.
  XlaValue Joined() {
    const Ints none(windows_.size(), 0);
    Ints low = none, high = none, ones(windows_.size(), 1), strides = ones;
    for (size_t d = 0; d < windows_.size(); ++d) {
      low[d] = windows_[d].low;
      high[d] = windows_[d].high;
      strides[d] = windows_[d].stride;
    }
    XlaValue value = writer_.Pad(value_, low, high, initial_);
    for (size_t i = 0; i < windows_.size(); ++i) {
      const size_t d = op_.empty() ? windows_.size() - 1 - i : i;
      value = JoinedAlong(value, d, windows_[d].size, windows_[d].dilation);
    }
    if (strides == ones) return value;
    const XlaValue begin = writer_.Constant(none), end = writer_.Constant(value.dims), steps = writer_.Constant(strides);
    const DataType index = end.dtype;
    return writer_.Add("StridedSlice", {value, writer_.Cast(begin, index), end, writer_.Cast(steps, index)}, value.dtype, writer_.Output().dims,
                       {{"Index", index}, {"T", value.dtype}});
  }

  XlaValue JoinedAlong(const XlaValue& value, size_t d, int64_t size, int64_t dilation) {
    const auto from = [&](const XlaValue& of, int64_t first, int64_t count) {
      Ints begin(of.dims.size(), 0), taken = of.dims;
      begin[d] = first;
      taken[d] = count;
      return writer_.Slice(of, begin, taken);
    };
    std::optional<XlaValue> joined;
    XlaValue block = value;  // `length` elements from each on
    int64_t covered = 0;
    for (int64_t length = 1, rest = size; rest > 0; length *= 2, rest /= 2) {
      if (rest % 2 == 1) {
        const int64_t count = value.dims[d] - (covered + length - 1) * dilation;
        const XlaValue more = from(block, covered * dilation, count);
        joined = joined ? Join(from(*joined, 0, count), more) : more;
        covered += length;
      }
      if (rest > 1) {
        const int64_t count = value.dims[d] - (2 * length - 1) * dilation;
        const XlaValue near = from(block, 0, count), far = from(block, length * dilation, count);
        block = Join(near, far);
      }
    }
    return *joined;
  }

  XlaWriter& writer_;
  XlaPools& pools_;
  XlaValue value_, initial_;
  std::vector<XlaWindow> windows_;
  std::string op_;  // that joins two elements; empty where a function does
  bool filled_ = false;  // initial values stand between the elements, or beside them, in memory
};

}  // namespace

absl::Status LowerXlaReduceWindow(XlaWriter& writer, XlaPools& pools) { return XlaWindowReduction(writer, pools).Run(); }

absl::Status LowerXlaSelectAndScatter(XlaWriter& writer, XlaPools& pools) {
  const XlaValue operand = writer.Input(0), source = writer.Input(4), initial = writer.Input(5);
  const std::string select = XlaBinaryOp(writer.graph(), writer.node(), "select"), scatter = XlaBinaryOp(writer.graph(), writer.node(), "scatter");
  const bool largest = select == "GreaterEqual", smallest = select == "LessEqual";
  if ((!largest && !smallest) || scatter != "AddV2" || !IsFloating(operand.dtype)) {
    return writer.Refuse("selects or joins by other functions than >=, <= and a sum of floating-point numbers");
  }
  const Ints sizes = writer.Numbers(1), strides = writer.Numbers(2), pads = writer.Numbers(3);
  std::vector<XlaWindow> windows;
  for (size_t d = 0; d < sizes.size(); ++d) windows.push_back({sizes[d], strides[d], pads[2 * d], pads[2 * d + 1]});
  std::optional<XlaImages> images = XlaImagesOf(operand.dims, windows);
  if (!images) {
    const bool anywhere = std::any_of(windows.begin(), windows.end(), [](const XlaWindow& window) { return !window.trivial(); });
    if (anywhere) return writer.Refuse("has windows over dimensions that do not lie together, or more than three");
    writer.Finish(writer.Same("AddV2", {source, initial}));
    return absl::OkStatus();
  }
  const bool with_pads = XlaTakesPads(*images), volumes = images->windows.size() == 3;
  const auto known = pools.largest.find(XlaPoolKey(operand, windows));
  XlaValue value = writer.Reshape(operand, images->dims);
  if (smallest) value = writer.Same("Neg", {value});
  const XlaImages unpadded = *images;
  if (!with_pads) value = PadXlaImages(writer, value, *images, writer.Scalar(-std::numeric_limits<double>::infinity(), value.dtype));
  AttrMap attrs = XlaPoolAttrs(*images, value.dtype, with_pads);
  attrs.Set(kPoolsAsXla, true);
  const Ints pooled_dims = XlaPooledDims(*images, with_pads);
  const std::string op = volumes ? "MaxPool3D" : "MaxPool";
  XlaValue pooled;
  if (largest && known != pools.largest.end()) {
    pooled = writer.Reshape(known->second, pooled_dims);
  } else {
    pooled = writer.Add(op, {value}, value.dtype, pooled_dims, attrs);
  }
  AttrMap of_gradient = attrs;
  if (volumes) of_gradient.Set("TInput", value.dtype);
  XlaValue gradient = writer.Add(absl::StrCat(op, "Grad"), {value, pooled, writer.Reshape(source, pooled_dims)}, value.dtype, images->dims, of_gradient);
  Ints begin(gradient.dims.size(), 0);
  for (size_t i = 0; i < images->windows.size(); ++i) begin[i + 1] = with_pads ? 0 : unpadded.windows[i].low;
  gradient = writer.Reshape(writer.Slice(gradient, begin, unpadded.dims), operand.dims);
  if (writer.Known(initial) != 0.0) gradient = writer.Same("AddV2", {gradient, initial});
  writer.Finish(gradient);
  return absl::OkStatus();
}

}  // namespace millrace
