#include <algorithm>

#include "random/net_draws.h"
#include "random/random_nets.h"

namespace millrace {
namespace {

class ImageNet {
 public:
  explicit ImageNet(std::mt19937_64& random) : draw_(random), spatial_(draw_.OneIn(4) ? 3 : 2) {}

  TrainingGraph Build() {
    std::vector<int64_t> dims = {draw_.Int(1, 3)};
    for (int i = 0; i < spatial_; ++i) dims.push_back(draw_.Int(4, spatial_ == 3 ? 6 : 11));
    dims.push_back(draw_.Int(1, 6));
    Add("image", draw_.OneIn(2) ? draw_.b.Const(draw_.Numbers(Shape(dims))) : Output(draw_.Weight(Shape(dims))));
    Add("convolution", Convolution(layers_[0]));
    for (int64_t more = draw_.Int(3, 14); more > 0; --more) AddLayer();
    draw_.AddLoss(layers_[1]);  // of a weight in any case
    for (const Output& layer : {layers_.back(), draw_.Late(layers_)}) {
      draw_.AddLoss(ops::Square(layer));
      if (draw_.OneIn(3)) draw_.Fetch(layer);
    }
    return draw_.Build(std::move(made_of_));
  }

 private:
  void Add(const char* what, Output layer) {
    absl::StrAppend(&made_of_, made_of_.empty() ? "" : ", ", what, " ", layer.shape().ToString());
    layers_.push_back(std::move(layer));
  }

  void AddLayer() {
    const Output x = draw_.Late(layers_);
    switch (draw_.Int(0, 15)) {
      case 0:
      case 1:
      case 2: return Add("convolution", Convolution(x));
      case 3:
      case 4: return Add("batch norm", BatchNorm(x));
      case 5: return Add("bias", ops::BiasAdd(x, draw_.Weight(Shape({ChannelsOf(x)})).Read()));
      case 6:
      case 7: return Add("unary", ops::Unary(draw_.Unary(), x));
      case 8: return Add("pool", Pool(x));
      case 9: return Add("binary", Binary(x));
      case 10: return Add("broadcast", Broadcast(x));
      case 11: return Add("pad", Padded(x));
      case 12: return Add("channels", Channels(x));
      case 13: return Add("gate", Gated(x));
      case 14: return Add("part", Part(x));
      default: return Add("other", AnyLayout(x));
    }
  }

  int64_t ChannelsOf(const Output& x) const { return x.dim(-1); }
  std::vector<int64_t> SpaceOf(const Output& x) const {
    std::vector<int64_t> dims;
    for (int i = 1; i <= spatial_; ++i) dims.push_back(x.dim(i));
    return dims;
  }
  std::vector<int64_t> SpatialAxes() const { return spatial_ == 3 ? std::vector<int64_t>{1, 2, 3} : std::vector<int64_t>{1, 2}; }
  std::vector<int64_t> Same(int64_t value) const { return std::vector<int64_t>(static_cast<size_t>(spatial_), value); }

  // Of a window that fits, whatever the padding.
  Output Convolution(const Output& x) {
    std::vector<int64_t> filter;
    for (int64_t size : SpaceOf(x)) filter.push_back(draw_.Int(1, std::min<int64_t>(3, size)));
    ops::WindowOptions options{.strides = Same(draw_.OneIn(3) ? 2 : 1), .padding = draw_.Of({"SAME", "VALID"})};
    const bool is_point = std::all_of(filter.begin(), filter.end(), [](int64_t size) { return size == 1; });
    if (draw_.OneIn(5) && options.padding == "SAME" && options.strides[0] == 1 && !is_point) options.dilations = Same(2);
    const bool depthwise = spatial_ == 2 && draw_.OneIn(5), transposed = !depthwise && options.dilations.size() == 1 && draw_.OneIn(6);
    const int64_t outputs = depthwise ? draw_.Int(1, 2) : draw_.Int(1, 6);
    if (transposed) return Transposed(x, filter, outputs);
    filter.push_back(ChannelsOf(x));
    filter.push_back(outputs);
    const Output with = draw_.Weight(Shape(filter)).Read();
    if (depthwise) return ops::DepthwiseConv2D(x, with, {.strides = options.strides, .padding = options.padding});
    return draw_.Product(x, with, [&](const Output& image, const Output& by) {
      return spatial_ == 2 ? ops::Conv2D(image, by, options) : ops::Conv3D(image, by, options);
    });
  }

  Output Transposed(const Output& x, std::vector<int64_t> filter, int64_t outputs) {
    std::vector<int64_t> shape = {x.dim(0)};
    for (int64_t size : SpaceOf(x)) shape.push_back(size * 2 - draw_.Int(0, 1));
    shape.push_back(outputs);
    filter.push_back(outputs);
    filter.push_back(ChannelsOf(x));
    const Output with = draw_.Weight(Shape(filter)).Read();
    const ops::WindowOptions options{.strides = Same(2)};
    return spatial_ == 2 ? ops::ConvTranspose2D(x, with, shape, options) : ops::ConvTranspose3D(x, with, shape, options);
  }

  // Of images, in training mode, often with moving averages and a Relu behind; epsilon keeps what rounding does small.
  Output BatchNorm(const Output& x) {
    if (spatial_ == 3) return ops::Softplus(x);
    const Shape vector({ChannelsOf(x)});
    const ops::BatchNormResult norm = ops::FusedBatchNorm(x, draw_.Weight(vector).Read(), draw_.Weight(vector).Read(), 0.1f);
    if (draw_.OneIn(2)) {
      for (const Output& now : {norm.mean, norm.variance}) {
        const Variable average = draw_.State(vector);
        draw_.b.AddUpdate(average.AssignSub((average.Read() - now) * 0.1));
      }
    }
    return draw_.OneIn(2) ? ops::Relu(norm.y) : norm.y;
  }

  Output Pool(const Output& x) {
    std::vector<int64_t> window;
    for (int64_t size : SpaceOf(x)) window.push_back(draw_.Int(1, std::min<int64_t>(3, size)));
    const char* const op = spatial_ == 3 ? draw_.Of({"MaxPool3D", "AvgPool3D"}) : draw_.Of({"MaxPool", "AvgPool"});
    return ops::Pool(op, x, window, {.strides = Same(draw_.Int(1, 2)), .padding = draw_.Of({"SAME", "VALID"})});
  }

  Output Binary(const Output& x) {
    Output y = x;
    for (int tries = 0; tries < 4; ++tries) {
      const Output& other = draw_.Late(layers_);
      if (other.shape() == x.shape()) y = other;
    }
    switch (draw_.Int(0, 4)) {
      case 0: return ops::Select(ops::Binary("Greater", x, y), x, ops::Tanh(y));
      case 1: return ops::AddN({x, y, ops::Tanh(y)});
      default: return ops::Binary(draw_.Of({"AddV2", "Sub", "Mul", "Maximum"}), x, y);
    }
  }

  // With a vector of channels, space, one dimension of it, or a number.
  Output Broadcast(const Output& x) {
    const char* const op = draw_.Of({"AddV2", "Sub", "Mul"});
    std::vector<int64_t> dims(x.shape().dims().begin(), x.shape().dims().end());
    if (draw_.OneIn(3)) {
      dims = {draw_.OneIn(2) ? 1 : ChannelsOf(x)};
    } else {
      for (int64_t& dim : dims) dim = draw_.OneIn(2) ? 1 : dim;
      if (draw_.OneIn(3)) dims.erase(dims.begin());
    }
    const Output with = draw_.Weight(Shape(dims)).Read();
    return draw_.OneIn(2) ? ops::Binary(op, x, with) : ops::Binary(op, with, x);
  }

  Output Padded(const Output& x) {
    std::vector<std::pair<int64_t, int64_t>> paddings(1);
    for (int i = 0; i < spatial_; ++i) paddings.emplace_back(draw_.Int(0, 2), draw_.Int(0, 2));
    paddings.emplace_back(0, draw_.OneIn(4) ? 1 : 0);
    const Output padded = ops::Pad(x, paddings);
    return draw_.OneIn(2) ? Convolution(padded) : padded;
  }

  // Beside another image's, some of them, or in another order.
  Output Channels(const Output& x) {
    for (int tries = 0; tries < 4; ++tries) {
      const Output y = draw_.Late(layers_);
      if (SpaceOf(y) == SpaceOf(x) && ChannelsOf(x) + ChannelsOf(y) <= 12) {
        return ops::Concat({x, y}, draw_.OneIn(2) ? spatial_ + 1 : -1);
      }
    }
    if (ChannelsOf(x) % 2 != 0) return ops::Reverse(x, {-1});
    return ops::Split(x, 2, -1)[static_cast<size_t>(draw_.Int(0, 1))];
  }

  // By what its mean over space says, as squeeze and excitation does, or less its mean.
  Output Gated(const Output& x) {
    const bool keep = draw_.OneIn(2);
    const Output mean = ops::Mean(x, SpatialAxes(), {}, keep);
    if (keep) return draw_.OneIn(2) ? x * ops::Sigmoid(mean) : x - mean;
    const int64_t channels = ChannelsOf(x);
    std::vector<int64_t> dims(static_cast<size_t>(spatial_ + 2), 1);
    dims.front() = x.dim(0);
    dims.back() = channels;
    return x * ops::Reshape(ops::Sigmoid(ops::MatMul(mean, draw_.Weight(Shape({channels, channels})))), dims);
  }

  Output Part(const Output& x) {
    std::vector<int64_t> begin, size;
    for (int i = 0; i < x.rank(); ++i) {
      const int64_t most = x.dim(i);
      begin.push_back(i > 0 && most > 3 ? draw_.Int(0, 1) : 0);
      size.push_back(most - begin.back() - (i > 0 && most > 3 ? draw_.Int(0, 1) : 0));
    }
    return ops::Slice(x, begin, size);
  }

  // What needs its channels last, or repeats, turns or normalises an image.
  Output AnyLayout(const Output& x) {
    if (spatial_ == 2 && draw_.OneIn(3)) return ops::ResizeBilinear(x, x.dim(1) + draw_.Int(0, 2), x.dim(2));
    if (spatial_ == 2 && draw_.OneIn(3)) return ops::Lrn(x, draw_.Int(1, 2), 1, 0.5f, 0.5f);
    if (draw_.OneIn(2)) return ops::Softmax(x);
    std::vector<int64_t> multiples(static_cast<size_t>(x.rank()), 1);
    multiples[static_cast<size_t>(draw_.Int(1, spatial_))] = x.dim(1) < 12 ? 2 : 1;
    return ops::Tile(x, multiples);
  }

  NetDraws draw_;
  const int spatial_;
  std::vector<Output> layers_;
  std::string made_of_;
};

}  // namespace

TrainingGraph RandomImageNet(std::mt19937_64& random) { return ImageNet(random).Build(); }

}  // namespace millrace
