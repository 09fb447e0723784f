#include "cuda/kernels/conv_gradients.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "cuda/launch/conv.h"
#include "cuda/launch/layout.h"
#include "cuda/launch/reduce.h"

namespace millrace::cuda {
namespace {

constexpr int kBytes = 4;  // of a float
constexpr char kTurned[] = "turned:", kSpread[] = "spread:", kProduct[] = "product";

int64_t Volume(const ConvShape::Sizes& size) { return size[0] * size[1] * size[2]; }

// Whether `holds` of every dimension.
template <typename Holds>
bool Everywhere(const Holds& holds) {
  return holds(0) && holds(1) && holds(2);
}

// An input gradient of stride 1 is a convolution of the output's gradient with the filter turned by 180 degrees, its
// channels exchanged (Dumoulin and Visin, A guide to convolution arithmetic for deep learning, section 4).
bool IsTurned(const ConvShape& s) {
  return Everywhere([&](int d) {
    const int64_t reach = s.dilation[d] * (s.kernel[d] - 1);
    return s.stride[d] == 1 && s.pad[d] == s.pad_after[d] && s.pad[d] <= reach;
  });
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeTurned(DeviceServices& services, const ConvShape& s, std::string algorithm) {
  ConvShape forward = s;
  forward.part = ConvPart::kForward;
  forward.algorithm = std::move(algorithm);
  std::swap(forward.in_channels, forward.out_channels);
  std::swap(forward.in, forward.out);
  for (int d = 0; d < 3; ++d) forward.pad[d] = forward.pad_after[d] = s.dilation[d] * (s.kernel[d] - 1) - s.pad[d];
  MR_ASSIGN_OR_RETURN(std::shared_ptr<Convolution> convolution, services.PlanConvolution(forward));
  // From [taps][in][out] to [in][out][taps], or [in][taps][out]. A single tap is there already.
  const int64_t taps = Volume(s.kernel), in = s.in_channels, out = s.out_channels;
  StridedCopy turn;
  turn.rank = 3;
  turn.elements = taps * in * out;
  const int64_t dims[] = {in, taps, out}, from[] = {out, -in * out, 1};
  const int64_t to[] = {taps * out, s.channels_first ? 1 : out, s.channels_first ? taps : 1};
  std::copy(dims, dims + 3, turn.dims);
  std::copy(from, from + 3, turn.from_strides);
  std::copy(to, to + 3, turn.to_strides);
  turn.from_offset = (taps - 1) * in * out;
  const int64_t library_at = taps == 1 ? 0 : AlignUp(turn.elements * kBytes, kLibraryAlignment);
  const auto run = [=](const Queue& queue, const KernelContext& context) -> absl::Status {
    char* scratch = AlignedScratch(context);
    void* filter = taps == 1 ? context.inputs[1] : scratch;
    if (taps > 1) LaunchStridedCopy(queue, kBytes, turn, context.inputs[1], filter);
    return convolution->Run(queue, {context.inputs[2], filter, context.outputs[0]}, scratch + library_at);
  };
  return MakeLaunch(services, run, library_at + convolution->scratch_bytes() + kLibraryAlignment,
                    absl::StrCat(kTurned, convolution->algorithm()));
}

// Windows that do not overlap: each input pixel is under one tap of one output pixel, or under none.
bool IsSpread(const ConvShape& s) {
  const bool apart = Everywhere([&](int d) {
    return s.pad[d] == 0 && s.pad_after[d] == 0 && s.kernel[d] <= s.stride[d] && (s.kernel[d] == 1 || s.dilation[d] == 1);
  });
  // Each row of taps is given to the library as a filter.
  const bool aligned = s.kernel[0] * s.kernel[1] == 1 || s.kernel[2] * s.in_channels * s.out_channels * kBytes % kTensorAlignment == 0;
  return apart && aligned && !Everywhere([&](int d) { return s.stride[d] == 1; });
}

// The products of a row of taps with the output's gradient are a convolution with a window of one, whose filter is a part of the
// given one as it is. They are spread over the input's rows then.
absl::StatusOr<std::unique_ptr<Kernel>> MakeSpread(DeviceServices& services, const ConvShape& s, std::string algorithm) {
  ConvShape forward = s;
  forward.part = ConvPart::kForward;
  forward.algorithm = std::move(algorithm);
  forward.in = s.out;
  forward.in_channels = s.out_channels;
  forward.out_channels = s.kernel[2] * s.in_channels;
  forward.kernel = forward.stride = forward.dilation = {1, 1, 1};
  MR_ASSIGN_OR_RETURN(std::shared_ptr<Convolution> convolution, services.PlanConvolution(forward));
  RowSpread spread;
  spread.channels_first = s.channels_first;
  spread.batch = s.batch;
  spread.channels = s.in_channels;
  spread.taps = s.kernel[2];
  std::copy(s.in.begin(), s.in.end(), spread.in);
  std::copy(s.out.begin(), s.out.end(), spread.out);
  std::copy(s.stride.begin(), s.stride.end(), spread.stride);
  const int64_t products = s.batch * forward.out_channels * Volume(s.out) * kBytes;
  const int64_t library_at = AlignUp(products, kLibraryAlignment);
  const int64_t row = s.kernel[2] * s.in_channels * s.out_channels * kBytes;  // of the filter
  const int64_t in_bytes = s.batch * s.in_channels * Volume(s.in) * kBytes;
  const bool covered = s.kernel[0] * s.out[0] == s.in[0] && s.kernel[1] * s.out[1] == s.in[1];
  const auto run = [=, kernel = s.kernel](const Queue& queue, const KernelContext& context) -> absl::Status {
    char* scratch = AlignedScratch(context);
    if (!covered) LaunchZero(queue, context.outputs[0], in_bytes);
    for (int64_t tap = 0; tap < kernel[0] * kernel[1]; ++tap) {
      void* filter = static_cast<char*>(context.inputs[1]) + tap * row;
      MR_RETURN_IF_ERROR(convolution->Run(queue, {context.inputs[2], filter, scratch}, scratch + library_at));
      LaunchSpreadRows(queue, spread, tap / kernel[1], tap % kernel[1], scratch, context.outputs[0]);
    }
    return absl::OkStatus();
  };
  return MakeLaunch(services, run, library_at + convolution->scratch_bytes() + kLibraryAlignment,
                    absl::StrCat(kSpread, convolution->algorithm()));
}

// With a window of one, the filter's gradient is the product of the pixels' channels: of all at once where channels are last; else
// image by image, and the sum of these, which is worth it where images are not small.
bool IsProduct(const ConvShape& s) {
  constexpr int64_t kFewestPixels = 128;
  return Volume(s.kernel) == 1 && Everywhere([&](int d) { return s.pad[d] == 0 && s.pad_after[d] == 0; }) &&
         (!s.channels_first || s.batch == 1 || Volume(s.out) >= kFewestPixels);
}

// What a stride leaves of the input.
StridedCopy StepsOf(const ConvShape& s) {
  StridedCopy copy;
  copy.rank = 5;
  const int64_t lines = s.channels_first ? s.batch * s.in_channels : s.batch, inner = s.channels_first ? 1 : s.in_channels;
  int64_t from = inner, to = inner;
  copy.elements = lines * inner * Volume(s.out);
  copy.dims[4] = inner;
  copy.from_strides[4] = copy.to_strides[4] = 1;
  for (int d = 2; d >= 0; --d) {
    copy.dims[d + 1] = s.out[d];
    copy.from_strides[d + 1] = from * s.stride[d];
    copy.to_strides[d + 1] = to;
    from *= s.in[d];
    to *= s.out[d];
  }
  copy.dims[0] = lines;
  copy.from_strides[0] = from;
  copy.to_strides[0] = to;
  return copy;
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeProduct(DeviceServices& services, const ConvShape& s) {
  const int64_t pixels = Volume(s.out), in = s.in_channels, out = s.out_channels;
  ProductShape shape;
  shape.m = in;
  shape.n = out;
  shape.stride_c = in * out;
  if (s.channels_first) {
    shape.batch = s.batch;
    shape.k = pixels;
    shape.transpose_b = true;
    shape.stride_a = in * pixels;
    shape.stride_b = out * pixels;
  } else {
    shape.k = s.batch * pixels;
    shape.transpose_a = true;
  }
  MR_ASSIGN_OR_RETURN(std::shared_ptr<Product> product, services.PlanProduct(shape));
  const StridedCopy steps = StepsOf(s);
  const bool all = Everywhere([&](int d) { return s.stride[d] == 1; }), sum = shape.batch > 1;
  // Scratch: what the stride leaves; an image's product after the other; partial sums; the library's own.
  const int64_t products_at = all ? 0 : AlignUp(steps.elements * kBytes, kLibraryAlignment);
  const int64_t sums_at = products_at + (sum ? AlignUp(shape.batch * in * out * kBytes, kLibraryAlignment) : 0);
  const int64_t library_at =
      sums_at + (sum ? AlignUp(ReduceScratchBytes(in * out, shape.batch, true), kLibraryAlignment) : 0);
  const auto run = [=, batch = shape.batch](const Queue& queue, const KernelContext& context) -> absl::Status {
    char* scratch = AlignedScratch(context);
    const void* input = all ? context.inputs[0] : scratch;
    if (!all) LaunchStridedCopy(queue, kBytes, steps, context.inputs[0], scratch);
    void* result = sum ? scratch + products_at : context.outputs[0];
    MR_RETURN_IF_ERROR(product->Run(queue, input, context.inputs[2], nullptr, nullptr, result, scratch + library_at));
    if (sum) LaunchSumColumns(queue, Type::kFloat, &result, 1, batch, in * out, 1, context.outputs[0], scratch + sums_at);
    return absl::OkStatus();
  };
  return MakeLaunch(services, run, library_at + product->scratch_bytes() + kLibraryAlignment, kProduct);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeConvGradient(DeviceServices& services, ConvShape shape, absl::string_view choice) {
  const bool any = choice.empty(), input = shape.part == ConvPart::kInput;
  // Tensor cores have kernels of their own for each part.
  if (shape.type == Type::kFloat && shape.groups == 1 && !services.tf32()) {
    if (input && IsTurned(shape) && (absl::ConsumePrefix(&choice, kTurned) || any)) {
      return MakeTurned(services, shape, std::string(choice));
    }
    if (input && IsSpread(shape) && (absl::ConsumePrefix(&choice, kSpread) || any)) {
      return MakeSpread(services, shape, std::string(choice));
    }
    if (!input && IsProduct(shape) && (choice == kProduct || any)) return MakeProduct(services, shape);
  }
  return absl::UnimplementedError("the gradient of this convolution is no other convolution, and no product");
}

}  // namespace millrace::cuda
