// What a command touches besides its options: the streams, the engine, files of other formats, and the wish to
// stop. main.cc fills it with the real ones, tests with fakes.
#ifndef MILLRACE_SRC_CLI_ENVIRONMENT_H_
#define MILLRACE_SRC_CLI_ENVIRONMENT_H_

#include <functional>
#include <map>
#include <memory>
#include <ostream>
#include <string>

#include "absl/status/statusor.h"
#include "millrace/graph.h"
#include "millrace/import.h"
#include "millrace/onnx.h"
#include "millrace/options.h"
#include "millrace/session.h"

namespace millrace::cli {

using Arrays = std::map<std::string, Tensor>;

struct Environment {
  std::ostream* out = nullptr;  // results
  std::ostream* err = nullptr;  // progress and warnings
  bool err_is_terminal = false;     // one that takes escape codes
  // Columns of that terminal, which may change.
  std::function<int()> err_columns = [] { return 80; };
  // True once the user asked to stop (Ctrl-C): commands end after the step they are in.
  std::function<bool()> interrupted = [] { return false; };
  // Called when the input is read: until then there is nothing to end in order, and Ctrl-C ends the process at once.
  std::function<void()> catch_interrupts = [] {};

  std::function<absl::StatusOr<MetaGraph>(const std::string& path)> load_graph;
  std::function<absl::StatusOr<std::unique_ptr<Session>>(std::shared_ptr<const Graph>, SessionOptions)> create_session;
  std::function<absl::StatusOr<SavedModel>(const std::string& folder)> load_saved_model;
  std::function<absl::Status(const std::string& prefix, TensorReader& checkpoint, SavedModel* model)> add_bound_keys;
  std::function<absl::StatusOr<OnnxModel>(const std::string& path, const OnnxOptions& options)> load_onnx;
  // Tensors by key. Files that are written are whole or not there.
  std::function<absl::StatusOr<std::unique_ptr<TensorReader>>(const std::string& prefix)> open_checkpoint_reader;
  std::function<absl::StatusOr<std::unique_ptr<TensorWriter>>(const std::string& prefix)> open_checkpoint;
  std::function<absl::StatusOr<Arrays>(const std::string& path)> load_arrays;
  std::function<absl::StatusOr<std::unique_ptr<TensorWriter>>(const std::string& path)> open_arrays;
  std::function<absl::Status(const Graph&, const std::string& path)> save_graph;
  std::function<absl::StatusOr<ExecutionPlan>(const std::string& path)> load_plan;
  std::function<absl::Status(const ExecutionPlan&, const std::string& path)> save_plan;
};

}  // namespace millrace::cli

#endif  // MILLRACE_SRC_CLI_ENVIRONMENT_H_
