#include "session/cpu_check.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace millrace {

bool CpuHas(std::string_view feature) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_cpu_init();
  // The compiler takes literals only.
#define MILLRACE_ASK_CPU(name) \
  if (feature == name) return __builtin_cpu_supports(name) != 0
  MILLRACE_ASK_CPU("sse4.2");
  MILLRACE_ASK_CPU("popcnt");
  MILLRACE_ASK_CPU("avx");
  MILLRACE_ASK_CPU("avx2");
  MILLRACE_ASK_CPU("fma");
  MILLRACE_ASK_CPU("bmi");
  MILLRACE_ASK_CPU("bmi2");
  MILLRACE_ASK_CPU("avx512f");
  MILLRACE_ASK_CPU("avx512cd");
  MILLRACE_ASK_CPU("avx512vl");
  MILLRACE_ASK_CPU("avx512bw");
  MILLRACE_ASK_CPU("avx512dq");
  MILLRACE_ASK_CPU("avx512ifma");
  MILLRACE_ASK_CPU("avx512vbmi");
  MILLRACE_ASK_CPU("avx512vbmi2");
  MILLRACE_ASK_CPU("avx512vnni");
  MILLRACE_ASK_CPU("avx512bitalg");
  MILLRACE_ASK_CPU("avx512vpopcntdq");
  MILLRACE_ASK_CPU("avx512bf16");
  MILLRACE_ASK_CPU("gfni");
  MILLRACE_ASK_CPU("vpclmulqdq");
#ifdef __clang__
  // Clang does not ask for these.
  for (const std::string_view name : {"f16c", "lzcnt", "movbe", "avxvnni", "avx512fp16", "avx512vp2intersect"}) {
    if (feature == name) return true;
  }
#else
  MILLRACE_ASK_CPU("f16c");
  MILLRACE_ASK_CPU("lzcnt");
  MILLRACE_ASK_CPU("movbe");
  MILLRACE_ASK_CPU("avxvnni");
  MILLRACE_ASK_CPU("avx512fp16");
  MILLRACE_ASK_CPU("avx512vp2intersect");
#endif
#undef MILLRACE_ASK_CPU
#endif
  return false;
}

absl::Status CheckCpu(const char* const* built_for, bool (*has)(std::string_view feature)) {
  std::vector<std::string> missing;
  for (; *built_for != nullptr; ++built_for) {
    if (!has(*built_for)) missing.emplace_back(*built_for);
  }
  if (missing.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("the kernels were compiled for a CPU with ", absl::StrJoin(missing, ", "),
                                                    ", which this one lacks; build on it, or with -DMILLRACE_ARCH=x86-64-v3 for most CPUs"));
}

}  // namespace millrace
