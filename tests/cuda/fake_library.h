// The library with the faked CUDA (runtime/devices/cuda/fake/faults.h), as tests throw faults into it and count what it was asked for.
#ifndef MILLRACE_TESTS_CUDA_FAKE_LIBRARY_H_
#define MILLRACE_TESTS_CUDA_FAKE_LIBRARY_H_

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace millrace::testing {

template <typename Function>
Function* FromFake(const char* name) {
  void* const library = dlopen(MILLRACE_CUDA_FAKE, RTLD_NOW);
  EXPECT_NE(library, nullptr) << dlerror();
  return reinterpret_cast<Function*>(dlsym(library, name));
}
inline void Throw(const std::string& faults) {
  const char* const wrong = FromFake<const char*(const char*)>("millrace_fake_fault")(faults.c_str());
  ASSERT_EQ(wrong, nullptr) << wrong;
}
inline int64_t Count(const char* kind) { return FromFake<int64_t(const char*)>("millrace_fake_count")(kind); }

}  // namespace millrace::testing

#endif  // MILLRACE_TESTS_CUDA_FAKE_LIBRARY_H_
