// libFuzzer's entry point; MILLRACE_FUZZ_TARGET is one of the functions of the *_targets.h headers.
#include <cstddef>
#include <cstdint>

#include "import_targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  millrace::MILLRACE_FUZZ_TARGET(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
