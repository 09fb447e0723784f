// Ops that call functions in ways of their own (For, MapDefun, RemoteCall), and others that become what the graph might have said
// itself. The numbers are TensorFlow's.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "millrace/session.h"
#include "text_session.h"

namespace millrace {
namespace {

using testing::Numbers;
using testing::SessionOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

// Appends the number to h as a digit, and counts in a variable how often.
constexpr char kFor[] = R"(
function append ^count
  i = _Arg() {T=int32, index=0}
  h = _Arg() {T=float, index=1}
  v = _Arg() {T=resource, index=2}
  ten = Const() {dtype=float, value=float[]{10}}
  digit = Cast(i) {SrcT=int32, DstT=float}
  room = Mul(h, ten) {T=float}
  y = AddV2(room, digit) {T=float}
  one = Const() {dtype=float, value=float[]{1}}
  count = AssignAddVariableOp(v, one) {dtype=float}
  r = _Retval(y) {T=float, index=0}
  s = _Retval(v) {T=resource, index=1}
end
function outer ^loop
  start = _Arg() {T=int32, index=0}
  limit = _Arg() {T=int32, index=1}
  delta = _Arg() {T=int32, index=2}
  v = _Arg() {T=resource, index=3}
  h = Const() {dtype=float, value=float[]{0}}
  loop = For(start, limit, delta, h, v) {T=[float, resource], body=&append}
  r = _Retval(loop) {T=float, index=0}
end
start = Placeholder() {dtype=int32, shape=shape[]}
limit = Placeholder() {dtype=int32, shape=shape[]}
delta = Placeholder() {dtype=int32, shape=shape[]}
v = VarHandleOp() {dtype=float, shape=shape[], shared_name="v"}
zero = Const() {dtype=float, value=float[]{0}}
init = AssignVariableOp(v, zero) {dtype=float}
h = Const() {dtype=float, value=float[]{0}}
loop = For(start, limit, delta, h, v) {T=[float, resource], body=&append}
y = Identity(loop) {T=float}
target = Const() {dtype=string, value=string[]{"/job:localhost/replica:0/task:0/device:CPU:0"}}
far = RemoteCall(target, start, limit, delta, v) {Tin=[int32, int32, int32, resource], Tout=[float], f=&outer}
z = Identity(far) {T=float}
count = ReadVariableOp(v) ^loop ^far {dtype=float}
)";

struct Loop {
  int32_t start, limit, delta;
  double digits, turns;
};

Session::Feeds FeedsOf(const Loop& loop) {
  return {{"start", Tensor::Scalar<int32_t>(loop.start)}, {"limit", Tensor::Scalar<int32_t>(loop.limit)}, {"delta", Tensor::Scalar<int32_t>(loop.delta)}};
}

TEST(FunctionOps, ForCountsToItsLimitAndItsEffectsHappenInEveryTurn) {
  for (const char* strategy : {"baseline", "planned"}) {
    SessionOptions options;
    options.planning.strategy = strategy;
    const auto session = SessionOf(kFor, options);
    double counted = 0;
    ASSERT_TRUE(session->Run({}, {}, {"init"}, nullptr).ok());
    for (const Loop& loop : {Loop{0, 4, 1, 123, 4}, {6, 1, -2, 642, 3}, {6, 2, -2, 64, 2}, {0, 5, 2, 24, 3}, {3, 3, 0, 0, 0}, {3, 3, 1, 0, 0},
                             {-2000000000, 2000000000, 2000000000, -2e10, 2}}) {
      std::vector<Tensor> out;
      const absl::Status status = session->Run(FeedsOf(loop), {"y", "z", "count"}, {}, &out);
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_THAT(Numbers(out[0]), ElementsAre(loop.digits));
      EXPECT_THAT(Numbers(out[1]), ElementsAre(loop.digits));
      EXPECT_THAT(Numbers(out[2]), ElementsAre(counted += 2 * loop.turns)) << strategy;
    }
  }
}

TEST(FunctionOps, ForRefusesALimitThatItsStepsDoNotLeadTo) {
  const auto session = SessionOf(kFor);
  ASSERT_TRUE(session->Run({}, {}, {"init"}, nullptr).ok());
  for (const Loop& loop : {Loop{6, 1, 2, 0, 0}, {0, 4, 0, 0, 0}, {0, 4, -1, 0, 0}}) {
    std::vector<Tensor> out;
    const absl::Status status = session->Run(FeedsOf(loop), {"y"}, {}, &out);
    EXPECT_THAT(std::string(status.message()), HasSubstr("'loop/Assert'"));
  }
}

TEST(FunctionOps, MapDefunRefusesAnotherNumberOfRows) {
  const auto session = SessionOf(R"(
function add
  a = _Arg() {T=float, index=0}
  b = _Arg() {T=float, index=1}
  sum = AddV2(a, b) {T=float}
  r = _Retval(sum) {T=float, index=0}
end
function outer
  a = _Arg() {T=float, index=0}
  b = _Arg() {T=float, index=1}
  map = MapDefun(a, b) {Targuments=[float, float], Tcaptured=[], output_types=[float], output_shapes=[shape[]], f=&add}
  r = _Retval(map) {T=float, index=0}
end
a = Placeholder() {dtype=float, shape=shape[?]}
b = Placeholder() {dtype=float, shape=shape[?]}
call = StatefulPartitionedCall(a, b) {f=&outer}
y = Identity(call) {T=float}
)");
  std::vector<Tensor> out;
  const Tensor two = Tensor::Vector<float>({1, 2}), three = Tensor::Vector<float>({3, 4, 5});
  const absl::Status status = session->Run({{"a", two}, {"b", two}}, {"y"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Numbers(out[0]), ElementsAre(2, 4));
  EXPECT_THAT(std::string(session->Run({{"a", two}, {"b", three}}, {"y"}, {}, &out).message()), HasSubstr("'call/map/Assert'"));
}

TEST(FunctionOps, MapDefunTakesRowsAndWhatItCaptured) {
  const auto session = SessionOf(R"(
function of_row
  row = _Arg() {T=float, index=0}
  k = _Arg() {T=float, index=1}
  axis = Const() {dtype=int32, value=int32[]{0}}
  sum = Sum(row, axis) {T=float, Tidx=int32, keep_dims=false}
  scaled = Mul(sum, k) {T=float}
  square = Square(row) {T=float}
  r = _Retval(scaled) {T=float, index=0}
  s = _Retval(square) {T=float, index=1}
end
x = Placeholder() {dtype=float, shape=shape[3,2]}
k = Placeholder() {dtype=float, shape=shape[]}
map = MapDefun(x, k) {Targuments=[float], Tcaptured=[float], output_types=[float, float], output_shapes=[shape[], shape<unknown>], f=&of_row}
sums = Identity(map) {T=float}
squares = Identity(map:1) {T=float}
)");
  std::vector<Tensor> out;
  Tensor x(DataType::kFloat, Shape({3, 2}));
  for (int i = 0; i < 6; ++i) x.mutable_as<float>()[i] = static_cast<float>(i + 1);
  const absl::Status status = session->Run({{"x", x}, {"k", Tensor::Scalar<float>(10)}}, {"sums", "squares"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Numbers(out[0]), ElementsAre(30, 70, 110));
  EXPECT_THAT(Numbers(out[1]), ElementsAre(1, 4, 9, 16, 25, 36));
  EXPECT_EQ(out[1].shape(), Shape({3, 2}));
}

// The turn's type, and a number in its function, are parameters of the function that the loop is in; so is the function that is called
// elsewhere.
constexpr char kParameters[] = R"(
function grow
  i = _Arg() {T=int32, index=0}
  h = _Arg() {T=$D, index=1}
  n = Cast(i) {SrcT=int32, DstT=$D}
  y = AddV2(h, n) {T=$D}
  r = _Retval(y) {T=$D, index=0}
end
function twice
  x = _Arg() {T=double, index=0}
  y = AddV2(x, x) {T=double}
  r = _Retval(y) {T=double, index=0}
end
function outer
  h = _Arg() {T=$E, index=0}
  start = Const() {dtype=int32, value=int32[]{0}}
  limit = Const() {dtype=int32, value=int32[]{5}}
  delta = Const() {dtype=int32, value=int32[]{2}}
  loop = For(start, limit, delta, h) {T=$Types, body=&grow{D=$E}}
  there = Const() {dtype=string, value=string[]{"/device:CPU:0"}}
  far = RemoteCall(there, loop) {Tin=$Types, Tout=$Types, f=$F}
  r = _Retval(far) {T=$E, index=0}
end
x = Placeholder() {dtype=double, shape=shape[]}
y = StatefulPartitionedCall(x) {f=&outer{E=double, Types=[double], F=&twice}}
)";

TEST(FunctionOps, MayBeOfParametersOfTheFunctionThatTheyAreIn) {
  const auto session = SessionOf(kParameters);
  std::vector<Tensor> out;
  const absl::Status status = session->Run({{"x", Tensor::Scalar<double>(10)}}, {"y"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Numbers(out[0]), ElementsAre(2 * (10 + 0 + 2 + 4)));
}

// The function sees that there are more rows, all of them the first one.
constexpr char kBatch[] = R"(
function center
  x = _Arg() {T=float, index=0}
  y = _Arg() {T=float, index=1}
  k = _Arg() {T=float, index=2}
  axis = Const() {dtype=int32, value=int32[]{0}}
  mean = Mean(x, axis) {T=float, Tidx=int32}
  rest = Sub(x, mean) {T=float}
  shape = Shape(x) {T=float, out_type=int32}
  counted = Prod(shape, axis) {T=int32, Tidx=int32}
  rows = Cast(counted) {SrcT=int32, DstT=float}
  times = Mul(y, rows) {T=float}
  scaled = Mul(times, k) {T=float}
  r = _Retval(rest) {T=float, index=0}
  s = _Retval(scaled) {T=float, index=1}
end
x = Placeholder() {dtype=float, shape=shape[?]}
ten = Const() {dtype=float, value=float[]{10}}
one = Const() {dtype=float, value=float[]{1}}
y = Mul(x, ten) {T=float}
batch = BatchFunction(x, y, one) {Tin=[float, float], Tcaptured=[float], Tout=[float, float], f=&center, max_batch_size=8, allowed_batch_sizes=[2, 4, 8]}
rest = Identity(batch) {T=float}
scaled = Identity(batch:1) {T=float}
)";

TEST(FunctionOps, RowsOfABatchArePaddedToASizeThatItAllows) {
  const auto session = SessionOf(kBatch);
  const auto run = [&](const std::vector<float>& x) {
    std::vector<Tensor> out;
    const absl::Status status = session->Run({{"x", Tensor::Vector<float>(x)}}, {"rest", "scaled"}, {}, &out);
    EXPECT_TRUE(status.ok()) << status;
    return status.ok() ? std::make_pair(Numbers(out[0]), Numbers(out[1])) : std::pair<std::vector<double>, std::vector<double>>();
  };
  EXPECT_THAT(run({1}), Pair(ElementsAre(0), ElementsAre(20)));
  EXPECT_THAT(run({1, 2}), Pair(ElementsAre(-0.5, 0.5), ElementsAre(20, 40)));
  EXPECT_THAT(run({1, 2, 3}), Pair(ElementsAre(-0.75, 0.25, 1.25), ElementsAre(40, 80, 120)));
  EXPECT_THAT(run({1, 2, 3, 4, 5}), Pair(ElementsAre(-1.25, -0.25, 0.75, 1.75, 2.75), ElementsAre(80, 160, 240, 320, 400)));
}

TEST(FunctionOps, RowsOfABatchThatAreNoneOrTooManyOrNotTheSameAreTensorFlows) {
  const auto run = [](const std::string& from, const std::string& to, const std::vector<float>& x) -> absl::StatusOr<std::vector<double>> {
    std::vector<Tensor> out;
    const absl::Status status = SessionOf(absl::StrReplaceAll(kBatch, {{from, to}}))->Run({{"x", Tensor::Vector<float>(x)}}, {"rest"}, {}, &out);
    if (!status.ok()) return status;
    return Numbers(out[0]);
  };
  const auto none = run("one", "one", {});
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_THAT(*none, ElementsAre());
  const std::string more_rows = "axis = Const() {dtype=int32, value=int32[]{0}}\ny = ConcatV2(x, x, axis) {T=float, N=2, Tidx=int32}";
  EXPECT_THAT(run("y = Mul(x, ten) {T=float}", more_rows, {1, 2}).status().ToString(), HasSubstr("assertion failed"));
  const std::vector<float> nine(9);
  EXPECT_THAT(run("one", "one", nine).status().ToString(), HasSubstr("assertion failed"));
  const auto split = run("max_batch_size=8", "max_batch_size=8, enable_large_batch_splitting=true", nine);
  ASSERT_TRUE(split.ok()) << split.status();
  EXPECT_EQ(split->size(), nine.size());
}

// As functions of TensorFlow 1 are: no effects are named. The one of `grow` is in a function that it calls.
constexpr char kUnnamedEffects[] = R"(
function add
  v = _Arg() {T=resource, index=0}
  x = _Arg() {T=float, index=1}
  set = AssignAddVariableOp(v, x) {dtype=float}
  r = _Retval(x) {T=float, index=0}
end
function grow
  i = _Arg() {T=int32, index=0}
  h = _Arg() {T=float, index=1}
  v = _Arg() {T=resource, index=2}
  one = Const() {dtype=float, value=float[]{1}}
  call = StatefulPartitionedCall(v, one) {f=&add}
  r = _Retval(h) {T=float, index=0}
  s = _Retval(v) {T=resource, index=1}
end
v = VarHandleOp() {dtype=float, shape=shape[], shared_name="v"}
zero = Const() {dtype=float, value=float[]{0}}
init = AssignVariableOp(v, zero) {dtype=float}
start = Const() {dtype=int32, value=int32[]{0}}
limit = Const() {dtype=int32, value=int32[]{3}}
delta = Const() {dtype=int32, value=int32[]{1}}
loop = For(start, limit, delta, zero, v) {T=[float, resource], body=&grow}
there = Const() {dtype=string, value=string[]{"/device:CPU:0"}}
hundred = Const() {dtype=float, value=float[]{100}}
far = RemoteCall(there, v, hundred) {Tin=[resource, float], Tout=[float], f=&add}
count = ReadVariableOp(v) ^loop ^far {dtype=float}
)";

TEST(FunctionOps, EffectsThatAFunctionDoesNotNameHappen) {
  const auto session = SessionOf(kUnnamedEffects);
  ASSERT_TRUE(session->Run({}, {}, {"init"}, nullptr).ok());
  std::vector<Tensor> out;
  const absl::Status status = session->Run({}, {"count"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Numbers(out[0]), ElementsAre(103));
}

TEST(FunctionOps, ARemoteFunctionFillsAQueue) {
  const auto session = SessionOf(R"(
function put
  q = _Arg() {T=resource, index=0}
  x = _Arg() {T=int64, index=1}
  put = QueueEnqueueV2(q, x) {Tcomponents=[int64]}
  same = Identity(x) {T=int64}
  r = _Retval(same) {T=int64, index=0}
end
there = Const() {dtype=string, value=string[]{"/device:CPU:0"}}
x = Const() {dtype=int64, value=int64[]{1}}
q = FIFOQueueV2() {component_types=[int64], shapes=[shape[]], capacity=10, shared_name="q"}
far = RemoteCall(there, q, x) {Tin=[resource, int64], Tout=[int64], f=&put}
size = QueueSizeV2(q) ^far
)");
  for (double size : {1, 2}) {
    std::vector<Tensor> out;
    const absl::Status status = session->Run({}, {"size"}, {}, &out);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_THAT(Numbers(out[0]), ElementsAre(size));
  }
}

TEST(FunctionOps, ARemoteFunctionFillsATable) {
  const auto session = SessionOf(R"(
function fill
  table = _Arg() {T=resource, index=0}
  keys = _Arg() {T=int64, index=1}
  values = _Arg() {T=int64, index=2}
  import = LookupTableImportV2(table, keys, values) {Tin=int64, Tout=int64}
end
there = Const() {dtype=string, value=string[]{"/device:CPU:0"}}
keys = Const() {dtype=int64, value=int64[2]{10, 20}}
values = Const() {dtype=int64, value=int64[2]{1, 2}}
other = Const() {dtype=int64, value=int64[]{-1}}
table = HashTableV2() {key_dtype=int64, value_dtype=int64, shared_name="t"}
far = RemoteCall(there, table, keys, values) {Tin=[resource, int64, int64], Tout=[], f=&fill}
x = Placeholder() {dtype=int64, shape=shape[3]}
found = LookupTableFindV2(table, x, other) {Tin=int64, Tout=int64}
)");
  std::vector<Tensor> out;
  const Tensor x = Tensor::Vector<int64_t>(std::vector<int64_t>{20, 11, 10});
  const absl::Status status = session->Run({{"x", x}}, {"found"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Numbers(out[0]), ElementsAre(2, -1, 1));
}

std::string Sobol(int dimensions, int count, int skip, const char* dtype) {
  return absl::StrCat("d = Const() {dtype=int32, value=int32[]{", dimensions, "}}\nn = Const() {dtype=int32, value=int32[]{", count,
                      "}}\ns = Const() {dtype=int32, value=int32[]{", skip, "}}\npoints = SobolSample(d, n, s) {dtype=", dtype,
                      "}\ny = Identity(points) {T=", dtype, "}\n");
}

TEST(FunctionOps, PointsOfASobolSequence) {
  std::vector<Tensor> out;
  ASSERT_TRUE(SessionOf(Sobol(3, 4, 5, "float"))->Run({}, {"y"}, {}, &out).ok());
  EXPECT_THAT(Numbers(out[0]), ElementsAre(0.625, 0.125, 0.875, 0.125, 0.625, 0.375, 0.1875, 0.3125, 0.9375, 0.6875, 0.8125, 0.4375));
  EXPECT_EQ(out[0].shape(), Shape({4, 3}));
  ASSERT_TRUE(SessionOf(Sobol(2, 2, 0, "double"))->Run({}, {"y"}, {}, &out).ok());
  EXPECT_THAT(Numbers(out[0]), ElementsAre(0.5, 0.5, 0.75, 0.25));
  EXPECT_EQ(out[0].dtype(), DataType::kDouble);
  absl::Status status = SessionOf(Sobol(0, 3, 0, "float"))->Run({}, {"y"}, {}, &out);
  EXPECT_THAT(std::string(status.message()), HasSubstr("node 'points' (SobolSample): takes 3 points of 0 dimensions"));
  status = SessionOf(Sobol(4000, 3, 0, "float"))->Run({}, {"y"}, {}, &out);
  EXPECT_THAT(std::string(status.message()), HasSubstr("expected at most 3667"));
  status = SessionOf(Sobol(3000, 2000000000, 0, "float"))->Run({}, {"y"}, {}, &out);
  EXPECT_THAT(std::string(status.message()), HasSubstr("gives 2000000000 points of 3000 dimensions, 24000000000000 bytes, expected at most 1073741824"));
}

}  // namespace
}  // namespace millrace
