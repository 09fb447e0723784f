#include "ops/register.h"

#include "ops/rare.h"
#include "ops/rarest.h"

namespace millrace {

void RegisterBuiltinOps(OpRegistry& registry) {
  RegisterGraphOps(registry);
  RegisterMatMulOps(registry);
  RegisterConvOps(registry);
  RegisterNormOps(registry);
  RegisterPoolOps(registry);
  RegisterLossOps(registry);
  RegisterRandomOps(registry);
  RegisterVariableOps(registry);
  RegisterVariableScatterOps(registry);
  RegisterOptimizerOps(registry);
  RegisterElementwiseOps(registry);
  RegisterFusedOps(registry);
  RegisterReductionOps(registry);
  RegisterShapeOps(registry);
  RegisterArrayOps(registry);
  RegisterSliceOps(registry);
  RegisterGatherScatterOps(registry);
  RegisterSegmentOps(registry);
  RegisterImageOps(registry);
  RegisterCtcOps(registry);
  RegisterDiagonalOps(registry);
  RegisterLayoutOps(registry);
  RegisterStringOps(registry);
  RegisterRankOps(registry);
  RegisterPictureOps(registry);
  RegisterCountingOps(registry);
  RegisterSamplingOps(registry);
  RegisterQuantizeOps(registry);
  RegisterLinalgOps(registry);
  RegisterSparseOps(registry);
  RegisterComplexOps(registry);
  RegisterRecurrentOps(registry);
  RegisterAudioOps(registry);
  RegisterCudnnRnnOps(registry);
  RegisterRarePictureOps(registry);
  RegisterClusteringOps(registry);
  RegisterQuantizedOps(registry);
  RegisterSpecialOps(registry);
  RegisterTableOps(registry);
  RegisterAccumulatorOps(registry);
  RegisterQueueOps(registry);
  RegisterDecoderOps(registry);
  RegisterRaggedOps(registry);
  RegisterSparseAlgebraOps(registry);
}

}  // namespace millrace
