// The parts that lanes are made of: counters, paced links, task runners.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <iostream>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include <sys/resource.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/lane_counter.h"
#include "runtime/link_pacer.h"
#include "runtime/task_runner.h"
#include "testlib/executor_fixture.h"
#include "testlib/inline_task_runner.h"
#include "testlib/plan_builder.h"

namespace millrace::testing {
namespace {

using ::testing::ElementsAre;
using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

TEST(LaneCounterTest, EveryWaiterSeesItsCount) {
  LaneCounter counter;
  std::atomic<bool> stop{false};
  std::vector<std::thread> waiters;
  std::atomic<int> reached{0};
  for (int w = 0; w < 4; ++w) {
    waiters.emplace_back([&, w] {
      for (int64_t count = w; count <= 2000; count += 3) {
        if (counter.WaitFor(count, stop) && counter.count() >= count) continue;
        return;
      }
      ++reached;
    });
  }
  for (int64_t count = 1; count <= 2000; ++count) {
    counter.Publish(count);
    if (count % 100 == 0) std::this_thread::sleep_for(std::chrono::microseconds(100));  // waiters fall asleep
  }
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_EQ(reached, 4);
}

// A copy at a step's end would be woken by every node before it.
TEST(LaneCounterTest, WhoWaitsForALaterStepSleepsUntilThen) {
  constexpr int64_t kSteps = 400;
  LaneCounter counter;
  std::atomic<bool> stop{false};
  int64_t wake_ups = 0;
  std::thread waiter([&] {
    rusage before, after;
    getrusage(RUSAGE_THREAD, &before);
    EXPECT_TRUE(counter.WaitFor(kSteps, stop));
    getrusage(RUSAGE_THREAD, &after);
    wake_ups = after.ru_nvcsw - before.ru_nvcsw;
  });
  for (int64_t count = 1; count <= kSteps; ++count) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    counter.Publish(count);
  }
  waiter.join();
  EXPECT_LT(wake_ups, kSteps / 10);
}

TEST(LaneCounterTest, StopWakesSleepers) {
  LaneCounter counter;
  std::atomic<bool> stop{false};
  std::atomic<bool> result{true};
  std::thread waiter([&] { result = counter.WaitFor(1, stop); });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  stop = true;
  counter.Wake();
  waiter.join();
  EXPECT_FALSE(result);
}

TEST(LinkPacerTest, LatenessIsMadeUpSoThatErrorsDoNotAddUp) {
  using std::chrono::microseconds;
  LinkPacer pacer(1e9);
  const Clock::time_point start = Clock::now();
  pacer.IdleUntil(start);
  Clock::time_point now = start;
  for (int i = 1; i <= 1000; ++i) {
    // 100 kB at 1 GB/s: 100 us each, though every wake-up is 70 us late and each copy takes 10 us itself.
    const Clock::time_point due = pacer.Due(100000, now + microseconds(10));
    ASSERT_EQ(due, start + i * microseconds(100)) << i;
    now = due + microseconds(70);
  }
}

TEST(LinkPacerTest, MemorySlowerThanTheLinkIsNotMadeUp) {
  using std::chrono::milliseconds;
  LinkPacer pacer(1e9);
  const Clock::time_point start = Clock::now();
  pacer.IdleUntil(start);
  // The copy of 1 ms took 50 ms; the next one of 5 ms starts at most 2 ms in the past.
  pacer.Due(1000000, start + milliseconds(50));
  EXPECT_EQ(pacer.Due(5000000, start + milliseconds(50)), start + milliseconds(48 + 1 + 5));
  // Nor is time that the link stood idle.
  pacer.IdleUntil(start + milliseconds(100));
  EXPECT_EQ(pacer.Due(5000000, start + milliseconds(101)), start + milliseconds(105));
}

TEST(LinkPacerTest, CarryReturnsWhenDue) {
  LinkPacer pacer(1e9);
  pacer.Idle();
  const auto start = Clock::now();
  for (int i = 0; i < 200; ++i) pacer.Carry(100000);
  EXPECT_GE(SecondsSince(start), 0.02);
  EXPECT_LT(SecondsSince(start), 0.5);
}

TEST(LinkPacerTest, WithoutARateNothingWaits) {
  LinkPacer pacer(0);
  const auto start = Clock::now();
  for (int i = 0; i < 1000; ++i) pacer.Carry(int64_t{1} << 40);
  EXPECT_LT(SecondsSince(start), 1);
}

TEST(ExecutorLinkTest, CopiesOfAStepAreAsSlowAsTheLinkEachWay) {
  // 8 MB in and 8 MB out at 0.4 GB/s, one after the other: 40 ms; both lanes at once: 20 ms.
  constexpr int64_t kBytes = 8000000, kElements = kBytes / 4;
  PlanBuilder b(2 * AlignUp(kBytes));
  b.Constant("c", std::vector<float>(kElements, 1.0f));
  b.Compute("n", "Mix", {}, {{AlignUp(kBytes), kElements}});
  b.In("c", b.ConstantRef("c"), 0, kBytes);
  b.Out("n:0", AlignUp(kBytes), kBytes, b.PoolRef(0), {b.AfterCompute()});
  b.Compute("end", "Nothing", {}, {}, {b.AfterIn(), b.AfterOut()});
  b.Out("c", 0, kBytes, b.PoolRef(AlignUp(kBytes)), {b.AfterIn(), b.AfterCompute()});
  Runtime runtime;
  ExecutorOptions options;
  options.link_gbps = 0.4;
  auto executor = runtime.Make(b.Build(), options);
  ASSERT_TRUE(executor.ok()) << executor.status();
  double best = 1e9, longest_stall = 0;
  for (int trial = 0; trial < 3; ++trial) {
    StepStats stats;
    ASSERT_TRUE((*executor)->RunStep({}, nullptr, &stats).ok());
    EXPECT_GE(stats.seconds, 0.04);
    best = std::min(best, stats.seconds);
    longest_stall = std::max(longest_stall, stats.stall_seconds);
  }
  EXPECT_LT(best, 0.4);
  // A busy machine may hold a node up for as long as its copies take.
  EXPECT_GE(longest_stall, 0.03);
}

TEST(TaskRunnerTest, EveryShardRunsOnceWhateverTheThreads) {
  for (int threads : {1, 2, 4}) {
    auto runner = MakeTbbTaskRunner(threads);
    EXPECT_EQ(runner->threads(), threads);
    for (int64_t shards : {0, 1, 2, 100}) {
      std::vector<std::atomic<int>> runs(shards);
      runner->For(shards, [&](int64_t i) { ++runs[i]; });
      for (const std::atomic<int>& run : runs) EXPECT_EQ(run, 1);
    }
  }
}

TEST(TaskRunnerDeathTest, ThreadsThatMayNotBeStartedAreAnErrorBeforeTheyAreNeeded) {
  const auto with_few_threads = [] {
    const rlimit few = {3, 3};  // of a user: root has no limit
    if (setrlimit(RLIMIT_NPROC, &few) != 0 || (getuid() == 0 && setuid(54321) != 0)) _exit(1);
    const absl::Status status = CheckThreads(8);
    std::cerr << status;
    _exit(absl::IsUnavailable(status) && CheckThreads(0).ok() ? 0 : 2);
  };
  EXPECT_EXIT(with_few_threads(), ::testing::ExitedWithCode(0), "this process needs 8 threads and may start [0-2] ");
  EXPECT_TRUE(CheckThreads(8).ok());
}

TEST(TaskRunnerTest, ShardsMayBeSplitAgain) {
  auto runner = MakeTbbTaskRunner(4);
  std::atomic<int64_t> sum{0};
  runner->Enter([&] {
    runner->For(8, [&](int64_t i) { runner->For(8, [&](int64_t j) { sum += i * 8 + j; }); });
  });
  EXPECT_EQ(sum, 63 * 64 / 2);
}

TEST(TaskRunnerTest, MoreThreadsThanCoresReallyRunAtOnce) {
  constexpr int kThreads = 4;
  auto runner = MakeTbbTaskRunner(kThreads);
  // Each shard waits until as many as there are threads are inside: with fewer workers none would get on.
  std::atomic<int> inside{0};
  std::atomic<bool> met{false};
  const auto deadline = Clock::now() + std::chrono::seconds(20);
  runner->For(kThreads, [&](int64_t) {
    if (++inside == kThreads) met = true;
    while (!met && Clock::now() < deadline) std::this_thread::yield();
  });
  EXPECT_TRUE(met);
}

// Lanes of several devices: where the arena is full, a thread that waits in it runs what another one brought.
TEST(TaskRunnerTest, MoreThreadsEnterThanTheArenaHolds) {
  constexpr int kThreads = 6, kRounds = 100, kShards = 8;
  auto runner = MakeTbbTaskRunner(2);
  std::vector<int64_t> sums(kThreads, 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < kRounds; ++round) {
        int64_t parts[kShards] = {};
        runner->Enter([&] { runner->For(kShards, [&](int64_t i) { parts[i] = i + t; }); });
        for (int64_t part : parts) sums[t] += part;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int t = 0; t < kThreads; ++t) EXPECT_EQ(sums[t], kRounds * (kShards * (kShards - 1) / 2 + kShards * t));
}

TEST(TaskRunnerTest, InlineRunnerKeepsItsOrder) {
  std::vector<int64_t> order;
  InlineTaskRunner(InlineOrder::kReverse).For(3, [&](int64_t i) { order.push_back(i); });
  EXPECT_THAT(order, ElementsAre(2, 1, 0));
}

}  // namespace
}  // namespace millrace::testing
