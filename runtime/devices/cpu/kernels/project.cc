// Images under a projective map: every output pixel reads where the map sends it.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "cpu/kernels/common.h"
#include "cpu/kernels/families.h"

namespace millrace::cpu {
namespace {

enum class Outside { kReflect, kWrap, kConstant, kNearest };

// Where coordinate `at` of an axis of `length` pixels is read. Beyond the ends TensorFlow counts periods by
// truncation, which these follow.
float Fold(Outside outside, float at, int64_t length) {
  const float last = static_cast<float>(length - 1);
  switch (outside) {
    case Outside::kConstant:
      return at;
    case Outside::kNearest:
      break;
    case Outside::kReflect:
      if (length <= 1) return 0;
      if (at < 0) {
        const float period = 2.0f * static_cast<float>(length);
        at += period * static_cast<float>(static_cast<int64_t>(-at / period));
        at = at < -static_cast<float>(length) ? at + period : -at - 1;
      } else if (at > last) {
        const float period = 2.0f * static_cast<float>(length);
        at -= period * static_cast<float>(static_cast<int64_t>(at / period));
        if (at >= static_cast<float>(length)) at = period - at - 1;
      }
      break;
    case Outside::kWrap:
      if (length <= 1) return 0;
      if (at < 0) {
        at += static_cast<float>(length) * static_cast<float>(static_cast<int64_t>(-at / last) + 1);
      } else if (at > last) {
        at -= static_cast<float>(length) * static_cast<float>(static_cast<int64_t>(at / last));
      }
      break;
  }
  return std::min(std::max(0.0f, at), last);
}

struct Projection {
  int64_t batch, height, width, channels, output_height, output_width;
  bool one_transform, bilinear;
  Outside outside;
};

template <typename T>
class Reader {
 public:
  Reader(const Projection& p, const T* image, T fill) : p_(p), image_(image), fill_(fill) {}
  T At(int64_t y, int64_t x, int64_t c) const {
    const bool inside = y >= 0 && y < p_.height && x >= 0 && x < p_.width;
    return inside ? image_[(y * p_.width + x) * p_.channels + c] : fill_;
  }
  T Nearest(float y, float x, int64_t c) const {
    return At(static_cast<int64_t>(std::round(y)), static_cast<int64_t>(std::round(x)), c);
  }
  T Bilinear(float y, float x, int64_t c) const {
    const float top = std::floor(y), left = std::floor(x);
    const int64_t y0 = static_cast<int64_t>(top), x0 = static_cast<int64_t>(left);
    auto between = [&](int64_t row) {
      return (left + 1 - x) * static_cast<float>(At(row, x0, c)) + (x - left) * static_cast<float>(At(row, x0 + 1, c));
    };
    return static_cast<T>((top + 1 - y) * between(y0) + (y - top) * between(y0 + 1));
  }

 private:
  const Projection& p_;
  const T* image_;
  const T fill_;
};

template <typename T>
void ProjectRow(const Projection& p, const float* map, const Reader<T>& reader, int64_t y, T fill, T* out) {
  const float fy = static_cast<float>(y);
  for (int64_t x = 0; x < p.output_width; ++x, out += p.channels) {
    const float fx = static_cast<float>(x);
    const float scale = map[6] * fx + map[7] * fy + 1;
    if (scale == 0) {
      std::fill(out, out + p.channels, fill);
      continue;
    }
    const float in_x = Fold(p.outside, (map[0] * fx + map[1] * fy + map[2]) / scale, p.width);
    const float in_y = Fold(p.outside, (map[3] * fx + map[4] * fy + map[5]) / scale, p.height);
    for (int64_t c = 0; c < p.channels; ++c) out[c] = p.bilinear ? reader.Bilinear(in_y, in_x, c) : reader.Nearest(in_y, in_x, c);
  }
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeProject(const OpInstance& node) {
  const Shape &in = node.inputs[0].shape, &out = node.outputs[0].shape;
  Projection p = {.batch = in.dim(0), .height = in.dim(1), .width = in.dim(2), .channels = in.dim(3),
                  .output_height = out.dim(1), .output_width = out.dim(2)};
  p.one_transform = node.inputs[1].shape.dim(0) == 1;
  p.bilinear = node.attrs.GetOr<std::string>("interpolation", "") == "BILINEAR";
  const std::string mode = node.attrs.GetOr<std::string>("fill_mode", "CONSTANT");
  if (mode == "REFLECT") {
    p.outside = Outside::kReflect;
  } else if (mode == "WRAP") {
    p.outside = Outside::kWrap;
  } else if (mode == "NEAREST") {
    p.outside = Outside::kNearest;
  } else if (mode == "CONSTANT") {
    p.outside = Outside::kConstant;
  } else {
    return absl::InvalidArgumentError(absl::StrCat("fill_mode is '", mode, "', expected REFLECT, WRAP, CONSTANT or NEAREST"));
  }
  const bool filled = node.inputs.size() > 3;
  return DispatchNumeric(node, node.inputs[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    return MakeKernel([p, filled](const KernelContext& context) {
      const T fill = filled ? static_cast<T>(*context.input<float>(3)) : T(0);
      const int64_t row = p.output_width * p.channels, image = p.height * p.width * p.channels;
      ParallelRange(context, p.batch * p.output_height, std::max<int64_t>(2048 / std::max<int64_t>(row, 1), 1),
                    [&](int64_t begin, int64_t end) {
                      for (int64_t r = begin; r < end; ++r) {
                        const int64_t b = r / p.output_height;
                        const Reader<T> reader(p, context.input<T>(0) + b * image, fill);
                        ProjectRow(p, context.input<float>(1) + (p.one_transform ? 0 : 8 * b), reader,
                                   r % p.output_height, fill, context.output<T>(0) + r * row);
                      }
                    });
      return absl::OkStatus();
    });
  });
}

}  // namespace

void RegisterProjectKernels(KernelRegistry& registry) {
  for (const char* name : {"ImageProjectiveTransformV2", "ImageProjectiveTransformV3"}) {
    AddKernel(registry, name, MakeProject);
  }
}

}  // namespace millrace::cpu
