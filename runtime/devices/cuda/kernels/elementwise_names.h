// TensorFlow's names of the elementwise ops.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_KERNELS_ELEMENTWISE_NAMES_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_KERNELS_ELEMENTWISE_NAMES_H_

#include <map>
#include <string>

#include "cuda/launch/elementwise_ops.h"
#include "millrace/op.h"

namespace millrace::cuda {

const std::map<std::string, UnaryOp>& UnaryOps();
const std::map<std::string, BinaryOp>& BinaryOps();
const std::map<std::string, CompareOp>& CompareOps();
const std::map<std::string, LogicalOp>& LogicalOps();
// The slope of the ops that have one.
double AlphaOf(const OpInstance& instance);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_KERNELS_ELEMENTWISE_NAMES_H_
