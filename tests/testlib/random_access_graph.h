// Random device graphs for tests of the planner's parts.
#ifndef MILLRACE_TESTLIB_RANDOM_ACCESS_GRAPH_H_
#define MILLRACE_TESTLIB_RANDOM_ACCESS_GRAPH_H_

#include <cstdint>
#include <random>
#include <vector>

#include "passes/access/access_graph.h"

namespace millrace {

inline int32_t Below(std::mt19937& random, int32_t n) { return static_cast<int32_t>(random() % static_cast<uint32_t>(n)); }

// Activations of a few sizes that are used again near or far, some written again, and a few variables.
inline AccessGraph RandomAccessGraph(uint32_t seed, int32_t operations) {
  std::mt19937 random(seed);
  AccessGraph graph;
  std::vector<std::vector<Access>> accesses(operations);
  const auto add = [&](StorageKind kind, int32_t first) {
    const auto s = static_cast<int32_t>(graph.storages.size());
    const int64_t sizes[] = {64, 192, 256, 1024, 640};
    graph.storages.push_back({.kind = kind, .size_bytes = sizes[Below(random, 5)]});
    accesses[first].push_back({s, kind != StorageKind::kActivation, kind == StorageKind::kActivation});
    int32_t at = first;
    for (int32_t uses = 1 + Below(random, 3); uses > 0; --uses) {
      at += 1 + (Below(random, 2) == 0 ? Below(random, 4) : Below(random, operations));
      if (at >= operations) break;
      const bool writes = Below(random, 6) == 0;
      accesses[at].push_back({s, !writes || Below(random, 2) == 0, writes});
    }
  };
  for (int32_t v = 0; v < 4; ++v) add(StorageKind::kVariable, Below(random, operations));
  for (int32_t i = 0; i < operations; ++i) {
    for (int32_t k = Below(random, 3); k >= 0; --k) add(StorageKind::kActivation, i);
  }
  graph.first_access.push_back(0);
  for (int32_t i = 0; i < operations; ++i) {
    graph.seconds.push_back(0.5 + Below(random, 4));
    graph.scratch_bytes.push_back(Below(random, 5) == 0 ? 2048 : 0);
    graph.partition.push_back(0);
    graph.accesses.insert(graph.accesses.end(), accesses[i].begin(), accesses[i].end());
    graph.first_access.push_back(static_cast<int64_t>(graph.accesses.size()));
  }
  return graph;
}

}  // namespace millrace

#endif  // MILLRACE_TESTLIB_RANDOM_ACCESS_GRAPH_H_
