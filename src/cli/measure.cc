#include "cli/measure.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "absl/strings/str_cat.h"
#include "cli/feeds.h"
#include "millrace/graph_builder.h"
#include "millrace/graph_ops.h"
#include "millrace/status.h"

namespace millrace::cli {
namespace {

constexpr int kRuns = 5;
constexpr int64_t kMatrix = 1024;         // rows and columns of the product
constexpr int64_t kImage = 56, kChannels = 64, kImages = 4;
constexpr int64_t kVector = 16 << 20;     // floats of a large tensor
constexpr int64_t kChain = 2000;          // tiny kernels
constexpr int64_t kSmallCopies = 32;

// Seconds of a run's events, as `measure` sums them up; the least of a few runs.
using Measure = std::function<double(const RunReport&)>;

absl::StatusOr<double> Best(GraphBuilder& builder, const std::vector<std::string>& fetches, const SessionOptions& session,
                            const Environment& environment, const Measure& measure) {
  MR_ASSIGN_OR_RETURN(Graph graph, std::move(builder).Build());
  MR_ASSIGN_OR_RETURN(const Session::FeedTypes types, SyntheticFeedTypes(graph, fetches, {}, {}, {}));
  MR_ASSIGN_OR_RETURN(const Session::Feeds feeds, SyntheticFeeds(types, session.seed));
  MR_ASSIGN_OR_RETURN(const auto engine, environment.create_session(std::make_shared<const Graph>(std::move(graph)), session));
  double best = std::numeric_limits<double>::infinity();
  for (int run = 0; run < kRuns; ++run) {
    std::vector<Tensor> outputs;
    MR_RETURN_IF_ERROR(engine->Run(feeds, fetches, {}, &outputs));
    const double seconds = measure(engine->last_run());
    if (seconds > 0) best = std::min(best, seconds);
  }
  if (best == std::numeric_limits<double>::infinity()) return absl::InternalError("nothing was measured: no trace of the runs");
  return best;
}

double Seconds(const TraceEvent& event) { return event.end_seconds - event.start_seconds; }

// All kernels of one op.
Measure KernelsOf(std::string op) {
  return [op = std::move(op)](const RunReport& run) {
    double sum = 0;
    for (const TraceEvent& event : run.trace) {
      const Lane& lane = run.plan->lanes[event.lane];
      if (lane.kind == LaneKind::kCompute && run.plan->instances[lane.compute[event.step].instance].op == op) sum += Seconds(event);
    }
    return sum;
  };
}

// The copies of a lane, each.
Measure CopiesOf(LaneKind kind) {
  return [kind](const RunReport& run) {
    double sum = 0;
    int64_t count = 0;
    for (const TraceEvent& event : run.trace) {
      if (run.plan->lanes[event.lane].kind != kind) continue;
      sum += Seconds(event);
      ++count;
    }
    return count == 0 ? 0 : sum / static_cast<double>(count);
  };
}

// From the first start to the last end of compute.
double ComputeSpan(const RunReport& run) {
  double first = std::numeric_limits<double>::infinity(), last = 0;
  for (const TraceEvent& event : run.trace) {
    if (run.plan->lanes[event.lane].kind != LaneKind::kCompute) continue;
    first = std::min(first, event.start_seconds);
    last = std::max(last, event.end_seconds);
  }
  return last - first;
}

}  // namespace

absl::StatusOr<Machine> MeasureMachine(const SessionOptions& options, const Environment& environment) {
  SessionOptions session = options;
  session.trace = true;
  session.planning = PlanningOptions{.strategy = "baseline"};
  Machine machine = options.machine;
  const auto best = [&](GraphBuilder& builder, const std::vector<std::string>& fetches, const Measure& measure) {
    return Best(builder, fetches, session, environment, measure);
  };
  {
    GraphBuilder product, convolution;
    const Output a = product.Placeholder("a", DataType::kFloat, {kMatrix, kMatrix});
    ops::Mean(ops::MatMul(a, a), {}, "mean");
    const Output images = convolution.Placeholder("images", DataType::kFloat, {kImages, kImage, kImage, kChannels});
    const Output filter = convolution.Placeholder("filter", DataType::kFloat, {3, 3, kChannels, kChannels});
    ops::Mean(ops::Conv2D(images, filter), {}, "mean");
    MR_ASSIGN_OR_RETURN(const double product_seconds, best(product, {"mean:0"}, KernelsOf("MatMul")));
    MR_ASSIGN_OR_RETURN(const double convolution_seconds, best(convolution, {"mean:0"}, KernelsOf("Conv2D")));
    const double flops = 2.0 * kMatrix * kMatrix * kMatrix + 2.0 * kImages * kImage * kImage * kChannels * kChannels * 9;
    machine.flops_per_second = flops / (product_seconds + convolution_seconds);
  }
  {
    GraphBuilder sum;
    const Output x = sum.Placeholder("x", DataType::kFloat, {kVector});
    const Output y = sum.Placeholder("y", DataType::kFloat, {kVector});
    ops::Add(x, y, "result");
    const double bytes = 4.0 * kVector;
    MR_ASSIGN_OR_RETURN(const double seconds, best(sum, {"result:0"}, KernelsOf("AddV2")));
    machine.memory_bytes_per_second = 3 * bytes / seconds;
  }
  {
    const auto link = [&](LaneKind kind) -> absl::StatusOr<double> {
      GraphBuilder copies;
      ops::Neg(copies.Placeholder("x", DataType::kFloat, {kVector}), "result");
      MR_ASSIGN_OR_RETURN(const double seconds, best(copies, {"result:0"}, CopiesOf(kind)));
      return 4.0 * kVector / seconds;
    };
    MR_ASSIGN_OR_RETURN(machine.to_host_bytes_per_second, link(LaneKind::kToHost));
    MR_ASSIGN_OR_RETURN(machine.to_device_bytes_per_second, link(LaneKind::kToDevice));
    GraphBuilder small;
    std::vector<Output> values;
    for (int64_t i = 0; i < kSmallCopies; ++i) {
      values.push_back(small.Placeholder(absl::StrCat("x", i), DataType::kFloat, {16}));
    }
    ops::AddN(values, "result");
    MR_ASSIGN_OR_RETURN(machine.copy_latency_seconds, best(small, {"result:0"}, CopiesOf(LaneKind::kToDevice)));
  }
  GraphBuilder chain;
  Output value = chain.Placeholder("x", DataType::kFloat, {16});
  // Reversals are not fused with each other, as elementwise operations would be.
  for (int64_t i = 0; i < kChain; ++i) value = ops::Reverse(value, {0}, i + 1 == kChain ? "result" : "");
  MR_ASSIGN_OR_RETURN(const double span, best(chain, {"result:0"}, ComputeSpan));
  machine.launch_seconds = span / kChain;
  return machine;
}

}  // namespace millrace::cli
