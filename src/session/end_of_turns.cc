#include "session/end_of_turns.h"

#include <algorithm>
#include <map>

#include "absl/strings/match.h"
#include "passes/unroll/questions.h"

namespace millrace {
namespace {

// By address: the last step before `end` that writes there. -1: it may be another's value, a part of it, or come by a copy.
using Writers = std::map<int64_t, int64_t>;

void Note(Writers& writers, int64_t begin, int64_t bytes, int64_t step) {
  for (auto it = writers.lower_bound(begin); it != writers.end() && it->first < begin + bytes; ++it) it->second = step;
}

void FindWriters(const ExecutionPlan& plan, const Lane& lane, int64_t end, Writers& writers) {
  for (int64_t s = 0; s < end; ++s) {
    const ComputeStep& step = lane.compute[s];
    const OpInstance& instance = plan.instances[step.instance];
    if (step.scratch_bytes > 0) Note(writers, step.scratch_offset, step.scratch_bytes, -1);
    for (size_t i = 0; i < step.inputs.size() && !step.writes_variables.empty(); ++i) {
      if (step.inputs[i] != kNoAddress) Note(writers, step.inputs[i], instance.inputs[i].size_bytes(), -1);
    }
    for (size_t o = 0; o < step.outputs.size(); ++o) {
      if (step.outputs[o] == kNoAddress) continue;
      const bool is_answer = instance.outputs[o] == TensorType{DataType::kBool, Shape({})} && !step.is_dynamic();
      Note(writers, step.outputs[o], instance.outputs[o].size_bytes(), is_answer ? s : -1);
    }
  }
  for (const Lane& copies : plan.lanes) {
    if (copies.kind != LaneKind::kToDevice || copies.device != lane.device) continue;
    for (const CopyStep& copy : copies.copies) Note(writers, copy.device_offset, copy.bytes, -1);
  }
}

// The copy that fetches it.
const CopyStep* FindFetch(const ExecutionPlan& plan, size_t f, int32_t& device) {
  for (const Lane& lane : plan.lanes) {
    if (lane.kind != LaneKind::kToHost) continue;
    for (const CopyStep& copy : lane.copies) {
      device = lane.device;
      if (copy.host.kind == HostRef::Kind::kFetch && copy.host.index == static_cast<int32_t>(f)) return &copy;
    }
  }
  return nullptr;
}

}  // namespace

void EndOfTurns::Watch(const Program& program) {
  for (size_t f = 0; f < program.plan().fetches.size() && WatchFetch(program, f); ++f) {
  }
}

bool EndOfTurns::WatchFetch(const Program& program, size_t f) {
  const ExecutionPlan& plan = program.plan();
  std::vector<std::string> questions = QuestionsOf(plan.fetches[f].name);
  int32_t device = -1;
  const CopyStep* const copy = FindFetch(plan, f, device);
  if (copy == nullptr || questions.size() < 2) return false;
  for (size_t l = 0; l < plan.lanes.size(); ++l) {
    const Lane& lane = plan.lanes[l];
    if (lane.kind != LaneKind::kCompute || lane.device != device || (steps_ != nullptr && steps_ != &lane)) continue;
    for (int64_t s = lane.num_steps() - 1; s > last_reader_; --s) {
      const ComputeStep& step = lane.compute[s];
      const OpInstance& instance = plan.instances[step.instance];
      const bool gathers = instance.op == "Pack" && absl::StartsWith(instance.name, absl::StrCat(kGathersAnswers, questions[0])) &&
                           step.inputs.size() == questions.size() && step.outputs[0] == copy->device_offset;
      if (!gathers || step.position > copy->position) continue;
      steps_ = &lane;
      lane_ = static_cast<int32_t>(l);
      return WatchReader(program, s, std::move(questions));
    }
  }
  return false;
}

// The answers are where the reader finds them from when they are computed until it has run, and before it runs all are looked at.
bool EndOfTurns::WatchReader(const Program& program, int64_t step, std::vector<std::string> questions) {
  const ComputeStep& reader = steps_->compute[step];
  Writers writers;
  for (const int64_t offset : reader.inputs) writers[offset] = -1;
  FindWriters(program.plan(), *steps_, step, writers);
  std::vector<Answer> answers;
  for (size_t i = 0; i < questions.size(); ++i) {
    const int64_t writer = writers[reader.inputs[i]];
    const bool is_before = writer >= 0 && (steps_->compute[writer].group == 0 || steps_->compute[writer].group != reader.group);
    if (!is_before) return false;
    answers.push_back({std::move(questions[i]), writer, &program.lanes()[lane_].compute[step], i});
  }
  last_reader_ = step;
  answers_.insert(answers_.end(), answers.begin(), answers.end());
  return true;
}

void EndOfTurns::BeginRun() {
  known_ = 0;
  ended_ = false;
}

absl::Status EndOfTurns::BeforeStep(int32_t lane, int64_t step) {
  if (lane != lane_) return absl::OkStatus();
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto is_computed = [&](int64_t writer) {
    const int32_t group = steps_->compute[writer].group;
    return writer < step && (group == 0 || group != steps_->compute[step].group);
  };
  while (!ended_ && known_ < answers_.size() && is_computed(answers_[known_].step)) {
    const Answer& answer = answers_[known_++];
    ended_ = !*static_cast<const bool*>(answer.reader->context.inputs[answer.input]);
  }
  return ended_ ? absl::CancelledError("the loop has ended") : absl::OkStatus();
}

std::vector<std::string> EndOfTurns::Asked() const {
  std::vector<std::string> questions;
  for (size_t i = 0; ended_ && i < known_; ++i) questions.push_back(answers_[i].question);
  return questions;
}

}  // namespace millrace
