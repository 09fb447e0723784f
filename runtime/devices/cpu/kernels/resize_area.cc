// ResizeArea: every output pixel is the mean of the input's area that it covers.
#include <cmath>
#include <vector>

#include "cpu/kernels/common.h"
#include "cpu/kernels/rare.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

// The input pixels that output pixel i covers along one axis, and how much of each.
struct Cover {
  int64_t first;
  std::vector<float> parts;
};

std::vector<Cover> Covers(int64_t in, int64_t out, bool align_corners) {
  const float scale = align_corners && out > 1 ? static_cast<float>(in - 1) / static_cast<float>(out - 1)
                                               : static_cast<float>(in) / static_cast<float>(out);
  std::vector<Cover> covers;
  for (int64_t i = 0; i < out; ++i) {
    const float begin = static_cast<float>(i) * scale, end = static_cast<float>(i + 1) * scale;
    Cover cover{static_cast<int64_t>(std::floor(begin)), {}};
    for (int64_t at = cover.first; at < static_cast<int64_t>(std::ceil(end)); ++at) {
      const float place = static_cast<float>(at);
      cover.parts.push_back(place < begin ? (place + 1 > end ? scale : place + 1 - begin) : (place + 1 > end ? end - place : 1.0f));
    }
    covers.push_back(std::move(cover));
  }
  return covers;
}

float ScaleOf(int64_t in, int64_t out, bool align_corners) {
  return align_corners && out > 1 ? static_cast<float>(in - 1) / static_cast<float>(out - 1) : static_cast<float>(in) / static_cast<float>(out);
}

template <typename T>
absl::Status Resize(const KernelContext& context) {
  const Shape &in = context.input_type(0).shape, &out = context.output_type(0).shape;
  const bool align_corners = context.instance->attrs.GetOr<bool>("align_corners", false);
  const int64_t rows = in.dim(1), columns = in.dim(2), channels = in.dim(3);
  const std::vector<Cover> down = Covers(rows, out.dim(1), align_corners), across = Covers(columns, out.dim(2), align_corners);
  const float share = 1 / (ScaleOf(rows, out.dim(1), align_corners) * ScaleOf(columns, out.dim(2), align_corners));
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
