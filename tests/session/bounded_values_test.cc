// What follows from bounds of integers that are known only when running: elements, and sizes of what they size.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "millrace/session.h"
#include "text_session.h"

namespace millrace {
namespace {

using testing::Ints;
using testing::SessionOf;

// `output` of the graph; empty after an error, which fails the test.
Tensor Fetched(const std::string& text, const Session::Feeds& feeds, const std::string& output) {
  const std::unique_ptr<Session> session = SessionOf(text);
  std::vector<Tensor> out;
  const absl::Status status = session->Run(feeds, {output}, {}, &out);
  EXPECT_TRUE(status.ok()) << status;
  return status.ok() ? out.at(0) : Tensor();
}

// x in [0, 65536]; the same times 2^14, and times 2^16 in 64 bits.
constexpr char kClipped[] = R"(
x = Placeholder() {dtype=int32, shape=shape[4]}
axis = Const() {dtype=int32, value=int32[]{0}}
most = Const() {dtype=int32, value=int32[]{65536}}
positive = Maximum(x, axis) {T=int32}
c = Minimum(positive, most) {T=int32}
times = Const() {dtype=int32, value=int32[]{16384}}
d = Mul(c, times) {T=int32}
c64 = Cast(c) {SrcT=int32, DstT=int64}
most64 = Const() {dtype=int64, value=int64[]{65536}}
d64 = Mul(c64, most64) {T=int64}
)";

TEST(BoundedValues, NothingIsKnownOfNumbersThatMayWrapAround) {
  const struct {
    std::string text;
    std::vector<int64_t> values;
  } cases[] = {
      {"y = Mul(c, most) {T=int32}", {196608, 458752, -65536, 0}},
      {"y = Mul(c, c) {T=int32}", {9, 49, -131071, 0}},
      {"y = AddN(d, d, d, d) {N=4, T=int32}", {196608, 458752, -65536, 0}},
      {"y = Sum(d, axis) {T=int32, Tidx=int32, keep_dims=false}", {-2147336192}},
      {"y = Prod(c, axis) {T=int32, Tidx=int32, keep_dims=false}", {-1376256}},
      {"y = Cast(d64) {SrcT=int64, DstT=int32}", {196608, 458752, -65536, 0}},
      {R"(
large = Const() {dtype=int64, value=int64[]{4294967296}}
y = Mul(d64, large) {T=int64})", {844424930131968, 1970324836974592, -281474976710656, 0}},
      {R"(
high = Const() {dtype=int32, value=int32[]{1073741824}}
low = Const() {dtype=int32, value=int32[]{-1073741824}}
above = Maximum(x, low) {T=int32}
between = Minimum(above, high) {T=int32}
y = Sub(between, between) {T=int32})", {0, 0, 0, 0}},
      {R"(
more = Const() {dtype=int32, value=int32[]{65541}}
few = Minimum(positive, more) {T=int32}
product = Mul(few, most) {T=int32}
least = Const() {dtype=int32, value=int32[]{327680}}
y = Maximum(product, least) {T=int32})", {327680, 458752, 327680, 327680}},
  };
  for (const auto& [text, values] : cases) {
    const Tensor y = Fetched(absl::StrCat(kClipped, text), {{"x", Tensor::Vector<int32_t>({3, 7, 65535, 70000})}}, "y");
    EXPECT_EQ(Ints(y), values) << text;
  }
}

// n of 5 are true of m, as n, n up to 4, 2, …; all 5 of q.
constexpr char kCounts[] = R"(
m = Placeholder() {dtype=bool, shape=shape[5]}
q = Placeholder() {dtype=bool, shape=shape[5]}
zero = Const() {dtype=int32, value=int32[]{0}}
one = Const() {dtype=int32, value=int32[]{1}}
two = Const() {dtype=int32, value=int32[]{2}}
four = Const() {dtype=int32, value=int32[]{4}}
minus = Const() {dtype=int32, value=int32[]{-1}}
zeros = Const() {dtype=int32, value=int32[1]{0}}
ones = Const() {dtype=int32, value=int32[1]{1}}
twos = Const() {dtype=int32, value=int32[1]{2}}
where = Where(m) {T=bool}
places = Shape(where) {T=int64, out_type=int32}
n = StridedSlice(places, zeros, ones, ones) {Index=int32, T=int32, shrink_axis_mask=1}
all = Where(q) {T=bool}
all_places = Shape(all) {T=int64, out_type=int32}
p = StridedSlice(all_places, zeros, ones, ones) {Index=int32, T=int32, shrink_axis_mask=1}
begin = ExpandDims(n, zero) {T=int32, Tdim=int32}
end = ExpandDims(p, zero) {T=int32, Tdim=int32}
to4 = Minimum(n, four) {T=int32}
to2 = Minimum(n, two) {T=int32}
to1 = Minimum(n, one) {T=int32}
k = Sub(to4, two) {T=int32}
twelve = Const() {dtype=float, value=float[12]{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}}
box = Const() {dtype=float, value=float[2,3,2]{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}}
pad = Const() {dtype=float, value=float[]{0}}
five = Const() {dtype=int32, value=int32[1]{5}}
fives = Const() {dtype=int32, value=int32[2]{5, 5}}
vector = Fill(five, pad) {T=float, index_type=int32}
matrix = Fill(fives, pad) {T=float, index_type=int32}
wide_shape = Const() {dtype=int32, value=int32[2]{2, 6}}
wide = Reshape(twelve, wide_shape) {T=float, Tshape=int32}
)";

Tensor RunCounted(const std::string& text, int n) {
  Tensor mask(DataType::kBool, Shape({5})), all(DataType::kBool, Shape({5}));
  for (int i = 0; i < 5; ++i) {
    mask.mutable_as<bool>()[i] = i < n;
    all.mutable_as<bool>()[i] = true;
  }
  return Fetched(absl::StrCat(kCounts, text), {{"m", mask}, {"q", all}}, "y");
}

TEST(BoundedValues, SizesThatAreEqualAtTheEndsMayDifferBetweenThem) {
  const struct {
    std::string text;
    int n;
    std::vector<int64_t> values;
  } cases[] = {
      {R"(
r = Range(n, p, one) {Tidx=int32}
y = Size(r) {T=int32, out_type=int32})", 2, {3}},
      {R"(
part = StridedSlice(twelve, begin, end, ones) {Index=int32, T=float}
y = Shape(part) {T=float, out_type=int32})", 2, {3}},
      {R"(
lasts = ExpandDims(k, zero) {T=int32, Tdim=int32}
quarters = Const() {dtype=float, value=float[4]{0, 0.25, 0.5, 0.75}}
part = StridedSlice(quarters, lasts, zeros, ones) {Index=int32, T=float, end_mask=1}
y = Shape(part) {T=float, out_type=int32})", 2, {4}},
      {R"(
mean = Mean(box, to2) {T=float, Tidx=int32, keep_dims=true}
shape = Shape(mean) {T=float, out_type=int32}
y = StridedSlice(shape, ones, twos, ones) {Index=int32, T=int32})", 1, {1}},
      {R"(
part = MatrixDiagPartV3(matrix, k, pad) {T=float, align="RIGHT_LEFT"}
y = Size(part) {T=float, out_type=int32})", 2, {5}},
      {R"(
whole = MatrixDiagV3(vector, k, minus, minus, pad) {T=float, align="RIGHT_LEFT"}
y = Size(whole) {T=float, out_type=int32})", 2, {25}},
      {R"(
whole = MatrixDiagV3(vector, k, minus, minus, pad) {T=float, align="RIGHT_LEFT"}
y = Size(whole) {T=float, out_type=int32})", 0, {49}},
  };
  for (const auto& [text, n, values] : cases) EXPECT_EQ(Ints(RunCounted(text, n)), values) << text;
}

TEST(BoundedValues, WhatIsLargestWithOtherValuesThanTheLargestIsPlannedFor) {
  const struct {
    std::string text;
    int n;
    Shape shape;
  } cases[] = {
      {"y = Range(four, n, minus) {Tidx=int32}", 1, Shape({3})},
      {R"(
less = Sub(n, one) {T=int32}
y = Range(four, less, minus) {Tidx=int32})", 0, Shape({5})},
      {"y = Range(zero, four, n) {Tidx=int32}", 1, Shape({4})},
      {"y = StridedSlice(twelve, ones, five, begin) {Index=int32, T=float}", 1, Shape({4})},
      {"y = ArgMax(wide, to1) {T=float, Tidx=int32, output_type=int64}", 0, Shape({6})},
      {R"(
ids = Const() {dtype=int32, value=int32[3]{0, 1, 0}}
y = GatherV2(wide, ids, to1) {Taxis=int32, Tindices=int32, Tparams=float})", 0, Shape({3, 6})},
      {R"(
tall_shape = Const() {dtype=int32, value=int32[2]{6, 2}}
tall = Reshape(twelve, tall_shape) {T=float, Tshape=int32}
axis = ExpandDims(to1, zero) {T=int32, Tdim=int32}
unique = UniqueV2(tall, axis) {T=float, Taxis=int32, out_idx=int32}
y = Identity(unique:1) {T=int32})", 0, Shape({6})},
      {"y = MatrixDiagPartV3(matrix, to4, pad) {T=float, align=\"RIGHT_LEFT\"}", 1, Shape({4})},
      {R"(
picture_shape = Const() {dtype=int32, value=int32[4]{4, 3, 1, 1}}
picture = Reshape(twelve, picture_shape) {T=float, Tshape=int32}
blocks = Const() {dtype=int32, value=int32[2]{2, 2}}
edges = Pack(to4, zero, zero, zero) {N=4, T=int32, axis=0}
crops = Reshape(edges, blocks) {T=int32, Tshape=int32}
y = BatchToSpaceND(picture, blocks, crops) {T=float, Tblock_shape=int32, Tcrops=int32})", 0, Shape({1, 6, 2, 1})},
      {R"(
edges = Pack(to4, zero) {N=2, T=int32, axis=0}
row = Const() {dtype=int32, value=int32[2]{1, 2}}
pads = Reshape(edges, row) {T=int32, Tshape=int32}
y = MirrorPadGrad(twelve, pads) {T=float, Tpaddings=int32, mode="SYMMETRIC"})", 0, Shape({12})},
  };
  for (const auto& [text, n, shape] : cases) EXPECT_EQ(RunCounted(text, n).shape(), shape) << text;
}

TEST(BoundedValues, AReshapeHasRoomForEachOfItsSizes) {
  const std::string reshaped = R"(
rows = Pack(n, minus) {N=2, T=int32, axis=0}
r = Reshape(twelve, rows) {T=float, Tshape=int32}
)";
  const struct {
    std::string text;
    Shape shape;
  } cases[] = {
      {"y = Sum(r, zero) {T=float, Tidx=int32, keep_dims=false}", Shape({4})},
      {R"(
twice = AddV2(r, r) {T=float}
y = Sum(twice, one) {T=float, Tidx=int32, keep_dims=false})", Shape({3})},
      {R"(
shape = Shape(r) {T=float, out_type=int32}
columns = StridedSlice(shape, ones, twos, ones) {Index=int32, T=int32, shrink_axis_mask=1}
y = Range(zero, columns, one) {Tidx=int32})", Shape({4})},
      {R"(
columns = Pack(minus, n) {N=2, T=int32, axis=0}
s = Reshape(twelve, columns) {T=float, Tshape=int32}
y = MatMul(r, s) {T=float, transpose_a=false, transpose_b=false})", Shape({3, 3})},
  };
  for (const auto& [text, shape] : cases) EXPECT_EQ(RunCounted(absl::StrCat(reshaped, text), 3).shape(), shape) << text;
}

// 300 is no number of 8 bits.
TEST(BoundedValues, SizesOfPartsMayBeNumbersOfFewBits) {
  const Tensor y = RunCounted(R"(
many = Const() {dtype=int32, value=int32[1]{300}}
whole = Fill(many, pad) {T=float, index_type=int32}
twenty = Const() {dtype=int32, value=int32[]{20}}
part = Mul(n, twenty) {T=int32}
sizes = Pack(part, part, part) {N=3, T=int32, axis=0}
few_bits = Cast(sizes) {SrcT=int32, DstT=int8}
parts = SplitV(whole, few_bits, zero) {T=float, Tlen=int8, num_split=3}
y = Identity(parts:2) {T=float}
)", 5);
  EXPECT_EQ(y.shape(), Shape({100}));
}

}  // namespace
}  // namespace millrace
