// Plans that several tests share.
#ifndef MILLRACE_TESTS_TESTLIB_EXAMPLE_PLANS_H_
#define MILLRACE_TESTS_TESTLIB_EXAMPLE_PLANS_H_

#include "testlib/plan_builder.h"

namespace millrace::testing {

// Every tensor 16 bytes, every op 1 s, copies 16 bytes/s; a slot of the arena is 64 bytes for alignment.
//
//   a = f1()   b = f2(a)   c = f3(b)   g = loss(c)   gb = f3_grad(g, b)   ga = f2_grad(gb, a)
//
// Four slots hold everything (a b c g at loss).
inline PlanBuilder FourSlotPlan() {
  PlanBuilder b(256);
  b.Compute("f1", "Mix", {}, {{0, 4}});
  b.Compute("f2", "Mix", {{0, 4}}, {{64, 4}});
  b.Compute("f3", "Mix", {{64, 4}}, {{128, 4}});
  b.Compute("loss", "Mix", {{128, 4}}, {{192, 4}});
  b.Compute("f3'", "Mix", {{192, 4}, {64, 4}}, {{128, 4}});
  b.Compute("f2'", "Mix", {{128, 4}, {0, 4}}, {{64, 4}});
  b.Fetch("f2':0", 4);
  b.Out("f2':0", 64, 16, b.FetchRef("f2':0"), {b.AfterCompute()}, 0);
  return b;
}

// With three slots a leaves after f2 and is back for f2':
//
//   time        0    1    2    3    4    5    6    7
//   compute     | f1 | f2 | f3 |loss|f3' |    |f2' |
//   to-host     |    |    | a> |    |    |    |    |     hides under f3; its room is first needed by loss
//   to-device   |    |    |    |    |    | a< |    |     no room before f3' ends (g b gb), so 1 s is exposed
inline PlanBuilder ThreeSlotPlan() {
  PlanBuilder b(192);
  b.Compute("f1", "Mix", {}, {{0, 4}});
  b.Compute("f2", "Mix", {{0, 4}}, {{64, 4}});
  b.Out("f1:0", 0, 16, b.PoolRef(0), {b.AfterCompute()}).reason = "loss needs its room";
  b.Compute("f3", "Mix", {{64, 4}}, {{128, 4}});
  b.Compute("loss", "Mix", {{128, 4}}, {{0, 4}}, {b.AfterOut()});
  b.Compute("f3'", "Mix", {{0, 4}, {64, 4}}, {{128, 4}});
  b.In("f1:0", b.PoolRef(0), 0, 16, {b.AfterCompute(), b.AfterOut()}).reason = "for f2'";
  b.Compute("f2'", "Mix", {{128, 4}, {0, 4}}, {{64, 4}}, {b.AfterIn()});
  b.Fetch("f2':0", 4);
  b.Out("f2':0", 64, 16, b.FetchRef("f2':0"), {b.AfterCompute()}, 0);
  b.plan().lanes[PlanBuilder::kToHost].copies[0].name = "a>";
  b.plan().lanes[PlanBuilder::kToDevice].copies[0].name = "a<";
  b.plan().counts.swap_outs = b.plan().counts.swap_ins = 1;
  for (const auto& [tensor, offset, first, last] :
       {std::tuple{"f1:0", 0, 0, 2}, {"f2:0", 64, 1, 5}, {"f3:0", 128, 3, 4}, {"loss:0", 0, 4, 5},
        {"f3':0", 128, 5, 7}, {"f1:0", 0, 6, 7}, {"f2':0", 64, 7, 8}}) {
    Residence residence;
    residence.tensor = tensor;
    residence.bytes = 16;
    residence.offset = offset;
    residence.first = first;
    residence.last = last;
    b.plan().residences.push_back(residence);
  }
  return b;
}

}  // namespace millrace::testing

#endif  // MILLRACE_TESTS_TESTLIB_EXAMPLE_PLANS_H_
