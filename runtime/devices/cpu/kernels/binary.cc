#include "cpu/kernels/binary.h"

#include "absl/status/status.h"
#include "cpu/kernels/broadcast.h"
#include "cpu/kernels/register.h"

namespace millrace::cpu {
namespace {

template <typename T>
bool AnyEqual(const void* data, int64_t n, T value) {
  const T* x = static_cast<const T*>(data);
  bool found = false;
  for (int64_t i = 0; i < n; ++i) found |= x[i] == value;
  return found;
}

bool AnyNegative(const void* data, DataType dtype, int64_t n) {
  const Widening widening = WideningOf(dtype);
  if (dtype == DataType::kUint64) return false;
  bool found = false;
  Block block;
  for (int64_t i = 0; i < n; i += kBlockElements) {
    const int64_t count = std::min(kBlockElements, n - i);
    const char* from = static_cast<const char*>(data) + i * DataTypeSize(dtype);
    if (dtype == DataType::kInt32) {
      for (int64_t k = 0; k < count; ++k) found |= reinterpret_cast<const int32_t*>(from)[k] < 0;
      continue;
    }
    if (widening.load != nullptr) widening.load(from, block.bytes, count);
    const int64_t* values = reinterpret_cast<const int64_t*>(widening.load != nullptr ? block.bytes : from);
    for (int64_t k = 0; k < count; ++k) found |= values[k] < 0;
  }
  return found;
}

class BinaryKernel final : public Kernel {
 public:
  BinaryKernel(ConvertedLoop loop, const BinaryOptions& options, DataType dtype, const Shape& a, const Shape& b,
               const Shape& output)
      : loop_(loop),
        options_(options),
        dtype_(dtype),
        divisors_(b.num_elements()),
        layout_(MakeBroadcastLayout(output, {a, b})),
        mode_(layout_.repeats(0)   ? BinaryMode::kScalarVector
              : layout_.repeats(1) ? BinaryMode::kVectorScalar
                                   : BinaryMode::kVectorVector) {}

  absl::Status Run(const KernelContext& context) const override {
    const char* a = context.input<char>(0);
    const char* b = context.input<char>(1);
    char* out = context.output<char>(0);
    if (options_.check != DivisorCheck::kNone && layout_.num_elements > 0) {
      if (options_.check == DivisorCheck::kZero && AnyZero(b, loop_.input_bytes(), divisors_)) {
        return absl::InvalidArgumentError("Integer division by zero");
      }
      if (options_.check == DivisorCheck::kNegative && AnyNegative(b, dtype_, divisors_)) {
        return absl::InvalidArgumentError("Integers to negative integer powers are not allowed");
      }
    }
    const int64_t in_bytes = loop_.input_bytes(), out_bytes = loop_.output_bytes();
    ParallelRange(context, layout_.num_elements, options_.grain, [&](int64_t begin, int64_t end) {
      if (HasShortRuns(layout_)) {
        ForEachWideBlock(layout_, {a, b}, in_bytes, begin, end, [&](const char* const* operands, int64_t at, int64_t n) {
          loop_.Run(BinaryMode::kVectorVector, operands[0], operands[1], out + at * out_bytes, n);
        });
        return;
      }
      ForEachRun(layout_, begin, end, [&](const auto& offsets, int64_t at, int64_t n) {
        loop_.Run(mode_, a + offsets[0] * in_bytes, b + offsets[1] * in_bytes, out + at * out_bytes, n);
      });
    });
    return absl::OkStatus();
  }

 private:
  ConvertedLoop loop_;
  BinaryOptions options_;
  DataType dtype_;
  int64_t divisors_;
  BroadcastLayout layout_;
  BinaryMode mode_;
};

}  // namespace

bool AnyZero(const void* data, int64_t bytes, int64_t n) {
  switch (bytes) {
    case 1:
      return AnyEqual<uint8_t>(data, n, 0);
    case 2:
      return AnyEqual<uint16_t>(data, n, 0);
    case 4:
      return AnyEqual<uint32_t>(data, n, 0);
    default:
      return AnyEqual<uint64_t>(data, n, 0);
  }
}

ConvertedLoop::ConvertedLoop(BinaryLoop loop, DataType dtype, bool compares)
    : loop_(loop),
      input_(WideningOf(dtype)),
      store_(compares ? nullptr : input_.store),
      input_bytes_(DataTypeSize(dtype)),
      output_bytes_(compares ? 1 : input_bytes_) {}

void ConvertedLoop::Run(BinaryMode mode, const char* a, const char* b, char* out, int64_t n) const {
  if (input_.load == nullptr) {
    loop_(mode, a, b, out, n);
    return;
  }
  Block wide_a, wide_b, wide_out;
  if (mode == BinaryMode::kScalarVector) input_.load(a, wide_a.bytes, 1);
  if (mode == BinaryMode::kVectorScalar) input_.load(b, wide_b.bytes, 1);
  for (int64_t i = 0; i < n; i += kBlockElements) {
    const int64_t count = std::min(kBlockElements, n - i);
    if (mode != BinaryMode::kScalarVector) input_.load(a + i * input_bytes_, wide_a.bytes, count);
    if (mode != BinaryMode::kVectorScalar) input_.load(b + i * input_bytes_, wide_b.bytes, count);
    if (store_ == nullptr) {
      loop_(mode, wide_a.bytes, wide_b.bytes, out + i * output_bytes_, count);
    } else {
      loop_(mode, wide_a.bytes, wide_b.bytes, wide_out.bytes, count);
      store_(wide_out.bytes, out + i * output_bytes_, count);
    }
  }
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeBinaryKernel(const OpInstance& instance, const BinaryLoops& loops,
                                                         const BinaryOptions& options, const Shape& a, const Shape& b,
                                                         const Shape& output) {
  const DataType dtype = instance.inputs[0].dtype;
  BinaryLoop loop = loops.For(WideningOf(dtype).compute);
  if (loop == nullptr) return UnsupportedType(instance, dtype);
  BinaryOptions checked = options;
  if (!IsInteger(dtype)) checked.check = DivisorCheck::kNone;
  return std::make_unique<BinaryKernel>(ConvertedLoop(loop, dtype, options.compares), checked, dtype, a, b, output);
}

std::unique_ptr<Kernel> MakeBytesKernel(BinaryLoop loop, const Shape& a, const Shape& b, const Shape& output) {
  return std::make_unique<BinaryKernel>(ConvertedLoop(loop), BinaryOptions{}, DataType::kUint8, a, b, output);
}

void RegisterBinary(KernelRegistry& registry, const char* op, BinaryLoops loops, BinaryOptions options) {
  AddKernel(registry, op, [loops, options](const OpInstance& instance) {
    return MakeBinaryKernel(instance, loops, options, instance.inputs[0].shape, instance.inputs[1].shape,
                            instance.outputs[0].shape);
  });
}

}  // namespace millrace::cpu
