// WorkBudget: how much a search may still do.
//
// Work is counted, not measured, so that plans do not depend on the machine or its load: every part of the planner says
// what it did (tree operations, blocks placed, holes looked at) times what that takes. A unit is about a nanosecond of one
// core of 2024. Small graphs and large ones, easy packings and hard ones get the same time.
#ifndef MILLRACE_PASSES_ACCESS_WORK_BUDGET_H_
#define MILLRACE_PASSES_ACCESS_WORK_BUDGET_H_

#include <cstdint>

namespace millrace {

class WorkBudget {
 public:
  explicit WorkBudget(int64_t units) : left_(units) {}
  void Spend(int64_t units) { left_ -= units; }
  // Negative when the last piece of work took more than was left.
  int64_t left() const { return left_; }

 private:
  int64_t left_;
};

// Graphs of more nodes are large: other passes take longer there, too.
inline constexpr int32_t kLargeGraphNodes = 15'000;

// For all orders, rewritings and plans of a graph of so many nodes: what leaves planning within half a second for up to
// 15,000 nodes; in proportion for 60,000, less than that for more.
int64_t SearchWork(int64_t nodes);

}  // namespace millrace

#endif  // MILLRACE_PASSES_ACCESS_WORK_BUDGET_H_
