// Concat, Pack and their inverses Split and Unpack: parts of equal row count beside each other in a whole.
//
//   whole row r:  | part 0 row r | part 1 row r | … |      a row of part i has width[i] bytes
#include <cstring>

#include "cpu/kernels/copy_bytes.h"
#include "cpu/kernels/register.h"
#include "cpu/kernels/values.h"

namespace millrace::cpu {
namespace {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

struct Layout {
  int64_t rows = 1;
  int64_t row_bytes = 0;
  std::vector<int64_t> width_bytes;
  std::vector<int64_t> offset_bytes;  // of a part's run inside a row
};

// Parts with these types, joined at `axis` of the first: dimensions before it make the rows. For Pack and Unpack
// `axis` may be the rank.
Layout MakeLayout(absl::Span<const TensorType> parts, int axis) {
  Layout layout;
  const Shape& first = parts[0].shape;
  for (int i = 0; i < axis; ++i) layout.rows *= first.dim(i);
  for (const TensorType& part : parts) {
    layout.offset_bytes.push_back(layout.row_bytes);
    layout.width_bytes.push_back(layout.rows == 0 ? 0 : part.size_bytes() / layout.rows);
    layout.row_bytes += layout.width_bytes.back();
  }
  return layout;
}

// Calls copy(part, offset in the part, offset in the whole, bytes) for the runs of bytes [begin, end) of the whole.
template <typename Copy>
void ForEachRun(const Layout& layout, int64_t begin, int64_t end, Copy&& copy) {
  if (begin >= end) return;
  const int parts = static_cast<int>(layout.width_bytes.size());
  int64_t row = begin / layout.row_bytes, in_row = begin % layout.row_bytes;
  int part = static_cast<int>(std::upper_bound(layout.offset_bytes.begin(), layout.offset_bytes.end(), in_row) -
                              layout.offset_bytes.begin()) - 1;
  while (begin < end) {
    const int64_t width = layout.width_bytes[part], skip = in_row - layout.offset_bytes[part];
    const int64_t bytes = std::min(width - skip, end - begin);
    copy(part, row * width + skip, begin, bytes);
    begin += bytes;
    in_row += bytes;
    if (++part == parts) {
      part = 0;
      in_row = 0;
      ++row;
    }
  }
}

constexpr int64_t kByteGrain = 4 * kElementGrain;

// Whether the rows of all parts are narrow: then a block of rows is copied part by part.
bool IsNarrow(const Layout& layout) {
  return layout.row_bytes > 0 && std::all_of(layout.width_bytes.begin(), layout.width_bytes.end(),
                                             [](int64_t width) { return width <= kNarrowBytes; });
}

// Joined part by part, long rows of many tiny parts would take longer than row by row.
bool IsNarrowJoin(const Layout& layout) {
  return IsNarrow(layout) && (layout.row_bytes < 4096 || layout.row_bytes / static_cast<int64_t>(layout.width_bytes.size()) >= 16);
}

// Calls copy(part, first row, rows) for blocks of the parts.
template <typename Copy>
void ForEachNarrowBlock(const KernelContext& context, const Layout& layout, Copy&& copy) {
  const int64_t block = std::max<int64_t>(8192 / layout.row_bytes, 16);
  ParallelRange(context, layout.rows, std::max<int64_t>(kByteGrain / layout.row_bytes, 1), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; row += block) {
      for (int part = 0; part < static_cast<int>(layout.width_bytes.size()); ++part) copy(part, row, std::min(block, end - row));
    }
  });
}

KernelOr MakeJoin(Layout layout, int first_input) {
  return MakeKernel([layout = std::move(layout), first_input](const KernelContext& context) {
    char* out = context.output<char>(0);
    if (IsNarrowJoin(layout)) {
      ForEachNarrowBlock(context, layout, [&](int part, int64_t row, int64_t rows) {
        const int64_t width = layout.width_bytes[part];
        CopyNarrowRows(out + row * layout.row_bytes + layout.offset_bytes[part], layout.row_bytes,
                       context.input<char>(first_input + part) + row * width, width, rows, width);
      });
      return absl::OkStatus();
    }
    ParallelRange(context, layout.rows * layout.row_bytes, kByteGrain, [&](int64_t begin, int64_t end) {
      ForEachRun(layout, begin, end, [&](int part, int64_t in_part, int64_t in_whole, int64_t bytes) {
        std::memcpy(out + in_whole, context.input<char>(first_input + part) + in_part, bytes);
      });
    });
    return absl::OkStatus();
  });
}

KernelOr MakeCut(Layout layout, int input) {
  return MakeKernel([layout = std::move(layout), input](const KernelContext& context) {
    const char* in = context.input<char>(input);
    if (IsNarrow(layout)) {
      ForEachNarrowBlock(context, layout, [&](int part, int64_t row, int64_t rows) {
        const int64_t width = layout.width_bytes[part];
        CopyNarrowRows(context.output<char>(part) + row * width, width, in + row * layout.row_bytes + layout.offset_bytes[part],
                       layout.row_bytes, rows, width);
      });
      return absl::OkStatus();
    }
    ParallelRange(context, layout.rows * layout.row_bytes, kByteGrain, [&](int64_t begin, int64_t end) {
      ForEachRun(layout, begin, end, [&](int part, int64_t in_part, int64_t in_whole, int64_t bytes) {
        std::memcpy(context.output<char>(part) + in_part, in + in_whole, bytes);
      });
    });
    return absl::OkStatus();
  });
}

absl::Status ExpectSized(const OpInstance& instance) {
  for (const TensorType& output : instance.outputs) {
    if (DataTypeSize(output.dtype) == 0) return UnsupportedType(instance, output.dtype);
  }
  return absl::OkStatus();
}

// The axis is a plan-time value: it fixed the shape of the output.
absl::StatusOr<int> PlannedAxis(const OpInstance& instance, int input, int rank) {
  const ValueReader reader(instance);
  if (!reader.planned(input)) return absl::InvalidArgumentError("the axis must be known when the graph is planned");
  MR_ASSIGN_OR_RETURN(const int64_t axis, reader.scalar(input));
  return ResolveAxis(axis, rank);
}

KernelOr MakeConcat(const OpInstance& instance, int first, int count, int axis_input) {
  MR_RETURN_IF_ERROR(ExpectSized(instance));
  MR_ASSIGN_OR_RETURN(const int axis, PlannedAxis(instance, axis_input, instance.outputs[0].shape.rank()));
  return MakeJoin(MakeLayout(absl::MakeConstSpan(instance.inputs).subspan(first, count), axis), first);
}

KernelOr MakeConcatV2(const OpInstance& instance) {
  const int count = static_cast<int>(instance.inputs.size()) - 1;
  return MakeConcat(instance, 0, count, count);
}

KernelOr MakeConcatV1(const OpInstance& instance) {
  return MakeConcat(instance, 1, static_cast<int>(instance.inputs.size()) - 1, 0);
}

KernelOr MakeParallelConcat(const OpInstance& instance) {
  MR_RETURN_IF_ERROR(ExpectSized(instance));
  return MakeJoin(MakeLayout(instance.inputs, 0), 0);
}

KernelOr MakePack(const OpInstance& instance) {
  MR_RETURN_IF_ERROR(ExpectSized(instance));
  MR_ASSIGN_OR_RETURN(const int axis, ResolveAxis(instance.attrs.GetOr<int64_t>("axis", 0),
                                                  instance.outputs[0].shape.rank()));
  return MakeJoin(MakeLayout(instance.inputs, axis), 0);
}

KernelOr MakeUnpack(const OpInstance& instance) {
  MR_RETURN_IF_ERROR(ExpectSized(instance));
  if (instance.outputs.empty()) return MakeKernel([](const KernelContext&) { return absl::OkStatus(); });
  MR_ASSIGN_OR_RETURN(const int axis,
                      ResolveAxis(instance.attrs.GetOr<int64_t>("axis", 0), instance.inputs[0].shape.rank()));
  return MakeCut(MakeLayout(instance.outputs, axis), 0);
}

KernelOr MakeSplitAt(const OpInstance& instance, int value_input, int axis_input) {
  MR_RETURN_IF_ERROR(ExpectSized(instance));
  MR_ASSIGN_OR_RETURN(const int axis,
                      PlannedAxis(instance, axis_input, instance.inputs[value_input].shape.rank()));
  return MakeCut(MakeLayout(instance.outputs, axis), value_input);
}

KernelOr MakeSplit(const OpInstance& instance) { return MakeSplitAt(instance, 1, 0); }
KernelOr MakeSplitV(const OpInstance& instance) { return MakeSplitAt(instance, 0, 2); }

template <typename T>
absl::Status ConcatOffsets(const KernelContext& context) {
  const ValueReader reader(context);
  MR_ASSIGN_OR_RETURN(const int64_t dim, reader.scalar(0));
  MR_ASSIGN_OR_RETURN(const Ints first, reader.ints(1));
  MR_ASSIGN_OR_RETURN(const int axis, ResolveAxis(dim, static_cast<int>(first.size())));
  int64_t offset = 0;
  for (size_t i = 1; i < context.instance->inputs.size(); ++i) {
    MR_ASSIGN_OR_RETURN(const Ints shape, reader.ints(static_cast<int>(i)));
    if (shape.size() != first.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("input ", i, " should contain ", first.size(), " elements, but got ", shape.size()));
    }
    T* out = context.output<T>(static_cast<int>(i) - 1);
    for (size_t d = 0; d < shape.size(); ++d) {
      const bool along = static_cast<int>(d) == axis;
      if (!along && shape[d] != first[d]) {
        return absl::InvalidArgumentError(absl::StrCat("All dimensions except ", axis, " must match. Input ", i - 1,
                                                       " has shape ", Shape(shape).ToString(),
                                                       " and doesn't match input 0 with shape ",
                                                       Shape(first).ToString()));
      }
      out[d] = along ? static_cast<T>(offset) : T{0};
    }
    offset += shape[axis];
  }
  return absl::OkStatus();
}

KernelOr MakeConcatOffset(const OpInstance& instance) {
  switch (instance.outputs[0].dtype) {
    case DataType::kInt32: return MakeKernel(ConcatOffsets<int32_t>);
    case DataType::kInt64: return MakeKernel(ConcatOffsets<int64_t>);
    default: return UnsupportedType(instance, instance.outputs[0].dtype);
  }
}

}  // namespace

void RegisterConcatSplitKernels(KernelRegistry& registry) {
  AddKernel(registry, "ConcatV2", ForAnyType(MakeConcatV2));
  AddKernel(registry, "Concat", ForAnyType(MakeConcatV1));
  AddKernel(registry, "ParallelConcat", ForAnyType(MakeParallelConcat));
  AddKernel(registry, "ConcatOffset", MakeConcatOffset);
  AddKernel(registry, "Pack", ForAnyType(MakePack));
  AddKernel(registry, "Unpack", ForAnyType(MakeUnpack));
  AddKernel(registry, "Split", ForAnyType(MakeSplit));
  AddKernel(registry, "SplitV", ForAnyType(MakeSplitV));
}

}  // namespace millrace::cpu
