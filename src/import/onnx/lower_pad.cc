// Padding and cropping.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "onnx/lowering.h"

namespace millrace::onnx {
namespace {

struct AxisPads {
  int64_t axis = 0, before = 0, after = 0;
};

Output PaddingList(GraphBuilder& b, int rank, const std::vector<AxisPads>& pads) {
  Tensor amounts(DataType::kInt32, Shape({rank, 2}));
  for (const AxisPads& pad : pads) {
    amounts.mutable_as<int32_t>()[2 * pad.axis] = static_cast<int32_t>(std::max<int64_t>(pad.before, 0));
    amounts.mutable_as<int32_t>()[2 * pad.axis + 1] = static_cast<int32_t>(std::max<int64_t>(pad.after, 0));
  }
  return b.SharedConst(std::move(amounts));
}

// Elements along the axis by number: repeats of the edge, reflections and wraps are gathers.
Output Gathered(const Output& x, const AxisPads& pad, const std::string& mode) {
  const int64_t size = x.dim(static_cast<int>(pad.axis));
  IntList from;
  for (int64_t i = -std::max<int64_t>(pad.before, 0); i < size + std::max<int64_t>(pad.after, 0); ++i) {
    int64_t k = i;
    if (mode == "edge") {
      k = std::clamp<int64_t>(i, 0, size - 1);
    } else if (mode == "wrap") {
      k = ((i % size) + size) % size;
    } else if (size > 1) {
      const int64_t period = 2 * (size - 1), m = ((i % period) + period) % period;
      k = std::min(m, period - m);
    } else {
      k = 0;
    }
    from.push_back(k);
  }
  return ops::Gather(x, x.builder()->Ints(from), pad.axis);
}

// Negative padding crops.
Output Cropped(const Output& x, const std::vector<AxisPads>& pads) {
  IntList begin(x.rank(), 0), size = Dims(x);
  for (const AxisPads& pad : pads) {
    begin[pad.axis] = std::max<int64_t>(-pad.before, 0);
    size[pad.axis] = std::max<int64_t>(size[pad.axis] - begin[pad.axis] - std::max<int64_t>(-pad.after, 0), 0);
  }
  return Part(x, begin, size);
}

absl::StatusOr<std::vector<AxisPads>> ReadPads(NodeContext& c, const Output& x) {
  IntList list = c.Ints("pads", c.Ints("paddings", {})), axes = Iota(x.rank());
  if (c.has(1)) {
    MR_ASSIGN_OR_RETURN(list, c.ConstantInts(1));
  }
  if (c.has(3)) {
    MR_ASSIGN_OR_RETURN(axes, c.ConstantInts(3));
    MR_ASSIGN_OR_RETURN(axes, c.Axes(std::move(axes), x.rank()));
  }
  if (list.size() != 2 * axes.size()) return c.Error(absl::StrCat(list.size(), " pads for ", axes.size(), " axes"));
  std::vector<AxisPads> pads;
  for (size_t i = 0; i < axes.size(); ++i) {
    pads.push_back({axes[i], list[i], list[axes.size() + i]});
    constexpr int64_t kMost = 1 << 24;
    for (int64_t pad : {pads.back().before, pads.back().after}) {
      if (pad < -kMost || pad > kMost) return c.Error("pads are absurd");
    }
  }
  return pads;
}

absl::Status Pad(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 4));
  Output x = c.in(0);
  if (!x.valid()) return absl::OkStatus();
  MR_ASSIGN_OR_RETURN(const std::vector<AxisPads> pads, ReadPads(c, x));
  const std::string mode = c.String("mode", "constant");
  if (mode != "constant" && mode != "edge" && mode != "reflect" && mode != "wrap") {
    return c.Error(absl::StrCat("mode is '", mode, "'"));
  }
  x = Cropped(x, pads);
  if (mode != "constant") {
    for (const AxisPads& pad : pads) {
      if (pad.before <= 0 && pad.after <= 0) continue;
      if (!x.valid()) return absl::OkStatus();
      if (x.dim(static_cast<int>(pad.axis)) == 0) return c.Error("pads an empty dimension");
      x = Gathered(x, pad, mode);
    }
    c.Set(0, x);
    return absl::OkStatus();
  }
  if (!x.valid()) return absl::OkStatus();
  Output value = c.b.Scalar(x.dtype(), c.Float("value", 0));
  if (c.has(2)) {
    absl::StatusOr<Tensor> known = c.Constant(2);
    value = ops::Reshape(known.ok() ? c.b.SharedConst(*std::move(known)) : c.in(2), {});
  }
  c.Set(0, c.b.Op("PadV2", {x, PaddingList(c.b, x.rank(), pads), value},
                  {{"T", x.dtype()}, {"Tpaddings", DataType::kInt32}}));
  return absl::OkStatus();
}

absl::Status CenterCropPad(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(2, 2));
  MR_ASSIGN_OR_RETURN(const IntList shape, c.ConstantInts(1));
  Output x = c.in(0);
  if (!x.valid()) return absl::OkStatus();
  MR_ASSIGN_OR_RETURN(const IntList axes, c.Axes(c.Ints("axes", Iota(x.rank())), x.rank()));
  if (axes.size() != shape.size()) return c.Error(absl::StrCat(shape.size(), " sizes for ", axes.size(), " axes"));
  std::vector<AxisPads> pads;
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t size = x.dim(static_cast<int>(axes[i])), more = shape[i] - size;
    constexpr int64_t kMost = 1 << 24;
    if (shape[i] < 0 || shape[i] > kMost) return c.Error(absl::StrCat("a size of ", shape[i]));
    // The odd element is cut at the end, and padded at the end.
    if (more >= 0) {
      pads.push_back({axes[i], more / 2, more - more / 2});
    } else {
      pads.push_back({axes[i], -(-more / 2), -(-more - -more / 2)});
    }
  }
  x = Cropped(x, pads);
  c.Set(0, c.b.Op("Pad", {x, PaddingList(c.b, x.rank(), pads)}, {{"T", x.dtype()}, {"Tpaddings", DataType::kInt32}}));
  return absl::OkStatus();
}

}  // namespace

void AddPadLowerings(LoweringTable& table) {
  table.Add("Pad", Pad);
  table.Add("CenterCropPad", CenterCropPad);
}

}  // namespace millrace::onnx
