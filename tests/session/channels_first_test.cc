// Convolutions and what lies between them give the same results with their channels first, whatever lists, paddings and axes
// they have.
#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "millrace/session.h"
#include "text_session.h"

namespace millrace {
namespace {

Tensor Numbers(const Shape& shape, uint32_t seed) {
  Tensor tensor(DataType::kFloat, shape);
  for (float& value : tensor.mutable_as<float>()) {
    seed = seed * 1664525u + 1013904223u;
    value = static_cast<float>(seed >> 8) / (1 << 23) - 1.0f;
  }
  return tensor;
}

std::unique_ptr<Session> Make(const std::string& text, bool channels_first) {
  SessionOptions options;
  options.planning.strategy = "baseline";
  options.planning.fuse = true;
  options.planning.channels_first = channels_first;
  return testing::SessionOf(text, std::move(options));
}

int CountTransposes(const Session& session) {
  const auto& instances = session.last_run().plan->instances;
  return static_cast<int>(
      std::count_if(instances.begin(), instances.end(), [](const OpInstance& instance) { return instance.op == "Transpose"; }));
}

// `transposes`: of tensors that enter and leave.
void ExpectSameResults(const std::string& text, const Session::Feeds& feeds, const std::vector<std::string>& fetches, int transposes) {
  std::vector<Tensor> last, first;
  const auto one = Make(text, false), other = Make(text, true);
  absl::Status status = one->Run(feeds, fetches, {}, &last);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(CountTransposes(*one), 0);
  status = other->Run(feeds, fetches, {}, &first);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(CountTransposes(*other), transposes);
  for (size_t k = 0; k < fetches.size(); ++k) {
    ASSERT_EQ(first[k].shape(), last[k].shape()) << fetches[k];
    double largest = 1;
    for (int64_t i = 0; i < last[k].num_elements(); ++i) largest = std::max(largest, std::abs(last[k].DoubleAt(i)));
    for (int64_t i = 0; i < last[k].num_elements(); ++i) {
      ASSERT_NEAR(first[k].DoubleAt(i), last[k].DoubleAt(i), 2e-5 * largest) << fetches[k] << ", " << i;
    }
  }
}

TEST(ChannelsFirst, ImagesOfTwoDimensions) {
  const char* const text = R"(
x = Placeholder() {dtype=float, shape=shape[2,9,7,4]}
w = Placeholder() {dtype=float, shape=shape[3,2,4,4]}
b = Placeholder() {dtype=float, shape=shape[4]}
two = Const() {dtype=float, value=float[]{2}}
none = Const() {dtype=float, value=float[0]{}}
sizes = Const() {dtype=int32, value=int32[4]{2,9,7,4}}
filters = Const() {dtype=int32, value=int32[4]{3,2,4,4}}
space = Const() {dtype=int32, value=int32[2]{-3,2}}
all = Const() {dtype=int32, value=int32[4]{0,1,2,3}}
axis = Const() {dtype=int32, value=int32[]{3}}
begin = Const() {dtype=int64, value=int64[4]{0,1,0,2}}
size = Const() {dtype=int64, value=int64[4]{2,3,-1,5}}
around = Const() {dtype=int32, value=int32[4,2]{0,1,1,2,3,0,2,1}}
i1 = Conv2D(x, w) {T=float, strides=[1,1,1,1], padding="SAME"}
i2 = Conv2D(i1, w) {T=float, strides=[1,1,1,1], padding="SAME"}
c = Conv2D(i2, w) {T=float, strides=[1,1,1,1], padding="EXPLICIT", explicit_paddings=[0,0,2,2,0,1,0,0], dilations=[1,2,1,1]}
a = BiasAdd(c, b) {T=float}
n = FusedBatchNormV3(a, b, b, none, none) {T=float, U=float, is_training=true, epsilon=0.001}
r = Relu(n) {T=float}
c2 = Conv2D(r, w) {T=float, strides=[1,2,1,1], padding="SAME"}
p = MaxPool(r) {T=float, ksize=[1,3,1,1], strides=[1,2,1,1], padding="SAME"}
q = AvgPool(r) {T=float, ksize=[1,1,3,1], strides=[1,2,1,1], padding="SAME"}
both = ConcatV2(p, c2, q, axis) {N=3, T=float, Tidx=int32}
part = Slice(both, begin, size) {T=float, Index=int64}
padded = Pad(part, around) {T=float, Tpaddings=int32}
half = Mul(padded, two) {T=float}
mean = Mean(half, space) {T=float, Tidx=int32, keep_dims=false}
total = Sum(half, all) {T=float, Tidx=int32, keep_dims=false}
dx = Conv2DBackpropInput(sizes, w, c2) {T=float, strides=[1,2,1,1], padding="SAME"}
dw = Conv2DBackpropFilter(r, filters, c2) {T=float, strides=[1,2,1,1], padding="SAME"}
dp = MaxPoolGrad(r, p, c2) {T=float, ksize=[1,3,1,1], strides=[1,2,1,1], padding="SAME"}
dq = AvgPoolGrad(sizes, c2) {T=float, ksize=[1,1,3,1], strides=[1,2,1,1], padding="SAME"}
dn = FusedBatchNormGradV3(dp, a, b, n:3, n:4, n:5) {T=float, U=float, is_training=true, epsilon=0.001}
db = BiasAddGrad(dn) {T=float}
e1 = Conv2D(r, w) {T=float, strides=[1,1,1,1], padding="SAME"}
e2 = Conv2D(e1, w) {T=float, strides=[1,1,1,1], padding="SAME", dilations=[1,1,2,1]}
e3 = Conv2D(e2, w) {T=float, strides=[1,1,1,1], padding="SAME"}
sum = AddN(dx, dq, e3) {N=3, T=float}
)";
  // x enters; r, half and sum are fetched, n:1 and dn:1 have no channels to turn.
  ExpectSameResults(text, {{"x", Numbers(Shape({2, 9, 7, 4}), 1)}, {"w", Numbers(Shape({3, 2, 4, 4}), 2)}, {"b", Numbers(Shape({4}), 3)}},
                    {"r:0", "half:0", "mean:0", "total:0", "dw:0", "dn:1", "db:0", "sum:0", "n:1"}, 4);
}

TEST(ChannelsFirst, ImagesOfThreeDimensions) {
  const char* const text = R"(
x = Placeholder() {dtype=float, shape=shape[1,5,6,7,4]}
w = Placeholder() {dtype=float, shape=shape[3,2,1,4,4]}
b = Placeholder() {dtype=float, shape=shape[4]}
sizes = Const() {dtype=int32, value=int32[5]{1,5,6,7,4}}
filters = Const() {dtype=int32, value=int32[5]{3,2,1,4,4}}
c = Conv3D(x, w) {T=float, strides=[1,1,1,1,1], padding="SAME"}
a = BiasAdd(c, b) {T=float}
r = Relu(a) {T=float}
e1 = Conv3D(r, w) {T=float, strides=[1,1,1,1,1], padding="SAME"}
e2 = Conv3D(e1, w) {T=float, strides=[1,1,1,1,1], padding="SAME", dilations=[1,1,2,1,1]}
c2 = Conv3D(e2, w) {T=float, strides=[1,2,1,3,1], padding="SAME"}
p = MaxPool3D(r) {T=float, ksize=[1,1,2,3,1], strides=[1,2,1,3,1], padding="SAME"}
sum = AddV2(p, c2) {T=float}
dx = Conv3DBackpropInputV2(sizes, w, sum) {T=float, Tshape=int32, strides=[1,2,1,3,1], padding="SAME"}
dw = Conv3DBackpropFilterV2(r, filters, sum) {T=float, strides=[1,2,1,3,1], padding="SAME"}
dp = MaxPool3DGrad(r, p, sum) {T=float, TInput=float, ksize=[1,1,2,3,1], strides=[1,2,1,3,1], padding="SAME"}
db = BiasAddGrad(dp) {T=float}
)";
  ExpectSameResults(text, {{"x", Numbers(Shape({1, 5, 6, 7, 4}), 1)}, {"w", Numbers(Shape({3, 2, 1, 4, 4}), 2)}, {"b", Numbers(Shape({4}), 3)}},
                    {"sum:0", "dx:0", "dw:0", "dp:0", "db:0"}, 4);
}

// Normalisation as people write it: means over space, gains and shifts of every shape that repeats, and their gradients.
TEST(ChannelsFirst, StatisticsAndVectorsOfVolumes) {
  const char* const text = R"(
x = Placeholder() {dtype=float, shape=shape[2,5,6,7,4]}
w = Placeholder() {dtype=float, shape=shape[3,2,1,4,4]}
gain = Placeholder() {dtype=float, shape=shape[4]}
shift = Placeholder() {dtype=float, shape=shape[2,1,1,1,4]}
along = Placeholder() {dtype=float, shape=shape[6,1,1]}
chosen = Placeholder() {dtype=bool, shape=shape[2]}
space = Const() {dtype=int32, value=int32[3]{1,2,-2}}
wide = Const() {dtype=int32, value=int32[1]{-2}}
apart = Const() {dtype=int32, value=int32[5]{2,1,1,1,4}}
whole = Const() {dtype=int32, value=int32[5]{2,5,6,7,4}}
often = Const() {dtype=int32, value=int32[5]{1,5,6,7,1}}
filters = Const() {dtype=int32, value=int32[5]{3,2,1,4,4}}
small = Const() {dtype=float, value=float[]{0.001}}
c = Conv3D(x, w) {T=float, strides=[1,1,1,1,1], padding="SAME"}
m = Mean(c, space) {T=float, Tidx=int32, keep_dims=true}
d = Sub(c, m) {T=float}
q = Square(d) {T=float}
v = Mean(q, space) {T=float, Tidx=int32, keep_dims=true}
ve = AddV2(v, small) {T=float}
i = Rsqrt(ve) {T=float}
n = Mul(d, i) {T=float}
g = Mul(gain, n) {T=float}
s = AddV2(g, shift) {T=float}
a = Mul(s, along) {T=float}
k = Select(chosen, a, s) {T=float}
e = Conv3D(k, w) {T=float, strides=[1,1,1,1,1], padding="SAME"}
top = Max(e, wide) {T=float, Tidx=int32, keep_dims=true}
far = Sub(e, top) {T=float}
dw = Conv3DBackpropFilterV2(k, filters, far) {T=float, strides=[1,1,1,1,1], padding="SAME"}
dx = Conv3DBackpropInputV2(whole, w, far) {T=float, Tshape=int32, strides=[1,1,1,1,1], padding="SAME"}
total = Sum(dx, space) {T=float, Tidx=int32, keep_dims=false}
r = Reshape(total, apart) {T=float, Tshape=int32}
t = Tile(r, often) {T=float, Tmultiples=int32}
b = BroadcastTo(r, whole) {T=float, Tidx=int32}
sum = AddN(dx, t, b) {N=3, T=float}
y = Conv3D(sum, w) {T=float, strides=[1,1,1,1,1], padding="SAME"}
)";
  Tensor chosen(DataType::kBool, Shape({2}));
  chosen.mutable_as<bool>()[1] = true;
  // x enters, y leaves; v does, too, but its space is 1.
  ExpectSameResults(text, {{"x", Numbers(Shape({2, 5, 6, 7, 4}), 1)}, {"w", Numbers(Shape({3, 2, 1, 4, 4}), 2)}, {"gain", Numbers(Shape({4}), 3)},
                           {"shift", Numbers(Shape({2, 1, 1, 1, 4}), 4)}, {"along", Numbers(Shape({6, 1, 1}), 5)}, {"chosen", chosen}},
                    {"y:0", "v:0", "dw:0"}, 2);
}

TEST(ChannelsFirst, DepthwiseConvolutions) {
  const char* const text = R"(
x = Placeholder() {dtype=float, shape=shape[2,9,7,4]}
w = Placeholder() {dtype=float, shape=shape[1,1,4,4]}
thin = Placeholder() {dtype=float, shape=shape[3,2,4,1]}
sizes = Const() {dtype=int32, value=int32[4]{2,9,7,4}}
filters = Const() {dtype=int32, value=int32[4]{3,2,4,1}}
c = Conv2D(x, w) {T=float, strides=[1,1,1,1], padding="SAME"}
d = DepthwiseConv2dNative(c, thin) {T=float, strides=[1,1,1,1], padding="SAME", dilations=[1,2,1,1]}
e = Conv2D(d, w) {T=float, strides=[1,1,1,1], padding="SAME"}
de = DepthwiseConv2dNativeBackpropInput(sizes, thin, e) {T=float, strides=[1,1,1,1], padding="SAME", dilations=[1,2,1,1]}
dt = DepthwiseConv2dNativeBackpropFilter(c, filters, e) {T=float, strides=[1,1,1,1], padding="SAME", dilations=[1,2,1,1]}
y = Conv2D(de, w) {T=float, strides=[1,1,1,1], padding="SAME"}
)";
  ExpectSameResults(text, {{"x", Numbers(Shape({2, 9, 7, 4}), 1)}, {"w", Numbers(Shape({1, 1, 4, 4}), 2)}, {"thin", Numbers(Shape({3, 2, 4, 1}), 3)}},
                    {"y:0", "dt:0"}, 2);
}

}  // namespace
}  // namespace millrace
