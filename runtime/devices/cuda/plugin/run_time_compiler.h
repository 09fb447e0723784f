// Compiles kernels while the program runs, by NVRTC where its library is found. Needs no device.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_PLUGIN_RUN_TIME_COMPILER_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_PLUGIN_RUN_TIME_COMPILER_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace millrace::cuda {

struct CompiledText {
  std::string code;  // a cubin, or PTX
  std::string log;   // warnings
};

// What is compiled for a device of that compute capability (90 for 9.0): its own code, "sm_90", where the compiler knows that, else PTX of
// the last one before it, "compute_90", which the device's driver assembles. `known` rises.
std::string ArchitectureFor(int capability, const std::vector<int>& known);
// By what NVRTC knows; Unimplemented where it is not there. Any thread.
absl::StatusOr<std::string> ArchitectureFor(int capability);

// `architecture`: "sm_90" for a cubin, "compute_90" for PTX. The text may include the kernels' headers (fused_body.h).
// No fused multiply-adds and no fast math, as in the kernels compiled beforehand. Unimplemented where NVRTC is not there;
// Internal with the compiler's words where it does not take the text. Any thread.
absl::StatusOr<CompiledText> CompileAtRunTime(const std::string& source, const std::string& architecture);

// A text that waits for its turn, is being compiled, or has been. Copies are the same one, which is held as long as one of them is there.
class Compilation {
 public:
  struct Text;
  explicit Compilation(std::shared_ptr<Text> text) : text_(std::move(text)) {}
  // Waits. It stays as long as this is held. Any thread.
  const absl::StatusOr<CompiledText>& get() const;

 private:
  std::shared_ptr<Text> text_;
};

// The same beside the caller, as many texts at a time as the machine has cores. Equal texts are compiled once in a process, whatever
// devices and sessions ask for them; what nobody holds when its turn comes is not compiled. Unimplemented at once where NVRTC is not
// there. Any thread.
absl::StatusOr<Compilation> StartCompiling(const std::string& source, const std::string& architecture);
// Until nothing that nobody holds is being compiled: no compiler is to run when the program ends. Any thread.
void WaitForCompilersThatNobodyNeeds();

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_PLUGIN_RUN_TIME_COMPILER_H_
