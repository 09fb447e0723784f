// Families of rarer ops. Only register.cc and the family itself need these.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_RARE_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_RARE_H_

#include "cpu/kernels/register.h"

namespace millrace::cpu {

void RegisterLstmKernels(KernelRegistry& registry);
void RegisterGruKernels(KernelRegistry& registry);
void RegisterGlimpseKernels(KernelRegistry& registry);      // ExtractGlimpse
void RegisterAudioKernels(KernelRegistry& registry);        // AudioSpectrogram, Mfcc
void RegisterSuppressionKernels(KernelRegistry& registry);  // NonMaxSuppression*
void RegisterScaleKernels(KernelRegistry& registry);        // ScaleAndTranslate
void RegisterDilationKernels(KernelRegistry& registry);     // Dilation2D
void RegisterRoundTripKernels(KernelRegistry& registry);    // QuantizeAndDequantize*
void RegisterFillRowsKernels(KernelRegistry& registry);     // SparseFillEmptyRows, RaggedFillEmptyRows
void RegisterIsotonicKernels(KernelRegistry& registry);     // IsotonicRegression
void RegisterDecodeKernels(KernelRegistry& registry);  // CTCGreedyDecoder, EditDistance, RaggedTensorToTensor
void RegisterCtcBeamKernels(KernelRegistry& registry);
void RegisterCrossKernels(KernelRegistry& registry);   // SparseCross
void RegisterRaggedKernels(KernelRegistry& registry);  // RaggedRange, RaggedTensorToSparse, RaggedBincount, SparseBincount
void RegisterRaggedGatherKernels(KernelRegistry& registry);
void RegisterRandomRareKernels(KernelRegistry& registry);   // StatelessRandomBinomial, StatelessParameterizedTruncatedNormal
void RegisterSampleBoxesKernels(KernelRegistry& registry);  // SampleDistortedBoundingBox
void RegisterStringNumberKernels(KernelRegistry& registry);  // StringToHashBucket*, tables
void RegisterStringCodeKernels(KernelRegistry& registry);   // DecodeRaw, base 64, Unicode*
// A kernel with what StringCodes (graph/string_codes.h) makes of the node.
absl::StatusOr<std::unique_ptr<Kernel>> MakeStringCodes(const OpInstance& instance);
void RegisterSetKernels(KernelRegistry& registry);          // SetSize, *SetOperation
void RegisterFractionalPoolKernels(KernelRegistry& registry);
void RegisterResizeAreaKernels(KernelRegistry& registry);
void RegisterTridiagonalKernels(KernelRegistry& registry);
void RegisterSpecialRareKernels(KernelRegistry& registry);  // Bessel functions, integrals, Betainc
void RegisterSparseAlgebraKernels(KernelRegistry& registry);  // SparseAdd, SparseConcat, SparseSlice, SparseReduceSum
void RegisterAccumulatorKernels(KernelRegistry& registry);  // conditional accumulators of gradients
void RegisterQueueKernels(KernelRegistry& registry);        // queues of numbers
void RegisterWriteFileKernels(KernelRegistry& registry);    // WriteFile
void RegisterTableKernels(KernelRegistry& registry);        // tables that steps change

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_RARE_H_
