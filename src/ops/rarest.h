// The rarest families of ops. Only register.cc and the family itself need these.
#ifndef MILLRACE_SRC_OPS_RAREST_H_
#define MILLRACE_SRC_OPS_RAREST_H_

#include "millrace/op.h"

namespace millrace {

void RegisterQuantizedOps(OpRegistry& registry);   // QuantizedConv2D, Requantize
void RegisterClusteringOps(OpRegistry& registry);  // NearestNeighbors, KmeansPlusPlusInitialization

}  // namespace millrace

#endif  // MILLRACE_SRC_OPS_RAREST_H_
