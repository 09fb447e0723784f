// Convolutions of XLA: one op has every dimension anywhere, dilates both sides, and is its own gradients.
#include <algorithm>
#include <iterator>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "millrace/status.h"
#include "passes/control_flow/xla_ops.h"
#include "passes/rewrite/lower_xla.h"

namespace millrace {
namespace {

using Ints = std::vector<int64_t>;

class XlaConvLowering {
 public:
  explicit XlaConvLowering(XlaWriter& writer) : writer_(writer) {}

  absl::Status Run() {
    MR_ASSIGN_OR_RETURN(numbers_, ReadXlaConvNumbers(writer_.node().attrs.GetOr<std::string>("dimension_numbers", "")));
    output_ = writer_.Output();
    lhs_ = writer_.Cast(writer_.Input(0), output_.dtype);
    rhs_ = writer_.Cast(writer_.Input(1), output_.dtype);
    groups_ = writer_.Numbers(6)[0];
    batch_groups_ = writer_.node().attrs.GetOr<int64_t>("batch_group_count", 1);
    ReadWindows();
    if (windows_.empty() || windows_.size() > 3) return writer_.Refuse(absl::StrCat("has ", windows_.size(), " spatial dimensions, expected 1 to 3"));
    if (output_.num_elements() == 0 || lhs_.num_elements() == 0 || rhs_.num_elements() == 0) {
      writer_.Finish(writer_.Add("BroadcastTo", {writer_.Zero(output_.dtype), writer_.Constant(output_.dims)}, output_.dtype, output_.dims,
                                 {{"Tidx", DataType::kInt32}}));
      return absl::OkStatus();
    }
    CutNegativePads();
    if (groups_ > 1 && batch_groups_ > 1) return writer_.Refuse("groups both channels and batch");
    if (IsFilterGradient()) {
      FilterGradient();
    } else if (IsInputGradient()) {
      InputGradient();
    } else {
      Forward();
    }
    return absl::OkStatus();
  }

 private:
  void ReadWindows() {
    const Ints strides = writer_.Numbers(2), padding = writer_.Numbers(3), base = writer_.Numbers(4), dilations = writer_.Numbers(5);
    for (size_t i = 0; i < numbers_.input_spatial.size(); ++i) {
      windows_.push_back({rhs_.dims[numbers_.kernel_spatial[i]], strides[i], padding[2 * i], padding[2 * i + 1], base[i], dilations[i]});
    }
  }

  // Pads that cut elements off are a slice before, as far as no dilation has put zeros there.
  void CutNegativePads() {
    Ints none(lhs_.dims.size(), 0), low = none, high = none;
    bool interior = false;
    for (size_t i = 0; i < windows_.size(); ++i) interior = interior || ((windows_[i].low < 0 || windows_[i].high < 0) && windows_[i].base_dilation > 1);
    if (interior) Dilate();
    for (size_t i = 0; i < windows_.size(); ++i) {
      low[numbers_.input_spatial[i]] = std::min<int64_t>(windows_[i].low, 0);
      high[numbers_.input_spatial[i]] = std::min<int64_t>(windows_[i].high, 0);
      windows_[i].low = std::max<int64_t>(windows_[i].low, 0);
      windows_[i].high = std::max<int64_t>(windows_[i].high, 0);
    }
    if (low != none || high != none) lhs_ = writer_.PadAny(lhs_, low, high, none, writer_.Zero(lhs_.dtype));
  }

  // Writes the zeros of the left side's dilation.
  void Dilate() {
    Ints none(lhs_.dims.size(), 0), interior = none;
    for (size_t i = 0; i < windows_.size(); ++i) {
      interior[numbers_.input_spatial[i]] = windows_[i].base_dilation - 1;
      windows_[i].base_dilation = 1;
    }
    if (interior != none) lhs_ = writer_.PadAny(lhs_, none, none, interior, writer_.Zero(lhs_.dtype));
  }

  int64_t InputSize(size_t i) const { return lhs_.dims[numbers_.input_spatial[i]]; }
  int64_t OutputSize(size_t i) const { return output_.dims[numbers_.output_spatial[i]]; }
  bool Dilates() const {
    return std::any_of(windows_.begin(), windows_.end(), [](const XlaWindow& window) { return window.base_dilation > 1; });
  }

  // [a, spatial..., b] of a side, 1-D as 2-D.
  XlaValue Arranged(const XlaValue& value, int64_t first, const Ints& spatial, int64_t last) {
    Ints perm = {first};
    perm.insert(perm.end(), spatial.begin(), spatial.end());
    perm.push_back(last);
    return WithTwo(writer_.Transpose(value, perm), 1);
  }
  // [spatial..., a, b]
  XlaValue ArrangedFilter(const XlaValue& value, const Ints& spatial, int64_t a, int64_t b) {
    Ints perm = spatial;
    perm.insert(perm.end(), {a, b});
    return WithTwo(writer_.Transpose(value, perm), 0);
  }
  XlaValue WithTwo(const XlaValue& value, int at) {
    if (windows_.size() != 1) return value;
    Ints dims = value.dims;
    dims.insert(dims.begin() + at, 1);
    return writer_.Reshape(value, dims);
  }

  bool volumes() const { return windows_.size() == 3; }

  // The attributes of a layer with these windows; 3-D layers have no pads of their own.
  AttrMap Layer(const Ints& strides, const Ints& dilations, const Ints& low, const Ints& high) const {
    const auto list = [&](const Ints& of, int64_t neutral) {
      Ints all = {neutral};
      if (windows_.size() == 1) all.push_back(neutral);
      all.insert(all.end(), of.begin(), of.end());
      all.push_back(neutral);
      return all;
    };
    AttrMap attrs{{"T", output_.dtype}, {"strides", list(strides, 1)}, {"dilations", list(dilations, 1)}};
    attrs.Set("data_format", volumes() ? "NDHWC" : "NHWC");
    const Ints before = list(low, 0), behind = list(high, 0);
    Ints pads;
    for (size_t i = 0; i < before.size(); ++i) pads.insert(pads.end(), {before[i], behind[i]});
    const bool padded = std::any_of(pads.begin(), pads.end(), [](int64_t pad) { return pad > 0; });
    attrs.Set("padding", padded ? "EXPLICIT" : "VALID");
    if (padded) attrs.Set("explicit_paddings", pads);
    return attrs;
  }

  Ints Of(int64_t XlaWindow::*field) const {
    Ints all;
    for (const XlaWindow& window : windows_) all.push_back(window.*field);
    return all;
  }
  // [batch, spatial..., channels] padded
  XlaValue Padded(const XlaValue& images, const Ints& low, const Ints& high) {
    Ints before = {0}, behind = {0};
    if (windows_.size() == 1) {
      before.push_back(0);
      behind.push_back(0);
    }
    before.insert(before.end(), low.begin(), low.end());
    behind.insert(behind.end(), high.begin(), high.end());
    before.push_back(0);
    behind.push_back(0);
    return writer_.Pad(images, before, behind, writer_.Zero(images.dtype));
  }

  // From [a, spatial..., b] or, of a filter, [spatial..., a, b].
  void FinishAs(const XlaValue& made, int64_t a, int64_t b, bool filter) {
    Ints order = numbers_.output_spatial, dims;
    order.insert(filter ? order.end() : order.begin(), a);
    order.push_back(b);
    Ints perm(order.size());
    for (size_t i = 0; i < order.size(); ++i) perm[order[i]] = static_cast<int64_t>(i);
    for (int64_t d : order) dims.push_back(output_.dims[d]);
    writer_.Finish(writer_.Transpose(writer_.Reshape(made, dims), perm));
  }

  Ints OutputDims(int64_t batch, int64_t channels) const {
    Ints dims = {batch};
    if (windows_.size() == 1) dims.push_back(1);
    for (size_t i = 0; i < windows_.size(); ++i) dims.push_back(OutputSize(i));
    dims.push_back(channels);
    return dims;
  }

  // The batch's groups become groups of channels: [groups * n, ..., c] -> [n, ..., groups * c].
  XlaValue GroupsToChannels(const XlaValue& images) {
    const int64_t n = images.dims[0] / batch_groups_, c = images.dims.back();
    Ints apart = images.dims, perm, together = images.dims;
    apart[0] = n;
    apart.insert(apart.begin(), batch_groups_);
    for (int64_t d = 1; d + 1 < static_cast<int64_t>(apart.size()); ++d) perm.push_back(d);
    perm.insert(perm.end(), {0, static_cast<int64_t>(apart.size()) - 1});
    together[0] = n;
    together.back() = batch_groups_ * c;
    return writer_.Reshape(writer_.Transpose(writer_.Reshape(images, apart), perm), together);
  }

  void Forward() {
    Dilate();
    XlaValue images = Arranged(lhs_, numbers_.input_batch, numbers_.input_spatial, numbers_.input_feature);
    if (batch_groups_ > 1) images = GroupsToChannels(images);
    const XlaValue filter = ArrangedFilter(rhs_, numbers_.kernel_spatial, numbers_.kernel_input, numbers_.kernel_output);
    Ints low = Of(&XlaWindow::low), high = Of(&XlaWindow::high);
    if (volumes()) {
      images = Padded(images, low, high);
      low = high = Ints(windows_.size(), 0);
    }
    const int64_t batch = output_.dims[numbers_.output_batch], channels = output_.dims[numbers_.output_feature];
    const AttrMap attrs = Layer(Of(&XlaWindow::stride), Of(&XlaWindow::dilation), low, high);
    const XlaValue made = writer_.Add(volumes() ? "Conv3D" : "Conv2D", {images, filter}, output_.dtype, OutputDims(batch, channels), attrs);
    FinishAs(made, numbers_.output_batch, numbers_.output_feature, false);
  }

  // A window that is larger than its output, and no less than half of its input, is the gradient of a layer's output, and what it is
  // slid over gives the filter, unless that is turned more than a layer's sides would be.
  bool IsFilterGradient() const {
    int64_t size = 1, output = 1;
    for (size_t i = 0; i < windows_.size(); ++i) {
      const XlaWindow& window = windows_[i];
      size *= window.size;
      output *= OutputSize(i);
      if (2 * window.span() < window.low + window.Dilated(InputSize(i)) + window.high) return false;
    }
    const auto turned = [](const XlaValue& side, std::initializer_list<Ints> order) {
      Ints all;
      for (const Ints& dims : order) std::copy_if(dims.begin(), dims.end(), std::back_inserter(all), [&](int64_t d) { return side.dims[d] != 1; });
      return std::is_sorted(all.begin(), all.end()) ? 0 : side.num_elements();
    };
    const XlaConvNumbers& n = numbers_;
    const int64_t as_gradient =
        turned(lhs_, {{n.input_feature}, n.input_spatial, {n.input_batch}}) + turned(rhs_, {{n.kernel_input}, n.kernel_spatial, {n.kernel_output}});
    const int64_t as_layer =
        turned(lhs_, {{n.input_batch}, n.input_spatial, {n.input_feature}}) + turned(rhs_, {n.kernel_spatial, {n.kernel_input}, {n.kernel_output}});
    return size > output && groups_ == 1 && as_gradient <= as_layer;
  }

  // The layer's strides are the dilations here, and the other way round; what its window did not reach is not there.
  void FilterGradient() {
    Dilate();
    Ints low, high, cut(lhs_.dims.size(), 0);
    for (size_t i = 0; i < windows_.size(); ++i) {
      const XlaWindow& window = windows_[i];
      const int64_t reached = window.span() + (OutputSize(i) - 1) * window.stride, behind = reached - InputSize(i) - window.low;
      low.push_back(window.low);
      // One image more than the layer needs does not change its output unless a whole stride fits.
      const bool must_cut = behind < 0 && -behind >= window.dilation;
      if (must_cut) cut[numbers_.input_spatial[i]] = behind;
      high.push_back(std::max<int64_t>(behind, 0));
    }
    lhs_ = writer_.PadAny(lhs_, Ints(lhs_.dims.size(), 0), cut, Ints(lhs_.dims.size(), 0), writer_.Zero(lhs_.dtype));
    XlaValue images = Arranged(lhs_, numbers_.input_feature, numbers_.input_spatial, numbers_.input_batch);
    const XlaValue gradient = Arranged(rhs_, numbers_.kernel_input, numbers_.kernel_spatial, numbers_.kernel_output);
    if (volumes()) {
      images = Padded(images, low, high);
      low = high = Ints(windows_.size(), 0);
    }
    Ints filter;
    if (windows_.size() == 1) filter.push_back(1);
    for (size_t i = 0; i < windows_.size(); ++i) filter.push_back(OutputSize(i));
    filter.insert(filter.end(), {output_.dims[numbers_.output_batch], output_.dims[numbers_.output_feature]});
    const AttrMap attrs = Layer(Of(&XlaWindow::dilation), Of(&XlaWindow::stride), low, high);
    const XlaValue made = writer_.Add(volumes() ? "Conv3DBackpropFilterV2" : "Conv2DBackpropFilter", {images, writer_.Constant(filter), gradient},
                                      output_.dtype, filter, attrs);
    FinishAs(made, numbers_.output_batch, numbers_.output_feature, true);
  }

  // A window slid in ones over what lies apart: the gradient of a layer's input, or a transposed layer.
  bool IsInputGradient() const {
    if (!Dilates() || batch_groups_ > 1) return false;
    for (size_t i = 0; i < windows_.size(); ++i) {
      const XlaWindow& window = windows_[i];
      const int64_t low = window.span() - 1 - window.low;
      const int64_t high = (InputSize(i) - 1) * window.base_dilation + window.span() - OutputSize(i) - low;
      if (window.stride != 1 || low < 0 || high <= -window.base_dilation) return false;
    }
    return true;
  }

  void InputGradient() {
    Ints low, high, reversed;
    for (size_t i = 0; i < windows_.size(); ++i) {
      const XlaWindow& window = windows_[i];
      low.push_back(window.span() - 1 - window.low);
      high.push_back(std::max<int64_t>((InputSize(i) - 1) * window.base_dilation + window.span() - OutputSize(i) - low.back(), 0));
    }
    const XlaValue filter = ArrangedFilter(TurnedRound(), numbers_.kernel_spatial, numbers_.kernel_output, numbers_.kernel_input);
    const XlaValue gradient = Arranged(lhs_, numbers_.input_batch, numbers_.input_spatial, numbers_.input_feature);
    const int64_t batch = output_.dims[numbers_.output_batch], channels = output_.dims[numbers_.output_feature];
    Ints dims = OutputDims(batch, channels);
    const Ints begin(dims.size(), 0), size = dims;
    Ints at = begin;
    const Ints none(windows_.size(), 0);
    if (volumes()) {
      for (size_t i = 0; i < windows_.size(); ++i) {
        dims[i + 1] += low[i] + high[i];
        at[i + 1] = low[i];
      }
    }
    const AttrMap attrs = Layer(Of(&XlaWindow::base_dilation), Of(&XlaWindow::dilation), volumes() ? none : low, volumes() ? none : high);
    const XlaValue made = writer_.Add(volumes() ? "Conv3DBackpropInputV2" : "Conv2DBackpropInput", {writer_.Constant(dims), GroupedFilter(filter), gradient},
                                      output_.dtype, dims, attrs);
    FinishAs(writer_.Slice(made, at, size), numbers_.output_batch, numbers_.output_feature, false);
  }

  // The kernel from its end to its beginning, which is what it was where it was turned round for this.
  XlaValue TurnedRound() {
    const Node& made_by = writer_.graph().node(rhs_.ref.node);
    if (made_by.op == "ReverseV2" && rhs_.ref == writer_.node().inputs[1]) {
      Ints axes, spatial = numbers_.kernel_spatial;
      if (const Tensor* value = ConstantOf(made_by.inputs[1]); value != nullptr) {
        for (int64_t i = 0; i < value->num_elements(); ++i) axes.push_back((value->IntAt(i) + rhs_.rank()) % rhs_.rank());
      }
      std::sort(axes.begin(), axes.end());
      std::sort(spatial.begin(), spatial.end());
      if (axes == spatial) return {made_by.inputs[0], rhs_.dtype, rhs_.dims};
    }
    return writer_.Reverse(rhs_, numbers_.kernel_spatial);
  }
  const Tensor* ConstantOf(OutputRef ref) const {
    const Node& made_by = writer_.graph().node(ref.node);
    const AttrValue* value = made_by.op == "Const" ? made_by.attrs.Find("value") : nullptr;
    return value == nullptr ? nullptr : std::get_if<Tensor>(value);
  }

  // Filters of groups have the channels of all groups on the other side: [..., groups * o, i] -> [..., o, groups * i].
  XlaValue GroupedFilter(const XlaValue& filter) {
    if (groups_ == 1) return filter;
    Ints apart = filter.dims, perm, together = filter.dims;
    const auto at = static_cast<int64_t>(apart.size()) - 2;
    apart[at] /= groups_;
    apart.insert(apart.begin() + at, groups_);
    for (int64_t d = 0; d < at; ++d) perm.push_back(d);
    perm.insert(perm.end(), {at + 1, at, at + 2});
    together[at] /= groups_;
    together[at + 1] *= groups_;
    return writer_.Reshape(writer_.Transpose(writer_.Reshape(filter, apart), perm), together);
  }

  XlaWriter& writer_;
  XlaConvNumbers numbers_;
  XlaValue output_, lhs_, rhs_;
  std::vector<XlaWindow> windows_;
  int64_t groups_ = 1, batch_groups_ = 1;
};

}  // namespace

absl::Status LowerXlaConv(XlaWriter& writer) { return XlaConvLowering(writer).Run(); }

}  // namespace millrace
