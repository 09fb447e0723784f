// Unique, UniqueWithCounts (values or slices along an axis), ListDiff and Where: outputs as long as their values say.
#include <cstring>

#include "cpu/kernels/complex.h"
#include "cpu/kernels/real_shapes.h"
#include "cpu/kernels/register.h"
#include "cpu/kernels/values.h"

namespace millrace::cpu {
namespace {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

// Slices of x along an axis: slice i is elements [o, i, k] of [outer, count, inner].
struct Slices {
  int64_t outer = 1, count = 0, inner = 1;
};

Slices SlicesAlong(const Shape& shape, int axis) {
  Slices slices;
  for (int i = 0; i < axis; ++i) slices.outer *= shape.dim(i);
  slices.count = shape.dim(axis);
  for (int i = axis + 1; i < shape.rank(); ++i) slices.inner *= shape.dim(i);
  return slices;
}

// Equal values hash alike: -0 and 0 are equal, NaN equals nothing.
template <typename T>
uint64_t HashValue(T value) {
  uint64_t bits = 0;
  if (!(value == static_cast<T>(0))) std::memcpy(&bits, &value, sizeof(value));
  return bits * 0x9E3779B97F4A7C15u;
}

template <typename T>
uint64_t HashSlice(const T* x, const Slices& s, int64_t i) {
  uint64_t hash = 0;
  for (int64_t o = 0; o < s.outer; ++o) {
    const T* run = x + (o * s.count + i) * s.inner;
    for (int64_t k = 0; k < s.inner; ++k) hash = (hash ^ (hash >> 29)) * 0xBF58476D1CE4E5B9u + HashValue(run[k]);
  }
  return hash ^ (hash >> 32);
}

template <typename T>
bool SameSlice(const T* a, int64_t i, const T* b, int64_t j, const Slices& sa, const Slices& sb) {
  for (int64_t o = 0; o < sa.outer; ++o) {
    const T *ra = a + (o * sa.count + i) * sa.inner, *rb = b + (o * sb.count + j) * sb.inner;
    for (int64_t k = 0; k < sa.inner; ++k) {
      if (!(ra[k] == rb[k])) return false;
    }
  }
  return true;
}

int64_t TableSlots(int64_t count) {
  int64_t slots = 16;
  while (slots < 2 * count) slots *= 2;
  return slots;
}

int64_t TableBytes(int64_t count) { return TableSlots(count) * static_cast<int64_t>(sizeof(int32_t)); }

// Open addressing over slice numbers, in scratch.
template <typename T>
class SliceTable {
 public:
  SliceTable(void* scratch, const T* x, const Slices& slices)
      : slots_(static_cast<int32_t*>(scratch)), mask_(TableSlots(slices.count) - 1), x_(x), slices_(slices) {
    std::fill_n(slots_, mask_ + 1, -1);
  }

  // The entry whose slice equals slice i of y, or -1 after remembering `entry` for it when it is not negative.
  // `slice_of(entry)` is the slice of x that an entry stands for.
  template <typename SliceOf>
  int32_t FindOrAdd(const T* y, int64_t i, const Slices& y_slices, int32_t entry, SliceOf&& slice_of) {
    uint64_t at = HashSlice(y, y_slices, i) & static_cast<uint64_t>(mask_);
    while (slots_[at] >= 0) {
      if (SameSlice(y, i, x_, slice_of(slots_[at]), y_slices, slices_)) return slots_[at];
      at = (at + 1) & static_cast<uint64_t>(mask_);
    }
    if (entry >= 0) slots_[at] = entry;
    return -1;
  }

 private:
  int32_t* slots_;
  int64_t mask_;
  const T* x_;
  Slices slices_;
};

void StoreIndex(void* out, DataType dtype, int64_t i, int64_t value) {
  if (dtype == DataType::kInt64) {
    static_cast<int64_t*>(out)[i] = value;
  } else {
    static_cast<int32_t*>(out)[i] = static_cast<int32_t>(value);
  }
}

// Scratch: the table, then the slice that each distinct entry was first seen in, then its count.
template <typename T>
absl::Status Unique(const KernelContext& context, const Slices& s, int axis) {
  const T* x = context.input<T>(0);
  SliceTable<T> table(context.scratch, x, s);
  auto* first = reinterpret_cast<int64_t*>(static_cast<char*>(context.scratch) + AlignUp(TableBytes(s.count)));
  int64_t* counts = first + s.count;
  int64_t distinct = 0;
  const DataType index_type = context.output_type(1).dtype;
  for (int64_t i = 0; i < s.count; ++i) {
    const int32_t found =
        table.FindOrAdd(x, i, s, static_cast<int32_t>(distinct), [&](int32_t entry) { return first[entry]; });
    const int64_t entry = found >= 0 ? found : distinct;
    if (found < 0) {
      first[distinct] = i;
      counts[distinct++] = 0;
    }
    ++counts[entry];
    StoreIndex(context.outputs[1], index_type, i, entry);
  }
  T* y = context.output<T>(0);
  for (int64_t o = 0; o < s.outer; ++o) {
    for (int64_t e = 0; e < distinct; ++e) {
      std::copy_n(x + (o * s.count + first[e]) * s.inner, s.inner, y + (o * distinct + e) * s.inner);
    }
  }
  SetRealDim(context, 0, axis, distinct);
  if (context.instance->outputs.size() > 2) {
    for (int64_t e = 0; e < distinct; ++e) StoreIndex(context.outputs[2], index_type, e, counts[e]);
    SetRealDim(context, 2, 0, distinct);
  }
  return absl::OkStatus();
}

template <typename Visit>
KernelOr DispatchNumericOrBool(const OpInstance& instance, DataType dtype, Visit&& visit) {
  if (dtype == DataType::kBool) return visit(TypeTag<bool>());
  return DispatchNumeric(instance, dtype, visit);
}

KernelOr MakeUniqueAlong(const OpInstance& instance, int axis) {
  const Slices slices = SlicesAlong(instance.inputs[0].shape, axis);
  if (slices.count > INT32_MAX) return absl::UnimplementedError("unique of more than 2^31 - 1 slices");
  const int64_t scratch = AlignUp(TableBytes(slices.count)) + 2 * slices.count * static_cast<int64_t>(sizeof(int64_t));
  return DispatchNumericOrBool(instance, instance.inputs[0].dtype, [&](auto tag) -> KernelOr {
    using T = typename decltype(tag)::type;
    return MakeKernel([slices, axis](const KernelContext& context) { return Unique<T>(context, slices, axis); },
                      scratch);
  });
}

KernelOr MakeUnique(const OpInstance& instance) { return MakeUniqueAlong(instance, 0); }

KernelOr MakeUniqueV2(const OpInstance& instance) {
  const ValueReader reader(instance);
  if (!reader.planned(1)) return absl::InvalidArgumentError("the axis must be known when the graph is planned");
  MR_ASSIGN_OR_RETURN(const Ints axes, reader.ints(1));
  if (axes.empty()) return MakeUniqueAlong(instance, 0);
  MR_ASSIGN_OR_RETURN(const int axis, ResolveAxis(axes[0], instance.inputs[0].shape.rank()));
  return MakeUniqueAlong(instance, axis);
}

template <typename T>
absl::Status ListDiff(const KernelContext& context) {
  const T *x = context.input<T>(0), *y = context.input<T>(1);
  const Slices xs = {1, context.input_type(0).shape.num_elements(), 1};
  const Slices ys = {1, context.input_type(1).shape.num_elements(), 1};
  SliceTable<T> table(context.scratch, y, ys);
  const auto itself = [](int32_t entry) { return static_cast<int64_t>(entry); };
  for (int64_t i = 0; i < ys.count; ++i) table.FindOrAdd(y, i, ys, static_cast<int32_t>(i), itself);
  int64_t kept = 0;
  for (int64_t i = 0; i < xs.count; ++i) {
    if (table.FindOrAdd(x, i, xs, -1, itself) >= 0) continue;
    context.output<T>(0)[kept] = x[i];
    StoreIndex(context.outputs[1], context.output_type(1).dtype, kept++, i);
  }
  for (int k = 0; k < 2; ++k) SetRealShape(context, k, Shape({kept}));
  return absl::OkStatus();
}

KernelOr MakeListDiff(const OpInstance& instance) {
  const int64_t entries = instance.inputs[1].shape.num_elements();
  if (entries > INT32_MAX) return absl::UnimplementedError("a list of more than 2^31 - 1 elements");
  return DispatchNumericOrBool(instance, instance.inputs[0].dtype, [&](auto tag) -> KernelOr {
    return MakeKernel(ListDiff<typename decltype(tag)::type>, TableBytes(entries));
  });
}

template <typename T>
absl::Status Where(const KernelContext& context) {
  const T* in = context.input<T>(0);
  int64_t* out = context.output<int64_t>(0);
  const Shape& shape = context.input_type(0).shape;
  const int rank = shape.rank();
  Ints index(rank, 0);
  int64_t found = 0;
  const int64_t elements = shape.num_elements();
  for (int64_t i = 0; i < elements; ++i) {
    if (in[i] != static_cast<T>(0)) {
      std::copy(index.begin(), index.end(), out + found * rank);
      ++found;
    }
    for (int d = rank - 1; d >= 0 && ++index[d] == shape.dim(d); --d) index[d] = 0;
  }
  SetRealShape(context, 0, Shape({found, rank}));
  return absl::OkStatus();
}

KernelOr MakeWhere(const OpInstance& instance) {
  const auto make = [](auto tag) -> KernelOr { return MakeKernel(Where<typename decltype(tag)::type>); };
  const DataType dtype = instance.inputs[0].dtype;
  return IsComplex(dtype) ? DispatchComplex(instance, dtype, make) : DispatchNumericOrBool(instance, dtype, make);
}

}  // namespace

void RegisterUniqueKernels(KernelRegistry& registry) {
  AddKernel(registry, "Unique", MakeUnique);
  AddKernel(registry, "UniqueWithCounts", MakeUnique);
  AddKernel(registry, "UniqueV2", MakeUniqueV2);
  AddKernel(registry, "UniqueWithCountsV2", MakeUniqueV2);
  AddKernel(registry, "ListDiff", MakeListDiff);
  AddKernel(registry, "Where", MakeWhere);
}

}  // namespace millrace::cpu
