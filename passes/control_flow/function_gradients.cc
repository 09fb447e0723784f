#include "passes/control_flow/function_gradients.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <unordered_map>
#include <variant>

#include "absl/strings/str_cat.h"

namespace millrace {
namespace {

using Refs = std::vector<OutputRef>;

// The gradient of one node, being written.
class Gradient {
 public:
  Gradient(Graph& graph, NodeId id, const Refs& of_outputs)
      : graph_(graph), id_(id), forward_(graph.node(id)), type_(TypeOfGradient(forward_)), dy_(of_outputs) {}

  const Node& forward() const { return forward_; }
  size_t inputs() const { return forward_.inputs.size(); }
  OutputRef x(size_t i = 0) const { return i < inputs() ? forward_.inputs[i] : OutputRef{}; }
  OutputRef y(int32_t i = 0) const { return {id_, i}; }
  const Refs& all_dy() const { return dy_; }
  OutputRef dy() const { return dy_[0]; }
  const AttrValue& type() const { return type_; }
  bool lacks_inputs() const { return lacks_inputs_; }
  bool flag(const char* name) const { return forward_.attrs.GetOr<bool>(name, false); }

  // A node of `op` with the type T of the gradient.
  OutputRef Op(const char* op, const Refs& inputs, AttrMap attrs = {}) {
    if (!attrs.Has("T")) attrs.Set("T", type_);
    return Add(op, inputs, std::move(attrs));
  }
  // With the attributes of the forward node.
  OutputRef Alike(const char* op, const Refs& inputs) { return Add(op, inputs, forward_.attrs); }
  OutputRef OfInt32(const char* op, const Refs& inputs, AttrMap attrs = {}) {
    attrs.Set("T", DataType::kInt32);
    return Op(op, inputs, std::move(attrs));
  }

  OutputRef Constant(const Tensor& value) { return Add("Const", {}, {{"dtype", value.dtype()}, {"value", value}}); }
  OutputRef Int(int32_t value) { return Constant(Tensor::Scalar<int32_t>(value)); }
  OutputRef Ints(int32_t value) { return Constant(Tensor::Vector<int32_t>({value})); }
  OutputRef Number(float value) { return Cast(Constant(Tensor::Scalar<float>(value)), DataType::kFloat, type_); }
  OutputRef Cast(OutputRef value, AttrValue from, AttrValue to) { return Add("Cast", {value}, {{"SrcT", std::move(from)}, {"DstT", std::move(to)}}); }
  // The type of indices that an attribute of the forward node says.
  AttrValue IndexType(const char* attr) const {
    const AttrValue* const type = forward_.attrs.Find(attr);
    return type == nullptr ? AttrValue(DataType::kInt32) : *type;
  }
  // Input `input`, whose type that is, as int32.
  OutputRef Indices(size_t input, const char* attr) {
    const bool wide = forward_.attrs.GetOr<DataType>(attr, DataType::kInt32) == DataType::kInt64;
    return wide ? Cast(x(input), DataType::kInt64, DataType::kInt32) : x(input);
  }
  OutputRef ShapeOf(OutputRef value) { return Op("Shape", {value}, {{"out_type", DataType::kInt32}}); }
  OutputRef Reshape(OutputRef value, OutputRef shape) { return Op("Reshape", {value, shape}, {{"Tshape", DataType::kInt32}}); }
  OutputRef Sum(OutputRef value, OutputRef axes, bool keep = false) {
    return Op("Sum", {value, axes}, {{"Tidx", DataType::kInt32}, {"keep_dims", keep}});
  }
  OutputRef Times(OutputRef factor) { return Op("Mul", {dy(), factor}); }

  // Gradients in the shape that both inputs were broadcast to, in their own; `rows_x`, `rows_y`: what of their shapes is broadcast.
  Refs Unbroadcast(OutputRef gx, OutputRef gy, OutputRef sx, OutputRef sy, OutputRef rows_x, OutputRef rows_y) {
    const OutputRef axes = OfInt32("BroadcastGradientArgs", {rows_x, rows_y});
    return {Reshape(Sum(gx, axes), sx), Reshape(Sum(gy, {axes.node, 1}), sy)};
  }
  Refs Unbroadcast(OutputRef gx, OutputRef gy) {
    const OutputRef sx = ShapeOf(x(0)), sy = ShapeOf(x(1));
    return Unbroadcast(gx, gy, sx, sy, sx, sy);
  }

  // What a reduction gives where it keeps the dimensions.
  OutputRef Kept() {
    AttrMap attrs = forward_.attrs;
    attrs.Set("keep_dims", true);
    return Add(forward_.op.c_str(), {x(0), x(1)}, std::move(attrs));
  }
  OutputRef Spread(OutputRef value) {
    return Op("BroadcastTo", {Reshape(value, ShapeOf(Kept())), ShapeOf(x())}, {{"Tidx", DataType::kInt32}});
  }

 private:
  OutputRef Add(const char* op, const Refs& inputs, AttrMap attrs) {
    for (OutputRef in : inputs) {
      if (in.node.valid()) continue;
      lacks_inputs_ = true;
      return {};
    }
    Node node;
    node.name = absl::StrCat("gradient/", forward_.name, "/", op);
    node.op = op;
    node.requested_device = forward_.requested_device;
    node.inputs.assign(inputs.begin(), inputs.end());
    node.attrs = std::move(attrs);
    return {graph_.AddUnique(std::move(node)), 0};
  }

  Graph& graph_;
  const NodeId id_;
  const Node forward_;  // a copy: the graph grows
  const AttrValue type_;
  const Refs dy_;
  bool lacks_inputs_ = false;
};

bool IsComplex(const AttrValue& type) {
  const DataType* const dtype = std::get_if<DataType>(&type);
  return dtype != nullptr && (*dtype == DataType::kComplex64 || *dtype == DataType::kComplex128);
}

using Rule = Refs (*)(Gradient&);
using Rules = std::unordered_map<std::string_view, Rule>;

template <char kPart>
Refs OfQuotient(Gradient& g) {
  constexpr const char* kDivide = kPart == 'r' ? "RealDiv" : kPart == 'n' ? "DivNoNan" : "Div";
  const OutputRef quotient = g.Op(kDivide, {g.Op("Neg", {g.x()}), g.Op("Square", {g.x(1)})});
  return g.Unbroadcast(g.Op(kDivide, {g.dy(), g.x(1)}), g.Times(quotient));
}

OutputRef Conjugate(Gradient& g, OutputRef value) { return IsComplex(g.type()) ? g.Op("Conj", {value}) : value; }

Refs OfPower(Gradient& g) {
  const OutputRef gx = g.Op("Mul", {g.Op("Pow", {g.x(), g.Op("Sub", {g.x(1), g.Number(1)})}), g.Times(g.x(1))});
  const OutputRef positive = g.Op("Greater", {g.x(), g.Number(0)});
  const OutputRef logarithm = g.Op("Select", {positive, g.Op("Log", {g.x()}), g.Op("ZerosLike", {g.x()})});
  return g.Unbroadcast(gx, g.Op("Mul", {logarithm, g.Times(g.y())}));
}

// x log(y) and x log(1 + y): nothing where x is zero.
template <bool kOfOnePlus>
Refs OfTimesLogarithm(Gradient& g) {
  const OutputRef counts = g.Cast(g.Op("NotEqual", {g.x(), g.Op("ZerosLike", {g.x()})}), DataType::kBool, g.type());
  const OutputRef logarithm = g.Op(kOfOnePlus ? "Xlog1py" : "Xlogy", {counts, g.x(1)});
  const OutputRef divisor = kOfOnePlus ? g.Op("Add", {g.x(1), g.Number(1)}) : g.x(1);
  return g.Unbroadcast(g.Op("Mul", {logarithm, g.dy()}), g.Op("Mul", {g.Op("Xdivy", {g.x(), divisor}), g.dy()}));
}

Refs OfXdivy(Gradient& g) {
  const OutputRef counts = g.Cast(g.Op("NotEqual", {g.x(), g.Op("ZerosLike", {g.x()})}), DataType::kBool, g.type());
  const OutputRef of_y = g.Op("Xdivy", {g.x(), g.Op("Neg", {g.Op("Square", {g.x(1)})})});
  return g.Unbroadcast(g.Op("Mul", {g.Op("Xdivy", {counts, g.x(1)}), g.dy()}), g.Op("Mul", {of_y, g.dy()}));
}

template <bool kLarger>
Refs OfExtreme(Gradient& g) {
  const OutputRef taken = g.Op(kLarger ? "GreaterEqual" : "LessEqual", {g.x(), g.x(1)});
  const OutputRef gx = g.Times(g.Cast(taken, DataType::kBool, g.type()));
  return g.Unbroadcast(gx, g.Op("Sub", {g.dy(), gx}));
}

Refs OfSelect(Gradient& g) {
  const OutputRef zeros = g.Op("ZerosLike", {g.x(1)});
  return {{}, g.Op("Select", {g.x(), g.dy(), zeros}), g.Op("Select", {g.x(), zeros, g.dy()})};
}

Refs OfSquaredDifference(Gradient& g) {
  const OutputRef gx = g.Op("Mul", {g.Op("Mul", {g.Number(2), g.Op("Sub", {g.x(), g.x(1)})}), g.dy()});
  return g.Unbroadcast(gx, g.Op("Neg", {gx}));
}

Refs OfMean(Gradient& g) {
  const AttrMap size{{"out_type", DataType::kInt32}};
  const OutputRef elements = g.OfInt32("Div", {g.Op("Size", {g.x()}, size), g.Op("Size", {g.y()}, size)});
  return {g.Spread(g.Op("Div", {g.dy(), g.Cast(elements, DataType::kInt32, g.type())})), {}};
}

// Those that are the extreme share its gradient.
Refs OfExtremes(Gradient& g) {
  const OutputRef extreme = g.Kept();
  const OutputRef mask = g.Cast(g.Op("Equal", {g.x(), extreme}), DataType::kBool, g.type());
  const OutputRef share = g.Op("Div", {g.dy(), g.Sum(mask, g.Indices(1, "Tidx"), g.flag("keep_dims"))});
  return {g.Op("Mul", {mask, g.Reshape(share, g.ShapeOf(extreme))}), {}};
}

// `first`, `second`: the attributes that transpose.
Refs ProductsOf(Gradient& g, const char* op, const char* first, const char* second) {
  const auto product = [&](OutputRef a, OutputRef b, bool transpose_a, bool transpose_b) {
    return g.Op(op, {a, b}, {{first, transpose_a}, {second, transpose_b}});
  };
  const OutputRef x = g.x(), y = g.x(1), dz = g.dy();
  const bool transposes_x = g.flag(first), transposes_y = g.flag(second);
  if (transposes_x && transposes_y) return {product(y, dz, true, true), product(dz, x, true, true)};
  if (transposes_x) return {product(y, dz, false, true), product(x, dz, false, false)};
  if (transposes_y) return {product(dz, y, false, false), product(dz, x, true, false)};
  return {product(dz, y, false, true), product(x, dz, true, false)};
}

Refs OfBroadcastProducts(Gradient& g) {
  const Refs products = ProductsOf(g, "BatchMatMulV2", "adj_x", "adj_y");
  const OutputRef sx = g.ShapeOf(g.x()), sy = g.ShapeOf(g.x(1));
  const auto batch = [&](OutputRef shape) {
    return g.OfInt32("StridedSlice", {shape, g.Ints(0), g.Ints(-2), g.Ints(1)}, {{"Index", DataType::kInt32}});
  };
  return g.Unbroadcast(products[0], products[1], sx, sy, batch(sx), batch(sy));
}

// Concat has its axis in front, ConcatV2 behind.
template <bool kAxisFirst>
Refs OfConcat(Gradient& g) {
  const size_t parts = g.inputs() - 1, first = kAxisFirst ? 1 : 0;
  Refs shapes;
  for (size_t i = 0; i < parts; ++i) shapes.push_back(g.ShapeOf(g.x(first + i)));
  const OutputRef axis = g.Indices(kAxisFirst ? 0 : parts, "Tidx");
  // An axis that counts from the end is one of the shapes' own.
  const OutputRef rank = g.Op("Rank", {g.x(first)});
  const OutputRef whole = g.OfInt32("FloorMod", {axis, rank});
  Refs offsets = {whole};
  offsets.insert(offsets.end(), shapes.begin(), shapes.end());
  const OutputRef offset = g.OfInt32("ConcatOffset", offsets, {{"N", static_cast<int64_t>(parts)}, {"shape_type", DataType::kInt32}});
  Refs gradients(g.inputs());
  for (size_t i = 0; i < parts; ++i) {
    gradients[first + i] = g.Op("Slice", {g.dy(), {offset.node, static_cast<int32_t>(i)}, shapes[i]}, {{"Index", DataType::kInt32}});
  }
  return gradients;
}

OutputRef JoinedAlong(Gradient& g, OutputRef axis) {
  Refs parts = g.all_dy();
  const int64_t count = static_cast<int64_t>(parts.size());
  parts.push_back(axis);
  return g.Op("ConcatV2", parts, {{"N", count}, {"Tidx", DataType::kInt32}});
}

Refs OfUnpack(Gradient& g) {
  return {g.Op("Pack", g.all_dy(), {{"N", static_cast<int64_t>(g.all_dy().size())}, {"axis", g.forward().attrs.GetOr<int64_t>("axis", 0)}})};
}

Refs OfPack(Gradient& g) {
  const int32_t parts = static_cast<int32_t>(g.inputs());
  const OutputRef unpacked = g.Op("Unpack", {g.dy()}, {{"num", int64_t{parts}}, {"axis", g.forward().attrs.GetOr<int64_t>("axis", 0)}});
  Refs gradients;
  for (int32_t i = 0; i < parts; ++i) gradients.push_back({unpacked.node, i});
  return gradients;
}

Refs OfFill(Gradient& g) {
  const OutputRef axes = g.OfInt32("Range", {g.Int(0), g.Op("Rank", {g.dy()}), g.Int(1)}, {{"Tidx", DataType::kInt32}});
  return {{}, g.Sum(g.dy(), axes)};
}

Refs OfBroadcastTo(Gradient& g) {
  const OutputRef shape = g.ShapeOf(g.x());
  const OutputRef axes = g.OfInt32("BroadcastGradientArgs", {shape, g.Indices(1, "Tidx")});
  return {g.Reshape(g.Sum(g.dy(), axes), shape), {}};
}

Refs OfSlice(Gradient& g) {
  const OutputRef begin = g.Indices(1, "Index");
  const OutputRef behind = g.OfInt32("Sub", {g.OfInt32("Sub", {g.ShapeOf(g.x()), begin}), g.ShapeOf(g.y())});
  const OutputRef paddings = g.OfInt32("Pack", {begin, behind}, {{"N", int64_t{2}}, {"axis", int64_t{1}}});
  return {g.Op("Pad", {g.dy(), paddings}, {{"Tpaddings", DataType::kInt32}}), {}, {}};
}

Refs OfStridedSlice(Gradient& g) {
  const OutputRef shape = g.Op("Shape", {g.x()}, {{"out_type", g.IndexType("Index")}});
  return {g.Alike("StridedSliceGrad", {shape, g.x(1), g.x(2), g.x(3), g.dy()}), {}, {}, {}};
}

Refs OfTranspose(Gradient& g) {
  const AttrValue type = g.IndexType("Tperm");
  return {g.Op("Transpose", {g.dy(), g.Op("InvertPermutation", {g.x(1)}, {{"T", type}})}, {{"Tperm", type}}), {}};
}

Refs OfSoftmax(Gradient& g) {
  const OutputRef sum = g.Sum(g.Times(g.y()), g.Ints(-1), true);
  return {g.Op("Mul", {g.Op("Sub", {g.dy(), sum}), g.y()})};
}

Refs OfLogSoftmax(Gradient& g) {
  const OutputRef sum = g.Sum(g.dy(), g.Ints(-1), true);
  return {g.Op("Sub", {g.dy(), g.Op("Mul", {sum, g.Op("Softmax", {g.x()})})})};
}

Refs OfConvolution(Gradient& g) {
  return {g.Alike("Conv2DBackpropInput", {g.ShapeOf(g.x()), g.x(1), g.dy()}), g.Alike("Conv2DBackpropFilter", {g.x(), g.ShapeOf(g.x(1)), g.dy()})};
}

Refs OfCast(Gradient& g) {
  const AttrValue* const to = g.forward().attrs.Find("DstT");
  return {g.Cast(g.dy(), to == nullptr ? AttrValue(DataType::kFloat) : *to, g.type())};
}

Refs OfReshape(Gradient& g) {
  Refs gradients(g.inputs());
  gradients[0] = g.Reshape(g.dy(), g.ShapeOf(g.x()));
  return gradients;
}

// One over a square root of one less the square.
OutputRef OverRoot(Gradient& g) { return g.Op("Reciprocal", {g.Op("Sqrt", {g.Op("Sub", {g.Number(1), g.Op("Square", {g.x()})})})}); }

void AddFunctionsOfOne(Rules& rules) {
  rules["Abs"] = [](Gradient& g) -> Refs { return {g.Times(g.Op("Sign", {g.x()}))}; };
  rules["Acos"] = [](Gradient& g) -> Refs { return {g.Times(g.Op("Neg", {OverRoot(g)}))}; };
  rules["Asin"] = [](Gradient& g) -> Refs { return {g.Times(OverRoot(g))}; };
  rules["Atan"] = [](Gradient& g) -> Refs { return {g.Times(g.Op("Reciprocal", {g.Op("Add", {g.Number(1), g.Op("Square", {g.x()})})}))}; };
  rules["Atanh"] = [](Gradient& g) -> Refs { return {g.Times(g.Op("Reciprocal", {g.Op("Sub", {g.Number(1), g.Op("Square", {g.x()})})}))}; };
  rules["Cos"] = [](Gradient& g) -> Refs { return {g.Times(g.Op("Neg", {g.Op("Sin", {g.x()})}))}; };
  rules["Cosh"] = [](Gradient& g) -> Refs { return {g.Times(g.Op("Sinh", {g.x()}))}; };
  rules["Exp"] = [](Gradient& g) -> Refs { return {g.Times(g.y())}; };
  rules["Expm1"] = [](Gradient& g) -> Refs { return {g.Times(g.Op("Exp", {g.x()}))}; };
  rules["Log"] = [](Gradient& g) -> Refs { return {g.Times(g.Op("Reciprocal", {g.x()}))}; };
  rules["Log1p"] = [](Gradient& g) -> Refs { return {g.Op("Div", {g.dy(), g.Op("Add", {g.Number(1), g.x()})})}; };
  rules["Neg"] = [](Gradient& g) -> Refs { return {g.Op("Neg", {g.dy()})}; };
  rules["Reciprocal"] = [](Gradient& g) -> Refs { return {g.Times(g.Op("Neg", {g.Op("Square", {g.y()})}))}; };
  rules["Inv"] = rules["Reciprocal"];
  rules["Relu"] = [](Gradient& g) -> Refs { return {g.Op("ReluGrad", {g.dy(), g.x()})}; };
  rules["Relu6"] = [](Gradient& g) -> Refs { return {g.Op("Relu6Grad", {g.dy(), g.x()})}; };
  rules["Rsqrt"] = [](Gradient& g) -> Refs {
    return {g.Times(g.Op("Mul", {g.Op("Mul", {g.Number(-0.5f), g.Op("Reciprocal", {g.x()})}), g.y()}))};
  };
  rules["Sigmoid"] = [](Gradient& g) -> Refs { return {g.Times(g.Op("Mul", {g.y(), g.Op("Sub", {g.Number(1), g.y()})}))}; };
  rules["Sign"] = [](Gradient&) -> Refs { return {{}}; };
  rules["Sin"] = [](Gradient& g) -> Refs { return {g.Times(g.Op("Cos", {g.x()}))}; };
  rules["Sinh"] = [](Gradient& g) -> Refs { return {g.Times(g.Op("Cosh", {g.x()}))}; };
  rules["Sqrt"] = [](Gradient& g) -> Refs { return {g.Times(g.Op("Mul", {g.Number(0.5f), g.Op("Reciprocal", {g.y()})}))}; };
  rules["Square"] = [](Gradient& g) -> Refs { return {g.Times(g.Op("Mul", {g.x(), g.Number(2)}))}; };
  rules["Tan"] = [](Gradient& g) -> Refs { return {g.Times(g.Op("Square", {g.Op("Reciprocal", {g.Op("Cos", {g.x()})})}))}; };
  rules["Tanh"] = [](Gradient& g) -> Refs { return {g.Times(g.Op("Sub", {g.Number(1), g.Op("Square", {g.y()})}))}; };
}

void AddFunctionsOfTwo(Rules& rules) {
  rules["Add"] = [](Gradient& g) -> Refs { return g.Unbroadcast(g.dy(), g.dy()); };
  rules["AddV2"] = rules["Add"];
  rules["Div"] = OfQuotient<'d'>;
  rules["DivNoNan"] = OfQuotient<'n'>;
  rules["Maximum"] = OfExtreme<true>;
  rules["Minimum"] = OfExtreme<false>;
  rules["Mul"] = [](Gradient& g) -> Refs { return g.Unbroadcast(g.Times(Conjugate(g, g.x(1))), g.Op("Mul", {Conjugate(g, g.x()), g.dy()})); };
  rules["MulNoNan"] = rules["Mul"];
  rules["Pow"] = OfPower;
  rules["RealDiv"] = OfQuotient<'r'>;
  rules["Select"] = OfSelect;
  rules["SquaredDifference"] = OfSquaredDifference;
  rules["Sub"] = [](Gradient& g) -> Refs { return g.Unbroadcast(g.dy(), g.Op("Neg", {g.dy()})); };
  rules["Xdivy"] = OfXdivy;
  rules["Xlog1py"] = OfTimesLogarithm<true>;
  rules["Xlogy"] = OfTimesLogarithm<false>;
}

void AddArrays(Rules& rules) {
  rules["BroadcastTo"] = OfBroadcastTo;
  rules["Cast"] = OfCast;
  rules["Concat"] = OfConcat<true>;
  rules["ConcatV2"] = OfConcat<false>;
  rules["ExpandDims"] = OfReshape;
  rules["Fill"] = OfFill;
  rules["Identity"] = [](Gradient& g) -> Refs { return {g.dy()}; };
  rules["Pack"] = OfPack;
  rules["ReadVariableOp"] = rules["Identity"];
  rules["Reshape"] = OfReshape;
  rules["ReverseV2"] = [](Gradient& g) -> Refs { return {g.Alike("ReverseV2", {g.dy(), g.x(1)}), {}}; };
  rules["Slice"] = OfSlice;
  rules["Split"] = [](Gradient& g) -> Refs { return {{}, JoinedAlong(g, g.x(0))}; };
  rules["SplitV"] = [](Gradient& g) -> Refs { return {JoinedAlong(g, g.x(2)), {}, {}}; };
  rules["Squeeze"] = OfReshape;
  rules["StridedSlice"] = OfStridedSlice;
  rules["Transpose"] = OfTranspose;
  rules["Unpack"] = OfUnpack;
}

void AddLayers(Rules& rules) {
  rules["AvgPool"] = [](Gradient& g) -> Refs { return {g.Alike("AvgPoolGrad", {g.ShapeOf(g.x()), g.dy()})}; };
  rules["BatchMatMul"] = [](Gradient& g) -> Refs { return ProductsOf(g, "BatchMatMul", "adj_x", "adj_y"); };
  rules["BatchMatMulV2"] = OfBroadcastProducts;
  rules["BiasAdd"] = [](Gradient& g) -> Refs { return {g.dy(), g.Alike("BiasAddGrad", {g.dy()})}; };
  rules["Conv2D"] = OfConvolution;
  rules["LogSoftmax"] = OfLogSoftmax;
  rules["MatMul"] = [](Gradient& g) -> Refs { return ProductsOf(g, "MatMul", "transpose_a", "transpose_b"); };
  rules["Max"] = OfExtremes;
  rules["MaxPool"] = [](Gradient& g) -> Refs { return {g.Alike("MaxPoolGrad", {g.x(), g.y(), g.dy()})}; };
  rules["Mean"] = OfMean;
  rules["Min"] = OfExtremes;
  rules["Softmax"] = OfSoftmax;
  rules["Sum"] = [](Gradient& g) -> Refs { return {g.Spread(g.dy()), {}}; };
}

const Rules& AllRules() {
  static const Rules& rules = *[] {
    auto* const made = new Rules;
    AddFunctionsOfOne(*made);
    AddFunctionsOfTwo(*made);
    AddArrays(*made);
    AddLayers(*made);
    return made;
  }();
  return rules;
}

}  // namespace

bool PassesNoGradient(const std::string& op) {
  constexpr std::string_view kNone[] = {"Const", "Equal", "Floor", "FloorDiv", "Greater", "GreaterEqual", "Less", "LessEqual", "LinSpace",
                                        "LogicalAnd", "LogicalNot", "LogicalOr", "NotEqual", "OnesLike", "Range", "Rank", "Shape", "Size",
                                        "StopGradient", "TruncateDiv", "ZerosLike"};
  return std::find(std::begin(kNone), std::end(kNone), op) != std::end(kNone);
}

bool HasGradientRule(const Node& node) {
  const bool multiplies_matrices = node.op == "MatMul" || node.op == "BatchMatMul" || node.op == "BatchMatMulV2";
  return AllRules().count(node.op) > 0 && !(multiplies_matrices && IsComplex(TypeOfGradient(node)));
}

AttrValue TypeOfGradient(const Node& node) {
  const char* const name = node.op == "Cast" ? "SrcT" : node.op == "ReadVariableOp" ? "dtype" : "T";
  const AttrValue* const type = node.attrs.Find(name);
  return type == nullptr ? AttrValue(DataType::kFloat) : *type;
}

absl::StatusOr<std::vector<OutputRef>> AddGradient(Graph& graph, NodeId id, const std::vector<OutputRef>& of_outputs) {
  Gradient gradient(graph, id, of_outputs);
  Refs gradients = AllRules().at(gradient.forward().op)(gradient);
  if (gradient.lacks_inputs()) {
    const Node& forward = gradient.forward();
    return absl::InvalidArgumentError(absl::StrCat("node '", forward.name, "' (", forward.op, ") lacks inputs"));
  }
  gradients.resize(gradient.inputs());
  return gradients;
}

}  // namespace millrace
