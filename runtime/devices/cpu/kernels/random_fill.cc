#include "cpu/kernels/random_fill.h"

#include <array>

#include "cpu/kernels/common.h"

namespace millrace::cpu {
namespace {

// A distribution turns kBatchWords words into kBatchWords / kWordsPerValue values.
template <typename T>
struct Uniform {
  static constexpr int kWordsPerValue = sizeof(T) == 8 ? 2 : 1;
  void operator()(const uint32_t* words, T* values) const {
    for (int i = 0; i < Philox::kBatchWords / kWordsPerValue; ++i) {
      if constexpr (std::is_same_v<T, float>) values[i] = UniformFloat(words[i]);
      if constexpr (std::is_same_v<T, double>) values[i] = UniformDouble(words[2 * i], words[2 * i + 1]);
      if constexpr (std::is_same_v<T, Eigen::half>) values[i] = UniformHalf(words[i]);
      if constexpr (std::is_same_v<T, Eigen::bfloat16>) values[i] = UniformBfloat16(words[i]);
    }
  }
};

template <typename T>
struct Normal {
  using Value = std::conditional_t<std::is_same_v<T, double>, double, float>;
  static constexpr int kWordsPerValue = sizeof(T) == 8 ? 2 : 1;
  void operator()(const uint32_t* words, T* values) const {
    for (int i = 0; i < Philox::kBatchWords / kWordsPerValue; i += 2) {
      Value pair[2];
      NormalPair(words + i * kWordsPerValue, pair);
      values[i] = static_cast<T>(pair[0]);
      values[i + 1] = static_cast<T>(pair[1]);
    }
  }
};

// Whole words of T's width.
template <typename T>
struct FullInt {
  static constexpr int kWordsPerValue = sizeof(T) == 8 ? 2 : 1;
  static std::make_unsigned_t<T> Bits(const uint32_t* words, int i) {
    if constexpr (sizeof(T) == 8) {
      return JoinWords(words[2 * i], words[2 * i + 1]);
    } else {
      return words[i];
    }
  }
  void operator()(const uint32_t* words, T* values) const {
    for (int i = 0; i < Philox::kBatchWords / kWordsPerValue; ++i) values[i] = static_cast<T>(Bits(words, i));
  }
};

template <typename T>
struct UniformInt {
  static constexpr int kWordsPerValue = FullInt<T>::kWordsPerValue;
  using Unsigned = std::make_unsigned_t<T>;
  Unsigned low, range;
  void operator()(const uint32_t* words, T* values) const {
    for (int i = 0; i < Philox::kBatchWords / kWordsPerValue; ++i) {
      values[i] = static_cast<T>(low + FullInt<T>::Bits(words, i) % range);
    }
  }
};

template <typename T, typename Distribution>
void Fill(const KernelContext& context, const Philox& philox, int64_t elements, const Distribution& distribution) {
  constexpr int64_t kBatchValues = Philox::kBatchWords / Distribution::kWordsPerValue;
  const int64_t batches = (elements + kBatchValues - 1) / kBatchValues;
  T* output = context.output<T>(0);
  ParallelRange(context, batches, 8, [&](int64_t begin, int64_t end) {
    Philox at = philox.After(begin * Philox::kBatch);
    uint32_t words[Philox::kBatchWords];
    T values[kBatchValues];
    for (int64_t b = begin; b < end; ++b, at.Skip(Philox::kBatch)) {
      at.Generate(words);
      distribution(words, values);
      std::copy(values, values + std::min(kBatchValues, elements - b * kBatchValues), output + b * kBatchValues);
    }
  });
}

template <typename T>
void FillUniform(const KernelContext& context, const Philox& philox, int64_t elements, int64_t, int64_t) {
  Fill<T>(context, philox, elements, Uniform<T>());
}

template <typename T>
void FillNormal(const KernelContext& context, const Philox& philox, int64_t elements, int64_t, int64_t) {
  Fill<T>(context, philox, elements, Normal<T>());
}

template <typename T>
void FillFullInt(const KernelContext& context, const Philox& philox, int64_t elements, int64_t, int64_t) {
  Fill<T>(context, philox, elements, FullInt<T>());
}

template <typename T>
void FillUniformInt(const KernelContext& context, const Philox& philox, int64_t elements, int64_t low, int64_t high) {
  using Unsigned = std::make_unsigned_t<T>;
  const Unsigned first = static_cast<Unsigned>(low);
  Fill<T>(context, philox, elements, UniformInt<T>{first, static_cast<Unsigned>(static_cast<Unsigned>(high) - first)});
}

// Every group of values has 256 words per value of the stream to itself, so that rejection in one group does not move
// the others.
template <typename T>
void FillTruncatedNormal(const KernelContext& context, const Philox& philox, int64_t elements, int64_t, int64_t) {
  using Value = typename Normal<T>::Value;
  constexpr int kPairWords = std::is_same_v<T, double> ? 4 : 2;
  constexpr int64_t kGroup = Philox::kWords / Normal<T>::kWordsPerValue;
  constexpr int64_t kSamplesPerGroup = kGroup * 256 / Philox::kWords;
  const int64_t groups = (elements + kGroup - 1) / kGroup;
  T* output = context.output<T>(0);
  ParallelRange(context, groups, 64, [&](int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end; ++g) {
      PhiloxWords next(philox.After(g * kSamplesPerGroup));
      const int64_t wanted = std::min(kGroup, elements - g * kGroup);
      for (int64_t made = 0; made < wanted;) {
        uint32_t words[kPairWords];
        for (uint32_t& word : words) word = next();
        Value pair[2];
        NormalPair(words, pair);
        for (int i = 0; i < 2 && made < wanted; ++i) {
          if (std::abs(pair[i]) < Value(2)) output[g * kGroup + made++] = static_cast<T>(pair[i]);
        }
      }
    }
  });
}

using Table = std::array<RandomFill, 4>;

RandomFill FloatingFill(const Table& table, DataType dtype) {
  switch (dtype) {
    case DataType::kFloat: return table[0];
    case DataType::kDouble: return table[1];
    case DataType::kHalf: return table[2];
    case DataType::kBfloat16: return table[3];
    default: return nullptr;
  }
}

RandomFill IntegerFill(const Table& table, DataType dtype) {
  switch (dtype) {
    case DataType::kInt32: return table[0];
    case DataType::kInt64: return table[1];
    case DataType::kUint32: return table[2];
    case DataType::kUint64: return table[3];
    default: return nullptr;
  }
}

}  // namespace

absl::StatusOr<RandomFill> FindRandomFill(RandomKind kind, const OpInstance& node) {
  static constexpr Table kUniform = {FillUniform<float>, FillUniform<double>, FillUniform<Eigen::half>,
                                     FillUniform<Eigen::bfloat16>};
  static constexpr Table kNormal = {FillNormal<float>, FillNormal<double>, FillNormal<Eigen::half>,
                                    FillNormal<Eigen::bfloat16>};
  static constexpr Table kTruncated = {FillTruncatedNormal<float>, FillTruncatedNormal<double>,
                                       FillTruncatedNormal<Eigen::half>, FillTruncatedNormal<Eigen::bfloat16>};
  static constexpr Table kInt = {FillUniformInt<int32_t>, FillUniformInt<int64_t>, FillUniformInt<uint32_t>,
                                 FillUniformInt<uint64_t>};
  static constexpr Table kFull = {FillFullInt<int32_t>, FillFullInt<int64_t>, FillFullInt<uint32_t>,
                                  FillFullInt<uint64_t>};
  const DataType dtype = node.outputs[0].dtype;
  RandomFill fill = nullptr;
  switch (kind) {
    case RandomKind::kUniform: fill = FloatingFill(kUniform, dtype); break;
    case RandomKind::kNormal: fill = FloatingFill(kNormal, dtype); break;
    case RandomKind::kTruncatedNormal: fill = FloatingFill(kTruncated, dtype); break;
    case RandomKind::kUniformInt: fill = IntegerFill(kInt, dtype); break;
    case RandomKind::kUniformFullInt: fill = IntegerFill(kFull, dtype); break;
  }
  if (fill == nullptr) return UnsupportedType(node, dtype);
  return fill;
}

}  // namespace millrace::cpu
