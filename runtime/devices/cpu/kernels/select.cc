// Select, SelectV2 and ClipByValue.
#include <cstring>

#include "cpu/kernels/binary.h"
#include "cpu/kernels/broadcast.h"
#include "cpu/kernels/common.h"
#include "cpu/kernels/complex.h"
#include "cpu/kernels/elementwise.h"
#include "cpu/kernels/real_shapes.h"
#include "cpu/kernels/register.h"
#include "cpu/kernels/strided_copy.h"
#include "millrace/guard.h"

namespace millrace::cpu {
namespace {

// out[i] = condition[i] ? a[i] : b[i] for elements of one size; a and b may repeat one element.
using SelectLoop = void (*)(const uint8_t* condition, const void* a, bool repeat_a, const void* b, bool repeat_b,
                            void* out, int64_t n);

template <typename T>
void SelectOver(const uint8_t* condition, const void* va, bool repeat_a, const void* vb, bool repeat_b, void* vout,
                int64_t n) {
  const T *a = static_cast<const T*>(va), *b = static_cast<const T*>(vb);
  T* out = static_cast<T*>(vout);
  const T one_a = *a, one_b = *b;
  if (repeat_a && repeat_b) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = condition[i] != 0 ? one_a : one_b;
  } else if (repeat_a) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = condition[i] != 0 ? one_a : b[i];
  } else if (repeat_b) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = condition[i] != 0 ? a[i] : one_b;
  } else {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = condition[i] != 0 ? a[i] : b[i];
  }
}

template <typename T>
void FillOver(const void* value, void* out, int64_t n) {
  std::fill_n(static_cast<T*>(out), n, *static_cast<const T*>(value));
}

struct SelectLoops {
  SelectLoop select = nullptr;
  void (*fill)(const void* value, void* out, int64_t n) = nullptr;
};

template <typename T>
SelectLoops LoopsOf() {
  return {&SelectOver<T>, &FillOver<T>};
}

SelectLoops LoopsOfSize(int64_t bytes) {
  switch (bytes) {
    case 1:
      return LoopsOf<uint8_t>();
    case 2:
      return LoopsOf<uint16_t>();
    case 4:
      return LoopsOf<uint32_t>();
    case 8:
      return LoopsOf<uint64_t>();
    case 16:
      return LoopsOf<std::pair<uint64_t, uint64_t>>();
    default:
      return {};
  }
}

class SelectKernel final : public Kernel {
 public:
  SelectKernel(SelectLoops loops, int64_t bytes, const Shape& output, const Shape& condition, const Shape& a,
               const Shape& b)
      : loops_(loops), bytes_(bytes), layout_(MakeBroadcastLayout(output, {condition, a, b})) {}

  absl::Status Run(const KernelContext& context) const override {
    const uint8_t* condition = context.input<uint8_t>(0);
    const char *a = context.input<char>(1), *b = context.input<char>(2);
    char* out = context.output<char>(0);
    ParallelRange(context, layout_.num_elements, kElementGrain, [&](int64_t begin, int64_t end) {
      ForEachRun(layout_, begin, end, [&](const auto& offsets, int64_t at, int64_t n) {
        const char* run_a = a + offsets[1] * bytes_;
        const char* run_b = b + offsets[2] * bytes_;
        char* run = out + at * bytes_;
        if (!layout_.repeats(0)) {
          loops_.select(condition + offsets[0], run_a, layout_.repeats(1), run_b, layout_.repeats(2), run, n);
          return;
        }
        const bool first = condition[offsets[0]] != 0;
        const char* from = first ? run_a : run_b;
        if (layout_.repeats(first ? 1 : 2))
          loops_.fill(from, run, n);
        else if (from != run)
          std::memcpy(run, from, n * bytes_);
      });
    });
    return absl::OkStatus();
  }

 private:
  SelectLoops loops_;
  int64_t bytes_;
  BroadcastLayout layout_;
};

// One of two tensors of different sizes.
absl::StatusOr<std::unique_ptr<Kernel>> MakeEither(const OpInstance& instance) {
  const Shape a = instance.inputs[1].shape, b = instance.inputs[2].shape;
  const int64_t bytes = DataTypeSize(instance.outputs[0].dtype);
  return MakeKernel([=](const KernelContext& context) {
    const bool first = *context.input<uint8_t>(0) != 0;
    const Shape& taken = first ? a : b;
    CopyTensor(context, context.inputs[first ? 1 : 2], context.outputs[0], taken.num_elements() * bytes);
    SetRealShape(context, 0, taken);
    return absl::OkStatus();
  });
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeSelect(const OpInstance& instance) {
  if (instance.attrs.GetOr(kEitherShape, false) && instance.inputs[1].shape != instance.inputs[2].shape) return MakeEither(instance);
  const DataType dtype = instance.outputs[0].dtype;
  const SelectLoops loops = LoopsOfSize(DataTypeSize(dtype));
  if (loops.select == nullptr) return UnsupportedType(instance, dtype);
  Shape condition = instance.inputs[0].shape;
  const Shape& output = instance.outputs[0].shape;
  // A vector chooses rows in the first version of the op.
  if (instance.op == "Select" && condition.rank() == 1) {
    for (int d = 1; d < output.rank(); ++d) condition.AddDim(1);
  }
  return std::make_unique<SelectKernel>(loops, DataTypeSize(dtype), output, condition, instance.inputs[1].shape,
                                        instance.inputs[2].shape);
}

// Bounds that are not numbers do not bind; values that are not stay.
struct Lower {
  template <typename T>
  static T Apply(T x, T bound) {
    return bound < x ? bound : x;
  }
};
struct Raise {
  template <typename T>
  static T Apply(T x, T bound) {
    return bound > x ? bound : x;
  }
};

class ClipKernel final : public Kernel {
 public:
  ClipKernel(std::unique_ptr<Kernel> lower, std::unique_ptr<Kernel> raise)
      : lower_(std::move(lower)), raise_(std::move(raise)) {}
  absl::Status Run(const KernelContext& context) const override {
    KernelContext half = context;
    void* lower_inputs[] = {context.inputs[0], context.inputs[2]};
    half.inputs = lower_inputs;
    const absl::Status status = lower_->Run(half);
    if (!status.ok()) return status;
    void* raise_inputs[] = {context.outputs[0], context.inputs[1]};
    half.inputs = raise_inputs;
    return raise_->Run(half);
  }

 private:
  std::unique_ptr<Kernel> lower_;
  std::unique_ptr<Kernel> raise_;
};

// Of complex numbers the real parts between those of the bounds, and the imaginary ones likewise.
absl::StatusOr<std::unique_ptr<Kernel>> MakeClip(const OpInstance& node) {
  const OpInstance instance = InParts(node);
  const Shape& shape = instance.inputs[0].shape;
  auto lower = MakeBinaryKernel(instance, NumericLoops<Lower>(), {}, shape, instance.inputs[2].shape, shape);
  if (!lower.ok()) return lower.status();
  auto raise = MakeBinaryKernel(instance, NumericLoops<Raise>(), {}, shape, instance.inputs[1].shape, shape);
  if (!raise.ok()) return raise.status();
  return std::make_unique<ClipKernel>(*std::move(lower), *std::move(raise));
}

}  // namespace

void RegisterSelectKernels(KernelRegistry& registry) {
  for (const char* op : {"Select", "SelectV2"}) AddKernel(registry, op, MakeSelect);
  AddKernel(registry, "ClipByValue", MakeClip);
}

}  // namespace millrace::cpu
