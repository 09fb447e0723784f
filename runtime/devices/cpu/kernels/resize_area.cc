// ResizeArea: every output pixel is the mean of the input's area that it covers.
#include <utility>
#include <vector>

#include "cpu/kernels/common.h"
#include "cpu/kernels/rare.h"
#include "graph/resampling.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

// How much of the input pixels from the first one an output pixel covers along one axis.
struct Cover {
  int64_t first;
  std::vector<float> parts;
};

std::vector<Cover> Covers(int64_t out, float scale) {
  std::vector<Cover> covers;
  for (int64_t i = 0; i < out; ++i) {
    const AreaCover area = AreaCoverOf(i, scale);
    Cover cover{area.first, {}};
    for (int64_t k = 0; k < area.count; ++k) cover.parts.push_back(area.Part(k));
    covers.push_back(std::move(cover));
  }
  return covers;
}

template <typename T>
absl::Status Resize(const KernelContext& context) {
  const Shape &in = context.input_type(0).shape, &out = context.output_type(0).shape;
  const bool align_corners = context.instance->attrs.GetOr<bool>("align_corners", false);
  const int64_t rows = in.dim(1), columns = in.dim(2), channels = in.dim(3);
  const float row_scale = AreaScale(rows, out.dim(1), align_corners), column_scale = AreaScale(columns, out.dim(2), align_corners);
  const std::vector<Cover> down = Covers(out.dim(1), row_scale), across = Covers(out.dim(2), column_scale);
  const float share = 1 / (row_scale * column_scale);
  const auto clamp = [](int64_t at, int64_t size) { return std::min(std::max<int64_t>(at, 0), size - 1); };
  const int64_t rows_of_shard = std::max<int64_t>(kElementGrain / std::max<int64_t>(columns * channels, 1), 1);
  ParallelRange(context, in.dim(0) * out.dim(1), rows_of_shard, [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) {
      const int64_t b = line / out.dim(1);
      const Cover& y = down[line % out.dim(1)];
      for (int64_t o = 0; o < out.dim(2); ++o) {
        const Cover& x = across[o];
        for (int64_t c = 0; c < channels; ++c) {
          float sum = 0;
          for (size_t j = 0; j < y.parts.size(); ++j) {
            const T* row = context.input<T>(0) + (b * rows + clamp(y.first + static_cast<int64_t>(j), rows)) * columns * channels + c;
            float of_row = 0;
            for (size_t i = 0; i < x.parts.size(); ++i) {
              of_row += static_cast<float>(row[clamp(x.first + static_cast<int64_t>(i), columns) * channels]) * y.parts[j] * x.parts[i];
            }
            sum += of_row;
          }
          context.output<float>(0)[(line * out.dim(2) + o) * channels + c] = sum * share;
        }
      }
    }
  });
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeResizeArea(const OpInstance& node) {
  return DispatchNumeric(node, node.inputs[0].dtype, [](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    return MakeKernel([](const KernelContext& context) { return Resize<T>(context); });
  });
}

}  // namespace

void RegisterResizeAreaKernels(KernelRegistry& registry) { AddKernel(registry, "ResizeArea", MakeResizeArea); }

}  // namespace millrace::cpu
