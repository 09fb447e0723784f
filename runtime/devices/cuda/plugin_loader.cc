#include "cuda/plugin_loader.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace millrace::cuda {
namespace {

// The folder of the library that this code is in. Empty where it is a program's own, which dladdr may know by a relative name.
std::filesystem::path FolderOfLibrary() {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&FolderOfLibrary), &info) == 0 || info.dli_fname == nullptr) return {};
  const std::filesystem::path library = info.dli_fname;
  return library.is_absolute() ? library.parent_path() : std::filesystem::path();
}

std::vector<std::string> Candidates(const std::string& path) {
  if (!path.empty()) return {path};
  const char* given = std::getenv("MILLRACE_CUDA_PLUGIN");
  if (given != nullptr && *given != '\0') return {given};
  std::vector<std::string> candidates;
  // Installed, it lies beside the library that other programs embed.
  const std::filesystem::path library = FolderOfLibrary();
  if (!library.empty()) candidates.push_back((library / kPluginFile).lexically_normal());
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) {
    for (const char* folder : {"", "../lib", "../lib64"}) {
      const std::string beside = (program.parent_path() / folder / kPluginFile).lexically_normal();
      if (std::find(candidates.begin(), candidates.end(), beside) == candidates.end()) candidates.push_back(beside);
    }
  }
  candidates.push_back(kPluginFile);
  return candidates;
}

}  // namespace

absl::StatusOr<const PluginTable*> LoadPlugin(const std::string& path) {
  std::vector<std::string> tried;
  bool there = false;
  for (const std::string& candidate : Candidates(path)) {
    // A path that is not there is said in fewer words than the loader uses.
    std::error_code error;
    if (candidate.find('/') != std::string::npos && !std::filesystem::exists(candidate, error)) {
      tried.push_back(absl::StrCat(candidate, ": ", error ? error.message() : "no such file"));
      continue;
    }
    void* library = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      tried.push_back(dlerror());
      there = there || candidate.find('/') != std::string::npos;
      continue;
    }
    const auto entry = reinterpret_cast<PluginEntry>(dlsym(library, kPluginSymbol));
    const PluginTable* table = entry == nullptr ? nullptr : entry();
    if (table == nullptr || table->version != kPluginVersion || PluginAbi() != table->abi) {
      const std::string found =
          table == nullptr ? absl::StrCat("has no symbol ", kPluginSymbol) : absl::StrCat("is of '", table->abi, "'");
      dlclose(library);
      return absl::FailedPreconditionError(absl::StrCat("the CUDA plugin ", candidate, " ", found,
                                                        ", this program is of '", PluginAbi(), "': build both together"));
    }
    return table;
  }
  const char* const hint = there ? "the loader must find CUDA's libraries and cuDNN, for example by LD_LIBRARY_PATH"
                                 : "it is built where the CUDA toolkit is found";
  return absl::NotFoundError(absl::StrCat("the CUDA plugin did not load (", absl::StrJoin(tried, "; "), "); ", hint));
}

HostOps HostOpsOf(const KernelRegistry& kernels, const OpRegistry& ops) {
  return {&kernels, [&ops](const std::string& op) { return ops.Find(op); }};
}

}  // namespace millrace::cuda
