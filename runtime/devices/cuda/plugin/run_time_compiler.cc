#include "cuda/plugin/run_time_compiler.h"

#include <dlfcn.h>
#include <limits.h>
#include <nvrtc.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <iterator>
#include <list>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cuda/plugin/kernel_headers.h"
#include "graph/exceptions.h"
#include "millrace/status.h"

namespace millrace::cuda {
namespace {

// NVRTC's functions; the library is not linked, so that the plugin loads without it.
struct Nvrtc {
  decltype(&nvrtcCreateProgram) create = nullptr;
  decltype(&nvrtcDestroyProgram) destroy = nullptr;
  decltype(&nvrtcCompileProgram) compile = nullptr;
  decltype(&nvrtcGetProgramLogSize) log_size = nullptr;
  decltype(&nvrtcGetProgramLog) log = nullptr;
  decltype(&nvrtcGetCUBINSize) cubin_size = nullptr;
  decltype(&nvrtcGetCUBIN) cubin = nullptr;
  decltype(&nvrtcGetPTXSize) ptx_size = nullptr;
  decltype(&nvrtcGetPTX) ptx = nullptr;
  decltype(&nvrtcGetNumSupportedArchs) architecture_count = nullptr;
  decltype(&nvrtcGetSupportedArchs) architectures = nullptr;
  decltype(&nvrtcGetErrorString) error = nullptr;
  std::string missing;
};

template <typename Function>
void Find(void* library, const char* name, Function& function, std::string& missing) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) missing = absl::StrCat("NVRTC has no ", name);
}

// NVRTC opens its other library by a bare name, which the loader may not know in the folder that NVRTC was found in: one that is
// loaded already, from there, bears the name.
void LoadBuiltins(void* nvrtc) {
  decltype(&nvrtcVersion) version = nullptr;
  std::string missing;
  Find(nvrtc, "nvrtcVersion", version, missing);
  char folder[PATH_MAX] = "";
  int major = 0, minor = 0;
  if (version == nullptr || version(&major, &minor) != NVRTC_SUCCESS || dlinfo(nvrtc, RTLD_DI_ORIGIN, folder) != 0) return;
  dlopen(absl::StrCat(folder, "/libnvrtc-builtins.so.", major, ".", minor).c_str(), RTLD_NOW | RTLD_LOCAL);
}

Nvrtc LoadNvrtc() {
  Nvrtc nvrtc;
  void* library = nullptr;
  const std::string numbered = absl::StrCat("libnvrtc.so.", MILLRACE_CUDA_MAJOR);
  std::vector<std::string> names = {numbered};
  for (const absl::string_view folder : absl::StrSplit(MILLRACE_CUDA_LIBRARIES, ':', absl::SkipEmpty())) {
    names.push_back(absl::StrCat(folder, "/", numbered));
    names.push_back(absl::StrCat(folder, "/libnvrtc.so"));
  }
  names.push_back("libnvrtc.so");
  for (const std::string& name : names) {
    if (library == nullptr) library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) {
    nvrtc.missing = absl::StrCat(numbered, " was not found");
    return nvrtc;
  }
  LoadBuiltins(library);
  Find(library, "nvrtcCreateProgram", nvrtc.create, nvrtc.missing);
  Find(library, "nvrtcDestroyProgram", nvrtc.destroy, nvrtc.missing);
  Find(library, "nvrtcCompileProgram", nvrtc.compile, nvrtc.missing);
  Find(library, "nvrtcGetProgramLogSize", nvrtc.log_size, nvrtc.missing);
  Find(library, "nvrtcGetProgramLog", nvrtc.log, nvrtc.missing);
  Find(library, "nvrtcGetCUBINSize", nvrtc.cubin_size, nvrtc.missing);
  Find(library, "nvrtcGetCUBIN", nvrtc.cubin, nvrtc.missing);
  Find(library, "nvrtcGetPTXSize", nvrtc.ptx_size, nvrtc.missing);
  Find(library, "nvrtcGetPTX", nvrtc.ptx, nvrtc.missing);
  Find(library, "nvrtcGetNumSupportedArchs", nvrtc.architecture_count, nvrtc.missing);
  Find(library, "nvrtcGetSupportedArchs", nvrtc.architectures, nvrtc.missing);
  Find(library, "nvrtcGetErrorString", nvrtc.error, nvrtc.missing);
  return nvrtc;
}

class Program {
 public:
  explicit Program(const Nvrtc& nvrtc) : nvrtc_(nvrtc) {}
  ~Program() {
    if (program_ != nullptr) nvrtc_.destroy(&program_);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  absl::StatusOr<CompiledText> Compile(const std::string& source, const std::string& architecture) {
    std::vector<const char*> texts, names;
    for (const KernelHeader& header : KernelHeaders()) {
      texts.push_back(header.text);
      names.push_back(header.name);
    }
    MR_RETURN_IF_ERROR(Check(nvrtc_.create(&program_, source.c_str(), "fused.cu", static_cast<int>(texts.size()),
                                           texts.data(), names.data()),
                             "nvrtcCreateProgram"));
    const std::string target = absl::StrCat("--gpu-architecture=", architecture);
    const char* const options[] = {target.c_str(), "--std=c++20", "--fmad=false"};
    const nvrtcResult compiled = nvrtc_.compile(program_, 3, options);
    CompiledText text;
    size_t bytes = 0;
    if (nvrtc_.log_size(program_, &bytes) == NVRTC_SUCCESS && bytes > 1) {
      text.log.resize(bytes);
      static_cast<void>(nvrtc_.log(program_, text.log.data()));
      text.log.resize(bytes - 1);
    }
    if (compiled != NVRTC_SUCCESS) {
      return absl::InternalError(absl::StrCat("compiling a fused kernel: ", nvrtc_.error(compiled), "\n", text.log));
    }
    const bool ptx = architecture.rfind("compute_", 0) == 0;
    MR_RETURN_IF_ERROR(Check((ptx ? nvrtc_.ptx_size : nvrtc_.cubin_size)(program_, &bytes), "the size of compiled code"));
    text.code.resize(bytes);
    MR_RETURN_IF_ERROR(Check((ptx ? nvrtc_.ptx : nvrtc_.cubin)(program_, text.code.data()), "compiled code"));
    return text;
  }

 private:
  absl::Status Check(nvrtcResult result, const char* call) const {
    if (result == NVRTC_SUCCESS) return absl::OkStatus();
    return absl::InternalError(absl::StrCat(call, ": ", nvrtc_.error(result)));
  }

  const Nvrtc& nvrtc_;
  nvrtcProgram program_ = nullptr;
};

const Nvrtc& TheNvrtc() {
  static const Nvrtc* const nvrtc = new Nvrtc(LoadNvrtc());
  return *nvrtc;
}

}  // namespace

struct Compilation::Text {
  const std::string key, source, architecture;
  bool done = false;
  absl::StatusOr<CompiledText> compiled = absl::UnknownError("it is not done yet");
};

namespace {

// Kept while the process lives, by architecture and text.
class Compilations {
 public:
  Compilation Start(const std::string& source, const std::string& architecture) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const std::string key = absl::StrCat(architecture, "\n", source);
    const auto known = known_.find(key);
    if (known != known_.end()) return Compilation(known->second);
    if (known_.size() >= kMost) {
      std::erase_if(known_, [](const auto& entry) { return entry.second->done; });
    }
    const auto text = std::make_shared<Compilation::Text>(Compilation::Text{key, source, architecture});
    known_[key] = text;
    waiting_.push_back(text);
    AddWorker();
    return Compilation(text);
  }

  const absl::StatusOr<CompiledText>& Wait(const Compilation::Text& text) {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!text.done) {
      if (workers_ > 0) {
        changed_.wait(lock);
        continue;
      }
      // Where the system has no more threads, whoever needs the code compiles it.
      ++workers_;
      Work(lock);
    }
    return text.compiled;
  }

  void WaitForThoseThatNobodyNeeds() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return std::all_of(compiling_.begin(), compiling_.end(), IsHeld); });
  }

 private:
  using TextPtr = std::shared_ptr<Compilation::Text>;
  static constexpr size_t kMost = 1024;  // some 20 MB; sessions hold what they use

  // Beside the list that it is in, and `known_`, from which it is handed out under the mutex alone.
  static bool IsHeld(const TextPtr& text) { return text.use_count() > 2; }

  void AddWorker() {
    if (workers_ >= std::max(1, static_cast<int>(std::thread::hardware_concurrency()))) return;
    ++workers_;
    try {
      std::thread([this] {
        std::unique_lock<std::mutex> lock(mutex_);
        Work(lock);
      }).detach();
    } catch (const std::exception&) {
      --workers_;  // those that are there do it, or who waits
    }
  }

  // One of `workers_`, until nothing waits.
  void Work(std::unique_lock<std::mutex>& lock) {
    while (!waiting_.empty()) {
      const auto at = waiting_.begin();
      compiling_.splice(compiling_.end(), waiting_, at);
      Compilation::Text& text = **at;
      if (IsHeld(*at)) {
        lock.unlock();
        text.compiled = WithoutExceptions([&] { return CompileAtRunTime(text.source, text.architecture); });
        lock.lock();
        text.done = true;
      } else {
        known_.erase(text.key);
      }
      compiling_.erase(at);
      changed_.notify_all();
    }
    --workers_;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  int workers_ = 0;
  std::list<TextPtr> waiting_, compiling_;
  std::unordered_map<std::string, TextPtr> known_;
};

// Threads that nobody joins have it until the process ends.
Compilations& TheCompilations() {
  static auto* const compilations = new Compilations;
  return *compilations;
}

}  // namespace

std::string ArchitectureFor(int capability, const std::vector<int>& known) {
  const auto next = std::upper_bound(known.begin(), known.end(), capability);
  // One that is older than all is left to the compiler to refuse.
  const int last = next == known.begin() ? capability : *std::prev(next);
  return absl::StrCat(last == capability ? "sm_" : "compute_", last);
}

absl::StatusOr<std::string> ArchitectureFor(int capability) {
  const Nvrtc& nvrtc = TheNvrtc();
  if (!nvrtc.missing.empty()) return absl::UnimplementedError(nvrtc.missing);
  int count = 0;
  nvrtcResult result = nvrtc.architecture_count(&count);
  std::vector<int> known(count);
  if (result == NVRTC_SUCCESS) result = nvrtc.architectures(known.data());
  if (result != NVRTC_SUCCESS) return absl::InternalError(absl::StrCat("the architectures that NVRTC knows: ", nvrtc.error(result)));
  return ArchitectureFor(capability, known);
}

absl::StatusOr<CompiledText> CompileAtRunTime(const std::string& source, const std::string& architecture) {
  if (!TheNvrtc().missing.empty()) return absl::UnimplementedError(TheNvrtc().missing);
  return Program(TheNvrtc()).Compile(source, architecture);
}

absl::StatusOr<Compilation> StartCompiling(const std::string& source, const std::string& architecture) {
  if (!TheNvrtc().missing.empty()) return absl::UnimplementedError(TheNvrtc().missing);
  return TheCompilations().Start(source, architecture);
}

const absl::StatusOr<CompiledText>& Compilation::get() const { return TheCompilations().Wait(*text_); }

void WaitForCompilersThatNobodyNeeds() { TheCompilations().WaitForThoseThatNobodyNeeds(); }

}  // namespace millrace::cuda
