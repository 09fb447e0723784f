// TopK, LowerBound and UpperBound, ExtractImagePatches and ExtractVolumePatches.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cpu/kernels/indices.h"
#include "cpu/kernels/register.h"
#include "cpu/kernels/values.h"

namespace millrace::cpu {
namespace {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

// The k greatest of a row, greatest first, equal ones by index. Unsorted ones stay in the order of TensorFlow's heap, which is made
// of the first k + 1: what follows by position, as dropout does, depends on it. `heap`: room for k + 1.
template <typename T, typename Index>
void TopKRow(const T* in, int64_t size, int64_t k, bool sorts, Index* heap, T* values, Index* indices) {
  const auto before = [in](Index a, Index b) { return in[b] < in[a] || (!(in[a] < in[b]) && a < b); };
  const int64_t first = std::min(k + 1, size);
  for (int64_t i = 0; i < first; ++i) heap[i] = static_cast<Index>(i);
  std::make_heap(heap, heap + first, before);  // the front is the last of them
  if (first > k) std::pop_heap(heap, heap + first, before);
  for (int64_t i = first; i < size; ++i) {
    if (!before(static_cast<Index>(i), heap[0])) continue;
    std::pop_heap(heap, heap + k, before);
    heap[k - 1] = static_cast<Index>(i);
    std::push_heap(heap, heap + k, before);
  }
  if (sorts || k == size) std::sort_heap(heap, heap + k, before);
  std::copy_n(heap, k, indices);
  for (int64_t i = 0; i < k; ++i) values[i] = in[indices[i]];
}

// The first of the greatest in a row that begins with a number. The greatest by lanes, then where it stands.
template <typename T>
int64_t FirstGreatestFromNumber(const T* in, int64_t size) {
  constexpr int64_t kLanes = 32;
  if (size < 2 * kLanes) {
    int64_t greatest = 0;
    for (int64_t i = 1; i < size; ++i) greatest = in[greatest] < in[i] ? i : greatest;
    return greatest;
  }
  T lanes[kLanes];
  std::fill_n(lanes, kLanes, in[0]);
  for (int64_t i = 0; i + kLanes <= size; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] = lanes[lane] < in[i + lane] ? in[i + lane] : lanes[lane];
  }
  T greatest = lanes[0];
  for (const T& lane : lanes) greatest = greatest < lane ? lane : greatest;
  for (int64_t i = size / kLanes * kLanes; i < size; ++i) greatest = greatest < in[i] ? in[i] : greatest;
  return std::find(in, in + size, greatest) - in;
}

// What stands for k = 1: the first of the greatest numbers, or 0 where all are NaN, as TensorFlow has it (but for rows with NaN among the last
// elements, which do not fill a vector of its).
template <typename T>
int64_t FirstGreatest(const T* in, int64_t size) {
  const T* const number = std::find_if(in, in + size, [](const T& x) { return x == x; });
  return number == in + size ? 0 : number - in + FirstGreatestFromNumber(number, in + size - number);
}

template <typename T>
using OrderKey = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

// Less for what is greater. Zeros are equal.
template <typename T>
OrderKey<T> FallingKey(T x) {
  using Key = OrderKey<T>;
  constexpr Key kSign = Key{1} << (8 * sizeof(Key) - 1);
  if constexpr (std::is_unsigned_v<T>) {
    return ~static_cast<Key>(x);
  } else if constexpr (std::is_integral_v<T>) {
    return ~(static_cast<Key>(x) ^ kSign);
  } else {
    using Value = std::conditional_t<sizeof(T) == 8, double, float>;
    const Key bits = std::bit_cast<Key>(static_cast<Value>(x) + Value(0));
    return bits & kSign ? bits : ~(bits | kSign);
  }
}

template <typename Key>
struct Ranked {
  Key key;
  uint32_t index;
};

// Sorts by key, digit by digit; equal keys stay in their order. `spare` has as many elements, and may be where they end up: returns
// where they are.
template <int kBits, typename Key>
Ranked<Key>* RadixSort(Ranked<Key>* elements, Ranked<Key>* spare, int64_t size) {
  constexpr int kDigits = (8 * sizeof(Key) + kBits - 1) / kBits;
  const auto digit_of = [](Key key, int digit) { return key >> (digit * kBits) & ((1 << kBits) - 1); };
  std::array<std::array<uint32_t, 1 << kBits>, kDigits> starts = {};
  for (int64_t i = 0; i < size; ++i) {
    for (int digit = 0; digit < kDigits; ++digit) ++starts[digit][digit_of(elements[i].key, digit)];
  }
  for (int digit = 0; digit < kDigits; ++digit) {
    auto& start = starts[digit];
    if (start[digit_of(elements[0].key, digit)] == size) continue;
    uint32_t before = 0;
    for (uint32_t& count : start) before += std::exchange(count, before);
    for (int64_t i = 0; i < size; ++i) spare[start[digit_of(elements[i].key, digit)]++] = elements[i];
    std::swap(elements, spare);
  }
  return elements;
}

constexpr int64_t kRadixFrom = 128, kLongRow = 2048;

// Sorts by key, equal keys by index, in which order they come.
template <typename Key>
Ranked<Key>* SortRanked(Ranked<Key>* elements, Ranked<Key>* spare, int64_t size) {
  if (size >= kLongRow) return RadixSort<11>(elements, spare, size);
  if (size >= kRadixFrom) return RadixSort<8>(elements, spare, size);
  std::sort(elements, elements + size,
            [](const Ranked<Key>& a, const Ranked<Key>& b) { return a.key < b.key || (a.key == b.key && a.index < b.index); });
  return elements;
}

// Whether TopKRow comes later than sorting all of a row, for k near to its size.
bool SortPays(int64_t size, int64_t k, bool sorts) {
  return (sorts || k == size) && k > size / (size < kRadixFrom ? 4 : 8) && size <= UINT32_MAX;
}

// TopKRow so: the same result, where no element is NaN. Else false, with nothing written. `room`: for twice as many elements as the row has.
template <typename T, typename Index>
bool SortRow(const T* in, int64_t size, int64_t k, Ranked<OrderKey<T>>* room, T* values, Index* indices) {
  if (std::any_of(in, in + size, [](const T& x) { return x != x; })) return false;
  for (int64_t i = 0; i < size; ++i) room[i] = {FallingKey(in[i]), static_cast<uint32_t>(i)};
  const auto* const sorted = SortRanked(room, room + size, size);
  for (int64_t i = 0; i < k; ++i) {
    indices[i] = static_cast<Index>(sorted[i].index);
    values[i] = in[sorted[i].index];
  }
  return true;
}

KernelOr MakeTopK(const OpInstance& instance) {
  const Shape &in = instance.inputs[0].shape, &out = instance.outputs[0].shape;
  const int64_t size = in.dim(in.rank() - 1), k = out.dim(out.rank() - 1);
  const bool sorts = instance.attrs.GetOr<bool>("sorted", true);
  return DispatchNumeric(instance, instance.inputs[0].dtype, [&](auto value) -> KernelOr {
    using T = typename decltype(value)::type;
    const auto make = [&](auto index) -> KernelOr {
      using Index = typename decltype(index)::type;
      if (size > std::numeric_limits<Index>::max()) {
        return absl::InvalidArgumentError(absl::StrCat("node '", instance.name, "' (op '", instance.op, "'): the last dimension of the input must be <= ",
                                                       std::numeric_limits<Index>::max(), ", got ", size));
      }
      // Of every shard a heap, and room to sort a row in.
      using Element = Ranked<OrderKey<T>>;
      const bool whole = SortPays(size, k, sorts);
      const int64_t rows = k == 0 ? 0 : out.num_elements() / k, grain = std::max<int64_t>(kElementGrain / 4 / std::max<int64_t>(size, 1), 1);
      const int64_t heap_bytes = (k + 1) * static_cast<int64_t>(sizeof(Index)), sort_bytes = whole ? 2 * size * static_cast<int64_t>(sizeof(Element)) : 0;
      const int64_t shard_bytes = (std::max(heap_bytes, sort_bytes) + 63) / 64 * 64, shards = NumShards(rows, grain);
      const auto run = [=](const KernelContext& context) {
        context.parallel->For(shards, [&](int64_t s) {
          void* const room = static_cast<char*>(context.scratch) + s * shard_bytes;
          for (int64_t r = rows * s / shards; r < rows * (s + 1) / shards; ++r) {
            const T* row = context.input<T>(0) + r * size;
            T* values = context.output<T>(0) + r * k;
            Index* indices = context.output<Index>(1) + r * k;
            if (k == 1) {
              indices[0] = static_cast<Index>(FirstGreatest(row, size));
              values[0] = row[indices[0]];
              continue;
            }
            if (whole && SortRow(row, size, k, static_cast<Element*>(room), values, indices)) continue;
            TopKRow(row, size, k, sorts, static_cast<Index*>(room), values, indices);
          }
        });
        return absl::OkStatus();
      };
      return MakeKernel(run, k == 0 ? 0 : shards * shard_bytes);
    };
    switch (instance.outputs[1].dtype) {
      case DataType::kInt16: return make(TypeTag<int16_t>());
      case DataType::kInt32: return make(TypeTag<int32_t>());
      case DataType::kInt64: return make(TypeTag<int64_t>());
      default: return UnsupportedType(instance, instance.outputs[1].dtype);
    }
  });
}

template <typename T, typename Index, bool kUpper>
absl::Status SortedBound(const KernelContext& context) {
  const int64_t rows = context.input_type(0).shape.dim(0), sorted = context.input_type(0).shape.dim(1);
  const int64_t values = context.input_type(1).shape.dim(1);
  for (int64_t r = 0; r < rows; ++r) {
    const T* row = context.input<T>(0) + r * sorted;
    for (int64_t i = r * values; i < (r + 1) * values; ++i) {
      const T value = context.input<T>(1)[i];
      const T* at = kUpper ? std::upper_bound(row, row + sorted, value) : std::lower_bound(row, row + sorted, value);
      context.output<Index>(0)[i] = static_cast<Index>(at - row);
    }
  }
  return absl::OkStatus();
}

template <bool kUpper>
KernelOr MakeSortedBound(const OpInstance& instance) {
  return DispatchNumeric(instance, instance.inputs[0].dtype, [&](auto tag) -> KernelOr {
    using T = typename decltype(tag)::type;
    switch (instance.outputs[0].dtype) {
      case DataType::kInt32: return MakeKernel(SortedBound<T, int32_t, kUpper>);
      case DataType::kInt64: return MakeKernel(SortedBound<T, int64_t, kUpper>);
      default: return UnsupportedType(instance, instance.outputs[0].dtype);
    }
  });
}

// Up to three spatial dimensions; missing ones have size 1.
struct Patches {
  int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1}, size[3] = {1, 1, 1}, stride[3] = {1, 1, 1}, rate[3] = {1, 1, 1};
  int64_t before[3] = {0, 0, 0};
  int64_t depth_bytes = 0;
};

// One output position: all elements of its window, outside ones zero.
void CopyPatch(const Patches& p, const char* image, const int64_t position[3], char* out) {
  for (int64_t a = 0; a < p.size[0]; ++a) {
    const int64_t i = position[0] * p.stride[0] + a * p.rate[0] - p.before[0];
    for (int64_t b = 0; b < p.size[1]; ++b) {
      const int64_t j = position[1] * p.stride[1] + b * p.rate[1] - p.before[1];
      for (int64_t c = 0; c < p.size[2]; ++c) {
        const int64_t k = position[2] * p.stride[2] + c * p.rate[2] - p.before[2];
        const bool inside = i >= 0 && i < p.in[0] && j >= 0 && j < p.in[1] && k >= 0 && k < p.in[2];
        if (inside) {
          std::memcpy(out, image + ((i * p.in[1] + j) * p.in[2] + k) * p.depth_bytes, p.depth_bytes);
        } else {
          std::memset(out, 0, p.depth_bytes);
        }
        out += p.depth_bytes;
      }
    }
  }
}

KernelOr MakePatches(const OpInstance& instance) {
  const Shape &in = instance.inputs[0].shape, &out = instance.outputs[0].shape;
  const int rank = in.rank();
  MR_ASSIGN_OR_RETURN(const auto sizes, instance.attrs.Get<std::vector<int64_t>>("ksizes"));
  MR_ASSIGN_OR_RETURN(const auto strides, instance.attrs.Get<std::vector<int64_t>>("strides"));
  const auto rates = instance.attrs.GetOr<std::vector<int64_t>>("rates", std::vector<int64_t>(rank, 1));
  const bool same = instance.attrs.GetOr<std::string>("padding", "VALID") == "SAME";
  Patches p;
  p.depth_bytes = DataTypeSize(instance.outputs[0].dtype) * in.dim(rank - 1);
  for (int d = 1; d + 1 < rank; ++d) {
    const int s = d - 1;
    p.in[s] = in.dim(d);
    p.out[s] = out.dim(d);
    p.size[s] = sizes[d];
    p.stride[s] = strides[d];
    p.rate[s] = rates[d];
    const int64_t needed = (p.out[s] - 1) * p.stride[s] + (p.size[s] - 1) * p.rate[s] + 1 - p.in[s];
    p.before[s] = same ? std::max<int64_t>(needed, 0) / 2 : 0;
  }
  const int64_t patch_bytes = p.depth_bytes * p.size[0] * p.size[1] * p.size[2];
  const int64_t image_bytes = p.depth_bytes * p.in[0] * p.in[1] * p.in[2];
  const int64_t positions = in.dim(0) * p.out[0] * p.out[1] * p.out[2];
  return MakeKernel([p, patch_bytes, image_bytes, positions](const KernelContext& context) {
    ParallelRange(context, positions, std::max<int64_t>(kElementGrain * 4 / std::max<int64_t>(patch_bytes, 1), 1),
                  [&](int64_t begin, int64_t end) {
                    for (int64_t r = begin; r < end; ++r) {
                      const int64_t per_image = p.out[0] * p.out[1] * p.out[2];
                      const int64_t at[3] = {r % per_image / (p.out[1] * p.out[2]), r / p.out[2] % p.out[1], r % p.out[2]};
                      CopyPatch(p, context.input<char>(0) + r / per_image * image_bytes, at,
                                context.output<char>(0) + r * patch_bytes);
                    }
                  });
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterTopKKernels(KernelRegistry& registry) {
  AddKernel(registry, "TopK", MakeTopK);
  AddKernel(registry, "TopKV2", MakeTopK);
  AddKernel(registry, "LowerBound", MakeSortedBound<false>);
  AddKernel(registry, "UpperBound", MakeSortedBound<true>);
  AddKernel(registry, "ExtractImagePatches", MakePatches);
  AddKernel(registry, "ExtractVolumePatches", MakePatches);
}

}  // namespace millrace::cpu
