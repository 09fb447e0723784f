// Kernels: the code that computes a node on a device. To add an op of one's own: describe it (op.h), write a
// Kernel, register both, and hand the registries to SessionOptions.
//
// A Kernel is immutable and may be shared by every node with an equal OpInstance and run by several threads at
// once: what a run needs beyond its arguments is scratch memory, which the plan provides.
#ifndef MILLRACE_KERNEL_H_
#define MILLRACE_KERNEL_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "millrace/op.h"

namespace millrace {

// Runs shards of one kernel side by side. The caller fixes the shards (never from the number of threads), so
// that results do not depend on it.
class ParallelRunner {
 public:
  virtual ~ParallelRunner() = default;
  // Calls fn(0) … fn(shards-1), in any order, perhaps at once; returns when all are done. What one of them throws is thrown
  // here.
  virtual void For(int64_t shards, absl::FunctionRef<void(int64_t)> fn) = 0;
};

// Arguments of one run. Pointers are in the device's memory, aligned to kTensorAlignment.
class KernelContext {
 public:
  const OpInstance* instance = nullptr;
  void* const* inputs = nullptr;   // of a variable: its memory on the device
  void* const* outputs = nullptr;  // of a returned variable: its memory
  void* scratch = nullptr;         // Kernel::scratch_bytes() bytes
  void* state = nullptr;           // OpDef::state_bytes bytes that persist over steps (host memory)
  ParallelRunner* parallel = nullptr;
  void* stream = nullptr;          // the device's queue (cudaStream_t); nullptr on the CPU
  uint64_t seed = 0;               // --seed, for random ops without seeds of their own
  // Whether the variable of input i held a value before this node (VarIsInitializedOp).
  const bool* const* initialized = nullptr;
  // Set by kernels whose output is smaller than its bound (MarkBound): one entry per output, else nullptr. A shape of another rank than the
  // bound's, or larger in a dimension, is an error.
  Shape* output_shapes = nullptr;

  template <typename T>
  const T* input(int i) const { return static_cast<const T*>(inputs[i]); }
  template <typename T>
  T* output(int i) const { return static_cast<T*>(outputs[i]); }
  const TensorType& input_type(int i) const { return instance->inputs[i]; }
  const TensorType& output_type(int i) const { return instance->outputs[i]; }
  // A variable that this node updates.
  template <typename T>
  T* variable(int i) const { return static_cast<T*>(inputs[i]); }
};

inline constexpr char kKernelChoice[] = "_choice";

class Kernel {
 public:
  virtual ~Kernel() = default;
  // Scratch that Run needs, in the device's memory, 0 or more.
  virtual int64_t scratch_bytes() const { return 0; }
  // What the kernel has chosen among ways to compute that differ in time and perhaps in bits, where there are several;
  // the factory takes it from the attribute kKernelChoice, so that a plan that holds it gives the same bits again.
  virtual std::string choice() const { return ""; }
  // Computes the outputs. Errors (an index out of range, a failed assertion) name what was wrong; the runtime
  // adds the node's name. An exception becomes the step's error: ResourceExhausted for std::bad_alloc, Internal for any other.
  virtual absl::Status Run(const KernelContext& context) const = 0;
};

// Makes the kernel of one node. Unimplemented when this dtype or attribute is not covered: say which are.
using KernelFactory = std::function<absl::StatusOr<std::unique_ptr<Kernel>>(const OpInstance&)>;

// A device's kernels by op name.
class KernelRegistry {
 public:
  // AlreadyExists when the op has a kernel, as every built-in one has in a copy of CpuKernels(); InvalidArgument without a name or a factory.
  absl::Status Register(std::string_view op, KernelFactory factory);
  const KernelFactory* Find(std::string_view op) const;  // nullptr when there is none
  std::vector<std::string> Names() const;                // sorted

 private:
  std::unordered_map<std::string, KernelFactory> factories_;
};

}  // namespace millrace

#endif  // MILLRACE_KERNEL_H_
