#include "cuda/launch/layout.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <vector>

#include "cuda/kernels/batch_gather.h"
#include "cuda/kernels/common.h"
#include "cuda/kernels/register.h"
#include "graph/shape_math.h"

namespace millrace::cuda {
namespace {

using Ints = std::vector<int64_t>;
using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

// The value of input `i`, where the plan knows it.
std::optional<Ints> ValuesOf(const OpInstance& instance, size_t i) {
  if (i >= instance.input_values.size() || instance.input_values[i].empty()) return std::nullopt;
  Ints values;
  for (int64_t k = 0; k < instance.input_values[i].num_elements(); ++k) values.push_back(instance.input_values[i].IntAt(k));
  return values;
}

Ints RowMajor(const Shape& shape) {
  Ints strides(shape.rank(), 1);
  for (int d = shape.rank() - 2; d >= 0; --d) strides[d] = strides[d + 1] * shape.dim(d + 1);
  return strides;
}

// Copies with dimensions that are added outermost first and merged where both sides go on.
class CopyBuilder {
 public:
  void AddDim(int64_t dim, int64_t from_stride, int64_t to_stride) {
    copy_.elements = elements_ *= dim;
    if (dim == 1) return;
    const int last = copy_.rank - 1;
    if (copy_.rank > 0 && copy_.from_strides[last] == dim * from_stride && copy_.to_strides[last] == dim * to_stride) {
      copy_.dims[last] *= dim;
      copy_.from_strides[last] = from_stride;
      copy_.to_strides[last] = to_stride;
      return;
    }
    if (copy_.rank == kMaxDims) {
      too_many_ = true;
      return;
    }
    copy_.dims[copy_.rank] = dim;
    copy_.from_strides[copy_.rank] = from_stride;
    copy_.to_strides[copy_.rank] = to_stride;
    ++copy_.rank;
  }
  void SetOffsets(int64_t from, int64_t to) {
    copy_.from_offset = from;
    copy_.to_offset = to;
  }
  absl::StatusOr<StridedCopy> Build(const OpInstance& instance) {
    if (too_many_) return Refused(instance, absl::StrCat("more than ", kMaxDims, " dimensions"));
    copy_.elements = elements_;
    return copy_;
  }

 private:
  StridedCopy copy_;
  int64_t elements_ = 1;
  bool too_many_ = false;
};

struct Part {
  int input = 0;
  int output = 0;
  StridedCopy copy;
};

KernelOr CopyParts(DeviceServices& services, int bytes, std::vector<Part> parts) {
  if (parts.size() == 1) {
    return MakeLaunch(services, [bytes, part = parts[0]](const Queue& queue, const KernelContext& context) {
      LaunchStridedCopy(queue, bytes, part.copy, context.inputs[part.input], context.outputs[part.output]);
    });
  }
  return MakeLaunch(services, [bytes, parts = std::move(parts)](const Queue& queue, const KernelContext& context) {
    std::vector<CopyTask> tasks;
    for (const Part& part : parts) tasks.push_back({part.copy, context.inputs[part.input], context.outputs[part.output]});
    LaunchStridedCopies(queue, bytes, tasks.data(), static_cast<int>(tasks.size()));
  });
}

KernelOr CopyOne(DeviceServices& services, const OpInstance& instance, CopyBuilder builder) {
  MR_ASSIGN_OR_RETURN(const int bytes, ElementBytes(instance, instance.outputs[0].dtype));
  MR_ASSIGN_OR_RETURN(const StridedCopy copy, builder.Build(instance));
  return CopyParts(services, bytes, {{0, 0, copy}});
}

KernelOr MakeSlice(DeviceServices& services, const OpInstance& instance) {
  const auto begin = ValuesOf(instance, 1);
  if (!begin) return Refused(instance, "a beginning that is not known when planning");
  const Shape &in = instance.inputs[0].shape, &out = instance.outputs[0].shape;
  const Ints from = RowMajor(in), to = RowMajor(out);
  CopyBuilder copy;
  int64_t offset = 0;
  for (int d = 0; d < in.rank(); ++d) {
    if ((*begin)[d] < 0 || (*begin)[d] + out.dim(d) > in.dim(d)) return Refused(instance, "a slice out of range");
    offset += (*begin)[d] * from[d];
    copy.AddDim(out.dim(d), from[d], to[d]);
  }
  copy.SetOffsets(offset, 0);
  return CopyOne(services, instance, copy);
}

absl::StatusOr<StridedSliceSpec> SliceSpec(const OpInstance& instance, const Shape& sliced) {
  const auto begin = ValuesOf(instance, 1), end = ValuesOf(instance, 2), strides = ValuesOf(instance, 3);
  if (!begin || !end || !strides) return Refused(instance, "bounds that are not known when planning");
  const AttrMap& attrs = instance.attrs;
  return ResolveStridedSlice(sliced, *begin, *end, *strides,
                             {.begin = attrs.GetOr<int64_t>("begin_mask", 0),
                              .end = attrs.GetOr<int64_t>("end_mask", 0),
                              .ellipsis = attrs.GetOr<int64_t>("ellipsis_mask", 0),
                              .new_axis = attrs.GetOr<int64_t>("new_axis_mask", 0),
                              .shrink_axis = attrs.GetOr<int64_t>("shrink_axis_mask", 0)});
}

KernelOr MakeStridedSlice(DeviceServices& services, const OpInstance& instance) {
  const Shape& in = instance.inputs[0].shape;
  MR_ASSIGN_OR_RETURN(const StridedSliceSpec spec, SliceSpec(instance, in));
  const Ints from = RowMajor(in), to = RowMajor(Shape(spec.size));
  CopyBuilder copy;
  int64_t offset = 0;
  for (int d = 0; d < in.rank(); ++d) {
    offset += spec.begin[d] * from[d];
    copy.AddDim(spec.size[d], from[d] * spec.stride[d], to[d]);
  }
  copy.SetOffsets(offset, 0);
  return CopyOne(services, instance, copy);
}

KernelOr MakeStridedSliceGrad(DeviceServices& services, const OpInstance& instance) {
  const Shape& out = instance.outputs[0].shape;
  MR_ASSIGN_OR_RETURN(const StridedSliceSpec spec, SliceSpec(instance, out));
  MR_ASSIGN_OR_RETURN(const int bytes, ElementBytes(instance, instance.outputs[0].dtype));
  const Ints to = RowMajor(out), from = RowMajor(Shape(spec.size));
  CopyBuilder builder;
  int64_t offset = 0;
  for (int d = 0; d < out.rank(); ++d) {
    offset += spec.begin[d] * to[d];
    builder.AddDim(spec.size[d], from[d], to[d] * spec.stride[d]);
  }
  builder.SetOffsets(0, offset);
  MR_ASSIGN_OR_RETURN(const StridedCopy copy, builder.Build(instance));
  return MakeLaunch(services, [=, total = instance.outputs[0].size_bytes()](const Queue& queue,
                                                                           const KernelContext& context) {
    LaunchZero(queue, context.outputs[0], total);
    LaunchStridedCopy(queue, bytes, copy, context.inputs[4], context.outputs[0]);
  });
}

KernelOr MakeTranspose(DeviceServices& services, const OpInstance& instance) {
  if (instance.op == "ConjugateTranspose" && IsComplex(instance.outputs[0].dtype)) return Refused(instance, "complex numbers");
  const auto order = ValuesOf(instance, 1);
  if (!order) return Refused(instance, "a permutation that is not known when planning");
  const Ints from = RowMajor(instance.inputs[0].shape), to = RowMajor(instance.outputs[0].shape);
  CopyBuilder copy;
  for (int d = 0; d < instance.outputs[0].shape.rank(); ++d) {
    const int64_t source = (*order)[d] < 0 ? (*order)[d] + static_cast<int64_t>(from.size()) : (*order)[d];
    copy.AddDim(instance.outputs[0].shape.dim(d), from[source], to[d]);
  }
  return CopyOne(services, instance, copy);
}

KernelOr MakeReverse(DeviceServices& services, const OpInstance& instance) {
  const auto axes = ValuesOf(instance, 1);
  if (!axes) return Refused(instance, "axes that are not known when planning");
  const Shape& shape = instance.inputs[0].shape;
  const Ints strides = RowMajor(shape);
  std::vector<bool> reversed(shape.rank(), false);
  if (instance.op == "Reverse") {  // a flag per dimension
    for (int d = 0; d < shape.rank(); ++d) reversed[d] = (*axes)[d] != 0;
  } else {
    for (int64_t axis : *axes) reversed[axis < 0 ? axis + shape.rank() : axis] = true;
  }
  CopyBuilder copy;
  int64_t offset = 0;
  for (int d = 0; d < shape.rank(); ++d) {
    if (reversed[d]) offset += (shape.dim(d) - 1) * strides[d];
    copy.AddDim(shape.dim(d), reversed[d] ? -strides[d] : strides[d], strides[d]);
  }
  copy.SetOffsets(offset, 0);
  return CopyOne(services, instance, copy);
}

// Space and batch: batch entry (o, n) of the blocked side, o an offset inside a block, holds the positions
// o + block * position - before of image n of the plain side. One copy per offset, of the positions that are inside.
KernelOr MakeBlocks(DeviceServices& services, const OpInstance& instance) {
  const bool to_batch = instance.op == "SpaceToBatchND";
  const auto block = ValuesOf(instance, 1), edges = ValuesOf(instance, 2);
  if (!block || !edges) return Refused(instance, "blocks that are not known when planning");
  MR_ASSIGN_OR_RETURN(const int bytes, ElementBytes(instance, instance.outputs[0].dtype));
  const Shape &in = instance.inputs[0].shape, &out = instance.outputs[0].shape;
  const Shape &plain = to_batch ? in : out, &blocked = to_batch ? out : in;
  const Ints plain_strides = RowMajor(plain), blocked_strides = RowMajor(blocked);
  const int dims = static_cast<int>(block->size());
  const int64_t offsets = std::accumulate(block->begin(), block->end(), int64_t{1}, std::multiplies<>());
  constexpr int64_t kMostOffsets = 1024;
  if (offsets > kMostOffsets || blocked.num_elements() == 0) return Refused(instance, "these blocks");
  std::vector<StridedCopy> copies;
  for (int64_t offset = 0; offset < offsets; ++offset) {
    CopyBuilder builder;
    int64_t rest = offset, at_plain = 0, at_blocked = offset * plain.dim(0) * blocked_strides[0];
    Ints start(dims);
    for (int k = dims - 1; k >= 0; --k) {
      start[k] = rest % (*block)[k] - (*edges)[2 * k];
      rest /= (*block)[k];
    }
    const auto add = [&](int64_t dim, int64_t p, int64_t b) { builder.AddDim(dim, to_batch ? p : b, to_batch ? b : p); };
    add(plain.dim(0), plain_strides[0], blocked_strides[0]);
    for (int k = 0; k < dims; ++k) {
      const int64_t step = (*block)[k], first = start[k] >= 0 ? 0 : (-start[k] + step - 1) / step;
      const int64_t room = plain.dim(k + 1) - start[k];  // positions with start + step * position inside
      const int64_t last = std::min(blocked.dim(k + 1), room <= 0 ? 0 : (room + step - 1) / step);
      at_plain += (start[k] + first * step) * plain_strides[k + 1];
      at_blocked += first * blocked_strides[k + 1];
      add(std::max<int64_t>(last - first, 0), plain_strides[k + 1] * step, blocked_strides[k + 1]);
    }
    for (int d = dims + 1; d < plain.rank(); ++d) add(plain.dim(d), plain_strides[d], blocked_strides[d]);
    builder.SetOffsets(to_batch ? at_plain : at_blocked, to_batch ? at_blocked : at_plain);
    MR_ASSIGN_OR_RETURN(const StridedCopy copy, builder.Build(instance));
    if (copy.elements > 0) copies.push_back(copy);
  }
  return MakeLaunch(services, [=, total = instance.outputs[0].size_bytes()](const Queue& queue, const KernelContext& context) {
    if (to_batch) LaunchZero(queue, context.outputs[0], total);  // the padding
    for (const StridedCopy& copy : copies) LaunchStridedCopy(queue, bytes, copy, context.inputs[0], context.outputs[0]);
  });
}

// As outer x length x inner, `length` being one axis.
struct AxisView {
  int64_t outer = 1, length = 1, inner = 1;
};
AxisView ViewOf(const Shape& shape, int64_t axis) {
  AxisView view;
  for (int d = 0; d < shape.rank(); ++d) {
    (d < axis ? view.outer : d == axis ? view.length : view.inner) *= shape.dim(d);
  }
  return view;
}

// `part` lies at `offset` of the axis of `whole`; to or from it.
absl::StatusOr<StridedCopy> AxisPart(const OpInstance& instance, const AxisView& part, int64_t whole, int64_t offset,
                                     bool into_whole) {
  CopyBuilder builder;
  const int64_t run = part.length * part.inner, stride = whole * part.inner;
  builder.AddDim(part.outer, into_whole ? run : stride, into_whole ? stride : run);
  builder.AddDim(run, 1, 1);
  const int64_t at = offset * part.inner;
  builder.SetOffsets(into_whole ? 0 : at, into_whole ? at : 0);
  return builder.Build(instance);
}

KernelOr MakeConcat(DeviceServices& services, const OpInstance& instance) {
  const int count = static_cast<int>(instance.inputs.size()) - 1;
  const auto axis = ValuesOf(instance, count);
  if (!axis) return Refused(instance, "an axis that is not known when planning");
  MR_ASSIGN_OR_RETURN(const int bytes, ElementBytes(instance, instance.outputs[0].dtype));
  const Shape& out = instance.outputs[0].shape;
  const int64_t at = (*axis)[0] < 0 ? (*axis)[0] + out.rank() : (*axis)[0];
  std::vector<Part> parts;
  int64_t offset = 0;
  for (int i = 0; i < count; ++i) {
    const AxisView view = ViewOf(instance.inputs[i].shape, at);
    MR_ASSIGN_OR_RETURN(const StridedCopy copy, AxisPart(instance, view, out.dim(at), offset, true));
    offset += view.length;
    parts.push_back({i, 0, copy});
  }
  return CopyParts(services, bytes, std::move(parts));
}

KernelOr MakeSplit(DeviceServices& services, const OpInstance& instance) {
  // Split(axis, value), SplitV(value, sizes, axis).
  const int value = instance.op == "Split" ? 1 : 0;
  const auto axis = ValuesOf(instance, instance.op == "Split" ? 0 : 2);
  if (!axis) return Refused(instance, "an axis that is not known when planning");
  MR_ASSIGN_OR_RETURN(const int bytes, ElementBytes(instance, instance.outputs[0].dtype));
  const Shape& in = instance.inputs[value].shape;
  const int64_t at = (*axis)[0] < 0 ? (*axis)[0] + in.rank() : (*axis)[0];
  std::vector<Part> parts;
  int64_t offset = 0;
  for (int o = 0; o < static_cast<int>(instance.outputs.size()); ++o) {
    const AxisView view = ViewOf(instance.outputs[o].shape, at);
    MR_ASSIGN_OR_RETURN(const StridedCopy copy, AxisPart(instance, view, in.dim(at), offset, false));
    offset += view.length;
    parts.push_back({value, o, copy});
  }
  return CopyParts(services, bytes, std::move(parts));
}

KernelOr MakePack(DeviceServices& services, const OpInstance& instance) {
  const bool unpack = instance.op == "Unpack";
  const Shape& whole = unpack ? instance.inputs[0].shape : instance.outputs[0].shape;
  MR_ASSIGN_OR_RETURN(const int bytes, ElementBytes(instance, instance.inputs[0].dtype));
  int64_t axis = instance.attrs.GetOr<int64_t>("axis", 0);
  if (axis < 0) axis += whole.rank();
  const int count = static_cast<int>(unpack ? instance.outputs.size() : instance.inputs.size());
  AxisView view = ViewOf(whole, axis);
  view.length = 1;
  std::vector<Part> parts;
  for (int i = 0; i < count; ++i) {
    MR_ASSIGN_OR_RETURN(const StridedCopy copy, AxisPart(instance, view, count, i, !unpack));
    parts.push_back(unpack ? Part{0, i, copy} : Part{i, 0, copy});
  }
  return CopyParts(services, bytes, std::move(parts));
}

KernelOr MakePad(DeviceServices& services, const OpInstance& instance) {
  const auto pads = ValuesOf(instance, 1);
  if (!pads) return Refused(instance, "padding that is not known when planning");
  MR_ASSIGN_OR_RETURN(const int bytes, ElementBytes(instance, instance.outputs[0].dtype));
  const Shape &in = instance.inputs[0].shape, &out = instance.outputs[0].shape;
  const Ints from = RowMajor(in), to = RowMajor(out);
  CopyBuilder builder;
  int64_t offset = 0;
  for (int d = 0; d < in.rank(); ++d) {
    offset += (*pads)[2 * d] * to[d];
    builder.AddDim(in.dim(d), from[d], to[d]);
  }
  builder.SetOffsets(0, offset);
  MR_ASSIGN_OR_RETURN(const StridedCopy copy, builder.Build(instance));
  const bool valued = instance.inputs.size() > 2;
  if (valued && ValuesOf(instance, 2)) return Refused(instance, "a value that is on the host");
  return MakeLaunch(services, [=, type = instance.outputs[0]](const Queue& queue, const KernelContext& context) {
    if (valued) {
      LaunchFill(queue, bytes, context.inputs[2], context.outputs[0], type.shape.num_elements());
    } else {
      LaunchZero(queue, context.outputs[0], type.size_bytes());
    }
    LaunchStridedCopy(queue, bytes, copy, context.inputs[0], context.outputs[0]);
  });
}

KernelOr MakeMirrorPad(DeviceServices& services, const OpInstance& instance) {
  const auto pads = ValuesOf(instance, 1);
  if (!pads) return Refused(instance, "padding that is not known when planning");
  const bool gradient = instance.op == "MirrorPadGrad";
  const Shape& inner = instance.inputs[0].shape;
  const Shape& outer = instance.outputs[0].shape;
  if (inner.rank() > kMaxDims) return Refused(instance, absl::StrCat("more than ", kMaxDims, " dimensions"));
  MirrorShape shape;
  shape.rank = inner.rank();
  shape.offset = instance.attrs.GetOr<std::string>("mode", "") == "REFLECT" ? 1 : 0;
  for (int d = 0; d < shape.rank; ++d) {
    shape.inner[d] = gradient ? outer.dim(d) : inner.dim(d);
    shape.padded[d] = gradient ? inner.dim(d) : outer.dim(d);
    shape.before[d] = (*pads)[2 * d];
  }
  if (inner.num_elements() == 0 || outer.num_elements() == 0) return Refused(instance, "an empty tensor");
  if (gradient) {
    MR_ASSIGN_OR_RETURN(const Type type, NumericTypeOf(instance, instance.outputs[0].dtype));
    return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
      LaunchMirrorPadGrad(queue, type, shape, context.inputs[0], context.outputs[0]);
    });
  }
  MR_ASSIGN_OR_RETURN(const int bytes, ElementBytes(instance, instance.outputs[0].dtype));
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
    LaunchMirrorPad(queue, bytes, shape, context.inputs[0], context.outputs[0]);
  });
}

KernelOr MakeTile(DeviceServices& services, const OpInstance& instance) {
  const Shape &in = instance.inputs[0].shape, &out = instance.outputs[0].shape;
  const Ints from = RowMajor(in), to = RowMajor(out);
  CopyBuilder copy;
  for (int d = 0; d < in.rank(); ++d) {
    if (in.dim(d) == 0) return Refused(instance, "nothing to repeat");
    copy.AddDim(out.dim(d) / in.dim(d), 0, to[d] * in.dim(d));
    copy.AddDim(in.dim(d), from[d], to[d]);
  }
  return CopyOne(services, instance, copy);
}

KernelOr MakeBroadcastTo(DeviceServices& services, const OpInstance& instance) {
  const Shape &in = instance.inputs[0].shape, &out = instance.outputs[0].shape;
  const Ints from = RowMajor(in), to = RowMajor(out);
  CopyBuilder copy;
  for (int d = 0; d < out.rank(); ++d) {
    const int at = d - (out.rank() - in.rank());
    copy.AddDim(out.dim(d), at < 0 || in.dim(at) == 1 ? 0 : from[at], to[d]);
  }
  return CopyOne(services, instance, copy);
}

KernelOr MakeFill(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const int bytes, ElementBytes(instance, instance.outputs[0].dtype));
  const int64_t n = instance.outputs[0].shape.num_elements();
  if (const Tensor* value = ValueOf(instance, 1); value != nullptr) {
    return MakeLaunch(services, [=, value = *value](const Queue& queue, const KernelContext& context) {
      LaunchFillConstant(queue, bytes, value.data(), context.outputs[0], n);
    });
  }
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
    LaunchFill(queue, bytes, context.inputs[1], context.outputs[0], n);
  });
}

KernelOr MakeZeros(DeviceServices& services, const OpInstance& instance) {
  MR_RETURN_IF_ERROR(ElementBytes(instance, instance.outputs[0].dtype).status());
  return MakeLaunch(services, [total = instance.outputs[0].size_bytes()](const Queue& queue,
                                                                         const KernelContext& context) {
    LaunchZero(queue, context.outputs[0], total);
  });
}

KernelOr MakeGather(DeviceServices& services, const OpInstance& instance) {
  if (instance.attrs.GetOr<int64_t>("batch_dims", 0) != 0) return MakeBatchGather(services, instance);
  MR_ASSIGN_OR_RETURN(const int bytes, ElementBytes(instance, instance.outputs[0].dtype));
  if (!IsIndex(instance.inputs[1].dtype)) return Refused(instance, "these indices");
  int64_t axis = 0;
  if (instance.op == "GatherV2") {
    const auto value = ValuesOf(instance, 2);
    if (!value) return Refused(instance, "an axis that is not known when planning");
    axis = (*value)[0] < 0 ? (*value)[0] + instance.inputs[0].shape.rank() : (*value)[0];
  }
  const AxisView view = ViewOf(instance.inputs[0].shape, axis);
  const int64_t count = instance.inputs[1].shape.num_elements();
  const bool wide = instance.inputs[1].dtype == DataType::kInt64;
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
    LaunchGather(queue, bytes, wide, 1, view.outer, view.length, count, view.inner, context.inputs[0], context.inputs[1],
                 context.outputs[0]);
  });
}

KernelOr MakeOneHot(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const int bytes, ElementBytes(instance, instance.outputs[0].dtype));
  if (!IsIndex(instance.inputs[0].dtype)) return Refused(instance, "these indices");
  if (ValuesOf(instance, 2) || ValuesOf(instance, 3)) return Refused(instance, "a value that is on the host");
  const Shape& out = instance.outputs[0].shape;
  int64_t axis = instance.attrs.GetOr<int64_t>("axis", -1);
  if (axis < 0) axis += out.rank();
  const AxisView view = ViewOf(out, axis);
  const bool wide = instance.inputs[0].dtype == DataType::kInt64;
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
    LaunchOneHot(queue, bytes, wide, view.outer, view.length, view.inner, context.inputs[0], context.inputs[2],
                 context.inputs[3], context.outputs[0]);
  });
}

}  // namespace

void RegisterLayout(KernelRegistry& registry, DeviceServices& services) {
  Add(registry, services, "Slice", MakeSlice);
  Add(registry, services, "StridedSlice", MakeStridedSlice);
  Add(registry, services, "StridedSliceGrad", MakeStridedSliceGrad);
  for (const char* op : {"Transpose", "ConjugateTranspose"}) Add(registry, services, op, MakeTranspose);
  Add(registry, services, "ConcatV2", MakeConcat);
  for (const char* op : {"Split", "SplitV"}) Add(registry, services, op, MakeSplit);
  for (const char* op : {"Pack", "Unpack"}) Add(registry, services, op, MakePack);
  for (const char* op : {"Pad", "PadV2"}) Add(registry, services, op, MakePad);
  for (const char* op : {"MirrorPad", "MirrorPadGrad"}) Add(registry, services, op, MakeMirrorPad);
  for (const char* op : {"Reverse", "ReverseV2"}) Add(registry, services, op, MakeReverse);
  for (const char* op : {"SpaceToBatchND", "BatchToSpaceND"}) Add(registry, services, op, MakeBlocks);
  Add(registry, services, "Tile", MakeTile);
  Add(registry, services, "BroadcastTo", MakeBroadcastTo);
  Add(registry, services, "Fill", MakeFill);
  Add(registry, services, "ZerosLike", MakeZeros);
  for (const char* op : {"Gather", "GatherV2", "ResourceGather"}) Add(registry, services, op, MakeGather);
  Add(registry, services, "OneHot", MakeOneHot);
}

}  // namespace millrace::cuda
