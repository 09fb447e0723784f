// oneDNN (2.x API) as the kernels use it: primitives made once, run from any thread, on one thread each.
//
// oneDNN must never start OpenMP threads of its own: every function here pins the calling thread to one. The
// kernels get parallelism from shards, one primitive run per shard.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_ONEDNN_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_ONEDNN_H_

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <dnnl.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace millrace::cpu::onednn {

// The CPU engine of the process.
const dnnl::engine& Engine();

// Pins the calling thread: before a primitive descriptor is made, and (done by Program) before it runs.
void UseOneThread();

// Attributes that make the caller provide the scratchpad.
dnnl::primitive_attr UserScratchpad();

// A primitive with its arguments' layouts. Immutable: copies share it, and any thread may Run it at any time.
class Program {
 public:
  struct Argument {
    int id;  // DNNL_ARG_SRC, …
    dnnl::memory::desc layout;
  };

  Program() = default;
  // Requires `primitive` made with UserScratchpad().
  Program(const dnnl::primitive& primitive, std::vector<Argument> arguments, const dnnl::memory::desc& scratchpad);
  bool valid() const { return state_ != nullptr; }

  // What Run needs at `scratchpad`, a multiple of kTensorAlignment.
  int64_t scratchpad_bytes() const { return scratchpad_bytes_; }
  // pointers: one per argument, in the constructor's order.
  absl::Status Run(absl::Span<const void* const> pointers, void* scratchpad) const;

 private:
  class State;
  std::shared_ptr<State> state_;
  int64_t scratchpad_bytes_ = 0;
};

// Copies between two layouts of one tensor.
Program MakeReorder(const dnnl::memory::desc& from, const dnnl::memory::desc& to);

// make() with oneDNN's exceptions turned into Unimplemented "oneDNN cannot WHAT: …", of which another kernel may take the place, and
// ResourceExhausted where there was no memory: another kernel then would make other bits.
template <typename Make>
auto Guard(std::string_view what, Make&& make) -> absl::StatusOr<decltype(make())> {
  try {
    UseOneThread();
    return make();
  } catch (const dnnl::error& error) {
    const std::string message = "oneDNN cannot " + std::string(what) + ": " + error.what();
    return error.status == dnnl_out_of_memory ? absl::ResourceExhaustedError(message) : absl::UnimplementedError(message);
  }
}

}  // namespace millrace::cpu::onednn

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_ONEDNN_H_
