// XLA's ops as jax2tf writes them: what TensorFlow makes of them, and which forms are refused.
#include <cmath>
#include <fstream>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "millrace/import.h"
#include "millrace/session.h"
#include "text_session.h"

namespace millrace {
namespace {

using testing::Numbers;
using testing::SessionOf;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

bool IsSame(double a, double b) { return (a == b || (std::isnan(a) && std::isnan(b))) && std::signbit(a) == std::signbit(b); }

bool IsClose(double a, double b) {
  if (!std::isfinite(a) || !std::isfinite(b)) return a == b || (std::isnan(a) && std::isnan(b));
  return std::abs(a - b) <= 2e-5 * (1 + std::abs(b));
}

// Sorts and what rounds compute nothing: they give the very bits.
void ExpectNumbers(const std::string& name, const Tensor& got, const Tensor& want) {
  ASSERT_EQ(got.type().ToString(), want.type().ToString()) << name;
  const bool bits = absl::StrContains(name, "bits_RNG") || absl::StrContains(name, "_bits/");
  const bool exact = bits || absl::StrContains(name, "sort") || absl::StrContains(name, "reduce_precision");
  const std::vector<double> a = Numbers(got), b = Numbers(want);
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(exact ? IsSame(a[i], b[i]) : IsClose(a[i], b[i])) << name << "[" << i << "]: " << a[i] << ", expected " << b[i];
  }
}

// make_xla_ops.py wrote the graph and the results.
TEST(XlaOps, GiveWhatTensorFlowAndJaxGive) {
  const auto arrays = LoadArrays(MILLRACE_SOURCE_DIR "/tests/session/xla_ops.npz");
  ASSERT_TRUE(arrays.ok()) << arrays.status();
  const std::string path = absl::StrCat(::testing::TempDir(), "/xla_ops.pb");
  const Tensor& bytes = arrays->at("graph");
  std::ofstream(path, std::ios::binary).write(static_cast<const char*>(bytes.data()), bytes.num_elements());
  absl::StatusOr<Graph> graph = LoadGraph(path);
  ASSERT_TRUE(graph.ok()) << graph.status();
  absl::StatusOr<std::unique_ptr<Session>> session = testing::OpenSession(*std::move(graph), {});
  ASSERT_TRUE(session.ok()) << session.status();
  std::map<std::string, Tensor> feeds;
  std::vector<std::string> fetches;
  for (const auto& [name, value] : *arrays) {
    if (absl::StartsWith(name, "in/")) feeds[name.substr(3)] = value;
    if (absl::StartsWith(name, "out/")) fetches.push_back(name.substr(4));
  }
  std::vector<Tensor> results;
  const absl::Status status = (*session)->Run(feeds, fetches, {}, &results);
  ASSERT_TRUE(status.ok()) << status;
  for (size_t i = 0; i < fetches.size(); ++i) ExpectNumbers(fetches[i], results[i], arrays->at(absl::StrCat("out/", fetches[i])));
  EXPECT_GT(fetches.size(), 170);
}

// Of y, where x is fed.
absl::Status RunOf(const std::string& text) {
  const auto session = SessionOf(text);
  std::vector<Tensor> out;
  return session->Run({{"x", Tensor(DataType::kFloat, Shape({2, 3}))}}, {"y"}, {}, &out);
}
constexpr char kFed[] = "x = Placeholder() {dtype=float, shape=shape[2,3]}\n";

TEST(XlaOps, FormsWithoutOtherOpsAreRefusedByName) {
  const absl::Status precision = RunOf(absl::StrCat(kFed, "y = XlaReducePrecision(x) {T=float, exponent_bits=0, mantissa_bits=4}\n"));
  EXPECT_EQ(precision.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(precision.message()), AllOf(HasSubstr("node 'y' (XlaReducePrecision)"), HasSubstr("keeps 0 bits of exponent and 4 of mantissa")));
  const absl::Status dot = RunOf(absl::StrCat(kFed, "y = XlaDot(x, x) {T=float, dimension_numbers=\"\\n\\001\\001\\022\\001\\000\"}\n"));
  EXPECT_THAT(std::string(dot.message()), AllOf(HasSubstr("'y' (XlaDot)"), HasSubstr("differ in what is summed over")));
  const absl::Status numbers = RunOf(absl::StrCat(kFed, "y = XlaDot(x, x) {T=float, dimension_numbers=\"\\n\\177\"}\n"));
  EXPECT_THAT(std::string(numbers.message()), HasSubstr("is no message of dimension numbers"));
  const auto bits = [](int algorithm, const char* dtype) {
    return RunOf(absl::StrCat(kFed, "a = Const() {dtype=int32, value=int32[]{", algorithm, "}}\ns = Const() {dtype=uint64, value=uint64[3]{1,2,3}}\n",
                              "n = Const() {dtype=int32, value=int32[1]{4}}\ny = XlaRngBitGenerator(a, s, n) {dtype=", dtype, ", Tshape=int32}\n"));
  };
  EXPECT_THAT(std::string(bits(7, "uint32").message()), AllOf(HasSubstr("'y' (XlaRngBitGenerator)"), HasSubstr("draws by algorithm 7")));
  EXPECT_THAT(std::string(bits(2, "uint32").message()), HasSubstr("from a state of 3 numbers, expected Philox (1 or 3), or ThreeFry (2) from 2"));
  EXPECT_THAT(std::string(bits(1, "float").message()), HasSubstr("dtype is float, expected uint8, uint32 or uint64"));
  absl::StatusOr<Graph> native = ParseGraphText(absl::StrCat(kFed, "y = XlaCallModule(x) {Tin=[float], Tout=[float]}\n"));
  ASSERT_TRUE(native.ok()) << native.status();
  std::vector<Tensor> out;
  const auto session = testing::OpenSession(*std::move(native), {});
  const absl::Status module = session.ok() ? (*session)->Run({{"x", Tensor(DataType::kFloat, Shape({2, 3}))}}, {"y"}, {}, &out) : session.status();
  EXPECT_THAT(std::string(module.message()), AllOf(HasSubstr("XlaCallModule (1x, first at 'y')"), HasSubstr("native_serialization=False")));
  const absl::Status square = RunOf(absl::StrCat(kFed, "y = XlaSelfAdjointEig(x) {T=float, lower=true}\n"));
  EXPECT_THAT(std::string(square.message()), HasSubstr("expected square matrices"));
}

// XlaSort and XlaKeyValueSort have no function to compare by: all bits count.
TEST(XlaOps, SortsWithoutComparatorsAreOfAllBits) {
  const float nan = std::copysign(std::numeric_limits<float>::quiet_NaN(), 1.0f), infinite = std::numeric_limits<float>::infinity();
  for (const char* dtype : {"float", "double", "half", "bfloat16"}) {
    const auto session = SessionOf(absl::StrCat(
        "x = Placeholder() {dtype=float, shape=shape[8]}\nv = Const() {dtype=int32, value=int32[8]{0,1,2,3,4,5,6,7}}\nk = Cast(x) {SrcT=float, DstT=", dtype,
        "}\nsorted = XlaSort(k) {T=", dtype, "}\nboth = XlaKeyValueSort(k, v) {K=", dtype, ", V=int32}\ny = Cast(sorted) {SrcT=", dtype,
        ", DstT=float}\nkeys = Cast(both) {SrcT=", dtype, ", DstT=float}\nvalues = Identity(both:1) {T=int32}\n"));
    std::vector<Tensor> out;
    const absl::Status status =
        session->Run({{"x", Tensor::Vector<float>({0.0f, 2, -0.0f, nan, -nan, infinite, -infinite, -0.0f})}}, {"y", "keys", "values"}, {}, &out);
    ASSERT_TRUE(status.ok()) << status;
    const std::vector<double> want = {-nan, -infinite, -0.0, -0.0, 0, 2, infinite, nan};
    for (int fetched : {0, 1}) {
      const std::vector<double> got = Numbers(out[fetched]);
      for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(IsSame(got[i], want[i])) << dtype << "[" << i << "]: " << got[i];
    }
    EXPECT_THAT(Numbers(out[2]), ElementsAre(4, 6, 2, 7, 0, 1, 5, 3)) << dtype;
  }
}

TEST(XlaOps, MayHaveSizesThatFollowFromValues) {
  const auto session = SessionOf(absl::StrCat(kFed, R"(
zero = Const() {dtype=float, value=float[]{0}}
larger = Greater(x, zero) {T=float}
rows = Where(larger) {T=bool}
places = Cast(rows) {SrcT=int64, DstT=float}
y = XlaDot(places, places) {T=float, dimension_numbers="\n\001\001\022\001\001"}
)"));
  Tensor x(DataType::kFloat, Shape({2, 3}));
  x.mutable_as<float>()[2] = x.mutable_as<float>()[3] = 1;
  std::vector<Tensor> out;
  const absl::Status status = session->Run({{"x", x}}, {"y"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Numbers(out[0]), ElementsAre(4, 0, 0, 1));
}

TEST(XlaOps, AreLoweredInLoopsAndFunctionsToo) {
  const auto session = SessionOf(R"(
function more
  i = _Arg() {T=int32, index=0}
  v = _Arg() {T=float, index=1}
  k = Const() {dtype=float, value=float[2,2]{0, 1, 2, 0}}
  one = Const() {dtype=int32, value=int32[]{1}}
  next = AddV2(i, one) {T=int32}
  w = XlaDot(v, k) {T=float, dimension_numbers="\n\001\000\022\001\000"}
  ri = _Retval(next) {T=int32, index=0}
  rv = _Retval(w) {T=float, index=1}
end
function few
  i = _Arg() {T=int32, index=0}
  v = _Arg() {T=float, index=1}
  three = Const() {dtype=int32, value=int32[]{3}}
  less = Less(i, three) {T=int32}
  r = _Retval(less) {T=bool, index=0}
end
x = Placeholder() {dtype=float, shape=shape[2]}
zero = Const() {dtype=int32, value=int32[]{0}}
loop = StatelessWhile(zero, x) {T=[int32,float], cond=&few, body=&more}
y = Identity(loop:1) {T=float}
)");
  std::vector<Tensor> out;
  const absl::Status status = session->Run({{"x", Tensor::Vector<float>({1, 3})}}, {"y"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Numbers(out[0]), ElementsAre(12, 2));
}

}  // namespace
}  // namespace millrace
