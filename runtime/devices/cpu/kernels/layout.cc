// Reverse, Roll, SpaceToBatch and BatchToSpace, SpaceToDepth and DepthToSpace, ReverseSequence.
#include <cstring>

#include "cpu/kernels/copy_bytes.h"
#include "cpu/kernels/indices.h"
#include "cpu/kernels/register.h"
#include "cpu/kernels/strided_copy.h"
#include "cpu/kernels/values.h"

namespace millrace::cpu {
namespace {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

absl::Status RunCopy(const StridedCopy& copy, const KernelContext& context) {
  copy.Run(context, context.inputs[0], context.outputs[0]);
  return absl::OkStatus();
}

absl::StatusOr<int64_t> ElementSize(const OpInstance& instance) {
  const int64_t size = DataTypeSize(instance.outputs[0].dtype);
  if (size == 0) return UnsupportedType(instance, instance.outputs[0].dtype);
  return size;
}

StridedCopy ReverseDims(const Shape& shape, absl::Span<const bool> reversed, int64_t element) {
  StridedCopy copy(element);
  const auto strides = RowMajorStrides(shape.dims());
  int64_t offset = 0;
  for (int i = 0; i < shape.rank(); ++i) {
    if (reversed[i]) offset += (shape.dim(i) - 1) * strides[i];
    copy.AddDim(shape.dim(i), reversed[i] ? -strides[i] : strides[i], strides[i]);
  }
  copy.set_in_offset(offset);
  copy.Prepare();
  return copy;
}

KernelOr MakeReverseV2(const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const int64_t element, ElementSize(instance));
  return MakePlannedKernel(
      instance, {1},
      [element](const ValueReader& reader) -> absl::StatusOr<StridedCopy> {
        const Shape& shape = reader.instance().inputs[0].shape;
        MR_ASSIGN_OR_RETURN(const Ints axes, reader.ints(1));
        absl::InlinedVector<bool, 8> reversed(shape.rank(), false);
        for (int64_t axis : axes) {
          MR_ASSIGN_OR_RETURN(const int d, ResolveAxis(axis, shape.rank()));
          reversed[d] = true;
        }
        return ReverseDims(shape, reversed, element);
      },
      RunCopy);
}

KernelOr MakeReverse(const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const int64_t element, ElementSize(instance));
  return MakePlannedKernel(
      instance, {1},
      [element](const ValueReader& reader) -> absl::StatusOr<StridedCopy> {
        const Shape& shape = reader.instance().inputs[0].shape;
        const auto* dims = static_cast<const bool*>(reader.data(1));
        return ReverseDims(shape, absl::MakeConstSpan(dims, shape.rank()), element);
      },
      RunCopy);
}

// The first seq_lengths[b] steps of batch b in reverse, the others as they are.
struct SequenceLayout {
  absl::InlinedVector<int64_t, 8> dims, strides;
  int batch, seq;
  int64_t run_bytes;  // contiguous bytes inside both the batch and the sequence dimension
};

template <typename Index>
absl::Status ReverseSequence(const SequenceLayout& layout, const KernelContext& context) {
  const Index* lengths = context.input<Index>(1);
  const int64_t steps = layout.dims[layout.seq];
  for (int64_t b = 0; b < layout.dims[layout.batch]; ++b) {
    if (lengths[b] < 0) return absl::InvalidArgumentError(absl::StrCat("seq_lens(", b, ") < 0"));
    if (lengths[b] > steps) {
      return absl::InvalidArgumentError(absl::StrCat("seq_lens(", b, ") > input.dims(", layout.seq, ")"));
    }
  }
  const char* in = context.input<char>(0);
  char* out = context.output<char>(0);
  const int64_t runs = layout.run_bytes == 0 ? 0 : context.output_type(0).size_bytes() / layout.run_bytes;
  const int64_t seq_stride = layout.strides[layout.seq], batch_stride = layout.strides[layout.batch];
  ParallelRange(context, runs, std::max<int64_t>(kElementGrain * 4 / std::max<int64_t>(layout.run_bytes, 1), 1),
                [&](int64_t begin, int64_t end) {
                  for (int64_t r = begin; r < end; ++r) {
                    const int64_t step = r / seq_stride % steps, batch = r / batch_stride % layout.dims[layout.batch];
                    const int64_t length = lengths[batch];
                    const int64_t from = step < length ? r + (length - 1 - 2 * step) * seq_stride : r;
                    CopyRow(out + r * layout.run_bytes, in + from * layout.run_bytes, layout.run_bytes);
                  }
                });
  return absl::OkStatus();
}

KernelOr MakeReverseSequence(const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const int64_t element, ElementSize(instance));
  SequenceLayout layout;
  const Shape& shape = instance.inputs[0].shape;
  layout.batch = static_cast<int>(instance.attrs.GetOr<int64_t>("batch_dim", 0));
  layout.seq = static_cast<int>(instance.attrs.GetOr<int64_t>("seq_dim", 0));
  // Dimensions after both are one run; strides count runs.
  const int inner = std::max(layout.batch, layout.seq) + 1;
  layout.dims.assign(shape.dims().begin(), shape.dims().begin() + inner);
  layout.strides = RowMajorStrides(layout.dims);
  layout.run_bytes = element;
  for (int i = inner; i < shape.rank(); ++i) layout.run_bytes *= shape.dim(i);
  return DispatchIndex(instance, 1, [&](auto tag) -> KernelOr {
    using Index = typename decltype(tag)::type;
    return MakeKernel([layout](const KernelContext& context) { return ReverseSequence<Index>(layout, context); });
  });
}

// Per dimension, how far elements move towards higher indices, in [0, dim).
absl::StatusOr<Ints> ReadShifts(const ValueReader& reader) {
  const Shape& shape = reader.instance().inputs[0].shape;
  MR_ASSIGN_OR_RETURN(const Ints shift, reader.ints(1));
  MR_ASSIGN_OR_RETURN(const Ints axes, reader.ints(2));
  Ints shifts(shape.rank(), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    MR_ASSIGN_OR_RETURN(const int d, ResolveAxis(axes[i], shape.rank()));
    if (shape.dim(d) == 0) continue;
    shifts[d] = ((shifts[d] + shift[i]) % shape.dim(d) + shape.dim(d)) % shape.dim(d);
  }
  return shifts;
}

// Dimensions that are not turned are one with the next one outwards, or with the run of bytes that is moved at once.
struct RollLayout {
  Ints dims, shifts;
  int64_t row_bytes = 0, turned = 0;  // of the last dimension
};

RollLayout LayoutOfRoll(const Shape& shape, const Ints& shifts, int64_t element) {
  RollLayout layout;
  int64_t run = element;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    if (layout.row_bytes == 0 && shifts[d] == 0 && d > 0) {
      run *= shape.dim(d);
    } else if (layout.row_bytes == 0) {
      layout.row_bytes = run * shape.dim(d);
      layout.turned = run * shifts[d];
    } else if (shifts[d] == 0 && !layout.shifts.empty() && layout.shifts.front() == 0) {
      layout.dims.front() *= shape.dim(d);
    } else {
      layout.dims.insert(layout.dims.begin(), shape.dim(d));
      layout.shifts.insert(layout.shifts.begin(), shifts[d]);
    }
  }
  return layout;
}

KernelOr MakeRoll(const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const int64_t element, ElementSize(instance));
  return MakePlannedKernel(instance, {1, 2}, ReadShifts, [element](const Ints& shifts, const KernelContext& context) {
    const RollLayout layout = LayoutOfRoll(context.input_type(0).shape, shifts, element);
    const int64_t row_bytes = layout.row_bytes, turned = layout.turned;
    const int64_t rows = row_bytes == 0 ? 0 : context.output_type(0).size_bytes() / row_bytes;
    const char* in = context.input<char>(0);
    char* out = context.output<char>(0);
    ParallelRange(context, rows, std::max<int64_t>(kElementGrain * 4 / std::max<int64_t>(row_bytes, 1), 1),
                  [&](int64_t begin, int64_t end) {
                    for (int64_t r = begin; r < end; ++r) {
                      int64_t rest = r, from = 0, scale = 1;
                      for (int d = static_cast<int>(layout.dims.size()) - 1; d >= 0; --d) {
                        const int64_t dim = layout.dims[d], index = rest % dim - layout.shifts[d];
                        from += (index < 0 ? index + dim : index) * scale;
                        rest /= dim;
                        scale *= dim;
                      }
                      CopyBytes(out + r * row_bytes + turned, in + from * row_bytes, row_bytes - turned);
                      CopyBytes(out + r * row_bytes, in + (from + 1) * row_bytes - turned, turned);
                    }
                  });
    return absl::OkStatus();
  });
}

// Space and batch: batch entry (o, n) of the blocked side, o an offset inside a block, holds the positions
// o + block * position - before of image n of the plain side.
struct BlockLayout {
  Ints block, before;
  Ints plain, blocked;  // spatial dimensions of either side
  int64_t images = 1;   // batch of the plain side
  int64_t element_bytes = 1, run = 1;
  int64_t offsets = 1;   // inside a block
  bool padded = false;   // the blocked side holds positions that the plain side has not
};

absl::StatusOr<BlockLayout> ReadBlocks(const ValueReader& reader, bool to_batch) {
  const OpInstance& instance = reader.instance();
  const int edges_input = instance.inputs.size() > 2 ? 2 : 1;
  BlockLayout layout;
  if (edges_input == 2) {
    MR_ASSIGN_OR_RETURN(layout.block, reader.ints(1));
  } else {
    layout.block.assign(2, instance.attrs.GetOr<int64_t>("block_size", 1));
  }
  MR_ASSIGN_OR_RETURN(const Ints edges, reader.ints(edges_input));
  const Shape &in = instance.inputs[0].shape, &out = instance.outputs[0].shape;
  const Shape &plain = to_batch ? in : out, &blocked = to_batch ? out : in;
  const int dims = static_cast<int>(layout.block.size());
  for (int k = 0; k < dims; ++k) {
    layout.before.push_back(edges[2 * k]);
    layout.plain.push_back(plain.dim(k + 1));
    layout.blocked.push_back(blocked.dim(k + 1));
    layout.offsets *= layout.block[k];
    layout.padded |= layout.before[k] != 0 || layout.plain[k] != layout.block[k] * layout.blocked[k];
  }
  layout.images = plain.dim(0);
  MR_ASSIGN_OR_RETURN(layout.element_bytes, ElementSize(instance));
  for (int d = dims + 1; d < in.rank(); ++d) layout.run *= in.dim(d);
  return layout;
}

// Copies what the sides share of the batch entries at `offset` inside a block, or at all offsets where nothing is padded.
template <bool kToBatch>
void CopyBlockOffset(const BlockLayout& layout, const KernelContext& context, int64_t offset) {
  const auto plain_strides = RowMajorStrides(layout.plain), blocked_strides = RowMajorStrides(layout.blocked);
  int64_t plain_image = layout.run, blocked_image = layout.run;
  for (int64_t dim : layout.plain) plain_image *= dim;
  for (int64_t dim : layout.blocked) blocked_image *= dim;
  StridedCopy copy(layout.element_bytes);
  const auto add = [&](int64_t size, int64_t plain, int64_t blocked) {
    kToBatch ? copy.AddDim(size, plain, blocked) : copy.AddDim(size, blocked, plain);
  };
  add(layout.images, plain_image, blocked_image);
  add(layout.run, 1, 1);
  int64_t plain_at = 0, blocked_at = offset * layout.images * blocked_image, rest = offset;
  int64_t entry = layout.images * blocked_image;  // between offsets of the dimension at hand
  for (int k = static_cast<int>(layout.block.size()) - 1; k >= 0; --k) {
    const int64_t block = layout.block[k], plain_stride = plain_strides[k] * layout.run, blocked_stride = blocked_strides[k] * layout.run;
    const int64_t at = rest % block - layout.before[k];  // of the first position
    rest /= block;
    const int64_t first = at < 0 ? (block - 1 - at) / block : 0;
    const int64_t behind = std::min(layout.blocked[k], (layout.plain[k] - at + block - 1) / block);
    add(std::max<int64_t>(behind - first, 0), block * plain_stride, blocked_stride);
    plain_at += (at + first * block) * plain_stride;
    blocked_at += first * blocked_stride;
    if (!layout.padded) add(block, plain_stride, entry);
    entry *= block;
  }
  copy.set_in_offset(kToBatch ? plain_at : blocked_at);
  copy.set_out_offset(kToBatch ? blocked_at : plain_at);
  copy.Prepare();
  copy.Run(context, context.inputs[0], context.outputs[0]);
}

template <bool kToBatch>
void CopyBlocks(const BlockLayout& layout, const KernelContext& context) {
  const int64_t copies = layout.padded ? layout.offsets : 1;
  const int64_t elements = (kToBatch ? context.output_type(0) : context.input_type(0)).shape.num_elements() / copies;
  // Copies that are too small to be shared out themselves go to several threads; of larger ones each goes to all threads.
  const int64_t worth = 4 * kElementGrain / layout.element_bytes;
  const int64_t grain = elements < worth ? worth / std::max<int64_t>(elements, 1) : copies;
  ParallelRange(context, copies, grain, [&](int64_t begin, int64_t end) {
    for (int64_t offset = begin; offset < end; ++offset) CopyBlockOffset<kToBatch>(layout, context, offset);
  });
}

template <bool kToBatch>
KernelOr MakeBlocks(const OpInstance& instance) {
  const auto build = [](const ValueReader& reader) { return ReadBlocks(reader, kToBatch); };
  return MakePlannedKernel(instance, {1, static_cast<int>(instance.inputs.size()) - 1}, build,
                           [](const BlockLayout& layout, const KernelContext& context) {
                             if ((kToBatch ? context.output_type(0) : context.input_type(0)).shape.num_elements() == 0) return absl::OkStatus();
                             if (kToBatch && layout.padded) FillZero(context, context.outputs[0], context.output_type(0).size_bytes());
                             CopyBlocks<kToBatch>(layout, context);
                             return absl::OkStatus();
                           });
}

// SpaceToDepth and DepthToSpace: the space side [batch, rows, block, columns, block, depth] (NHWC) or
// [batch, depth, rows, block, columns, block] (NCHW) against the deep side, where the blocks come before depth.
KernelOr MakeDepth(const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const int64_t element, ElementSize(instance));
  const bool to_depth = instance.op == "SpaceToDepth";
  const bool nhwc = instance.attrs.GetOr<std::string>("data_format", "NHWC") == "NHWC";
  const int64_t block = instance.attrs.GetOr<int64_t>("block_size", 1);
  const Shape& deep = to_depth ? instance.outputs[0].shape : instance.inputs[0].shape;
  const int64_t batch = deep.dim(0), rows = deep.dim(nhwc ? 1 : 2), columns = deep.dim(nhwc ? 2 : 3);
  const int64_t depth = deep.dim(nhwc ? 3 : 1) / (block * block);
  // Sizes in the deep side's order, with the place of each dimension on the space side.
  const int64_t space_dims[] = {batch, rows, block, columns, block, depth};
  const int64_t space_dims_nchw[] = {batch, depth, rows, block, columns, block};
  const int from_nhwc[] = {0, 1, 3, 2, 4, 5}, from_nchw[] = {0, 3, 5, 1, 2, 4};
  const auto space_strides = RowMajorStrides(nhwc ? space_dims : space_dims_nchw);
  Ints sizes;
  for (int i = 0; i < 6; ++i) sizes.push_back(nhwc ? space_dims[from_nhwc[i]] : space_dims_nchw[from_nchw[i]]);
  const auto deep_strides = RowMajorStrides(sizes);
  StridedCopy copy(element);
  for (int i = 0; i < 6; ++i) {
    const int64_t space = space_strides[nhwc ? from_nhwc[i] : from_nchw[i]];
    copy.AddDim(sizes[i], to_depth ? space : deep_strides[i], to_depth ? deep_strides[i] : space);
  }
  copy.Prepare();
  return MakeKernel([copy](const KernelContext& context) { return RunCopy(copy, context); });
}

}  // namespace

void RegisterLayoutKernels(KernelRegistry& registry) {
  AddKernel(registry, "Reverse", MakeReverse);
  AddKernel(registry, "ReverseV2", MakeReverseV2);
  AddKernel(registry, "ReverseSequence", MakeReverseSequence);
  AddKernel(registry, "Roll", MakeRoll);
  for (const char* name : {"SpaceToBatchND", "SpaceToBatch"}) AddKernel(registry, name, MakeBlocks<true>);
  for (const char* name : {"BatchToSpaceND", "BatchToSpace"}) AddKernel(registry, name, MakeBlocks<false>);
  for (const char* name : {"SpaceToDepth", "DepthToSpace"}) AddKernel(registry, name, MakeDepth);
}

}  // namespace millrace::cpu
