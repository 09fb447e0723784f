// Functions that emit TensorFlow's ops into the builder of their inputs. Images are NHWC, volumes NDHWC.
//
// A `name` may be left out: the node is then called as its op. Axes may count from the end (negative).
#ifndef MILLRACE_GRAPH_OPS_H_
#define MILLRACE_GRAPH_OPS_H_

#include <string>
#include <string_view>
#include <vector>

#include "millrace/graph_builder.h"

namespace millrace::ops {

using Name = std::string_view;
using IntList = std::vector<int64_t>;

// ---- Constants and random values
Output Fill(const Output& dims, const Output& value, Name name = {});
Output Full(GraphBuilder& builder, const TensorType& type, double value);  // Fill of a known shape; a scalar's is a constant
Output ZerosLike(const Output& x, Name name = {});
Output OnesLike(const Output& x, Name name = {});
Output Range(const Output& start, const Output& limit, const Output& delta, Name name = {});
// `op`: RandomUniform, RandomStandardNormal or TruncatedNormal, with the builder's next seeds.
Output Random(GraphBuilder& builder, std::string_view op, const TensorType& type, Name name = {});

// ---- Elementwise. Unary and Binary emit any op of that form with attribute T. A number `y` becomes a constant of x's type
// (GraphBuilder::Scalar): what an integer type does not hold exactly is an error, int32 x * 0.5 for example.
Output Unary(std::string_view op, const Output& x, Name name = {});
Output Binary(std::string_view op, const Output& x, const Output& y, Name name = {});
Output Binary(std::string_view op, const Output& x, double y, Name name = {});

inline Output Identity(const Output& x, Name name = {}) { return Unary("Identity", x, name); }
inline Output StopGradient(const Output& x, Name name = {}) { return Unary("StopGradient", x, name); }
inline Output Neg(const Output& x, Name name = {}) { return Unary("Neg", x, name); }
inline Output Abs(const Output& x, Name name = {}) { return Unary("Abs", x, name); }
inline Output Sign(const Output& x, Name name = {}) { return Unary("Sign", x, name); }
inline Output Exp(const Output& x, Name name = {}) { return Unary("Exp", x, name); }
inline Output Log(const Output& x, Name name = {}) { return Unary("Log", x, name); }
inline Output Sqrt(const Output& x, Name name = {}) { return Unary("Sqrt", x, name); }
inline Output Rsqrt(const Output& x, Name name = {}) { return Unary("Rsqrt", x, name); }
inline Output Square(const Output& x, Name name = {}) { return Unary("Square", x, name); }
inline Output Reciprocal(const Output& x, Name name = {}) { return Unary("Reciprocal", x, name); }
inline Output Sin(const Output& x, Name name = {}) { return Unary("Sin", x, name); }
inline Output Cos(const Output& x, Name name = {}) { return Unary("Cos", x, name); }
inline Output Tanh(const Output& x, Name name = {}) { return Unary("Tanh", x, name); }
inline Output Sigmoid(const Output& x, Name name = {}) { return Unary("Sigmoid", x, name); }
inline Output Erf(const Output& x, Name name = {}) { return Unary("Erf", x, name); }
inline Output Relu(const Output& x, Name name = {}) { return Unary("Relu", x, name); }
inline Output Relu6(const Output& x, Name name = {}) { return Unary("Relu6", x, name); }
inline Output Elu(const Output& x, Name name = {}) { return Unary("Elu", x, name); }
inline Output Softplus(const Output& x, Name name = {}) { return Unary("Softplus", x, name); }
Output LeakyRelu(const Output& x, float alpha, Name name = {});
Output Cast(const Output& x, DataType dtype, Name name = {});  // x itself when it has that type

inline Output Add(const Output& x, const Output& y, Name name = {}) { return Binary("AddV2", x, y, name); }
inline Output Sub(const Output& x, const Output& y, Name name = {}) { return Binary("Sub", x, y, name); }
inline Output Mul(const Output& x, const Output& y, Name name = {}) { return Binary("Mul", x, y, name); }
inline Output Div(const Output& x, const Output& y, Name name = {}) { return Binary("RealDiv", x, y, name); }
inline Output Maximum(const Output& x, const Output& y, Name name = {}) { return Binary("Maximum", x, y, name); }
inline Output Minimum(const Output& x, const Output& y, Name name = {}) { return Binary("Minimum", x, y, name); }
inline Output Pow(const Output& x, const Output& y, Name name = {}) { return Binary("Pow", x, y, name); }
// Less, LessEqual, Greater, GreaterEqual, Equal, NotEqual are Binary ops, too: their result is bool.
Output Select(const Output& condition, const Output& x, const Output& y, Name name = {});
Output AddN(absl::Span<const Output> values, Name name = {});  // the value itself when it is one; of none not valid()

// ---- Linear algebra
struct Transposed {
  bool a = false;
  bool b = false;
};
Output MatMul(const Output& a, const Output& b, Transposed transposed = {}, Name name = {});
Output BatchMatMul(const Output& a, const Output& b, Transposed transposed = {}, Name name = {});
Output Einsum(absl::Span<const Output> inputs, std::string_view equation, Name name = {});

// ---- Reductions over `axes`; none given: over all of a known rank
Output Reduce(std::string_view op, const Output& x, IntList axes, bool keep_dims = false, Name name = {});
inline Output Sum(const Output& x, IntList axes, bool keep_dims = false, Name name = {}) {
  return Reduce("Sum", x, std::move(axes), keep_dims, name);
}
inline Output Mean(const Output& x, IntList axes = {}, Name name = {}, bool keep_dims = false) {
  return Reduce("Mean", x, std::move(axes), keep_dims, name);
}
inline Output Max(const Output& x, IntList axes, bool keep_dims = false, Name name = {}) {
  return Reduce("Max", x, std::move(axes), keep_dims, name);
}
Output ArgMax(const Output& x, int64_t axis, DataType dtype = DataType::kInt64, Name name = {});
Output Cumsum(const Output& x, int64_t axis, bool exclusive = false, bool reverse = false, Name name = {});
Output L2Loss(const Output& x, Name name = {});

// ---- Shapes and parts
Output Reshape(const Output& x, IntList shape, Name name = {});  // one dimension may be -1
Output ExpandDims(const Output& x, int64_t axis, Name name = {});
Output Squeeze(const Output& x, IntList axes, Name name = {});
Output Transpose(const Output& x, IntList permutation, Name name = {});
Output BroadcastTo(const Output& x, IntList shape, Name name = {});
// Of one value that value, or an Identity of the name that is given; of none not valid(), as Pack and Einsum.
Output Concat(absl::Span<const Output> values, int64_t axis, Name name = {});
std::vector<Output> Split(const Output& x, int64_t count, int64_t axis, Name name = {});
std::vector<Output> SplitV(const Output& x, IntList sizes, int64_t axis, Name name = {});
Output Pack(absl::Span<const Output> values, int64_t axis, Name name = {});
std::vector<Output> Unpack(const Output& x, int64_t axis, Name name = {});
Output Slice(const Output& x, IntList begin, IntList size, Name name = {});
// x[index] along `axis`, which goes away: a StridedSlice.
Output Index(const Output& x, int64_t index, int64_t axis, Name name = {});
Output Pad(const Output& x, absl::Span<const std::pair<int64_t, int64_t>> paddings, Name name = {});
Output Tile(const Output& x, IntList multiples, Name name = {});
Output Reverse(const Output& x, IntList axes, Name name = {});
Output Gather(const Output& params, const Output& indices, int64_t axis = 0, Name name = {});
Output OneHot(const Output& indices, int64_t depth, DataType dtype = DataType::kFloat, Name name = {});
Output UnsortedSegmentSum(const Output& data, const Output& ids, int64_t segments, Name name = {});
struct TopKResult {
  Output values, indices;
};
TopKResult TopK(const Output& x, int64_t k, Name name = {});

// ---- Neural networks
struct WindowOptions {
  // One number for every spatial dimension, or one per dimension.
  IntList strides = {1};
  std::string padding = "SAME";  // or VALID
  IntList dilations = {1};
};
Output Conv2D(const Output& x, const Output& filter, const WindowOptions& options = {}, Name name = {});
Output Conv3D(const Output& x, const Output& filter, const WindowOptions& options = {}, Name name = {});
Output DepthwiseConv2D(const Output& x, const Output& filter, const WindowOptions& options = {}, Name name = {});
// Transposed convolutions: the gradient of a convolution with filter [..., outputs, inputs] whose input had `shape`.
Output ConvTranspose2D(const Output& x, const Output& filter, IntList shape, const WindowOptions& options = {},
                       Name name = {});
Output ConvTranspose3D(const Output& x, const Output& filter, IntList shape, const WindowOptions& options = {},
                       Name name = {});
// `op`: MaxPool, AvgPool, MaxPool3D or AvgPool3D. TensorFlow's pools have no dilations: they must be 1.
Output Pool(std::string_view op, const Output& x, IntList window, const WindowOptions& options, Name name = {});
inline Output MaxPool(const Output& x, IntList window, const WindowOptions& options, Name name = {}) {
  return Pool("MaxPool", x, std::move(window), options, name);
}
inline Output AvgPool(const Output& x, IntList window, const WindowOptions& options, Name name = {}) {
  return Pool("AvgPool", x, std::move(window), options, name);
}
Output BiasAdd(const Output& x, const Output& bias, Name name = {});
Output Softmax(const Output& x, Name name = {});
Output LogSoftmax(const Output& x, Name name = {});
Output Lrn(const Output& x, int64_t depth_radius, float bias, float alpha, float beta, Name name = {});
struct BatchNormResult {
  Output y, mean, variance;  // of this batch, the variance of n - 1 degrees of freedom; gradients flow through all three
};
// FusedBatchNormV3 in training mode.
BatchNormResult FusedBatchNorm(const Output& x, const Output& scale, const Output& offset, float epsilon = 1e-3f,
                               Name name = {});
struct CrossEntropyResult {
  Output loss;  // per row
  Output backprop;
};
CrossEntropyResult SparseSoftmaxCrossEntropy(const Output& logits, const Output& labels, Name name = {});
CrossEntropyResult SoftmaxCrossEntropy(const Output& logits, const Output& labels, Name name = {});
Output ResizeBilinear(const Output& x, int64_t height, int64_t width, bool half_pixel_centers = true,
                      Name name = {});

}  // namespace millrace::ops

namespace millrace {

inline Output operator+(const Output& x, const Output& y) { return ops::Add(x, y); }
inline Output operator-(const Output& x, const Output& y) { return ops::Sub(x, y); }
inline Output operator*(const Output& x, const Output& y) { return ops::Mul(x, y); }
inline Output operator/(const Output& x, const Output& y) { return ops::Div(x, y); }
inline Output operator-(const Output& x) { return ops::Neg(x); }
inline Output operator+(const Output& x, double y) { return ops::Binary("AddV2", x, y); }
inline Output operator-(const Output& x, double y) { return ops::Binary("Sub", x, y); }
inline Output operator*(const Output& x, double y) { return ops::Binary("Mul", x, y); }
inline Output operator/(const Output& x, double y) { return ops::Binary("RealDiv", x, y); }

}  // namespace millrace

#endif  // MILLRACE_GRAPH_OPS_H_
