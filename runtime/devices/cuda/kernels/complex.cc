#include "cuda/kernels/complex.h"

#include <map>
#include <string>
#include <vector>

#include "cuda/kernels/reduce_shape.h"
#include "cuda/kernels/register.h"
#include "cuda/launch/complex.h"
#include "cuda/launch/complex_functions.h"

namespace millrace::cuda {
namespace {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

// The type of the parts of a complex type.
absl::StatusOr<Type> PartTypeOf(const OpInstance& instance, DataType dtype) {
  if (!IsComplex(dtype)) return Refused(instance, absl::StrCat("element type ", std::string(DataTypeName(dtype))));
  return dtype == DataType::kComplex64 ? Type::kFloat : Type::kDouble;
}

KernelOr MakePart(DeviceServices& services, const OpInstance& instance) {
  static const auto* const parts = new std::map<std::string, ComplexPart>{
      {"Real", ComplexPart::kReal}, {"Imag", ComplexPart::kImag}, {"ComplexAbs", ComplexPart::kAbs}, {"Angle", ComplexPart::kAngle}};
  MR_ASSIGN_OR_RETURN(const Type type, PartTypeOf(instance, instance.inputs[0].dtype));
  const int64_t n = instance.outputs[0].shape.num_elements();
  return MakeLaunch(services, [=, part = parts->at(instance.op)](const Queue& queue, const KernelContext& context) {
    LaunchComplexPart(queue, part, type, context.inputs[0], context.outputs[0], n);
  });
}

KernelOr MakeJoin(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const Type type, PartTypeOf(instance, instance.outputs[0].dtype));
  MR_ASSIGN_OR_RETURN(const Type given, FloatingTypeOf(instance, instance.inputs[0].dtype));
  if (given != type) return Refused(instance, "parts of another type");
  MR_ASSIGN_OR_RETURN(const Broadcast shape, BroadcastOf(instance, instance.outputs[0].shape,
                                                         {instance.inputs[0].shape, instance.inputs[1].shape}));
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
    LaunchComplexJoin(queue, type, shape, context.inputs[0], context.inputs[1], context.outputs[0]);
  });
}

KernelOr MakeEqual(DeviceServices& services, const OpInstance& instance, Type type, const Broadcast& shape) {
  return MakeLaunch(services, [=, negated = instance.op == "NotEqual"](const Queue& queue, const KernelContext& context) {
    LaunchComplexEqual(queue, negated, type, shape, context.inputs[0], context.inputs[1], context.output<bool>(0));
  });
}

KernelOr MakePow(DeviceServices& services, Type type, const Broadcast& shape) {
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
    LaunchComplexPow(queue, type, shape, context.inputs[0], context.inputs[1], context.outputs[0]);
  });
}

}  // namespace

KernelOr MakeComplexUnary(DeviceServices& services, const OpInstance& instance) {
  static const auto* const ops = new std::map<std::string, ComplexUnary>{
      {"Neg", ComplexUnary::kNeg}, {"Square", ComplexUnary::kSquare}, {"Reciprocal", ComplexUnary::kReciprocal},
      {"Inv", ComplexUnary::kReciprocal}, {"Sign", ComplexUnary::kSign}, {"Conj", ComplexUnary::kConj}};
  static const auto* const functions = new std::map<std::string, ComplexFunction>{
      {"Sqrt", ComplexFunction::kSqrt}, {"Rsqrt", ComplexFunction::kRsqrt}, {"Exp", ComplexFunction::kExp},
      {"Log", ComplexFunction::kLog}, {"Sin", ComplexFunction::kSin}, {"Cos", ComplexFunction::kCos},
      {"Tanh", ComplexFunction::kTanh}, {"Sigmoid", ComplexFunction::kSigmoid}, {"OnesLike", ComplexFunction::kOne}};
  const auto op = ops->find(instance.op);
  const auto function = functions->find(instance.op);
  if (op == ops->end() && function == functions->end()) return Refused(instance, "complex numbers");
  MR_ASSIGN_OR_RETURN(const Type type, PartTypeOf(instance, instance.inputs[0].dtype));
  const int64_t n = instance.outputs[0].shape.num_elements();
  if (op == ops->end()) {
    return MakeLaunch(services, [=, function = function->second](const Queue& queue, const KernelContext& context) {
      LaunchComplexFunction(queue, function, type, context.inputs[0], context.outputs[0], n);
    });
  }
  return MakeLaunch(services, [=, op = op->second](const Queue& queue, const KernelContext& context) {
    LaunchComplexUnary(queue, op, type, context.inputs[0], context.outputs[0], n);
  });
}

KernelOr MakeComplexBinary(DeviceServices& services, const OpInstance& instance) {
  static const auto* const ops = new std::map<std::string, ComplexBinary>{
      {"Add", ComplexBinary::kAdd}, {"AddV2", ComplexBinary::kAdd}, {"Sub", ComplexBinary::kSub}, {"Mul", ComplexBinary::kMul},
      {"Div", ComplexBinary::kDiv}, {"RealDiv", ComplexBinary::kDiv}, {"DivNoNan", ComplexBinary::kDivNoNan},
      {"MulNoNan", ComplexBinary::kMulNoNan}, {"SquaredDifference", ComplexBinary::kSquaredDifference},
      {"ReciprocalGrad", ComplexBinary::kReciprocalGrad}, {"InvGrad", ComplexBinary::kReciprocalGrad},
      {"SqrtGrad", ComplexBinary::kSqrtGrad}, {"RsqrtGrad", ComplexBinary::kRsqrtGrad},
      {"TanhGrad", ComplexBinary::kTanhGrad}, {"SigmoidGrad", ComplexBinary::kSigmoidGrad}};
  const Shape &a = instance.inputs[0].shape, &b = instance.inputs[1].shape;
  MR_ASSIGN_OR_RETURN(const Type type, PartTypeOf(instance, instance.inputs[0].dtype));
  if (instance.inputs[0].dtype != instance.inputs[1].dtype) return Refused(instance, "operands of two types");
  // Where such shapes do not go together, the answer is one for both tensors.
  if (a != b && !instance.attrs.GetOr<bool>("incompatible_shape_error", true)) return Refused(instance, "shapes that may differ");
  MR_ASSIGN_OR_RETURN(const Broadcast shape, BroadcastOf(instance, instance.outputs[0].shape, {a, b}));
  if (instance.op == "Equal" || instance.op == "NotEqual") return MakeEqual(services, instance, type, shape);
  if (instance.op == "Pow") return MakePow(services, type, shape);
  const auto found = ops->find(instance.op);
  if (found == ops->end()) return Refused(instance, "complex numbers");
  return MakeLaunch(services, [=, op = found->second](const Queue& queue, const KernelContext& context) {
    LaunchComplexBinary(queue, op, type, shape, context.inputs[0], context.inputs[1], context.outputs[0]);
  });
}

KernelOr MakeComplexCast(DeviceServices& services, const OpInstance& instance) {
  const DataType from = instance.inputs[0].dtype, to = instance.outputs[0].dtype;
  const auto launcher = IsComplex(from) ? IsComplex(to) ? LaunchComplexToComplex : LaunchComplexToReal : LaunchRealToComplex;
  MR_ASSIGN_OR_RETURN(const Type from_type, IsComplex(from) ? PartTypeOf(instance, from) : TypeOf(instance, from));
  MR_ASSIGN_OR_RETURN(const Type to_type, IsComplex(to) ? PartTypeOf(instance, to) : TypeOf(instance, to));
  if (to_type == Type::kUint8) return Refused(instance, "this pair of types");
  const int64_t n = instance.outputs[0].shape.num_elements();
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
    launcher(queue, from_type, to_type, context.inputs[0], context.outputs[0], n);
  });
}

// Sums of parts are sums of twice as many real numbers.
KernelOr MakeComplexAddN(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const Type type, PartTypeOf(instance, instance.outputs[0].dtype));
  const int count = static_cast<int>(instance.inputs.size());
  const int64_t n = 2 * instance.outputs[0].shape.num_elements();
  return MakeLaunch(
      services,
      [=](const Queue& queue, const KernelContext& context) {
        LaunchAddN(queue, type, context.inputs, count, context.outputs[0], n, context.scratch);
      },
      AddNScratchBytes(type, count, n));
}

KernelOr MakeComplexReduction(DeviceServices& services, const OpInstance& instance) {
  static const auto* const ops =
      new std::map<std::string, ReduceOp>{{"Sum", ReduceOp::kSum}, {"Mean", ReduceOp::kMean}, {"Prod", ReduceOp::kProd}};
  const auto found = ops->find(instance.op);
  if (found == ops->end()) return Refused(instance, "complex numbers");
  MR_ASSIGN_OR_RETURN(const Type type, PartTypeOf(instance, instance.inputs[0].dtype));
  MR_ASSIGN_OR_RETURN(const std::vector<bool> reduced, ReducedBy(instance));
  MR_ASSIGN_OR_RETURN(const ReduceShape shape, ReduceShapeOf(instance, instance.inputs[0].shape, reduced));
  return MakeLaunch(
      services,
      [=, op = found->second](const Queue& queue, const KernelContext& context) {
        LaunchComplexReduce(queue, op, type, shape, context.inputs[0], context.outputs[0], context.scratch);
      },
      ComplexReduceScratchBytes(shape));
}

void RegisterComplex(KernelRegistry& registry, DeviceServices& services) {
  for (const char* op : {"Real", "Imag", "ComplexAbs", "Angle"}) Add(registry, services, op, MakePart);
  Add(registry, services, "Conj", MakeComplexUnary);
  Add(registry, services, "Complex", MakeJoin);
}

}  // namespace millrace::cuda
