// Accesses of an AccessGraph by storage instead of by operation.
#ifndef MILLRACE_PASSES_ACCESS_ACCESS_LISTS_H_
#define MILLRACE_PASSES_ACCESS_ACCESS_LISTS_H_

#include <vector>

#include "absl/types/span.h"
#include "passes/access/access_graph.h"

namespace millrace {

struct TimedAccess {
  int32_t operation = 0;
  Access access;
};

struct AccessLists {
  std::vector<int64_t> begin;
  std::vector<TimedAccess> accesses;  // by storage, then by operation
  absl::Span<const TimedAccess> of(size_t storage) const {
    return absl::MakeConstSpan(accesses).subspan(begin[storage], begin[storage + 1] - begin[storage]);
  }
};

AccessLists ListAccesses(const AccessGraph& graph);

}  // namespace millrace

#endif  // MILLRACE_PASSES_ACCESS_ACCESS_LISTS_H_
