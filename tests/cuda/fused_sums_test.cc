// Groups of ops with reductions of what they compute, by the kernel that reads the ops: the bits of the group's kernel and those of
// the reductions' behind it, whose terms are no small integers. Once as loops (cuda_kernels_test) and once on the grid
// (cuda_grid_test), where threads run in another order from barrier to barrier.
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cuda/launch/fused.h"
#include "cuda/launch/reduce.h"
#include "cuda/launch/reduce_index.h"
#include "reductions.h"

namespace millrace::cuda {
namespace {

constexpr int kX = 0, kY = 1, kScale = 2;                                     // whole ones, and one element for all
constexpr int kDifference = kMaxFusedOperands, kProduct = kMaxFusedOperands + 1;  // x - y, and that times the scale
const FusedReductionOf kSums[] = {{kProduct, Type::kFloat, FusedReduction::kSum},
                                  {kX, Type::kFloat, FusedReduction::kMean},
                                  {kDifference, Type::kFloat, FusedReduction::kMax},
                                  {kProduct, Type::kFloat, FusedReduction::kMin}};

FusedReduceProgram ProgramOf(Type type, int reductions, bool writes) {
  FusedReduceProgram program;
  program.group.inputs = 3;
  for (int k = 0; k < 3; ++k) program.group.types[k] = type;
  program.group.operands[kScale] = FusedOperand::kOne;
  const auto step = [&](BinaryOp op, int a, int b) {
    FusedStep& made = program.group.step[program.group.steps++];
    made = {.kind = FusedKind::kBinary, .op = static_cast<uint8_t>(op), .from = type, .to = type};
    made.operands[0] = static_cast<uint8_t>(a);
    made.operands[1] = static_cast<uint8_t>(b);
  };
  step(BinaryOp::kSub, kX, kY);
  step(BinaryOp::kMul, kDifference, kScale);
  if (writes) program.group.result[program.group.results++].step = kProduct - kMaxFusedOperands;
  program.reductions = reductions;
  for (int k = 0; k < reductions; ++k) {
    program.reduction[k] = kSums[k];
    program.reduction[k].type = type;
  }
  return program;
}

template <typename T>
class Tensors {
 public:
  explicit Tensors(const Reduction& reduction) : shape_(ShapeOf(reduction)), elements_(shape_.rows * shape_.terms) {
    std::mt19937 random(static_cast<uint32_t>(elements_));
    for (std::vector<T>* input : {&x_, &y_}) {
      for (int64_t i = 0; i < elements_; ++i) input->push_back(Number(static_cast<double>(random() % 20001) / 3000 - 3));
    }
    scale_ = Number(0.7);
  }

  // What is written, and what is reduced, by kernels of their own.
  std::vector<std::vector<T>> Apart(Type type, int reductions) const {
    FusedReduceProgram program = ProgramOf(type, 0, true);
    program.group.result[program.group.results++].step = kDifference - kMaxFusedOperands;
    std::vector<T> product(elements_), difference(elements_), x = x_;
    FusedArguments arguments = Arguments(x.data(), product.data());
    arguments.outputs[1] = difference.data();
    Fault fault;
    LaunchFused({.fault = &fault}, program.group, arguments);
    std::vector<std::vector<T>> results{product};
    for (int k = 0; k < reductions; ++k) {
      static constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMax, ReduceOp::kMin};
      const std::vector<T>& of = kSums[k].operand == kX ? x_ : kSums[k].operand == kProduct ? product : difference;
      std::vector<char> partial(ReduceScratchBytes(shape_.rows, shape_.terms, shape_.columns));
      std::vector<T> reduced(shape_.rows);
      LaunchReduce({.fault = &fault}, kOps[static_cast<int>(kSums[k].op)], type, shape_, of.data(), reduced.data(), partial.data());
      results.push_back(std::move(reduced));
    }
    return results;
  }

  // The same by one kernel; in_place: what is written takes the place of x. The first is empty where nothing is written.
  std::vector<std::vector<T>> Together(Type type, int reductions, bool writes, bool in_place, Fault fault = {}) const {
    const SumGrid grid = SumGridOf(shape_.rows, shape_.terms, shape_.columns);
    std::vector<T> x = x_, product(elements_);
    FusedReduceArguments arguments;
    arguments.group = Arguments(x.data(), writes ? in_place ? x.data() : product.data() : nullptr);
    arguments.group.fault = &fault;
    arguments.rows = shape_.rows;
    arguments.terms = shape_.terms;
    arguments.chunks = grid.chunks;
    arguments.columns = shape_.columns;
    arguments.row_index = RowIndexOf(shape_);
    arguments.term_index = TermIndexOf(shape_);
    std::vector<double> partial(grid.chunks > 1 ? shape_.rows * grid.chunks * reductions : 0);
    arguments.partial = partial.data();
    std::vector<std::vector<T>> results(1 + reductions, std::vector<T>(shape_.rows));
    for (int k = 0; k < reductions; ++k) arguments.reduced[k] = results[1 + k].data();
    LaunchFusedReduce({.fault = &fault}, ProgramOf(type, reductions, writes), arguments);
    results[0] = !writes ? std::vector<T>() : in_place ? x : product;
    return results;
  }

 private:
  static T Number(double value) { return Wide<T>::Narrow(static_cast<typename Wide<T>::type>(value)); }
  FusedArguments Arguments(const T* x, T* product) const {
    FusedArguments arguments;
    arguments.elements = elements_;
    arguments.inputs[kX] = x;
    arguments.inputs[kY] = y_.data();
    arguments.inputs[kScale] = &scale_;
    arguments.outputs[0] = product;
    return arguments;
  }

  const ReduceShape shape_;
  const int64_t elements_;
  std::vector<T> x_, y_;
  T scale_;
};

// NaN as NaN: the mean of nothing.
template <typename T>
bool SameBits(const std::vector<T>& a, const std::vector<T>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    const bool nan = Widen(a[i]) != Widen(a[i]) && Widen(b[i]) != Widen(b[i]);
    if (!nan && std::memcmp(&a[i], &b[i], sizeof(T)) != 0) return false;
  }
  return true;
}

template <typename T>
void ExpectTheBitsApart(Type type, const Reduction& reduction, int reductions) {
  SCOPED_TRACE(std::to_string(reductions) + " reductions of" + reduction.ToString());
  const Tensors<T> tensors(reduction);
  const auto apart = tensors.Apart(type, reductions);
  for (bool writes : {false, true}) {
    for (bool in_place : {false, true}) {
      if (in_place && !writes) continue;
      const auto together = tensors.Together(type, reductions, writes, in_place);
      for (size_t k = writes ? 0 : 1; k < apart.size(); ++k) {
        EXPECT_TRUE(SameBits(together[k], apart[k])) << "result " << k << ", " << writes << in_place;
      }
    }
  }
}

std::vector<Reduction> Shapes() {
  std::vector<Reduction> shapes = Reductions();
  shapes.push_back({{1, 5}, {false, true}});
  shapes.push_back({{1, 4097}, {false, true}});     // a row, in chunks of which one is short
  shapes.push_back({{257, 1025}, {false, true}});   // a block for a row
  shapes.push_back({{1023, 33}, {true, false}});
  shapes.push_back({{0, 5}, {false, true}});
  return shapes;
}

TEST(FusedSumsTest, HaveTheBitsOfTheKernelsApart) {
  for (const Reduction& reduction : Shapes()) {
    for (int reductions : {1, 2, 4}) ExpectTheBitsApart<float>(Type::kFloat, reduction, reductions);
  }
}

TEST(FusedSumsTest, HaveTheBitsOfTheKernelsApartInEveryType) {
  for (const Reduction& reduction : {Reduction{{3, 9001}, {false, true}}, Reduction{{110, 70}, {false, true}}, Reduction{{1099, 37}, {true, false}}}) {
    ExpectTheBitsApart<double>(Type::kDouble, reduction, 3);
    ExpectTheBitsApart<Half>(Type::kHalf, reduction, 3);
    ExpectTheBitsApart<Bfloat16>(Type::kBfloat16, reduction, 3);
  }
}

// What a step computes after a fault is not looked at, and may come of numbers that lead outside of tensors.
TEST(FusedSumsTest, NothingIsReadOrWrittenAfterAFault) {
  for (const Reduction& reduction : Shapes()) {
    const auto results = Tensors<float>(reduction).Together(Type::kFloat, 4, true, false, {.code = FaultCode::kBadLabel});
    for (const std::vector<float>& result : results) EXPECT_TRUE(SameBits(result, std::vector<float>(result.size()))) << reduction.ToString();
  }
}

}  // namespace
}  // namespace millrace::cuda
