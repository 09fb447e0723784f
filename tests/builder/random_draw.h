// What cases are drawn from: fixed pseudo-random shapes, axes and attributes. The same seed gives the same everywhere.
#ifndef MILLRACE_TESTS_BUILDER_RANDOM_DRAW_H_
#define MILLRACE_TESTS_BUILDER_RANDOM_DRAW_H_

#include <algorithm>
#include <numeric>
#include <vector>

#include "builder/gradient_cases.h"

namespace millrace::testing {

using Dims = std::vector<int64_t>;

class Draw {
 public:
  explicit Draw(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 1) { Int(0, 1); }
  int64_t Int(int64_t low, int64_t high) {  // both included
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return low + static_cast<int64_t>((state_ >> 33) % static_cast<uint64_t>(high - low + 1));
  }
  bool Coin() { return Int(0, 1) == 1; }
  template <typename T>
  T Of(std::initializer_list<T> values) {
    return *(values.begin() + Int(0, static_cast<int64_t>(values.size()) - 1));
  }
  Dims Shape(int64_t least_rank, int64_t most_rank, bool may_be_empty = true) {
    Dims dims(Int(least_rank, most_rank));
    for (int64_t& dim : dims) dim = may_be_empty && Int(0, 15) == 0 ? 0 : Int(1, 4);
    return dims;
  }
  // What broadcasts to `dims`: leading dimensions left out, some of the others 1.
  Dims Narrower(const Dims& dims) {
    Dims narrow(dims.begin() + Int(0, static_cast<int64_t>(dims.size())), dims.end());
    for (int64_t& dim : narrow) dim = Int(0, 2) == 0 ? 1 : dim;
    return narrow;
  }
  int64_t Axis(int64_t rank) { return Int(-rank, rank - 1); }
  Dims Axes(int64_t rank) {
    Dims axes;
    for (int64_t axis = 0; axis < rank; ++axis) {
      if (Coin()) axes.push_back(Coin() ? axis : axis - rank);
    }
    return axes;
  }
  Dims Permutation(int64_t count) {
    Dims order(count);
    std::iota(order.begin(), order.end(), int64_t{0});
    for (int64_t i = count - 1; i > 0; --i) std::swap(order[i], order[Int(0, i)]);
    return order;
  }
  Dims Ints(int64_t count, int64_t low, int64_t high) {
    Dims values(count);
    for (int64_t& value : values) value = Int(low, high);
    return values;
  }

 private:
  uint64_t state_;
};

inline CaseInput Of(const Dims& dims, double low = 0.4, double high = 2) { return {Shape(dims), low, high}; }

inline Output IntsOf(GraphBuilder& b, const Dims& values, const Dims& shape) {
  Tensor tensor(DataType::kInt32, Shape(shape));
  for (size_t i = 0; i < values.size(); ++i) tensor.mutable_as<int32_t>()[i] = static_cast<int32_t>(values[i]);
  return b.Const(std::move(tensor));
}

inline int64_t Count(const Dims& dims) { return Shape(dims).num_elements(); }

// Families of random networks, images and matrices.
std::vector<GradientCase (*)(Draw&)> RandomNetworkFamilies();

}  // namespace millrace::testing

#endif  // MILLRACE_TESTS_BUILDER_RANDOM_DRAW_H_
