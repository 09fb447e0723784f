// Comparisons, logical and bitwise operations.
#include <algorithm>

#include "cpu/kernels/binary.h"
#include "cpu/kernels/elementwise.h"
#include "cpu/kernels/register.h"

namespace millrace::cpu {
namespace {

struct Less {
  template <typename T>
  static bool Apply(T a, T b) {
    return a < b;
  }
};
struct LessEqual {
  template <typename T>
  static bool Apply(T a, T b) {
    return a <= b;
  }
};
struct Greater {
  template <typename T>
  static bool Apply(T a, T b) {
    return a > b;
  }
};
struct GreaterEqual {
  template <typename T>
  static bool Apply(T a, T b) {
    return a >= b;
  }
};
struct Equal {
  template <typename T>
  static bool Apply(T a, T b) {
    return a == b;
  }
};
struct NotEqual {
  template <typename T>
  static bool Apply(T a, T b) {
    return a != b;
  }
};

struct And {
  template <typename T>
  static T Apply(T a, T b) {
    return a & b;
  }
};
struct Or {
  template <typename T>
  static T Apply(T a, T b) {
    return a | b;
  }
};
struct Xor {
  template <typename T>
  static T Apply(T a, T b) {
    return a ^ b;
  }
};

// A shift is at least 0 and less than the bits of the stored type, which may be narrower than T.
template <typename T, int kBits>
struct LeftShift {
  static T Apply(T a, T b) {
    const auto shift = std::clamp<int64_t>(static_cast<int64_t>(b), 0, kBits - 1);
    return static_cast<T>(static_cast<uint64_t>(a) << shift);
  }
};
template <typename T, int kBits>
struct RightShift {
  static T Apply(T a, T b) { return static_cast<T>(a >> std::clamp<int64_t>(static_cast<int64_t>(b), 0, kBits - 1)); }
};

template <template <typename, int> class Shift>
BinaryLoops ShiftLoops(DataType dtype) {
  switch (DataTypeSize(dtype)) {
    case 1:
      return {.on_int64 = &LoopOver<Shift<int64_t, 8>, int64_t>};
    case 2:
      return {.on_int64 = &LoopOver<Shift<int64_t, 16>, int64_t>};
    case 4:
      return {.on_int32 = &LoopOver<Shift<int32_t, 32>, int32_t>, .on_int64 = &LoopOver<Shift<int64_t, 32>, int64_t>};
    default:
      return {.on_int64 = &LoopOver<Shift<int64_t, 64>, int64_t>,
              .on_uint64 = &LoopOver<Shift<uint64_t, 64>, uint64_t>};
  }
}

template <template <typename, int> class Shift>
absl::StatusOr<std::unique_ptr<Kernel>> MakeShift(const OpInstance& instance) {
  return MakeBinaryKernel(instance, ShiftLoops<Shift>(instance.inputs[0].dtype), {}, instance.inputs[0].shape,
                          instance.inputs[1].shape, instance.outputs[0].shape);
}

// Equal and NotEqual of shapes that do not broadcast, where the attribute allows it: one value.
KernelFactory EqualityFactory(BinaryLoops loops, bool when_incompatible) {
  return [=](const OpInstance& instance) -> absl::StatusOr<std::unique_ptr<Kernel>> {
    const Shape &a = instance.inputs[0].shape, &b = instance.inputs[1].shape, &output = instance.outputs[0].shape;
    if (output.rank() == 0 && (a.rank() > 0 || b.rank() > 0)) {
      return MakeKernel([when_incompatible](const KernelContext& context) {
        *context.output<bool>(0) = when_incompatible;
        return absl::OkStatus();
      });
    }
    return MakeBinaryKernel(instance, loops, {.compares = true}, a, b, output);
  };
}

// Logical ops on bools as bytes of 0 and 1.
template <typename Op>
absl::StatusOr<std::unique_ptr<Kernel>> MakeLogical(const OpInstance& instance) {
  if (instance.inputs[0].dtype != DataType::kBool) return UnsupportedType(instance, instance.inputs[0].dtype);
  return MakeBytesKernel(&LoopOver<Op, uint8_t>, instance.inputs[0].shape, instance.inputs[1].shape,
                         instance.outputs[0].shape);
}

template <typename T>
std::unique_ptr<Kernel> MakeApproximateEqual(const OpInstance& instance) {
  const int64_t n = instance.inputs[0].shape.num_elements();
  const float tolerance = instance.attrs.GetOr<float>("tolerance", 1e-5f);
  return MakeKernel([n, tolerance](const KernelContext& context) {
    const T *a = context.input<T>(0), *b = context.input<T>(1);
    bool* out = context.output<bool>(0);
    for (int64_t i = 0; i < n; ++i) out[i] = (a[i] > b[i] ? a[i] - b[i] : b[i] - a[i]) < static_cast<T>(tolerance);
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterComparisonKernels(KernelRegistry& registry) {
  const BinaryOptions compares = {.compares = true};
  RegisterBinary(registry, "Less", ComparisonLoops<Less>(), compares);
  RegisterBinary(registry, "LessEqual", ComparisonLoops<LessEqual>(), compares);
  RegisterBinary(registry, "Greater", ComparisonLoops<Greater>(), compares);
  RegisterBinary(registry, "GreaterEqual", ComparisonLoops<GreaterEqual>(), compares);
  AddKernel(registry, "Equal", EqualityFactory(ComparisonLoops<Equal>(), false));
  AddKernel(registry, "NotEqual", EqualityFactory(ComparisonLoops<NotEqual>(), true));
  RegisterBinary(registry, "BitwiseAnd", IntegerLoops<And>());
  RegisterBinary(registry, "BitwiseOr", IntegerLoops<Or>());
  RegisterBinary(registry, "BitwiseXor", IntegerLoops<Xor>());
  AddKernel(registry, "LeftShift", MakeShift<LeftShift>);
  AddKernel(registry, "RightShift", MakeShift<RightShift>);
  AddKernel(registry, "LogicalAnd", MakeLogical<And>);
  AddKernel(registry, "LogicalOr", MakeLogical<Or>);
  AddKernel(registry, "ApproximateEqual", [](const OpInstance& instance) {
    return DispatchNumeric(instance, instance.inputs[0].dtype,
                           [&](auto tag) -> absl::StatusOr<std::unique_ptr<Kernel>> {
                             return MakeApproximateEqual<typename decltype(tag)::type>(instance);
                           });
  });
}

}  // namespace millrace::cpu
