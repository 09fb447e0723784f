// Cases of recurrent blocks, morphology, antialiased scaling and round trips through integers.
#include "absl/strings/str_cat.h"
#include "builder/gradient_cases.h"
#include "millrace/graph_ops.h"

namespace millrace::testing {
namespace {

using Inputs = const std::vector<Output>&;
using Cases = std::vector<GradientCase>;
using IntList = std::vector<int64_t>;

constexpr DataType kFloat = DataType::kFloat;

void AddRecurrentCases(Cases& cases) {
  for (const char* op : {"BlockLSTM", "BlockLSTMV2"}) {
    const Shape state({2, 2}), peephole({2});
    cases.push_back({op,
                     {{{3, 2, 2}, -1, 1}, {state, -1, 1}, {state, -1, 1}, {{4, 8}, -1, 1}, {peephole, -1, 1},
                      {peephole, -1, 1}, {peephole, -1, 1}, {{8}, -1, 1}},
                     [op](GraphBuilder& b, Inputs x) {
                       AttrMap attrs = {{"T", kFloat}, {"cell_clip", 0.0f}, {"use_peephole", true}};
                       if (op == std::string("BlockLSTM")) attrs.Set("forget_bias", 1.0f);
                       std::vector<Output> inputs = {b.Const(Tensor::Scalar<int64_t>(3))};
                       inputs.insert(inputs.end(), x.begin(), x.end());
                       const Operation lstm = b.Op(op, inputs, attrs);
                       return ops::Concat({lstm.output(1), lstm.output(6)}, 0);
                     },
                     false, kFloat});
  }
}

// TensorFlow has kernels of these on GPUs only: differences check ours.
void AddCudnnCases(Cases& cases) {
  constexpr int64_t kSteps = 3, kBatch = 2, kInputs = 2, kUnits = 2;
  for (const char* op : {"CudnnRNN", "CudnnRNNV2", "CudnnRNNV3"}) {
    for (const std::string mode : {"lstm", "gru", "rnn_tanh"}) {
      const int64_t gates = mode == "lstm" ? 4 : mode == "gru" ? 3 : 1, layers = mode == "gru" ? 2 : 1, both = mode == "rnn_tanh" ? 2 : 1;
      int64_t weights = 0;
      for (int64_t l = 0; l < layers; ++l) weights += both * gates * kUnits * ((l == 0 ? kInputs : both * kUnits) + kUnits + 2);
      const Shape state({layers * both, kBatch, kUnits});
      cases.push_back({absl::StrCat(op, "_", mode),
                       {{{kSteps, kBatch, kInputs}, -1, 1}, {state, -1, 1}, {state, -1, 1}, {{weights}, -1, 1}},
                       [=](GraphBuilder& b, Inputs x) {
                         std::vector<Output> inputs(x.begin(), x.end());
                         if (op == std::string("CudnnRNNV3")) inputs.push_back(b.Ints({kSteps, kSteps - 1}));
                         AttrMap attrs = {{"T", x[0].dtype()}, {"rnn_mode", mode}, {"is_training", true}};
                         attrs.Set("direction", std::string(both == 2 ? "bidirectional" : "unidirectional"));
                         const Operation layer = b.Op(op, inputs, attrs);
                         std::vector<Output> parts = {ops::Reshape(layer.output(0), {-1}), ops::Reshape(layer.output(1), {-1})};
                         parts.push_back(mode == "lstm" ? ops::Reshape(layer.output(2), {-1}) : ops::Reshape(x[2], {-1}));
                         return ops::Concat(parts, 0);
                       },
                       false});
    }
  }
}

void AddRareImageCases(Cases& cases) {
  cases.push_back({"Dilation2D", {{{1, 4, 4, 2}}, {{2, 2, 2}}}, [](GraphBuilder& b, Inputs x) -> Output {
                     return b.Op("Dilation2D", {x[0], x[1]},
                                 {{"T", x[0].dtype()}, {"strides", IntList{1, 1, 2, 1}}, {"rates", IntList{1, 2, 1, 1}},
                                  {"padding", "SAME"}});
                   }, false});
  cases.push_back({"ScaleAndTranslate", {{{1, 4, 3, 2}}}, [](GraphBuilder& b, Inputs x) -> Output {
                     const auto pair = [&b](float first, float second) {
                       return b.Const(Tensor::Vector<float>({first, second}));
                     };
                     return b.Op("ScaleAndTranslate", {x[0], b.Ints({5, 2}), pair(1.3f, 0.7f), pair(0.2f, -0.1f)},
                                 {{"T", kFloat}, {"kernel_type", "triangle"}, {"antialias", true}});
                   }, true, kFloat});
}

void AddRoundTripCases(Cases& cases) {
  const AttrMap attrs = {{"signed_input", true}, {"range_given", true}, {"narrow_range", false}, {"axis", -1}};
  const auto bound = [](GraphBuilder& b, double value) { return b.Scalar(kFloat, value); };
  cases.push_back({"QuantizeAndDequantizeV2", {{{3, 4}}}, [=](GraphBuilder& b, Inputs x) -> Output {
                     AttrMap all = attrs;
                     all.Set("T", kFloat);
                     all.Set("num_bits", 4);
                     all.Set("round_mode", "HALF_TO_EVEN");
                     return b.Op("QuantizeAndDequantizeV2", {x[0], bound(b, -1), bound(b, 1)}, all);
                   }, false, kFloat, false});
  cases.push_back({"QuantizeAndDequantizeV3", {{{3, 4}}}, [=](GraphBuilder& b, Inputs x) -> Output {
                     AttrMap all = attrs;
                     all.Set("T", kFloat);
                     return b.Op("QuantizeAndDequantizeV3", {x[0], bound(b, -1), bound(b, 1), b.Int(4)}, all);
                   }, false, kFloat, false});
  cases.push_back({"QuantizeAndDequantizeV4", {{{3, 4}}, {{}, -1.2, -1}, {{}, 1, 1.2}}, [=](GraphBuilder& b, Inputs x) -> Output {
                     AttrMap all = attrs;
                     all.Set("T", kFloat);
                     all.Set("num_bits", 4);
                     all.Set("round_mode", "HALF_TO_EVEN");
                     return b.Op("QuantizeAndDequantizeV4", {x[0], x[1], x[2]}, all);
                   }, false, kFloat, false});
  // Of the values alone: min and max have TensorFlow's sums, which no result differentiates.
  cases.push_back({"QuantizeAndDequantizeV4Grad", {{{3, 4}}}, [=](GraphBuilder& b, Inputs x) {
                     const Output values = b.Const(RandomTensor({kFloat, Shape({3, 4})}, -2, 2, 17));
                     return b.Op("QuantizeAndDequantizeV4Grad", {x[0], values, bound(b, -1), bound(b, 1)},
                                 {{"T", kFloat}, {"axis", -1}}).output(0);
                   }, true, kFloat});
}

}  // namespace

void AddRareCases(Cases& cases) {
  AddRecurrentCases(cases);
  AddCudnnCases(cases);
  AddRareImageCases(cases);
  AddRoundTripCases(cases);
}

}  // namespace millrace::testing
