// Histograms and counts, flat indices, data formats as permutations, updates of rows by value, running logsumexp.
#include <cmath>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "cpu/kernels/complex.h"
#include "cpu/kernels/families.h"
#include "cpu/kernels/indices.h"
#include "cpu/kernels/values.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

// Bincount and DenseBincount: row r of the input is counted into row r of the output.
template <typename Index, typename T>
absl::Status CountRows(const KernelContext& context, int64_t rows, int64_t count, int64_t size, bool weighted, bool binary) {
  const Index* values = context.input<Index>(0);
  for (int64_t i = 0; i < rows * count; ++i) {
    if (values[i] < 0) return absl::InvalidArgumentError(absl::StrCat("Input arr must be non-negative!, element ", i, " is ", values[i]));
  }
  T* out = context.output<T>(0);
  std::fill(out, out + rows * size, T(0));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = r * count; i < (r + 1) * count; ++i) {
      if (values[i] >= size) continue;
      T& bin = out[r * size + static_cast<int64_t>(values[i])];
      bin = binary ? T(1) : bin + (weighted ? context.input<T>(2)[i] : T(1));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeBincount(const OpInstance& node) {
  const Shape &in = node.inputs[0].shape, &out = node.outputs[0].shape;
  const bool by_rows = node.op == "DenseBincount" && in.rank() == 2;
  const int64_t rows = by_rows ? in.dim(0) : 1, count = by_rows ? in.dim(1) : in.num_elements();
  const int64_t size = out.dim(out.rank() - 1);
  const bool weighted = node.inputs[2].shape.num_elements() > 0;
  const bool binary = node.attrs.GetOr<bool>("binary_output", false);
  if (weighted && node.inputs[2].shape.num_elements() != in.num_elements()) {
    return absl::InvalidArgumentError(absl::StrCat("weights are ", node.inputs[2].ToString(), " for values ",
                                                   node.inputs[0].ToString(), " of node '", node.name, "', expected one each"));
  }
  return DispatchNumeric(node, node.outputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return DispatchIndex(node, 0, [&](auto index_tag) -> std::unique_ptr<Kernel> {
      using Index = typename decltype(index_tag)::type;
      return MakeKernel([=](const KernelContext& context) {
        return CountRows<Index, T>(context, rows, count, size, weighted, binary);
      });
    });
  });
}

// Of a value that is in no bin: a NaN, or any where the range does not end.
absl::Status NoPlace(double value, double low, double high) {
  if (std::isnan(value)) return absl::InvalidArgumentError("Histogram values must not contain NaN");
  return absl::InvalidArgumentError(absl::StrCat("value_range should be finite, but got '[", low, ", ", high, "]' for the value ", value));
}

// Values outside the range count in the first and last bin.
absl::StatusOr<std::unique_ptr<Kernel>> MakeHistogram(const OpInstance& node) {
  const int64_t count = node.inputs[0].shape.num_elements(), bins = node.outputs[0].shape.dim(0);
  const bool wide = node.outputs[0].dtype == DataType::kInt64;
  return DispatchNumeric(node, node.inputs[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    return MakeKernel([=](const KernelContext& context) -> absl::Status {
      const double low = static_cast<double>(context.input<T>(1)[0]), high = static_cast<double>(context.input<T>(1)[1]);
      if (!(low < high)) {
        return absl::InvalidArgumentError(absl::StrCat("value_range should satisfy value_range[0] < value_range[1], but got '[",
                                                       low, ", ", high, "]'"));
      }
      std::memset(context.outputs[0], 0, bins * (wide ? 8 : 4));
      const double step = (high - low) / static_cast<double>(bins);
      for (int64_t i = 0; i < count; ++i) {
        const double at = (static_cast<double>(context.input<T>(0)[i]) - low) / step;
        if (std::isnan(at)) return NoPlace(static_cast<double>(context.input<T>(0)[i]), low, high);
        const int64_t bin = static_cast<int64_t>(std::clamp(at, 0.0, static_cast<double>(bins - 1)));
        wide ? static_cast<void>(++context.output<int64_t>(0)[bin]) : static_cast<void>(++context.output<int32_t>(0)[bin]);
      }
      return absl::OkStatus();
    });
  });
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeUnravel(const OpInstance& node) {
  const int64_t count = node.inputs[0].shape.num_elements(), rank = node.inputs[1].shape.num_elements();
  return DispatchIndex(node, 0, [&](auto tag) -> std::unique_ptr<Kernel> {
    using Index = typename decltype(tag)::type;
    return MakeKernel([=](const KernelContext& context) -> absl::Status {
      const Index* dims = context.input<Index>(1);
      Index limit = 1;
      for (int64_t d = 0; d < rank; ++d) {
        if (dims[d] < 1) return absl::InvalidArgumentError(absl::StrCat("Input dims must be positive. Got dim = ", dims[d], " at index ", d));
        if (__builtin_mul_overflow(limit, dims[d], &limit)) {
          return absl::InvalidArgumentError(absl::StrCat("Input dims product is causing integer overflow at index ", d));
        }
      }
      for (int64_t i = 0; i < count; ++i) {
        int64_t index = context.input<Index>(0)[i];
        if (index < 0 || index >= limit) {
          return absl::InvalidArgumentError(absl::StrCat("index is out of bound as with dims: indices[", i, "] = ", index,
                                                         " is not in [0, ", limit, ")"));
        }
        for (int64_t d = rank - 1; d >= 0; --d) {
          context.output<Index>(0)[d * count + i] = static_cast<Index>(index % dims[d]);
          index /= dims[d];
        }
      }
      return absl::OkStatus();
    });
  });
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeEmpty(const OpInstance& node) {
  return MakeKernel([bytes = node.outputs[0].size_bytes()](const KernelContext& context) {
    std::memset(context.outputs[0], 0, bytes);
    return absl::OkStatus();
  });
}

// Rows named twice are updated in order; a row outside is taken modulo the number of rows, as TensorFlow does.
absl::StatusOr<std::unique_ptr<Kernel>> MakeInplace(const OpInstance& given) {
  const OpInstance node = InParts(given);
  const int64_t rows = node.inputs[0].shape.dim(0), updates = node.inputs[1].shape.num_elements();
  const int64_t width = rows == 0 ? 0 : node.inputs[0].shape.num_elements() / rows;
  const int sign = node.op == "InplaceAdd" ? 1 : node.op == "InplaceSub" ? -1 : 0;
  const DataType dtype = sign == 0 && node.inputs[0].dtype == DataType::kBool ? DataType::kUint8 : node.inputs[0].dtype;
  return DispatchNumeric(node, dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    return MakeKernel([=](const KernelContext& context) {
      T* out = context.output<T>(0);
      if (out != context.input<T>(0)) std::copy_n(context.input<T>(0), rows * width, out);
      for (int64_t u = 0; rows > 0 && u < updates; ++u) {
        const int64_t row = ((context.input<int32_t>(1)[u] % rows) + rows) % rows;
        const T* from = context.input<T>(2) + u * width;
        T* to = out + row * width;
        for (int64_t i = 0; i < width; ++i) to[i] = sign == 0 ? from[i] : sign > 0 ? to[i] + from[i] : to[i] - from[i];
      }
      return absl::OkStatus();
    });
  });
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeCross(const OpInstance& node) {
  const int64_t rows = node.inputs[0].shape.num_elements() / 3;
  return DispatchNumeric(node, node.inputs[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    return MakeKernel([rows](const KernelContext& context) {
      for (int64_t r = 0; r < rows; ++r) {
        const T a[3] = {context.input<T>(0)[3 * r], context.input<T>(0)[3 * r + 1], context.input<T>(0)[3 * r + 2]};
        const T b[3] = {context.input<T>(1)[3 * r], context.input<T>(1)[3 * r + 1], context.input<T>(1)[3 * r + 2]};
        for (int i = 0; i < 3; ++i) {
          const int j = (i + 1) % 3, k = (i + 2) % 3;
          context.output<T>(0)[3 * r + i] = static_cast<T>(a[j] * b[k] - a[k] * b[j]);
        }
      }
      return absl::OkStatus();
    });
  });
}

// log(exp(a) + exp(b)), with nothing lost where one is much larger.
template <typename W>
W LogAddExp(W a, W b) {
  const W high = std::max(a, b), low = std::min(a, b);
  if (std::isinf(high) || std::isnan(high) || std::isnan(low)) return std::isnan(low) ? low : high;
  return high + std::log1p(std::exp(low - high));
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeCumulativeLogsumexp(const OpInstance& node) {
  const bool exclusive = node.attrs.GetOr<bool>("exclusive", false), reverse = node.attrs.GetOr<bool>("reverse", false);
  const Shape shape = node.inputs[0].shape;
  return DispatchFloating(node, node.inputs[0].dtype, [&](auto tag) -> absl::StatusOr<std::unique_ptr<Kernel>> {
    using T = typename decltype(tag)::type;
    using W = std::conditional_t<std::is_same_v<T, double>, double, float>;
    const int by_value[] = {1};
    return MakePlannedKernel(
        node, by_value,
        [shape](const ValueReader& reader) -> absl::StatusOr<int> {
          MR_ASSIGN_OR_RETURN(const int64_t axis, reader.scalar(1));
          return ResolveAxis(axis, shape.rank());
        },
        [shape, exclusive, reverse](const int& axis, const KernelContext& context) -> absl::Status {
          int64_t inner = 1, outer = 1;
          for (int d = 0; d < axis; ++d) outer *= shape.dim(d);
          for (int d = axis + 1; d < shape.rank(); ++d) inner *= shape.dim(d);
          const int64_t length = shape.dim(axis);
          for (int64_t line = 0; line < outer * inner; ++line) {
            const int64_t base = line / inner * length * inner + line % inner;
            W sum = -std::numeric_limits<W>::infinity();
            for (int64_t i = 0; i < length; ++i) {
              const int64_t at = base + (reverse ? length - 1 - i : i) * inner;
              const W before = sum;
              sum = LogAddExp(sum, static_cast<W>(context.input<T>(0)[at]));
              context.output<T>(0)[at] = static_cast<T>(exclusive ? before : sum);
            }
          }
          return absl::OkStatus();
        });
  });
}

// Where each letter of src_format is in dst_format.
absl::StatusOr<std::vector<int>> FormatMap(const OpInstance& node, bool source_to_destination) {
  const std::string source = node.attrs.GetOr<std::string>("src_format", "NHWC");
  const std::string destination = node.attrs.GetOr<std::string>("dst_format", "NCHW");
  std::vector<int> map;
  for (char letter : source_to_destination ? source : destination) {
    const size_t at = (source_to_destination ? destination : source).find(letter);
    if (at == std::string::npos || source.size() != destination.size()) {
      return absl::InvalidArgumentError(absl::StrCat("formats '", source, "' and '", destination, "' of node '", node.name,
                                                     "' have different letters"));
    }
    map.push_back(static_cast<int>(at));
  }
  return map;
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeDimMap(const OpInstance& node) {
  MR_ASSIGN_OR_RETURN(const std::vector<int> map, FormatMap(node, true));
  const int64_t count = node.inputs[0].shape.num_elements(), rank = static_cast<int64_t>(map.size());
  return DispatchIndex(node, 0, [&](auto tag) -> std::unique_ptr<Kernel> {
    using Index = typename decltype(tag)::type;
    return MakeKernel([=](const KernelContext& context) -> absl::Status {
      for (int64_t i = 0; i < count; ++i) {
        const int64_t axis = context.input<Index>(0)[i];
        if (axis < -rank || axis >= rank) {
          return absl::InvalidArgumentError(absl::StrCat("dimension ", axis, " is out of range, expected [", -rank, ", ", rank, ")"));
        }
        context.output<Index>(0)[i] = static_cast<Index>(map[axis < 0 ? axis + rank : axis]);
      }
      return absl::OkStatus();
    });
  });
}

// A vector of one number per dimension, or a row of two for each; of the spatial dimensions alone when it is two shorter.
absl::StatusOr<std::unique_ptr<Kernel>> MakeVecPermute(const OpInstance& node) {
  MR_ASSIGN_OR_RETURN(std::vector<int> map, FormatMap(node, false));
  const Shape& shape = node.inputs[0].shape;
  const int64_t rank = static_cast<int64_t>(map.size()), rows = shape.rank() == 0 ? 0 : shape.dim(0);
  const int64_t width = shape.rank() == 2 ? shape.dim(1) : 1;
  if (rows == rank - 2) {
    const std::string source = node.attrs.GetOr<std::string>("src_format", "NHWC");
    const std::string destination = node.attrs.GetOr<std::string>("dst_format", "NCHW");
    std::string source_letters, destination_letters;
    for (char c : source) if (c != 'N' && c != 'C') source_letters += c;
    for (char c : destination) if (c != 'N' && c != 'C') destination_letters += c;
    map.clear();
    for (char c : destination_letters) map.push_back(static_cast<int>(source_letters.find(c)));
  } else if (rows != rank) {
    return absl::InvalidArgumentError(absl::StrCat("input of node '", node.name, "' is ", shape.ToString(), ", expected ", rank,
                                                   " or ", rank - 2, " rows"));
  }
  return DispatchIndex(node, 0, [&](auto tag) -> std::unique_ptr<Kernel> {
    using Index = typename decltype(tag)::type;
    return MakeKernel([map, width](const KernelContext& context) {
      for (size_t i = 0; i < map.size(); ++i) {
        std::copy_n(context.input<Index>(0) + map[i] * width, width, context.output<Index>(0) + static_cast<int64_t>(i) * width);
      }
      return absl::OkStatus();
    });
  });
}

}  // namespace

void RegisterCountingKernels(KernelRegistry& registry) {
  AddKernel(registry, "Bincount", MakeBincount);
  AddKernel(registry, "DenseBincount", MakeBincount);
  AddKernel(registry, "HistogramFixedWidth", MakeHistogram);
  AddKernel(registry, "UnravelIndex", MakeUnravel);
  AddKernel(registry, "Empty", MakeEmpty);
  for (const char* name : {"InplaceUpdate", "InplaceAdd", "InplaceSub"}) AddKernel(registry, name, MakeInplace);
  AddKernel(registry, "Cross", MakeCross);
  AddKernel(registry, "CumulativeLogsumexp", MakeCumulativeLogsumexp);
  AddKernel(registry, "DataFormatDimMap", MakeDimMap);
  AddKernel(registry, "DataFormatVecPermute", MakeVecPermute);
}

}  // namespace millrace::cpu
