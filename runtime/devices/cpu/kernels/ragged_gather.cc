// Rows of different lengths, taken by their numbers.
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cpu/kernels/common.h"
#include "cpu/kernels/random_fill.h"
#include "cpu/kernels/rare.h"
#include "cpu/kernels/real_shapes.h"
#include "cpu/kernels/values.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

// Elements [first, last) of a level.
struct Run {
  int64_t first, last;
};

int64_t Element(const ValueReader& reader, int input, int64_t i) {
  return ReadInt(reader.instance().inputs[input].dtype, reader.data(input), i);
}

void WriteSplit(const KernelContext& context, int output, int64_t i, int64_t value) {
  if (context.output_type(output).dtype == DataType::kInt32) context.output<int32_t>(output)[i] = static_cast<int32_t>(value);
  else context.output<int64_t>(output)[i] = value;
}

// Of all rows, those that no index names, too.
absl::Status CheckSplits(const ValueReader& reader, int level) {
  const int64_t count = reader.instance().inputs[level].shape.num_elements(), most = reader.instance().inputs[level + 1].shape.dim(0);
  int64_t last = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t split = Element(reader, level, i);
    if (split < last || split > most) {
      return absl::InvalidArgumentError(absl::StrCat("Ragged splits must be sorted, not be negative and not exceed the number of values, got ", split,
                                                     " at ", i));
    }
    last = split;
  }
  return absl::OkStatus();
}

// The rows as runs of the level below, and their lengths added up as the splits in that output. A row of no elements is a run, too.
absl::StatusOr<std::vector<Run>> OneLevelDown(const KernelContext& context, const ValueReader& reader, int level, int output,
                                              const std::vector<Run>& runs, int64_t below) {
  const int64_t rows = reader.instance().inputs[level].shape.num_elements() - 1;
  std::vector<Run> next;
  int64_t written = 0, total = 0;
  const int64_t room = context.output_type(output).shape.num_elements();
  WriteSplit(context, output, written++, 0);
  for (const Run& run : runs) {
    for (int64_t row = run.first; row < run.last; ++row) {
      if (row < 0 || row >= rows) return absl::InvalidArgumentError(absl::StrCat("row ", row, " is not in [0, ", rows, ")"));
      const Run found{Element(reader, level, row), Element(reader, level, row + 1)};
      if (found.first < 0 || found.last < found.first || found.last > below) {
        return absl::InvalidArgumentError("Ragged splits must be sorted, not be negative and not exceed the number of values");
      }
      if (written >= room) return absl::InvalidArgumentError("the gathered rows are longer than was planned for");
      total += found.last - found.first;
      WriteSplit(context, output, written++, total);
      next.push_back(found);
    }
  }
  SetRealDim(context, output, 0, written);
  return next;
}

// (nested splits, values, indices) -> nested splits, values
absl::Status Gather(const KernelContext& context) {
  const OpInstance& node = *context.instance;
  const ValueReader reader(context);
  const int levels = static_cast<int>(node.inputs.size()) - 2;
  const TensorType &values = node.inputs[levels], &indices = node.inputs[levels + 1];
  const int64_t count = indices.shape.num_elements(), rows = node.inputs[0].shape.num_elements() - 1;
  // Of indices of several dimensions, rows of equal length.
  int output = 0;
  int64_t outer = 1;
  for (int d = 0; d + 1 < indices.shape.rank(); ++d, ++output) {
    outer *= indices.shape.dim(d);
    for (int64_t i = 0; i <= outer; ++i) WriteSplit(context, output, i, i * indices.shape.dim(d + 1));
  }
  std::vector<Run> runs;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = Element(reader, levels + 1, i);
    if (row < 0 || row >= rows) {
      return absl::InvalidArgumentError(absl::StrCat("indices[", i, "] = ", row, " is not in [0, ", rows, ")"));
    }
    runs.push_back({row, row + 1});
  }
  for (int level = 0; level < levels; ++level, ++output) {
    MR_RETURN_IF_ERROR(CheckSplits(reader, level));
    const int64_t below = level + 1 < levels ? node.inputs[level + 1].shape.num_elements() - 1 : values.shape.dim(0);
    MR_ASSIGN_OR_RETURN(runs, OneLevelDown(context, reader, level, output, runs, below));
  }
  const int64_t room = context.output_type(output).shape.dim(0);
  const int64_t row_bytes = values.shape.dim(0) > 0 ? values.size_bytes() / values.shape.dim(0) : 0;
  int64_t taken = 0;
  for (const Run& run : runs) {
    const int64_t length = run.last - run.first;
    if (length > room - taken) return absl::InvalidArgumentError("the gathered rows are longer than was planned for");
    if (length * row_bytes > 0) {
      std::memcpy(context.output<char>(output) + taken * row_bytes, context.input<char>(levels) + run.first * row_bytes, length * row_bytes);
    }
    taken += length;
  }
  SetRealDim(context, output, 0, taken);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeGather(const OpInstance& node) {
  const DataType dtype = node.outputs.back().dtype;
  if (DataTypeSize(dtype) == 0) return UnsupportedType(node, dtype);
  return MakeKernel([](const KernelContext& context) { return Gather(context); });
}

}  // namespace

void RegisterRaggedGatherKernels(KernelRegistry& registry) { AddKernel(registry, "RaggedGather", MakeGather); }

}  // namespace millrace::cpu
