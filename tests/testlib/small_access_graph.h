// Device graphs written out by hand, for tests whose numbers can be checked by eye.
//
//   SmallAccessGraph graph;
//   const int32_t a = graph.AddStorage(StorageKind::kActivation);     // 64 bytes
//   graph.AddOperation({Writes(a)}).AddOperation({Reads(a)});         // a second each
//   GapGraph gaps = FindGaps(graph.access(), UnitLink());             // copies of 64 bytes a second
#ifndef MILLRACE_TESTLIB_SMALL_ACCESS_GRAPH_H_
#define MILLRACE_TESTLIB_SMALL_ACCESS_GRAPH_H_

#include <cstdint>
#include <vector>

#include "millrace/options.h"
#include "passes/access/access_graph.h"

namespace millrace {

inline Access Reads(int32_t storage) { return {storage, true, false}; }
inline Access Writes(int32_t storage) { return {storage, false, true}; }
inline Access Updates(int32_t storage) { return {storage, true, true}; }

// 64 bytes a second each way, without latency.
inline Machine UnitLink() {
  Machine machine;
  machine.to_host_bytes_per_second = machine.to_device_bytes_per_second = 64;
  machine.copy_latency_seconds = 0;
  return machine;
}

class SmallAccessGraph {
 public:
  SmallAccessGraph() { graph_.first_access.push_back(0); }

  int32_t AddStorage(StorageKind kind, int64_t size_bytes = 64) {
    graph_.storages.push_back({.kind = kind, .size_bytes = size_bytes});
    return static_cast<int32_t>(graph_.storages.size()) - 1;
  }
  SmallAccessGraph& AddOperation(const std::vector<Access>& accesses, double seconds = 1, int64_t scratch_bytes = 0) {
    graph_.seconds.push_back(seconds);
    graph_.scratch_bytes.push_back(scratch_bytes);
    graph_.partition.push_back(0);
    graph_.accesses.insert(graph_.accesses.end(), accesses.begin(), accesses.end());
    graph_.first_access.push_back(static_cast<int64_t>(graph_.accesses.size()));
    return *this;
  }
  AccessGraph& access() { return graph_; }

 private:
  AccessGraph graph_;
};

}  // namespace millrace

#endif  // MILLRACE_TESTLIB_SMALL_ACCESS_GRAPH_H_
