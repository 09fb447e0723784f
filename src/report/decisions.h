// What a plan decided and why, as a list: what moves, what is computed again, where variables and constants lie, where partitions
// are cut. Of what just stays where it was made there is nothing to tell.
#ifndef MILLRACE_SRC_REPORT_DECISIONS_H_
#define MILLRACE_SRC_REPORT_DECISIONS_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "millrace/plan.h"

namespace millrace {

// Why partitions begin and end where they do: they are cut by count, by level, or by operations, seconds and bytes made.
class CutReasons {
 public:
  explicit CutReasons(const ExecutionPlan& plan);

  // Of a step of a compute lane, the first or the last of its partition.
  std::string Why(const Lane& lane, int64_t index) const;

 private:
  struct Weight {
    int64_t operations = 0;
    int64_t bytes = 0;
    double seconds = 0;
  };
  std::string WeightWords(const Lane& lane, int64_t index) const;

  const ExecutionPlan& plan_;
  std::map<std::pair<int32_t, int32_t>, Weight> weights_;  // by device and partition
};

// Whether the step is the first of its partition on the lane.
bool BeginsPartition(const Lane& lane, int64_t index);

struct Decision {
  std::string kind;    // "to-host" and the other lanes of copies; "computed again", "variable", "constant", "cut"
  std::string node;    // the copy, the node that is the first after a cut; empty where a tensor is all that there is
  std::string tensor;  // what moves or stays
  std::string device;
  int32_t partition = -1;  // -1: of none
  std::string reason;
};

// Copies lane by lane, then stays by device and beginning, then cuts.
std::vector<Decision> DecisionsOf(const ExecutionPlan& plan);

}  // namespace millrace

#endif  // MILLRACE_SRC_REPORT_DECISIONS_H_
