#include "session/exclusive_session.h"

#include <atomic>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "glog/logging.h"
#include "graph/exceptions.h"

namespace millrace {
namespace {

class ExclusiveSession final : public Session {
 public:
  explicit ExclusiveSession(std::unique_ptr<Session> session) : session_(std::move(session)) {}

  absl::Status Run(const Feeds& feeds, const std::vector<std::string>& fetches, const std::vector<std::string>& targets,
                   std::vector<Tensor>* outputs) override {
    if (outputs != nullptr) outputs->clear();
    return Alone([&] { return session_->Run(feeds, fetches, targets, outputs); });
  }
  absl::StatusOr<std::shared_ptr<const ExecutionPlan>> Plan(const FeedTypes& feeds, const std::vector<std::string>& fetches,
                                                            const std::vector<std::string>& targets) override {
    return Alone([&] { return session_->Plan(feeds, fetches, targets); });
  }
  void PlanWithFeeds(const Feeds& values) override {
    const absl::Status status = Alone([&] {
      session_->PlanWithFeeds(values);
      return absl::OkStatus();
    });
    if (!status.ok()) LOG(ERROR) << "PlanWithFeeds: " << status;
  }
  absl::Status UsePlan(std::shared_ptr<const ExecutionPlan> plan, const FeedTypes& feeds, const std::vector<std::string>& fetches,
                       const std::vector<std::string>& targets) override {
    return Alone([&] { return session_->UsePlan(std::move(plan), feeds, fetches, targets); });
  }
  absl::StatusOr<Graph> RewrittenGraph(const FeedTypes& feeds, const std::vector<std::string>& fetches,
                                       const std::vector<std::string>& targets) override {
    return Alone([&] { return session_->RewrittenGraph(feeds, fetches, targets); });
  }
  absl::StatusOr<Profile> MeasuredTimes() const override {
    return Alone([&] { return session_->MeasuredTimes(); });
  }
  const RunReport& last_run() const override { return session_->last_run(); }
  const GraphSummary& graph_summary() const override { return session_->graph_summary(); }
  const Machine& machine() const override { return session_->machine(); }
  absl::StatusOr<std::map<std::string, Tensor>> Variables() override {
    return Alone([&] { return session_->Variables(); });
  }
  absl::Status ReadVariables(absl::FunctionRef<absl::Status(const std::string& name, Tensor value)> take) override {
    return Alone([&] { return session_->ReadVariables(take); });
  }
  absl::Status SetVariable(const std::string& name, const Tensor& value) override {
    return Alone([&] { return session_->SetVariable(name, value); });
  }
  absl::StatusOr<std::map<std::string, Tensor>> NodeStates() override {
    return Alone([&] { return session_->NodeStates(); });
  }
  absl::Status SetNodeState(const std::string& node, const Tensor& state) override {
    return Alone([&] { return session_->SetNodeState(node, state); });
  }

 private:
  template <typename Call>
  std::invoke_result_t<Call> Alone(Call&& call) const {
    if (in_use_.exchange(true, std::memory_order_acquire)) {
      return absl::FailedPreconditionError("this session is in use by another call, of another thread or of the one whose callback this is");
    }
    std::invoke_result_t<Call> result = WithoutExceptions(std::forward<Call>(call));
    in_use_.store(false, std::memory_order_release);
    return result;
  }

  const std::unique_ptr<Session> session_;
  mutable std::atomic<bool> in_use_ = false;
};

}  // namespace

std::unique_ptr<Session> MakeExclusive(std::unique_ptr<Session> session) { return std::make_unique<ExclusiveSession>(std::move(session)); }

}  // namespace millrace
