#include "plan/plan_text.h"

#include <gtest/gtest.h>

#include "testlib/example_plans.h"

namespace millrace::testing {
namespace {

TEST(PlanTextTest, EveryStepPrintsWhereItReadsWritesAndWaits) {
  EXPECT_EQ(PlanToText(ThreeSlotPlan().Build()),
            R"(plan test  nodes 6  swap_outs 1  swap_ins 1
device test:0  arena 192  peak_live 0  partitions 1
host  pool 64  all 64
copies  to-host 32  to-device 16
fetch f2':0  float[4]
steps
  0 compute  p0  f1 (Mix)  -> f1:0@0+16
  1 compute  p0  f2 (Mix)  f1:0@0+16 -> f2:0@64+16
  2 to-host  p0  a>  f1:0@0+16 -> pool@0  [compute>=2]  "loss needs its room"
  3 compute  p0  f3 (Mix)  f2:0@64+16 -> f3:0@128+16
  4 compute  p0  loss (Mix)  f3:0@128+16 -> loss:0@0+16  [to-host>=1]
  5 compute  p0  f3' (Mix)  loss:0@0+16 f2:0@64+16 -> f3':0@128+16
  6 to-device  p0  a<  pool@0 -> f1:0@0+16  [compute>=5 to-host>=1]  "for f2'"
  7 compute  p0  f2' (Mix)  f3':0@128+16 f1:0@0+16 -> f2':0@64+16  [to-device>=1]
  8 to-host  p0  f2'_out  f2':0@64+16 -> fetch f2':0  [compute>=6]
residences
  [0,2]  @0+16  activation  f1:0
  [1,5]  @64+16  activation  f2:0
  [3,4]  @128+16  activation  f3:0
  [4,5]  @0+16  activation  loss:0
  [5,7]  @128+16  activation  f3':0
  [6,7]  @0+16  activation  f1:0
  [7,8]  @64+16  activation  f2':0
)");
}

TEST(PlanTextTest, VariablesScratchStateAndGroupsAreShown) {
  PlanBuilder b(256);
  const int32_t w = b.Variable("w", 4, 128);
  b.plan().variables[w].written = true;
  b.Constant("c", {1, 2}, 192);
  ComputeStep& step = b.Compute("init", "Assign", {{128, 4}, {192, 2}}, {});
  step.group = 3;
  step.partition = 2;
  step.scratch_offset = 0;
  step.scratch_bytes = 8;
  step.state_bytes = 16;
  step.input_variables = {w, -1};
  step.writes_variables = {w};
  step.overwrites_variables = true;
  const ExecutionPlan plan = b.Build();
  EXPECT_EQ(StepToText(plan, 0, 0),
            "0 compute  p2 g3  init (Assign)  w@128+16 c@192+8  scratch @0+8  state 16  overwrites w");
  PlanTextOptions options;
  options.seconds = options.types = true;
  EXPECT_EQ(StepToText(plan, 0, 0, options),
            "0 compute  p2 g3  init (Assign)  w@128+16:float[4] c@192+8:float[2]  scratch @0+8  state 16  overwrites w"
            "  1s");
  EXPECT_NE(PlanToText(plan).find("variable w  float[4]  @128  written\n"), std::string::npos);
  EXPECT_NE(PlanToText(plan).find("constant c  float[2]  @192\n"), std::string::npos);
}

TEST(PlanTextTest, NamesThatHoldAnythingKeepToTheirLines) {
  PlanBuilder b(256);
  b.Variable("w\nsteps", 4, 64);
  b.Variable("v\x1b\u00e9'", 4);
  b.Constant("c\n", {1, 2}, 192);
  b.Feed("x\n", 4);
  b.In("x\n:0", b.FeedRef("x\n"), 0, 16);
  b.In("v\n", b.VariableRef("v\x1b\u00e9'"), 128, 16).reason = "for\nf";
  b.Compute("f", "Mix", {{0, 4, "x\n:0"}, {64, 4}}, {}).writes_variables = {0};
  b.plan().strategy = "a\nb";
  const std::string text = PlanToText(b.Build());
  for (const char* line : {"plan a\\x0ab  nodes ", "\nvariable w\\x0asteps  float[4]  @64\n", "\nvariable v\\x1b\u00e9'  float[4]  host\n",
                           "\nconstant c\\x0a  float[2]", "\nfeed x\\x0a  float[4]\n", " variable v\\x1b\u00e9' -> v\\x0a@128+16  \"for\\x0af\"\n",
                           " x\\x0a:0@0+16 w\\x0asteps@64+16  writes w\\x0asteps"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "\nin\n" << text;
  }
}

TEST(PlanTextTest, LanesOfSeveralDevicesAreNumbered) {
  ExecutionPlan plan = ThreeSlotPlan().Build();
  plan.devices.push_back(plan.devices[0]);
  EXPECT_EQ(LaneName(plan, 1), "to-host/0");
  EXPECT_EQ(LaneName(plan, 7), "lane#7?");
}

}  // namespace
}  // namespace millrace::testing
