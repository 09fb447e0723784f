#include "onnx/lowering.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "builder/tensors.h"
#include "glog/logging.h"
#include "graph/float16.h"

namespace millrace::onnx {

const LoweringTable& LoweringTable::Builtin() {
  static const LoweringTable& table = *[] {
    auto* built = new LoweringTable();
    AddMathLowerings(*built);
    AddActivationLowerings(*built);
    AddReductionLowerings(*built);
    AddShapeLowerings(*built);
    AddArrayLowerings(*built);
    AddGatherLowerings(*built);
    AddPadLowerings(*built);
    AddConvLowerings(*built);
    AddPoolLowerings(*built);
    AddNormLowerings(*built);
    AddAttentionLowerings(*built);
    AddResizeLowerings(*built);
    AddRecurrentLowerings(*built);
    AddLossLowerings(*built);
    AddQuantizeLowerings(*built);
    AddRandomLowerings(*built);
    AddControlLowerings(*built);
    AddSequenceLowerings(*built);
    AddSamplingLowerings(*built);
    AddDetectionLowerings(*built);
    AddSignalLowerings(*built);
    AddMlLowerings(*built);
    AddStringLowerings(*built);
    AddSvmLowerings(*built);
    AddTreeLowerings(*built);
    AddOtherLowerings(*built);
    return built;
  }();
  return table;
}

void LoweringTable::Add(std::string_view op, Lowering lowering) {
  CHECK(lowerings_.emplace(std::string(op), lowering).second) << op << " has two lowerings";
}

Lowering LoweringTable::Find(const std::string& op) const {
  auto it = lowerings_.find(op);
  return it == lowerings_.end() ? nullptr : it->second;
}

std::string QualifiedOp(const onnx_proto::NodeProto& node) {
  if (node.domain().empty() || node.domain() == "ai.onnx") return node.op_type();
  return absl::StrCat(node.domain(), ".", node.op_type());
}

int64_t Product(const IntList& list) {
  int64_t product = 1;
  for (int64_t value : list) {
    if (__builtin_mul_overflow(product, value, &product)) return std::numeric_limits<int64_t>::max();
  }
  return product;
}

IntList Iota(int64_t count) {
  IntList list(std::max<int64_t>(count, 0));
  std::iota(list.begin(), list.end(), 0);
  return list;
}

DataType TypeFromOnnx(int32_t type) {
  using onnx_proto::TensorProto;
  switch (type) {
    case TensorProto::FLOAT: return DataType::kFloat;
    case TensorProto::UINT8: return DataType::kUint8;
    case TensorProto::INT8: return DataType::kInt8;
    case TensorProto::UINT16: return DataType::kUint16;
    case TensorProto::INT16: return DataType::kInt16;
    case TensorProto::INT32: return DataType::kInt32;
    case TensorProto::INT64: return DataType::kInt64;
    case TensorProto::STRING: return DataType::kString;
    case TensorProto::BOOL: return DataType::kBool;
    case TensorProto::FLOAT16: return DataType::kHalf;
    case TensorProto::DOUBLE: return DataType::kDouble;
    case TensorProto::UINT32: return DataType::kUint32;
    case TensorProto::UINT64: return DataType::kUint64;
    case TensorProto::BFLOAT16: return DataType::kBfloat16;
    default: return DataType::kInvalid;
  }
}

Output Vector(GraphBuilder& b, DataType dtype, const std::vector<double>& values, Shape shape) {
  absl::StatusOr<Tensor> tensor = FilledTensor(dtype, std::move(shape), 0);
  if (!tensor.ok()) {
    b.Fail(tensor.status());
    return Output(&b, OutputRef{}, TensorType{});
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const double value = values[i];
    void* data = tensor->mutable_data();
    switch (dtype) {
      case DataType::kFloat: static_cast<float*>(data)[i] = static_cast<float>(value); break;
      case DataType::kDouble: static_cast<double*>(data)[i] = value; break;
      case DataType::kHalf: static_cast<uint16_t*>(data)[i] = FloatToHalf(static_cast<float>(value)); break;
      case DataType::kBfloat16: static_cast<uint16_t*>(data)[i] = FloatToBfloat16(static_cast<float>(value)); break;
      case DataType::kInt32: static_cast<int32_t*>(data)[i] = static_cast<int32_t>(value); break;
      case DataType::kInt64: static_cast<int64_t*>(data)[i] = static_cast<int64_t>(value); break;
      case DataType::kBool: static_cast<bool*>(data)[i] = value != 0; break;
      default:
        b.Fail(absl::UnimplementedError(absl::StrCat("a constant of type ", std::string(DataTypeName(dtype)))));
        return Output(&b, OutputRef{}, TensorType{});
    }
  }
  return b.SharedConst(*std::move(tensor));
}

Output AsWide(const Output& x) {
  switch (x.dtype()) {
    case DataType::kHalf:
    case DataType::kBfloat16: return ops::Cast(x, DataType::kFloat);
    case DataType::kBool:
    case DataType::kUint8:
    case DataType::kInt8:
    case DataType::kUint16:
    case DataType::kInt16: return ops::Cast(x, DataType::kInt32);
    case DataType::kUint32:
    case DataType::kUint64: return ops::Cast(x, DataType::kInt64);
    default: return x;
  }
}

bool IsUnsigned(DataType dtype) {
  return dtype == DataType::kUint8 || dtype == DataType::kUint16 || dtype == DataType::kUint32 || dtype == DataType::kUint64;
}

Output Magnitude(const Output& x) { return IsUnsigned(x.dtype()) ? x : ops::Abs(x); }

namespace {
template <typename T>
double Limit(bool lowest) {
  return static_cast<double>(lowest ? std::numeric_limits<T>::lowest() : std::numeric_limits<T>::max());
}

double ExtremeOf(DataType dtype, bool lowest) {
  switch (dtype) {
    case DataType::kInt8: return Limit<int8_t>(lowest);
    case DataType::kUint8: return Limit<uint8_t>(lowest);
    case DataType::kInt16: return Limit<int16_t>(lowest);
    case DataType::kUint16: return Limit<uint16_t>(lowest);
    case DataType::kInt32: return Limit<int32_t>(lowest);
    case DataType::kUint32: return Limit<uint32_t>(lowest);
    // The largest doubles that convert back without overflow.
    case DataType::kInt64: return lowest ? Limit<int64_t>(true) : 9223372036854774784.0;
    case DataType::kUint64: return lowest ? 0 : 18446744073709549568.0;
    case DataType::kBool: return lowest ? 0 : 1;
    default: return lowest ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  }
}
}  // namespace

double Lowest(DataType dtype) { return ExtremeOf(dtype, true); }
double Highest(DataType dtype) { return ExtremeOf(dtype, false); }

bool SpatialPads::any() const {
  const auto nonzero = [](int64_t pad) { return pad != 0; };
  return std::any_of(before.begin(), before.end(), nonzero) || std::any_of(after.begin(), after.end(), nonzero);
}

absl::StatusOr<SpatialWindow> ReadWindow(const NodeContext& c, IntList sizes) {
  SpatialWindow window;
  window.strides = c.Ints("strides", IntList(sizes.size(), 1));
  window.dilations = c.Ints("dilations", IntList(sizes.size(), 1));
  constexpr int64_t kMost = 1 << 24;
  for (const auto& [name, list] : {std::pair("the window", &sizes), std::pair("strides", &window.strides),
                                   std::pair("dilations", &window.dilations)}) {
    if (list->size() != sizes.size()) {
      return c.Error(absl::StrCat(name, ": ", list->size(), " numbers, expected ", sizes.size()));
    }
    for (int64_t value : *list) {
      if (value < 1 || value > kMost) return c.Error(absl::StrCat(name, ": ", value, ", expected at least 1"));
    }
  }
  window.sizes = std::move(sizes);
  return window;
}

absl::StatusOr<SpatialPads> ReadPads(const NodeContext& c, const IntList& input, const SpatialWindow& window) {
  const size_t spatial = window.sizes.size();
  SpatialPads pads{IntList(spatial, 0), IntList(spatial, 0)};
  const std::string mode = c.String("auto_pad", "NOTSET");
  if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
    for (size_t i = 0; i < spatial; ++i) {
      const int64_t outputs = (input[i] + window.strides[i] - 1) / window.strides[i];
      const int64_t reach = (outputs - 1) * window.strides[i] + (window.sizes[i] - 1) * window.dilations[i] + 1;
      const int64_t total = std::max<int64_t>(reach - input[i], 0);
      pads.before[i] = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
      pads.after[i] = total - pads.before[i];
    }
    return pads;
  }
  if (mode == "VALID") return pads;
  if (mode != "NOTSET" && !mode.empty()) return c.Error(absl::StrCat("auto_pad is '", mode, "'"));
  const IntList list = c.Ints("pads", IntList(2 * spatial, 0));
  if (list.size() != 2 * spatial) {
    return c.Error(absl::StrCat("pads has ", list.size(), " numbers, expected ", 2 * spatial));
  }
  for (size_t i = 0; i < spatial; ++i) {
    pads.before[i] = list[i];
    pads.after[i] = list[spatial + i];
    constexpr int64_t kMost = 1 << 24;
    if (list[i] < 0 || list[spatial + i] < 0 || list[i] > kMost || list[spatial + i] > kMost) {
      return c.Error("pads are negative or absurd, expected at least 0");
    }
  }
  return pads;
}

Output PadSpatial(const Output& x, const SpatialPads& pads, double value) {
  if (!pads.any()) return x;
  Tensor amounts(DataType::kInt32, Shape({x.rank(), 2}));
  for (size_t i = 0; i < pads.before.size(); ++i) {
    amounts.mutable_as<int32_t>()[2 * (i + 2)] = static_cast<int32_t>(pads.before[i]);
    amounts.mutable_as<int32_t>()[2 * (i + 2) + 1] = static_cast<int32_t>(pads.after[i]);
  }
  GraphBuilder& b = *x.builder();
  const Output list = b.SharedConst(std::move(amounts));
  if (value == 0) return b.Op("Pad", {x, list}, {{"T", x.dtype()}, {"Tpaddings", DataType::kInt32}});
  return b.Op("PadV2", {x, list, b.Scalar(x.dtype(), value)}, {{"T", x.dtype()}, {"Tpaddings", DataType::kInt32}});
}

Output Part(const Output& x, IntList begin, IntList size) {
  const bool whole = size == Dims(x);
  return whole ? x : ops::Slice(x, std::move(begin), std::move(size));
}

Output Strided(const Output& x, const IntList& begin, const IntList& count, const IntList& step) {
  if (!x.valid()) return x;
  bool whole = true;
  IntList end(begin.size());
  int64_t begin_mask = 0, end_mask = 0;
  for (size_t i = 0; i < begin.size(); ++i) {
    whole = whole && begin[i] == 0 && step[i] == 1 && count[i] == x.dim(static_cast<int>(i));
    end[i] = begin[i] + (count[i] - 1) * step[i] + (step[i] > 0 ? 1 : -1);
    if (count[i] == 0) end[i] = begin[i];
    // A walk down to element 0 ends at -1, which would count from the end.
    if (end[i] < 0) end_mask |= int64_t{1} << i;
  }
  if (whole) return x;
  GraphBuilder& b = *x.builder();
  return b.Op("StridedSlice", {x, b.Ints(begin), b.Ints(end), b.Ints(step)},
              {{"T", x.dtype()},
               {"Index", DataType::kInt32},
               {"begin_mask", begin_mask},
               {"end_mask", end_mask},
               {"ellipsis_mask", int64_t{0}},
               {"new_axis_mask", int64_t{0}},
               {"shrink_axis_mask", int64_t{0}}});
}

}  // namespace millrace::onnx
