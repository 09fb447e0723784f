// Graphs whose shapes are known only when running: values by hand, bits over partition sizes, budgets and threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "graph/text.h"
#include "millrace/session.h"
#include "testlib/open_session.h"
#include "text_session.h"

namespace millrace {
namespace {

using testing::OpenSession;
using testing::SessionOf;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

template <typename T>
std::vector<T> Values(const Tensor& tensor) {
  return {tensor.as<T>().begin(), tensor.as<T>().end()};
}

Tensor Matrix(Shape shape, const std::vector<float>& values) {
  Tensor tensor(DataType::kFloat, std::move(shape));
  std::copy(values.begin(), values.end(), tensor.mutable_as<float>().begin());
  return tensor;
}

// Rows of x that a mask keeps, doubled; how many there are; their sum.
constexpr char kMasked[] = R"(
x = Placeholder() {dtype=float, shape=shape[5,2]}
mask = Placeholder() {dtype=bool, shape=shape[5]}
where = Where(mask) {T=bool}
flat_shape = Const() {dtype=int32, value=int32[1]{-1}}
rows = Reshape(where, flat_shape) {T=int64, Tshape=int32}
axis = Const() {dtype=int32, value=int32[]{0}}
kept = GatherV2(x, rows, axis) {Taxis=int32, Tindices=int64, Tparams=float}
twice = AddV2(kept, kept) {T=float}
shape = Shape(twice) {T=float, out_type=int32}
begin = Const() {dtype=int32, value=int32[1]{0}}
end = Const() {dtype=int32, value=int32[1]{1}}
count = StridedSlice(shape, begin, end, end) {Index=int32, T=int32, shrink_axis_mask=1}
total = Sum(twice, axis) {T=float, Tidx=int32, keep_dims=false}
)";

TEST(DynamicShapes, MaskKeepsAsManyRowsAsItHasNowNoneIncluded) {
  const std::unique_ptr<Session> session = SessionOf(kMasked);
  const Tensor x = Matrix({5, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  const auto run = [&](std::vector<bool> keep) {
    Tensor mask(DataType::kBool, Shape({5}));
    for (int i = 0; i < 5; ++i) mask.mutable_as<bool>()[i] = keep[i];
    std::vector<Tensor> out;
    const absl::Status status =
        session->Run({{"x", x}, {"mask", mask}}, {"twice", "count", "total", "shape"}, {}, &out);
    EXPECT_TRUE(status.ok()) << status;
    return out;
  };
  std::vector<Tensor> out = run({false, true, false, false, true});
  EXPECT_EQ(out.at(0).shape(), Shape({2, 2}));
  EXPECT_THAT(Values<float>(out.at(0)), ElementsAre(6, 8, 18, 20));
  EXPECT_THAT(Values<int32_t>(out.at(1)), ElementsAre(2));
  EXPECT_THAT(Values<float>(out.at(2)), ElementsAre(24, 28));
  out = run({false, false, false, false, false});
  EXPECT_EQ(out.at(0).shape(), Shape({0, 2}));
  EXPECT_THAT(Values<int32_t>(out.at(3)), ElementsAre(0, 2));
  EXPECT_THAT(Values<float>(out.at(2)), ElementsAre(0, 0));
  out = run({true, true, true, true, true});
  EXPECT_EQ(out.at(0).shape(), Shape({5, 2}));
  EXPECT_THAT(Values<float>(out.at(2)), ElementsAre(50, 60));
}

// The multiples of how many rows a variable keeps, as gradients of TopKV2 number the rows of a matrix.
constexpr char kMultiples[] = R"(
v = VarHandleOp() {dtype=bool, shape=shape[5], shared_name="v"}
kept = Const() {dtype=bool, value=bool[5]{true, false, true, true, true}}
init = AssignVariableOp(v, kept) {dtype=bool}
mask = ReadVariableOp(v) {dtype=bool}
where = Where(mask) {T=bool}
shape = Shape(where) {T=int64, out_type=int32}
begin = Const() {dtype=int32, value=int32[1]{0}}
end = Const() {dtype=int32, value=int32[1]{1}}
count = StridedSlice(shape, begin, end, end) {Index=int32, T=int32, shrink_axis_mask=1}
three = Const() {dtype=int32, value=int32[]{3}}
limit = Mul(count, three) {T=int32}
zero = Const() {dtype=int32, value=int32[]{0}}
multiples = Range(zero, limit, count) {Tidx=int32}
)";

TEST(DynamicShapes, ARangeMayHaveALimitAndAStepThatAreKnownOnlyWhenRunning) {
  const std::unique_ptr<Session> session = SessionOf(kMultiples);
  absl::Status status = session->Run({}, {}, {"init"}, nullptr);
  ASSERT_TRUE(status.ok()) << status;
  std::vector<Tensor> out;
  status = session->Run({}, {"multiples"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Values<int32_t>(out.at(0)), ElementsAre(0, 4, 8));
}

// Twice as many rows or only the first, by the sign of their sum; what comes out is added up.
std::string SidesOf(const std::string& fewer) {
  return absl::StrCat(R"(
function more
  x = _Arg() {T=float, index=0}
  axis = Const() {dtype=int32, value=int32[]{0}}
  both = ConcatV2(x, x, axis) {N=2, T=float, Tidx=int32}
  r = _Retval(both) {T=float, index=0}
end
function fewer
  x = _Arg() {T=float, index=0}
  begin = Const() {dtype=int32, value=int32[2]{0, 0}}
  size = Const() {dtype=int32, value=int32[2]{1, 2}}
  first = Slice(x, begin, size) {Index=int32, T=float}
  axis = Const() {dtype=int32, value=int32[]{0}}
  )", fewer, R"(
  r = _Retval(kept) {T=float, index=0}
end
x = Placeholder() {dtype=float, shape=shape[3,2]}
axes = Const() {dtype=int32, value=int32[2]{0, 1}}
zero = Const() {dtype=float, value=float[]{0}}
sum = Sum(x, axes) {T=float, Tidx=int32, keep_dims=false}
p = Greater(sum, zero) {T=float}
c = If(p, x) {Tcond=bool, then_branch=&more, else_branch=&fewer}
y = Neg(c) {T=float}
axis = Const() {dtype=int32, value=int32[]{0}}
total = Sum(y, axis) {T=float, Tidx=int32, keep_dims=false}
)");
}

TEST(DynamicShapes, SidesOfAConditionalMayGiveDifferentNumbersOfRows) {
  const std::unique_ptr<Session> session = SessionOf(SidesOf("kept = Identity(first) {T=float}"));
  const auto run = [&](const Tensor& x) {
    std::vector<Tensor> out;
    const absl::Status status = session->Run({{"x", x}}, {"y", "total"}, {}, &out);
    EXPECT_TRUE(status.ok()) << status;
    return out;
  };
  std::vector<Tensor> out = run(Matrix({3, 2}, {1, 2, 3, 4, 5, 6}));
  ASSERT_EQ(out.size(), 2);
  EXPECT_EQ(out[0].shape(), Shape({6, 2}));
  EXPECT_THAT(Values<float>(out[1]), ElementsAre(-18, -24));
  out = run(Matrix({3, 2}, {1, 2, -30, 4, 5, 6}));
  ASSERT_EQ(out.size(), 2);
  EXPECT_EQ(out[0].shape(), Shape({1, 2}));
  EXPECT_THAT(Values<float>(out[0]), ElementsAre(-1, -2));
  EXPECT_THAT(Values<float>(out[1]), ElementsAre(-1, -2));
}

TEST(DynamicShapes, AnAxisThatIsKnownOnlyWhenRunningTakesADimensionAway) {
  const std::unique_ptr<Session> session = SessionOf(R"(
x = Placeholder() {dtype=float, shape=shape[3,2]}
w = VarHandleOp() {dtype=float, shape=shape[], shared_name="w"}
sign = ReadVariableOp(w) {dtype=float}
none = Const() {dtype=float, value=float[]{0}}
p = Greater(sign, none) {T=float}
zero = Const() {dtype=int32, value=int32[]{0}}
one = Const() {dtype=int32, value=int32[]{1}}
axis = Select(p, zero, one) {T=int32}
sum = Sum(x, axis) {T=float, Tidx=int32, keep_dims=false}
shape = Shape(sum) {T=float, out_type=int32}
back = Reshape(sum, shape) {T=float, Tshape=int32}
y = Neg(back) {T=float}
)");
  for (const float sign : {1.0f, -1.0f, 2.0f}) {
    ASSERT_TRUE(session->SetVariable("w", Tensor::Scalar(sign)).ok());
    std::vector<Tensor> out;
    const absl::Status status = session->Run({{"x", Matrix({3, 2}, {1, 2, 3, 4, 5, 6})}}, {"y", "shape"}, {}, &out);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_THAT(Values<float>(out[0]), sign > 0 ? ElementsAreArray({-9, -12}) : ElementsAreArray({-3, -7, -11}));
    EXPECT_THAT(Values<int32_t>(out[1]), ElementsAre(sign > 0 ? 2 : 3));
  }
}

TEST(DynamicShapes, SidesOfAConditionalMayDifferInRank) {
  const std::unique_ptr<Session> session = SessionOf(SidesOf("kept = Sum(first, axis) {T=float, Tidx=int32, keep_dims=false}"));
  for (const float last : {6.0f, -60.0f, 6.0f}) {
    std::vector<Tensor> out;
    const absl::Status status = session->Run({{"x", Matrix({3, 2}, {1, 2, 3, 4, 5, last})}}, {"y"}, {}, &out);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(out[0].shape(), last > 0 ? Shape({6, 2}) : Shape({2}));
    EXPECT_THAT(std::vector<float>(out[0].as<float>().begin(), out[0].as<float>().begin() + 2), ElementsAre(-1, -2));
  }
}

// Adam's sparse update: gradients of equal ids are summed, the variable's rows change once.
constexpr char kSparseUpdate[] = R"(
ids = Placeholder() {dtype=int32, shape=shape[4]}
grads = Placeholder() {dtype=float, shape=shape[4,2]}
table = VarHandleOp() {dtype=float, shape=shape[3,2], shared_name="table"}
zeros = Const() {dtype=float, value=float[3,2]{0, 0, 0, 0, 0, 0}}
init = AssignVariableOp(table, zeros) {dtype=float}
unique = Unique(ids) {T=int32, out_idx=int32}
shape = Shape(unique) {T=int32, out_type=int32}
begin = Const() {dtype=int32, value=int32[1]{0}}
end = Const() {dtype=int32, value=int32[1]{1}}
count = StridedSlice(shape, begin, end, end) {Index=int32, T=int32, shrink_axis_mask=1}
summed = UnsortedSegmentSum(grads, unique:1, count) {T=float, Tindices=int32, Tnumsegments=int32}
two = Const() {dtype=float, value=float[]{2}}
scaled = Mul(summed, two) {T=float}
update = ResourceScatterAdd(table, unique, scaled) {Tindices=int32, dtype=float}
)";

TEST(DynamicShapes, SparseUpdateAddsRowsOfEqualIdsFirst) {
  const std::unique_ptr<Session> session = SessionOf(kSparseUpdate);
  ASSERT_TRUE(session->Run({}, {}, {"init"}, nullptr).ok());
  const Tensor grads = Matrix({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  for (const std::vector<int32_t>& ids : {std::vector<int32_t>{2, 0, 2, 2}, std::vector<int32_t>{1, 1, 1, 1}}) {
    std::vector<Tensor> out;
    const absl::Status status =
        session->Run({{"ids", Tensor::Vector<int32_t>(ids)}, {"grads", grads}}, {"summed"}, {"update"}, &out);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(out.at(0).shape(), Shape({ids[1] == 0 ? 2 : 1, 2}));
  }
  EXPECT_THAT(Values<float>(session->Variables()->at("table")), ElementsAre(6, 8, 32, 40, 26, 32));
}

// What is planned for is the kernel that runs: constants of an op with dynamic shapes lie in the device's memory.
TEST(DynamicShapes, ConstantRowsAreSummedByIdsThatAreKnownOnlyWhenRunning) {
  const std::unique_ptr<Session> session = SessionOf(R"(
ids = Placeholder() {dtype=int32, shape=shape[4]}
rows = Const() {dtype=float, value=float[4,2]{1, 2, 3, 4, 5, 6, 7, 8}}
unique = Unique(ids) {T=int32, out_idx=int32}
count = Size(unique) {T=int32, out_type=int32}
summed = UnsortedSegmentSum(rows, unique:1, count) {T=float, Tindices=int32, Tnumsegments=int32}
)");
  std::vector<Tensor> out;
  const absl::Status status = session->Run({{"ids", Tensor::Vector<int32_t>({7, 9, 7, 7})}}, {"summed"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(out.at(0).shape(), Shape({2, 2}));
  EXPECT_THAT(Values<float>(out[0]), ElementsAre(13, 16, 3, 4));
}

// Rows go to two experts by their sign and come back in their order; an expert may get none.
constexpr char kExperts[] = R"(
x = Placeholder() {dtype=float, shape=shape[4,2]}
choice = Placeholder() {dtype=int32, shape=shape[4]}
row_ids = Const() {dtype=int32, value=int32[4]{0, 1, 2, 3}}
w0 = Const() {dtype=float, value=float[2,2]{1, 0, 0, 1}}
w1 = Const() {dtype=float, value=float[2,2]{0, 10, 10, 0}}
bias = Const() {dtype=float, value=float[2]{0.5, 0.25}}
parts = DynamicPartition(x, choice) {T=float, num_partitions=2}
places = DynamicPartition(row_ids, choice) {T=int32, num_partitions=2}
y0 = MatMul(parts, w0) {T=float, transpose_a=false, transpose_b=false}
y1 = MatMul(parts:1, w1) {T=float, transpose_a=false, transpose_b=false}
b0 = BiasAdd(y0, bias) {T=float}
b1 = Relu(y1) {T=float}
back = DynamicStitch(places, places:1, b0, b1) {N=2, T=float}
z = AddV2(back, x) {T=float}
gw = MatMul(parts:1, b1) {T=float, transpose_a=true, transpose_b=false}
)";

TEST(DynamicShapes, RowsGoToExpertsAndComeBackWithTheSameBitsUnderEveryPlan) {
  const Tensor x = Matrix({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  std::vector<SessionOptions> plans(1);
  plans[0].planning.strategy = "baseline";
  for (int64_t size : {1, 2, 3, 100}) {
    plans.emplace_back();
    plans.back().planning.strategy = "tensorflowmem";
    plans.back().planning.partition_size = size;
    plans.back().planning.swap_distance = 0;
  }
  for (const char* strategy : {"lru", "planned"}) {
    plans.emplace_back();
    plans.back().planning.strategy = strategy;
    plans.back().planning.device_memory_bytes = 640;
  }
  plans.emplace_back();
  plans.back().threads = 4;
  for (const SessionOptions& options : plans) {
    const std::unique_ptr<Session> session = SessionOf(kExperts, options);
    const auto run = [&](std::vector<int32_t> choice) {
      std::vector<Tensor> out;
      const absl::Status status =
          session->Run({{"x", x}, {"choice", Tensor::Vector<int32_t>(choice)}}, {"z", "gw", "b1"}, {}, &out);
      EXPECT_TRUE(status.ok()) << options.planning.strategy << " " << status;
      out.resize(3);
      return out;
    };
    std::vector<Tensor> out = run({0, 1, 1, 0});
    EXPECT_THAT(Values<float>(out[0]), ElementsAre(2.5f, 4.25f, 43, 34, 65, 56, 14.5f, 16.25f));
    EXPECT_EQ(out[2].shape(), Shape({2, 2}));
    EXPECT_THAT(Values<float>(out[1]), ElementsAre(3 * 40 + 5 * 60, 3 * 30 + 5 * 50, 4 * 40 + 6 * 60, 4 * 30 + 6 * 50));
    out = run({0, 0, 0, 0});
    EXPECT_EQ(out[2].shape(), Shape({0, 2}));
    EXPECT_THAT(Values<float>(out[1]), ElementsAre(0, 0, 0, 0));
    out = run({0, 1, 1, 0});
    EXPECT_THAT(Values<float>(out[0]), ElementsAre(2.5f, 4.25f, 43, 34, 65, 56, 14.5f, 16.25f));
  }
}

// Sizes of the parts are values: SplitV, and ConcatV2 back.
constexpr char kSplit[] = R"(
x = Placeholder() {dtype=float, shape=shape[3,2]}
sizes = Placeholder() {dtype=int32, shape=shape[2]}
axis = Const() {dtype=int32, value=int32[]{0}}
parts = SplitV(x, sizes, axis) {T=float, Tlen=int32, num_split=2}
n = Neg(parts:1) {T=float}
joined = ConcatV2(n, parts, axis) {N=2, T=float, Tidx=int32}
shapes = ShapeN(n, parts) {N=2, T=float, out_type=int32}
offsets = ConcatOffset(axis, shapes, shapes:1) {N=2}
second = Slice(joined, offsets:1, shapes:1) {Index=int32, T=float}
)";

TEST(DynamicShapes, SplitByComputedSizesAndSlicedAgain) {
  const std::unique_ptr<Session> session = SessionOf(kSplit);
  const Tensor x = Matrix({3, 2}, {1, 2, 3, 4, 5, 6});
  for (int first : {0, 1, 3}) {
    std::vector<Tensor> out;
    const absl::Status status = session->Run({{"x", x}, {"sizes", Tensor::Vector<int32_t>({first, 3 - first})}},
                                             {"joined", "second"}, {}, &out);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(out[0].shape(), Shape({3, 2}));
    EXPECT_EQ(out[1].shape(), Shape({first, 2}));
    if (first == 1) {
      EXPECT_THAT(Values<float>(out[0]), ElementsAre(-3, -4, -5, -6, 1, 2));
      EXPECT_THAT(Values<float>(out[1]), ElementsAre(1, 2));
    }
  }
  const absl::Status status =
      session->Run({{"x", x}, {"sizes", Tensor::Vector<int32_t>({2, 2})}}, {"joined"}, {}, nullptr);
  EXPECT_THAT(std::string(status.message()), HasSubstr("'parts' (SplitV)"));
}

TEST(DynamicShapes, OutputLargerThanItsBoundIsAnErrorThatNamesTheNode) {
  // Sorted segment ids are taken to have no gaps.
  const std::unique_ptr<Session> session = SessionOf(R"(
x = Placeholder() {dtype=float, shape=shape[3]}
ids = Placeholder() {dtype=int32, shape=shape[3]}
sums = SegmentSum(x, ids) {T=float, Tindices=int32}
)");
  std::vector<Tensor> out;
  const Tensor x = Tensor::Vector<float>({1, 2, 3});
  ASSERT_TRUE(session->Run({{"x", x}, {"ids", Tensor::Vector<int32_t>({0, 0, 1})}}, {"sums"}, {}, &out).ok());
  EXPECT_THAT(Values<float>(out[0]), ElementsAre(3, 3));
  const absl::Status status = session->Run({{"x", x}, {"ids", Tensor::Vector<int32_t>({0, 0, 7})}}, {"sums"}, {}, &out);
  EXPECT_THAT(std::string(status.message()), HasSubstr("'sums' (SegmentSum)"));
}

TEST(DynamicShapes, SizesBetweenEqualLimitsAreKnownAndThoseBelowOneHaveABound) {
  const std::unique_ptr<Session> session = SessionOf(R"(
n = Placeholder() {dtype=int32, shape=shape[]}
one = Const() {dtype=float, value=float[]{1}}
axis = Const() {dtype=int32, value=int32[]{0}}
least = Const() {dtype=int32, value=int32[]{4}}
more = Maximum(n, least) {T=int32}
four = Minimum(more, least) {T=int32}
dims = ExpandDims(four, axis) {T=int32, Tdim=int32}
filled = Fill(dims, one) {T=float, index_type=int32}
nothing = Const() {dtype=int32, value=int32[]{0}}
some = Maximum(n, nothing) {T=int32}
few = Minimum(some, least) {T=int32}
few_dims = ExpandDims(few, axis) {T=int32, Tdim=int32}
ones = Fill(few_dims, one) {T=float, index_type=int32}
open_dims = ExpandDims(more, axis) {T=int32, Tdim=int32}
open = Fill(open_dims, one) {T=float, index_type=int32}
)");
  for (int32_t n : {-1, 2, 9}) {
    std::vector<Tensor> out;
    const absl::Status status = session->Run({{"n", Tensor::Scalar<int32_t>(n)}}, {"filled", "ones"}, {}, &out);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(out[0].shape(), Shape({4}));
    EXPECT_EQ(out[1].shape(), Shape({n < 0 ? 0 : n > 4 ? 4 : n}));
  }
  const absl::Status status = session->Plan({{"n", {DataType::kInt32, Shape()}}}, {"open"}, {}).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("'open' (Fill)"));
}

// A sum over the last dimension of rows that a mask keeps, and its gradient's shape by DynamicStitch.
TEST(DynamicShapes, ShapesStitchedOfBoundedPiecesHaveBounds) {
  const std::unique_ptr<Session> session = SessionOf(std::string(kMasked) + R"(
both = Const() {dtype=int32, value=int32[2]{0, 1}}
last = Const() {dtype=int32, value=int32[1]{1}}
single = Const() {dtype=int32, value=int32[1]{1}}
reduced = DynamicStitch(both, last, shape, single) {N=2, T=int32}
sums = Sum(twice, last) {T=float, Tidx=int32, keep_dims=false}
back = Reshape(sums, reduced) {T=float, Tshape=int32}
spread = BroadcastTo(back, shape) {T=float, Tidx=int32}
)");
  const Tensor x = Matrix({5, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  for (int kept : {0, 1, 4}) {
    Tensor mask(DataType::kBool, Shape({5}));
    for (int i = 0; i < 5; ++i) mask.mutable_as<bool>()[i] = i < kept;
    std::vector<Tensor> out;
    const absl::Status status = session->Run({{"x", x}, {"mask", mask}}, {"spread"}, {}, &out);
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_EQ(out[0].shape(), Shape({kept, 2}));
    for (int i = 0; i < kept; ++i) EXPECT_EQ(out[0].as<float>()[2 * i + 1], static_cast<float>(8 * i + 6));
  }
}

constexpr char kSized[] = R"(
n = Placeholder() {dtype=int32, shape=shape[]}
zero = Const() {dtype=float, value=float[]{0}}
axis = Const() {dtype=int32, value=int32[]{0}}
size = VariableV2() {dtype=int32, shape=shape[]}
set_size = Assign(size, axis) {T=int32, use_locking=true, validate_shape=true}
both = AddV2(n, size) {T=int32}
)";

TEST(DynamicShapes, SizeWithoutABoundIsFound) {
  const std::unique_ptr<Session> session = SessionOf(absl::StrCat(kSized, R"(
dims = ExpandDims(both, axis) {T=int32, Tdim=int32}
filled = Fill(dims, zero) {T=float, index_type=int32}
)"));
  ASSERT_TRUE(session->Run({}, {}, {"set_size"}, nullptr).ok());
  std::vector<Tensor> out;
  const absl::Status status = session->Run({{"n", Tensor::Scalar<int32_t>(3)}}, {"filled", "both"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(out[0].shape(), Shape({out[1].IntAt(0)}));
}

// As many as the largest count of positive numbers in a row: planned again for each value of the feed that says so.
TEST(DynamicShapes, SizeThatFollowsFromFedValuesAloneIsPlannedForThem) {
  const std::unique_ptr<Session> session = SessionOf(absl::StrCat(kSized, R"(
mask = Placeholder() {dtype=float, shape=shape[2,3]}
positive = Greater(mask, zero) {T=float}
ones = Cast(positive) {DstT=int32, SrcT=bool}
last = Const() {dtype=int32, value=int32[]{1}}
counts = Sum(ones, last) {T=int32, Tidx=int32, keep_dims=false}
most = Max(counts, axis) {T=int32, Tidx=int32, keep_dims=false}
numbers = Range(axis, most, last) {Tidx=int32}
)"));
  const auto run = [&](const std::vector<float>& mask) {
    std::vector<Tensor> out;
    const absl::Status status = session->Run({{"mask", Matrix({2, 3}, mask)}}, {"numbers", "mask"}, {}, &out);
    EXPECT_TRUE(status.ok()) << status;
    if (!status.ok()) return std::vector<int32_t>();
    EXPECT_EQ(Values<float>(out[1]), mask);
    return Values<int32_t>(out[0]);
  };
  EXPECT_THAT(run({1, 0, 0, 2, 0, 3}), ElementsAre(0, 1));
  EXPECT_THAT(run({1, 1, 1, 2, 0, 3}), ElementsAre(0, 1, 2));
  EXPECT_THAT(run({0, 0, 0, 0, 0, 0}), ElementsAre());
  EXPECT_THAT(run({1, 0, 0, 2, 0, 3}), ElementsAre(0, 1));
  const Session::FeedTypes types = {{"mask", {DataType::kFloat, Shape({2, 3})}}};
  EXPECT_THAT(std::string(session->Plan(types, {"numbers"}, {}).status().message()), HasSubstr("'numbers' (Range)"));
  // Such a plan is right for those values alone, which it holds.
  session->PlanWithFeeds({{"mask", Matrix({2, 3}, {1, 0, 0, 2, 0, 3})}});
  const absl::StatusOr<std::shared_ptr<const ExecutionPlan>> plan = session->Plan(types, {"numbers"}, {});
  ASSERT_TRUE(plan.ok()) << plan.status();
  const absl::Status used = session->UsePlan(*plan, types, {"numbers"}, {});
  EXPECT_TRUE(used.ok()) << used;
}

// The bound of the rows is 3 and 2 of them come: a Reshape to another rank says how many there are.
TEST(DynamicShapes, AReshapeToAKnownShapeOfAnotherRankSettlesABound) {
  absl::StatusOr<Graph> graph = ParseGraphText(
      "x = Placeholder() {dtype=float, shape=shape[3]}\nzero = Const() {dtype=float, value=float[]{0}}\n"
      "keep = Greater(x, zero) {T=float}\nwhere = Where(keep) {T=bool}\n"
      "shape = Const() {dtype=int32, value=int32[3]{1, 2, 1}}\ny = Reshape(where, shape) {T=int64, Tshape=int32}\n"
      "flat = Const() {dtype=int32, value=int32[1]{2}}\nz = Reshape(where, flat) {T=int64, Tshape=int32}\n");
  ASSERT_TRUE(graph.ok()) << graph.status();
  absl::StatusOr<std::unique_ptr<Session>> session = OpenSession(*std::move(graph), {});
  ASSERT_TRUE(session.ok()) << session.status();
  Tensor x(DataType::kFloat, Shape({3}));
  for (int i = 0; i < 3; ++i) x.mutable_as<float>()[i] = i == 1 ? -1.0f : 1.0f;
  std::vector<Tensor> out;
  const absl::Status status = (*session)->Run({{"x", x}}, {"y", "z"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(out[0].shape(), Shape({1, 2, 1}));
  EXPECT_EQ(out[1].as<int64_t>()[1], 2);
}

// The gradient of a slice whose place a step computes, as a random crop's is: the shape is known, the place is not.
TEST(DynamicShapes, GradientsOfSlicesAtComputedPlacesLieWhereTheSlicesWere) {
  const std::unique_ptr<Session> session = SessionOf(R"(
place = VarHandleOp() {dtype=int32, shape=shape[1], shared_name="place"}
one = Const() {dtype=int32, value=int32[1]{1}}
init = AssignVariableOp(place, one) {dtype=int32}
begin = ReadVariableOp(place) {dtype=int32}
two = Const() {dtype=int32, value=int32[1]{2}}
end = AddV2(begin, two) {T=int32}
shape = Const() {dtype=int32, value=int32[1]{5}}
dy = Placeholder() {dtype=float, shape=shape[2]}
dx = StridedSliceGrad(shape, begin, end, one, dy) {Index=int32, T=float}
move = AssignAddVariableOp(place, one) ^dx {dtype=int32}
)");
  ASSERT_TRUE(session->Run({}, {}, {"init"}, nullptr).ok());
  Tensor dy(DataType::kFloat, Shape({2}));
  dy.mutable_as<float>()[0] = 7;
  dy.mutable_as<float>()[1] = 8;
  std::vector<Tensor> out;
  ASSERT_TRUE(session->Run({{"dy", dy}}, {"dx"}, {"move"}, &out).ok());
  EXPECT_THAT(Values<float>(out[0]), ElementsAre(0, 7, 8, 0, 0));
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(session->Run({{"dy", dy}}, {"dx"}, {"move"}, &out).ok());
  EXPECT_THAT(Values<float>(out[0]), ElementsAre(0, 0, 0, 7, 8));
  // Beyond the end the slice is one shorter than dy.
  const absl::Status status = session->Run({{"dy", dy}}, {"dx"}, {"move"}, &out);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("'dx'"));
}

// Both branches of a conditional give one shape, as Keras's sums of sparse gradients do: it is known whichever is taken.
TEST(DynamicShapes, WhatIsTheSameOnBothSidesIsKnown) {
  constexpr char kGraph[] = R"(
which = VarHandleOp() {dtype=bool, shape=shape[], shared_name="which"}
yes = Const() {dtype=bool, value=bool[]{true}}
init = AssignVariableOp(which, yes) {dtype=bool}
taken = ReadVariableOp(which) {dtype=bool}
one = Const() {dtype=int32, value=int32[2]{2, 3}}
other = Const() {dtype=int32, value=int32[2]{2, %d}}
side = Switch(one, taken) {T=int32}
other_side = Switch(other, taken) {T=int32}
dims = Merge(other_side:0, side:1) {T=int32, N=2}
half = Const() {dtype=float, value=float[]{0.5}}
filled = Fill(dims, half) {T=float, index_type=int32}
)";
  const std::unique_ptr<Session> session = SessionOf(absl::StrFormat(kGraph, 3));
  ASSERT_TRUE(session->Run({}, {}, {"init"}, nullptr).ok());
  std::vector<Tensor> out;
  const absl::Status status = session->Run({}, {"filled"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(out[0].shape(), Shape({2, 3}));
  const std::unique_ptr<Session> differs = SessionOf(absl::StrFormat(kGraph, 4));
  ASSERT_TRUE(differs->Run({}, {}, {"init"}, nullptr).ok());
  const absl::Status found = differs->Run({}, {"filled"}, {}, &out);
  ASSERT_TRUE(found.ok()) << found;
  EXPECT_EQ(out[0].shape(), Shape({2, 3}));
}

// Tensors without elements have shapes, too; what is reduced of nothing is one element.
TEST(DynamicShapes, OfTensorsWithoutElementsAreFetched) {
  const std::unique_ptr<Session> session = SessionOf(R"(
x = Placeholder() {dtype=float, shape=shape[0,7]}
n = VarHandleOp() {dtype=int32, shape=shape[2], shared_name="n"}
start = Const() {dtype=int32, value=int32[2]{0, 3}}
init = AssignVariableOp(n, start) {dtype=int32}
size = ReadVariableOp(n) {dtype=int32}
from = Const() {dtype=int32, value=int32[2]{0, 2}}
part = Slice(x, from, size) {T=float, Index=int32}
axes = Placeholder() {dtype=int64, shape=shape[1]}
sum = Sum(x, axes) {T=float, Tidx=int64, keep_dims=true}
least = Sum(x, axes) {T=float, Tidx=int64}
)");
  ASSERT_TRUE(session->Run({}, {}, {"init"}, nullptr).ok());
  const Tensor x(DataType::kFloat, Shape({0, 7}));
  for (const int64_t axis : {0, 1}) {
    std::vector<Tensor> out;
    const absl::Status status = session->Run({{"x", x}, {"axes", Tensor::Vector<int64_t>({axis})}}, {"part", "sum", "least"}, {}, &out);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(out[0].shape(), Shape({0, 3}));
    EXPECT_EQ(out[1].shape(), axis == 0 ? Shape({1, 7}) : Shape({0, 1}));
    EXPECT_EQ(out[2].shape(), axis == 0 ? Shape({7}) : Shape({0}));
    for (const float sum : out[1].as<float>()) EXPECT_EQ(sum, 0);
  }
}

// Values are fewer along the axis, counts are a vector.
TEST(DynamicShapes, UniqueSlicesAreCountedAlongAnyAxis) {
  const Tensor x = Matrix({2, 4}, {1, 2, 1, 1, 5, 6, 5, 5});
  for (const int axis : {1, -1, 0, -2}) {
    const std::unique_ptr<Session> session = SessionOf(absl::StrCat(R"(
x = Placeholder() {dtype=float, shape=shape[2,4]}
axis = Const() {dtype=int32, value=int32[1]{)", axis, R"(}}
unique = UniqueWithCountsV2(x, axis) {T=float, Taxis=int32, out_idx=int32}
)"));
    std::vector<Tensor> out;
    const absl::Status status = session->Run({{"x", x}}, {"unique", "unique:1", "unique:2"}, {}, &out);
    ASSERT_TRUE(status.ok()) << status;
    const bool columns = axis == 1 || axis == -1;
    EXPECT_EQ(out[0].shape(), columns ? Shape({2, 2}) : Shape({2, 4}));
    EXPECT_THAT(Values<int32_t>(out[1]), columns ? ElementsAreArray({0, 1, 0, 0}) : ElementsAreArray({0, 1}));
    EXPECT_THAT(Values<int32_t>(out[2]), columns ? ElementsAreArray({3, 1}) : ElementsAreArray({1, 1}));
  }
}

TEST(DynamicShapes, FedSlicesGoToTheEndWhereTheirSizeSaysSo) {
  const std::unique_ptr<Session> session = SessionOf(R"(
x = Placeholder() {dtype=float, shape=shape[5]}
begin = Placeholder() {dtype=int32, shape=shape[1]}
size = Placeholder() {dtype=int32, shape=shape[1]}
part = Slice(x, begin, size) {T=float, Index=int32}
twice = AddV2(part, part) {T=float}
)");
  const auto run = [&](int32_t begin, int32_t size) {
    std::vector<Tensor> out;
    const absl::Status status = session->Run({{"x", Matrix({5}, {1, 2, 3, 4, 5})}, {"begin", Tensor::Vector<int32_t>({begin})},
                                              {"size", Tensor::Vector<int32_t>({size})}}, {"twice"}, {}, &out);
    EXPECT_TRUE(status.ok()) << status;
    return status.ok() ? Values<float>(out[0]) : std::vector<float>();
  };
  EXPECT_THAT(run(1, -1), ElementsAre(4, 6, 8, 10));
  EXPECT_THAT(run(3, -1), ElementsAre(8, 10));
  EXPECT_THAT(run(3, 1), ElementsAre(8));
  EXPECT_THAT(run(5, -1), ElementsAre());
}

}  // namespace
}  // namespace millrace
