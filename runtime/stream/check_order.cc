#include "stream/check_order.h"

#include <cstdint>

#include "absl/strings/str_cat.h"

namespace millrace {

absl::Status CheckOrder(const Program& program, const std::vector<StepRef>& order) {
  std::vector<int64_t> done(program.lanes().size(), 0);
  for (const StepRef& step : order) {
    for (const Wait& wait : WaitsOf(program.lanes()[step.lane], step.index)) {
      if (wait.count <= done[wait.lane]) continue;
      return absl::InternalError(absl::StrCat("plan: '", NameOf(program.plan(), step.lane, step.index),
                                              "' waits for a step that comes after it"));
    }
    done[step.lane] = step.index + 1;
  }
  return absl::OkStatus();
}

}  // namespace millrace
