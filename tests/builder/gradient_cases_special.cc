// Cases of special functions, segments, diagonals, patches and pools of inputs.
#include "builder/gradient_cases.h"
#include "millrace/graph_ops.h"

namespace millrace::testing {
namespace {

using Inputs = const std::vector<Output>&;
using Cases = std::vector<GradientCase>;
using IntList = std::vector<int64_t>;

constexpr DataType kInt32 = DataType::kInt32;

Output Raw(GraphBuilder& b, const char* op, std::vector<Output> inputs, AttrMap attrs) {
  return b.Op(op, inputs, std::move(attrs), op);
}

Output Bools(GraphBuilder& b, std::vector<bool> values) {
  Tensor tensor(DataType::kBool, Shape({static_cast<int64_t>(values.size())}));
  for (size_t i = 0; i < values.size(); ++i) tensor.mutable_as<bool>()[i] = values[i];
  return b.Const(std::move(tensor));
}

Output Matrix(GraphBuilder& b, IntList values, Shape shape) {
  Tensor tensor(kInt32, std::move(shape));
  for (size_t i = 0; i < values.size(); ++i) tensor.mutable_as<int32_t>()[i] = static_cast<int32_t>(values[i]);
  return b.Const(std::move(tensor));
}

void AddFunctionCases(Cases& cases) {
  struct UnaryCase {
    const char* op;
    double low, high;
    bool second;
  };
  for (const UnaryCase& u : std::initializer_list<UnaryCase>{{"Digamma", 0.5, 3, true},
                                                             {"Erfinv", -0.8, 0.8, true},
                                                             {"Ndtri", 0.1, 0.9, true},
                                                             {"BesselI0", -2, 2, true},
                                                             {"BesselI0e", 0.3, 2, true},
                                                             {"BesselI1", 0.3, 2, true},
                                                             {"BesselI1e", 0.3, 2, true}}) {
    cases.push_back({u.op,
                     {{{2, 3}, u.low, u.high}},
                     [op = u.op](GraphBuilder&, Inputs x) { return ops::Unary(op, x[0]); },
                     u.second});
  }
  for (const char* op : {"Xlog1py", "Mod", "TruncateMod", "Igamma", "Igammac"}) {
    const bool second = op != std::string("Igamma") && op != std::string("Igammac");
    cases.push_back({op, {{{2, 1, 3}, 0.6, 2}, {{4, 1}, 0.7, 2}},
                     [op](GraphBuilder&, Inputs x) { return ops::Binary(op, x[0], x[1]); }, second});
  }
  cases.push_back({"Polygamma", {{{2, 3}, 0.6, 2}}, [](GraphBuilder& b, Inputs x) {
                     return ops::Binary("Polygamma", b.Scalar(x[0].dtype(), 2), x[0]);
                   }});
  cases.push_back({"Zeta", {{{2, 3}, 0.6, 2}}, [](GraphBuilder& b, Inputs x) {
                     return ops::Binary("Zeta", b.Scalar(x[0].dtype(), 2.5), x[0]);
                   }});
}

void AddSegmentCases(Cases& cases) {
  for (const char* op : {"SegmentMax", "SegmentMin", "SegmentMean", "SegmentProd"}) {
    cases.push_back({op, {{{5, 2}, 0.5, 2}}, [op](GraphBuilder& b, Inputs x) {
                       return Raw(b, op, {x[0], b.Ints({0, 0, 1, 2, 2})}, {{"T", x[0].dtype()}, {"Tindices", kInt32}});
                     }});
  }
  for (const char* op : {"UnsortedSegmentMax", "UnsortedSegmentMin", "UnsortedSegmentProd"}) {
    cases.push_back({op, {{{5, 2}, 0.5, 2}}, [op](GraphBuilder& b, Inputs x) {
                       // One row belongs to no segment.
                       return Raw(b, op, {x[0], b.Ints({2, 0, -1, 1, 2}), b.Int(3)},
                                  {{"T", x[0].dtype()}, {"Tindices", kInt32}, {"Tnumsegments", kInt32}});
                     }});
  }
  for (const char* op : {"SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN"}) {
    cases.push_back({op, {{{4, 2}}}, [op](GraphBuilder& b, Inputs x) {
                       return Raw(b, op, {x[0], b.Ints({3, 0, 0, 1}), b.Ints({0, 0, 1, 1})},
                                  {{"T", x[0].dtype()}, {"Tidx", kInt32}, {"Tsegmentids", kInt32}});
                     }});
    cases.push_back({std::string(op) + "WithNumSegments", {{{4, 2}}}, [op](GraphBuilder& b, Inputs x) {
                       return Raw(b, (std::string(op) + "WithNumSegments").c_str(),
                                  {x[0], b.Ints({3, 0, 0, 1}), b.Ints({0, 0, 1, 1}), b.Int(3)},
                                  {{"T", x[0].dtype()}, {"Tidx", kInt32}, {"Tnumsegments", kInt32}, {"Tsegmentids", kInt32}});
                     }});
  }
  for (const char* op : {"TensorScatterMax", "TensorScatterMin", "ScatterNdNonAliasingAdd"}) {
    cases.push_back({op, {{{4, 2}}, {{2, 2}}}, [op](GraphBuilder& b, Inputs x) {
                       return Raw(b, op, {x[0], Matrix(b, {3, 1}, {2, 1}), x[1]},
                                  {{"T", x[0].dtype()}, {"Tindices", kInt32}});
                     }});
  }
  cases.push_back({"SparseToDense", {{{2}}, {{}}}, [](GraphBuilder& b, Inputs x) {
                     return Raw(b, "SparseToDense", {Matrix(b, {0, 1, 2, 0}, {2, 2}), b.Ints({3, 2}), x[0], x[1]},
                                {{"T", x[0].dtype()}, {"Tindices", kInt32}, {"validate_indices", true}});
                   }});
}

void AddDiagonalCases(Cases& cases) {
  cases.push_back({"MatrixDiagV3", {{{2, 2, 3}}}, [](GraphBuilder& b, Inputs x) {
                     return Raw(b, "MatrixDiagV3", {x[0], b.Ints({0, 1}), b.Int(3), b.Int(4), b.Scalar(x[0].dtype(), 0)},
                                {{"T", x[0].dtype()}, {"align", "RIGHT_LEFT"}});
                   }});
  cases.push_back({"MatrixDiagPartV3", {{{2, 3, 4}}}, [](GraphBuilder& b, Inputs x) {
                     return Raw(b, "MatrixDiagPartV3", {x[0], b.Ints({-1, 1}), b.Scalar(x[0].dtype(), 0)},
                                {{"T", x[0].dtype()}, {"align", "RIGHT_LEFT"}});
                   }});
  cases.push_back({"MatrixSetDiagV3", {{{3, 4}}, {{2, 3}}}, [](GraphBuilder& b, Inputs x) {
                     return Raw(b, "MatrixSetDiagV3", {x[0], x[1], b.Ints({0, 1})},
                                {{"T", x[0].dtype()}, {"align", "RIGHT_LEFT"}});
                   }});
  cases.push_back({"MatrixSetDiag", {{{2, 3, 3}}, {{2, 3}}}, [](GraphBuilder& b, Inputs x) {
                     return Raw(b, "MatrixSetDiag", {x[0], x[1]}, {{"T", x[0].dtype()}});
                   }});
}

void AddMovementCases(Cases& cases) {
  cases.push_back({"Reverse", {{{2, 3}}}, [](GraphBuilder& b, Inputs x) {
                     return Raw(b, "Reverse", {x[0], Bools(b, {false, true})}, {{"T", x[0].dtype()}});
                   }});
  cases.push_back({"SpaceToBatch", {{{1, 2, 3, 1}}}, [](GraphBuilder& b, Inputs x) {
                     return Raw(b, "SpaceToBatch", {x[0], Matrix(b, {0, 0, 1, 0}, {2, 2})},
                                {{"T", x[0].dtype()}, {"Tpaddings", kInt32}, {"block_size", 2}});
                   }});
  cases.push_back({"BatchToSpace", {{{4, 1, 2, 1}}}, [](GraphBuilder& b, Inputs x) {
                     return Raw(b, "BatchToSpace", {x[0], Matrix(b, {0, 0, 1, 0}, {2, 2})},
                                {{"T", x[0].dtype()}, {"Tidx", kInt32}, {"block_size", 2}});
                   }});
  cases.push_back({"ExtractImagePatches", {{{2, 4, 3, 2}}}, [](GraphBuilder& b, Inputs x) {
                     return Raw(b, "ExtractImagePatches", {x[0]},
                                {{"T", x[0].dtype()}, {"ksizes", IntList{1, 2, 2, 1}}, {"strides", IntList{1, 1, 2, 1}},
                                 {"rates", IntList{1, 2, 1, 1}}, {"padding", "SAME"}});
                   }});
  cases.push_back({"ExtractVolumePatches", {{{1, 3, 3, 2, 1}}}, [](GraphBuilder& b, Inputs x) {
                     return Raw(b, "ExtractVolumePatches", {x[0]},
                                {{"T", x[0].dtype()}, {"ksizes", IntList{1, 2, 2, 1, 1}}, {"strides", IntList{1, 1, 1, 1, 1}},
                                 {"padding", "VALID"}});
                   }});
  cases.push_back({"TensorStridedSliceUpdate", {{{3, 4}}, {{3, 2}}}, [](GraphBuilder& b, Inputs x) {
                     return Raw(b, "TensorStridedSliceUpdate", {x[0], b.Ints({0, 0}), b.Ints({3, 4}), b.Ints({1, 2}), x[1]},
                                {{"T", x[0].dtype()}, {"Index", kInt32}, {"begin_mask", 0}, {"end_mask", 0},
                                 {"ellipsis_mask", 0}, {"new_axis_mask", 0}, {"shrink_axis_mask", 0}});
                   }});
  cases.push_back({"NthElement", {{{2, 5}}}, [](GraphBuilder& b, Inputs x) {
                     return Raw(b, "NthElement", {x[0], b.Int(2)}, {{"T", x[0].dtype()}, {"reverse", false}});
                   }});
  cases.push_back({"BatchMatMulV3", {{{2, 3, 4}}, {{4, 2}}}, [](GraphBuilder& b, Inputs x) {
                     const DataType t = x[0].dtype();
                     return Raw(b, "BatchMatMulV3", {x[0], x[1]},
                                {{"Ta", t}, {"Tb", t}, {"Tout", t}, {"adj_x", false}, {"adj_y", false}});
                   }});
}

void AddImageCases(Cases& cases) {
  cases.push_back({"MaxPoolV2", {{{1, 4, 4, 2}}}, [](GraphBuilder& b, Inputs x) {
                     return Raw(b, "MaxPoolV2", {x[0], b.Ints({1, 2, 2, 1}), b.Ints({1, 1, 2, 1})},
                                {{"T", x[0].dtype()}, {"padding", "SAME"}, {"data_format", "NHWC"}});
                   }, true, DataType::kFloat});
  cases.push_back({"ResizeBicubic", {{{1, 3, 2, 1}}}, [](GraphBuilder& b, Inputs x) {
                     return Raw(b, "ResizeBicubic", {x[0], b.Ints({5, 4})},
                                {{"T", x[0].dtype()}, {"align_corners", false}, {"half_pixel_centers", true}});
                   }, true, DataType::kFloat});
  cases.push_back({"LRN_twice", {{{1, 2, 2, 5}, 0.5, 2}}, [](GraphBuilder&, Inputs x) {
                     return ops::Lrn(x[0], 1, 1.0f, 0.5f, 0.75f);
                   }, true, DataType::kFloat});
}

}  // namespace

void AddSpecialCases(std::vector<GradientCase>& cases) {
  AddFunctionCases(cases);
  AddSegmentCases(cases);
  AddDiagonalCases(cases);
  AddMovementCases(cases);
  AddImageCases(cases);
}

}  // namespace millrace::testing
