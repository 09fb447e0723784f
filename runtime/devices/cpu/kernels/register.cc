#include "cpu/kernels/complex.h"
#include "cpu/kernels/cudnn_rnn.h"
#include "cpu/kernels/families.h"
#include "cpu/kernels/guarded.h"
#include "cpu/kernels/rare.h"
#include "cpu/kernels/rarest.h"

#include "glog/logging.h"

namespace millrace::cpu {

void AddKernel(KernelRegistry& registry, std::string_view op, KernelFactory factory) {
  const absl::Status status = registry.Register(op, Guarded(WithComplex(op, std::move(factory))));
  CHECK(status.ok()) << status.ToString();
}

void RegisterCpuKernels(KernelRegistry& registry) {
  RegisterGraphKernels(registry);
  RegisterMatMulKernels(registry);
  RegisterEinsumKernels(registry);
  RegisterConvKernels(registry);
  RegisterBatchNormKernels(registry);
  RegisterLrnKernels(registry);
  RegisterPoolKernels(registry);
  RegisterSoftmaxKernels(registry);
  RegisterLossKernels(registry);
  RegisterRandomKernels(registry);
  RegisterStatelessRandomKernels(registry);
  RegisterVariableKernels(registry);
  RegisterVariableScatterKernels(registry);
  RegisterOptimizerKernels(registry);
  RegisterSparseOptimizerKernels(registry);
  RegisterElementwiseKernels(registry);
  RegisterReductionKernels(registry);
  RegisterArgReductionKernels(registry);
  RegisterCumulativeKernels(registry);
  RegisterShapeKernels(registry);
  RegisterConcatSplitKernels(registry);
  RegisterSliceKernels(registry);
  RegisterPadKernels(registry);
  RegisterGatherKernels(registry);
  RegisterScatterKernels(registry);
  RegisterSegmentKernels(registry);
  RegisterUniqueKernels(registry);
  RegisterResizeKernels(registry);
  RegisterCtcKernels(registry);
  RegisterLayoutKernels(registry);
  RegisterTopKKernels(registry);
  RegisterDiagonalKernels(registry);
  RegisterStringKernels(registry);
  RegisterStringNumberKernels(registry);
  RegisterRankKernels(registry);
  RegisterColourKernels(registry);
  RegisterProjectKernels(registry);
  RegisterCropKernels(registry);
  RegisterCountingKernels(registry);
  RegisterRandomGammaKernels(registry);
  RegisterRandomGeneratorKernels(registry);
  RegisterCandidateKernels(registry);
  RegisterFakeQuantKernels(registry);
  RegisterLinalgKernels(registry);
  RegisterDecomposeKernels(registry);
  RegisterSingularValueKernels(registry);
  RegisterMatrixRootKernels(registry);
  RegisterEigenvalueKernels(registry);
  RegisterSparseKernels(registry);
  RegisterMaxPoolArgmaxKernels(registry);
  RegisterComplexKernels(registry);
  RegisterFourierKernels(registry);
  RegisterLstmKernels(registry);
  RegisterGruKernels(registry);
  RegisterAudioKernels(registry);
  RegisterGlimpseKernels(registry);
  RegisterCudnnRnnKernels(registry);
  RegisterSuppressionKernels(registry);
  RegisterScaleKernels(registry);
  RegisterDilationKernels(registry);
  RegisterRoundTripKernels(registry);
  RegisterQuantizeKernels(registry);
  RegisterQuantizedKernels(registry);
  RegisterClusteringKernels(registry);
  RegisterIndexShuffleKernels(registry);
  RegisterSparseProductKernels(registry);
  RegisterDrawBoxesKernels(registry);
  RegisterArgmaxGatherKernels(registry);
  RegisterUnicodeScriptKernels(registry);
  RegisterFillRowsKernels(registry);
  RegisterIsotonicKernels(registry);
  RegisterSpecialRareKernels(registry);
  RegisterResizeAreaKernels(registry);
  RegisterTridiagonalKernels(registry);
  RegisterDecodeKernels(registry);
  RegisterCtcBeamKernels(registry);
  RegisterCrossKernels(registry);
  RegisterRaggedKernels(registry);
  RegisterRaggedGatherKernels(registry);
  RegisterRandomRareKernels(registry);
  RegisterSampleBoxesKernels(registry);
  RegisterSetKernels(registry);
  RegisterFractionalPoolKernels(registry);
  RegisterSparseAlgebraKernels(registry);
  RegisterTableKernels(registry);
  RegisterWriteFileKernels(registry);
  RegisterStringCodeKernels(registry);
  RegisterAccumulatorKernels(registry);
  RegisterQueueKernels(registry);
}

}  // namespace millrace::cpu
