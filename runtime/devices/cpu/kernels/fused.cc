// Groups of elementwise ops: the kernels of the ops themselves, each made for a block of elements, run one after another
// on blocks that stay in the cache. So the bits are those of the ops on whole tensors.
#include "cpu/kernels/fused.h"

#include <algorithm>
#include <cstring>

#include "absl/container/inlined_vector.h"
#include "cpu/kernels/common.h"
#include "cpu/kernels/register.h"
#include "graph/spread.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

// Elements of a block: its temporaries should stay in the first-level cache.
constexpr int64_t kFusedBlock = 2048;
// Elements that a shard should have at least, all ops together.
constexpr int64_t kFusedGrain = 65536;

class NoThreads final : public ParallelRunner {
 public:
  void For(int64_t shards, absl::FunctionRef<void(int64_t)> fn) override {
    for (int64_t i = 0; i < shards; ++i) fn(i);
  }
};

// One op of the tree. An operand is input i of the node, or -1 - k for the result of op k.
struct FusedOp {
  struct Sized {
    OpInstance instance;
    std::unique_ptr<Kernel> kernel;
  };
  absl::InlinedVector<int64_t, 4> operands;
  int64_t element_bytes = 0;
  int slot = 0;  // of temporaries; the last op writes the output and has none
  Sized whole, rest;
};

// An input of the node: whole, one row that repeats, one element, rows that lie apart, or spread.
struct FusedInput {
  Shape block, rest;
  int64_t step_bytes = 0;    // from block to block
  int64_t offset_bytes = 0;  // of the first element
  int64_t pitch_bytes = 0;   // from row to row, where rows are gathered into a temporary
  int64_t row_bytes = 0, element_bytes = 0;
  Spread spread;             // where elements are spread over a temporary
  int slot = -1;             // of that temporary
};

// Elements [first, first + count) of what the input is spread over.
template <typename T>
void SpreadElements(const Spread& spread, const std::byte* from, int64_t first, int64_t count, std::byte* to) {
  const T* const operand = reinterpret_cast<const T*>(from);
  T* out = reinterpret_cast<T*>(to);
  for (int64_t i = first, end = first + count; i < end;) {
    const int64_t stop = std::min(end, (i / spread.each + 1) * spread.each);
    const T* const part = operand + i / spread.each % spread.count * spread.width;
    if (spread.width == 1) {
      out = std::fill_n(out, stop - i, *part);
      i = stop;
    }
    for (; i < stop; ++i) *out++ = part[i % spread.width];
  }
}

void SpreadBlock(const Spread& spread, int64_t element_bytes, const std::byte* from, int64_t first, int64_t count, std::byte* to) {
  switch (element_bytes) {
    case 1: return SpreadElements<uint8_t>(spread, from, first, count, to);
    case 2: return SpreadElements<uint16_t>(spread, from, first, count, to);
    case 4: return SpreadElements<uint32_t>(spread, from, first, count, to);
    default: return SpreadElements<uint64_t>(spread, from, first, count, to);
  }
}

// What an op gives to the outside: to all of an output, or to rows of one that lie apart.
struct FusedResult {
  size_t op = 0;
  int64_t output = 0, pitch_bytes = -1, offset_bytes = 0;
};

// Of every op's result.
Shape ShapeOf(const OpInstance& instance) { return instance.attrs.GetOr<Shape>("shape", instance.outputs[0].shape); }

class FusedKernel final : public Kernel {
 public:
  absl::Status Prepare(const OpInstance& instance);
  int64_t scratch_bytes() const override { return shards_ * slots_ * slot_bytes_; }
  absl::Status Run(const KernelContext& context) const override;

 private:
  absl::Status ReadInputs(const OpInstance& instance);
  absl::Status ReadOps(const OpInstance& instance);
  absl::Status ReadResults(const OpInstance& instance);
  absl::Status MakeOp(const OpInstance& node, const FunctionRef& ref, FusedOp& op, FusedOp::Sized& sized, bool rest);
  void AssignSlots();
  absl::Status RunBlock(const KernelContext& context, int64_t block, std::byte* temporaries) const;
  void GatherInputs(const KernelContext& context, int64_t block, std::byte* temporaries) const;
  void StoreResults(const KernelContext& context, int64_t block, const std::byte* temporaries) const;

  int64_t elements_ = 0, row_ = 1, block_ = 0, blocks_ = 0, last_ = 0, shards_ = 1;
  int slots_ = 0;
  int64_t slot_bytes_ = 0;
  std::vector<DataType> types_;
  std::vector<FusedInput> inputs_;
  std::vector<FusedOp> ops_;
  std::vector<FusedResult> results_;  // empty: the last op writes the only output itself
};

absl::Status FusedKernel::Prepare(const OpInstance& instance) {
  elements_ = ShapeOf(instance).num_elements();
  const int64_t row = instance.attrs.GetOr<int64_t>("row", 0);
  row_ = std::max<int64_t>(row, 1);
  if (elements_ % row_ != 0) return absl::InvalidArgumentError(absl::StrCat("rows of ", row_, " do not fill the output"));
  block_ = std::min(std::max<int64_t>(kFusedBlock / row_, 1) * row_, elements_);
  blocks_ = block_ == 0 ? 0 : (elements_ + block_ - 1) / block_;
  last_ = elements_ - (blocks_ - 1) * block_;
  MR_RETURN_IF_ERROR(ReadInputs(instance));
  return ReadOps(instance);
}

absl::Status FusedKernel::ReadInputs(const OpInstance& instance) {
  const Shape shape = ShapeOf(instance);
  const int64_t row = instance.attrs.GetOr<int64_t>("row", 0);
  const auto pitches = instance.attrs.GetOr<std::vector<int64_t>>("pitches", {});
  const auto offsets = instance.attrs.GetOr<std::vector<int64_t>>("offsets", {});
  const auto sized = [&](int64_t count) { return row > 0 ? Shape({count / row_, row_}) : Shape({count}); };
  const auto in_temporary = [&](FusedInput& input, int64_t size) {
    input.slot = slots_++;
    slot_bytes_ = std::max(slot_bytes_, AlignUp(block_ * size));
  };
  for (size_t i = 0; i < instance.inputs.size(); ++i) {
    const TensorType& input = instance.inputs[i];
    const int64_t size = DataTypeSize(input.dtype);
    const Spread spread = SpreadOfInput(instance.attrs, i);
    FusedInput made;
    if (i < pitches.size() && i < offsets.size() && pitches[i] >= 0) {
      const int64_t end = offsets[i] + (elements_ / row_ - 1) * pitches[i] + row_;
      if (row == 0 || offsets[i] < 0 || end > input.shape.num_elements()) {
        return absl::InvalidArgumentError(absl::StrCat("input ", i, " is ", input.ToString(), ", its rows end at ", end));
      }
      const bool repeats = pitches[i] == 0;
      made = {repeats ? Shape({row_}) : sized(block_), repeats ? Shape({row_}) : sized(last_)};
      made.offset_bytes = offsets[i] * size;
      made.pitch_bytes = pitches[i] * size;
      made.row_bytes = row_ * size;
      if (!repeats) in_temporary(made, size);
    } else if (!(spread == Spread{})) {
      if (!SpreadFits(spread, input.shape.num_elements(), elements_) || size > 8) {
        return absl::InvalidArgumentError(absl::StrCat("input ", i, " is ", input.ToString(), ", which does not spread so"));
      }
      made = {sized(block_), sized(last_)};
      made.spread = spread;
      in_temporary(made, size);
    } else if (input.shape == shape) {
      made = {sized(block_), sized(last_), block_ * size};
    } else if (input.shape.num_elements() == 1) {
      made = {Shape(), Shape()};
    } else if (input.shape.num_elements() == row) {
      made = {Shape({row_}), Shape({row_})};
    } else {
      return absl::InvalidArgumentError(absl::StrCat("an input is ", input.ToString(), ", expected ", shape.ToString(),
                                                     ", a row or one element"));
    }
    made.element_bytes = size;
    inputs_.push_back(std::move(made));
  }
  return absl::OkStatus();
}

absl::Status FusedKernel::ReadOps(const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const auto refs, instance.attrs.Get<std::vector<FunctionRef>>("ops"));
  MR_ASSIGN_OR_RETURN(const auto operands, instance.attrs.Get<std::vector<int64_t>>("operands"));
  MR_ASSIGN_OR_RETURN(types_, instance.attrs.Get<std::vector<DataType>>("types"));
  if (types_.size() != refs.size() || refs.empty()) return absl::InvalidArgumentError("ops and types differ in number");
  ops_.resize(refs.size());
  size_t at = 0;
  for (size_t k = 0; k < refs.size(); ++k) {
    const int64_t count = at < operands.size() ? operands[at++] : -1;
    for (int64_t i = 0; i < count && at < operands.size(); ++i) {
      const int64_t operand = operands[at++];
      if (operand >= static_cast<int64_t>(inputs_.size()) || operand < -static_cast<int64_t>(k)) {
        return absl::InvalidArgumentError(absl::StrCat("op ", k, " has no operand ", operand));
      }
      ops_[k].operands.push_back(operand);
    }
    if (count != static_cast<int64_t>(ops_[k].operands.size())) return absl::InvalidArgumentError("operands are missing");
    ops_[k].element_bytes = DataTypeSize(types_[k]);
    slot_bytes_ = std::max(slot_bytes_, AlignUp(block_ * ops_[k].element_bytes));
    if (elements_ == 0) continue;
    MR_RETURN_IF_ERROR(MakeOp(instance, refs[k], ops_[k], ops_[k].whole, false));
    MR_RETURN_IF_ERROR(MakeOp(instance, refs[k], ops_[k], ops_[k].rest, true));
  }
  MR_RETURN_IF_ERROR(ReadResults(instance));
  AssignSlots();
  shards_ = NumShards(elements_ * static_cast<int64_t>(ops_.size()), kFusedGrain, std::clamp<int64_t>(blocks_, 1, kMaxShards));
  return absl::OkStatus();
}

absl::Status FusedKernel::ReadResults(const OpInstance& instance) {
  const auto results = instance.attrs.GetOr<std::vector<int64_t>>("results", {});
  for (size_t r = 0; r + 3 < results.size(); r += 4) {
    const int64_t op = results[r], output = results[r + 1], pitch = results[r + 2], offset = results[r + 3];
    if (op < 0 || op >= static_cast<int64_t>(ops_.size()) || output < 0 ||
        output >= static_cast<int64_t>(instance.outputs.size())) {
      return absl::InvalidArgumentError(absl::StrCat("has no op ", op, " or no output ", output));
    }
    const int64_t end = pitch < 0 ? elements_ : offset + (elements_ / row_ - 1) * pitch + row_;
    if (offset < 0 || end > instance.outputs[output].shape.num_elements()) {
      return absl::InvalidArgumentError(absl::StrCat("output ", output, " ends before ", end));
    }
    const int64_t size = ops_[op].element_bytes;
    results_.push_back({static_cast<size_t>(op), output, pitch < 0 ? -1 : pitch * size, offset * size});
  }
  return absl::OkStatus();
}

absl::Status FusedKernel::MakeOp(const OpInstance& node, const FunctionRef& ref, FusedOp& op, FusedOp::Sized& sized,
                                 bool rest) {
  OpInstance& instance = sized.instance;
  instance.name = node.name;
  instance.op = ref.name;
  if (ref.attrs != nullptr) instance.attrs = *ref.attrs;
  const int64_t count = rest ? last_ : block_;
  const Shape full = node.attrs.GetOr<int64_t>("row", 0) > 0 ? Shape({count / row_, row_}) : Shape({count});
  for (int64_t operand : op.operands) {
    if (operand < 0) {
      instance.inputs.push_back({types_[-1 - operand], full});
    } else {
      instance.inputs.push_back({node.inputs[operand].dtype, rest ? inputs_[operand].rest : inputs_[operand].block});
    }
  }
  instance.outputs.push_back({types_[&op - ops_.data()], full});
  const KernelFactory* factory = OpKernels().Find(ref.name);
  if (factory == nullptr) return absl::UnimplementedError(absl::StrCat("no kernel of op '", ref.name, "' to fuse"));
  MR_ASSIGN_OR_RETURN(sized.kernel, (*factory)(instance));
  if (sized.kernel->scratch_bytes() == 0) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("op '", ref.name, "' needs scratch, so it cannot be fused"));
}

// A temporary is free again after the last op that takes it.
void FusedKernel::AssignSlots() {
  std::vector<size_t> last_use(ops_.size(), 0);
  for (size_t k = 0; k < ops_.size(); ++k) {
    for (int64_t operand : ops_[k].operands) {
      if (operand < 0) last_use[-1 - operand] = k;
    }
  }
  // Results are stored when all ops have read the block: an output may be the memory of an input.
  for (const FusedResult& result : results_) last_use[result.op] = ops_.size();
  const size_t in_slots = results_.empty() ? ops_.size() - 1 : ops_.size();
  std::vector<size_t> busy_until(slots_, ops_.size());  // rows that were gathered
  for (size_t k = 0; k < in_slots; ++k) {
    auto slot = std::find_if(busy_until.begin(), busy_until.end(), [&](size_t until) { return until < k; });
    if (slot == busy_until.end()) slot = busy_until.insert(slot, 0);
    *slot = std::max(last_use[k], k);
    ops_[k].slot = static_cast<int>(slot - busy_until.begin());
  }
  slots_ = static_cast<int>(busy_until.size());
}

absl::Status FusedKernel::RunBlock(const KernelContext& context, int64_t block, std::byte* temporaries) const {
  static NoThreads no_threads;
  const bool rest = block == blocks_ - 1;
  GatherInputs(context, block, temporaries);
  const auto place_of = [&](int64_t operand) {
    if (operand < 0) return temporaries + ops_[-1 - operand].slot * slot_bytes_;
    const FusedInput& input = inputs_[operand];
    if (input.slot >= 0) return temporaries + input.slot * slot_bytes_;
    return static_cast<std::byte*>(context.inputs[operand]) + input.offset_bytes + block * input.step_bytes;
  };
  absl::InlinedVector<void*, 8> operands;
  for (const FusedOp& op : ops_) {
    operands.clear();
    for (int64_t operand : op.operands) operands.push_back(place_of(operand));
    // The output may be the memory of an input, of which ops before the last have read this block, and the last one's
    // loop may write where it reads.
    void* result = results_.empty() && &op == &ops_.back() ? static_cast<std::byte*>(context.outputs[0]) + block * block_ * op.element_bytes
                                       : temporaries + op.slot * slot_bytes_;
    const FusedOp::Sized& sized = rest ? op.rest : op.whole;
    KernelContext inner;
    inner.instance = &sized.instance;
    inner.inputs = operands.data();
    inner.outputs = &result;
    inner.scratch = context.scratch;
    inner.parallel = &no_threads;
    MR_RETURN_IF_ERROR(sized.kernel->Run(inner));
  }
  StoreResults(context, block, temporaries);
  return absl::OkStatus();
}

void FusedKernel::GatherInputs(const KernelContext& context, int64_t block, std::byte* temporaries) const {
  const int64_t rows = (block == blocks_ - 1 ? last_ : block_) / row_, first = block * (block_ / row_);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const FusedInput& input = inputs_[i];
    if (input.slot < 0) continue;
    const int64_t bytes = input.row_bytes;
    const std::byte* from = static_cast<const std::byte*>(context.inputs[i]) + input.offset_bytes + first * input.pitch_bytes;
    std::byte* to = temporaries + input.slot * slot_bytes_;
    if (input.spread.each > 0) {
      SpreadBlock(input.spread, input.element_bytes, from, block * block_, rows * row_, to);
      continue;
    }
    for (int64_t r = 0; r < rows; ++r) std::memcpy(to + r * bytes, from + r * input.pitch_bytes, bytes);
  }
}

void FusedKernel::StoreResults(const KernelContext& context, int64_t block, const std::byte* temporaries) const {
  const int64_t count = block == blocks_ - 1 ? last_ : block_;
  for (const FusedResult& result : results_) {
    const FusedOp& op = ops_[result.op];
    const std::byte* from = temporaries + op.slot * slot_bytes_;
    std::byte* to = static_cast<std::byte*>(context.outputs[result.output]) + result.offset_bytes;
    if (result.pitch_bytes < 0) {
      std::memcpy(to + block * block_ * op.element_bytes, from, count * op.element_bytes);
      continue;
    }
    const int64_t bytes = row_ * op.element_bytes, first = block * (block_ / row_);
    for (int64_t r = 0; r < count / row_; ++r) std::memcpy(to + (first + r) * result.pitch_bytes, from + r * bytes, bytes);
  }
}

absl::Status FusedKernel::Run(const KernelContext& context) const {
  if (blocks_ == 0) return absl::OkStatus();
  std::vector<absl::Status> status(shards_);
  const auto run = [&](int64_t shard) {
    std::byte* temporaries = static_cast<std::byte*>(context.scratch) + shard * slots_ * slot_bytes_;
    for (int64_t b = blocks_ * shard / shards_; b < blocks_ * (shard + 1) / shards_ && status[shard].ok(); ++b) {
      status[shard] = RunBlock(context, b, temporaries);
    }
  };
  if (shards_ == 1) {
    run(0);
  } else {
    context.parallel->For(shards_, run);
  }
  for (absl::Status& one : status) MR_RETURN_IF_ERROR(one);
  return absl::OkStatus();
}

}  // namespace

const KernelRegistry& OpKernels() {
  static const KernelRegistry* const registry = [] {
    auto* kernels = new KernelRegistry;
    RegisterCpuKernels(*kernels);
    return kernels;
  }();
  return *registry;
}

void RegisterFusedKernels(KernelRegistry& registry) {
  AddKernel(registry, "_Fused", [](const OpInstance& instance) -> absl::StatusOr<std::unique_ptr<Kernel>> {
    auto kernel = std::make_unique<FusedKernel>();
    MR_RETURN_IF_ERROR(kernel->Prepare(instance));
    return kernel;
  });
}

}  // namespace millrace::cpu
