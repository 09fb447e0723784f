// QuantizeAndDequantize: numbers rounded to a grid that maps 0 to itself, over the whole tensor or per slice of an axis.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "cpu/kernels/common.h"
#include "cpu/kernels/rare.h"
#include "cpu/kernels/values.h"
#include "graph/quantize_grid.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

struct Slices {
  int64_t outer = 1, count = 1, inner = 1;
};

Slices SlicesOf(const OpInstance& node, const Shape& shape) {
  const int64_t axis = node.attrs.GetOr<int64_t>("axis", -1);
  Slices slices;
  for (int d = 0; d < shape.rank(); ++d) (axis < 0 || d > axis ? slices.inner : d < axis ? slices.outer : slices.count) *= shape.dim(d);
  return slices;
}

template <typename T>
void RoundSlice(const QuantizeGrid<T>& grid, bool clips, bool half_up, const T* x, int64_t n, T* y) {
  for (int64_t i = 0; i < n; ++i) {
    const T scaled = (clips ? std::max(std::min(x[i], grid.high), grid.low) : x[i]) * grid.scale;
    y[i] = (half_up ? std::floor(scaled + T(0.5)) : std::rint(scaled)) * grid.inverse;
  }
}

struct Options {
  bool is_signed, range_given, narrow, half_up;
  int64_t bits;
};

template <typename T>
absl::Status RoundTrip(const KernelContext& context, const Slices& slices, Options options) {
  const OpInstance& node = *context.instance;
  if (node.op == "QuantizeAndDequantizeV3") {
    MR_ASSIGN_OR_RETURN(options.bits, ValueReader(context).scalar(3));
  }
  if (options.bits < 1 || options.bits > 62) return absl::InvalidArgumentError(absl::StrCat("num_bits is out of range: ", options.bits));
  for (int64_t s = 0; s < slices.count; ++s) {
    const auto each = [&](auto&& fn) {
      for (int64_t o = 0; o < slices.outer; ++o) fn((o * slices.count + s) * slices.inner);
    };
    T low = 0, high = 0;
    if (options.range_given) {
      low = context.input<T>(1)[s];
      high = context.input<T>(2)[s];
      if (!(low <= high)) return absl::InvalidArgumentError(absl::StrCat("Invalid range: input_min ", low, " > input_max ", high));
    } else if (slices.outer * slices.inner > 0) {
      low = std::numeric_limits<T>::infinity();
      high = -low;
      each([&](int64_t at) {
        for (int64_t i = at; i < at + slices.inner; ++i) {
          low = std::min(low, context.input<T>(0)[i]);
          high = std::max(high, context.input<T>(0)[i]);
        }
      });
    }
    const QuantizeGrid<T> grid = QuantizeGridOf(low, high, options.is_signed, options.narrow, options.bits);
    each([&](int64_t at) {
      RoundSlice(grid, options.range_given, options.half_up, context.input<T>(0) + at, slices.inner, context.output<T>(0) + at);
    });
  }
  return absl::OkStatus();
}

// (input, input_min, input_max[, num_bits])
absl::StatusOr<std::unique_ptr<Kernel>> MakeRoundTrip(const OpInstance& node) {
  const Slices slices = SlicesOf(node, node.inputs[0].shape);
  const auto flag = [&](const char* name, bool otherwise) { return node.attrs.GetOr(name, otherwise); };
  const Options options = {flag("signed_input", true), flag("range_given", node.op == "QuantizeAndDequantizeV3"),
                           flag("narrow_range", false), node.attrs.GetOr<std::string>("round_mode", "HALF_TO_EVEN") == "HALF_UP",
                           node.attrs.GetOr<int64_t>("num_bits", 8)};
  if (node.inputs[0].dtype == DataType::kFloat) return MakeKernel([=](const KernelContext& c) { return RoundTrip<float>(c, slices, options); });
  if (node.inputs[0].dtype == DataType::kDouble) return MakeKernel([=](const KernelContext& c) { return RoundTrip<double>(c, slices, options); });
  return UnsupportedType(node, node.inputs[0].dtype);
}

// (gradients, input, input_min, input_max): gradients of numbers inside the range; the range has none.
template <typename T>
absl::Status PassInside(const KernelContext& context, const Slices& slices) {
  for (int64_t i = 0; i < slices.outer * slices.count * slices.inner; ++i) {
    const int64_t s = i / slices.inner % slices.count;
    const T x = context.input<T>(1)[i];
    context.output<T>(0)[i] = context.input<T>(0)[i] * static_cast<T>(x >= context.input<T>(2)[s] && x <= context.input<T>(3)[s]);
  }
  for (int k : {1, 2}) std::fill_n(context.output<T>(k), context.output_type(k).shape.num_elements(), T(0));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeGradient(const OpInstance& node) {
  const Slices slices = SlicesOf(node, node.inputs[0].shape);
  if (node.inputs[0].dtype == DataType::kFloat) return MakeKernel([=](const KernelContext& c) { return PassInside<float>(c, slices); });
  if (node.inputs[0].dtype == DataType::kDouble) return MakeKernel([=](const KernelContext& c) { return PassInside<double>(c, slices); });
  return UnsupportedType(node, node.inputs[0].dtype);
}

}  // namespace

void RegisterRoundTripKernels(KernelRegistry& registry) {
  for (const char* op : {"QuantizeAndDequantizeV2", "QuantizeAndDequantizeV3", "QuantizeAndDequantizeV4"}) {
    AddKernel(registry, op, MakeRoundTrip);
  }
  AddKernel(registry, "QuantizeAndDequantizeV4Grad", MakeGradient);
}

}  // namespace millrace::cpu
