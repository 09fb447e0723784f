// What every launcher takes: the stream to run on and the word to report faults in.
//
// Launchers (launch/*.h) are plain functions on plain pointers. Their sources (launch/*.cu) are compiled twice: by
// nvcc for the plugin, and by the host's compiler, where a launch is a loop, so that what the kernels compute is tested
// on machines without a device.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_QUEUE_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_QUEUE_H_

#include "cuda/launch/scalar.h"

namespace millrace::cuda {

// What a kernel found wrong with its inputs. The first one stands; kernels launched later do nothing. kOnHost: the
// kernel ran on the host, which has the error. kElsewhere: it ran on another device (TakeOverFault), and none from `position` on here.
enum class FaultCode : int32_t {
  kNone = 0, kIndexOutOfRange = 1, kNotFinite = 2, kBadLabel = 3, kOnHost = 4, kDivisionByZero = 5, kElsewhere = 6, kTupleOutOfRange = 7,
  kBadSequence = 8, kNotSorted = 9, kNotBelow = 10, kBadRange = 11, kNotInvertible = 12, kAssertion = 13
};

// Numbers of an index tuple, or elements that an assertion shows, at most.
inline constexpr int kMostInTuple = 8;

struct Fault {
  FaultCode code = FaultCode::kNone;
  int32_t detail = 0;    // which input, or what was found (NotFinite, CtcFault)
  int64_t position = 0;  // of the step in the plan
  int64_t value = 0;
  int64_t limit = 0;
  int64_t at = -1;       // which element, or tuple, of the input; -1: that is not known
  int64_t tuple[kMostInTuple] = {};  // of elements, the first bytes
};

// Whether something was found wrong already. Threads may look while another one reports.
MR_DEVICE inline bool HasFault(const Fault* fault) {
#if defined(__SANITIZE_THREAD__) && !defined(__CUDACC__)
  return __atomic_load_n(reinterpret_cast<const int32_t*>(&fault->code), __ATOMIC_RELAXED) != 0;
#else
  return fault->code != FaultCode::kNone;
#endif
}

struct Queue {
  void* stream = nullptr;  // cudaStream_t
  Fault* fault = nullptr;  // in memory that the kernels reach
  int64_t position = 0;
};

// Element types as launchers know them.
enum class Type : int32_t { kFloat, kDouble, kHalf, kBfloat16, kInt8, kInt16, kInt32, kInt64, kUint8, kUint16, kUint32, kUint64, kBool };

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_QUEUE_H_
