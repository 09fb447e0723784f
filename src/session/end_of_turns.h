// Ends a run that asks how often a loop turns with the first turn that does not come: the turns behind it, which were guessed, would be
// computed in vain.
//
//   asked   turn_0 ? yes   turn_1 ? yes   turn_2 ? no | turn_3 ... turn_63: not run
#ifndef MILLRACE_SESSION_END_OF_TURNS_H_
#define MILLRACE_SESSION_END_OF_TURNS_H_

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "runtime/lane_engine.h"
#include "runtime/program.h"

namespace millrace {

class EndOfTurns final : public LaneObserver {
 public:
  // Of a program on a device whose memory is the host's, in which every turn is guessed to come. Answers are watched from the first on, as
  // far as it is plain which step computes them.
  void Watch(const Program& program);
  bool watches() const { return !answers_.empty(); }

  void BeginRun();
  // Cancelled once the end is known.
  absl::Status BeforeStep(int32_t lane, int64_t step) override;
  bool may_wait() const override { return false; }
  // Of a run that was ended so: the questions up to the one whose answer is no; none where it was not.
  std::vector<std::string> Asked() const;

 private:
  struct Answer {
    std::string question;
    int64_t step = 0;                   // that computes it
    const ComputeOp* reader = nullptr;  // and its input
    size_t input = 0;
  };

  // The answers that are fetched together as fetch `f`; whether all of them are watched.
  bool WatchFetch(const Program& program, size_t f);
  bool WatchReader(const Program& program, int64_t step, std::vector<std::string> questions);

  int32_t lane_ = -1;
  const Lane* steps_ = nullptr;
  int64_t last_reader_ = -1;
  std::vector<Answer> answers_;
  std::mutex mutex_;  // steps of one group run beside each other
  size_t known_ = 0;
  bool ended_ = false;
};

}  // namespace millrace

#endif  // MILLRACE_SESSION_END_OF_TURNS_H_
