#include <algorithm>

#include "random/net_draws.h"
#include "random/random_nets.h"

namespace millrace {
namespace {

using Layer = std::vector<Output>;  // of every step, [rows, width]

class RecurrentNet {
 public:
  explicit RecurrentNet(std::mt19937_64& random) : draw_(random), rows_(draw_.Int(1, 4)), steps_(draw_.Of({3, 5, 9, 20, 37})) {}

  TrainingGraph Build() {
    made_of_ = absl::StrCat(steps_, " steps of ", rows_, " rows");
    Add("input", Input());
    Add("product", Product(layers_[0]));
    for (int64_t more = draw_.Int(3, 10); more > 0; --more) AddLayer();
    draw_.AddLoss(layers_[1].back());  // of a weight in any case
    for (const Layer& layer : {layers_.back(), draw_.Late(layers_)}) {
      for (const Output& each : layer) draw_.AddLoss(ops::Square(each));
      if (draw_.OneIn(3)) draw_.Fetch(layer[static_cast<size_t>(draw_.Int(0, steps_ - 1))]);
    }
    return draw_.Build(std::move(made_of_));
  }

 private:
  void Add(const char* what, Layer layer) {
    absl::StrAppend(&made_of_, ", ", what);
    layers_.push_back(std::move(layer));
  }

  void AddLayer() {
    const Layer x = draw_.Late(layers_);
    switch (draw_.Int(0, 11)) {
      case 0:
      case 1:
      case 2: return Add("product", Product(x));
      case 3: return Add("recurrence", Recurrence(x));
      case 4: return Add("bias", Bias(x));
      case 5: return Add("unary", Each(x, [op = draw_.Unary()](const Output& each) { return ops::Unary(op, each); }));
      case 6: return Add("binary", Binary(x));
      case 7: return Add("broadcast", Broadcast(x));
      case 8: {
        const bool logarithm = draw_.OneIn(2);
        return Add("softmax", Each(x, [=](const Output& each) { return logarithm ? ops::LogSoftmax(each) : ops::Softmax(each); }));
      }
      case 9: return AddLosses(x);
      case 10: return Add("a step that differs", OneStepDiffers(x));
      default: return Add("columns", Columns(x));
    }
  }

  template <typename Make>
  static Layer Each(const Layer& layer, const Make& make) {
    Layer result;
    for (const Output& each : layer) result.push_back(make(each));
    return result;
  }
  static int64_t WidthOf(const Layer& layer) { return layer[0].dim(1); }

  // Parts of one variable, variables or constants of their own.
  Layer Input() {
    const Shape shape({rows_, draw_.Int(1, 6)});
    const int64_t kind = draw_.Int(0, 2);
    if (kind == 0) return ops::Unpack(draw_.Weight(Shape({steps_, rows_, shape.dim(1)})), 0);
    Layer layer;
    for (int64_t t = 0; t < steps_; ++t) {
      layer.push_back(kind == 1 ? Output(draw_.Weight(shape)) : draw_.b.Const(draw_.Numbers(shape)));
    }
    return layer;
  }

  // With one weight, read once or in every step, a step or two with another one now and then.
  Layer Product(const Layer& x) {
    const int64_t width = draw_.Int(1, 6);
    const bool transposed = draw_.OneIn(3), read_again = draw_.OneIn(4);
    const Shape shape = transposed ? Shape({width, WidthOf(x)}) : Shape({WidthOf(x), width});
    const Variable weight = draw_.Weight(shape), another = draw_.Weight(shape);
    const Output read = weight.Read();
    const bool mixed = draw_.OneIn(5);
    return Each(x, [&](const Output& each) {
      const Output with = mixed && draw_.OneIn(4) ? another.Read() : read_again ? weight.Read() : read;
      return draw_.Product(each, with, [=](const Output& a, const Output& b) { return ops::MatMul(a, b, {.b = transposed}); });
    });
  }

  Layer Recurrence(const Layer& x) {
    const int64_t width = draw_.Int(1, 5);
    const Output in = draw_.Weight(Shape({WidthOf(x), width})).Read(), over = draw_.Weight(Shape({width, width})).Read();
    const bool backward = draw_.OneIn(3);
    Layer result(x.size());
    Output state = draw_.b.Const(draw_.Numbers(Shape({rows_, width})));
    for (size_t i = 0; i < x.size(); ++i) {
      const size_t t = backward ? x.size() - 1 - i : i;
      state = ops::Tanh(ops::MatMul(x[t], in) + ops::MatMul(state, over));
      result[t] = state;
    }
    return result;
  }

  Layer Bias(const Layer& x) {
    const Output bias = draw_.Weight(Shape({WidthOf(x)})).Read();
    return Each(x, [&](const Output& each) { return ops::BiasAdd(each, bias); });
  }

  // With another layer as wide, perhaps with the steps after, or in the other order.
  Layer Binary(const Layer& x) {
    Layer y = x;
    for (int tries = 0; tries < 4; ++tries) {
      const Layer& other = draw_.Late(layers_);
      if (WidthOf(other) == WidthOf(x)) y = other;
    }
    if (draw_.OneIn(3)) std::rotate(y.begin(), y.begin() + draw_.Int(0, steps_ - 1), y.end());
    if (draw_.OneIn(4)) std::reverse(y.begin(), y.end());
    const char* const op = draw_.Of({"AddV2", "Sub", "Mul", "Maximum", "SquaredDifference", "Select"});
    Layer result;
    for (size_t t = 0; t < x.size(); ++t) {
      const bool selects = op == std::string("Select");
      result.push_back(selects ? ops::Select(ops::Binary("Greater", x[t], y[t]), x[t], ops::Tanh(y[t])) : ops::Binary(op, x[t], y[t]));
    }
    return result;
  }

  // With what has fewer rows or columns.
  Layer Broadcast(const Layer& x) {
    const int64_t width = WidthOf(x);
    const char* const op = draw_.Of({"AddV2", "Sub", "Mul"});
    switch (draw_.Int(0, 3)) {
      case 0: return Each(x, [&, with = draw_.Weight(Shape({width})).Read()](const Output& each) { return ops::Binary(op, with, each); });
      case 1: return Each(x, [&, with = draw_.Weight(Shape({1, width})).Read()](const Output& each) { return ops::Binary(op, each, with); });
      case 2: return Each(x, [&](const Output& each) { return ops::Binary(op, each, 0.7); });
      default: return Each(x, [&](const Output& each) { return ops::Binary(op, each, ops::Sum(each, {1}, /*keep_dims=*/true)); });
    }
  }

  // Per row: of classes, or of a distribution over them. They are weighted row by row, or not.
  void AddLosses(const Layer& x) {
    absl::StrAppend(&made_of_, ", losses");
    const bool sparse = draw_.OneIn(2), weighted = draw_.OneIn(2);
    for (const Output& logits : x) {
      const Output loss = sparse ? ops::SparseSoftmaxCrossEntropy(logits, draw_.Classes(Shape({rows_}), WidthOf(x))).loss
                                 : ops::SoftmaxCrossEntropy(logits, ops::Softmax(draw_.b.Const(draw_.Numbers(logits.shape())))).loss;
      draw_.AddLoss(weighted ? loss * draw_.b.Const(draw_.Numbers(Shape({rows_}))) : loss);
    }
  }

  Layer OneStepDiffers(Layer x) {
    Output& one = x[static_cast<size_t>(draw_.Int(0, steps_ - 1))];
    one = draw_.OneIn(2) ? ops::Tanh(one) : ops::MatMul(one, draw_.Weight(Shape({WidthOf(x), WidthOf(x)})));
    return x;
  }

  // Beside another layer's, or every other one of them.
  Layer Columns(const Layer& x) {
    const Layer y = draw_.Late(layers_);
    if (draw_.OneIn(2) && WidthOf(x) % 2 == 0) {
      return Each(x, [half = draw_.Int(0, 1)](const Output& each) { return ops::Split(each, 2, 1)[static_cast<size_t>(half)]; });
    }
    if (WidthOf(x) + WidthOf(y) > 12) return x;
    Layer result;
    for (size_t t = 0; t < x.size(); ++t) result.push_back(ops::Concat({x[t], y[t]}, draw_.OneIn(2) ? 1 : -1));
    return result;
  }

  NetDraws draw_;
  const int64_t rows_, steps_;
  std::vector<Layer> layers_;
  std::string made_of_;
};

}  // namespace

TrainingGraph RandomRecurrentNet(std::mt19937_64& random) { return RecurrentNet(random).Build(); }

}  // namespace millrace
