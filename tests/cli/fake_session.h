// A Session without an engine: w starts at 1 with `init`, every step adds 1, loss = 1 / w. What it "needs" of
// device memory depends on the strategy, so that budgets can be tried.
#ifndef MILLRACE_TESTS_CLI_FAKE_SESSION_H_
#define MILLRACE_TESTS_CLI_FAKE_SESSION_H_

#include <memory>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "cli/environment.h"
#include "millrace/status.h"

namespace millrace::cli {

// What the fakes of one test share.
struct FakeEngine {
  int sessions = 0;
  int steps_run = 0;
  bool init_run = false;
  int fail_at_step = -1;       // steps of a session, from 0
  std::string wrong_strategy;  // gives other bits
  std::string wrong_fetches;   // the strategy whose last fetches alone have other bits
  int interrupt_after = -1;    // steps in all
  bool interrupt_planning = false;
  std::string unsupported;  // a target
  std::vector<PassTime> passes;  // of every plan
};

class FakeSession : public Session {
 public:
  FakeSession(SessionOptions options, FakeEngine& engine) : options_(std::move(options)), engine_(engine) {
    ++engine_.sessions;
    machine_.name = "a fake's";
  }

  absl::Status Run(const Feeds&, const std::vector<std::string>& fetches, const std::vector<std::string>& targets,
                   std::vector<Tensor>* outputs) override {
    MR_RETURN_IF_ERROR(CheckSupported(targets));
    if (targets == std::vector<std::string>{"init"}) {
      engine_.init_run = true;
      w_ = 1;
      return absl::OkStatus();
    }
    if (step_ == engine_.fail_at_step) {
      report_.changed_variables = {"w"};
      return absl::InternalError("kernel of node f failed");
    }
    ++step_;
    ++engine_.steps_run;
    w_ += 1;
    Fill();
    report_.step_seconds = {0.5};
    report_.fetch_digest = options_.planning.strategy == engine_.wrong_fetches ? "ffff" : "aaaa";
    report_.peak_device_bytes = report_.predicted_peak_device_bytes;
    for (size_t i = 0; i < fetches.size(); ++i) {
      outputs->push_back(fetches[i] == "loss:0" ? Tensor::Scalar(1 / Value()) : Tensor::Vector<float>({Value(), 0}));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::shared_ptr<const ExecutionPlan>> Plan(const FeedTypes&, const std::vector<std::string>&,
                                                            const std::vector<std::string>& targets) override {
    MR_RETURN_IF_ERROR(CheckSupported(targets));
    if (engine_.interrupt_planning) return absl::CancelledError("planning was interrupted");
    Fill();
    const int64_t budget = options_.planning.device_memory_bytes;
    if (budget > 0 && budget < Need()) {
      return absl::ResourceExhaustedError(absl::StrCat("node f alone needs ", Need(), " B, budget is ", budget, " B"));
    }
    return report_.plan;
  }

  absl::Status UsePlan(std::shared_ptr<const ExecutionPlan>, const FeedTypes&, const std::vector<std::string>&,
                       const std::vector<std::string>&) override {
    return absl::OkStatus();
  }

  absl::StatusOr<Graph> RewrittenGraph(const FeedTypes&, const std::vector<std::string>&,
                                       const std::vector<std::string>&) override {
    Fill();
    return Graph();
  }

  const RunReport& last_run() const override { return report_; }
  const GraphSummary& graph_summary() const override { return summary_; }
  const Machine& machine() const override { return machine_; }
  absl::StatusOr<std::map<std::string, Tensor>> Variables() override {
    return std::map<std::string, Tensor>{{"w", Tensor::Scalar(Value())}};
  }
  absl::Status ReadVariables(absl::FunctionRef<absl::Status(const std::string& name, Tensor value)> take) override {
    return take("w", Tensor::Scalar(Value()));
  }
  absl::Status SetVariable(const std::string& name, const Tensor& value) override {
    if (name != "w") return absl::NotFoundError(absl::StrCat("no variable ", name));
    w_ = static_cast<float>(value.DoubleAt(0));
    return absl::OkStatus();
  }

 private:
  absl::Status CheckSupported(const std::vector<std::string>& targets) const {
    const bool supported = targets.empty() || targets.front() != engine_.unsupported;
    return supported ? absl::OkStatus() : absl::UnimplementedError(absl::StrCat("no kernel of ", engine_.unsupported));
  }
  int64_t Need() const { return (options_.planning.strategy == "baseline" ? 1000 : 400) + (options_.profile != nullptr ? 10 : 0) + (options_.planning.fuse ? 500 : 0); }
  float Value() const { return w_ + (options_.planning.strategy == engine_.wrong_strategy ? 1 : 0); }
  void Fill() {
    auto plan = std::make_shared<ExecutionPlan>();
    plan->strategy = options_.planning.strategy;
    plan->partition_size = plan->strategy == "tensorflowmem" ? options_.planning.partition_size : 0;
    plan->devices = {{.name = "cpu:0"}};
    report_ = RunReport();
    report_.strategy = options_.planning.strategy;
    report_.partition_size = plan->partition_size;
    report_.predicted_peak_device_bytes = Need();
    report_.predicted_step_seconds = 0.25;
    report_.passes = engine_.passes;
    report_.plan = plan;
  }

  SessionOptions options_;
  Machine machine_;
  FakeEngine& engine_;
  GraphSummary summary_{.nodes = 3, .edges = 2, .parameter_bytes = 4, .largest_node = "f", .largest_node_bytes = 64};
  RunReport report_;
  int step_ = 0;
  float w_ = 0;
};

class FakeReader : public TensorReader {
 public:
  explicit FakeReader(Arrays arrays) : arrays_(std::move(arrays)) {
    for (const auto& [name, tensor] : arrays_) names_.push_back(name);
  }
  const std::vector<std::string>& names() const override { return names_; }
  absl::StatusOr<Tensor> Read(const std::string& name) override { return arrays_.at(name); }
  // Of a tensor of rank 1.
  absl::StatusOr<Tensor> ReadSlice(const std::string& name, const TensorSlice& slice) override {
    return Tensor::Vector<float>(arrays_.at(name).as<float>().subspan(slice.begin[0], slice.shape.dim(0)));
  }

 private:
  const Arrays arrays_;
  std::vector<std::string> names_;
};

inline absl::StatusOr<std::unique_ptr<TensorReader>> OpenReader(Arrays arrays) {
  return std::unique_ptr<TensorReader>(new FakeReader(std::move(arrays)));
}

// A file that is kept in `saved` when it is finished.
class FakeWriter : public TensorWriter {
 public:
  FakeWriter(std::map<std::string, Arrays>& saved, std::string path) : saved_(saved), path_(std::move(path)) {}
  absl::Status Add(const std::string& name, const Tensor& tensor) override {
    arrays_[name] = tensor;
    return absl::OkStatus();
  }
  absl::Status AddSlice(const std::string& name, const TensorSlice& slice, const Tensor& part) override {
    return Add(absl::StrCat(name, " from ", slice.begin[0], " of ", slice.whole.dim(0)), part);
  }
  absl::Status Finish() override {
    saved_[path_] = std::move(arrays_);
    return absl::OkStatus();
  }

 private:
  std::map<std::string, Arrays>& saved_;
  const std::string path_;
  Arrays arrays_;
};

// An environment on fakes; files are kept in `saved`.
struct FakeWorld {
  FakeEngine engine;
  std::ostringstream out, err;
  std::map<std::string, Arrays> saved;
  std::string no_room;  // the file that cannot be written
  Environment environment;

  FakeWorld() {
    environment.out = &out;
    environment.err = &err;
    environment.interrupted = [this] { return engine.interrupt_after >= 0 && engine.steps_run >= engine.interrupt_after; };
    environment.load_graph = [](const std::string& path) -> absl::StatusOr<Graph> {
      if (path != "graph.pb") return absl::NotFoundError(absl::StrCat(path, ": cannot read"));
      return Graph();
    };
    environment.save_graph = [](const Graph&, const std::string&) { return absl::OkStatus(); };
    environment.load_saved_model = [](const std::string&) -> absl::StatusOr<SavedModel> {
      SavedModel model;
      model.signatures["train"] = {.inputs = {{"image", {"serve_image:0", {}}}},
                                   .outputs = {{"loss", {"loss:0", {}}}, {"scores", {"logits:0", {}}}}};
      model.checkpoint = *OpenReader({{"layer/w/VALUE", Tensor::Scalar(10.0f)}});
      model.checkpoint_keys = {{"w", "layer/w/VALUE"}};
      model.checkpoint_extras = {{"OBJECTS", Tensor::Scalar(0.0f)}};
      return model;
    };
    environment.open_checkpoint_reader = [this](const std::string& prefix) { return OpenReader(saved.at(prefix)); };
    environment.open_checkpoint = [this](const std::string& prefix) { return Open(prefix); };
    environment.load_arrays = [](const std::string&) -> absl::StatusOr<Arrays> {
      return Arrays{{"x", Tensor::Vector<float>({1, 2})}};
    };
    environment.open_arrays = [this](const std::string& path) { return Open(path); };
    environment.create_session = [this](std::shared_ptr<const Graph>, SessionOptions options) -> absl::StatusOr<std::unique_ptr<Session>> {
      return std::unique_ptr<Session>(new FakeSession(std::move(options), engine));
    };
  }

  absl::StatusOr<std::unique_ptr<TensorWriter>> Open(const std::string& path) {
    if (path == no_room) return absl::ResourceExhaustedError(absl::StrCat(path, ": no room"));
    return std::unique_ptr<TensorWriter>(new FakeWriter(saved, path));
  }
};

}  // namespace millrace::cli

#endif  // MILLRACE_TESTS_CLI_FAKE_SESSION_H_
