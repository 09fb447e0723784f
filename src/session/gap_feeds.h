// Ids with gaps that are fed. Ops that have a row for each id up to the largest (SegmentSum, DynamicStitch) are planned with as many
// rows as there are ids, which ids without gaps fit; others are planned by value.
#ifndef MILLRACE_SESSION_GAP_FEEDS_H_
#define MILLRACE_SESSION_GAP_FEEDS_H_

#include <map>
#include <string>
#include <vector>

#include "millrace/graph.h"
#include "millrace/tensor.h"

namespace millrace {

class GapFeeds {
 public:
  explicit GapFeeds(const Graph& graph);

  // Those of `values` (by tensor name) whose ids need more rows than there are ids. Ids that a step computes are not looked at.
  std::map<std::string, Tensor> Of(const std::map<std::string, Tensor>& values) const;

 private:
  const Graph& graph_;
  std::vector<std::vector<OutputRef>> ids_;  // of the nodes that size their output by them
};

}  // namespace millrace

#endif  // MILLRACE_SESSION_GAP_FEEDS_H_
