#include <algorithm>
#include <map>

#include "cuda/kernels/common.h"
#include "cuda/kernels/complex.h"
#include "cuda/kernels/elementwise_names.h"
#include "cuda/kernels/register.h"

namespace millrace::cuda {

absl::StatusOr<Broadcast> BroadcastOf(const OpInstance& instance, const Shape& output,
                                      absl::Span<const Shape> inputs) {
  Broadcast result;
  result.elements = output.num_elements();
  // Innermost first, merged where every input goes on or every one repeats.
  int64_t steps[3] = {1, 1, 1};
  for (int d = output.rank() - 1; d >= 0; --d) {
    const int64_t dim = output.dim(d);
    if (dim == 1) continue;
    int64_t strides[3] = {0, 0, 0};
    for (size_t k = 0; k < inputs.size(); ++k) {
      const int at = d - (output.rank() - inputs[k].rank());
      if (at < 0 || inputs[k].dim(at) == 1) continue;
      strides[k] = steps[k];
      steps[k] *= dim;
    }
    bool merges = result.rank > 0;
    for (int k = 0; merges && k < 3; ++k) {
      const int last = result.rank - 1;
      merges = strides[k] == result.strides[k][last] * result.dims[last];
    }
    if (merges) {
      result.dims[result.rank - 1] *= dim;
      continue;
    }
    if (result.rank == kMaxDims) return Refused(instance, absl::StrCat("more than ", kMaxDims, " dimensions"));
    result.dims[result.rank] = dim;
    for (int k = 0; k < 3; ++k) result.strides[k][result.rank] = strides[k];
    ++result.rank;
  }
  for (int d = 0; d < result.rank / 2; ++d) {
    std::swap(result.dims[d], result.dims[result.rank - 1 - d]);
    for (auto& strides : result.strides) std::swap(strides[d], strides[result.rank - 1 - d]);
  }
  return result;
}

const std::map<std::string, UnaryOp>& UnaryOps() {
  static const auto* const ops = new std::map<std::string, UnaryOp>{
      {"Neg", UnaryOp::kNeg}, {"Abs", UnaryOp::kAbs}, {"Sign", UnaryOp::kSign}, {"Square", UnaryOp::kSquare},
      {"Reciprocal", UnaryOp::kReciprocal}, {"Inv", UnaryOp::kReciprocal}, {"Sqrt", UnaryOp::kSqrt},
      {"Rsqrt", UnaryOp::kRsqrt}, {"Exp", UnaryOp::kExp}, {"Expm1", UnaryOp::kExpm1}, {"Log", UnaryOp::kLog},
      {"Log1p", UnaryOp::kLog1p}, {"Sin", UnaryOp::kSin}, {"Cos", UnaryOp::kCos}, {"Tan", UnaryOp::kTan},
      {"Tanh", UnaryOp::kTanh}, {"Sigmoid", UnaryOp::kSigmoid}, {"Erf", UnaryOp::kErf}, {"Erfc", UnaryOp::kErfc},
      {"Floor", UnaryOp::kFloor}, {"Ceil", UnaryOp::kCeil}, {"Rint", UnaryOp::kRint}, {"Round", UnaryOp::kRint},
      {"Relu", UnaryOp::kRelu}, {"Relu6", UnaryOp::kRelu6}, {"Elu", UnaryOp::kElu}, {"Selu", UnaryOp::kSelu},
      {"Softplus", UnaryOp::kSoftplus}, {"Softsign", UnaryOp::kSoftsign}, {"LeakyRelu", UnaryOp::kLeakyRelu},
      {"Asin", UnaryOp::kAsin}, {"Acos", UnaryOp::kAcos}, {"Atan", UnaryOp::kAtan}, {"Sinh", UnaryOp::kSinh}, {"Cosh", UnaryOp::kCosh},
      {"Asinh", UnaryOp::kAsinh}, {"Acosh", UnaryOp::kAcosh}, {"Atanh", UnaryOp::kAtanh}};
  return *ops;
}

const std::map<std::string, BinaryOp>& BinaryOps() {
  static const auto* const ops = new std::map<std::string, BinaryOp>{
      {"Add", BinaryOp::kAdd}, {"AddV2", BinaryOp::kAdd}, {"Sub", BinaryOp::kSub}, {"Mul", BinaryOp::kMul},
      {"Maximum", BinaryOp::kMaximum}, {"Minimum", BinaryOp::kMinimum},
      {"SquaredDifference", BinaryOp::kSquaredDifference}, {"RealDiv", BinaryOp::kDiv}, {"Div", BinaryOp::kDiv},
      {"DivNoNan", BinaryOp::kDivNoNan}, {"MulNoNan", BinaryOp::kMulNoNan}, {"Pow", BinaryOp::kPow},
      {"ReluGrad", BinaryOp::kReluGrad}, {"Relu6Grad", BinaryOp::kRelu6Grad},
      {"LeakyReluGrad", BinaryOp::kLeakyReluGrad}, {"TanhGrad", BinaryOp::kTanhGrad},
      {"SigmoidGrad", BinaryOp::kSigmoidGrad}, {"SqrtGrad", BinaryOp::kSqrtGrad}, {"RsqrtGrad", BinaryOp::kRsqrtGrad},
      {"ReciprocalGrad", BinaryOp::kReciprocalGrad}, {"InvGrad", BinaryOp::kReciprocalGrad},
      {"SoftplusGrad", BinaryOp::kSoftplusGrad}, {"SoftsignGrad", BinaryOp::kSoftsignGrad},
      {"EluGrad", BinaryOp::kEluGrad}, {"SeluGrad", BinaryOp::kSeluGrad}, {"Atan2", BinaryOp::kAtan2}, {"Xlogy", BinaryOp::kXlogy},
      {"Xlog1py", BinaryOp::kXlog1py}, {"Xdivy", BinaryOp::kXdivy}};
  return *ops;
}

const std::map<std::string, CompareOp>& CompareOps() {
  static const auto* const ops = new std::map<std::string, CompareOp>{
      {"Less", CompareOp::kLess},       {"LessEqual", CompareOp::kLessEqual},
      {"Greater", CompareOp::kGreater}, {"GreaterEqual", CompareOp::kGreaterEqual},
      {"Equal", CompareOp::kEqual},     {"NotEqual", CompareOp::kNotEqual}};
  return *ops;
}

const std::map<std::string, LogicalOp>& LogicalOps() {
  static const auto* const ops = new std::map<std::string, LogicalOp>{
      {"LogicalAnd", LogicalOp::kAnd}, {"LogicalOr", LogicalOp::kOr}, {"LogicalNot", LogicalOp::kNot}};
  return *ops;
}

double AlphaOf(const OpInstance& instance) { return instance.attrs.GetOr<float>("alpha", 0.2f); }

namespace {

absl::StatusOr<std::unique_ptr<Kernel>> MakeUnary(DeviceServices& services, const OpInstance& instance) {
  const UnaryOp op = UnaryOps().at(instance.op);
  const DataType dtype = instance.inputs[0].dtype;
  if (IsComplex(dtype)) return MakeComplexUnary(services, instance);
  MR_ASSIGN_OR_RETURN(const Type type, op > UnaryOp::kSquare ? FloatingTypeOf(instance, dtype)
                                                             : NumericTypeOf(instance, dtype));
  const int64_t n = instance.outputs[0].shape.num_elements();
  return MakeLaunch(services, [=, alpha = AlphaOf(instance)](const Queue& queue, const KernelContext& context) {
    LaunchUnary(queue, op, type, context.inputs[0], context.outputs[0], n, alpha);
  });
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeBinary(DeviceServices& services, const OpInstance& instance) {
  const BinaryOp op = BinaryOps().at(instance.op);
  const DataType dtype = instance.inputs[0].dtype;
  if (IsComplex(dtype)) return MakeComplexBinary(services, instance);
  if (op == BinaryOp::kDiv && IsInteger(dtype)) return MakeIntegerDivision(services, instance);
  MR_ASSIGN_OR_RETURN(const Type type, op > BinaryOp::kSquaredDifference ? FloatingTypeOf(instance, dtype)
                                                                         : NumericTypeOf(instance, dtype));
  MR_ASSIGN_OR_RETURN(const Broadcast shape, BroadcastOf(instance, instance.outputs[0].shape,
                                                         {instance.inputs[0].shape, instance.inputs[1].shape}));
  return MakeLaunch(services, [=, alpha = AlphaOf(instance)](const Queue& queue, const KernelContext& context) {
    LaunchBinary(queue, op, type, shape, context.inputs[0], context.inputs[1], context.outputs[0], alpha);
  });
}

// Whether the output is the two inputs, compared element by element. Where the shapes do not go together it is one answer.
bool AreBroadcast(const OpInstance& instance) {
  const Shape &a = instance.inputs[0].shape, &b = instance.inputs[1].shape;
  for (int d = 1; d <= std::min(a.rank(), b.rank()); ++d) {
    const int64_t p = a.dim(a.rank() - d), q = b.dim(b.rank() - d);
    if (p != q && p != 1 && q != 1) return false;
  }
  return true;
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeCompare(DeviceServices& services, const OpInstance& instance) {
  if (IsComplex(instance.inputs[0].dtype)) return MakeComplexBinary(services, instance);
  const CompareOp op = CompareOps().at(instance.op);
  MR_ASSIGN_OR_RETURN(const Type type, TypeOf(instance, instance.inputs[0].dtype));
  if (!instance.attrs.GetOr<bool>("incompatible_shape_error", true) && !AreBroadcast(instance)) {
    return Refused(instance, "shapes that are not broadcast");
  }
  MR_ASSIGN_OR_RETURN(const Broadcast shape, BroadcastOf(instance, instance.outputs[0].shape,
                                                         {instance.inputs[0].shape, instance.inputs[1].shape}));
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
    LaunchCompare(queue, op, type, shape, context.inputs[0], context.inputs[1], context.output<bool>(0));
  });
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeLogical(DeviceServices& services, const OpInstance& instance) {
  const LogicalOp op = LogicalOps().at(instance.op);
  const int second = op == LogicalOp::kNot ? 0 : 1;
  MR_ASSIGN_OR_RETURN(const Broadcast shape, BroadcastOf(instance, instance.outputs[0].shape,
                                                         {instance.inputs[0].shape, instance.inputs[second].shape}));
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
    LaunchLogical(queue, op, shape, context.input<bool>(0), context.input<bool>(second), context.output<bool>(0));
  });
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeSelect(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const int bytes, ElementBytes(instance, instance.outputs[0].dtype));
  if (instance.op == "Select" && instance.inputs[1].shape != instance.inputs[2].shape) return Refused(instance, "one of two shapes");
  // Select's condition may be a vector that chooses rows; SelectV2 broadcasts.
  Shape condition = instance.inputs[0].shape;
  if (instance.op == "Select" && condition.rank() == 1) {
    for (int d = 1; d < instance.outputs[0].shape.rank(); ++d) condition.AddDim(1);
  }
  MR_ASSIGN_OR_RETURN(const Broadcast shape, BroadcastOf(instance, instance.outputs[0].shape,
                                                         {condition, instance.inputs[1].shape, instance.inputs[2].shape}));
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
    LaunchSelect(queue, bytes, shape, context.input<bool>(0), context.inputs[1], context.inputs[2], context.outputs[0]);
  });
}

// ClipByValue(value, low, high).
absl::StatusOr<std::unique_ptr<Kernel>> MakeClip(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const Type type, NumericTypeOf(instance, instance.inputs[0].dtype));
  const Shape& out = instance.outputs[0].shape;
  MR_ASSIGN_OR_RETURN(const Broadcast low, BroadcastOf(instance, out, {out, instance.inputs[1].shape}));
  MR_ASSIGN_OR_RETURN(const Broadcast high, BroadcastOf(instance, out, {out, instance.inputs[2].shape}));
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
    LaunchBinary(queue, BinaryOp::kLower, type, high, context.inputs[0], context.inputs[2], context.outputs[0], 0);
    LaunchBinary(queue, BinaryOp::kRaise, type, low, context.outputs[0], context.inputs[1], context.outputs[0], 0);
  });
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeCast(DeviceServices& services, const OpInstance& instance) {
  if (instance.attrs.GetOr<bool>("Truncate", false)) return Refused(instance, "a cast that truncates");
  if (IsComplex(instance.inputs[0].dtype) || IsComplex(instance.outputs[0].dtype)) return MakeComplexCast(services, instance);
  MR_ASSIGN_OR_RETURN(const Type from, TypeOf(instance, instance.inputs[0].dtype));
  MR_ASSIGN_OR_RETURN(const Type to, TypeOf(instance, instance.outputs[0].dtype));
  if (to == Type::kUint8) return Refused(instance, "this pair of types");
  const int64_t n = instance.outputs[0].shape.num_elements();
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
    LaunchCast(queue, from, to, context.inputs[0], context.outputs[0], n);
  });
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeAddN(DeviceServices& services, const OpInstance& instance) {
  if (IsComplex(instance.outputs[0].dtype)) return MakeComplexAddN(services, instance);
  MR_ASSIGN_OR_RETURN(const Type type, NumericTypeOf(instance, instance.outputs[0].dtype));
  const int count = static_cast<int>(instance.inputs.size());
  const int64_t n = instance.outputs[0].shape.num_elements();
  return MakeLaunch(
      services,
      [=](const Queue& queue, const KernelContext& context) {
        LaunchAddN(queue, type, context.inputs, count, context.outputs[0], n, context.scratch);
      },
      AddNScratchBytes(type, count, n));
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeBiasAdd(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const Type type, NumericTypeOf(instance, instance.outputs[0].dtype));
  Shape bias = instance.inputs[1].shape;
  if (instance.attrs.GetOr<std::string>("data_format", "NHWC") != "NHWC") {  // channels first
    std::vector<int64_t> dims(instance.inputs[0].shape.rank() - 1, 1);
    dims[0] = bias.dim(0);
    bias = Shape(dims);
  }
  MR_ASSIGN_OR_RETURN(const Broadcast shape, BroadcastOf(instance, instance.outputs[0].shape, {instance.inputs[0].shape, bias}));
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
    LaunchBinary(queue, BinaryOp::kAdd, type, shape, context.inputs[0], context.inputs[1], context.outputs[0], 0);
  });
}

}  // namespace

void RegisterElementwise(KernelRegistry& registry, DeviceServices& services) {
  for (const auto& [name, op] : UnaryOps()) Add(registry, services, name, MakeUnary);
  for (const auto& [name, op] : BinaryOps()) Add(registry, services, name, MakeBinary);
  for (const auto& [name, op] : CompareOps()) Add(registry, services, name, MakeCompare);
  for (const auto& [name, op] : LogicalOps()) Add(registry, services, name, MakeLogical);
  for (const char* op : {"Select", "SelectV2"}) Add(registry, services, op, MakeSelect);
  Add(registry, services, "ClipByValue", MakeClip);
  Add(registry, services, "Cast", MakeCast);
  Add(registry, services, "AddN", MakeAddN);
  for (const char* op : {"BiasAdd", "BiasAddV1"}) Add(registry, services, op, MakeBiasAdd);
}

}  // namespace millrace::cuda
