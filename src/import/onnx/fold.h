// Computes nodes on the host while a model is read, so that shape arithmetic is known where shapes are needed.
#ifndef MILLRACE_SRC_IMPORT_ONNX_FOLD_H_
#define MILLRACE_SRC_IMPORT_ONNX_FOLD_H_

#include "millrace/graph_builder.h"

namespace millrace::onnx {

// With the CPU device's kernels.
GraphBuilder::Evaluate HostEvaluator();

}  // namespace millrace::onnx

#endif  // MILLRACE_SRC_IMPORT_ONNX_FOLD_H_
