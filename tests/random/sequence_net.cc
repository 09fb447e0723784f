#include <algorithm>

#include "random/net_draws.h"
#include "random/random_nets.h"

namespace millrace {
namespace {

class SequenceNet {
 public:
  explicit SequenceNet(std::mt19937_64& random)
      : draw_(random), batch_(draw_.Int(1, 3)), length_(draw_.Int(2, 7)), width_(2 * draw_.Int(1, 4)) {}

  TrainingGraph Build() {
    made_of_ = absl::StrCat(batch_, " sequences of ", length_, " of width ", width_);
    Add("embedding", Embedding());
    Add("dense", Dense(layers_[0]));
    draw_.AddLoss(layers_[1]);  // of a weight in any case
    for (int64_t more = draw_.Int(3, 12); more > 0; --more) AddLayer();
    for (const Output& layer : {layers_.back(), draw_.Late(layers_)}) {
      AddLoss(layer);
      if (draw_.OneIn(3)) draw_.Fetch(layer);
    }
    return draw_.Build(std::move(made_of_));
  }

 private:
  void Add(const char* what, Output layer) {
    absl::StrAppend(&made_of_, ", ", what);
    layers_.push_back(std::move(layer));
  }

  // All are [batch, length, width].
  void AddLayer() {
    const Output x = draw_.Late(layers_), y = draw_.Late(layers_);
    switch (draw_.Int(0, 13)) {
      case 0:
      case 1: return Add("dense", Dense(x));
      case 2: return Add("attention", Attention(x, y));
      case 3:
      case 4: return Add("norm", Norm(x));
      case 5: return Add("unary", ops::Unary(draw_.Unary(), x));
      case 6: return Add("binary", ops::Binary(draw_.Of({"AddV2", "Sub", "Mul", "Maximum", "SquaredDifference"}), x, y));
      case 7: return Add("dropout", Dropout(x));
      case 8: return Add("embedding", Embedding());
      case 9: return Add("convolution", Convolution(x));
      case 10: return Add("gate", x * ops::Sigmoid(ops::Reduce(draw_.Of({"Sum", "Mean", "Max"}), y, {draw_.Of({-1, 1})}, /*keep_dims=*/true)));
      case 11: return Add("einsum", Einsum(x));
      case 12: return Add("scan", ops::Cumsum(x, draw_.Of({1, 2, -1}), draw_.OneIn(2), draw_.OneIn(2)) * 0.3);
      default: return Add("parts", Parts(x, y));
    }
  }

  Output Rows(const Output& x) { return ops::Reshape(x, {-1, width_}); }
  Output Sequences(const Output& x) { return ops::Reshape(x, {batch_, length_, width_}); }

  // Of words that come more than once; the gradient is of rows.
  Output Embedding() {
    const int64_t words = draw_.Int(2, 9);
    const Output ids = draw_.Classes(Shape({batch_, length_}), words);
    return ops::Gather(draw_.Weight(Shape({words, width_})), ids);
  }

  Output Dense(const Output& x) {
    const bool transposed = draw_.OneIn(2);
    Output y = draw_.Product(Rows(x), draw_.Weight(Shape({width_, width_})).Read(),
                             [=](const Output& a, const Output& b) { return ops::MatMul(a, b, {.b = transposed}); });
    if (draw_.OneIn(2)) y = ops::BiasAdd(y, draw_.Weight(Shape({width_})).Read());
    if (draw_.OneIn(2)) y = ops::Unary(draw_.Unary(), y);
    return Sequences(y);
  }

  // To heads, as Keras' dense layers of attention are.
  Output Einsum(const Output& x) {
    return Sequences(ops::Einsum({x, draw_.Weight(Shape({width_, 2, width_ / 2})).Read()}, "blw,whd->blhd") * 0.7);
  }

  Output Attention(const Output& x, const Output& y) {
    const auto heads = [&](const Output& of) { return ops::Transpose(ops::Reshape(of, {batch_, length_, 2, width_ / 2}), {0, 2, 1, 3}); };
    const Output query = heads(Dense(x)), key = heads(y), value = heads(draw_.OneIn(2) ? Dense(y) : x);
    Output scores = ops::BatchMatMul(query, key, {.b = true}) * 0.5;
    if (draw_.OneIn(2)) scores = scores + draw_.b.Const(draw_.Numbers(Shape({1, 1, length_, length_})));
    const Output read = ops::BatchMatMul(ops::Softmax(scores), value);
    return Sequences(ops::Transpose(read, {0, 2, 1, 3}));
  }

  // Of each vector, as single ops.
  Output Norm(const Output& x) {
    const Output mean = ops::Mean(x, {-1}, {}, /*keep_dims=*/true);
    const Output variance = ops::Mean(ops::Binary("SquaredDifference", x, ops::StopGradient(mean)), {-1}, {}, /*keep_dims=*/true);
    const Output y = (x - mean) * ops::Rsqrt(variance + 0.1);
    return draw_.OneIn(2) ? y : y * draw_.Weight(Shape({width_})).Read() + draw_.Weight(Shape({width_})).Read();
  }

  Output Dropout(const Output& x) {
    const Output kept = ops::Binary("GreaterEqual", ops::Random(draw_.b, "RandomUniform", x.type()), draw_.b.Scalar(DataType::kFloat, 0.3));
    return x * ops::Cast(kept, DataType::kFloat) / 0.7;
  }

  // Along the sequence, as Conv1D is.
  Output Convolution(const Output& x) {
    const Output image = ops::ExpandDims(x, 1);
    const Output filter = draw_.Weight(Shape({1, draw_.Int(1, std::min<int64_t>(3, length_)), width_, width_})).Read();
    return ops::Squeeze(ops::Conv2D(image, filter, {.strides = {1, 1}}), {1});
  }

  // Halves of two, or all of one in another order.
  Output Parts(const Output& x, const Output& y) {
    const int64_t axis = draw_.Of({1, 2, -1});
    switch (draw_.Int(0, 3)) {
      case 0: return ops::Concat({ops::Split(x, 2, 2)[1], ops::Split(y, 2, 2)[0]}, 2);
      case 1: return ops::Reverse(x, {axis});
      case 2: return ops::Pack(ops::Unpack(x, 1), 1) + y;
      default: {
        const Output first = ops::Slice(x, {0, 0, 0}, {batch_, 1, width_}), others = ops::Slice(y, {0, 1, 0}, {batch_, length_ - 1, width_});
        return ops::Concat({others, first}, 1);
      }
    }
  }

  // Of all values, or of classes of every place.
  void AddLoss(const Output& x) {
    if (draw_.OneIn(2)) return draw_.AddLoss(ops::Square(x));
    const int64_t classes = draw_.Int(2, 9);
    const Output labels = draw_.Classes(Shape({batch_ * length_}), classes);
    const Output logits = ops::MatMul(Rows(x), draw_.Weight(Shape({width_, classes})));
    draw_.AddLoss(ops::SparseSoftmaxCrossEntropy(logits, labels).loss);
  }

  NetDraws draw_;
  const int64_t batch_, length_, width_;
  std::vector<Output> layers_;
  std::string made_of_;
};

}  // namespace

TrainingGraph RandomSequenceNet(std::mt19937_64& random) { return SequenceNet(random).Build(); }

}  // namespace millrace
