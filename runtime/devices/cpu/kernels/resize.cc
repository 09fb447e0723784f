// Resizing by separable weights (nearest, bilinear, bicubic) and its gradient, the transposed map. Rows are combined
// first, in long contiguous loops, then the columns of the combined row.
#include <memory>
#include <mutex>

#include "cpu/kernels/common.h"
#include "cpu/kernels/register.h"
#include "cpu/kernels/resize_axis.h"
#include "cpu/kernels/row_math.h"

namespace millrace::cpu {
namespace {

// Sizes from the beginning; what each position takes once a kernel runs: kernels are also made to ask for their scratch, of images
// that no memory has room for.
struct ResizePlan {
  ResizeMethod method = ResizeMethod::kNearest;
  ResizeAlignment alignment;
  ResizeAxis rows, columns;
  int64_t batch = 0, channels = 0;
  std::once_flag has_taps;

  int64_t input_row() const { return columns.input * channels; }
  int64_t output_row() const { return columns.output * channels; }
  void MakeTaps() {
    std::call_once(has_taps, [this] {
      AddTaps(method, alignment, rows);
      AddTaps(method, alignment, columns);
    });
  }
};

// to[0 .. n) = the sum of weighted vectors, `stride` elements apart, in the order of the taps; taps of weight 0 are not
// read. The common one and two taps are single loops.
template <typename T>
void Combine(const ResizeAxis& axis, int64_t position, const T* vectors, int64_t stride, int64_t n,
             float* __restrict__ to) {
  const T* from[kMaxResizeTaps] = {};
  float weights[kMaxResizeTaps] = {};
  int used = 0;
  for (int k = 0; k < axis.taps; ++k) {
    weights[used] = axis.weight[position * axis.taps + k];
    from[used] = vectors + axis.index[position * axis.taps + k] * stride;
    used += weights[used] != 0.0f;
  }
  const T *x = from[0], *y = from[1];
  const float a = weights[0], b = weights[1];
  if (used == 0) {
    std::fill_n(to, n, 0.0f);
  } else if (used == 1) {
    for (int64_t i = 0; i < n; ++i) to[i] = a * static_cast<float>(x[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = a * static_cast<float>(x[i]) + b * static_cast<float>(y[i]);
  }
  for (int k = 2; k < used; ++k) {
    for (int64_t i = 0; i < n; ++i) to[i] += weights[k] * static_cast<float>(from[k][i]);
  }
}

// combined = sum of weighted rows of the image, as float.
template <typename T>
void CombineRows(const ResizePlan& plan, const T* image, int64_t y, float* combined) {
  Combine(plan.rows, y, image, plan.input_row(), plan.input_row(), combined);
}

// Combine of kChannels at each position, known when compiling so that they stay in registers.
template <int kChannels>
void CombineFew(const ResizeAxis& axis, const float* row, float* __restrict__ output) {
  const int64_t* index = axis.index.data();
  const float* weight = axis.weight.data();
  for (int64_t x = 0; x < axis.output; ++x, output += kChannels, index += axis.taps, weight += axis.taps) {
    float sums[kChannels] = {};
    bool has_any = false;
    for (int k = 0; k < axis.taps; ++k) {
      if (weight[k] == 0.0f) continue;
      const float* from = row + index[k] * kChannels;
      for (int c = 0; c < kChannels; ++c) sums[c] = has_any ? sums[c] + weight[k] * from[c] : weight[k] * from[c];
      has_any = true;
    }
    for (int c = 0; c < kChannels; ++c) output[c] = sums[c];
  }
}

void CombineColumns(const ResizePlan& plan, const float* row, float* output) {
  switch (plan.channels) {
    case 1: return CombineFew<1>(plan.columns, row, output);
    case 2: return CombineFew<2>(plan.columns, row, output);
    case 3: return CombineFew<3>(plan.columns, row, output);
    case 4: return CombineFew<4>(plan.columns, row, output);
  }
  for (int64_t x = 0; x < plan.columns.output; ++x) {
    Combine(plan.columns, x, row, plan.channels, plan.channels, output + x * plan.channels);
  }
}

// The transpose of CombineColumns: a row of gradients onto the columns of the input.
template <typename G, typename S>
void SpreadColumns(const ResizePlan& plan, const G* gradients, S* __restrict__ row) {
  const int64_t channels = plan.channels;
  std::fill(row, row + plan.input_row(), S(0));
  for (int64_t x = 0; x < plan.columns.output; ++x) {
    const G* from = gradients + x * channels;
    for (int k = 0; k < plan.columns.taps; ++k) {
      const float weight = plan.columns.weight[x * plan.columns.taps + k];
      if (weight == 0.0f) continue;
      S* to = row + plan.columns.index[x * plan.columns.taps + k] * channels;
      const S factor = static_cast<S>(weight);
      for (int64_t c = 0; c < channels; ++c) to[c] += factor * static_cast<S>(from[c]);
    }
  }
}

int64_t RowGrain(int64_t row_elements) { return std::max<int64_t>(kElementGrain / std::max<int64_t>(row_elements, 1), 1); }

template <typename T>
std::unique_ptr<Kernel> MakeForward(std::shared_ptr<ResizePlan> plan) {
  const int64_t rows = plan->batch * plan->rows.output;
  const int64_t shards = NumShards(rows, RowGrain(std::max(plan->input_row(), plan->output_row())));
  const int64_t stride = AlignUp(plan->input_row() * 4);
  return MakeKernel(
      [=](const KernelContext& context) {
        plan->MakeTaps();
        context.parallel->For(shards, [&](int64_t s) {
          float* combined = reinterpret_cast<float*>(static_cast<char*>(context.scratch) + s * stride);
          for (int64_t r = rows * s / shards; r < rows * (s + 1) / shards; ++r) {
            const T* image = context.input<T>(0) + r / plan->rows.output * plan->rows.input * plan->input_row();
            CombineRows(*plan, image, r % plan->rows.output, combined);
            CombineColumns(*plan, combined, context.output<float>(0) + r * plan->output_row());
          }
        });
        return absl::OkStatus();
      },
      shards * stride);
}

// A shard owns rows of the result, walks the gradients that touch them in order, and adds only there.
template <typename G, typename T>
std::unique_ptr<Kernel> MakeBackward(std::shared_ptr<ResizePlan> plan) {
  using S = std::conditional_t<std::is_integral_v<T>, uint64_t, ComputeType<T>>;  // integers wrap around
  const int64_t rows = plan->batch * plan->rows.input;
  const int64_t shards = NumShards(rows, RowGrain(std::max(plan->input_row(), plan->output_row())));
  const int64_t stride = AlignUp(plan->input_row() * sizeof(S));
  return MakeKernel(
      [=](const KernelContext& context) {
        plan->MakeTaps();
        const int64_t n = plan->input_row();
        context.parallel->For(shards, [&](int64_t s) {
          const int64_t begin = rows * s / shards, end = rows * (s + 1) / shards;
          S* spread = reinterpret_cast<S*>(static_cast<char*>(context.scratch) + s * stride);
          T* result = context.output<T>(0);
          std::fill(result + begin * n, result + end * n, T(0));
          const int64_t first_image = begin / plan->rows.input, last_image = (end - 1) / plan->rows.input;
          for (int64_t y = first_image * plan->rows.output; y < (last_image + 1) * plan->rows.output; ++y) {
            const int64_t image_row = y / plan->rows.output * plan->rows.input, at = y % plan->rows.output;
            bool is_spread = false;
            for (int k = 0; k < plan->rows.taps; ++k) {
              const int64_t row = image_row + plan->rows.index[at * plan->rows.taps + k];
              const float weight = plan->rows.weight[at * plan->rows.taps + k];
              if (row < begin || row >= end || weight == 0.0f) continue;
              if (!is_spread) SpreadColumns(*plan, context.input<G>(0) + y * plan->output_row(), spread);
              is_spread = true;
              T* to = result + row * n;
              const S factor = static_cast<S>(weight);
#pragma GCC ivdep
              for (int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(static_cast<S>(to[i]) + factor * spread[i]);
            }
          }
        });
        return absl::OkStatus();
      },
      shards * stride);
}

// For the forward op from `input` to `output`.
std::shared_ptr<ResizePlan> MakePlan(ResizeMethod method, const OpInstance& node, const Shape& input, const Shape& output) {
  auto plan = std::make_shared<ResizePlan>();
  plan->method = method;
  plan->alignment = ResizeAlignment::Of(node.attrs);
  plan->rows = {.input = input.dim(1), .output = output.dim(1)};
  plan->columns = {.input = input.dim(2), .output = output.dim(2)};
  plan->batch = input.dim(0);
  plan->channels = input.dim(3);
  return plan;
}

std::unique_ptr<Kernel> Nothing() {
  return MakeKernel([](const KernelContext&) { return absl::OkStatus(); });
}

template <ResizeMethod kMethod>
absl::StatusOr<std::unique_ptr<Kernel>> MakeResize(const OpInstance& node) {
  if (node.outputs[0].shape.num_elements() == 0) return Nothing();
  const auto plan = MakePlan(kMethod, node, node.inputs[0].shape, node.outputs[0].shape);
  return DispatchNumeric(node, node.inputs[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    return MakeForward<typename decltype(tag)::type>(plan);
  });
}

template <ResizeMethod kMethod>
absl::StatusOr<std::unique_ptr<Kernel>> MakeResizeGrad(const OpInstance& node) {
  if (node.outputs[0].shape.num_elements() == 0) return Nothing();
  const auto plan = MakePlan(kMethod, node, node.outputs[0].shape, node.inputs[0].shape);
  if constexpr (kMethod == ResizeMethod::kNearest) {
    return DispatchNumeric(node, node.outputs[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
      using T = typename decltype(tag)::type;
      return MakeBackward<T, T>(plan);
    });
  } else {
    return DispatchFloating(node, node.outputs[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
      return MakeBackward<float, typename decltype(tag)::type>(plan);
    });
  }
}

// Nearest neighbours keep their type, so their bytes are moved.
template <typename Word>
std::unique_ptr<Kernel> MakeCopying(std::shared_ptr<ResizePlan> plan) {
  return MakeKernel([plan](const KernelContext& context) {
    plan->MakeTaps();
    const int64_t rows = plan->batch * plan->rows.output, channels = plan->channels;
    ParallelRange(context, rows, RowGrain(plan->output_row()), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const int64_t row = r / plan->rows.output * plan->rows.input + plan->rows.index[r % plan->rows.output];
        const Word* from = context.input<Word>(0) + row * plan->input_row();
        Word* to = context.output<Word>(0) + r * plan->output_row();
        for (int64_t x = 0; x < plan->columns.output; ++x) {
          std::copy_n(from + plan->columns.index[x] * channels, channels, to + x * channels);
        }
      }
    });
    return absl::OkStatus();
  });
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeNearest(const OpInstance& node) {
  if (node.outputs[0].shape.num_elements() == 0) return Nothing();
  const auto plan = MakePlan(ResizeMethod::kNearest, node, node.inputs[0].shape, node.outputs[0].shape);
  return DispatchBySize(node, node.inputs[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    return MakeCopying<typename decltype(tag)::type>(plan);
  });
}

}  // namespace

void RegisterResizeKernels(KernelRegistry& registry) {
  AddKernel(registry, "ResizeBilinear", MakeResize<ResizeMethod::kBilinear>);
  AddKernel(registry, "ResizeBicubic", MakeResize<ResizeMethod::kBicubic>);
  AddKernel(registry, "ResizeNearestNeighbor", MakeNearest);
  AddKernel(registry, "ResizeBilinearGrad", MakeResizeGrad<ResizeMethod::kBilinear>);
  AddKernel(registry, "ResizeBicubicGrad", MakeResizeGrad<ResizeMethod::kBicubic>);
  AddKernel(registry, "ResizeNearestNeighborGrad", MakeResizeGrad<ResizeMethod::kNearest>);
}

}  // namespace millrace::cpu
