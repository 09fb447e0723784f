// What random networks are drawn with.
#ifndef MILLRACE_TESTS_RANDOM_NET_DRAWS_H_
#define MILLRACE_TESTS_RANDOM_NET_DRAWS_H_

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "glog/logging.h"

#include "absl/strings/str_cat.h"
#include "millrace/graph_builder.h"
#include "millrace/graph_ops.h"
#include "millrace/optimizers.h"
#include "random/random_graph.h"

namespace millrace {

// A builder, names for what it makes, and losses; the same for the same state of `random`.
class NetDraws {
 public:
  explicit NetDraws(std::mt19937_64& random)
      : random_(random), is_mixed_(OneIn(4)), low_(OneIn(2) ? DataType::kBfloat16 : DataType::kHalf) {
    b.set_seed(static_cast<int64_t>(random() % 1000));
  }

  // Both included.
  int64_t Int(int64_t low, int64_t high) { return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1)); }
  bool OneIn(int64_t count) { return Int(1, count) == 1; }
  template <typename T>
  T Of(std::initializer_list<T> values) {
    return *(values.begin() + Int(0, static_cast<int64_t>(values.size()) - 1));
  }
  // Later ones rather than earlier ones, so that chains come about.
  template <typename T>
  const T& Late(const std::vector<T>& of) {
    const auto last = static_cast<int64_t>(of.size()) - 1;
    return of[static_cast<size_t>(std::max(Int(0, last), Int(0, last)))];
  }

  Variable Weight(Shape shape) { return b.AddVariable(absl::StrCat("w", next_++), std::move(shape), init::Uniform(-0.7, 0.7)); }
  // That optimizers leave alone.
  Variable State(Shape shape) { return b.AddState(absl::StrCat("state", next_++), std::move(shape), init::Zeros()); }
  Tensor Numbers(const Shape& shape) {
    Tensor tensor(DataType::kFloat, shape);
    for (float& value : tensor.mutable_as<float>()) value = static_cast<float>(Int(-10000, 10000)) / 10000;
    return tensor;
  }
  // None makes much of rounding, or large values.
  const char* Unary() { return Of({"Tanh", "Sigmoid", "Softplus", "Elu", "Neg", "Sin", "Relu"}); }

  Output Classes(const Shape& shape, int64_t classes) {
    Tensor tensor(DataType::kInt32, shape);
    for (int32_t& value : tensor.mutable_as<int32_t>()) value = static_cast<int32_t>(Int(0, classes - 1));
    return b.Const(std::move(tensor));
  }

  // A product of two operands as mixed precision makes some, in 16 bits.
  template <typename Make>
  Output Product(const Output& x, const Output& weight, const Make& make) {
    if (!is_mixed_ || !OneIn(3)) return make(x, weight);
    return ops::Cast(make(ops::Cast(x, low_), ops::Cast(weight, low_)), DataType::kFloat);
  }

  void AddLoss(const Output& each) { losses_.push_back(ops::Mean(each)); }
  void Fetch(const Output& each) { fetched_.push_back(each); }
  // With the fetches "loss:0" and the others.
  TrainingGraph Build(std::string made_of) {
    TrainingGraph result{Graph(), {"loss:0"}, std::move(made_of), is_mixed_};
    for (size_t i = 0; i < fetched_.size(); ++i) {
      result.fetches.push_back(b.TensorName(ops::Identity(fetched_[i], absl::StrCat("fetched", i))));
    }
    // With slots that are updated part by part where parts are small.
    AddLoss(ops::Square(Weight(Shape({Int(1, 3), Int(700, 2500)})) * Weight(OneIn(2) ? Shape() : Shape({1, 1}))));
    const Output loss = ops::Identity(ops::AddN(losses_), "loss");
    Minimize(b, OneIn(3) ? Sgd(0.05) : OneIn(2) ? Adagrad(0.02) : Momentum(0.05, 0.9, 1e-3), loss, "train");
    b.AddInit("init");
    absl::StatusOr<Graph> graph = std::move(b).Build();
    CHECK(graph.ok()) << graph.status() << ", made of " << result.made_of;
    result.graph = *std::move(graph);
    return result;
  }

  GraphBuilder b;

 private:
  std::mt19937_64& random_;
  const bool is_mixed_;
  const DataType low_;
  std::vector<Output> losses_, fetched_;
  int next_ = 0;
};

}  // namespace millrace

#endif  // MILLRACE_TESTS_RANDOM_NET_DRAWS_H_
