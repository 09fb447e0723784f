// Families of rarer ops. Only register.cc and the family itself need these.
#ifndef MILLRACE_SRC_OPS_RARE_H_
#define MILLRACE_SRC_OPS_RARE_H_

#include "millrace/op.h"

namespace millrace {

void RegisterRecurrentOps(OpRegistry& registry);  // LSTMBlockCell, BlockLSTM, GRUBlockCell and their gradients
void RegisterAudioOps(OpRegistry& registry);  // AudioSpectrogram, Mfcc
void RegisterCudnnRnnOps(OpRegistry& registry);  // CudnnRNN, its gradient, its weights
void RegisterSparseAlgebraOps(OpRegistry& registry);  // SparseAdd, SparseConcat, SparseSlice, SparseReduceSum
void RegisterDecoderOps(OpRegistry& registry);  // CTCGreedyDecoder, EditDistance, Fractional*Pool, RaggedTensorToTensor
void RegisterRaggedOps(OpRegistry& registry);  // RaggedRange, RaggedTensorToSparse, *Bincount, *CountSparseOutput, SparseCross
void RegisterSpecialOps(OpRegistry& registry);      // Bessel functions, integrals, Betainc
void RegisterRarePictureOps(OpRegistry& registry);  // NonMaxSuppression, ScaleAndTranslate, Dilation2D
void RegisterAccumulatorOps(OpRegistry& registry);     // conditional accumulators of gradients
void RegisterQueueOps(OpRegistry& registry);           // queues of numbers
void RegisterTableOps(OpRegistry& registry);           // tables that steps change

}  // namespace millrace

#endif  // MILLRACE_SRC_OPS_RARE_H_
