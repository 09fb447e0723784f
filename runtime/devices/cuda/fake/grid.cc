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
constexpr int kNone = -1;
constexpr size_t kStackBytes = size_t{128} << 10;

// A multiplier and an increment of Knuth's MMIX; the high bits are the random ones.
using Random = std::linear_congruential_engine<uint64_t, 6364136223846793005u, 1442695040888963407u, 0>;

enum class State { kReady, kAtBlock, kAtWarp, kDone };

class Block;
thread_local Block* running = nullptr;

// Set before any grid runs.
bool looks_for_races = false;

class Block {
 public:
  void Run(int64_t block, int threads, const std::function<void()>& work) {
    CHECK(running == nullptr) << "a kernel that launches kernels";
    Begin(block, threads, work);
    begin_.Come();
    do {
      Shuffle();
      GoOnFrom(host_);
    } while (Release());
    end_.Go();
    const Unwatched unwatched;
    running = nullptr;
  }

  // As Wait for the block. Whether any thread says so.
  bool Vote(bool mine) {
    Say(mine);
    Wait(State::kAtBlock);
    return said_;
  }

  // Called by a thread of the block: goes on with the others.
  void Wait(State at) {
    Thread& thread = threads_[current_];
    Meeting& barrier = Arrive(thread, at);
    barrier.Come();
    GoOnFrom(*thread.context);
    barrier.Go();
  }

 private:
  struct Context {
    bool started = false;
    jmp_buf here;
    ucontext_t first;
    std::unique_ptr<char[]> stack;
    Fiber fiber;
    void Start() {
      fiber.Arrive();
      const Unwatched unwatched;
      started = true;
    }
  };
  struct Thread {
    State state = State::kReady;
    int block_barriers = 0, warp_barriers = 0;  // that it has come to
    Context* context = nullptr;  // from its first turn to its end
  };

  // Stacks that all began at the same place of a page would share a few lines of the processor's caches.
  static size_t StackOffset(size_t i) { return i * 1088 % 32768; }

  static std::unique_ptr<Context> MakeContext(size_t i) {
    auto context = std::make_unique<Context>();
    const size_t bytes = kStackBytes + StackOffset(i);
    context->stack.reset(new char[bytes]);
    context->fiber = Fiber::Of(context->stack.get(), bytes);
    ucontext_t& first = context->first;
    CHECK_EQ(getcontext(&first), 0);
    first.uc_stack.ss_sp = context->stack.get();  // used from its end
    first.uc_stack.ss_size = bytes;
    first.uc_link = nullptr;
    makecontext(&first, &Serve, 0);
    return context;
  }

  void Begin(int64_t block, int threads, const std::function<void()>& work) {
    const Unwatched unwatched;
    running = this;
    work_ = &work;
    blockIdx.x = static_cast<unsigned>(block);
    threads_.assign(threads, Thread());
    order_.resize(threads);
    std::iota(order_.begin(), order_.end(), 0);
    if (!looks_for_races) return;
    // One that a thread made would be ordered behind what that did.
    while (contexts_.size() < threads_.size()) contexts_.push_back(MakeContext(contexts_.size()));
    free_.clear();
    for (const auto& context : contexts_) free_.push_back(context.get());
  }
  void Shuffle() {
    const Unwatched unwatched;
    std::shuffle(order_.begin(), order_.end(), random_);
    next_ = 0;
  }
  void Say(bool mine) {
    const Unwatched unwatched;
    says_ = says_ || mine;
  }

  // Two take turns: threads that wait at the next barrier may come there before others have gone from this one.
  Meeting& Arrive(Thread& thread, State at) {
    const Unwatched unwatched;
    thread.state = at;
    if (at == State::kAtBlock) return block_barriers_[thread.block_barriers++ % 2];
    return warp_barriers_[current_ / kWarpThreads][thread.warp_barriers++ % 2];
  }

  Context& FreeContext() {
    if (free_.empty()) {
      contexts_.push_back(MakeContext(contexts_.size()));
      return *contexts_.back();
    }
    Context& last = *free_.back();
    free_.pop_back();
    return last;
  }

  // A context serves one thread after another, without a change of stacks where none of them waits; it lives as long as the block. Where
  // races are looked for, a thread has one of its own.
  static void Serve() {
    running->threads_[running->current_].context->Start();
    while (true) {
      running->begin_.Go();
      (*running->work_)();
      running->end_.Come();
      running->End();
    }
  }

  void End() { GoOnFrom(Ended()); }
  Context& Ended() {
    const Unwatched unwatched;
    Thread& thread = threads_[current_];
    thread.state = State::kDone;
    Context& mine = *std::exchange(thread.context, nullptr);
    if (!looks_for_races) free_.push_back(&mine);
    return mine;
  }

  void GiveTurn(int t, Context& context) {
    threads_[t].context = &context;
    current_ = t;
    threadIdx.x = static_cast<unsigned>(t);
  }

  // Of the order, from where it has come to.
  int NextReady() {
    while (next_ < order_.size()) {
      const int t = order_[next_++];
      if (threads_[t].state == State::kReady) return t;
    }
    return kNone;
  }

  // Of the thread whose turn is next, or the scheduler's.
  Context& Next() {
    const Unwatched unwatched;
    const int next = NextReady();
    if (next == kNone) return host_;
    Context& context = threads_[next].context == nullptr ? FreeContext() : *threads_[next].context;
    GiveTurn(next, context);
    return context;
  }

  // Goes over to the next one; returns when `from` has its turn again.
  void GoOnFrom(Context& from) {
    Context& to = Next();
    if (&to != &from) Switch(from, to);
  }

  static void Switch(Context& from, Context& to) {
    if (_setjmp(from.here) == 0) {
      from.fiber.Leave(to.fiber, /*ordered=*/!looks_for_races);
      if (to.started) _longjmp(to.here, 1);
      setcontext(&to.first);
    }
    from.fiber.Arrive();
  }

  // Those whose barrier all others have reached that have not ended; of the warps that wait for themselves alone about half, so that
  // some run ahead of others. Whether any thread goes on.
  bool Release() {
    const Unwatched unwatched;
    const int count = static_cast<int>(order_.size());
    int left = 0, at_block = 0;
    ready_warps_.clear();
    for (int first = 0; first < count; first += kWarpThreads) {
      const int end = std::min(first + kWarpThreads, count);
      int alive = 0, at_warp = 0;
      for (int t = first; t < end; ++t) {
        alive += threads_[t].state != State::kDone;
        at_warp += threads_[t].state == State::kAtWarp;
        at_block += threads_[t].state == State::kAtBlock;
      }
      left += alive;
      if (alive == 0 || at_warp < alive) continue;
      CHECK_EQ(alive, end - first) << "threads of a warp wait for some that have ended";
      ready_warps_.push_back(first);
    }
    const bool any = !ready_warps_.empty();
    const size_t chosen = any ? (random_() >> 32) % ready_warps_.size() : 0;
    for (size_t w = 0; w < ready_warps_.size(); ++w) {
      if (w != chosen && random_() >> 63 == 0) continue;
      const int end = std::min(ready_warps_[w] + kWarpThreads, count);
      for (int t = ready_warps_[w]; t < end; ++t) threads_[t].state = State::kReady;
    }
    if (any || left == 0) return any;
    CHECK_EQ(at_block, left) << "threads of a block wait at different barriers";
    CHECK_EQ(left, count) << "threads of a block wait for some that have ended";
    said_ = std::exchange(says_, false);
    for (int t = 0; t < count; ++t) {
      if (threads_[t].state == State::kAtBlock) threads_[t].state = State::kReady;
    }
    return true;
  }

  const std::function<void()>* work_ = nullptr;
  std::vector<Thread> threads_;
  std::vector<std::unique_ptr<Context>> contexts_;
  std::vector<Context*> free_;
  std::vector<int> order_;
  size_t next_ = 0;               // in the order
  std::vector<int> ready_warps_;  // first threads
  int current_ = 0;
  bool says_ = false, said_ = false;  // at the barrier to come, at the last one
  Meeting begin_, end_, block_barriers_[2], warp_barriers_[kMostThreads / kWarpThreads][2];
  Context host_{.started = true, .fiber = Fiber::Caller()};  // of the thread that runs the block, whose own this is
  Random random_{7};
};

}  // namespace

void RunGrid(int64_t blocks, int threads, const std::function<void()>& thread) {
  CHECK(blocks > 0 && blocks <= INT32_MAX && threads > 0 && threads <= kMostThreads) << blocks << " blocks of " << threads;
  static thread_local Block block;
  static thread_local Random random(5);
  std::vector<int64_t> order(blocks);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  gridDim.x = static_cast<unsigned>(blocks);
  blockDim.x = static_cast<unsigned>(threads);
  for (int64_t b : order) block.Run(b, threads, thread);
}

void LookForRaces() { looks_for_races = kThreadsAreWatched; }

}  // namespace fake

void __syncthreads() { fake::running->Wait(fake::State::kAtBlock); }
int __syncthreads_or(int mine) { return fake::running->Vote(mine != 0) ? 1 : 0; }
void __syncwarp() { fake::running->Wait(fake::State::kAtWarp); }

}  // namespace millrace::cuda
