// The families of built-in ops, one function and one source file each. RegisterBuiltinOps calls them all.
#ifndef MILLRACE_SRC_OPS_REGISTER_H_
#define MILLRACE_SRC_OPS_REGISTER_H_

#include "millrace/op.h"

namespace millrace {

void RegisterBuiltinOps(OpRegistry& registry);

void RegisterGraphOps(OpRegistry& registry);        // Const, Placeholder, Identity, NoOp, ours
void RegisterVariableOps(OpRegistry& registry);     // VariableV2, VarHandleOp, Assign, reads
void RegisterVariableScatterOps(OpRegistry& registry);  // Scatter*, ResourceScatter*
void RegisterOptimizerOps(OpRegistry& registry);    // Apply*, ResourceApply*
void RegisterElementwiseOps(OpRegistry& registry);  // unary, binary, Cast, Select, AddN
void RegisterFusedOps(OpRegistry& registry);        // groups of elementwise ops
void RegisterShapeOps(OpRegistry& registry);        // Shape, Reshape, BroadcastGradientArgs
void RegisterArrayOps(OpRegistry& registry);        // Concat, Pack, Split, Pad, Tile, Transpose
void RegisterSliceOps(OpRegistry& registry);        // Slice, StridedSlice and its gradient
void RegisterGatherScatterOps(OpRegistry& registry);  // Gather*, Scatter*, DynamicStitch, OneHot
void RegisterSegmentOps(OpRegistry& registry);      // SegmentSum, UnsortedSegmentSum, Unique, Where
void RegisterDiagonalOps(OpRegistry& registry);     // MatrixDiag*, MatrixSetDiag*, MatrixBandPart
void RegisterStringOps(OpRegistry& registry);       // Assert, Print, summaries
void RegisterLayoutOps(OpRegistry& registry);       // Reverse, Roll, SpaceToBatch, TopK, patches
void RegisterReductionOps(OpRegistry& registry);    // Sum, Mean, Max, ArgMax, L2Loss, Cumsum
void RegisterMatMulOps(OpRegistry& registry);       // MatMul, BatchMatMulV2, Einsum
void RegisterConvOps(OpRegistry& registry);         // Conv2D and its gradients, 3-D, depthwise
void RegisterNormOps(OpRegistry& registry);         // FusedBatchNormV3, LRN
void RegisterPoolOps(OpRegistry& registry);         // MaxPool, AvgPool, 2-D and 3-D
void RegisterLossOps(OpRegistry& registry);         // Softmax, cross entropies
void RegisterRandomOps(OpRegistry& registry);       // RandomUniform, StatelessRandomUniformV2
void RegisterImageOps(OpRegistry& registry);        // ResizeBilinear
void RegisterCtcOps(OpRegistry& registry);          // CTCLoss
void RegisterRankOps(OpRegistry& registry);         // InTopK, NthElement
void RegisterPictureOps(OpRegistry& registry);      // colours, projections, crops
void RegisterCountingOps(OpRegistry& registry);     // Bincount, UnravelIndex, InplaceUpdate and the like
void RegisterSamplingOps(OpRegistry& registry);     // generators, gamma, Poisson, candidate samplers
void RegisterQuantizeOps(OpRegistry& registry);
void RegisterLinalgOps(OpRegistry& registry);
void RegisterSparseOps(OpRegistry& registry);
void RegisterComplexOps(OpRegistry& registry);      // Complex, Real, FFT

}  // namespace millrace

#endif  // MILLRACE_SRC_OPS_REGISTER_H_
