// What a whole update takes where its parts were measured.
#include "passes/rewrite/whole_update_times.h"

#include <map>
#include <string>

#include "graph/text.h"
#include "gtest/gtest.h"
#include "passes/rewrite/slice_updates.h"
#include "passes/shapes/parts.h"
#include "testlib/test_ops.h"

namespace millrace {
namespace {

class Measured final : public KernelOracle {
 public:
  explicit Measured(std::map<std::string, double> seconds) : seconds_(std::move(seconds)) {}
  absl::StatusOr<int64_t> ScratchBytes(const OpInstance&) override { return 0; }
  std::optional<double> MeasuredSeconds(const OpInstance& instance) override {
    const auto it = seconds_.find(instance.name);
    return it == seconds_.end() ? std::nullopt : std::optional<double>(it->second);
  }
  absl::StatusOr<std::vector<Tensor>> Evaluate(const OpDef&, const OpInstance&, std::vector<Tensor>) override {
    return absl::UnimplementedError("folds nothing");
  }

 private:
  const std::map<std::string, double> seconds_;
};

// u and v in two parts each.
Graph InParts() {
  absl::StatusOr<Graph> graph = ParseGraphText(R"(
x = Op() : float[4]
u/part_0 = Op(x) : float[2]
u/part_1 = Op(x) : float[2]
v/part_0 = Op(x) : float[2]
v/part_1 = Op(x) : float[2]
)");
  EXPECT_TRUE(graph.ok()) << graph.status();
  for (const char* name : {"u/part_0", "u/part_1", "v/part_0", "v/part_1"}) SetPart(graph->mutable_node(graph->Find(name)), {0, 2});
  return *std::move(graph);
}

std::optional<double> SecondsOf(WholeUpdateTimes& times, const std::string& name) {
  OpInstance instance;
  instance.name = name;
  return times.MeasuredSeconds(instance);
}

TEST(WholeUpdateTimes, AreTheSumOfAllPartsIfAllWereMeasured) {
  Measured oracle({{"x", 1}, {"u/part_0", 2}, {"u/part_1", 3}, {"v/part_0", 4}});
  WholeUpdateTimes times(InParts(), TestOps(), oracle);
  EXPECT_EQ(SecondsOf(times, "x"), 1);
  EXPECT_EQ(SecondsOf(times, "u"), 5);
  EXPECT_EQ(SecondsOf(times, "v"), std::nullopt);
}

TEST(WholeUpdateTimes, GiveWayToWhatWasMeasuredOfTheWhole) {
  Measured oracle({{"u", 7}, {"u/part_0", 2}, {"u/part_1", 3}});
  WholeUpdateTimes times(InParts(), TestOps(), oracle);
  EXPECT_EQ(SecondsOf(times, "u"), 7);
}

}  // namespace
}  // namespace millrace
