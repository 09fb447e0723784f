// Tables that steps change, in the bytes of a variable (graph/mutable_table.h).
#include <cstring>

#include "absl/strings/str_cat.h"
#include "cpu/kernels/common.h"
#include "cpu/kernels/rare.h"
#include "cpu/kernels/real_shapes.h"
#include "graph/mutable_table.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

constexpr int64_t kKeyGrain = 4096;

// What the ops have in common: the table, and the two keys that mark empty and removed buckets of TensorFlow's dense tables.
class TableUse {
 public:
  static absl::StatusOr<TableUse> Of(const OpInstance& instance) {
    TableUse use;
    MR_ASSIGN_OR_RETURN(use.layout_, TableLayout::Of(instance.attrs));
    use.size_ = instance.inputs[0].size_bytes();
    for (const char* name : {"empty_key", "deleted_key"}) {
      const Tensor key = instance.attrs.GetOr<Tensor>(name, Tensor());
      if (!key.empty()) use.marks_.push_back({name, key});
    }
    return use;
  }

  const TableLayout& layout() const { return layout_; }
  MutableTable Table(const KernelContext& context) const { return MutableTable(layout_, context.inputs[0], size_); }
  int64_t KeysOf(const KernelContext& context) const { return context.input_type(1).size_bytes() / layout_.key_bytes(); }
  const uint8_t* Key(const KernelContext& context, int64_t i) const { return context.input<uint8_t>(1) + i * layout_.key_bytes(); }
  const uint8_t* Value(const KernelContext& context, int64_t i) const { return context.input<uint8_t>(2) + i * layout_.value_bytes(); }

  // InvalidArgument for a key that marks buckets.
  absl::Status CheckKeys(const KernelContext& context) const {
    for (const auto& [name, mark] : marks_) {
      for (int64_t i = 0; i < KeysOf(context); ++i) {
        if (std::memcmp(Key(context, i), mark.data(), layout_.key_bytes()) != 0) continue;
        return absl::InvalidArgumentError(absl::StrCat("Using the ", name, " as a table key is not allowed"));
      }
    }
    return absl::OkStatus();
  }

  // What an exported bucket has for a key where there is none; nullptr where that is zero.
  const void* MarkOf(bool removed) const { return marks_.empty() ? nullptr : marks_[removed ? marks_.size() - 1 : 0].second.data(); }

 private:
  TableLayout layout_;
  int64_t size_ = 0;
  std::vector<std::pair<std::string, Tensor>> marks_;
};

template <typename Run>
KernelFactory KernelOf(Run run) {
  return [run](const OpInstance& instance) -> KernelOr {
    MR_ASSIGN_OR_RETURN(const TableUse use, TableUse::Of(instance));
    return MakeKernel([use, run](const KernelContext& context) -> absl::Status { return run(use, context); });
  };
}

absl::Status Find(const TableUse& use, const KernelContext& context) {
  MR_RETURN_IF_ERROR(use.CheckKeys(context));
  const MutableTable table = use.Table(context);
  const int64_t bytes = use.layout().value_bytes(), keys = use.KeysOf(context);
  const bool one_default = context.input_type(2).shape == use.layout().value_shape;
  ParallelRange(context, keys, kKeyGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end && bytes > 0; ++i) {
      const int64_t at = table.Find(use.Key(context, i));
      std::memcpy(context.output<uint8_t>(0) + i * bytes, at >= 0 ? table.value(at) : use.Value(context, one_default ? 0 : i), bytes);
    }
  });
  return absl::OkStatus();
}

absl::Status Insert(const TableUse& use, const KernelContext& context) {
  MR_RETURN_IF_ERROR(use.CheckKeys(context));
  MutableTable table = use.Table(context);
  const bool replaces = context.instance->attrs.GetOr<bool>("replaces", false);
  const int64_t keys = use.KeysOf(context), held = replaces ? 0 : table.size();
  if (held + keys > table.buckets()) {
    return absl::ResourceExhaustedError(absl::StrCat("the table has ", table.buckets(), " buckets and ", held, " keys, no room for ", keys,
                                                     " more; the plan was made for a smaller table"));
  }
  if (replaces) table.Clear();
  for (int64_t i = 0; i < keys; ++i) table.Insert(use.Key(context, i), use.Value(context, i));
  return absl::OkStatus();
}

absl::Status Remove(const TableUse& use, const KernelContext& context) {
  MR_RETURN_IF_ERROR(use.CheckKeys(context));
  MutableTable table = use.Table(context);
  for (int64_t i = 0; i < use.KeysOf(context); ++i) table.Remove(use.Key(context, i));
  return absl::OkStatus();
}

absl::Status Size(const TableUse& use, const KernelContext& context) {
  *context.output<int64_t>(0) = use.Table(context).size();
  return absl::OkStatus();
}

absl::Status Export(const TableUse& use, const KernelContext& context) {
  const MutableTable table = use.Table(context);
  const int64_t key_bytes = use.layout().key_bytes(), value_bytes = use.layout().value_bytes();
  const bool all = use.layout().tensorflow_places;
  int64_t rows = 0;
  for (int64_t i = 0; i < table.buckets(); ++i) {
    if (!table.holds(i) && !all) continue;
    const void* mark = table.holds(i) ? nullptr : use.MarkOf(table.removed(i));
    std::memcpy(context.output<uint8_t>(0) + rows * key_bytes, mark != nullptr ? mark : table.key(i), key_bytes);
    if (value_bytes > 0) std::memcpy(context.output<uint8_t>(1) + rows * value_bytes, table.value(i), value_bytes);
    ++rows;
  }
  if (all) return absl::OkStatus();
  for (int output = 0; output < 2; ++output) SetRealDim(context, output, 0, rows);
  return absl::OkStatus();
}

}  // namespace

void RegisterTableKernels(KernelRegistry& registry) {
  AddKernel(registry, "_TableFind", KernelOf(Find));
  AddKernel(registry, "_TableInsert", KernelOf(Insert));
  AddKernel(registry, "_TableRemove", KernelOf(Remove));
  AddKernel(registry, "_TableSize", KernelOf(Size));
  AddKernel(registry, "_TableExport", KernelOf(Export));
}

}  // namespace millrace::cpu
