// Branches that are not taken: sizes and values that only a step has may be wrong there, and nothing comes of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "millrace/session.h"
#include "text_session.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::unique_ptr<Session> Make(const std::string& text, const std::string& strategy, const std::string& device) {
  SessionOptions options;
  options.planning.strategy = strategy;
  options.device = device;
  return testing::SessionOf(text, std::move(options));
}

Tensor Three(float a, float b, float c) {
  Tensor tensor(DataType::kFloat, Shape({3}));
  std::copy_n(std::vector<float>{a, b, c}.begin(), 3, tensor.mutable_as<float>().begin());
  return tensor;
}

Tensor Bool(bool value) {
  Tensor tensor(DataType::kBool, Shape());
  tensor.mutable_as<bool>()[0] = value;
  return tensor;
}

std::vector<float> Values(const Tensor& tensor) { return {tensor.as<float>().begin(), tensor.as<float>().end()}; }

// Functions of two branches: what is positive, or everything.
constexpr char kFunctions[] = R"(
function positive
  x = _Arg() {T=float, index=0}
  zero = Const() {dtype=float, value=float[]{0}}
  mask = Greater(x, zero) {T=float}
  where = Where(mask) {T=bool}
  flat = Const() {dtype=int32, value=int32[1]{-1}}
  rows = Reshape(where, flat) {T=int64, Tshape=int32}
  axis = Const() {dtype=int32, value=int32[]{0}}
  kept = GatherV2(x, rows, axis) {Taxis=int32, Tindices=int64, Tparams=float}
  r = _Retval(kept) {T=float, index=0}
end
function all
  x = _Arg() {T=float, index=0}
  y = Identity(x) {T=float}
  r = _Retval(y) {T=float, index=0}
end
p = Placeholder() {dtype=bool, shape=shape[]}
x = Placeholder() {dtype=float, shape=shape[3]}
y = If(p, x) {Tcond=bool, then_branch=&positive, else_branch=&all}
twice = AddV2(y, y) {T=float}
)";

// The same as TensorFlow 1 writes it, with the gradient of the sum of squares: what either side adds up has the rows of the side
// that is taken.
constexpr char kGradient[] = R"(
p = Placeholder() {dtype=bool, shape=shape[]}
x = Placeholder() {dtype=float, shape=shape[3]}
s = Switch(x, p) {T=float}
zero = Const() {dtype=float, value=float[]{0}}
mask = Greater(s:1, zero) {T=float}
where = Where(mask) {T=bool}
flat = Const() {dtype=int32, value=int32[1]{-1}}
rows = Reshape(where, flat) {T=int64, Tshape=int32}
axis = Const() {dtype=int32, value=int32[]{0}}
kept = GatherV2(s:1, rows, axis) {Taxis=int32, Tindices=int64, Tparams=float}
all = Identity(s) {T=float}
y = Merge(all, kept) {N=2, T=float}
twice = AddV2(y, y) {T=float}
d = Switch(twice, p) {T=float}
three = Const() {dtype=int32, value=int32[]{3}}
sums = UnsortedSegmentSum(d:1, rows, three) {T=float, Tindices=int64, Tnumsegments=int32}
same = Identity(d) {T=float}
dx = Merge(same, sums) {N=2, T=float}
)";

class BranchesNotTaken : public ::testing::TestWithParam<const char*> {};

TEST_P(BranchesNotTaken, SidesMayDifferInSizesThatAreKnownOnlyWhenRunning) {
  for (const char* strategy : {"baseline", "tensorflowmem", "planned"}) {
    for (const char* text : {kFunctions, kGradient}) {
      const std::unique_ptr<Session> session = Make(text, strategy, GetParam());
      const auto run = [&](bool p, const Tensor& x) {
        std::vector<Tensor> out;
        const absl::Status status = session->Run({{"p", Bool(p)}, {"x", x}}, {"twice"}, {}, &out);
        EXPECT_TRUE(status.ok()) << strategy << ": " << status;
        return status.ok() ? Values(out.at(0)) : std::vector<float>();
      };
      EXPECT_THAT(run(true, Three(1, -2, 3)), ElementsAre(2, 6));
      EXPECT_THAT(run(false, Three(1, -2, 3)), ElementsAre(2, -4, 6));
      EXPECT_THAT(run(true, Three(-1, -2, -3)), ElementsAre());
      EXPECT_THAT(run(false, Three(-1, -2, -3)), ElementsAre(-2, -4, -6));
    }
  }
}

TEST_P(BranchesNotTaken, GradientsOfTheOtherSideTakeWhateverComes) {
  for (const char* strategy : {"baseline", "tensorflowmem", "planned"}) {
    const std::unique_ptr<Session> session = Make(kGradient, strategy, GetParam());
    const auto run = [&](bool p, const Tensor& x) {
      std::vector<Tensor> out;
      const absl::Status status = session->Run({{"p", Bool(p)}, {"x", x}}, {"dx"}, {}, &out);
      EXPECT_TRUE(status.ok()) << strategy << ": " << status;
      return status.ok() ? Values(out.at(0)) : std::vector<float>();
    };
    EXPECT_THAT(run(true, Three(1, -2, 3)), ElementsAre(2, 0, 6));
    EXPECT_THAT(run(false, Three(1, -2, 3)), ElementsAre(2, -4, 6));
    EXPECT_THAT(run(true, Three(-1, -2, -3)), ElementsAre(0, 0, 0));
  }
}

// Two conditionals, the first of which gives one x or two: a, of which the second gives all or something else of another size.
constexpr char kChain[] = R"(
p = Placeholder() {dtype=bool, shape=shape[]}
q = Placeholder() {dtype=bool, shape=shape[]}
x = Placeholder() {dtype=float, shape=shape[3]}
wide = Const() {dtype=int32, value=int32[2]{3, 1}}
rows = Reshape(x, wide) {T=float, Tshape=int32}
axis = Const() {dtype=int32, value=int32[]{0}}
flat = Const() {dtype=int32, value=int32[1]{-1}}
s = Switch(rows, p) {T=float}
two = ConcatV2(s:1, s:1, axis) {N=2, T=float, Tidx=int32}
one = Identity(s) {T=float}
a = Merge(one, two) {N=2, T=float}
t = Switch(a, q) {T=float}
same = Identity(t) {T=float}
)";

constexpr char kGradientOfOneOrTwo[] = R"(
b = Merge(same, other) {N=2, T=float}
db = AddV2(b, b) {T=float}
d = Switch(db, q) {T=float}
d_same = Identity(d) {T=float}
)";

constexpr char kGradientOfX[] = R"(
da = Merge(d_same, d_other) {N=2, T=float}
e = Switch(da, p) {T=float}
e_one = Identity(e) {T=float}
three = Shape(s:1) {T=float, out_type=int32}
offset = ConcatOffset(axis, three, three) {N=2}
first = Slice(e:1, offset, three) {T=float, Index=int32}
second = Slice(e:1, offset:1, three) {T=float, Index=int32}
e_two = AddV2(first, second) {T=float}
dx_rows = Merge(e_one, e_two) {N=2, T=float}
dx = Reshape(dx_rows, flat) {T=float, Tshape=int32}
)";

// a[1:], whose gradient has a size that follows from that of a.
constexpr char kTail[] = R"(
begin = Const() {dtype=int32, value=int32[1]{1}}
end = Const() {dtype=int32, value=int32[1]{0}}
other = StridedSlice(t:1, begin, end, begin) {T=float, Index=int32, end_mask=1}
)";
constexpr char kTailGradient[] = R"(
size = Shape(t:1) {T=float, out_type=int32}
d_other = StridedSliceGrad(size, begin, end, begin, d:1) {T=float, Index=int32, end_mask=1}
)";

// a twice, whose gradient must find where the second one begins.
constexpr char kDoubled[] = R"(
other = ConcatV2(t:1, t:1, axis) {N=2, T=float, Tidx=int32}
)";
constexpr char kDoubledGradient[] = R"(
sizes = ShapeN(t:1, t:1) {N=2, T=float, out_type=int32}
at = ConcatOffset(axis, sizes, sizes:1) {N=2}
d_first = Slice(d:1, at, sizes) {T=float, Index=int32}
d_second = Slice(d:1, at:1, sizes:1) {T=float, Index=int32}
d_other = AddV2(d_first, d_second) {T=float}
)";

TEST_P(BranchesNotTaken, GradientsOfConditionalsInARowHaveTheSizesOfTheSidesThatAreTaken) {
  const std::string tail = absl::StrCat(kChain, kTail, kGradientOfOneOrTwo, kTailGradient, kGradientOfX);
  const std::string doubled = absl::StrCat(kChain, kDoubled, kGradientOfOneOrTwo, kDoubledGradient, kGradientOfX);
  for (const char* strategy : {"baseline", "tensorflowmem", "planned"}) {
    const std::unique_ptr<Session> of_tail = Make(tail, strategy, GetParam()), of_doubled = Make(doubled, strategy, GetParam());
    const auto run = [&](Session& session, bool p, bool q) {
      std::vector<Tensor> out;
      const absl::Status status = session.Run({{"p", Bool(p)}, {"q", Bool(q)}, {"x", Three(1, 2, 3)}}, {"dx"}, {}, &out);
      EXPECT_TRUE(status.ok()) << strategy << " " << p << q << ": " << status;
      return status.ok() ? Values(out.at(0)) : std::vector<float>();
    };
    for (int turn = 0; turn < 2; ++turn) {
      EXPECT_THAT(run(*of_tail, false, false), ElementsAre(2, 4, 6));
      EXPECT_THAT(run(*of_tail, false, true), ElementsAre(0, 4, 6));
      EXPECT_THAT(run(*of_tail, true, false), ElementsAre(4, 8, 12));
      EXPECT_THAT(run(*of_tail, true, true), ElementsAre(2, 8, 12));
      EXPECT_THAT(run(*of_doubled, false, false), ElementsAre(2, 4, 6));
      EXPECT_THAT(run(*of_doubled, false, true), ElementsAre(4, 8, 12));
      EXPECT_THAT(run(*of_doubled, true, false), ElementsAre(4, 8, 12));
      EXPECT_THAT(run(*of_doubled, true, true), ElementsAre(8, 16, 24));
    }
  }
}

// As many twos as the places of what is positive add up to: no bound of it is known.
constexpr char kCounted[] = R"(
p = Placeholder() {dtype=bool, shape=shape[]}
x = Placeholder() {dtype=float, shape=shape[3]}
s = Switch(x, p) {T=float}
zero = Const() {dtype=float, value=float[]{0}}
axes = Const() {dtype=int32, value=int32[2]{0, 1}}
axis = Const() {dtype=int32, value=int32[1]{0}}
mask = Greater(s:1, zero) {T=float}
where = Where(mask) {T=bool}
count = Sum(where, axes) {T=int64, Tidx=int32}
dims = Pack(count) {T=int64, N=1, axis=0}
two = Const() {dtype=float, value=float[]{2}}
twos = Fill(dims, two) {T=float, index_type=int64}
sum = Sum(twos, axis) {T=float, Tidx=int32}
other = Sum(s, axis) {T=float, Tidx=int32}
y = Merge(other, sum) {N=2, T=float}
)";

TEST_P(BranchesNotTaken, WhatWasNeverWrittenIsNoSize) {
  const std::unique_ptr<Session> session = Make(kCounted, "planned", GetParam());
  for (const auto& [p, sum] : std::vector<std::pair<bool, float>>{{false, 5}, {true, 6}, {false, 5}, {true, 6}}) {
    std::vector<Tensor> out;
    const absl::Status status = session->Run({{"p", Bool(p)}, {"x", Three(-1, 2, 4)}}, {"y"}, {}, &out);
    ASSERT_TRUE(status.ok()) << p << ": " << status;
    EXPECT_THAT(Values(out.at(0)), ElementsAre(sum));
  }
}

// A branch of x and k, whose kernel refuses some values of k.
struct Refusing {
  std::string name;
  std::string body;
  int32_t good, bad;
  float first;  // of the result for good and x = 1, 2, 3
};

const Refusing kRefusing[] = {
    {"SparseToDense", R"(
  one = Const() {dtype=int32, value=int32[1]{1}}
  at = Reshape(k, one) {T=int32, Tshape=int32}
  shape = Const() {dtype=int32, value=int32[1]{3}}
  five = Const() {dtype=float, value=float[1]{5}}
  zero = Const() {dtype=float, value=float[]{0}}
  y = SparseToDense(at, shape, five, zero) {T=float, Tindices=int32})",
     0, 7, 5},
    {"Slice", R"(
  one = Const() {dtype=int32, value=int32[1]{1}}
  at = Reshape(k, one) {T=int32, Tshape=int32}
  axis = Const() {dtype=int32, value=int32[]{0}}
  both = ConcatV2(x, x, axis) {N=2, T=float, Tidx=int32}
  size = Const() {dtype=int32, value=int32[1]{3}}
  y = Slice(both, at, size) {T=float, Index=int32})",
     2, 7, 3},
    {"RaggedTensorToTensor", R"(
  zero = Const() {dtype=int32, value=int32[]{0}}
  splits = Pack(zero, k) {N=2, T=int32, axis=0}
  shape = Const() {dtype=int32, value=int32[2]{1, 3}}
  fill = Const() {dtype=float, value=float[]{0}}
  row = RaggedTensorToTensor(shape, x, fill, splits) {T=float, Tindex=int32, Tshape=int32, num_row_partition_tensors=1, row_partition_types=["ROW_SPLITS"]}
  flat = Const() {dtype=int32, value=int32[1]{3}}
  y = Reshape(row, flat) {T=float, Tshape=int32})",
     3, -7, 1},
    {"StridedSlice", R"(
  one = Const() {dtype=int32, value=int32[1]{1}}
  at = Reshape(k, one) {T=int32, Tshape=int32}
  end = AddV2(at, one) {T=int32}
  rows = Pack(x, x) {N=2, T=float, axis=0}
  y = StridedSlice(rows, at, end, one) {T=float, Index=int32, begin_mask=0, ellipsis_mask=0, end_mask=0, new_axis_mask=0, shrink_axis_mask=1})",
     1, 7, 1},
    {"TensorStridedSliceUpdate", R"(
  one = Const() {dtype=int32, value=int32[1]{1}}
  at = Reshape(k, one) {T=int32, Tshape=int32}
  end = AddV2(at, one) {T=int32}
  five = Const() {dtype=float, value=float[]{5}}
  y = TensorStridedSliceUpdate(x, at, end, one, five) {T=float, Index=int32, begin_mask=0, ellipsis_mask=0, end_mask=0, new_axis_mask=0, shrink_axis_mask=1})",
     0, 7, 5},
    {"StridedSliceGrad", R"(
  one = Const() {dtype=int32, value=int32[1]{1}}
  three = Const() {dtype=int32, value=int32[1]{3}}
  at = Reshape(k, one) {T=int32, Tshape=int32}
  end = AddV2(at, one) {T=int32}
  five = Const() {dtype=float, value=float[]{5}}
  y = StridedSliceGrad(three, at, end, one, five) {T=float, Index=int32, begin_mask=0, ellipsis_mask=0, end_mask=0, new_axis_mask=0, shrink_axis_mask=1})",
     0, 7, 5},
    {"Sum", R"(
  square = Pack(x, x, x) {N=3, T=float, axis=0}
  y = Sum(square, k) {T=float, Tidx=int32, keep_dims=false})",
     0, 7, 3},
    {"CropAndResize", R"(
  row = Const() {dtype=int32, value=int32[4]{1, 1, 3, 1}}
  image = Reshape(x, row) {T=float, Tshape=int32}
  corners = Const() {dtype=float, value=float[1,4]{0, 0, 1, 1}}
  by = Cast(k) {SrcT=int32, DstT=float}
  boxes = RealDiv(corners, by) {T=float}
  first = Const() {dtype=int32, value=int32[1]{0}}
  size = Const() {dtype=int32, value=int32[2]{1, 3}}
  crop = CropAndResize(image, boxes, first, size) {T=float, method="bilinear", extrapolation_value=0}
  flat = Const() {dtype=int32, value=int32[1]{3}}
  y = Reshape(crop, flat) {T=float, Tshape=int32})",
     1, 0, 1},
    {"SparseSegmentSumGradV2", R"(
  zero = Const() {dtype=int32, value=int32[]{0}}
  one = Const() {dtype=int32, value=int32[]{1}}
  rows = Pack(zero, one, k) {N=3, T=int32, axis=0}
  ids = Const() {dtype=int32, value=int32[3]{0, 1, 2}}
  three = Const() {dtype=int32, value=int32[]{3}}
  sums = SparseSegmentSumGradV2(x, rows, ids, three) {T=float, Tidx=int32, Tsegmentids=int32}
  flat = Const() {dtype=int32, value=int32[1]{3}}
  y = Reshape(sums, flat) {T=float, Tshape=int32})",
     2, 7, 1},
    {"SparseReduceSumSparse", R"(
  places = Const() {dtype=int64, value=int64[3,1]{0, 1, 2}}
  one = Const() {dtype=int32, value=int32[1]{1}}
  size = Reshape(k, one) {T=int32, Tshape=int32}
  dims = Cast(size) {SrcT=int32, DstT=int64}
  none = Const() {dtype=int32, value=int32[0]{}}
  sums = SparseReduceSumSparse(places, x, dims, none) {T=float, keep_dims=false}
  flat = Const() {dtype=int32, value=int32[1]{3}}
  y = Reshape(sums:1, flat) {T=float, Tshape=int32})",
     3, -7, 1},
    {"MatrixBandPart", R"(
  square = Pack(x, x, x) {N=3, T=float, axis=0}
  band = MatrixBandPart(square, k, k) {T=float, Tindex=int32}
  axis = Const() {dtype=int32, value=int32[]{0}}
  y = Sum(band, axis) {T=float, Tidx=int32, keep_dims=false})",
     0, 10, 1},
    {"NthElement", R"(
  nth = NthElement(x, k) {T=float}
  y = AddV2(x, nth) {T=float})",
     1, 7, 3}};

TEST_P(BranchesNotTaken, KernelsThatCheckValuesFailOnlyWhereTheyAreAsked) {
  for (const Refusing& refusing : kRefusing) {
    const std::unique_ptr<Session> session = Make(absl::StrCat(R"(
function take
  x = _Arg() {T=float, index=0}
  k = _Arg() {T=int32, index=1})",
                                                               refusing.body, R"(
  r = _Retval(y) {T=float, index=0}
end
function pass
  x = _Arg() {T=float, index=0}
  k = _Arg() {T=int32, index=1}
  r = _Retval(x) {T=float, index=0}
end
p = Placeholder() {dtype=bool, shape=shape[]}
x = Placeholder() {dtype=float, shape=shape[3]}
fed = Placeholder() {dtype=float, shape=shape[]}
k = Cast(fed) {SrcT=float, DstT=int32}
c = If(p, x, k) {Tcond=bool, then_branch=&take, else_branch=&pass}
y = Identity(c) {T=float}
)"),
                                                  "planned", GetParam());
    const auto run = [&](bool p, int32_t k, std::vector<Tensor>* out) {
      const Tensor fed = Tensor::Scalar<float>(static_cast<float>(k));
      return session->Run({{"p", Bool(p)}, {"x", Three(1, 2, 3)}, {"fed", fed}}, {"y"}, {}, out);
    };
    std::vector<Tensor> out;
    absl::Status status = run(false, refusing.bad, &out);
    ASSERT_TRUE(status.ok()) << refusing.name << ": " << status;
    EXPECT_THAT(Values(out.at(0)), ElementsAre(1, 2, 3)) << refusing.name;
    status = run(true, refusing.good, &out);
    ASSERT_TRUE(status.ok()) << refusing.name << ": " << status;
    EXPECT_EQ(Values(out.at(0)).at(0), refusing.first) << refusing.name;
    status = run(true, refusing.bad, &out);
    EXPECT_THAT(std::string(status.message()), HasSubstr(refusing.name));
  }
}

// A branch that looks up rows and adds up segments where there are none: no index is harmless.
constexpr char kNothingThere[] = R"(
function take
  x = _Arg() {T=float, index=0}
  v = _Arg() {T=resource, index=1}
  i = _Arg() {T=int32, index=2}
  zero = Const() {dtype=int32, value=int32[]{0}}
  axes = Const() {dtype=int32, value=int32[2]{0, 1}}
  two = Const() {dtype=float, value=float[2]{1, 2}}
  rows = GatherV2(x, i, zero) {Taxis=int32, Tindices=int32, Tparams=float, batch_dims=0}
  of_variable = ResourceGather(v, i) {Tindices=int32, batch_dims=0, dtype=float}
  both = AddV2(rows, of_variable) {T=float}
  sum = Sum(both, axes) {T=float, Tidx=int32, keep_dims=false}
  segments = UnsortedSegmentSum(two, i, zero) {T=float, Tindices=int32, Tnumsegments=int32}
  total = Sum(segments, zero) {T=float, Tidx=int32, keep_dims=false}
  y = AddV2(sum, total) {T=float}
  r = _Retval(y) {T=float, index=0}
end
function pass
  x = _Arg() {T=float, index=0}
  v = _Arg() {T=resource, index=1}
  i = _Arg() {T=int32, index=2}
  one = Const() {dtype=float, value=float[]{1}}
  r = _Retval(one) {T=float, index=0}
end
p = Placeholder() {dtype=bool, shape=shape[]}
x = Placeholder() {dtype=float, shape=shape[0,3]}
i = Placeholder() {dtype=int32, shape=shape[2]}
v = VarHandleOp() {dtype=float, shape=shape[0,3], shared_name="v"}
none = Const() {dtype=float, value=float[0,3]{}}
init = AssignVariableOp(v, none) {dtype=float}
c = If(p, x, v, i) {Tcond=bool, then_branch=&take, else_branch=&pass}
y = Identity(c) {T=float}
)";

TEST_P(BranchesNotTaken, NothingIsLookedUpWhereThereIsNothing) {
  const std::unique_ptr<Session> session = Make(kNothingThere, "planned", GetParam());
  absl::Status status = session->Run({}, {}, {"init"}, nullptr);
  ASSERT_TRUE(status.ok()) << status;
  const auto run = [&](bool p, std::vector<Tensor>* out) {
    return session->Run({{"p", Bool(p)}, {"x", Tensor(DataType::kFloat, Shape({0, 3}))}, {"i", Tensor::Vector<int32_t>({0, 0})}}, {"y"}, {}, out);
  };
  std::vector<Tensor> out;
  status = run(false, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Values(out.at(0)), ElementsAre(1));
  status = run(true, &out);
  EXPECT_THAT(std::string(status.message()), HasSubstr("[0, 0)")) << status;
}

// On the CPU, and on CUDA's kernels as streams.
INSTANTIATE_TEST_SUITE_P(Devices, BranchesNotTaken, ::testing::Values("cpu", "cuda_emulated"),
                         [](const auto& param) { return std::string(param.param); });

}  // namespace
}  // namespace millrace
