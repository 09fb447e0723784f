// Random cases of networks, images and matrices.
#include "builder/random_draw.h"
#include "millrace/graph_ops.h"

namespace millrace::testing {
namespace {

using Inputs = const std::vector<Output>&;

constexpr DataType kInt32 = DataType::kInt32;

Dims Around(const Dims& spatial, int64_t last) {
  Dims list = {1};
  list.insert(list.end(), spatial.begin(), spatial.end());
  list.push_back(last);
  return list;
}

GradientCase Convolution(Draw& draw) {
  const int64_t spatial = draw.Int(0, 2) == 0 ? 3 : 2, inputs = draw.Int(1, 2), outputs = draw.Int(1, 2);
  const bool depthwise = spatial == 2 && draw.Int(0, 2) == 0;
  const int64_t stride = draw.Int(1, 2);
  const Dims strides(spatial, stride), window = draw.Ints(spatial, 1, 3);
  Dims image = {draw.Int(0, 6) == 0 ? 0 : draw.Int(1, 2)}, filter = window;
  for (int64_t size : window) image.push_back(size + draw.Int(0, 3));
  image.push_back(inputs);
  filter.push_back(inputs);
  filter.push_back(outputs);
  std::string padding = draw.Of({"SAME", "VALID"});
  Dims explicit_paddings;
  if (spatial == 2 && !depthwise && draw.Int(0, 2) == 0) {
    padding = "EXPLICIT";
    explicit_paddings = {0, 0, draw.Int(0, 2), draw.Int(0, 2), draw.Int(0, 2), draw.Int(0, 2), 0, 0};
  }
  const char* op = depthwise ? "DepthwiseConv2dNative" : spatial == 3 ? "Conv3D" : "Conv2D";
  return {op, {Of(image), Of(filter)}, [=](GraphBuilder& b, Inputs x) -> Output {
            AttrMap attrs = {{"T", x[0].dtype()},
                             {"strides", Around(strides, 1)},
                             {"padding", padding},
                             {"data_format", spatial == 3 ? "NDHWC" : "NHWC"}};
            if (padding == "EXPLICIT") attrs.Set("explicit_paddings", explicit_paddings);
            return b.Op(op, {x[0], x[1]}, attrs);
          }};
}

GradientCase Pooling(Draw& draw) {
  const char* op = draw.Of({"MaxPool", "AvgPool", "MaxPool3D", "AvgPool3D"});
  const int64_t spatial = std::string(op).ends_with("3D") ? 3 : 2;
  const Dims window = draw.Ints(spatial, 1, 3), strides = draw.Ints(spatial, 1, 3);
  Dims image = {draw.Int(1, 2)};
  for (int64_t size : window) image.push_back(size + draw.Int(0, 3));
  image.push_back(draw.Int(1, 2));
  const char* padding = draw.Of({"SAME", "VALID"});
  GradientCase drawn{op, {Of(image)}, [=](GraphBuilder& b, Inputs x) -> Output {
                       return b.Op(op, {x[0]},
                                   {{"T", x[0].dtype()},
                                    {"ksize", Around(window, 1)},
                                    {"strides", Around(strides, 1)},
                                    {"padding", padding},
                                    {"data_format", spatial == 3 ? "NDHWC" : "NHWC"}});
                     }};
  if (spatial == 3) drawn.dtype = DataType::kFloat;
  return drawn;
}

GradientCase Matrices(Draw& draw) {
  const Dims batch = draw.Shape(0, 2, false);
  const int64_t n = draw.Int(1, 3), m = draw.Int(1, 3);
  Dims square = batch, wide = batch;
  square.insert(square.end(), {n, n});
  wide.insert(wide.end(), {n, m});
  const bool adjoint = draw.Coin();
  // Far from singular: a multiple of the identity is added.
  const auto regular = [n](GraphBuilder& b, const Output& x) {
    Tensor eye(DataType::kDouble, Shape({n, n}));
    for (int64_t i = 0; i < n; ++i) eye.mutable_as<double>()[i * n + i] = 4;
    return x + b.Const(std::move(eye));
  };
  switch (draw.Int(0, 3)) {
    case 0:
      return {"MatrixInverse", {Of(square)}, [=](GraphBuilder& b, Inputs x) -> Output {
                return b.Op("MatrixInverse", {regular(b, x[0])}, {{"T", x[0].dtype()}, {"adjoint", adjoint}});
              }};
    case 1:
      return {"MatrixSolve", {Of(square), Of(wide)}, [=](GraphBuilder& b, Inputs x) -> Output {
                return b.Op("MatrixSolve", {regular(b, x[0]), x[1]}, {{"T", x[0].dtype()}, {"adjoint", adjoint}});
              }};
    case 2:
      return {"MatrixDeterminant", {Of(square)}, [=](GraphBuilder& b, Inputs x) -> Output {
                return b.Op("MatrixDeterminant", {regular(b, x[0])}, {{"T", x[0].dtype()}});
              }};
    default:
      return {"MatrixBandPart", {Of(wide)}, [=](GraphBuilder& b, Inputs x) -> Output {
                return b.Op("MatrixBandPart", {x[0], b.Int(adjoint ? -1 : 0), b.Int(1)},
                            {{"T", x[0].dtype()}, {"Tindex", kInt32}});
              }};
  }
}

GradientCase Losses(Draw& draw) {
  const int64_t rows = draw.Int(0, 4), classes = draw.Int(1, 4);
  if (draw.Coin()) {
    const Dims labels = draw.Ints(rows, 0, classes - 1);
    return {"SparseSoftmaxCrossEntropyWithLogits", {Of({rows, classes}, -2, 2)}, [=](GraphBuilder& b, Inputs x) {
              return ops::SparseSoftmaxCrossEntropy(x[0], IntsOf(b, labels, {rows})).loss;
            }};
  }
  const int64_t narrow = draw.Int(0, 2);
  // Labels that do not add up to 1: the gradient is that of those that do, as TensorFlow's.
  return {"SoftmaxCrossEntropyWithLogits",
          {Of({narrow == 1 ? 1 : rows, classes}, -2, 2), Of({narrow == 2 ? 1 : rows, classes})},
          [](GraphBuilder&, Inputs x) { return ops::SoftmaxCrossEntropy(x[0], x[1]).loss; },
          false,
          DataType::kDouble,
          false};
}

GradientCase Resizing(Draw& draw) {
  const char* op = draw.Of({"ResizeBilinear", "ResizeNearestNeighbor", "ResizeBicubic"});
  const Dims image = {draw.Int(1, 2), draw.Int(1, 5), draw.Int(1, 5), draw.Int(1, 2)}, size = draw.Ints(2, 1, 6);
  const int64_t grid = draw.Int(0, 2);
  GradientCase drawn{op, {Of(image)}, [=](GraphBuilder& b, Inputs x) -> Output {
                       return b.Op(
                           op, {x[0], b.Ints(size)},
                           {{"T", x[0].dtype()}, {"align_corners", grid == 1}, {"half_pixel_centers", grid == 2}});
                     }};
  drawn.dtype = DataType::kFloat;
  return drawn;
}

GradientCase BatchNorm(Draw& draw) {
  const bool training = draw.Coin(), last = draw.Coin();
  const int64_t channels = draw.Int(1, 3);
  Dims image = {draw.Int(2, 3), draw.Int(2, 3), draw.Int(1, 3)};
  image.insert(image.begin() + (last ? 3 : 1), channels);
  std::vector<CaseInput> inputs = {Of(image), Of({channels}), Of({channels})};
  GradientCase drawn{"FusedBatchNormV3", inputs, [=](GraphBuilder& b, Inputs x) -> Output {
                       const TensorType held{DataType::kFloat, Shape({training ? 0 : channels})};
                       const Output mean = b.Const(RandomTensor(held, 0.2, 1, 7)),
                                    variance = b.Const(RandomTensor(held, 0.2, 1, 8));
                       return b
                           .Op("FusedBatchNormV3", {x[0], x[1], x[2], mean, variance},
                               {{"T", x[0].dtype()},
                                {"U", x[0].dtype()},
                                {"epsilon", 0.01f},
                                {"exponential_avg_factor", 1.0f},
                                {"data_format", last ? "NHWC" : "NCHW"},
                                {"is_training", training}})
                           .output(0);
                     }};
  drawn.dtype = DataType::kFloat;
  drawn.derivative = false;  // float differences of a normalisation say little; fixed cases have them
  return drawn;
}

GradientCase Blocks(Draw& draw) {
  const int64_t block = draw.Int(2, 3);
  if (draw.Coin()) {
    const bool to_depth = draw.Coin();
    const Dims image = {draw.Int(1, 2), (to_depth ? block : 1) * draw.Int(1, 2),
                        (to_depth ? block : 1) * draw.Int(1, 2), (to_depth ? 1 : block * block) * draw.Int(1, 2)};
    const char* op = to_depth ? "SpaceToDepth" : "DepthToSpace";
    return {op, {Of(image)}, [=](GraphBuilder& b, Inputs x) -> Output {
              return b.Op(op, {x[0]}, {{"T", x[0].dtype()}, {"block_size", block}, {"data_format", "NHWC"}});
            }};
  }
  const Dims blocks = draw.Ints(2, 1, 3), pads = {draw.Int(0, 1), 0, draw.Int(0, 1), 0};
  Dims image = {draw.Int(1, 2)}, paddings;
  for (int i = 0; i < 2; ++i) {
    const int64_t size = draw.Int(1, 4), before = pads[2 * i];
    paddings.push_back(before);
    paddings.push_back((blocks[i] - (size + before) % blocks[i]) % blocks[i]);
    image.push_back(size);
  }
  image.push_back(draw.Int(1, 2));
  return {"SpaceToBatchND", {Of(image)}, [=](GraphBuilder& b, Inputs x) -> Output {
            return b.Op("SpaceToBatchND", {x[0], b.Ints(blocks), IntsOf(b, paddings, {2, 2})},
                        {{"T", x[0].dtype()}, {"Tblock_shape", kInt32}, {"Tpaddings", kInt32}});
          }};
}

GradientCase Diagonals(Draw& draw) {
  const Dims batch = draw.Shape(0, 2, false);
  const int64_t rows = draw.Int(1, 4), columns = draw.Int(1, 4), least = draw.Int(1 - rows, columns - 1);
  const int64_t most = draw.Int(least, columns - 1);
  const char* align = draw.Of({"LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT"});
  Dims matrix = batch;
  matrix.insert(matrix.end(), {rows, columns});
  return {
      "MatrixDiagPartV3", {Of(matrix)}, [=](GraphBuilder& b, Inputs x) -> Output {
        const Output zero = b.Scalar(x[0].dtype(), 0), band = b.Ints({least, most});
        const Output part =
            b.Op("MatrixDiagPartV3", {ops::Square(x[0]), band, zero}, {{"T", x[0].dtype()}, {"align", align}});
        const Output whole = b.Op("MatrixDiagV3", {part, band, b.Int(rows), b.Int(columns), zero},
                                  {{"T", x[0].dtype()}, {"align", align}});
        return b.Op("MatrixSetDiagV3", {x[0], part * 2.0, band}, {{"T", x[0].dtype()}, {"align", align}}).output(0) +
               whole;
      }};
}

GradientCase Choices(Draw& draw) {
  const Dims dims = draw.Shape(1, 3, false);
  switch (draw.Int(0, 2)) {
    case 0: {
      const int64_t k = draw.Int(0, dims.back());
      return {"TopKV2", {Of(dims)}, [k](GraphBuilder&, Inputs x) { return ops::Square(ops::TopK(x[0], k).values); }};
    }
    case 1: {
      const Dims lengths = draw.Ints(dims[0], 1, dims.back());
      if (dims.size() < 2) return {"Neg", {Of(dims)}, [](GraphBuilder&, Inputs x) { return ops::Neg(x[0]); }};
      const int64_t sequence = static_cast<int64_t>(dims.size()) - 1;
      return {"ReverseSequence", {Of(dims)}, [=](GraphBuilder& b, Inputs x) -> Output {
                return b.Op("ReverseSequence", {x[0], b.Ints(lengths)},
                            {{"T", x[0].dtype()}, {"Tlen", kInt32}, {"seq_dim", sequence}, {"batch_dim", 0}});
              }};
    }
    default: {
      const Dims whole = draw.Shape(0, 3), low = {}, high = draw.Coin() ? Dims() : whole;
      return {
          "ClipByValue", {Of(whole), Of(low, 0.5, 0.8), Of(high, 1.2, 1.6)}, [](GraphBuilder& b, Inputs x) -> Output {
            return b.Op("ClipByValue", {x[0], x[1], x[2]}, {{"T", x[0].dtype()}});
          }};
    }
  }
}

GradientCase Decompositions(Draw& draw) {
  const Dims batch = draw.Shape(0, 2, false);
  const int64_t n = draw.Int(1, 3), m = draw.Int(1, 3);
  Dims square = batch, wide = batch;
  square.insert(square.end(), {n, n});
  wide.insert(wide.end(), {n, m});
  // x x' + a diagonal of different numbers: positive, without eigenvalues in common.
  const auto positive = [n](GraphBuilder& b, const Output& x) {
    Tensor diagonal(DataType::kDouble, Shape({n, n}));
    for (int64_t i = 0; i < n; ++i) diagonal.mutable_as<double>()[i * n + i] = 1 + 3 * static_cast<double>(i);
    return ops::BatchMatMul(x, x, {.b = true}) + b.Const(std::move(diagonal));
  };
  switch (draw.Int(0, 3)) {
    case 0:
      return {"Cholesky", {Of(square)}, [=](GraphBuilder& b, Inputs x) -> Output {
                return b.Op("Cholesky", {positive(b, x[0])}, {{"T", x[0].dtype()}});
              }};
    case 1: {
      const bool lower = draw.Coin(), adjoint = draw.Coin();
      return {"MatrixTriangularSolve", {Of(square, 1, 2), Of(wide)}, [=](GraphBuilder& b, Inputs x) -> Output {
                return b.Op("MatrixTriangularSolve", {positive(b, x[0]), x[1]},
                            {{"T", x[0].dtype()}, {"lower", lower}, {"adjoint", adjoint}});
              }};
    }
    case 2:
      return {"LogMatrixDeterminant", {Of(square)}, [=](GraphBuilder& b, Inputs x) {
                return b.Op("LogMatrixDeterminant", {positive(b, x[0])}, {{"T", x[0].dtype()}}).output(1);
              }};
    default:
      return {
          "SelfAdjointEigV2", {Of(square)}, [=](GraphBuilder& b, Inputs x) {
            return b.Op("SelfAdjointEigV2", {positive(b, x[0])}, {{"T", x[0].dtype()}, {"compute_v", true}}).output(0);
          }};
  }
}

GradientCase Spectra(Draw& draw) {
  const int64_t dims = draw.Int(1, 2);
  const Dims lengths = draw.Ints(dims, 1, 5);
  Dims shape = draw.Shape(0, 2, false);
  shape.insert(shape.end(), lengths.begin(), lengths.end());
  const std::string suffix = dims == 1 ? "" : "2D";
  const AttrMap attrs = {{"Treal", DataType::kDouble}, {"Tcomplex", DataType::kComplex128}};
  return {"RFFT" + suffix, {Of(shape)}, [=](GraphBuilder& b, Inputs x) -> Output {
            const Output spectrum = b.Op("RFFT" + suffix, {x[0], b.Ints(lengths)}, attrs);
            const Output product = spectrum * ops::Unary("Conj", spectrum) * ops::Exp(spectrum * 0.1);
            return b.Op("IRFFT" + suffix, {product, b.Ints(lengths)}, attrs);
          }};
}

}  // namespace

std::vector<GradientCase (*)(Draw&)> RandomNetworkFamilies() {
  return {Convolution, Pooling,   Matrices, Losses,         Resizing, BatchNorm,
          Blocks,      Diagonals, Choices,  Decompositions, Spectra};
}

}  // namespace millrace::testing
