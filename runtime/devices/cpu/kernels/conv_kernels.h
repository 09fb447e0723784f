// Makers of convolution kernels; conv.cc chooses between them.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_CONV_KERNELS_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_CONV_KERNELS_H_

#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "cpu/kernels/conv_geometry.h"
#include "millrace/kernel.h"

namespace millrace::cpu {

// The node's inputs are TensorFlow's: input and filter; sizes, filter and output gradient; input, sizes and output
// gradient.
//
// float32 by oneDNN. Unimplemented when oneDNN refuses the geometry, or (without `any_code`) has only reference code
// for it.
absl::StatusOr<std::unique_ptr<Kernel>> MakeOneDnnConv(const ConvGeometry& geometry, ConvKind kind, bool any_code = true);

// float32 3x3 layers with stride 1, channels last and whole vectors of channels, by minimal filtering; nullptr for
// others. WinogradIsFaster says for which of them oneDNN's direct sums take longer (bench/conv_bench.cc).
std::unique_ptr<Kernel> MakeWinogradConv(const ConvGeometry& geometry, ConvKind kind);
bool WinogradIsFaster(const ConvGeometry& geometry, ConvKind kind);

// float32, float64 and int32 of any geometry, by plain loops.
absl::StatusOr<std::unique_ptr<Kernel>> MakeLoopConv(const OpInstance& instance, DataType dtype, const ConvGeometry& geometry,
                                                     ConvKind kind);

// float32 and float64 with channels last and one group, by matrix products of patches.
absl::StatusOr<std::unique_ptr<Kernel>> MakeGemmConv(const OpInstance& instance, const ConvGeometry& geometry,
                                                     ConvKind kind, DataType dtype = DataType::kFloat);

// float32 and float64 depthwise layers with channels last. Requires groups == in_channels == out_channels and 2 spatial dimensions.
std::unique_ptr<Kernel> MakeDepthwiseConv(const ConvGeometry& geometry, ConvKind kind, DataType dtype = DataType::kFloat);
// The same in float32 of few channels that do not fill vectors; nullptr for others.
std::unique_ptr<Kernel> MakeNarrowDepthwiseConv(const ConvGeometry& geometry, ConvKind kind);

// Makes the float32 kernel of a geometry.
using FloatConvMaker = absl::FunctionRef<absl::StatusOr<std::unique_ptr<Kernel>>(const ConvGeometry&)>;

// half and bfloat16 by the kernel of float32 that `make` chooses, results rounded once. An image whose copies take more than `slab_bytes` is
// computed in slabs of about as much.
inline constexpr int64_t kConvSlabBytes = int64_t{32} << 20;
absl::StatusOr<std::unique_ptr<Kernel>> MakeWidenedConv(DataType dtype, const ConvGeometry& geometry, ConvKind kind, FloatConvMaker make,
                                                        int64_t slab_bytes = kConvSlabBytes);

// float32 depthwise layers with channels last by `make`'s kernel of a layer with a multiplier of 1 and as many output channels.
// An image whose spread copy takes more than kConvSlabBytes is computed in slabs, too.
absl::StatusOr<std::unique_ptr<Kernel>> MakeSpreadDepthwiseConv(const ConvGeometry& geometry, ConvKind kind, FloatConvMaker make);

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_CONV_KERNELS_H_
