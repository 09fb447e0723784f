// Numbers of strings: hashes, lengths, numbers that are written out, values from tables, what matches, where pieces are. Strings
// have no memory, so those of an input are known when the kernel is made; integers that are looked up or hashed are a step's own.
#include <farmhash.h>

#include <algorithm>

#include "absl/strings/numbers.h"
#include "cpu/kernels/rare.h"
#include "cpu/kernels/values.h"
#include "graph/murmur_hash.h"
#include "graph/ngrams.h"
#include "graph/number_text.h"
#include "graph/regex.h"
#include "graph/sip_hash.h"
#include "graph/string_pieces.h"
#include "graph/table.h"
#include "graph/unicode.h"

namespace millrace::cpu {
namespace {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

constexpr int64_t kHashGrain = 1024;
constexpr int kFingerprintBytes = 8;

// TensorFlow's hashes by the op.
class Bucket {
 public:
  enum class Hash { kFarm, kKeyed, kMurmur };
  static absl::StatusOr<Bucket> Create(const AttrMap& attrs, Hash hash) {
    Bucket bucket;
    bucket.buckets_ = static_cast<uint64_t>(attrs.GetOr<int64_t>("num_buckets", 0));
    if (bucket.buckets_ == 0) return absl::InvalidArgumentError("num_buckets is 0, expected 1 or more");
    const auto key = attrs.GetOr<std::vector<int64_t>>("key", {});
    if (hash == Hash::kKeyed && key.size() != 2) return absl::InvalidArgumentError("Key must have 2 elements");
    bucket.hash_ = hash;
    if (hash == Hash::kKeyed) bucket.key_ = {static_cast<uint64_t>(key[0]), static_cast<uint64_t>(key[1])};
    return bucket;
  }
  int64_t Of(std::string_view text) const {
    constexpr uint64_t kSeed = 0xdecafcaffe;  // TensorFlow's, of its first hash
    const uint64_t hash = hash_ == Hash::kKeyed    ? SipHash(key_, text)
                          : hash_ == Hash::kMurmur ? MurmurHash(kSeed, text)
                                                   : util::Fingerprint64(text.data(), text.size());
    return static_cast<int64_t>(hash % buckets_);
  }

 private:
  uint64_t buckets_ = 1;
  Hash hash_ = Hash::kFarm;
  std::array<uint64_t, 2> key_ = {};
};

// The strings of input 0, which planning must know.
absl::StatusOr<std::vector<std::string>> Strings(const OpInstance& instance) {
  if (!ValueReader(instance).planned(0)) {
    return absl::InvalidArgumentError("the strings must be known when the graph is planned");
  }
  return instance.input_values[0].strings();
}

// A kernel that writes what `of` makes of each string when the kernel is made.
template <typename T, typename Of>
KernelOr MakeOfStrings(const OpInstance& instance, Of of) {
  MR_ASSIGN_OR_RETURN(const std::vector<std::string> strings, Strings(instance));
  std::vector<T> numbers;
  for (const std::string& text : strings) {
    MR_ASSIGN_OR_RETURN(const T number, absl::StatusOr<T>(of(text)));
    numbers.push_back(number);
  }
  return MakeKernel([numbers = std::move(numbers)](const KernelContext& context) {
    std::copy(numbers.begin(), numbers.end(), context.output<T>(0));
    return absl::OkStatus();
  });
}

template <Bucket::Hash kHash>
KernelOr MakeHash(const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const Bucket bucket, Bucket::Create(instance.attrs, kHash));
  return MakeOfStrings<int64_t>(instance, [&](const std::string& text) { return bucket.Of(text); });
}

KernelOr MakeLength(const OpInstance& instance) {
  const std::string unit = instance.attrs.GetOr<std::string>("unit", "BYTE");
  if (unit != "BYTE" && unit != "UTF8_CHAR") return absl::InvalidArgumentError(absl::StrCat("lengths in ", unit, ", expected BYTE or UTF8_CHAR"));
  return MakeOfStrings<int32_t>(instance, [bytes = unit == "BYTE"](const std::string& text) {
    return static_cast<int32_t>(bytes ? static_cast<int64_t>(text.size()) : std::count_if(text.begin(), text.end(), BeginsCharacter));
  });
}

template <typename T, typename Parse>
KernelOr MakeParsed(const OpInstance& instance, Parse parse) {
  return MakeOfStrings<T>(instance, [&](const std::string& text) -> absl::StatusOr<T> {
    T number;
    if (parse(text, &number)) return number;
    return absl::InvalidArgumentError(absl::StrCat("StringToNumberOp could not correctly convert string: ", text));
  });
}

KernelOr MakeToNumber(const OpInstance& instance) {
  const DataType type = instance.outputs[0].dtype;
  switch (type) {
    case DataType::kFloat: return MakeParsed<float>(instance, [](absl::string_view s, float* n) { return absl::SimpleAtof(s, n); });
    case DataType::kDouble: return MakeParsed<double>(instance, [](absl::string_view s, double* n) { return absl::SimpleAtod(s, n); });
    case DataType::kInt32: return MakeParsed<int32_t>(instance, [](absl::string_view s, int32_t* n) { return absl::SimpleAtoi(s, n); });
    case DataType::kInt64: return MakeParsed<int64_t>(instance, [](absl::string_view s, int64_t* n) { return absl::SimpleAtoi(s, n); });
    case DataType::kUint32: return MakeParsed<uint32_t>(instance, [](absl::string_view s, uint32_t* n) { return absl::SimpleAtoi(s, n); });
    case DataType::kUint64: return MakeParsed<uint64_t>(instance, [](absl::string_view s, uint64_t* n) { return absl::SimpleAtoi(s, n); });
    default: return UnsupportedType(instance, type);
  }
}

KernelOr MakeHashOfNumbers(const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const Bucket bucket, Bucket::Create(instance.attrs, instance.attrs.Has("key") ? Bucket::Hash::kKeyed : Bucket::Hash::kFarm));
  MR_ASSIGN_OR_RETURN(const NumberText text, NumberText::Create(instance.attrs, instance.inputs[0].dtype));
  return MakeKernel([bucket, text](const KernelContext& context) {
    const TensorType& type = context.input_type(0);
    const Tensor numbers = Tensor::Wrap(type.dtype, type.shape, context.inputs[0], nullptr);
    int64_t* buckets = context.output<int64_t>(0);
    ParallelRange(context, type.shape.num_elements(), kHashGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) buckets[i] = bucket.Of(text.Of(numbers, i));
    });
    return absl::OkStatus();
  });
}

KernelOr MakeFind(const OpInstance& instance) {
  const int64_t size = DataTypeSize(instance.outputs[0].dtype);
  if (size == 0) return UnsupportedType(instance, instance.outputs[0].dtype);
  MR_ASSIGN_OR_RETURN(Table read, Table::Create(instance.attrs));
  const auto table = std::make_shared<const Table>(std::move(read));
  const bool strings = instance.inputs[0].dtype == DataType::kString;
  if (strings && !ValueReader(instance).planned(0)) return Strings(instance).status();
  return MakeKernel([table, size, strings](const KernelContext& context) {
    const TensorType& type = context.input_type(0);
    const Tensor keys = strings ? context.instance->input_values[0] : Tensor::Wrap(type.dtype, type.shape, context.inputs[0], nullptr);
    const char* values = static_cast<const char*>(table->values().data());
    const char* otherwise = static_cast<const char*>(context.inputs[1]);
    char* found = static_cast<char*>(context.outputs[0]);
    ParallelRange(context, type.shape.num_elements(), kHashGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t at = table->Find(keys, i);
        std::memcpy(found + i * size, at < 0 ? otherwise : values + at * size, size);
      }
    });
    return absl::OkStatus();
  });
}

KernelOr MakeFullMatch(const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const Regex regex,
                      Regex::OfOp(instance.op, instance.attrs, ValueReader(instance).planned(1) ? &instance.input_values[1] : nullptr));
  return MakeOfStrings<bool>(instance, [&](const std::string& text) { return regex.MatchesAll(text); });
}

// The pieces themselves are strings, which have no memory.
KernelOr MakeSplit(const OpInstance& instance) {
  for (int input = 0; input < 2; ++input) {
    if (!ValueReader(instance).planned(input)) return absl::InvalidArgumentError("the strings must be known when the graph is planned");
  }
  MR_ASSIGN_OR_RETURN(const auto rows, PiecesOf(instance.op, instance.attrs, instance.input_values[0], instance.input_values[1]));
  std::vector<int64_t> places(2 * CountPieces(rows)), shape(2);
  WritePlaces(rows, places.data(), shape.data());
  return MakeKernel([places = std::move(places), shape = std::move(shape)](const KernelContext& context) {
    std::copy(places.begin(), places.end(), context.output<int64_t>(0));
    std::copy(shape.begin(), shape.end(), context.output<int64_t>(2));
    return absl::OkStatus();
  });
}

// The runs of words are strings; where those of each row begin is known when planning, too.
template <typename T>
KernelOr MakeNGramSplits(const OpInstance& instance) {
  for (int input = 0; input < 2; ++input) {
    if (!ValueReader(instance).planned(input)) return absl::InvalidArgumentError("the words and their rows must be known when the graph is planned");
  }
  MR_ASSIGN_OR_RETURN(NGrams made, NGramsOf(instance.attrs, instance.input_values[0], instance.input_values[1]));
  return MakeKernel([splits = std::move(made.splits)](const KernelContext& context) {
    std::transform(splits.begin(), splits.end(), context.output<T>(1), [](int64_t at) { return static_cast<T>(at); });
    return absl::OkStatus();
  });
}

KernelOr MakeNGrams(const OpInstance& instance) {
  return instance.outputs[1].dtype == DataType::kInt32 ? MakeNGramSplits<int32_t>(instance) : MakeNGramSplits<int64_t>(instance);
}

void PutFingerprint(const char* bytes, size_t size, uint8_t* out) {
  const uint64_t hash = util::Fingerprint64(bytes, size);
  for (int byte = 0; byte < kFingerprintBytes; ++byte) out[byte] = static_cast<uint8_t>(hash >> (8 * byte));
}

// Of the only string of each row; of several, of their fingerprints one after the other.
KernelOr MakeFingerprintOfStrings(const OpInstance& node) {
  MR_ASSIGN_OR_RETURN(const std::vector<std::string> strings, Strings(node));
  std::vector<uint8_t> prints(strings.size() * kFingerprintBytes);
  for (size_t i = 0; i < strings.size(); ++i) PutFingerprint(strings[i].data(), strings[i].size(), prints.data() + i * kFingerprintBytes);
  const size_t rows = node.outputs[0].shape.dim(0);
  if (strings.size() != rows) {
    std::vector<uint8_t> of_rows(rows * kFingerprintBytes);
    const size_t size = rows == 0 ? 0 : prints.size() / rows;
    for (size_t row = 0; row < rows; ++row) {
      PutFingerprint(reinterpret_cast<const char*>(prints.data()) + row * size, size, of_rows.data() + row * kFingerprintBytes);
    }
    prints = std::move(of_rows);
  }
  return MakeKernel([prints = std::move(prints)](const KernelContext& context) {
    std::copy(prints.begin(), prints.end(), context.output<uint8_t>(0));
    return absl::OkStatus();
  });
}

// Of the bytes of each row.
KernelOr MakeFingerprint(const OpInstance& node) {
  const TensorType& data = node.inputs[0];
  if (data.dtype == DataType::kString) return MakeFingerprintOfStrings(node);
  if (DataTypeSize(data.dtype) == 0) return UnsupportedType(node, data.dtype);
  const int64_t rows = node.outputs[0].shape.dim(0), size = rows == 0 ? 0 : data.size_bytes() / rows;
  return MakeKernel([=](const KernelContext& context) {
    ParallelRange(context, rows, std::max<int64_t>(kElementGrain / std::max<int64_t>(size, 1), 1), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        PutFingerprint(context.input<char>(0) + row * size, size, context.output<uint8_t>(0) + row * kFingerprintBytes);
      }
    });
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterStringNumberKernels(KernelRegistry& registry) {
  AddKernel(registry, "Fingerprint", MakeFingerprint);
  AddKernel(registry, "StringToHashBucket", MakeHash<Bucket::Hash::kMurmur>);
  AddKernel(registry, "StringToHashBucketFast", MakeHash<Bucket::Hash::kFarm>);
  AddKernel(registry, "StringToHashBucketStrong", MakeHash<Bucket::Hash::kKeyed>);
  AddKernel(registry, "StringLength", MakeLength);
  AddKernel(registry, "StringToNumber", MakeToNumber);
  for (const char* name : {"RegexFullMatch", "StaticRegexFullMatch"}) AddKernel(registry, name, MakeFullMatch);
  for (const char* name : {"StringSplit", "StringSplitV2"}) AddKernel(registry, name, MakeSplit);
  AddKernel(registry, "StringNGrams", MakeNGrams);
  AddKernel(registry, "_AsStringToHashBucket", MakeHashOfNumbers);
  AddKernel(registry, "_FindInTable", MakeFind);
}

}  // namespace millrace::cpu
