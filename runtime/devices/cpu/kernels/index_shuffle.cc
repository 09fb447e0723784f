// RandomIndexShuffle: a permutation of [0, max_index] that needs no memory: a block cipher (Simon, Beaulieu et al., 2013, with few rounds)
// over the next power of four, walked along until it comes back inside.
#include <array>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cpu/kernels/common.h"
#include "cpu/kernels/random_fill.h"
#include "cpu/kernels/rarest.h"

namespace millrace::cpu {
namespace {

using Seed = std::array<uint32_t, 3>;

// Words of `bits` bits.
class Simon {
 public:
  Simon(const Seed& seed, int bits, int64_t rounds) : bits_(bits), mask_((uint64_t{1} << bits) - 1), keys_(std::max<int64_t>(rounds, 3)) {
    uint64_t noise = 0x7369f885192c0ef5 & mask_;
    for (int i = 0; i < 3; ++i) keys_[i] = seed[i] & mask_;
    for (size_t i = 3; i < keys_.size(); ++i, noise >>= 1) {
      const uint64_t last = keys_[i - 1];
      keys_[i] = (0xfffffffc & mask_) ^ (noise & 1) ^ keys_[i - 3] ^ Left(last, bits_ - 3) ^ Left(last, bits_ - 4);
    }
  }

  uint64_t Encrypt(uint64_t value) const {
    uint64_t left = (value >> bits_) & mask_, right = value & mask_;
    for (size_t i = 0; i + 1 < keys_.size(); i += 2) {
      left ^= Mixed(right) ^ keys_[i];
      right ^= Mixed(left) ^ keys_[i + 1];
    }
    return left << bits_ | right;
  }

 private:
  uint64_t Left(uint64_t word, int by) const { return (word << by | word >> (bits_ - by)) & mask_; }
  uint64_t Mixed(uint64_t word) const { return (Left(word, 1) & Left(word, 8)) ^ Left(word, 2); }

  int bits_;
  uint64_t mask_;
  std::vector<uint64_t> keys_;
};

uint64_t Shuffled(uint64_t index, const Seed& seed, uint64_t most, int64_t rounds) {
  if (most == 0) return 0;
  constexpr int kLeastBits = 16;  // of a block: two words
  const int bits = static_cast<int>(std::ceil(std::log2(static_cast<double>(most))));
  const Simon cipher(seed, std::max(bits + bits % 2, kLeastBits) / 2, rounds);
  do {
    index = cipher.Encrypt(index);
  } while (index > most);
  return index;
}

// (index, seed [3] or [n,3], max_index)
template <typename T>
absl::Status ShuffleIndices(const KernelContext& context, int64_t rounds) {
  const TensorType& seeds = context.input_type(1);
  const bool many[] = {context.input_type(0).shape.rank() > 0, seeds.shape.rank() > 1, context.input_type(2).shape.rank() > 0};
  for (int64_t i = 0; i < context.output_type(0).shape.num_elements(); ++i) {
    const T index = context.input<T>(0)[many[0] ? i : 0], most = context.input<T>(2)[many[2] ? i : 0];
    if (index < T(0)) return absl::InvalidArgumentError(absl::StrCat("index must be >= 0 but was ", index));
    if (most < index) return absl::InvalidArgumentError(absl::StrCat("max_index must be >= index, but ", most, " < ", index));
    Seed seed;
    for (int k = 0; k < 3; ++k) seed[k] = static_cast<uint32_t>(ReadInt(seeds.dtype, context.inputs[1], (many[1] ? 3 * i : 0) + k));
    context.output<T>(0)[i] = static_cast<T>(Shuffled(static_cast<uint64_t>(index), seed, static_cast<uint64_t>(most), rounds));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeIndexShuffle(const OpInstance& node) {
  return DispatchInteger(node, node.outputs[0].dtype, [rounds = node.attrs.GetOr<int64_t>("rounds", 4)](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    return MakeKernel([rounds](const KernelContext& context) { return ShuffleIndices<T>(context, rounds); });
  });
}

}  // namespace

void RegisterIndexShuffleKernels(KernelRegistry& registry) { AddKernel(registry, "RandomIndexShuffle", MakeIndexShuffle); }

}  // namespace millrace::cpu
