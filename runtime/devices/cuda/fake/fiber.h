// What sanitizers are told of stacks that a thread changes: without it they take the new one for a broken old one. Nothing where
// none watches.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_FAKE_FIBER_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_FAKE_FIBER_H_

#include <cstddef>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#elif defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
// Of its library, in none of its headers.
extern "C" void AnnotateIgnoreReadsBegin(const char* file, int line);
extern "C" void AnnotateIgnoreReadsEnd(const char* file, int line);
extern "C" void AnnotateIgnoreWritesBegin(const char* file, int line);
extern "C" void AnnotateIgnoreWritesEnd(const char* file, int line);
#endif

namespace millrace::cuda::fake {

#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadsAreWatched = true;
#else
inline constexpr bool kThreadsAreWatched = false;
#endif

class Fiber {
 public:
  Fiber() = default;
  Fiber(Fiber&& other) noexcept { *this = std::move(other); }
  Fiber& operator=(Fiber&& other) noexcept {
    std::swap(stack_, other.stack_);
    std::swap(bytes_, other.bytes_);
    std::swap(watched_, other.watched_);
    std::swap(owned_, other.owned_);
    return *this;
  }
#if defined(__SANITIZE_THREAD__)
  ~Fiber() {
    if (owned_) __tsan_destroy_fiber(watched_);
  }
#endif

  // Of the calling thread, with the stack that the system gave it.
  static Fiber Caller() {
    Fiber fiber;
#if defined(__SANITIZE_THREAD__)
    fiber.watched_ = __tsan_get_current_fiber();
#endif
    return fiber;
  }
  static Fiber Of(const void* stack, size_t bytes) {
    Fiber fiber;
    fiber.stack_ = stack;
    fiber.bytes_ = bytes;
#if defined(__SANITIZE_THREAD__)
    fiber.watched_ = __tsan_create_fiber(0);
    fiber.owned_ = true;
#endif
    return fiber;
  }

  // Right before the thread goes over to `next`. What one did before is not `ordered` before what the other one does unless this says so.
  void Leave([[maybe_unused]] const Fiber& next, [[maybe_unused]] bool ordered) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&watched_, next.stack_, next.bytes_);
    last_left = this;
#elif defined(__SANITIZE_THREAD__)
    __tsan_switch_to_fiber(next.watched_, ordered ? 0 : __tsan_switch_to_fiber_no_sync);
#endif
  }
  // Right after it has come to this one.
  void Arrive() {
#if defined(__SANITIZE_ADDRESS__)
    // A caller's stack is known from where it is left.
    __sanitizer_finish_switch_fiber(watched_, &last_left->stack_, &last_left->bytes_);
#endif
  }

 private:
#if defined(__SANITIZE_ADDRESS__)
  static inline thread_local Fiber* last_left = nullptr;
#endif
  const void* stack_ = nullptr;
  size_t bytes_ = 0;
  void* watched_ = nullptr;  // what the sanitizer knows it by
  bool owned_ = false;
};

// What is done meanwhile is not the kernel's: ThreadSanitizer overlooks it.
class Unwatched {
 public:
#if defined(__SANITIZE_THREAD__)
  Unwatched() {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  ~Unwatched() {
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }
#else
  Unwatched() {}
#endif
  Unwatched(const Unwatched&) = delete;
  Unwatched& operator=(const Unwatched&) = delete;
};

// Where fibers that are not ordered by their switches meet: what is done before any of them comes is ordered before what is done after one goes.
class Meeting {
 public:
  void Come() {
#if defined(__SANITIZE_THREAD__)
    __tsan_release(this);
#endif
  }
  void Go() {
#if defined(__SANITIZE_THREAD__)
    __tsan_acquire(this);
#endif
  }

 private:
  [[maybe_unused]] char address_ = 0;  // that it is known by
};

}  // namespace millrace::cuda::fake

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_FAKE_FIBER_H_
