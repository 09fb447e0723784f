// Ops that rearrange elements inside a tensor (Reverse, Roll, space and batch, depth), pick them (TopK, patches,
// bounds of sorted rows), and work on diagonals of matrices.
#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "ops/register.h"
#include "ops/rules.h"
#include "ops/sizes.h"

namespace millrace {
namespace {

absl::Status ReverseV2Shape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, KnownInts(context, 1));
  const int rank = context.shape(0).rank();
  std::vector<bool> used(std::max(rank, 0), false);
  for (int64_t axis : axes) {
    if (rank < 0) break;
    MR_ASSIGN_OR_RETURN(const int d, NormalizeAxis(context, axis, rank));
    if (used[d]) return context.Error(absl::StrCat("axis ", axis, " specified more than once."));
    used[d] = true;
  }
  return SameAsFirstInput(context);
}

absl::Status ReverseShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  const Shape& dims = context.shape(1);
  if (context.dtype(1) != DataType::kBool || context.value(1) == nullptr) {
    return context.Error("dims must be booleans known when the graph is planned");
  }
  if (!context.shape(0).unknown_rank() && dims.num_elements() != context.shape(0).rank()) {
    return context.Error(absl::StrCat("dims has ", dims.num_elements(), " entries for a tensor of shape ",
                                      context.shape(0).ToString()));
  }
  return SameAsFirstInput(context);
}

absl::Status ReverseSequenceShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  const Shape &in = context.shape(0), &lengths = context.shape(1);
  MR_ASSIGN_OR_RETURN(const int64_t seq_dim, RequiredAttr<int64_t>(context, "seq_dim"));
  const int64_t batch_dim = context.attrs().GetOr<int64_t>("batch_dim", 0);
  if (!in.unknown_rank()) {
    if (batch_dim == seq_dim) return context.Error(absl::StrCat("batch_dim == seq_dim == ", seq_dim));
    if (seq_dim < 0 || seq_dim >= in.rank()) {
      return context.Error(absl::StrCat("seq_dim must be < input rank ( ", seq_dim, " vs. ", in.rank(), ")"));
    }
    if (batch_dim < 0 || batch_dim >= in.rank()) {
      return context.Error(absl::StrCat("batch_dim must be < input rank ( ", batch_dim, " vs. ", in.rank(), ")"));
    }
    if (lengths.fully_known() && (lengths.rank() != 1 || lengths.dim(0) != in.dim(static_cast<int>(batch_dim)))) {
      return context.Error(absl::StrCat("seq_lengths.shape is ", lengths.ToString(), ", expected a vector of ",
                                        in.dim(static_cast<int>(batch_dim))));
    }
  }
  return SameAsFirstInput(context);
}

absl::Status RollShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  const Shape &in = context.shape(0), &shift = context.shape(1), &axis = context.shape(2);
  if (!in.unknown_rank() && in.rank() < 1) return context.Error("input must be 1-D or higher");
  if (shift.fully_known() && axis.fully_known() && shift != axis) {
    return context.Error("shift and axis must have the same size");
  }
  if (context.value(1) != nullptr && context.value(2) != nullptr && !in.unknown_rank()) {
    MR_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, KnownInts(context, 2));
    for (int64_t a : axes) {
      if (a < -in.rank() || a >= in.rank()) return context.Error(absl::StrCat("axis ", a, " is out of range"));
    }
  }
  return SameAsFirstInput(context);
}

// Inputs block_shape (1) and paddings or crops (2).
struct Blocks {
  std::vector<int64_t> block, edges;
};

absl::StatusOr<Blocks> KnownBlocks(const InferenceContext& context, int edges_input) {
  Blocks blocks;
  if (edges_input == 2) {
    MR_ASSIGN_OR_RETURN(blocks.block, KnownInts(context, 1));
  } else {
    MR_ASSIGN_OR_RETURN(const int64_t size, RequiredAttr<int64_t>(context, "block_size"));
    blocks.block.assign(2, size);
  }
  MR_ASSIGN_OR_RETURN(blocks.edges, KnownInts(context, edges_input));
  if (blocks.edges.size() != 2 * blocks.block.size()) {
    return context.Error(absl::StrCat("paddings or crops have ", blocks.edges.size(), " entries for ",
                                      blocks.block.size(), " block dimensions"));
  }
  for (int64_t size : blocks.block) {
    if (size < 1) return context.Error(absl::StrCat("All values in block_shape must be positive, got ", size));
  }
  for (int64_t edge : blocks.edges) {
    if (edge < 0) return context.Error(absl::StrCat("paddings and crops must be non-negative, got ", edge));
  }
  const Shape& in = context.shape(0);
  if (!in.unknown_rank() && in.rank() < static_cast<int>(blocks.block.size()) + 1) {
    return context.Error(absl::StrCat("input rank should be >= ", blocks.block.size() + 1, " instead of ", in.rank()));
  }
  return blocks;
}

absl::Status SpaceToBatch(InferenceContext& context, int edges_input) {
  MR_ASSIGN_OR_RETURN(const Blocks blocks, KnownBlocks(context, edges_input));
  Shape out = context.shape(0);
  for (size_t k = 0; !out.unknown_rank() && k < blocks.block.size(); ++k) {
    const int d = static_cast<int>(k) + 1;
    if (out.dim(d) >= 0) {
      const int64_t padded = SizeSum(out.dim(d), SizeSum(blocks.edges[2 * k], blocks.edges[2 * k + 1]));
      if (padded % blocks.block[k] != 0) {
        return context.Error(absl::StrCat("padded_shape[", k, "]=", padded, " is not divisible by block_shape[", k,
                                          "]=", blocks.block[k]));
      }
      out.set_dim(d, padded / blocks.block[k]);
    }
    if (out.dim(0) >= 0) out.set_dim(0, SizeProduct(out.dim(0), blocks.block[k]));
  }
  context.AddOutput(context.dtype(0), std::move(out));
  return absl::OkStatus();
}

absl::Status BatchToSpace(InferenceContext& context, int edges_input) {
  MR_ASSIGN_OR_RETURN(const Blocks blocks, KnownBlocks(context, edges_input));
  Shape out = context.shape(0);
  int64_t product = 1;
  for (int64_t size : blocks.block) product = SizeProduct(product, size);
  if (!out.unknown_rank() && out.dim(0) >= 0) {
    if (out.dim(0) % product != 0) {
      return context.Error(absl::StrCat("Input batch dimension (", out.dim(0), ") is not divisible by product of block "
                                        "sizes (", product, ")"));
    }
    out.set_dim(0, out.dim(0) / product);
  }
  for (size_t k = 0; !out.unknown_rank() && k < blocks.block.size(); ++k) {
    const int d = static_cast<int>(k) + 1;
    if (out.dim(d) < 0) continue;
    const int64_t size = SizeProduct(out.dim(d), blocks.block[k]) - SizeSum(blocks.edges[2 * k], blocks.edges[2 * k + 1]);
    if (size < 0) {
      return context.Error(absl::StrCat("cropped_shape[", k, "]=", size, " must be non-negative"));
    }
    out.set_dim(d, size);
  }
  context.AddOutput(context.dtype(0), std::move(out));
  return absl::OkStatus();
}

absl::Status SpaceToBatchNdShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  return SpaceToBatch(context, 2);
}
absl::Status BatchToSpaceNdShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  return BatchToSpace(context, 2);
}
absl::Status SpaceToBatchShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  return SpaceToBatch(context, 1);
}
absl::Status BatchToSpaceShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  return BatchToSpace(context, 1);
}

absl::Status DepthShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  MR_ASSIGN_OR_RETURN(const int64_t block, RequiredAttr<int64_t>(context, "block_size"));
  if (block < 2) return context.Error(absl::StrCat("Block size should be > 1, but was: ", block));
  const std::string format = context.attrs().GetOr<std::string>("data_format", "NHWC");
  if (format != "NHWC" && format != "NCHW") return context.Error(absl::StrCat("data_format ", format, " is not covered"));
  Shape out = context.shape(0);
  if (out.unknown_rank()) return SameAsFirstInput(context);
  if (out.rank() != 4) return context.Error(absl::StrCat("Input rank should be 4, got ", out.ToString()));
  const int depth = format == "NHWC" ? 3 : 1;
  const bool to_depth = context.op() == "SpaceToDepth";
  auto change = [&](int d, int64_t factor, bool grow) {
    if (out.dim(d) < 0) return true;
    if (!grow && out.dim(d) % factor != 0) return false;
    out.set_dim(d, grow ? SizeProduct(out.dim(d), factor) : out.dim(d) / factor);
    return true;
  };
  bool fits = change(depth, SizeProduct(block, block), to_depth);
  for (int d = 1; d < 4; ++d) {
    if (d != depth) fits = change(d, block, !to_depth) && fits;
  }
  if (!fits) {
    return context.Error(absl::StrCat("input ", context.shape(0).ToString(), " is not divisible by the block size ",
                                      block, to_depth ? " in height and width" : " squared in depth"));
  }
  context.AddOutput(context.dtype(0), std::move(out));
  return absl::OkStatus();
}

int64_t LargestOf(DataType index) {
  if (index == DataType::kInt16) return std::numeric_limits<int16_t>::max();
  return index == DataType::kInt32 ? std::numeric_limits<int32_t>::max() : std::numeric_limits<int64_t>::max();
}

absl::Status AddTopK(InferenceContext& context, int64_t k) {
  Shape out = context.shape(0);
  const auto index = context.attrs().GetOr<DataType>("index_type", DataType::kInt32);
  if (k < 0) return context.Error(absl::StrCat("Need k >= 0, got ", k));
  if (!out.unknown_rank()) {
    if (out.rank() < 1) return context.Error("input must be >= 1-D, got shape []");
    const int last = out.rank() - 1;
    if (out.dim(last) >= 0 && out.dim(last) < k) {
      return context.Error(absl::StrCat("input must have at least k columns. Had ", out.dim(last), ", needed ", k));
    }
    if (const int64_t most = LargestOf(index); out.dim(last) > most) {
      return context.Error(absl::StrCat("the last dimension of the input must be <= ", most, ", got ", out.dim(last), ": indices of type ",
                                        std::string(DataTypeName(index)), " reach no further"));
    }
    out.set_dim(last, k);
  }
  context.AddOutput(context.dtype(0), out);
  context.AddOutput(index, std::move(out));
  return absl::OkStatus();
}

absl::Status TopKShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  MR_ASSIGN_OR_RETURN(const int64_t k, RequiredAttr<int64_t>(context, "k"));
  return AddTopK(context, k);
}

absl::Status TopKV2Shape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  MR_ASSIGN_OR_RETURN(const int64_t k, KnownInt(context, 1));
  return AddTopK(context, k);
}

absl::Status SortedBoundShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  const Shape &sorted = context.shape(0), &values = context.shape(1);
  if (sorted.rank() != 2 || values.rank() != 2 || sorted.dim(0) != values.dim(0)) {
    return context.Error(absl::StrCat("sorted_inputs ", sorted.ToString(), " and values ", values.ToString(),
                                      " must be matrices with equally many rows"));
  }
  MR_ASSIGN_OR_RETURN(const DataType type, IndexTypeAttr(context, "out_type", DataType::kInt32));
  context.AddOutput(type, values);
  return absl::OkStatus();
}

// ExtractImagePatches [batch, rows, cols, depth]; ExtractVolumePatches has three spatial dimensions and no rates.
absl::Status PatchesShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  MR_ASSIGN_OR_RETURN(const auto sizes, RequiredAttr<std::vector<int64_t>>(context, "ksizes"));
  MR_ASSIGN_OR_RETURN(const auto strides, RequiredAttr<std::vector<int64_t>>(context, "strides"));
  MR_ASSIGN_OR_RETURN(const std::string padding, RequiredAttr<std::string>(context, "padding"));
  const size_t rank = context.op() == "ExtractImagePatches" ? 4 : 5;
  const auto rates = context.attrs().GetOr<std::vector<int64_t>>("rates", std::vector<int64_t>(rank, 1));
  Shape out = context.shape(0);
  if (sizes.size() != rank || strides.size() != rank || rates.size() != rank || out.rank() != static_cast<int>(rank)) {
    return context.Error(absl::StrCat("ksizes, strides, rates and the input must have ", rank, " dimensions"));
  }
  for (size_t d = 0; d < rank; ++d) {
    const bool spatial = d > 0 && d + 1 < rank;
    if (std::max({sizes[d], strides[d], rates[d]}) > std::numeric_limits<int32_t>::max()) {
      return context.Error(absl::StrCat("ksizes, strides and rates must be at most ", std::numeric_limits<int32_t>::max(), ", got ", sizes[d], ", ",
                                        strides[d], " and ", rates[d], " for dimension ", d));
    }
    if (sizes[d] < 1 || strides[d] < 1 || rates[d] < 1 || (!spatial && std::max({sizes[d], strides[d], rates[d]}) > 1)) {
      return context.Error("ksizes, strides and rates must be positive, and 1 for batch and depth");
    }
  }
  int64_t depth = out.dim(static_cast<int>(rank) - 1);
  for (int d = 1; d + 1 < static_cast<int>(rank); ++d) {
    const int64_t window = (sizes[d] - 1) * rates[d] + 1, size = out.dim(d);
    if (depth >= 0) depth = SizeProduct(depth, sizes[d]);
    if (size < 0) continue;
    const int64_t count = padding == "SAME" ? size / strides[d] + (size % strides[d] != 0 ? 1 : 0) : (size - window) / strides[d] + 1;
    if (padding != "SAME" && (padding != "VALID" || size < window)) {
      return context.Error(absl::StrCat("padding ", padding, ": a window of ", window, " does not fit ", size));
    }
    out.set_dim(d, count);
  }
  out.set_dim(static_cast<int>(rank) - 1, depth);
  context.AddOutput(context.dtype(0), std::move(out));
  return absl::OkStatus();
}

}  // namespace

void RegisterLayoutOps(OpRegistry& registry) {
  AddOp(registry, {.name = "Reverse", .shape = ReverseShape, .cost = MoveCost});
  AddOp(registry, {.name = "ReverseV2", .shape = ReverseV2Shape, .cost = MoveCost});
  AddOp(registry, {.name = "ReverseSequence", .shape = ReverseSequenceShape, .cost = MoveCost});
  AddOp(registry, {.name = "Roll", .shape = RollShape, .cost = MoveCost});
  AddOp(registry, {.name = "SpaceToBatchND", .shape = SpaceToBatchNdShape, .cost = MoveCost});
  AddOp(registry, {.name = "BatchToSpaceND", .shape = BatchToSpaceNdShape, .cost = MoveCost});
  AddOp(registry, {.name = "SpaceToBatch", .shape = SpaceToBatchShape, .cost = MoveCost});
  AddOp(registry, {.name = "BatchToSpace", .shape = BatchToSpaceShape, .cost = MoveCost});
  for (const char* name : {"SpaceToDepth", "DepthToSpace"}) {
    AddOp(registry, {.name = name, .shape = DepthShape, .cost = MoveCost});
  }
  AddOp(registry, {.name = "TopK", .shape = TopKShape});
  AddOp(registry, {.name = "TopKV2", .shape = TopKV2Shape});
  for (const char* name : {"LowerBound", "UpperBound"}) AddOp(registry, {.name = name, .shape = SortedBoundShape});
  for (const char* name : {"ExtractImagePatches", "ExtractVolumePatches"}) {
    AddOp(registry, {.name = name, .shape = PatchesShape, .cost = MoveCost});
  }
}

}  // namespace millrace
