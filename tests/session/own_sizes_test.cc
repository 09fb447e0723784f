// Sizes that follow from the step's own values, where no bound of them is known or does: they are asked of the same variables
// first, and the step is planned for the answers.
#include <gtest/gtest.h>

#include "absl/strings/str_replace.h"
#include "graph/text.h"
#include "millrace/session.h"
#include "testlib/open_session.h"

namespace millrace {
namespace {

using testing::OpenSession;

// As many rows of ones as n says, which grows by one in every step, after it was read.
constexpr char kFilled[] = R"(
n = VarHandleOp() {dtype=int32, shape=shape[], shared_name="n"}
two = Const() {dtype=int32, value=int32[]{2}}
one = Const() {dtype=int32, value=int32[]{1}}
half = Const() {dtype=float, value=float[]{0.5}}
init = AssignVariableOp(n, two) {dtype=int32}
now = ReadVariableOp(n) {dtype=int32}
dims = Pack(now, two) {T=int32, N=2, axis=0}
rows = Fill(dims, half) {T=float, index_type=int32}
twice = AddV2(rows, rows) {T=float}
update = AssignAddVariableOp(n, one) ^twice {dtype=int32}
)";

// Where x is larger than t, which grows by one in every step: the rows go through a list, whose items must be counted.
constexpr char kListed[] = R"(
x = Placeholder() {dtype=float, shape=shape[6]}
t = VarHandleOp() {dtype=float, shape=shape[], shared_name="t"}
zero = Const() {dtype=float, value=float[]{0}}
one = Const() {dtype=float, value=float[]{1}}
init = AssignVariableOp(t, zero) {dtype=float}
now = ReadVariableOp(t) {dtype=float}
more = Greater(x, now) {T=float}
found = Where(more) {T=bool}
item = Const() {dtype=int32, value=int32[1]{1}}
list = TensorListFromTensor(found, item) {element_dtype=int64, shape_type=int32}
back = TensorListStack(list, item) {element_dtype=int64, num_elements=-1}
update = AssignAddVariableOp(t, one) ^back {dtype=float}
)";

// A list that has another item while w is above zero, and what comes back of such a list; w sinks in every step.
constexpr char kWritten[] = R"(
function push
  list = _Arg() {T=variant, index=0}
  x = _Arg() {T=float, index=1}
  longer = TensorListPushBack(list, x) {element_dtype=float}
  r = _Retval(longer) {T=variant, index=0}
end
function pop
  list = _Arg() {T=variant, index=0}
  x = _Arg() {T=float, index=1}
  item = Const() {dtype=int32, value=int32[0]{}}
  place = Const() {dtype=int32, value=int32[]{1}}
  second = TensorListGetItem(list, place, item) {element_dtype=float}
  r = _Retval(second) {T=float, index=0}
end
function keep
  list = _Arg() {T=variant, index=0}
  x = _Arg() {T=float, index=1}
  r = _Retval(list) {T=variant, index=0}
end
function pass
  list = _Arg() {T=variant, index=0}
  x = _Arg() {T=float, index=1}
  r = _Retval(x) {T=float, index=0}
end
x = Placeholder() {dtype=float, shape=shape[]}
w = VarHandleOp() {dtype=float, shape=shape[], shared_name="w"}
two = Const() {dtype=float, value=float[]{2}}
init = AssignVariableOp(w, two) {dtype=float}
now = ReadVariableOp(w) {dtype=float}
zero = Const() {dtype=float, value=float[]{0}}
p = Greater(now, zero) {T=float}
item = Const() {dtype=int32, value=int32[0]{}}
most = Const() {dtype=int32, value=int32[]{-1}}
none = EmptyTensorList(item, most) {element_dtype=float, shape_type=int32}
one = TensorListPushBack(none, now) {element_dtype=float}
some = StatelessIf(p, one, x) {Tcond=bool, then_branch=&push, else_branch=&keep}
all = TensorListStack(some, item) {element_dtype=float, num_elements=-1}
twice = AddV2(all, all) {T=float}
second = StatelessIf(p, some, now) {Tcond=bool, then_branch=&pop, else_branch=&pass}
waited = Identity(second) {T=float}
step = Const() {dtype=float, value=float[]{1}}
update = AssignSubVariableOp(w, step) ^twice ^waited {dtype=float}
)";

// As many rows as n says, which grows in every step, halved until none is above one.
constexpr char kHalved[] = R"(
function above
  x = _Arg() {T=float, index=0}
  axes = Const() {dtype=int32, value=int32[2]{0, 1}}
  most = Max(x, axes) {T=float, Tidx=int32}
  one = Const() {dtype=float, value=float[]{1}}
  more = Greater(most, one) {T=float}
  r = _Retval(more) {T=bool, index=0}
end
function halve
  x = _Arg() {T=float, index=0}
  half = Const() {dtype=float, value=float[]{0.5}}
  y = Mul(x, half) {T=float}
  r = _Retval(y) {T=float, index=0}
end
n = VarHandleOp() {dtype=int32, shape=shape[], shared_name="n"}
two = Const() {dtype=int32, value=int32[]{2}}
one = Const() {dtype=int32, value=int32[]{1}}
init = AssignVariableOp(n, two) {dtype=int32}
now = ReadVariableOp(n) {dtype=int32}
x = Placeholder() {dtype=float, shape=shape[1,2]}
times = Pack(now, one) {T=int32, N=2, axis=0}
rows = Tile(x, times) {T=float, Tmultiples=int32}
halved = StatelessWhile(rows) {T=[float], cond=&above, body=&halve}
y = Neg(halved) {T=float}
update = AssignAddVariableOp(n, one) ^y {dtype=int32}
)";

// An array as long as x has positive elements, on the side of a conditional that w decides.
constexpr char kArray[] = R"(
x = Placeholder() {dtype=float, shape=shape[6]}
w = VarHandleOp() {dtype=float, shape=shape[], shared_name="w"}
two = Const() {dtype=float, value=float[]{2}}
init = AssignVariableOp(w, two) {dtype=float}
now = ReadVariableOp(w) {dtype=float}
zero = Const() {dtype=float, value=float[]{0}}
p = Greater(now, zero) {T=float}
sides = Switch(x, p) {T=float}
more = Greater(sides:1, zero) {T=float}
found = Where(more) {T=bool}
shape = Shape(found) {T=int64, out_type=int32}
none = Const() {dtype=int32, value=int32[]{0}}
one = Const() {dtype=int32, value=int32[]{1}}
first = Const() {dtype=int32, value=int32[1]{0}}
n = Gather(shape, none) {Tparams=int32, Tindices=int32}
array = TensorArrayV3(n) {dtype=int64, element_shape=shape[1], dynamic_size=false, clear_after_read=true, tensor_array_name=""}
rows = Range(none, n, one) {Tidx=int32}
written = TensorArrayScatterV3(array, rows, found, array:1) {T=int64}
all = TensorArrayGatherV3(array, rows, written) {dtype=int64, element_shape=shape[1]}
axes = Const() {dtype=int32, value=int32[2]{0, 1}}
places = Sum(all, axes) {T=int64, Tidx=int32}
taken = Cast(places) {SrcT=int64, DstT=float}
other = Sum(sides, first) {T=float, Tidx=int32}
either = Merge(other, taken) {T=float, N=2}
y = Neg(either) {T=float}
step = Const() {dtype=float, value=float[]{1}}
update = AssignSubVariableOp(w, step) ^y {dtype=float}
)";

// Before that a loop of as many turns, but two at most: no question tells that the third one does not come.
constexpr char kTwoTurns[] = R"(
function below
  i = _Arg() {T=int32, index=0}
  n = _Arg() {T=int32, index=1}
  less = Less(i, n) {T=int32}
  r = _Retval(less) {T=bool, index=0}
end
function no
  i = _Arg() {T=int32, index=0}
  n = _Arg() {T=int32, index=1}
  no = Const() {dtype=bool, value=bool[]{false}}
  r = _Retval(no) {T=bool, index=0}
end
function goes_on
  i = _Arg() {T=int32, index=0}
  n = _Arg() {T=int32, index=1}
  most = Const() {dtype=int32, value=int32[]{2}}
  few = Less(i, most) {T=int32}
  more = StatelessIf(few, i, n) {Tcond=bool, then_branch=&below, else_branch=&no}
  r = _Retval(more) {T=bool, index=0}
end
function next
  i = _Arg() {T=int32, index=0}
  n = _Arg() {T=int32, index=1}
  one = Const() {dtype=int32, value=int32[]{1}}
  next = AddV2(i, one) {T=int32}
  r0 = _Retval(next) {T=int32, index=0}
  r1 = _Retval(n) {T=int32, index=1}
end
FILLED
zero = Const() {dtype=int32, value=int32[]{0}}
turns = StatelessWhile(zero, now) {T=[int32, int32], cond=&goes_on, body=&next}
)";

std::unique_ptr<Session> SessionOfSizes(const std::string& strategy, const char* text) {
  absl::StatusOr<Graph> graph = ParseGraphText(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  SessionOptions options;
  options.planning.strategy = strategy;
  absl::StatusOr<std::unique_ptr<Session>> session = OpenSession(*std::move(graph), options);
  EXPECT_TRUE(session.ok()) << session.status();
  return *std::move(session);
}

TEST(OwnSizes, ASizeThatIsAVariablesValueIsFound) {
  for (const char* strategy : {"baseline", "tensorflowmem", "planned"}) {
    const std::unique_ptr<Session> session = SessionOfSizes(strategy, kFilled);
    ASSERT_TRUE(session->Run({}, {}, {"init"}, nullptr).ok());
    for (int step = 0; step < 4; ++step) {
      std::vector<Tensor> got;
      const absl::Status ran = session->Run({}, {"twice:0", "now:0"}, {"update"}, &got);
      ASSERT_TRUE(ran.ok()) << strategy << ": " << ran;
      EXPECT_EQ(got[0].shape(), Shape({2 + step, 2}));
      EXPECT_EQ(got[0].as<float>()[3], 1);
      EXPECT_EQ(got[1].IntAt(0), 2 + step);
    }
  }
}

TEST(OwnSizes, ASizeIsFoundBehindTurnsThatWereGuessed) {
  const std::string text = absl::StrReplaceAll(kTwoTurns, {{"FILLED", kFilled}});
  for (const char* strategy : {"baseline", "tensorflowmem", "planned"}) {
    const std::unique_ptr<Session> session = SessionOfSizes(strategy, text.c_str());
    ASSERT_TRUE(session->Run({}, {}, {"init"}, nullptr).ok());
    for (int step = 0; step < 3; ++step) {
      std::vector<Tensor> got;
      const absl::Status ran = session->Run({}, {"twice:0", "turns:0"}, {"update"}, &got);
      ASSERT_TRUE(ran.ok()) << strategy << ": " << ran;
      EXPECT_EQ(got[0].shape(), Shape({2 + step, 2}));
      EXPECT_EQ(got[1].IntAt(0), 2);
    }
  }
}

TEST(OwnSizes, AStepThatHasOutgrownItsBudgetHasNoPlan) {
  absl::StatusOr<Graph> graph = ParseGraphText(absl::StrReplaceAll(
      kFilled, {{"dims = Pack(now, two)", "wide = Const() {dtype=int32, value=int32[]{16384}}\ndims = Pack(now, wide)"}}));
  ASSERT_TRUE(graph.ok()) << graph.status();
  SessionOptions options;
  options.planning.device_memory_bytes = 300 << 10;
  const auto session = OpenSession(*std::move(graph), options);
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE((*session)->Run({}, {}, {"init"}, nullptr).ok());
  absl::Status ran;
  int steps = 0;
  for (; ran.ok() && steps < 20; ++steps) ran = (*session)->Run({}, {"twice:0"}, {"update"}, nullptr);
  EXPECT_GT(steps, 1);
  EXPECT_TRUE(absl::IsResourceExhausted(ran)) << ran;
  EXPECT_EQ((*session)->last_run().plan, nullptr);
  EXPECT_EQ((*session)->last_run().status, ran);
}

TEST(OwnSizes, RowsOfAListAreCounted) {
  const std::unique_ptr<Session> session = SessionOfSizes("planned", kListed);
  ASSERT_TRUE(session->Run({}, {}, {"init"}, nullptr).ok());
  const Tensor x = Tensor::Vector<float>({0.5f, 3.5f, -1.0f, 1.5f, 2.5f, 0.25f});
  const std::vector<std::vector<int64_t>> want = {{0, 1, 3, 4, 5}, {1, 3, 4}, {1, 4}, {1}, {}};
  for (const std::vector<int64_t>& rows : want) {
    std::vector<Tensor> got;
    const absl::Status ran = session->Run({{"x:0", x}}, {"back:0"}, {"update"}, &got);
    ASSERT_TRUE(ran.ok()) << ran;
    ASSERT_EQ(got[0].shape(), Shape({static_cast<int64_t>(rows.size()), 1}));
    for (size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(got[0].IntAt(i), rows[i]);
  }
}

TEST(OwnSizes, ALoopThatEndsByItsResultsMayGoOverThem) {
  for (const char* strategy : {"baseline", "tensorflowmem", "planned"}) {
    const auto session = SessionOfSizes(strategy, kHalved);
    ASSERT_TRUE(session->Run({}, {}, {"init"}, nullptr).ok());
    Tensor x(DataType::kFloat, Shape({1, 2}));
    for (int step = 0; step < 4; ++step) {
      x.mutable_as<float>()[0] = 3;
      x.mutable_as<float>()[1] = step % 2 == 0 ? 4 : 16;
      std::vector<Tensor> got;
      const absl::Status ran = session->Run({{"x", x}}, {"y"}, {"update"}, &got);
      ASSERT_TRUE(ran.ok()) << strategy << ": " << ran;
      EXPECT_EQ(got[0].shape(), Shape({2 + step, 2}));
      EXPECT_EQ(got[0].as<float>()[2], step % 2 == 0 ? -0.75f : -0.1875f);
      EXPECT_EQ(got[0].as<float>()[3], -1);
    }
  }
}

TEST(OwnSizes, AnArrayMayHaveOneOnOneSideOfAConditional) {
  const Tensor x = Tensor::Vector<float>({0.5f, 3.5f, -1.0f, 1.5f, 2.5f, -0.5f});
  for (const char* strategy : {"baseline", "tensorflowmem", "planned"}) {
    const auto session = SessionOfSizes(strategy, kArray);
    ASSERT_TRUE(session->Run({}, {}, {"init"}, nullptr).ok());
    for (const float y : {-8.0f, -8.0f, -6.5f, -6.5f}) {
      std::vector<Tensor> got;
      const absl::Status ran = session->Run({{"x:0", x}}, {"y:0"}, {"update"}, &got);
      ASSERT_TRUE(ran.ok()) << strategy << ": " << ran;
      EXPECT_EQ(got[0].as<float>()[0], y);
    }
  }
}

TEST(OwnSizes, AListMayBeLongerOnOneSideOfAConditional) {
  for (const char* strategy : {"baseline", "tensorflowmem", "planned"}) {
    SCOPED_TRACE(strategy);
    const auto session = SessionOfSizes(strategy, kWritten);
    ASSERT_TRUE(session->Run({}, {}, {"init"}, nullptr).ok());
    for (const float w : {2.0f, 1.0f, 0.0f, -1.0f}) {
      std::vector<Tensor> out;
      const absl::Status status = session->Run({{"x", Tensor::Scalar(7.0f)}}, {"twice", "waited"}, {"update"}, &out);
      ASSERT_TRUE(status.ok()) << status;
      ASSERT_EQ(out[0].num_elements(), w > 0 ? 2 : 1);
      EXPECT_EQ(out[0].as<float>()[0], 2 * w);
      if (w > 0) {
        EXPECT_EQ(out[0].as<float>()[1], 14);
      }
      EXPECT_EQ(out[1].as<float>()[0], w > 0 ? 7 : w);
    }
  }
}

}  // namespace
}  // namespace millrace
