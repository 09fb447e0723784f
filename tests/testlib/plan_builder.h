// Plans made by hand, for tests: one device with a lane of each kind, float tensors, positions in call order.
//
//   PlanBuilder b(192);                                     // arena bytes
//   b.Feed("x", 4);
//   b.In("x:0", b.FeedRef("x"), 0, 16);                     // to-device step 1
//   b.Compute("y", "Mix", {{0, 4}}, {{64, 4}}, {b.AfterIn()});
//   b.Fetch("y:0", 4);
//   b.Out("y:0", 64, 16, b.FetchRef("y:0"), {b.AfterCompute()});
//   ExecutionPlan plan = b.Build();
#ifndef MILLRACE_TESTS_TESTLIB_PLAN_BUILDER_H_
#define MILLRACE_TESTS_TESTLIB_PLAN_BUILDER_H_

#include <map>
#include <string>
#include <vector>

#include "millrace/plan.h"

namespace millrace::testing {

// `elements` floats at `offset` of the arena. An output's owner is "node:index" and an input's the last one that was
// put there, unless `owner` says another.
struct At {
  int64_t offset = 0;
  int64_t elements = 0;
  std::string owner = "";
};

class PlanBuilder {
 public:
  static constexpr int32_t kCompute = 0, kToHost = 1, kToDevice = 2;

  explicit PlanBuilder(int64_t arena_bytes);

  void Feed(const std::string& name, int64_t elements);
  void Fetch(const std::string& name, int64_t elements);
  int32_t Variable(const std::string& name, int64_t elements, int64_t resident_offset = kNoAddress);
  void Constant(const std::string& name, const std::vector<float>& values, int64_t resident_offset = kNoAddress);

  HostRef FeedRef(const std::string& name) const;
  HostRef FetchRef(const std::string& name) const;
  HostRef VariableRef(const std::string& name) const;
  HostRef ConstantRef(const std::string& name) const;
  HostRef PoolRef(int64_t offset_bytes) const { return {HostRef::Kind::kPool, 0, offset_bytes}; }

  // Adds a compute step and returns it for further changes (valid until the next call).
  ComputeStep& Compute(const std::string& name, const std::string& op, const std::vector<At>& inputs,
                       const std::vector<At>& outputs, StepWaits waits = {}, double seconds = 1);
  CopyStep& In(const std::string& tensor, HostRef from, int64_t offset, int64_t bytes, StepWaits waits = {},
               double seconds = 1);
  CopyStep& Out(const std::string& tensor, int64_t offset, int64_t bytes, HostRef to, StepWaits waits = {},
                double seconds = 1);

  // "All that this lane has been given so far", or its first `count` steps.
  Wait AfterCompute(int64_t count = -1) const { return After(kCompute, count); }
  Wait AfterOut(int64_t count = -1) const { return After(kToHost, count); }
  Wait AfterIn(int64_t count = -1) const { return After(kToDevice, count); }

  ExecutionPlan& plan() { return plan_; }
  OpInstance& instance(const ComputeStep& step) { return plan_.instances[step.instance]; }
  // Fills in the totals: host bytes and pool, bytes each way, a residence per address handed out.
  ExecutionPlan Build();

 private:
  Wait After(int32_t lane, int64_t count) const {
    return {lane, count < 0 ? plan_.lanes[lane].num_steps() : count};
  }
  CopyStep& Copy(int32_t lane, const std::string& tensor, HostRef host, int64_t offset, int64_t bytes,
                 StepWaits waits, double seconds);

  int32_t Owner(const std::string& name);

  ExecutionPlan plan_;
  int64_t position_ = 0;
  std::map<int64_t, std::string> owner_at_;  // of each offset, as of the last call
};

TensorType Floats(int64_t elements);

}  // namespace millrace::testing

#endif  // MILLRACE_TESTS_TESTLIB_PLAN_BUILDER_H_
