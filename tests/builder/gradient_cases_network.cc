#include <string>

#include "absl/strings/str_cat.h"
#include "builder/gradient_cases.h"
#include "millrace/graph_ops.h"

namespace millrace::testing {
namespace {

using Inputs = const std::vector<Output>&;
using Cases = std::vector<GradientCase>;
constexpr DataType kInt32 = DataType::kInt32;
constexpr DataType kFloat = DataType::kFloat;

Output Raw(GraphBuilder& b, const char* op, std::vector<Output> inputs, AttrMap attrs, int output = 0) {
  return b.Op(op, inputs, std::move(attrs), op).output(output);
}

Output Indices(GraphBuilder& b, Shape shape, std::initializer_list<int32_t> values) {
  Tensor tensor(kInt32, std::move(shape));
  std::copy(values.begin(), values.end(), tensor.mutable_as<int32_t>().begin());
  return b.Const(std::move(tensor));
}

void AddConvolutionCases(Cases& cases) {
  const std::pair<const char*, ops::WindowOptions> windows[] = {
      {"", {}},
      {"_strided", {.strides = {2}}},
      {"_valid", {.strides = {2, 1}, .padding = "VALID"}},
  };
  for (const auto& [suffix, options] : windows) {
    cases.push_back({absl::StrCat("Conv2D", suffix), {{{2, 5, 4, 2}}, {{3, 2, 2, 3}}},
                     [options = options](GraphBuilder&, Inputs x) { return ops::Conv2D(x[0], x[1], options); }});
  }
  cases.push_back({"Conv2D_dilated", {{{1, 6, 6, 2}}, {{3, 3, 2, 2}}}, [](GraphBuilder&, Inputs x) {
                     return ops::Conv2D(x[0], x[1], {.dilations = {2}});
                   }, true, kFloat});
  cases.push_back({"Conv2DBackpropInput", {{{2, 3, 3, 2}}, {{3, 3, 2, 2}}}, [](GraphBuilder&, Inputs x) {
                     return ops::ConvTranspose2D(x[0], x[1], {2, 6, 6, 2}, {.strides = {2}});
                   }});
  cases.push_back({"Conv2DBackpropFilter", {{{2, 4, 4, 2}}, {{2, 2, 2, 3}}}, [](GraphBuilder& b, Inputs x) {
                     return Raw(b, "Conv2DBackpropFilter", {x[0], b.Ints({3, 3, 2, 3}), x[1]},
                                {{"T", x[0].dtype()}, {"strides", ops::IntList{1, 2, 2, 1}}, {"padding", "SAME"},
                                 {"data_format", "NHWC"}});
                   }});
  cases.push_back({"Conv3D", {{{1, 4, 3, 4, 2}}, {{2, 3, 2, 2, 2}}}, [](GraphBuilder&, Inputs x) {
                     return ops::Conv3D(x[0], x[1], {.strides = {2, 1, 2}});
                   }});
  cases.push_back({"Conv3DBackpropInputV2", {{{1, 2, 2, 2, 2}}, {{2, 2, 2, 1, 2}}}, [](GraphBuilder&, Inputs x) {
                     return ops::ConvTranspose3D(x[0], x[1], {1, 4, 4, 4, 1}, {.strides = {2}});
                   }});
  for (const int64_t stride : {1, 2}) {
    cases.push_back({absl::StrCat("DepthwiseConv2dNative_", stride), {{{2, 5, 5, 2}}, {{3, 3, 2, 2}}},
                     [stride](GraphBuilder&, Inputs x) {
                       return ops::DepthwiseConv2D(x[0], x[1], {.strides = {stride}});
                     }});
  }
}

void AddPoolCases(Cases& cases) {
  for (const char* op : {"MaxPool", "AvgPool"}) {
    for (const char* padding : {"SAME", "VALID"}) {
      cases.push_back({absl::StrCat(op, "_", padding), {{{2, 5, 4, 2}}}, [op, padding](GraphBuilder&, Inputs x) {
                         return ops::Pool(op, x[0], {3, 2}, {.strides = {2}, .padding = padding});
                       }});
      cases.push_back({absl::StrCat(op, "3D_", padding), {{{1, 4, 4, 4, 2}}}, [op, padding](GraphBuilder&, Inputs x) {
                         return ops::Pool(absl::StrCat(op, "3D"), x[0], {2}, {.strides = {2}, .padding = padding});
                       }, true, kFloat});
    }
  }
  cases.push_back({"ResizeBilinear", {{{1, 3, 4, 2}}}, [](GraphBuilder&, Inputs x) {
                     return ops::ResizeBilinear(x[0], 5, 6);
                   }, true, kFloat});
  cases.push_back({"ResizeNearestNeighbor", {{{1, 3, 4, 2}}}, [](GraphBuilder& b, Inputs x) {
                     return Raw(b, "ResizeNearestNeighbor", {x[0], b.Ints({6, 8})},
                                {{"T", x[0].dtype()}, {"align_corners", false}, {"half_pixel_centers", true}});
                   }, true, kFloat});
}

void AddNormCases(Cases& cases) {
  const CaseInput scale{{2}, 0.5, 2}, offset{{2}};
  cases.push_back({"FusedBatchNormV3", {{{3, 2, 2, 2}}, scale, offset}, [](GraphBuilder&, Inputs x) {
                     return ops::FusedBatchNorm(x[0], x[1], x[2], 0.01f).y;
                   }, true, kFloat});
  cases.push_back({"FusedBatchNormV3_nchw", {{{3, 2, 2, 2}}, scale, offset}, [](GraphBuilder& b, Inputs x) {
                     const Output none = b.SharedConst(Tensor(kFloat, Shape({0})));
                     return Raw(b, "FusedBatchNormV3", {x[0], x[1], x[2], none, none},
                                {{"T", kFloat}, {"U", kFloat}, {"epsilon", 0.01f}, {"exponential_avg_factor", 1.0f},
                                 {"data_format", "NCHW"}, {"is_training", true}});
                   }, false, kFloat});
  cases.push_back({"FusedBatchNormV3_inference", {{{3, 2, 2, 2}}, scale, offset}, [](GraphBuilder& b, Inputs x) {
                     const Output mean = b.Const(RandomTensor({kFloat, Shape({2})}, -1, 1, 7));
                     const Output variance = b.Const(RandomTensor({kFloat, Shape({2})}, 0.5, 2, 8));
                     return Raw(b, "FusedBatchNormV3", {x[0], x[1], x[2], mean, variance},
                                {{"T", kFloat}, {"U", kFloat}, {"epsilon", 0.01f}, {"exponential_avg_factor", 1.0f},
                                 {"data_format", "NHWC"}, {"is_training", false}});
                   }, true, kFloat});
  cases.push_back({"LRN", {{{1, 2, 2, 7}}}, [](GraphBuilder&, Inputs x) {
                     return ops::Lrn(x[0], 2, 1.0f, 0.1f, 0.75f);
                   }, false, kFloat});
}

void AddLossCases(Cases& cases) {
  cases.push_back({"SparseSoftmaxCrossEntropyWithLogits", {{{3, 4}}}, [](GraphBuilder& b, Inputs x) {
                     return ops::SparseSoftmaxCrossEntropy(x[0], Indices(b, {3}, {2, 0, 3})).loss;
                   }});
  cases.push_back({"SoftmaxCrossEntropyWithLogits", {{{3, 4}}, {{3, 4}, 0.1, 1}}, [](GraphBuilder&, Inputs x) {
                     return ops::SoftmaxCrossEntropy(x[0], ops::Softmax(x[1])).loss;
                   }});
  cases.push_back({"CTCLoss", {{{5, 2, 4}}}, [](GraphBuilder& b, Inputs x) {
                     Tensor positions(DataType::kInt64, Shape({3, 2}));
                     const int64_t values[] = {0, 0, 0, 1, 1, 0};
                     std::copy(values, values + 6, positions.mutable_as<int64_t>().begin());
                     return Raw(b, "CTCLoss",
                                {x[0], b.Const(positions), Indices(b, {3}, {1, 2, 0}), Indices(b, {2}, {5, 4})},
                                {{"T", x[0].dtype()}, {"preprocess_collapse_repeated", false},
                                 {"ctc_merge_repeated", true}, {"ignore_longer_outputs_than_inputs", false}});
                   }, false, kFloat});
}

}  // namespace

void AddNetworkCases(std::vector<GradientCase>& cases) {
  AddConvolutionCases(cases);
  AddPoolCases(cases);
  AddNormCases(cases);
  AddLossCases(cases);
}

}  // namespace millrace::testing
