#include "cuda/launch/faults.h"

#include "cuda/launch/portable.h"

namespace millrace::cuda {
namespace {

struct TakeOverBody {
  Queue queue;
  const volatile FaultCode* code;  // another device's copy has just written it
  MR_DEVICE void operator()(int64_t) const {
    if (*code != FaultCode::kNone) Report(queue, FaultCode::kElsewhere, 0, 0, 0);
  }
};

}  // namespace

void TakeOverFault(const Queue& queue, const Fault* published) { ForEach(queue, 1, TakeOverBody{queue, &published->code}); }

}  // namespace millrace::cuda
