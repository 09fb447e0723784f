// Integer division, bits, tests of floating numbers, ranges, and shapes as tensors.
#include <map>
#include <string>
#include <vector>

#include "cuda/kernels/common.h"
#include "cuda/kernels/register.h"
#include "cuda/launch/integer.h"
#include "cuda/launch/layout.h"

namespace millrace::cuda {
namespace {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

KernelOr MakeDivision(DeviceServices& services, const OpInstance& instance) {
  static const auto* const ops = new std::map<std::string, DivisionOp>{
      {"FloorDiv", DivisionOp::kFloor},     {"FloorMod", DivisionOp::kFloorRemainder}, {"TruncateDiv", DivisionOp::kTruncate},
      {"TruncateMod", DivisionOp::kRemainder}, {"Mod", DivisionOp::kRemainder},        {"Div", DivisionOp::kTruncate},
      {"RealDiv", DivisionOp::kTruncate}};
  const DivisionOp op = ops->at(instance.op);
  MR_ASSIGN_OR_RETURN(const Type type, NumericTypeOf(instance, instance.inputs[0].dtype));
  if (ValueOf(instance, 0) != nullptr || ValueOf(instance, 1) != nullptr) return Refused(instance, "operands on the host");
  MR_ASSIGN_OR_RETURN(const Broadcast shape, BroadcastOf(instance, instance.outputs[0].shape,
                                                         {instance.inputs[0].shape, instance.inputs[1].shape}));
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
    LaunchDivision(queue, op, type, shape, context.inputs[0], context.inputs[1], context.outputs[0]);
  });
}

KernelOr MakeBits(DeviceServices& services, const OpInstance& instance) {
  static const auto* const ops = new std::map<std::string, BitOp>{
      {"BitwiseAnd", BitOp::kAnd}, {"BitwiseOr", BitOp::kOr}, {"BitwiseXor", BitOp::kXor}, {"Invert", BitOp::kInvert}};
  const BitOp op = ops->at(instance.op);
  MR_ASSIGN_OR_RETURN(const int bytes, ElementBytes(instance, instance.inputs[0].dtype));
  const int second = op == BitOp::kInvert ? 0 : 1;
  MR_ASSIGN_OR_RETURN(const Broadcast shape, BroadcastOf(instance, instance.outputs[0].shape,
                                                         {instance.inputs[0].shape, instance.inputs[second].shape}));
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
    LaunchBits(queue, op, bytes, shape, context.inputs[0], context.inputs[second], context.outputs[0]);
  });
}

KernelOr MakeFloatTest(DeviceServices& services, const OpInstance& instance) {
  const FloatTest test = instance.op == "IsNan"   ? FloatTest::kIsNan
                         : instance.op == "IsInf" ? FloatTest::kIsInf
                                                  : FloatTest::kIsFinite;
  MR_ASSIGN_OR_RETURN(const Type type, FloatingTypeOf(instance, instance.inputs[0].dtype));
  return MakeLaunch(services, [=, n = instance.outputs[0].shape.num_elements()](const Queue& queue, const KernelContext& context) {
    LaunchFloatTest(queue, test, type, context.inputs[0], context.output<bool>(0), n);
  });
}

KernelOr MakeRange(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const Type type, NumericTypeOf(instance, instance.outputs[0].dtype));
  if (type == Type::kHalf || type == Type::kBfloat16) return Refused(instance, "halves");
  const Tensor *start = ValueOf(instance, 0), *delta = ValueOf(instance, 2);
  if (start == nullptr || delta == nullptr) return Refused(instance, "bounds that are not known when planning");
  return MakeLaunch(services, [=, start = *start, delta = *delta, n = instance.outputs[0].shape.num_elements()](
                                  const Queue& queue, const KernelContext& context) {
    LaunchRange(queue, type, start.data(), delta.data(), context.outputs[0], n);
  });
}

// What Shape, ShapeN, Size and Rank give is in the type of their input.
KernelOr MakeShapes(DeviceServices& services, const OpInstance& instance) {
  std::vector<std::vector<int64_t>> values;
  for (size_t i = 0; i < instance.outputs.size(); ++i) {
    const DataType dtype = instance.outputs[i].dtype;
    const Shape& shape = instance.inputs[i].shape;
    if (dtype != DataType::kInt32 && dtype != DataType::kInt64) return Refused(instance, "this type");
    if (!shape.fully_known() || shape.rank() > kMaxInts) return Refused(instance, "this shape");
    if (instance.op == "Size") {
      values.push_back({shape.num_elements()});
    } else if (instance.op == "Rank") {
      values.push_back({shape.rank()});
    } else {
      values.emplace_back(shape.dims().begin(), shape.dims().end());
    }
  }
  return MakeLaunch(services, [values = std::move(values)](const Queue& queue, const KernelContext& context) {
    for (size_t i = 0; i < values.size(); ++i) {
      LaunchInts(queue, context.output_type(static_cast<int>(i)).dtype == DataType::kInt64, values[i].data(),
                 static_cast<int>(values[i].size()), context.outputs[i]);
    }
  });
}

KernelOr MakeIdentityN(DeviceServices& services, const OpInstance& instance) {
  std::vector<std::pair<int, StridedCopy>> copies;
  for (const TensorType& type : instance.outputs) {
    MR_ASSIGN_OR_RETURN(const int bytes, ElementBytes(instance, type.dtype));
    StridedCopy copy;
    copy.rank = 1;
    copy.elements = copy.dims[0] = type.shape.num_elements();
    copy.from_strides[0] = copy.to_strides[0] = 1;
    copies.emplace_back(bytes, copy);
  }
  for (size_t i = 0; i < instance.inputs.size(); ++i) {
    if (ValueOf(instance, i) != nullptr) return Refused(instance, "values that are on the host");
  }
  return MakeLaunch(services, [copies = std::move(copies)](const Queue& queue, const KernelContext& context) {
    for (size_t i = 0; i < copies.size(); ++i) {
      if (context.outputs[i] == context.inputs[i]) continue;
      LaunchStridedCopy(queue, copies[i].first, copies[i].second, context.inputs[i], context.outputs[i]);
    }
  });
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeIntegerDivision(DeviceServices& services, const OpInstance& instance) {
  return MakeDivision(services, instance);
}

void RegisterIntegers(KernelRegistry& registry, DeviceServices& services) {
  for (const char* op : {"FloorDiv", "FloorMod", "TruncateDiv", "TruncateMod", "Mod"}) Add(registry, services, op, MakeDivision);
  for (const char* op : {"BitwiseAnd", "BitwiseOr", "BitwiseXor", "Invert"}) Add(registry, services, op, MakeBits);
  for (const char* op : {"IsNan", "IsInf", "IsFinite"}) Add(registry, services, op, MakeFloatTest);
  Add(registry, services, "Range", MakeRange);
  for (const char* op : {"Shape", "ShapeN", "Size", "Rank"}) Add(registry, services, op, MakeShapes);
  Add(registry, services, "IdentityN", MakeIdentityN);
}

}  // namespace millrace::cuda
