// AddN, BiasAdd, ZerosLike and OnesLike.
#include <cstring>

#include "cpu/kernels/binary.h"
#include "cpu/kernels/complex.h"
#include "cpu/kernels/elementwise.h"
#include "cpu/kernels/register.h"

namespace millrace::cpu {
namespace {

// The sum of all inputs from first to last. A block of the output is written when all inputs of the block have been
// read, so it may overwrite any of them.
class AddNKernel final : public Kernel {
 public:
  AddNKernel(BinaryLoop add, DataType dtype, int inputs, int64_t elements)
      : add_(add), widening_(WideningOf(dtype)), bytes_(DataTypeSize(dtype)), inputs_(inputs), elements_(elements) {}

  absl::Status Run(const KernelContext& context) const override {
    ParallelRange(context, elements_, kElementGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i += kBlockElements) AddBlock(context, i, std::min(kBlockElements, end - i));
    });
    return absl::OkStatus();
  }

 private:
  void AddBlock(const KernelContext& context, int64_t first, int64_t n) const {
    Block sum, wide;
    char* out = context.output<char>(0) + first * bytes_;
    const auto input = [&](int i, Block& room) -> const void* {
      const char* x = context.input<char>(i) + first * bytes_;
      if (widening_.load == nullptr) return x;
      widening_.load(x, room.bytes, n);
      return room.bytes;
    };
    const void* total = input(0, sum);
    for (int i = 1; i < inputs_; ++i) {
      void* to = i + 1 == inputs_ && widening_.store == nullptr ? static_cast<void*>(out) : sum.bytes;
      add_(BinaryMode::kVectorVector, total, input(i, wide), to, n);
      total = to;
    }
    if (widening_.store != nullptr) {
      widening_.store(total, out, n);
    } else if (total != out) {
      std::memmove(out, total, n * bytes_);
    }
  }

  BinaryLoop add_;
  Widening widening_;
  int64_t bytes_;
  int inputs_;
  int64_t elements_;
};

absl::StatusOr<std::unique_ptr<Kernel>> MakeAddN(const OpInstance& instance) {
  const DataType dtype = instance.outputs[0].dtype;
  BinaryLoop add = AddLoops().For(WideningOf(dtype).compute);
  if (add == nullptr) return UnsupportedType(instance, dtype);
  return std::make_unique<AddNKernel>(add, dtype, static_cast<int>(instance.inputs.size()),
                                      instance.outputs[0].shape.num_elements());
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeBiasAdd(const OpInstance& instance) {
  OpInstance shaped = instance;
  if (instance.attrs.GetOr<std::string>("data_format", "NHWC") == "NCHW") {
    for (int d = 2; d < instance.inputs[0].shape.rank(); ++d) shaped.inputs[1].shape.AddDim(1);
  }
  shaped = InParts(std::move(shaped));
  const Shape& value = shaped.inputs[0].shape;
  return MakeBinaryKernel(shaped, AddLoops(), {}, value, shaped.inputs[1].shape, value);
}

template <typename T>
void Fill(void* out, int64_t n, T value) {
  std::fill_n(static_cast<T*>(out), n, value);
}

// Zeros, or the element type's 1.
absl::StatusOr<std::unique_ptr<Kernel>> MakeFill(const OpInstance& instance, bool ones) {
  const DataType dtype = instance.outputs[0].dtype;
  uint64_t bits = 0;
  if (ones) {
    const int64_t one = 1;
    const Conversion conversion = ConversionOf(DataType::kInt64, dtype);
    if (!conversion.covered()) return UnsupportedType(instance, dtype);
    conversion.RunBlock(&one, &bits, 1);
  }
  const int64_t elements = instance.outputs[0].shape.num_elements(), bytes = DataTypeSize(dtype);
  if (bytes == 0) return UnsupportedType(instance, dtype);
  return MakeKernel([=](const KernelContext& context) {
    ParallelRange(context, elements, kElementGrain, [&](int64_t begin, int64_t end) {
      char* out = context.output<char>(0) + begin * bytes;
      const int64_t n = end - begin;
      if (bits == 0) {
        std::memset(out, 0, n * bytes);
      } else if (bytes == 1) {
        Fill(out, n, static_cast<uint8_t>(bits));
      } else if (bytes == 2) {
        Fill(out, n, static_cast<uint16_t>(bits));
      } else if (bytes == 4) {
        Fill(out, n, static_cast<uint32_t>(bits));
      } else {
        Fill(out, n, bits);
      }
    });
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterAddNKernels(KernelRegistry& registry) {
  for (const char* op : {"AddN", "AccumulateNV2"}) AddKernel(registry, op, MakeAddN);
  for (const char* op : {"BiasAdd", "BiasAddV1"}) AddKernel(registry, op, MakeBiasAdd);
  AddKernel(registry, "ZerosLike", [](const OpInstance& instance) { return MakeFill(instance, false); });
  AddKernel(registry, "OnesLike", [](const OpInstance& instance) { return MakeFill(instance, true); });
}

}  // namespace millrace::cpu
