#include "cpu/kernels/onednn.h"

#include <mutex>

#include <omp.h>

#include "absl/strings/str_cat.h"
#include "millrace/types.h"

namespace millrace::cpu::onednn {
namespace {

// A stream is cheap but not for two threads at once.
dnnl_stream_t ThreadStream() {
  thread_local const dnnl::stream stream(Engine());
  return stream.get();
}

// The C handles that one run at a time binds its pointers to.
class Bindings {
 public:
  explicit Bindings(const std::vector<Program::Argument>& arguments) {
    for (const Program::Argument& argument : arguments) {
      memories_.push_back(dnnl::memory(argument.layout, Engine(), DNNL_MEMORY_NONE));
      arguments_.push_back({argument.id, memories_.back().get()});
    }
  }
  void Bind(size_t i, const void* pointer) {
    dnnl_memory_set_data_handle_v2(arguments_[i].memory, const_cast<void*>(pointer), nullptr);
  }
  const std::vector<dnnl_exec_arg_t>& arguments() const { return arguments_; }

 private:
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;
};

}  // namespace

const dnnl::engine& Engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

void UseOneThread() { omp_set_num_threads(1); }

dnnl::primitive_attr UserScratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

// Bindings are made ahead for one run and kept for as many as ever ran at once.
class Program::State {
 public:
  State(const dnnl::primitive& primitive, std::vector<Argument> arguments)
      : primitive_(primitive), arguments_(std::move(arguments)) {
    Release(std::make_unique<Bindings>(arguments_));
  }

  absl::Status Run(absl::Span<const void* const> pointers, void* scratchpad) {
    std::unique_ptr<Bindings> bindings = Acquire();
    for (size_t i = 0; i < pointers.size(); ++i) bindings->Bind(i, pointers[i]);
    if (pointers.size() < arguments_.size()) bindings->Bind(pointers.size(), scratchpad);
    const auto& arguments = bindings->arguments();
    UseOneThread();
    const dnnl_status_t status = dnnl_primitive_execute(primitive_.get(), ThreadStream(),
                                                        static_cast<int>(arguments.size()), arguments.data());
    Release(std::move(bindings));
    if (status == dnnl_success) return absl::OkStatus();
    if (status == dnnl_out_of_memory) return absl::ResourceExhaustedError("oneDNN has no memory to run a primitive");
    return absl::InternalError(absl::StrCat("oneDNN failed to run a primitive: status ", static_cast<int>(status)));
  }

 private:
  std::unique_ptr<Bindings> Acquire() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!free_.empty()) {
        std::unique_ptr<Bindings> bindings = std::move(free_.back());
        free_.pop_back();
        return bindings;
      }
    }
    return std::make_unique<Bindings>(arguments_);
  }
  void Release(std::unique_ptr<Bindings> bindings) {
    const std::lock_guard<std::mutex> lock(mutex_);
    free_.push_back(std::move(bindings));
  }

  const dnnl::primitive primitive_;
  const std::vector<Argument> arguments_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Bindings>> free_;
};

Program::Program(const dnnl::primitive& primitive, std::vector<Argument> arguments,
                 const dnnl::memory::desc& scratchpad)
    : scratchpad_bytes_(AlignUp(static_cast<int64_t>(scratchpad.get_size()))) {
  if (scratchpad_bytes_ > 0) arguments.push_back({DNNL_ARG_SCRATCHPAD, scratchpad});
  state_ = std::make_shared<State>(primitive, std::move(arguments));
}

absl::Status Program::Run(absl::Span<const void* const> pointers, void* scratchpad) const {
  return state_->Run(pointers, scratchpad);
}

Program MakeReorder(const dnnl::memory::desc& from, const dnnl::memory::desc& to) {
  UseOneThread();
  const dnnl::reorder::primitive_desc desc(Engine(), from, Engine(), to, UserScratchpad());
  return Program(dnnl::reorder(desc), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}, desc.scratchpad_desc());
}

}  // namespace millrace::cpu::onednn
