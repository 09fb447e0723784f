// Ops that move: transposes, parts, repeats.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "onnx/lowering.h"

namespace millrace::onnx {
namespace {

absl::Status Transpose(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  const Output x = c.in(0);
  if (!x.valid()) return absl::OkStatus();
  IntList reversed = Iota(x.rank());
  std::reverse(reversed.begin(), reversed.end());
  MR_ASSIGN_OR_RETURN(const IntList permutation, c.Axes(c.Ints("perm", reversed), x.rank()));
  if (static_cast<int>(permutation.size()) != x.rank()) {
    return c.Error(absl::StrCat("perm has ", permutation.size(), " axes, the input is ", x.type().ToString()));
  }
  c.Set(0, permutation == Iota(x.rank()) ? x : ops::Transpose(x, permutation));
  return absl::OkStatus();
}

absl::Status Concat(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, INT32_MAX));
  std::vector<Output> values;
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (!c.has(i)) return c.Error(absl::StrCat("input ", i, " is missing"));
    values.push_back(c.in(i));
  }
  if (!values[0].valid()) return absl::OkStatus();
  constexpr int64_t kRequiredAxisOpset = 4;
  if (c.opset() >= kRequiredAxisOpset && c.Attribute("axis") == nullptr) return c.Error("axis is missing");
  MR_ASSIGN_OR_RETURN(const int64_t axis, c.Axis(c.Int("axis", 1), values[0].rank()));
  c.Set(0, ops::Concat(values, axis));
  return absl::OkStatus();
}

absl::Status Split(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 2));
  IntList sizes = c.Ints("split", {});
  if (c.has(1)) {
    MR_ASSIGN_OR_RETURN(sizes, c.ConstantInts(1));
  }
  const Output x = c.in(0);
  if (!x.valid()) return absl::OkStatus();
  MR_ASSIGN_OR_RETURN(const int64_t axis, c.Axis(c.Int("axis", 0), x.rank()));
  const int64_t length = x.dim(static_cast<int>(axis));
  if (sizes.empty() && !c.has(1)) {
    // Equal parts; the last is smaller when the length does not divide.
    const int64_t count = c.num_outputs(), part = count == 0 ? 0 : (length + count - 1) / count;
    for (int64_t i = 0; i < count; ++i) sizes.push_back(std::clamp<int64_t>(length - i * part, 0, part));
  }
  int64_t sum = 0;
  for (int64_t size : sizes) {
    if (size < 0 || size > length) return c.Error(absl::StrCat("a part of ", size, " out of ", length));
    sum += size;
  }
  if (static_cast<int>(sizes.size()) != c.num_outputs() || sum != length) {
    return c.Error(absl::StrCat(sizes.size(), " parts of ", sum, " in all, expected ", c.num_outputs(), " of ", length));
  }
  if (sizes.size() == 1) {
    c.Set(0, x);
    return absl::OkStatus();
  }
  const std::vector<Output> parts = ops::SplitV(x, sizes, axis);
  for (int i = 0; i < c.num_outputs(); ++i) c.Set(i, parts[i]);
  return absl::OkStatus();
}

absl::Status Slice(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 5));
  IntList starts = c.Ints("starts", {}), ends = c.Ints("ends", {}), axes = c.Ints("axes", {}), steps;
  IntList* const lists[] = {&starts, &ends, &axes, &steps};
  for (int i = 0; i < 4; ++i) {
    if (!c.has(i + 1)) continue;
    MR_ASSIGN_OR_RETURN(*lists[i], c.ConstantInts(i + 1));
  }
  const Output x = c.in(0);
  if (!x.valid()) return absl::OkStatus();
  if (axes.empty()) axes = Iota(static_cast<int64_t>(starts.size()));
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size()) {
    return c.Error("starts, ends, axes and steps differ in length");
  }
  MR_ASSIGN_OR_RETURN(axes, c.Axes(std::move(axes), x.rank()));
  IntList begin(x.rank(), 0), count = Dims(x), step(x.rank(), 1);
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = axes[i], length = count[axis], stride = steps[i];
    if (stride == 0 || stride < -INT32_MAX || stride > INT32_MAX) return c.Error(absl::StrCat("a step of ", stride));
    const int64_t low = stride > 0 ? 0 : -1, high = stride > 0 ? length : length - 1;
    const int64_t from = std::clamp<int64_t>(starts[i] < 0 ? starts[i] + length : starts[i], stride > 0 ? 0 : -1, high);
    // Far below every element: a walk down takes the first one, too.
    const int64_t to = std::clamp<int64_t>(ends[i] < 0 ? std::max<int64_t>(ends[i], -INT64_MAX / 2) + length : ends[i], low, high);
    const int64_t span = stride > 0 ? to - from : from - to, size = stride > 0 ? stride : -stride;
    begin[axis] = std::max<int64_t>(from, 0);
    count[axis] = std::max<int64_t>(0, (span + size - 1) / size);
    step[axis] = stride;
  }
  if (std::all_of(step.begin(), step.end(), [](int64_t s) { return s == 1; })) {
    c.Set(0, Part(x, begin, count));
  } else if (std::count(count.begin(), count.end(), 0) > 0) {
    c.Set(0, Part(x, IntList(x.rank(), 0), count));
  } else {
    c.Set(0, Strided(x, begin, count, step));
  }
  return absl::OkStatus();
}

absl::Status Expand(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(2, 2));
  MR_ASSIGN_OR_RETURN(IntList shape, c.ConstantInts(1));
  const Output x = c.in(0);
  if (!x.valid()) return absl::OkStatus();
  // Broadcasting goes both ways: a 1 in the wanted shape keeps the input's dimension.
  const int rank = std::max<int>(x.rank(), static_cast<int>(shape.size()));
  shape.insert(shape.begin(), rank - shape.size(), 1);
  for (int i = 0; i < x.rank(); ++i) {
    int64_t& wanted = shape[rank - x.rank() + i];
    if (wanted == 1) wanted = x.dim(i);
    if (x.dim(i) != 1 && x.dim(i) != wanted) {
      return c.Error(absl::StrCat("input ", x.type().ToString(), " does not broadcast: dimension ", i, " to ", wanted));
    }
  }
  c.Set(0, shape == Dims(x) ? x : ops::BroadcastTo(x, shape));
  return absl::OkStatus();
}

absl::Status Tile(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(2, 2));
  MR_ASSIGN_OR_RETURN(const IntList repeats, c.ConstantInts(1));
  c.Set(0, ops::Tile(c.in(0), repeats));
  return absl::OkStatus();
}

// [N, C, H, W] -> blocks of channels become pixels; TensorFlow's op works on NHWC and on DCR order, so it is written out.
absl::Status DepthToSpace(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  const Output x = c.in(0);
  if (!x.valid()) return absl::OkStatus();
  const int64_t block = c.Int("blocksize", 0);
  const std::string mode = c.String("mode", "DCR");
  if (x.rank() != 4 || block < 1 || block > (1 << 16) || x.dim(1) % (block * block) != 0) {
    return c.Error(absl::StrCat("blocks of ", block, " do not divide ", x.type().ToString()));
  }
  if (mode != "DCR" && mode != "CRD") return c.Error(absl::StrCat("mode is '", mode, "'"));
  const int64_t n = x.dim(0), depth = x.dim(1) / (block * block), h = x.dim(2), w = x.dim(3);
  const Output split = mode == "DCR" ? ops::Reshape(x, {n, block, block, depth, h, w})
                                     : ops::Reshape(x, {n, depth, block, block, h, w});
  const Output moved = ops::Transpose(split, mode == "DCR" ? IntList{0, 3, 4, 1, 5, 2} : IntList{0, 1, 4, 2, 5, 3});
  c.Set(0, ops::Reshape(moved, {n, depth, h * block, w * block}));
  return absl::OkStatus();
}

absl::Status SpaceToDepth(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  const Output x = c.in(0);
  if (!x.valid()) return absl::OkStatus();
  const int64_t block = c.Int("blocksize", 0);
  if (x.rank() != 4 || block < 1 || block > (1 << 16) || x.dim(2) % block != 0 || x.dim(3) % block != 0) {
    return c.Error(absl::StrCat("blocks of ", block, " do not divide ", x.type().ToString()));
  }
  const int64_t n = x.dim(0), channels = x.dim(1), h = x.dim(2) / block, w = x.dim(3) / block;
  const std::string mode = c.String("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") return c.Error(absl::StrCat("mode is '", mode, "'"));
  const Output split = ops::Reshape(x, {n, channels, h, block, w, block});
  const Output moved = ops::Transpose(split, mode == "DCR" ? IntList{0, 3, 5, 1, 2, 4} : IntList{0, 1, 3, 5, 2, 4});
  c.Set(0, ops::Reshape(moved, {n, channels * block * block, h, w}));
  return absl::OkStatus();
}

absl::Status Trilu(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 2));
  const Output x = c.in(0);
  int64_t k = 0;
  if (c.has(1)) {
    MR_ASSIGN_OR_RETURN(const IntList list, c.ConstantInts(1));
    if (list.size() != 1) return c.Error("k is not one number");
    k = list[0];
  }
  if (!x.valid()) return absl::OkStatus();
  if (x.rank() < 2) return c.Error(absl::StrCat("input is ", x.type().ToString(), ", expected matrices"));
  const int64_t rows = x.dim(-2), columns = x.dim(-1);
  k = std::clamp<int64_t>(k, -rows - columns, rows + columns);
  const Output row = ops::Range(c.b.Int(0), c.b.Int(rows), c.b.Int(1));
  const Output column = ops::Range(c.b.Int(0), c.b.Int(columns), c.b.Int(1));
  const Output offset = column - ops::Reshape(row, {rows, 1});
  const bool upper = c.Int("upper", 1) != 0;
  const Output keep = ops::Binary(upper ? "GreaterEqual" : "LessEqual", offset, c.b.Int(k));
  c.Set(0, ops::Select(keep, x, ops::ZerosLike(x)));
  return absl::OkStatus();
}

absl::Status ReverseSequence(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(2, 2));
  const Output x = c.in(0), lengths = c.in(1);
  c.Set(0, c.b.Op("ReverseSequence", {x, lengths},
                  {{"T", x.dtype()},
                   {"Tlen", lengths.dtype()},
                   {"seq_dim", c.Int("time_axis", 0)},
                   {"batch_dim", c.Int("batch_axis", 1)}}));
  return absl::OkStatus();
}

// Only conditions that are known while the model is read: the result's shape follows from them.
absl::Status Compress(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(2, 2));
  MR_ASSIGN_OR_RETURN(const IntList keep, c.ConstantInts(1));
  Output x = c.in(0);
  if (!x.valid()) return absl::OkStatus();
  int64_t axis = 0;
  if (c.Attribute("axis") != nullptr) {
    MR_ASSIGN_OR_RETURN(axis, c.Axis(c.Int("axis", 0), x.rank()));
  } else {
    x = ops::Reshape(x, {-1});
  }
  IntList chosen;
  for (size_t i = 0; i < keep.size(); ++i) {
    if (keep[i] != 0) chosen.push_back(static_cast<int64_t>(i));
  }
  c.Set(0, ops::Gather(x, c.b.Ints(chosen), axis));
  return absl::OkStatus();
}

}  // namespace

void AddArrayLowerings(LoweringTable& table) {
  for (const auto& [op, lowering] : std::initializer_list<std::pair<const char*, Lowering>>{
           {"Transpose", Transpose},
           {"Concat", Concat},
           {"Split", Split},
           {"Slice", Slice},
           {"Expand", Expand},
           {"Tile", Tile},
           {"DepthToSpace", DepthToSpace},
           {"SpaceToDepth", SpaceToDepth},
           {"Trilu", Trilu},
           {"ReverseSequence", ReverseSequence},
           {"Compress", Compress}}) {
    table.Add(op, lowering);
  }
}

}  // namespace millrace::onnx
