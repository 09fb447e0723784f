// Elements and rows that change places: space and depth, space and batch, rolls, reversed sequences, patches, stitched rows, rows
// updated by number, permutations; and tensors of few operands: LinSpace, Cross, OnesLike.
#include "cuda/launch/rearrange.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "cuda/kernels/batch_gather.h"
#include "cuda/kernels/common.h"
#include "cuda/kernels/complex.h"
#include "cuda/kernels/register.h"
#include "cuda/launch/layout.h"
#include "cuda/launch/scatter.h"

namespace millrace::cuda {
namespace {

using Ints = std::vector<int64_t>;
using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

Ints IntsOf(const Tensor& tensor) {
  Ints values;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) values.push_back(tensor.IntAt(i));
  return values;
}

int64_t AxisOf(int64_t axis, const Shape& shape) { return axis < 0 ? axis + shape.rank() : axis; }

// The space side [batch, rows, block, columns, block, depth], or with the depth behind the batch, against the deep side, where
// both block dimensions come before the depth.
KernelOr MakeDepth(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const int bytes, ElementBytes(instance, instance.outputs[0].dtype));
  const bool to_depth = instance.op == "SpaceToDepth", last = instance.attrs.GetOr<std::string>("data_format", "NHWC") == "NHWC";
  const int64_t block = instance.attrs.GetOr<int64_t>("block_size", 1);
  const Shape& deep = to_depth ? instance.outputs[0].shape : instance.inputs[0].shape;
  const int64_t rows = deep.dim(last ? 1 : 2), columns = deep.dim(last ? 2 : 3), depth = deep.dim(last ? 3 : 1) / (block * block);
  const Ints sizes = last ? Ints{deep.dim(0), rows, block, columns, block, depth} : Ints{deep.dim(0), depth, rows, block, columns, block};
  const Ints order = last ? Ints{0, 1, 3, 2, 4, 5} : Ints{0, 3, 5, 1, 2, 4};  // of the deep side's dimensions on the space side
  const int rank = static_cast<int>(sizes.size());
  Ints strides(rank, 1);
  for (int d = rank - 2; d >= 0; --d) strides[d] = strides[d + 1] * sizes[d + 1];
  StridedCopy copy;
  copy.rank = rank;
  copy.elements = deep.num_elements();
  int64_t deep_stride = 1;
  for (int d = rank - 1; d >= 0; --d) {
    copy.dims[d] = sizes[order[d]];
    copy.from_strides[d] = to_depth ? strides[order[d]] : deep_stride;
    copy.to_strides[d] = to_depth ? deep_stride : strides[order[d]];
    deep_stride *= copy.dims[d];
  }
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
    LaunchStridedCopy(queue, bytes, copy, context.inputs[0], context.outputs[0]);
  });
}

KernelOr MakeBlocks(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const int bytes, ElementBytes(instance, instance.outputs[0].dtype));
  const Tensor* edges = ValueOf(instance, 1);
  if (edges == nullptr) return Refused(instance, "edges that are not known when planning");
  const bool to_batch = instance.op == "SpaceToBatch";
  const Shape& plain = to_batch ? instance.inputs[0].shape : instance.outputs[0].shape;
  const Shape& blocked = to_batch ? instance.outputs[0].shape : instance.inputs[0].shape;
  BlockShape shape;
  shape.block = instance.attrs.GetOr<int64_t>("block_size", 1);
  shape.images = plain.dim(0);
  for (int k = 0; k < 2; ++k) {
    shape.plain[k] = plain.dim(k + 1);
    shape.blocked[k] = blocked.dim(k + 1);
    shape.before[k] = edges->IntAt(2 * k);
  }
  for (int d = 3; d < plain.rank(); ++d) shape.inner *= plain.dim(d);
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
    (to_batch ? LaunchSpaceToBatch : LaunchBatchToSpace)(queue, bytes, shape, context.inputs[0], context.outputs[0]);
  });
}

// Dimensions that do not move are one with the next one outwards, the innermost ones a run.
absl::StatusOr<RollShape> RollOf(const OpInstance& instance, const Ints& shifts) {
  const Shape& shape = instance.inputs[0].shape;
  RollShape roll;
  Ints dims, moves;  // innermost first
  for (int d = shape.rank() - 1; d >= 0; --d) {
    if (shifts[d] == 0 && dims.empty()) {
      roll.inner *= shape.dim(d);
    } else if (shifts[d] == 0 && moves.back() == 0) {
      dims.back() *= shape.dim(d);
    } else {
      dims.push_back(shape.dim(d));
      moves.push_back(shifts[d]);
    }
  }
  if (dims.size() > kMaxDims) return Refused(instance, absl::StrCat("more than ", kMaxDims, " dimensions"));
  roll.rank = static_cast<int>(dims.size());
  std::copy(dims.rbegin(), dims.rend(), roll.dims);
  std::copy(moves.rbegin(), moves.rend(), roll.shifts);
  return roll;
}

KernelOr MakeRoll(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const int bytes, ElementBytes(instance, instance.outputs[0].dtype));
  const Tensor *shift = ValueOf(instance, 1), *axis = ValueOf(instance, 2);
  if (shift == nullptr || axis == nullptr) return Refused(instance, "shifts that are not known when planning");
  const Shape& shape = instance.inputs[0].shape;
  Ints shifts(shape.rank(), 0);
  for (int64_t i = 0; i < axis->num_elements(); ++i) {
    const int64_t d = AxisOf(axis->IntAt(i), shape);
    if (d < 0 || d >= shape.rank()) return Refused(instance, "an axis out of range");
    const int64_t dim = std::max<int64_t>(shape.dim(static_cast<int>(d)), 1);
    shifts[d] = (shifts[d] + shift->IntAt(i) % dim + dim) % dim;
  }
  MR_ASSIGN_OR_RETURN(const RollShape roll, RollOf(instance, shifts));
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
    LaunchRoll(queue, bytes, roll, context.inputs[0], context.outputs[0]);
  });
}

KernelOr MakeReverseSequence(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const int bytes, ElementBytes(instance, instance.outputs[0].dtype));
  const TensorType& lengths = instance.inputs[1];
  if (!IsIndex(lengths.dtype) || ValueOf(instance, 1) != nullptr) return Refused(instance, "these lengths");
  const Shape& in = instance.inputs[0].shape;
  const int batch = static_cast<int>(instance.attrs.GetOr<int64_t>("batch_dim", 0));
  const int seq = static_cast<int>(instance.attrs.GetOr<int64_t>("seq_dim", 0));
  SequenceShape shape;
  shape.wide_lengths = lengths.dtype == DataType::kInt64;
  shape.steps = in.dim(seq);
  shape.batches = in.dim(batch);
  shape.runs = 1;
  const int inside = std::max(batch, seq);
  for (int d = 0; d < in.rank(); ++d) {
    (d <= inside ? shape.runs : shape.inner) *= in.dim(d);
    if (d > seq && d <= inside) shape.step_stride *= in.dim(d);
    if (d > batch && d <= inside) shape.batch_stride *= in.dim(d);
  }
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
    LaunchReverseSequence(queue, bytes, shape, context.inputs[0], context.inputs[1], context.outputs[0]);
  });
}

KernelOr MakePatches(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const int bytes, ElementBytes(instance, instance.outputs[0].dtype));
  const Shape &in = instance.inputs[0].shape, &out = instance.outputs[0].shape;
  const int last = in.rank() - 1;
  MR_ASSIGN_OR_RETURN(const Ints sizes, instance.attrs.Get<Ints>("ksizes"));
  MR_ASSIGN_OR_RETURN(const Ints strides, instance.attrs.Get<Ints>("strides"));
  const Ints rates = instance.attrs.GetOr<Ints>("rates", Ints(in.rank(), 1));
  const bool same = instance.attrs.GetOr<std::string>("padding", "VALID") == "SAME";
  PatchShape shape;
  shape.batch = in.dim(0);
  shape.depth = in.dim(last);
  for (int d = 1; d < last; ++d) {
    const int k = d - 1;
    shape.in[k] = in.dim(d);
    shape.out[k] = out.dim(d);
    shape.size[k] = sizes[d];
    shape.stride[k] = strides[d];
    shape.rate[k] = rates[d];
    const int64_t missing = (out.dim(d) - 1) * strides[d] + (sizes[d] - 1) * rates[d] + 1 - in.dim(d);
    if (same) shape.before[k] = std::max<int64_t>(missing, 0) / 2;
  }
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
    LaunchPatches(queue, bytes, shape, context.inputs[0], context.outputs[0]);
  });
}

KernelOr MakeInvertPermutation(DeviceServices& services, const OpInstance& instance) {
  const DataType dtype = instance.inputs[0].dtype;
  if (!IsIndex(dtype) || ValueOf(instance, 0) != nullptr) return Refused(instance, "these indices");
  return MakeLaunch(services, [wide = dtype == DataType::kInt64, n = instance.inputs[0].shape.num_elements()](
                                  const Queue& queue, const KernelContext& context) {
    LaunchInvertPermutation(queue, wide, n, context.inputs[0], context.outputs[0]);
  });
}

// Rows from `first` on of a piece of the output, which are `gap` apart there and follow one another in data `input`.
struct Stitch {
  int input = 0;
  int64_t first = 0, count = 0, to = 0, gap = 1;
  bool Continues(int64_t k, int64_t row) const { return k == first + count && (count == 1 || row == to + count * gap); }
};

// Which row of which input each output row is, of several the last one.
std::vector<Stitch> StitchesOf(const std::vector<Ints>& indices, int64_t* rows) {
  std::map<int64_t, std::pair<int, int64_t>> last;
  for (int i = 0; i < static_cast<int>(indices.size()); ++i) {
    for (size_t k = 0; k < indices[i].size(); ++k) last[indices[i][k]] = {i, static_cast<int64_t>(k)};
  }
  *rows = static_cast<int64_t>(last.size());
  std::vector<Stitch> stitches;
  for (int i = 0; i < static_cast<int>(indices.size()); ++i) {
    bool follows = false;
    for (int64_t k = 0; k < static_cast<int64_t>(indices[i].size()); ++k) {
      const int64_t row = indices[i][k];
      if (last[row] != std::pair(i, k)) continue;
      if (follows && stitches.back().Continues(k, row)) {
        Stitch& stitch = stitches.back();
        if (stitch.count == 1) stitch.gap = row - stitch.to;
        ++stitch.count;
      } else {
        stitches.push_back({i, k, 1, row});
      }
      follows = true;
    }
  }
  return stitches;
}

StridedCopy CopyOf(const Stitch& stitch, int64_t inner) {
  StridedCopy copy;
  copy.rank = 2;
  copy.elements = stitch.count * inner;
  copy.dims[0] = stitch.count;
  copy.from_strides[0] = inner;
  copy.to_strides[0] = stitch.gap * inner;
  copy.dims[1] = inner;
  copy.from_strides[1] = copy.to_strides[1] = 1;
  copy.from_offset = stitch.first * inner;
  copy.to_offset = stitch.to * inner;
  return copy;
}

KernelOr MakeStitch(DeviceServices& services, const OpInstance& instance) {
  constexpr int64_t kMostIndices = 1 << 16, kMostStitches = 128;
  MR_ASSIGN_OR_RETURN(const int bytes, ElementBytes(instance, instance.outputs[0].dtype));
  const int count = static_cast<int>(instance.inputs.size()) / 2;
  const Shape& out = instance.outputs[0].shape;
  std::vector<Ints> indices;
  int64_t entries = 0;
  for (int i = 0; i < count; ++i) {
    const bool empty = instance.inputs[i].shape.num_elements() == 0;
    const Tensor* value = ValueOf(instance, i);
    if ((value == nullptr && !empty) || ValueOf(instance, count + i) != nullptr) {
      return Refused(instance, "indices that are not known when planning");
    }
    entries += instance.inputs[i].shape.num_elements();
    if (entries > kMostIndices) return Refused(instance, "so many indices");
    indices.push_back(empty ? Ints() : IntsOf(*value));
    for (int64_t row : indices.back()) {
      if (row < 0 || row >= out.dim(0)) return Refused(instance, "an index out of range");
    }
  }
  int64_t rows = 0;
  const std::vector<Stitch> stitches = StitchesOf(indices, &rows);
  if (stitches.size() > kMostStitches) return Refused(instance, "so many pieces");
  const bool gaps = rows < out.dim(0);
  const int64_t inner = out.dim(0) == 0 ? 0 : out.num_elements() / out.dim(0), total = instance.outputs[0].size_bytes();
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
    if (gaps) LaunchZero(queue, context.outputs[0], total);
    std::vector<CopyTask> tasks;
    for (const Stitch& stitch : stitches) {
      tasks.push_back({CopyOf(stitch, inner), context.inputs[count + stitch.input], context.outputs[0]});
    }
    LaunchStridedCopies(queue, bytes, tasks.data(), static_cast<int>(tasks.size()));
  });
}

// Rows modulo their number; those named twice are updated in order.
KernelOr MakeInplace(DeviceServices& services, const OpInstance& instance) {
  const Shape& shape = instance.inputs[0].shape;
  MR_ASSIGN_OR_RETURN(const Type type, TypeOf(instance, instance.inputs[0].dtype));
  MR_ASSIGN_OR_RETURN(const int bytes, ElementBytes(instance, instance.inputs[0].dtype));
  if (instance.inputs[1].dtype != DataType::kInt32 || ValueOf(instance, 1) != nullptr) return Refused(instance, "these indices");
  const CombineOp op = instance.op == "InplaceAdd" ? CombineOp::kAdd : instance.op == "InplaceSub" ? CombineOp::kSub : CombineOp::kAssign;
  if (type == Type::kBool && op != CombineOp::kAssign) return Refused(instance, "booleans");
  RowIndex index;
  index.input = 1;
  index.count = instance.inputs[1].shape.num_elements();
  index.dims[0] = shape.dim(0);
  index.strides[0] = 1;
  if (shape.dim(0) > INT32_MAX || index.count > INT32_MAX) return Refused(instance, "so many rows");
  const int64_t rows = shape.dim(0), inner = rows == 0 ? 0 : shape.num_elements() / rows;
  const int64_t wrapped = AlignUp(index.count * static_cast<int64_t>(sizeof(int32_t)));
  return MakeLaunch(
      services,
      [=, copy = WholeCopy(shape.num_elements())](const Queue& queue, const KernelContext& context) {
        void* const out = context.outputs[0];
        if (out != context.inputs[0]) LaunchStridedCopy(queue, bytes, copy, context.inputs[0], out);
        if (copy.elements == 0) return;
        int32_t* const indices = static_cast<int32_t*>(context.scratch);
        LaunchWrapRows(queue, rows, index.count, context.input<int32_t>(1), indices);
        LaunchScatterRows(queue, op, type, index, rows, inner, /*one_update=*/false, indices, context.inputs[2], out,
                          static_cast<char*>(context.scratch) + wrapped);
      },
      wrapped + ScatterScratchBytes(index.count, rows));
}

KernelOr MakeDeepCopy(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const int bytes, ElementBytes(instance, instance.outputs[0].dtype));
  return MakeLaunch(services, [bytes, copy = WholeCopy(instance.outputs[0].shape.num_elements())](const Queue& queue,
                                                                                                 const KernelContext& context) {
    LaunchStridedCopy(queue, bytes, copy, context.inputs[0], context.outputs[0]);
  });
}

KernelOr MakeOnes(DeviceServices& services, const OpInstance& instance) {
  const DataType dtype = instance.outputs[0].dtype;
  if (IsComplex(dtype)) return MakeComplexUnary(services, instance);
  MR_ASSIGN_OR_RETURN(const int bytes, ElementBytes(instance, dtype));
  uint64_t bits = 1;
  const auto set = [&bits](auto value) { std::memcpy(&bits, &value, sizeof value); };
  switch (dtype) {
    case DataType::kFloat: set(1.0f); break;
    case DataType::kDouble: set(1.0); break;
    case DataType::kHalf: set(NarrowHalf(1.0f)); break;
    case DataType::kBfloat16: set(NarrowBfloat16(1.0f)); break;
    default:
      if (!IsInteger(dtype) && dtype != DataType::kBool) return Refused(instance, "this element type");
  }
  return MakeLaunch(services, [bytes, bits, n = instance.outputs[0].shape.num_elements()](const Queue& queue, const KernelContext& context) {
    LaunchFillConstant(queue, bytes, &bits, context.outputs[0], n);
  });
}

KernelOr MakeLinSpace(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const Type type, FloatingTypeOf(instance, instance.outputs[0].dtype));
  if (ValueOf(instance, 0) != nullptr || ValueOf(instance, 1) != nullptr) return Refused(instance, "ends that are on the host");
  return MakeLaunch(services, [type, n = instance.outputs[0].shape.num_elements()](const Queue& queue, const KernelContext& context) {
    LaunchLinSpace(queue, type, context.inputs[0], context.inputs[1], context.outputs[0], n);
  });
}

KernelOr MakeCross(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const Type type, NumericTypeOf(instance, instance.outputs[0].dtype));
  return MakeLaunch(services, [type, rows = instance.outputs[0].shape.num_elements() / 3](const Queue& queue, const KernelContext& context) {
    LaunchCross(queue, type, context.inputs[0], context.inputs[1], context.outputs[0], rows);
  });
}

}  // namespace

KernelOr MakeBatchGather(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const int bytes, ElementBytes(instance, instance.outputs[0].dtype));
  const Shape &in = instance.inputs[0].shape, &indices = instance.inputs[1].shape;
  const DataType dtype = instance.inputs[1].dtype;
  if (!IsIndex(dtype) || ValueOf(instance, 1) != nullptr) return Refused(instance, "these indices");
  const int64_t given = instance.attrs.GetOr<int64_t>("batch_dims", 0), batch_dims = AxisOf(given, indices);
  int64_t axis = batch_dims;
  if (instance.op == "GatherV2") {
    const Tensor* value = ValueOf(instance, 2);
    if (value == nullptr) return Refused(instance, "an axis that is not known when planning");
    axis = AxisOf(value->IntAt(0), in);
  }
  BatchGatherShape shape;
  shape.wide_indices = dtype == DataType::kInt64;
  for (int d = 0; d < in.rank(); ++d) {
    (d < batch_dims ? shape.batch : d < axis ? shape.outer : d == axis ? shape.limit : shape.inner) *= in.dim(d);
  }
  for (int d = static_cast<int>(batch_dims); d < indices.rank(); ++d) shape.count *= indices.dim(d);
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
    LaunchBatchGather(queue, bytes, shape, context.inputs[0], context.inputs[1], context.outputs[0]);
  });
}

void RegisterRearranging(KernelRegistry& registry, DeviceServices& services) {
  for (const char* op : {"DepthToSpace", "SpaceToDepth"}) Add(registry, services, op, MakeDepth);
  for (const char* op : {"SpaceToBatch", "BatchToSpace"}) Add(registry, services, op, MakeBlocks);
  for (const char* op : {"ExtractImagePatches", "ExtractVolumePatches"}) Add(registry, services, op, MakePatches);
  for (const char* op : {"DynamicStitch", "ParallelDynamicStitch"}) Add(registry, services, op, MakeStitch);
  for (const char* op : {"InplaceUpdate", "InplaceAdd", "InplaceSub"}) Add(registry, services, op, MakeInplace);
  Add(registry, services, "Roll", MakeRoll);
  Add(registry, services, "ReverseSequence", MakeReverseSequence);
  Add(registry, services, "InvertPermutation", MakeInvertPermutation);
  Add(registry, services, "DeepCopy", MakeDeepCopy);
  Add(registry, services, "OnesLike", MakeOnes);
  Add(registry, services, "LinSpace", MakeLinSpace);
  Add(registry, services, "Cross", MakeCross);
}

}  // namespace millrace::cuda
