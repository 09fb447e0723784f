// Threads of a block are contexts that give way to one another at barriers alone.
#include "cuda/fake/grid.h"

#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include <glog/logging.h>

#include "cuda/fake/fiber.h"

namespace millrace::cuda {
namespace fake {
namespace {

constexpr int kWarpThreads = 32, kMostThreads = 1024;
constexpr size_t kStackBytes = size_t{128} << 10;

enum class State { kReady, kAtBlock, kAtWarp, kDone };

class Block;
thread_local Block* running = nullptr;

class Block {
 public:
  void Run(int64_t block, int threads, const std::function<void()>& work) {
    CHECK(running == nullptr) << "a kernel that launches kernels";
    running = this;
    work_ = &work;
    blockIdx.x = static_cast<unsigned>(block);
    while (static_cast<int>(threads_.size()) < threads) threads_.push_back(MakeThread(static_cast<int>(threads_.size())));
    order_.resize(threads);
    std::iota(order_.begin(), order_.end(), 0);
    for (int t : order_) threads_[t]->state = State::kReady;
    do {
      std::shuffle(order_.begin(), order_.end(), random_);
      for (int t : order_) {
        if (threads_[t]->state == State::kReady) Resume(t);
      }
    } while (Release());
    running = nullptr;
  }

  // As Wait for the block. Whether any thread says so.
  bool Vote(bool mine) {
    says_ = says_ || mine;
    Wait(State::kAtBlock);
    return said_;
  }

  // Called by a thread of the block: goes on with the others.
  void Wait(State at) {
    Thread& thread = *threads_[current_];
    thread.state = at;
    if (_setjmp(thread.here) == 0) {
      thread.fiber.Leave(host_);
      _longjmp(scheduler_, 1);
    }
    thread.fiber.Arrive();
  }

 private:
  struct Thread {
    State state = State::kDone;
    bool started = false;
    jmp_buf here;
    ucontext_t first;
    std::unique_ptr<char[]> stack;
    Fiber fiber;
  };

  // Stacks that all began at the same place of a page would share a few lines of the processor's caches.
  static size_t StackOffset(int t) { return static_cast<size_t>(t) * 1088 % 32768; }
  static std::unique_ptr<Thread> MakeThread(int t) {
    auto thread = std::make_unique<Thread>();
    const size_t bytes = kStackBytes + StackOffset(t);
    thread->stack.reset(new char[bytes]);
    thread->fiber = Fiber::Of(thread->stack.get(), bytes);
    return thread;
  }

  // A context serves one thread after another; its stack lives as long as the block.
  static void Serve() {
    running->threads_[running->current_]->fiber.Arrive();
    while (true) {
      (*running->work_)();
      running->Wait(State::kDone);
    }
  }

  void Resume(int t) {
    current_ = t;
    threadIdx.x = static_cast<unsigned>(t);
    Thread& thread = *threads_[t];
    if (_setjmp(scheduler_) != 0) return host_.Arrive();
    host_.Leave(thread.fiber);
    if (thread.started) _longjmp(thread.here, 1);
    thread.started = true;
    CHECK_EQ(getcontext(&thread.first), 0);
    thread.first.uc_stack.ss_sp = thread.stack.get();  // used from its end
    thread.first.uc_stack.ss_size = kStackBytes + StackOffset(t);
    thread.first.uc_link = nullptr;
    makecontext(&thread.first, &Serve, 0);
    setcontext(&thread.first);
  }

  // Those whose barrier all others have reached that have not ended; of the warps that wait for themselves alone about half, so that
  // some run ahead of others. Whether any thread goes on.
  bool Release() {
    const int count = static_cast<int>(order_.size());
    int left = 0, at_block = 0;
    ready_warps_.clear();
    for (int first = 0; first < count; first += kWarpThreads) {
      const int end = std::min(first + kWarpThreads, count);
      int alive = 0, at_warp = 0;
      for (int t = first; t < end; ++t) {
        alive += threads_[t]->state != State::kDone;
        at_warp += threads_[t]->state == State::kAtWarp;
        at_block += threads_[t]->state == State::kAtBlock;
      }
      left += alive;
      if (alive == 0 || at_warp < alive) continue;
      CHECK_EQ(alive, end - first) << "threads of a warp wait for some that have ended";
      ready_warps_.push_back(first);
    }
    const bool any = !ready_warps_.empty();
    const size_t chosen = any ? random_() % ready_warps_.size() : 0;
    for (size_t w = 0; w < ready_warps_.size(); ++w) {
      if (w != chosen && random_() % 2 == 0) continue;
      const int end = std::min(ready_warps_[w] + kWarpThreads, count);
      for (int t = ready_warps_[w]; t < end; ++t) threads_[t]->state = State::kReady;
    }
    if (any || left == 0) return any;
    CHECK_EQ(at_block, left) << "threads of a block wait at different barriers";
    CHECK_EQ(left, count) << "threads of a block wait for some that have ended";
    said_ = std::exchange(says_, false);
    for (int t = 0; t < count; ++t) {
      if (threads_[t]->state == State::kAtBlock) threads_[t]->state = State::kReady;
    }
    return true;
  }

  const std::function<void()>* work_ = nullptr;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<int> order_;
  std::vector<int> ready_warps_;  // first threads
  int current_ = 0;
  bool says_ = false, said_ = false;  // at the barrier to come, at the last one
  jmp_buf scheduler_;
  Fiber host_ = Fiber::Caller();  // of the thread that runs the block, whose own this is
  std::mt19937 random_{7};
};

}  // namespace

void RunGrid(int64_t blocks, int threads, const std::function<void()>& thread) {
  CHECK(blocks > 0 && blocks <= INT32_MAX && threads > 0 && threads <= kMostThreads) << blocks << " blocks of " << threads;
  static thread_local Block block;
  static thread_local std::mt19937 random(5);
  std::vector<int64_t> order(blocks);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  gridDim.x = static_cast<unsigned>(blocks);
  blockDim.x = static_cast<unsigned>(threads);
  for (int64_t b : order) block.Run(b, threads, thread);
}

}  // namespace fake

void __syncthreads() { fake::running->Wait(fake::State::kAtBlock); }
int __syncthreads_or(int mine) { return fake::running->Vote(mine != 0) ? 1 : 0; }
void __syncwarp() { fake::running->Wait(fake::State::kAtWarp); }

}  // namespace millrace::cuda
