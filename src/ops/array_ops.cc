// Ops that join, split, pad and repeat tensors: Concat, Pack, Split, Pad, Tile and their kin.
#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "ops/register.h"
#include "ops/rules.h"
#include "ops/sizes.h"

namespace millrace {
namespace {

// Inputs [first, first + count) joined along `axis`.
absl::Status JoinShape(InferenceContext& context, int first, int count, int64_t axis) {
  if (count < 1) return context.Error("has nothing to concatenate");
  Shape out = Shape::UnknownRank();
  int d = 0;
  for (int i = first; i < first + count; ++i) {
    const Shape& shape = context.shape(i);
    if (context.dtype(i) != context.dtype(first)) {
      return context.Error(absl::StrCat("inputs have types ", context.input(first).ToString(), " and ",
                                        context.input(i).ToString(), ", expected equal element types"));
    }
    if (shape.unknown_rank()) continue;
    if (out.unknown_rank()) {
      if (shape.rank() == 0) return context.Error("cannot concatenate scalars, use Pack");
      MR_ASSIGN_OR_RETURN(d, NormalizeAxis(context, axis, shape.rank()));
      out = shape;
      continue;
    }
    bool compatible = shape.rank() == out.rank();
    for (int k = 0; compatible && k < out.rank(); ++k) {
      const int64_t a = out.dim(k), b = shape.dim(k);
      if (k == d) {
        out.set_dim(k, a < 0 || b < 0 ? -1 : SizeSum(a, b));
      } else {
        compatible = a == b || a < 0 || b < 0;
        if (a < 0) out.set_dim(k, b);
      }
    }
    if (!compatible) {
      return context.Error(absl::StrCat("ConcatOp : Dimensions of inputs should match: shape[0] = ",
                                        context.shape(first).ToString(), " vs. shape[", i - first,
                                        "] = ", shape.ToString()));
    }
  }
  context.AddOutput(context.dtype(first), std::move(out));
  return absl::OkStatus();
}

absl::Status ConcatV2Shape(InferenceContext& context) {
  const int count = context.num_inputs() - 1;
  if (count < 1) return context.Error("has nothing to concatenate");
  MR_ASSIGN_OR_RETURN(const int64_t axis, KnownInt(context, count));
  return JoinShape(context, 0, count, axis);
}

absl::Status ConcatShape(InferenceContext& context) {
  MR_ASSIGN_OR_RETURN(const int64_t axis, KnownInt(context, 0));
  return JoinShape(context, 1, context.num_inputs() - 1, axis);
}

// Rows, one from each input, and the shape that they make together.
absl::Status ParallelConcatShape(InferenceContext& context) {
  for (int i = 0; i < context.num_inputs(); ++i) {
    const Shape& row = context.shape(i);
    if (row.unknown_rank() || (row.rank() > 0 && (row.dim(0) < 0 || row.dim(0) == 1))) continue;
    return context.Error(absl::StrCat("input ", i, " is ", row.ToString(), ", expected a first dimension of 1"));
  }
  MR_RETURN_IF_ERROR(JoinShape(context, 0, context.num_inputs(), 0));
  MR_ASSIGN_OR_RETURN(const Shape said, RequiredAttr<Shape>(context, "shape"));
  const Shape& joined = context.outputs()[0].shape;
  if (!said.fully_known() || (joined.fully_known() && !(said == joined))) {
    return context.Error(absl::StrCat("attribute 'shape' is ", said.ToString(), ", the inputs make ", joined.ToString()));
  }
  return absl::OkStatus();
}

absl::Status ConcatOffsetShape(InferenceContext& context) {
  if (context.num_inputs() < 2) return context.Error("expected an axis and at least 1 shape");
  for (int i = 1; i < context.num_inputs(); ++i) context.AddOutput(context.dtype(i), context.shape(i));
  return absl::OkStatus();
}

absl::Status PackShape(InferenceContext& context) {
  if (context.num_inputs() < 1) return context.Error("has nothing to pack");
  Shape in = context.shape(0);
  for (int i = 1; i < context.num_inputs(); ++i) {
    const Shape& shape = context.shape(i);
    if (in.unknown_rank()) in = shape;
    if (shape.unknown_rank()) continue;
    bool compatible = shape.rank() == in.rank() && context.dtype(i) == context.dtype(0);
    for (int k = 0; compatible && k < in.rank(); ++k) {
      compatible = in.dim(k) == shape.dim(k) || in.dim(k) < 0 || shape.dim(k) < 0;
      if (in.dim(k) < 0) in.set_dim(k, shape.dim(k));
    }
    if (!compatible) {
      return context.Error(absl::StrCat("Shapes of all inputs must match: values[0].shape = ",
                                        context.input(0).ToString(), " != values[", i,
                                        "].shape = ", context.input(i).ToString()));
    }
  }
  if (in.unknown_rank()) {
    context.AddOutput(context.dtype(0), in);
    return absl::OkStatus();
  }
  MR_ASSIGN_OR_RETURN(const int axis,
                      NormalizeAxis(context, context.attrs().GetOr<int64_t>("axis", 0), in.rank() + 1));
  Shape out;
  for (int k = 0; k <= in.rank(); ++k) {
    if (k == axis) out.AddDim(context.num_inputs());
    if (k < in.rank()) out.AddDim(in.dim(k));
  }
  context.AddOutput(context.dtype(0), std::move(out));
  return absl::OkStatus();
}

// The attribute that says how many outputs there are.
absl::StatusOr<int64_t> OutputCount(const InferenceContext& context, const char* name, int64_t least) {
  MR_ASSIGN_OR_RETURN(const int64_t count, RequiredAttr<int64_t>(context, name));
  constexpr int64_t kMostOutputs = 1 << 20;  // a corrupt file must not make us allocate terabytes
  if (count < least || count > kMostOutputs) {
    return context.Error(absl::StrCat(name, " is ", count, ", expected ", least, " to ", kMostOutputs));
  }
  return count;
}

absl::Status AddEqualOutputs(InferenceContext& context, int input, int64_t count, const Shape& shape) {
  for (int64_t i = 0; i < count; ++i) context.AddOutput(context.dtype(input), shape);
  return absl::OkStatus();
}

absl::Status UnpackShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  MR_ASSIGN_OR_RETURN(const int64_t num, OutputCount(context, "num", 0));
  const Shape& in = context.shape(0);
  if (in.unknown_rank()) return AddEqualOutputs(context, 0, num, in);
  MR_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(context, context.attrs().GetOr<int64_t>("axis", 0), in.rank()));
  if (in.dim(axis) >= 0 && in.dim(axis) != num) {
    return context.Error(absl::StrCat("Input shape axis ", axis, " must equal ", num, ", got shape ", in.ToString()));
  }
  Shape out;
  for (int k = 0; k < in.rank(); ++k) {
    if (k != axis) out.AddDim(in.dim(k));
  }
  return AddEqualOutputs(context, 0, num, out);
}

absl::Status SplitShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  MR_ASSIGN_OR_RETURN(const int64_t num, OutputCount(context, "num_split", 1));
  MR_ASSIGN_OR_RETURN(const int64_t dim, KnownInt(context, 0));
  Shape shape = context.shape(1);
  if (shape.unknown_rank()) return AddEqualOutputs(context, 1, num, shape);
  MR_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(context, dim, shape.rank()));
  if (shape.dim(axis) >= 0) {
    if (shape.dim(axis) % num != 0) {
      return context.Error(absl::StrCat(
          "Number of ways to split should evenly divide the split dimension, but got split_dim ", axis,
          " (size = ", shape.dim(axis), ") and num_split ", num));
    }
    shape.set_dim(axis, shape.dim(axis) / num);
  }
  return AddEqualOutputs(context, 1, num, shape);
}

absl::Status SplitVShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  MR_ASSIGN_OR_RETURN(const int64_t num, OutputCount(context, "num_split", 1));
  MR_ASSIGN_OR_RETURN(std::vector<int64_t> sizes, KnownInts(context, 1));
  MR_ASSIGN_OR_RETURN(const int64_t dim, KnownInt(context, 2));
  if (static_cast<int64_t>(sizes.size()) != num) {
    return context.Error(absl::StrCat("size_splits has ", sizes.size(), " entries, expected num_split ", num));
  }
  Shape shape = context.shape(0);
  if (shape.unknown_rank()) return AddEqualOutputs(context, 0, num, shape);
  MR_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(context, dim, shape.rank()));
  const int64_t whole = shape.dim(axis);
  int64_t sum = 0;
  int64_t* rest = nullptr;
  for (int64_t& size : sizes) {
    if (size == -1 && rest == nullptr) {
      rest = &size;
    } else if (size < 0) {
      return context.Error(absl::StrCat("Split size ", size, " must be >= 0, and only one may be -1"));
    } else {
      sum = SizeSum(sum, size);
    }
  }
  if (whole >= 0 && (rest == nullptr ? sum != whole : sum > whole)) {
    return context.Error(absl::StrCat("Determined shape must either match input shape along split_dim exactly if "
                                      "fully specified, or be less than the size of the input along split_dim if "
                                      "not fully specified.  Got: ", sum, ", the dimension is ", whole));
  }
  if (rest != nullptr && whole >= 0) *rest = whole - sum;
  for (int64_t size : sizes) {
    shape.set_dim(axis, size);
    context.AddOutput(context.dtype(0), shape);
  }
  return absl::OkStatus();
}

// Pad, PadV2 and MirrorPad; MirrorPadGrad subtracts.
absl::Status PaddedShape(InferenceContext& context, int64_t sign) {
  if (context.num_inputs() < 2) return context.ExpectInputs(2);
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> paddings, KnownInts(context, 1));
  const Shape& in = context.shape(0);
  if (!in.unknown_rank() && static_cast<int64_t>(paddings.size()) != 2 * in.rank()) {
    return context.Error(absl::StrCat("The first dimension of paddings must be the rank of inputs ", in.ToString(),
                                      ", got ", context.shape(1).ToString()));
  }
  std::string mode;
  if (context.op().starts_with("MirrorPad")) {
    MR_ASSIGN_OR_RETURN(mode, RequiredAttr<std::string>(context, "mode"));
    if (mode != "REFLECT" && mode != "SYMMETRIC") return context.Error(absl::StrCat("mode is '", mode, "', expected REFLECT or SYMMETRIC"));
  }
  Shape out;
  for (size_t k = 0; k < paddings.size() / 2; ++k) {
    const int64_t before = paddings[2 * k], after = paddings[2 * k + 1];
    if (before < 0 || after < 0) {
      return context.Error(absl::StrCat("Paddings must be non-negative: ", before, " ", after));
    }
    const int64_t dim = in.unknown_rank() ? -1 : in.dim(static_cast<int>(k));
    const int64_t padded = dim < 0 ? -1 : sign > 0 ? SizeSum(dim, SizeSum(before, after)) : dim - SizeSum(before, after);
    const int64_t whole = sign > 0 ? dim : padded;
    const int64_t most = mode == "REFLECT" ? whole - 1 : whole;
    if (!mode.empty() && dim >= 0 && (before > most || after > most)) {
      return context.Error(absl::StrCat("paddings must be no greater than ",
                                        mode == "REFLECT" ? "the dimension size minus 1" : "the dimension size", ": ",
                                        before, ", ", after, " greater than ", most));
    }
    out.AddDim(padded);
  }
  context.AddOutput(context.dtype(0), std::move(out));
  return absl::OkStatus();
}

absl::Status PadShape(InferenceContext& context) {
  if (context.op() == "PadV2") MR_RETURN_IF_ERROR(ExpectScalar(context, 2, "constant_values"));
  return PaddedShape(context, 1);
}
absl::Status MirrorPadGradShape(InferenceContext& context) { return PaddedShape(context, -1); }

absl::Status TileShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> multiples, KnownInts(context, 1));
  const Shape& in = context.shape(0);
  if (!in.unknown_rank() && static_cast<int>(multiples.size()) != in.rank()) {
    return context.Error(absl::StrCat("Expected multiples argument to be a vector of length ", in.rank(),
                                      " but got length ", multiples.size()));
  }
  Shape out;
  for (size_t k = 0; k < multiples.size(); ++k) {
    if (multiples[k] < 0) {
      return context.Error(absl::StrCat("Expected multiples[", k, "] >= 0, but got ", multiples[k]));
    }
    const int64_t dim = in.unknown_rank() ? -1 : in.dim(static_cast<int>(k));
    out.AddDim(dim < 0 ? -1 : SizeProduct(dim, multiples[k]));
  }
  context.AddOutput(context.dtype(0), std::move(out));
  return absl::OkStatus();
}

absl::Status TransposeShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> perm, KnownInts(context, 1));
  const Shape& in = context.shape(0);
  const int rank = static_cast<int>(perm.size());
  if (!in.unknown_rank() && in.rank() != rank) {
    return context.Error(absl::StrCat("transpose expects a vector of size ", in.rank(),
                                      ". But input(1) is a vector of size ", rank));
  }
  std::vector<bool> used(rank, false);
  Shape out;
  for (int64_t axis : perm) {
    MR_ASSIGN_OR_RETURN(const int d, NormalizeAxis(context, axis, rank));
    if (used[d]) return context.Error(absl::StrCat(d, " is missing or repeated in the permutation"));
    used[d] = true;
    out.AddDim(in.unknown_rank() ? -1 : in.dim(d));
  }
  context.AddOutput(context.dtype(0), std::move(out));
  return absl::OkStatus();
}

}  // namespace

void RegisterArrayOps(OpRegistry& registry) {
  AddOp(registry, {.name = "ConcatV2", .shape = ConcatV2Shape, .cost = MoveCost});
  AddOp(registry, {.name = "Concat", .shape = ConcatShape, .cost = MoveCost});
  AddOp(registry, {.name = "ParallelConcat", .shape = ParallelConcatShape, .cost = MoveCost});
  AddOp(registry, {.name = "ConcatOffset", .shape = ConcatOffsetShape, .cost = NoCost});
  AddOp(registry, {.name = "Pack", .shape = PackShape, .cost = MoveCost});
  AddOp(registry, {.name = "Unpack", .shape = UnpackShape, .cost = MoveCost});
  AddOp(registry, {.name = "Split", .shape = SplitShape, .cost = MoveCost});
  AddOp(registry, {.name = "SplitV", .shape = SplitVShape, .cost = MoveCost});
  for (const char* name : {"Pad", "PadV2", "MirrorPad"}) {
    AddOp(registry, {.name = name, .shape = PadShape, .cost = MoveCost});
  }
  AddOp(registry, {.name = "MirrorPadGrad", .shape = MirrorPadGradShape});
  AddOp(registry, {.name = "Tile", .shape = TileShape, .cost = MoveCost});
  for (const char* name : {"Transpose", "ConjugateTranspose"}) {
    AddOp(registry, {.name = name, .shape = TransposeShape, .cost = MoveCost});
  }
}

}  // namespace millrace
