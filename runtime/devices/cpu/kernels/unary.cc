// The unary kernel, and the cheap operations: sign and rounding, square roots, tests, bits.
#include "cpu/kernels/unary.h"

#include <cmath>
#include <type_traits>

#include "cpu/kernels/elementwise.h"
#include "cpu/kernels/register.h"

namespace millrace::cpu {
namespace {

class UnaryKernel final : public Kernel {
 public:
  UnaryKernel(UnaryLoop loop, DataType input, DataType output, int64_t elements, int64_t grain)
      : loop_(loop),
        input_(WideningOf(input)),
        input_bytes_(DataTypeSize(input)),
        output_bytes_(DataTypeSize(output)),
        elements_(elements),
        grain_(grain) {
    if (input == output) store_ = input_.store;
  }

  absl::Status Run(const KernelContext& context) const override {
    const char* x = context.input<char>(0);
    char* y = context.output<char>(0);
    ParallelRange(context, elements_, grain_, [&](int64_t begin, int64_t end) {
      RunShard(x + begin * input_bytes_, y + begin * output_bytes_, end - begin);
    });
    return absl::OkStatus();
  }

 private:
  void RunShard(const char* x, char* y, int64_t n) const {
    if (input_.load == nullptr) {
      loop_(x, y, n);
      return;
    }
    Block wide;
    for (int64_t i = 0; i < n; i += kBlockElements) {
      const int64_t count = std::min(kBlockElements, n - i);
      input_.load(x + i * input_bytes_, wide.bytes, count);
      if (store_ == nullptr) {
        loop_(wide.bytes, y + i * output_bytes_, count);
      } else {
        loop_(wide.bytes, wide.bytes, count);
        store_(wide.bytes, y + i * output_bytes_, count);
      }
    }
  }

  UnaryLoop loop_;
  Widening input_;
  ConvertFn store_ = nullptr;
  int64_t input_bytes_;
  int64_t output_bytes_;
  int64_t elements_;
  int64_t grain_;
};

struct Abs {
  template <typename T>
  static T Apply(T x) {
    if constexpr (std::is_unsigned_v<T>)
      return x;
    else if constexpr (std::is_integral_v<T>)
      return x < 0 ? static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(x)) : x;
    else
      return std::fabs(x);
  }
};
struct Neg {
  template <typename T>
  static T Apply(T x) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(x));
    else
      return -x;
  }
};
struct Sign {
  template <typename T>
  static T Apply(T x) {
    return x != x ? x : static_cast<T>((x > T{0}) - (x < T{0}));
  }
};
struct Square {
  template <typename T>
  static T Apply(T x) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<std::make_unsigned_t<T>>(x) * static_cast<std::make_unsigned_t<T>>(x));
    } else {
      return x * x;
    }
  }
};
struct Sqrt {
  template <typename T>
  static T Apply(T x) {
    return std::sqrt(x);
  }
};
struct Rsqrt {
  template <typename T>
  static T Apply(T x) {
    return T{1} / std::sqrt(x);
  }
};
struct Floor {
  template <typename T>
  static T Apply(T x) {
    return std::floor(x);
  }
};
struct Ceil {
  template <typename T>
  static T Apply(T x) {
    return std::ceil(x);
  }
};
// Halves go to the even neighbour.
struct Round {
  template <typename T>
  static T Apply(T x) {
    if constexpr (std::is_integral_v<T>)
      return x;
    else
      return std::rint(x);
  }
};
struct Invert {
  template <typename T>
  static T Apply(T x) {
    return static_cast<T>(~x);
  }
};
struct IsNan {
  template <typename T>
  static bool Apply(T x) {
    return x != x;
  }
};
struct IsInf {
  template <typename T>
  static bool Apply(T x) {
    return std::fabs(x) > std::numeric_limits<T>::max();
  }
};
struct IsFinite {
  template <typename T>
  static bool Apply(T x) {
    return std::fabs(x) <= std::numeric_limits<T>::max();
  }
};

template <typename Op>
UnaryLoops FloatingTest() {
  return {.on_float = &UnaryLoopOver<Op, float, bool>, .on_double = &UnaryLoopOver<Op, double, bool>};
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeLogicalNot(const OpInstance& instance) {
  if (instance.inputs[0].dtype != DataType::kBool) return UnsupportedType(instance, instance.inputs[0].dtype);
  return MakeKernel([n = instance.inputs[0].shape.num_elements()](const KernelContext& context) {
    const uint8_t* x = context.input<uint8_t>(0);
    uint8_t* y = context.output<uint8_t>(0);
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] ^ 1;
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterUnary(KernelRegistry& registry, const char* op, UnaryLoops loops, UnaryOptions options) {
  AddKernel(registry, op, [loops, options](const OpInstance& instance) -> absl::StatusOr<std::unique_ptr<Kernel>> {
    const DataType dtype = instance.inputs[0].dtype;
    UnaryLoop loop = loops.For(WideningOf(dtype).compute);
    if (loop == nullptr) return UnsupportedType(instance, dtype);
    return std::make_unique<UnaryKernel>(loop, dtype, options.tests ? DataType::kBool : dtype,
                                         instance.inputs[0].shape.num_elements(), options.grain);
  });
}

void RegisterUnaryKernels(KernelRegistry& registry) {
  RegisterUnary(registry, "Abs", NumericUnary<Abs>());
  RegisterUnary(registry, "Neg", NumericUnary<Neg>());
  RegisterUnary(registry, "Sign", NumericUnary<Sign>());
  RegisterUnary(registry, "Square", NumericUnary<Square>());
  RegisterUnary(registry, "Sqrt", FloatingUnary<Sqrt>());
  RegisterUnary(registry, "Rsqrt", FloatingUnary<Rsqrt>());
  for (const char* op : {"Reciprocal", "Inv"}) RegisterUnary(registry, op, FloatingUnary<Reciprocal>());
  RegisterUnary(registry, "Floor", FloatingUnary<Floor>());
  RegisterUnary(registry, "Ceil", FloatingUnary<Ceil>());
  for (const char* op : {"Round", "Rint"}) RegisterUnary(registry, op, NumericUnary<Round>());
  RegisterUnary(registry, "Invert",
                {.on_int32 = &UnaryLoopOver<Invert, int32_t>,
                 .on_int64 = &UnaryLoopOver<Invert, int64_t>,
                 .on_uint64 = &UnaryLoopOver<Invert, uint64_t>});
  const UnaryOptions tests = {.tests = true};
  RegisterUnary(registry, "IsNan", FloatingTest<IsNan>(), tests);
  RegisterUnary(registry, "IsInf", FloatingTest<IsInf>(), tests);
  RegisterUnary(registry, "IsFinite", FloatingTest<IsFinite>(), tests);
  AddKernel(registry, "LogicalNot", MakeLogicalNot);
}

}  // namespace millrace::cpu
