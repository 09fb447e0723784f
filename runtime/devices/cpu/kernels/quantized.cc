// Quantized layers: products of numbers of 8 bits, which have 32, their way back to 8, and what lies between two products.
#include "cpu/kernels/quantized.h"

#include "absl/strings/str_cat.h"
#include "cpu/kernels/common.h"
#include "cpu/kernels/pool.h"
#include "cpu/kernels/pool_windows.h"
#include "cpu/kernels/rarest.h"
#include "millrace/quantized_types.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

// OK when these inputs are of these types: TensorFlow has kernels of few.
absl::Status ExpectTypes(const OpInstance& node, std::initializer_list<DataType> inputs, DataType output) {
  size_t i = 0;
  for (const DataType type : inputs) {
    if (node.inputs[i].dtype != type) return UnsupportedType(node, node.inputs[i].dtype);
    ++i;
  }
  return node.outputs[0].dtype == output ? absl::OkStatus() : UnsupportedType(node, node.outputs[0].dtype);
}

// The number that stands for 0. It may be far away, and sums of products may go round at the ends of 32 bits: they do so without a sign.
uint32_t ZeroOf(QuantizedRange range) { return static_cast<uint32_t>(Quantized<uint8_t>::Unclamped(0, range)); }

// sums[n] += value * (row[n] - row_zero)
void AddProducts(uint32_t value, const uint8_t* row, uint32_t row_zero, int64_t n, uint32_t* sums) {
  for (int64_t i = 0; i < n; ++i) sums[i] += value * (row[i] - row_zero);
}

// How far the first window lies before the input. TensorFlow puts windows in the middle also where they do not reach the edges.
int64_t Before(int64_t windows, int64_t stride, int64_t taps, int64_t size, bool same) {
  return ((windows - 1) * stride + taps - size + (same ? 0 : 1)) / 2;
}

// (input, filter, their ranges) -> products and their range
KernelOr MakeConv(const OpInstance& node) {
  MR_RETURN_IF_ERROR(ExpectTypes(node, {kQuint8, kQuint8}, kQint32));
  const Shape in = node.inputs[0].shape, filter = node.inputs[1].shape, out = node.outputs[0].shape;
  const int64_t stride = node.attrs.GetOr<std::vector<int64_t>>("strides", {1, 1, 1, 1})[1];
  const bool same = node.attrs.GetOr<std::string>("padding", "SAME") == "SAME";
  const int64_t top = Before(out.dim(1), stride, filter.dim(0), in.dim(1), same), left = Before(out.dim(2), stride, filter.dim(1), in.dim(2), same);
  return MakeKernel([=](const KernelContext& context) {
    const QuantizedRange range = InputRange(context, 2), of_filter = InputRange(context, 4);
    const uint32_t zero = ZeroOf(range), filter_zero = ZeroOf(of_filter);
    const int64_t depth = in.dim(3), count = filter.dim(3), pixels = out.dim(0) * out.dim(1) * out.dim(2);
    const int64_t work = std::max<int64_t>(filter.num_elements(), 1);
    ParallelRange(context, pixels, std::max<int64_t>(kElementGrain / work, 1), [&](int64_t begin, int64_t end) {
      for (int64_t pixel = begin; pixel < end; ++pixel) {
        auto* sums = reinterpret_cast<uint32_t*>(context.output<int32_t>(0)) + pixel * count;
        std::fill_n(sums, count, 0u);
        const int64_t x = pixel % out.dim(2) * stride - left, y = pixel / out.dim(2) % out.dim(1) * stride - top, image = pixel / (out.dim(1) * out.dim(2));
        for (int64_t fy = 0; fy < filter.dim(0); ++fy) {
          for (int64_t fx = 0; fx < filter.dim(1); ++fx) {
            if (y + fy < 0 || y + fy >= in.dim(1) || x + fx < 0 || x + fx >= in.dim(2)) continue;
            const uint8_t* values = context.input<uint8_t>(0) + ((image * in.dim(1) + y + fy) * in.dim(2) + x + fx) * depth;
            const uint8_t* rows = context.input<uint8_t>(1) + (fy * filter.dim(1) + fx) * depth * count;
            for (int64_t c = 0; c < depth; ++c) AddProducts(values[c] - zero, rows + c * count, filter_zero, count, sums);
          }
        }
      }
    });
    SetOutputRange(context, RangeOfProducts(range, of_filter));
    return absl::OkStatus();
  });
}

// (a, b, their ranges)
KernelOr MakeMatMul(const OpInstance& node) {
  MR_RETURN_IF_ERROR(ExpectTypes(node, {kQuint8, kQuint8}, kQint32));
  const bool turn_a = node.attrs.GetOr("transpose_a", false), turn_b = node.attrs.GetOr("transpose_b", false);
  const int64_t rows = node.outputs[0].shape.dim(0), columns = node.outputs[0].shape.dim(1), depth = node.inputs[0].shape.dim(turn_a ? 0 : 1);
  return MakeKernel([=](const KernelContext& context) -> absl::Status {
    const QuantizedRange of_a = InputRange(context, 2), of_b = InputRange(context, 4);
    if (!(of_a.high > of_a.low)) return absl::InvalidArgumentError("max_a must be larger than min_a.");
    if (!(of_b.high > of_b.low)) return absl::InvalidArgumentError("max_b must be larger than min_b.");
    const uint32_t zero_a = ZeroOf(of_a), zero_b = ZeroOf(of_b);
    ParallelRange(context, rows, std::max<int64_t>(kElementGrain / std::max<int64_t>(depth * columns, 1), 1), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        auto* sums = reinterpret_cast<uint32_t*>(context.output<int32_t>(0)) + row * columns;
        std::fill_n(sums, columns, 0u);
        for (int64_t k = 0; k < depth; ++k) {
          const uint32_t value = context.input<uint8_t>(0)[turn_a ? k * rows + row : row * depth + k] - zero_a;
          if (!turn_b) {
            AddProducts(value, context.input<uint8_t>(1) + k * columns, zero_b, columns, sums);
            continue;
          }
          for (int64_t j = 0; j < columns; ++j) AddProducts(value, context.input<uint8_t>(1) + j * depth + k, zero_b, 1, sums + j);
        }
      }
    });
    SetOutputRange(context, RangeOfProducts(of_a, of_b));
    return absl::OkStatus();
  });
}

// (input, bias, their ranges): both in a range of 17 bits more.
template <typename T>
KernelOr MakeBiasAdd(const OpInstance& node) {
  const int64_t count = node.inputs[0].shape.num_elements(), biases = node.inputs[1].shape.num_elements();
  return MakeKernel([=](const KernelContext& context) {
    const QuantizedRange range = InputRange(context, 2), of_bias = InputRange(context, 4);
    const float most = std::max(range.high, std::max(-range.low, std::max(of_bias.high, -of_bias.low))) * static_cast<float>(1 << 17);
    const QuantizedRange total{-most, most};
    const auto zero = static_cast<uint32_t>(Quantized<int32_t>::Of(0, total));
    const FromQuantized<T> from(range), from_bias(of_bias);
    const ToQuantized<int32_t> to(total);
    ParallelRange(context, count, kElementGrain / 4, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const auto value = static_cast<uint32_t>(to(from(context.input<T>(0)[i])));
        const auto bias = static_cast<uint32_t>(to(from_bias(context.input<T>(1)[i % biases])));
        context.output<int32_t>(0)[i] = Wrapped(value + (bias + zero));
      }
    });
    SetOutputRange(context, total);
    return absl::OkStatus();
  });
}

KernelOr MakeAnyBiasAdd(const OpInstance& node) {
  if (node.inputs[0].dtype == kQint8) {
    MR_RETURN_IF_ERROR(ExpectTypes(node, {kQint8, kQint8}, kQint32));
    return MakeBiasAdd<int8_t>(node);
  }
  MR_RETURN_IF_ERROR(ExpectTypes(node, {kQuint8, kQuint8}, kQint32));
  return MakeBiasAdd<uint8_t>(node);
}

// Numbers of 8 bits in a range of 32, by the step that one of them is there.
class InSteps {
 public:
  InSteps(QuantizedRange from, QuantizedRange to) : zero_(At(0, from, to)), step_(static_cast<int32_t>(At(1, from, to) - zero_)) {}
  uint32_t operator()(uint8_t held) const {
    return static_cast<uint32_t>(std::clamp(zero_ + int64_t{held} * step_, Quantized<int32_t>::kLowest, Quantized<int32_t>::kHighest));
  }

 private:
  static int64_t At(uint8_t held, QuantizedRange from, QuantizedRange to) {
    return Quantized<int32_t>::Unclamped(Quantized<uint8_t>::ToFloat(held, from), to);
  }
  int64_t zero_;
  int32_t step_;
};

// result[i] = of_x(x) + of_y(y), of which the one with fewer elements is repeated.
template <typename OfX, typename OfY>
void AddAll(const KernelContext& context, OfX&& of_x, OfY&& of_y) {
  const int64_t xs = context.input_type(0).shape.num_elements(), ys = context.input_type(1).shape.num_elements();
  ParallelRange(context, context.output_type(0).shape.num_elements(), kElementGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      context.output<int32_t>(0)[i] = Wrapped(of_x(context.input<uint8_t>(0)[i % xs]) + of_y(context.input<uint8_t>(1)[i % ys]));
    }
  });
}

absl::Status CheckRanges(QuantizedRange x, QuantizedRange y) {
  if (!(x.high > x.low)) return absl::InvalidArgumentError("max_x must be larger than min_x.");
  return y.high > y.low ? absl::OkStatus() : absl::InvalidArgumentError("max_y must be larger than min_y.");
}

// (x, y, their ranges): in a range of 14 bits more. A single number goes there on its own way.
KernelOr MakeAdd(const OpInstance& node) {
  MR_RETURN_IF_ERROR(ExpectTypes(node, {kQuint8, kQuint8}, kQint32));
  return MakeKernel([](const KernelContext& context) -> absl::Status {
    const QuantizedRange of_x = InputRange(context, 2), of_y = InputRange(context, 4);
    MR_RETURN_IF_ERROR(CheckRanges(of_x, of_y));
    const float most = std::max(std::fabs(std::min(of_x.low, of_y.low)), std::fabs(std::max(of_x.high, of_y.high))) * static_cast<float>(1 << 14);
    const QuantizedRange total{-most, most};
    const InSteps x_steps(of_x, total), y_steps(of_y, total);
    const auto alone = [&](int input, QuantizedRange range) {
      const float value = Quantized<uint8_t>::ToFloat(context.input<uint8_t>(input)[0], range);
      return [held = static_cast<uint32_t>(Quantized<int32_t>::Of(value, total))](uint8_t) { return held; };
    };
    if (context.input_type(0).shape.num_elements() == 1) {
      AddAll(context, alone(0, of_x), y_steps);
    } else if (context.input_type(1).shape.num_elements() == 1) {
      AddAll(context, x_steps, alone(1, of_y));
    } else {
      AddAll(context, x_steps, y_steps);
    }
    SetOutputRange(context, total);
    return absl::OkStatus();
  });
}

KernelOr MakeMul(const OpInstance& node) {
  MR_RETURN_IF_ERROR(ExpectTypes(node, {kQuint8, kQuint8}, kQint32));
  const int64_t xs = node.inputs[0].shape.num_elements(), ys = node.inputs[1].shape.num_elements(), count = node.outputs[0].shape.num_elements();
  return MakeKernel([=](const KernelContext& context) -> absl::Status {
    const QuantizedRange of_x = InputRange(context, 2), of_y = InputRange(context, 4);
    MR_RETURN_IF_ERROR(CheckRanges(of_x, of_y));
    const uint32_t zero_x = ZeroOf(of_x), zero_y = ZeroOf(of_y);
    ParallelRange(context, count, kElementGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        context.output<int32_t>(0)[i] = Wrapped((context.input<uint8_t>(0)[i % xs] - zero_x) * (context.input<uint8_t>(1)[i % ys] - zero_y));
      }
    });
    SetOutputRange(context, RangeOfProducts(of_x, of_y));
    return absl::OkStatus();
  });
}

// The range from the smallest number that there is, or 0, to the largest one.
QuantizedRange UsedRange(const KernelContext& context, int64_t count) {
  const int32_t* held = context.input<int32_t>(0);
  const QuantizedRange range = InputRange(context, 1);
  int32_t least = std::numeric_limits<int32_t>::max(), most = std::numeric_limits<int32_t>::lowest();
  for (int64_t i = 0; i < count; ++i) least = std::min(least, held[i]), most = std::max(most, held[i]);
  return {std::min(0.0f, Quantized<int32_t>::ToFloat(least, range)), Quantized<int32_t>::ToFloat(most, range)};
}

KernelOr MakeUsedRange(const OpInstance& node) {
  if (node.inputs[0].dtype != kQint32) return UnsupportedType(node, node.inputs[0].dtype);
  return MakeKernel([count = node.inputs[0].shape.num_elements()](const KernelContext& context) {
    SetOutputRange(context, UsedRange(context, count), 0);
    return absl::OkStatus();
  });
}

int64_t Fixed(double value) { return std::fabs(value) < 0x1p60 ? static_cast<int64_t>(value) : 0; }

// 32 bits to 8 in whole numbers, with 16 bits behind the point.
void Narrow(const KernelContext& context, int64_t count, QuantizedRange from, QuantizedRange to) {
  constexpr int kShift = 16;
  const float range = from.high - from.low, new_range = to.high - to.low;
  const float steps = new_range == 0 ? 0.0f : static_cast<float>(255.0 / new_range), middle = static_cast<float>((from.low + from.high) / 2.0);
  const int64_t scale = new_range == 0 ? 0 : Fixed(255.0 * (1 << kShift) * range / new_range);
  const int64_t offset = Fixed(middle * steps * static_cast<float>(1 << kShift));
  const int64_t new_offset = new_range == 0 ? 0 : Fixed((1 << kShift) * (to.low * 255.0) / new_range);
  const int64_t shift = offset - new_offset + (1 << (kShift - 1));
  ParallelRange(context, count, kElementGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto product = static_cast<int64_t>(static_cast<uint64_t>(int64_t{context.input<int32_t>(0)[i]}) * static_cast<uint64_t>(scale));
      context.output<uint8_t>(0)[i] = static_cast<uint8_t>(std::clamp<int64_t>(((product >> 32) + shift) >> kShift, 0, 255));
    }
  });
  SetOutputRange(context, to);
}

// (input, its range[, the new range]): the new one is the one that is used, where none is given.
KernelOr MakeNarrow(const OpInstance& node) {
  MR_RETURN_IF_ERROR(ExpectTypes(node, {kQint32}, kQuint8));
  const bool given = node.inputs.size() > 3;
  return MakeKernel([=, count = node.inputs[0].shape.num_elements()](const KernelContext& context) -> absl::Status {
    const QuantizedRange to = given ? InputRange(context, 3) : UsedRange(context, count);
    if (given && !(to.low <= 0)) return absl::InvalidArgumentError(absl::StrCat("requested_output_min must be <= 0, but got ", to.low));
    if (given && !(to.high >= to.low)) {
      return absl::InvalidArgumentError(absl::StrCat("requested_output_max must be >= requested_output_min, but got ", to.high, " and ", to.low));
    }
    Narrow(context, count, InputRange(context, 1), to);
    return absl::OkStatus();
  });
}

// (features, range): between 0 and 6, or what there is.
template <typename T>
KernelOr MakeRelu(const OpInstance& node) {
  const bool six = node.op == "QuantizedRelu6";
  return MakeKernel([=, count = node.inputs[0].shape.num_elements()](const KernelContext& context) {
    const QuantizedRange range = InputRange(context, 1);
    const T least = Quantized<T>::Of(0, range);
    const T most = six ? Quantized<T>::Of(6, range) : std::numeric_limits<T>::max();
    ParallelRange(context, count, kElementGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) context.output<T>(0)[i] = std::min(std::max(context.input<T>(0)[i], least), most);
    });
    SetOutputRange(context, range);
    return absl::OkStatus();
  });
}

KernelOr MakeAnyRelu(const OpInstance& node) {
  if (node.inputs[0].dtype == kQint32) {
    MR_RETURN_IF_ERROR(ExpectTypes(node, {kQint32}, kQint32));
    return MakeRelu<int32_t>(node);
  }
  MR_RETURN_IF_ERROR(ExpectTypes(node, {kQuint8}, kQuint8));
  return MakeRelu<uint8_t>(node);
}

// (input, range): the largest number of a window, or the mean of those that are within the image, towards 0.
KernelOr MakePool(const OpInstance& node) {
  MR_RETURN_IF_ERROR(ExpectTypes(node, {kQuint8}, kQuint8));
  MR_ASSIGN_OR_RETURN(const PoolGeometry geometry, PoolGeometryOf(node, node.inputs[0].shape));
  return MakeKernel([geometry, mean = node.op == "QuantizedAvgPool"](const KernelContext& context) {
    ParallelOutputRows(context, geometry, [&](int64_t row, int64_t image, TapRange t0, TapRange t1) {
      const uint8_t* from = context.input<uint8_t>(0) + image * geometry.input_rows() * geometry.input_row_elements();
      uint8_t* to = context.output<uint8_t>(0) + row * geometry.output_row_elements();
      for (int64_t j = 0; j < geometry.dims[2].output; ++j) {
        for (int64_t c = 0; c < geometry.channels; ++c) {
          int32_t sum = 0, most = 0, taps = 0;
          ForEachTap(geometry, t0, t1, Taps(geometry.dims[2], j), [&](int64_t, int64_t tap) {
            sum += from[tap + c], ++taps;
            most = std::max<int32_t>(most, from[tap + c]);
          });
          *to++ = static_cast<uint8_t>(!mean ? most : taps == 0 ? 0 : sum / taps);
        }
      }
    });
    SetOutputRange(context, InputRange(context, 1));
    return absl::OkStatus();
  });
}

// (tensor, shape, range)
KernelOr MakeReshape(const OpInstance& node) {
  return MakeKernel([bytes = node.outputs[0].size_bytes()](const KernelContext& context) {
    if (context.inputs[0] != context.outputs[0]) std::copy_n(context.input<char>(0), bytes, context.output<char>(0));
    SetOutputRange(context, InputRange(context, 2));
    return absl::OkStatus();
  });
}

// (concat_dim, values …, input_mins …, input_maxes …): in the range that holds all, to both sides of 0 alike where numbers have a sign.
template <typename T>
KernelOr MakeConcat(const OpInstance& node) {
  const int count = static_cast<int>(node.inputs.size() - 1) / 3;
  if (node.input_values.empty() || node.input_values[0].empty()) return absl::InvalidArgumentError("concat_dim is not known");
  int64_t rows = 1;
  for (int d = 0; d < node.input_values[0].IntAt(0); ++d) rows *= node.outputs[0].shape.dim(d);
  const int64_t row = rows == 0 ? 0 : node.outputs[0].shape.num_elements() / rows;
  return MakeKernel([=](const KernelContext& context) {
    QuantizedRange all{std::numeric_limits<float>::max(), std::numeric_limits<float>::lowest()};
    const auto range_of = [&](int i) { return QuantizedRange{*context.input<float>(1 + count + i), *context.input<float>(1 + 2 * count + i)}; };
    for (int i = 0; i < count; ++i) all = {std::min(all.low, range_of(i).low), std::max(all.high, range_of(i).high)};
    const float largest = std::max(std::fabs(all.low), std::fabs(all.high));
    if (std::numeric_limits<T>::is_signed) all = {-largest, largest};
    const ToQuantized<T> to(all);
    ParallelRange(context, rows, std::max<int64_t>(kElementGrain / std::max<int64_t>(row, 1), 1), [&](int64_t begin, int64_t end) {
      int64_t place = 0;
      for (int i = 0; i < count; ++i) {
        const int64_t size = row == 0 ? 0 : context.input_type(1 + i).shape.num_elements() / rows;
        const QuantizedRange range = range_of(i);
        const FromQuantized<T> from(range);
        const bool same = range.low == all.low && range.high == all.high;
        for (int64_t r = begin; r < end; ++r) {
          const T* source = context.input<T>(1 + i) + r * size;
          T* target = context.output<T>(0) + r * row + place;
          for (int64_t k = 0; k < size; ++k) target[k] = same ? source[k] : to(from(source[k]));
        }
        place += size;
      }
    });
    SetOutputRange(context, all);
    return absl::OkStatus();
  });
}

KernelOr MakeAnyConcat(const OpInstance& node) {
  if (node.outputs[0].dtype == kQuint8) return MakeConcat<uint8_t>(node);
  return node.outputs[0].dtype == kQint32 ? MakeConcat<int32_t>(node) : KernelOr(UnsupportedType(node, node.outputs[0].dtype));
}

}  // namespace

void RegisterQuantizedKernels(KernelRegistry& registry) {
  AddKernel(registry, "QuantizedConv2D", MakeConv);
  AddKernel(registry, "QuantizedMatMul", MakeMatMul);
  AddKernel(registry, "QuantizedBiasAdd", MakeAnyBiasAdd);
  AddKernel(registry, "QuantizedAdd", MakeAdd);
  AddKernel(registry, "QuantizedMul", MakeMul);
  AddKernel(registry, "RequantizationRange", MakeUsedRange);
  for (const char* op : {"Requantize", "QuantizeDownAndShrinkRange"}) AddKernel(registry, op, MakeNarrow);
  for (const char* op : {"QuantizedRelu", "QuantizedRelu6"}) AddKernel(registry, op, MakeAnyRelu);
  for (const char* op : {"QuantizedMaxPool", "QuantizedAvgPool"}) AddKernel(registry, op, MakePool);
  AddKernel(registry, "QuantizedConcat", MakeAnyConcat);
  AddKernel(registry, "QuantizedReshape", MakeReshape);
}

}  // namespace millrace::cpu
