// Cases of colours, crops, projections, fake quantisation and samples.
#include "builder/gradient_cases.h"
#include "millrace/graph_ops.h"

namespace millrace::testing {
namespace {

using Inputs = const std::vector<Output>&;
using Cases = std::vector<GradientCase>;

constexpr DataType kFloat = DataType::kFloat;

Output Floats(GraphBuilder& b, std::vector<float> values, Shape shape) {
  Tensor tensor(kFloat, std::move(shape));
  for (size_t i = 0; i < values.size(); ++i) tensor.mutable_as<float>()[i] = values[i];
  return b.Const(std::move(tensor));
}

void AddPictureOnlyCases(Cases& cases) {
  cases.push_back({"RGBToHSV", {{{4, 3, 3}, 0.1, 1}}, [](GraphBuilder&, Inputs x) { return ops::Unary("RGBToHSV", x[0]); }});
  cases.push_back({"AdjustContrastv2", {{{2, 3, 2, 2}}, {{}, 0.5, 2}}, [](GraphBuilder& b, Inputs x) -> Output {
                     return b.Op("AdjustContrastv2", {x[0], x[1]}, {{"T", kFloat}});
                   }, true, kFloat});
  cases.push_back({"CropAndResize", {{{2, 5, 4, 2}}, {{3, 4}, 0.02, 0.04}}, [](GraphBuilder& b, Inputs x) -> Output {
                     // Samples stay between the same pixels; the third box reaches beyond the image.
                     const Output boxes = x[1] + Floats(b, {0.1f, 0.1f, 0.65f, 0.55f, 0, 0.4f, 0.8f, 0.9f, -0.4f, -0.3f,
                                                            0.6f, 0.5f}, Shape({3, 4}));
                     return b.Op("CropAndResize", {x[0], boxes, b.Ints({1, 0, 1}), b.Ints({3, 2})},
                                 {{"T", kFloat}, {"method", "bilinear"}, {"extrapolation_value", 0.0f}});
                   }, false, kFloat});
  cases.push_back({"CropAndResize_image", {{{2, 5, 4, 2}}}, [](GraphBuilder& b, Inputs x) -> Output {
                     const Output boxes = Floats(b, {0.1f, 0.2f, 0.7f, 0.9f, 0.3f, 0, 0.8f, 1.2f}, Shape({2, 4}));
                     return b.Op("CropAndResize", {x[0], boxes, b.Ints({1, 0}), b.Ints({3, 2})},
                                 {{"T", kFloat}, {"method", "bilinear"}, {"extrapolation_value", 0.0f}});
                   }, true, kFloat});
  cases.push_back({"CropAndResize_nearest", {{{2, 5, 4, 2}}}, [](GraphBuilder& b, Inputs x) -> Output {
                     const Output boxes = Floats(b, {0.1f, 0.2f, 0.7f, 0.9f, 0.3f, 0, 0.8f, 1.2f}, Shape({2, 4}));
                     return b.Op("CropAndResize", {x[0], boxes, b.Ints({1, 0}), b.Ints({3, 2})},
                                 {{"T", kFloat}, {"method", "nearest"}, {"extrapolation_value", 0.0f}});
                   }, true, kFloat});
  for (const char* op : {"ImageProjectiveTransformV2", "ImageProjectiveTransformV3"}) {
    for (const bool whole : {true, false}) {
      cases.push_back({std::string(op) + (whole ? "_shift" : "_turn"), {{{2, 4, 5, 1}}},
                       [op, whole](GraphBuilder& b, Inputs x) -> Output {
                         const std::vector<float> shift = {1, 0, 2, 0, 1, -1, 0, 0};
                         const std::vector<float> turn = {0.9f, -0.3f, 0.5f, 0.2f, 1.1f, -0.4f, 0.01f, 0};
                         std::vector<Output> inputs = {x[0], Floats(b, whole ? shift : turn, Shape({1, 8})),
                                                       b.Ints({4, 5})};
                         if (op == std::string("ImageProjectiveTransformV3")) inputs.push_back(b.Scalar(kFloat, 0));
                         return b.Op(op, inputs, {{"dtype", kFloat}, {"interpolation", "BILINEAR"},
                                                  {"fill_mode", "CONSTANT"}});
                       },
                       true, kFloat, whole});
    }
  }
}

void AddStraightThroughCases(Cases& cases) {
  const AttrMap attrs = {{"num_bits", 4}, {"narrow_range", false}};
  // Once more on the gradient itself, which passes through the gradient ops' own gradients.
  const auto doubled = [](const Output& y) { return ops::Square(y); };
  cases.push_back({"FakeQuantWithMinMaxArgs", {{{3, 4}}}, [=](GraphBuilder& b, Inputs x) {
                     AttrMap all = attrs;
                     all.Set("min", -1.0f);
                     all.Set("max", 1.5f);
                     return doubled(b.Op("FakeQuantWithMinMaxArgs", {x[0]}, all));
                   }, true, kFloat, false});
  cases.push_back({"FakeQuantWithMinMaxVars", {{{3, 4}}, {{}, -1.2, -1}, {{}, 1, 1.2}}, [=](GraphBuilder& b, Inputs x) {
                     return doubled(b.Op("FakeQuantWithMinMaxVars", {x[0], x[1], x[2]}, attrs));
                   }, true, kFloat, false});
  cases.push_back({"FakeQuantWithMinMaxVarsPerChannel", {{{3, 4}}, {{4}, -1.4, -0.6}, {{4}, 0.6, 1.4}},
                   [=](GraphBuilder& b, Inputs x) {
                     return doubled(b.Op("FakeQuantWithMinMaxVarsPerChannel", {x[0], x[1], x[2]}, attrs));
                   }, true, kFloat, false});
  // Linear in its first input: differences can be taken of these.
  cases.push_back({"FakeQuantWithMinMaxArgsGradient", {{{3, 4}}}, [=](GraphBuilder& b, Inputs x) -> Output {
                     AttrMap all = attrs;
                     all.Set("min", -1.0f);
                     all.Set("max", 1.5f);
                     const Output at = b.Const(RandomTensor(x[0].type(), -2, 2, 50));
                     return b.Op("FakeQuantWithMinMaxArgsGradient", {x[0], at}, all);
                   }, true, kFloat});
  for (const bool per_channel : {false, true}) {
    const char* op =
        per_channel ? "FakeQuantWithMinMaxVarsPerChannelGradient" : "FakeQuantWithMinMaxVarsGradient";
    cases.push_back({op, {{{3, 4}}}, [=](GraphBuilder& b, Inputs x) {
                       const Shape bound = per_channel ? Shape({4}) : Shape();
                       const Output at = b.Const(RandomTensor(x[0].type(), -2, 2, 50));
                       const Operation all = b.Op(op, {x[0], at, ops::Full(b, {kFloat, bound}, -1),
                                                       ops::Full(b, {kFloat, bound}, 1.3)}, attrs);
                       const Output low = ops::Reshape(all.output(1), {-1, 1, 1}) * 2.0;
                       return ops::ExpandDims(all.output(0), 0) + low + ops::Reshape(all.output(2), {-1, 1, 1});
                     }, true, kFloat});
  }
}

void AddSampleCases(Cases& cases) {
  cases.push_back({"RandomGamma", {{{2, 3}, 0.5, 3}}, [](GraphBuilder& b, Inputs x) -> Output {
                     return b.Op("RandomGamma", {b.Ints({4}), x[0]},
                                 {{"S", DataType::kInt32}, {"T", x[0].dtype()}, {"seed", 3}, {"seed2", 5}});
                   }, false, DataType::kDouble, false});
  cases.push_back({"StatelessRandomGammaV2", {{{3}, 0.5, 3}}, [](GraphBuilder& b, Inputs x) -> Output {
                     return b.Op("StatelessRandomGammaV2", {b.Ints({4, 3}), b.Ints({3, 5}), x[0]},
                                 {{"T", DataType::kInt32}, {"Tseed", DataType::kInt32}, {"dtype", x[0].dtype()}});
                   }, false, DataType::kDouble, false});
}

}  // namespace

void AddPictureCases(Cases& cases) {
  AddPictureOnlyCases(cases);
  AddStraightThroughCases(cases);
  AddSampleCases(cases);
}

}  // namespace millrace::testing
