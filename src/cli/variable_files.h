// The files of --variables_out and --checkpoint_out, written variable by variable: all of them may be more than memory holds.
#ifndef MILLRACE_SRC_CLI_VARIABLE_FILES_H_
#define MILLRACE_SRC_CLI_VARIABLE_FILES_H_

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "cli/environment.h"
#include "cli/options.h"
#include "cli/workload.h"

namespace millrace::cli {

class VariableFiles {
 public:
  // `workload` and `environment` outlive it. Nothing is opened before the first variable.
  VariableFiles(const OutputOptions& options, const Workload& workload, const Environment& environment);

  // An error of one file is kept for Finish and does not end the other.
  void Add(const std::string& name, const Tensor& value);
  // The files appear, the checkpoint with the nodes' states and with what no session takes: strings, tables that no step has used. The first
  // error of either.
  absl::Status Finish(const Arrays& node_states);

 private:
  // One of the two, opened by its first tensor.
  class File {
   public:
    using Opener = std::function<absl::StatusOr<std::unique_ptr<TensorWriter>>(const std::string& path)>;
    File(std::string path, const Opener& open) : path_(std::move(path)), open_(open) {}

    bool wanted() const { return !path_.empty(); }
    void Add(const std::string& name, const Tensor& value);
    void Add(const VariablePart& part, const Tensor& value);
    // Of what was to be added.
    void Fail(const absl::Status& status) { status_.Update(status); }
    absl::Status Finish();

   private:
    absl::Status Open();

    const std::string path_;
    const Opener& open_;
    std::unique_ptr<TensorWriter> writer_;
    absl::Status status_;
  };

  void AddToCheckpoint(const std::string& name, const Tensor& value);
  void AddTable(const CheckpointTable& table, const Tensor& bytes);
  void AddRest();

  const Workload& workload_;
  std::set<std::string> saver_keys_;
  std::set<std::string> added_;
  File arrays_;
  File checkpoint_;
};

}  // namespace millrace::cli

#endif  // MILLRACE_SRC_CLI_VARIABLE_FILES_H_
