// Gradients of functions that name none (SymbolicGradient): each op's against differences of the function itself, in double.
#include <cmath>
#include <complex>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "millrace/session.h"
#include "text_session.h"

namespace millrace {
namespace {

using testing::Numbers;
using testing::SessionOf;
using ::testing::AllOf;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;

struct Case {
  const char* name;
  Shape x, y;
  const char* body;  // makes z of x and y; T stands for {T=double}, I for {T=double, Tidx=int32}
};

void PrintTo(const Case& of, std::ostream* out) { *out << of.name; }

// What functions of one tensor, elementwise, are tested with: x and y alike.
Case OfOne(const char* name, const char* body) { return {name, Shape({2, 3}), Shape({3}), body}; }

constexpr char kGraph[] = R"(
function f
  x = _Arg() {T=double, index=0}
  y = _Arg() {T=double, index=1}
  zero = Const() {dtype=int32, value=int32[]{0}}
  one = Const() {dtype=int32, value=int32[]{1}}
  zeros = Const() {dtype=int32, value=int32[2]{0, 1}}
  two = Const() {dtype=int32, value=int32[2]{2, 2}}
  turn = Const() {dtype=int32, value=int32[2]{1, 0}}
  half = Const() {dtype=double, value=double[]{0.5}}
  BODY
  result = _Retval(z) {T=double, index=0}
end
x = Placeholder() {dtype=double}
y = Placeholder() {dtype=double}
dz = Placeholder() {dtype=double}
z = f(x, y)
g = SymbolicGradient(x, y, dz) {Tin=[double, double, double], Tout=[double, double], f=&f}
)";

std::string GraphOf(const Case& of) {
  const std::string body = absl::StrReplaceAll(of.body, {{" T\n", " {T=double}\n"}, {" I\n", " {T=double, Tidx=int32}\n"}});
  return absl::StrReplaceAll(kGraph, {{"BODY", body}});
}

class SymbolicGradients : public ::testing::TestWithParam<Case> {};

// In (0.2, 0.9), no two alike.
Tensor Values(const Shape& shape, double shift) {
  Tensor tensor(DataType::kDouble, shape);
  constexpr double kGolden = 0.618034;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) tensor.mutable_as<double>()[i] = 0.2 + 0.7 * std::fmod(shift + kGolden * static_cast<double>(i), 1.0);
  return tensor;
}

TEST_P(SymbolicGradients, AreWhatDifferencesTell) {
  const auto session = SessionOf(GraphOf(GetParam()));
  Session::Feeds feeds = {{"x", Values(GetParam().x, 0.3)}, {"y", Values(GetParam().y, 0.55)}};
  std::vector<Tensor> out;
  const absl::Status ran = session->Run(feeds, {"z"}, {}, &out);
  ASSERT_TRUE(ran.ok()) << ran;
  const Tensor dz = Values(out[0].shape(), 0.1);
  const auto weighed = [&] {
    std::vector<Tensor> result;
    const absl::Status status = session->Run(feeds, {"z"}, {}, &result);
    EXPECT_TRUE(status.ok()) << status;
    double sum = 0;
    for (int64_t i = 0; i < dz.num_elements(); ++i) sum += result[0].DoubleAt(i) * dz.DoubleAt(i);
    return sum;
  };
  std::vector<Tensor> gradients;
  Session::Feeds with_dz = feeds;
  with_dz["dz"] = dz;
  const absl::Status status = session->Run(with_dz, {"g:0", "g:1"}, {}, &gradients);
  ASSERT_TRUE(status.ok()) << status;
  constexpr double kStep = 1e-5, kTolerance = 1e-7;
  for (int k = 0; k < 2; ++k) {
    const char* const input = k == 0 ? "x" : "y";
    const Tensor at = feeds[input];
    ASSERT_EQ(gradients[k].shape(), at.shape());
    std::vector<double> expected;
    for (int64_t i = 0; i < at.num_elements(); ++i) {
      const auto moved = [&](double by) {
        Tensor values(at.dtype(), at.shape());
        for (int64_t e = 0; e < at.num_elements(); ++e) values.mutable_as<double>()[e] = at.DoubleAt(e) + (e == i ? by : 0);
        feeds[input] = values;
        return weighed();
      };
      expected.push_back((moved(kStep) - moved(-kStep)) / (2 * kStep));
      feeds[input] = at;
    }
    EXPECT_THAT(Numbers(gradients[k]), Pointwise(DoubleNear(kTolerance), expected)) << input;
  }
}

INSTANTIATE_TEST_SUITE_P(OfOne, SymbolicGradients, ::testing::Values(
    OfOne("Abs", "n = Neg(x) T\n z = Abs(n) T\n"), OfOne("Acos", "z = Acos(x) T\n"), OfOne("Asin", "z = Asin(x) T\n"), OfOne("Atan", "z = Atan(x) T\n"),
    OfOne("Atanh", "z = Atanh(x) T\n"), OfOne("Cos", "z = Cos(x) T\n"), OfOne("Cosh", "z = Cosh(x) T\n"), OfOne("Exp", "z = Exp(x) T\n"),
    OfOne("Expm1", "z = Expm1(x) T\n"), OfOne("Log", "z = Log(x) T\n"), OfOne("Log1p", "z = Log1p(x) T\n"), OfOne("Reciprocal", "z = Reciprocal(x) T\n"),
    OfOne("Inv", "z = Inv(x) T\n"), OfOne("Relu", "d = Sub(x, half) T\n z = Relu(d) T\n"), OfOne("Relu6", "d = Sub(x, half) T\n z = Relu6(d) T\n"),
    OfOne("Rsqrt", "z = Rsqrt(x) T\n"), OfOne("Sigmoid", "z = Sigmoid(x) T\n"), OfOne("Sign", "s = Sign(x) T\n z = Mul(s, x) T\n"),
    OfOne("Sin", "z = Sin(x) T\n"), OfOne("Sinh", "z = Sinh(x) T\n"), OfOne("Sqrt", "z = Sqrt(x) T\n"), OfOne("Square", "z = Square(x) T\n"),
    OfOne("Tan", "z = Tan(x) T\n"), OfOne("Tanh", "z = Tanh(x) T\n")));

INSTANTIATE_TEST_SUITE_P(OfTwo, SymbolicGradients, ::testing::Values(
    OfOne("Add", "z = Add(x, y) T\n"), OfOne("AddV2", "z = AddV2(y, x) T\n"), OfOne("Div", "z = Div(x, y) T\n"), OfOne("RealDiv", "z = RealDiv(y, x) T\n"),
    OfOne("DivNoNan", "z = DivNoNan(x, y) T\n"), OfOne("Maximum", "z = Maximum(x, y) T\n"), OfOne("Minimum", "z = Minimum(x, y) T\n"),
    OfOne("Mul", "z = Mul(x, y) T\n"), OfOne("Pow", "z = Pow(x, y) T\n"), OfOne("SquaredDifference", "z = SquaredDifference(x, y) T\n"),
    OfOne("MulNoNan", "z = MulNoNan(x, y) T\n"), OfOne("Xdivy", "z = Xdivy(x, y) T\n"), OfOne("Xlog1py", "z = Xlog1py(x, y) T\n"),
    OfOne("Xlogy", "z = Xlogy(x, y) T\n"), OfOne("Sub", "z = Sub(y, x) T\n"),
    Case{"Select", Shape({2, 3}), Shape({2, 3}), "c = Greater(x, half) T\n s = Mul(x, x) T\n z = Select(c, s, y) T\n"}));

INSTANTIATE_TEST_SUITE_P(OfArrays, SymbolicGradients, ::testing::Values(
    OfOne("BroadcastTo", "s = Shape(x) {T=double, out_type=int32}\n b = BroadcastTo(y, s) I\n z = Mul(b, x) T\n"),
    OfOne("Cast", "c = Cast(half) {SrcT=double, DstT=float}\n d = Cast(c) {SrcT=float, DstT=double}\n z = Mul(d, x) T\n"),
    OfOne("Concat", "s = Square(x) T\n z = Concat(one, x, s) {T=double, N=2}\n"),
    OfOne("ConcatV2", "last = Const() {dtype=int32, value=int32[]{-2}}\n s = Square(x) T\n z = ConcatV2(x, s, x, last) {T=double, N=3, Tidx=int32}\n"),
    OfOne("ExpandDims", "e = ExpandDims(x, zero) {T=double, Tdim=int32}\n z = Square(e) T\n"),
    Case{"Fill", Shape({}), Shape({3}), "z = Fill(two, x) {T=double, index_type=int32}\n"}, OfOne("Identity", "z = Identity(x) T\n"),
    OfOne("Pack", "s = Square(x) T\n z = Pack(x, s, x) {T=double, N=3, axis=1}\n"),
    OfOne("Reshape", "w = Const() {dtype=int32, value=int32[1]{6}}\n r = Reshape(x, w) {T=double, Tshape=int32}\n z = Square(r) T\n"),
    OfOne("ReverseV2", "z = ReverseV2(x, zeros) I\n"),
    OfOne("Slice", "s = Const() {dtype=int32, value=int32[2]{-1, 2}}\n c = Slice(x, zeros, s) {T=double, Index=int32}\n z = Square(c) T\n"),
    OfOne("Split", "s = Split(one, x) {T=double, num_split=3}\n z = Mul(s, s:2) T\n"),
    OfOne("SplitV", "n = Const() {dtype=int32, value=int32[2]{1, 2}}\n s = SplitV(x, n, one) {T=double, Tlen=int32, num_split=2}\n z = Mul(s:0, s:1) T\n"),
    Case{"Squeeze", Shape({1, 2}), Shape({3}), "s = Squeeze(x) {T=double, squeeze_dims=[0]}\n z = Square(s) T\n"},
    OfOne("StridedSlice", "e = Const() {dtype=int32, value=int32[2]{2, 3}}\n s = Const() {dtype=int32, value=int32[2]{1, 2}}\n"
                          "c = StridedSlice(x, turn, e, s) {T=double, Index=int32, shrink_axis_mask=1}\n z = Square(c) T\n"),
    OfOne("Transpose", "t = Transpose(x, turn) {T=double, Tperm=int32}\n z = Square(t) T\n"),
    OfOne("Unpack", "u = Unpack(x) {T=double, num=3, axis=1}\n z = Mul(u, u:2) T\n")));

INSTANTIATE_TEST_SUITE_P(OfLayers, SymbolicGradients, ::testing::Values(
    Case{"AvgPool", Shape({1, 4, 4, 1}), Shape({1}), "z = AvgPool(x) {T=double, ksize=[1, 2, 2, 1], strides=[1, 1, 1, 1], padding=\"VALID\"}\n"},
    Case{"BatchMatMul", Shape({2, 2, 3}), Shape({2, 3, 2}), "z = BatchMatMul(x, y) T\n"},
    Case{"BatchMatMulV2", Shape({2, 3, 2}), Shape({3, 2}), "z = BatchMatMulV2(x, y) {T=double, adj_x=true}\n"},
    OfOne("BiasAdd", "z = BiasAdd(x, y) T\n"),
    Case{"Conv2D", Shape({1, 4, 4, 1}), Shape({2, 2, 1, 2}), "z = Conv2D(x, y) {T=double, strides=[1, 2, 2, 1], padding=\"SAME\"}\n"},
    OfOne("LogSoftmax", "z = LogSoftmax(x) T\n"),
    Case{"MatMul", Shape({2, 3}), Shape({3, 2}), "z = MatMul(x, y) T\n"},
    Case{"MatMulTransposed", Shape({3, 2}), Shape({3, 2}), "z = MatMul(x, y) {T=double, transpose_a=true}\n"},
    Case{"MatMulByTransposed", Shape({2, 3}), Shape({2, 3}), "z = MatMul(x, y) {T=double, transpose_b=true}\n"},
    Case{"MatMulBothTransposed", Shape({3, 2}), Shape({2, 3}), "z = MatMul(x, y) {T=double, transpose_a=true, transpose_b=true}\n"},
    OfOne("Max", "z = Max(x, one) I\n"), OfOne("Min", "z = Min(x, zero) {T=double, Tidx=int32, keep_dims=true}\n"),
    Case{"MaxPool", Shape({1, 4, 4, 1}), Shape({1}), "z = MaxPool(x) {T=double, ksize=[1, 2, 2, 1], strides=[1, 1, 1, 1], padding=\"VALID\"}\n"},
    OfOne("Mean", "s = Square(x) T\n z = Mean(s, one) I\n"), OfOne("MeanOfAll", "s = Square(x) T\n z = Mean(s, zeros) I\n"),
    OfOne("Softmax", "z = Softmax(x) T\n"), OfOne("Sum", "s = Square(x) T\n z = Sum(s, zero) {T=double, Tidx=int32, keep_dims=true}\n"),
    OfOne("SumOfMany", "e = Exp(x) T\n a = Mul(x, e) T\n b = Mul(x, y) T\n c = AddV2(a, b) T\n k = StopGradient(half) T\n d = Mul(c, x) T\n z = Sub(d, k) T\n"),
    OfOne("Constant", "z = Identity(half) T\n")));

// A function that calls another, as a training step that differentiates it.
constexpr char kTraining[] = R"(
function inner
  a = _Arg() {T=float, index=0}
  b = _Arg() {T=float, index=1}
  p = Mul(a, b) {T=float}
  s = Add(a, b) {T=float}
  r = _Retval(p) {T=float, index=0}
  q = _Retval(s) {T=float, index=1}
end
function outer
  h = _Arg() {T=resource, index=0}
  x = _Arg() {T=float, index=1}
  n = _Arg() {T=int32, index=2}
  w = ReadVariableOp(h) {dtype=float}
  i = inner(w, x)
  y = Mul(i, i:1) {T=float}
  t = Cast(n) {SrcT=int32, DstT=float}
  z = Mul(y, t) {T=float}
  r = _Retval(z) {T=float, index=0}
end
v = VarHandleOp() {dtype=float, shape=shape[2], shared_name="v"}
start = Const() {dtype=float, value=float[2]{1, 2}}
init = AssignVariableOp(v, start) {dtype=float}
x = Placeholder() {dtype=float, shape=shape[2]}
n = Const() {dtype=int32, value=int32[]{3}}
dz = Const() {dtype=float, value=float[2]{1, 10}}
g = SymbolicGradient(v, x, n, dz) {Tin=[resource, float, int32, float], Tout=[float, float, int32], f=&outer}
rate = Const() {dtype=float, value=float[]{0.5}}
train = ResourceApplyGradientDescent(v, rate, g) {T=float}
)";

// z = 3 w x (w + x).
TEST(SymbolicGradientsOfCalls, GoThroughFunctionsAndVariables) {
  const auto session = SessionOf(kTraining);
  ASSERT_TRUE(session->Run({}, {}, {"init"}, nullptr).ok());
  std::vector<Tensor> out;
  const absl::Status status = session->Run({{"x", Tensor::Vector<float>({4, 5})}}, {"g:0", "g:1", "g:2"}, {"train"}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Numbers(out[0]), ElementsAre(3 * 4 * (2 * 1 + 4), 30 * 5 * (2 * 2 + 5)));
  EXPECT_THAT(Numbers(out[1]), ElementsAre(3 * 1 * (1 + 2 * 4), 30 * 2 * (2 + 2 * 5)));
  EXPECT_EQ(out[2].IntAt(0), 4 * 5 + 10 * 2 * 5 * 7);
  const auto variables = session->Variables();
  ASSERT_TRUE(variables.ok()) << variables.status();
  EXPECT_THAT(Numbers(variables->at("v")), ElementsAre(1 - 0.5 * 72, 2 - 0.5 * 1350));
}

// Integers come out of the function that is called, and of a cast; neither has a gradient from anywhere.
constexpr char kOfIntegers[] = R"(
function inner
  a = _Arg() {T=float, index=0}
  n = _Arg() {T=int32, index=1}
  p = Mul(a, a) {T=float}
  m = Add(n, n) {T=int32}
  r = _Retval(p) {T=float, index=0}
  q = _Retval(m) {T=int32, index=1}
end
function outer
  x = _Arg() {T=float, index=0}
  n = _Arg() {T=int32, index=1}
  i = inner(x, n)
  j = inner(i, i:1)
  c = Cast(x) {SrcT=float, DstT=int64}
  s = Shape(c) {T=int64, out_type=int32}
  y = Reshape(j, s) {T=float, Tshape=int32}
  r = _Retval(y) {T=float, index=0}
end
x = Placeholder() {dtype=float, shape=shape[2]}
n = Const() {dtype=int32, value=int32[]{3}}
dz = Const() {dtype=float, value=float[2]{1, 10}}
g = SymbolicGradient(x, n, dz) {Tin=[float, int32, float], Tout=[float, int32], f=&outer}
)";

// y = x^4.
TEST(SymbolicGradientsOfCalls, OfIntegersAreZerosOfTheirTypes) {
  std::vector<Tensor> out;
  const absl::Status status = SessionOf(kOfIntegers)->Run({{"x", Tensor::Vector<float>({1, 2})}}, {"g:0", "g:1"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Numbers(out[0]), ElementsAre(4, 320));
  EXPECT_EQ(out[1].IntAt(0), 0);
}

constexpr char kOfComplexNumbers[] = R"(
function f
  x = _Arg() {T=complex64, index=0}
  y = _Arg() {T=complex64, index=1}
  z = Mul(x, y) {T=complex64}
  r = _Retval(z) {T=complex64, index=0}
end
x = Placeholder() {dtype=complex64, shape=shape[1,1]}
y = Placeholder() {dtype=complex64, shape=shape[1,1]}
g = SymbolicGradient(x, y, x) {Tin=[complex64, complex64, complex64], Tout=[complex64, complex64], f=&f}
)";

// x times the conjugates of y and of x.
TEST(SymbolicGradientsOfCalls, OfComplexNumbersTakeConjugates) {
  Tensor x(DataType::kComplex64, Shape({1, 1})), y(DataType::kComplex64, Shape({1, 1}));
  x.mutable_as<std::complex<float>>()[0] = {1, 2};
  y.mutable_as<std::complex<float>>()[0] = {3, 4};
  std::vector<Tensor> out;
  const absl::Status status = SessionOf(kOfComplexNumbers)->Run({{"x", x}, {"y", y}}, {"g:0", "g:1"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(out[0].as<std::complex<float>>()[0], std::complex<float>(11, 2));
  EXPECT_EQ(out[1].as<std::complex<float>>()[0], std::complex<float>(5, 0));
  const auto of_matrices = SessionOf(absl::StrReplaceAll(kOfComplexNumbers, {{"Mul(", "MatMul("}}));
  EXPECT_THAT(of_matrices->Run({{"x", x}, {"y", y}}, {"g:0"}, {}, &out).ToString(),
              HasSubstr("op MatMul of its node 'z' has no gradient in a function"));
}

TEST(SymbolicGradientsOfCalls, OfOpsThatHaveNoneAreRefusedByName) {
  const auto session = SessionOf(absl::StrReplaceAll(kTraining, {{"p = Mul(a, b) {T=float}", "p = Erf(a) {T=float}"}}));
  std::vector<Tensor> out;
  EXPECT_THAT(session->Run({{"x", Tensor::Vector<float>({4, 5})}}, {"g:0"}, {}, &out).ToString(),
              AllOf(HasSubstr("gradient of function 'inner'"), HasSubstr("op Erf of its node 'p' has no gradient in a function")));
}

TEST(SymbolicGradientsOfCalls, OfNodesThatLackInputsOrHaveTooManyOutputsAreRefused) {
  const auto refusal = [](const std::string& node) {
    std::vector<Tensor> out;
    const auto session = SessionOf(absl::StrReplaceAll(kTraining, {{"p = Mul(a, b) {T=float}", node}}));
    return session->Run({{"x", Tensor::Vector<float>({4, 5})}}, {"g:0"}, {}, &out).ToString();
  };
  EXPECT_THAT(refusal("p = Mul(a) {T=float}"), HasSubstr("node 'p' (Mul) lacks inputs"));
  EXPECT_THAT(refusal("p = Unpack(a) {T=float, num=1000000000000}"), HasSubstr("node 'p' (Unpack) has 1000000000000 outputs, expected at most 65536"));
}

}  // namespace
}  // namespace millrace
