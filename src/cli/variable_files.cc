#include "cli/variable_files.h"

#include "absl/strings/str_cat.h"
#include "cli/exit_status.h"
#include "cli/outputs.h"
#include "millrace/status.h"

namespace millrace::cli {

VariableFiles::VariableFiles(const OutputOptions& options, const Workload& workload, const Environment& environment)
    : workload_(workload),
      arrays_(options.variables_out, environment.open_arrays),
      checkpoint_(options.checkpoint_out, environment.open_checkpoint) {}

void VariableFiles::Add(const std::string& name, const Tensor& value) {
  if (arrays_.wanted()) arrays_.Add(name, value);
  if (!checkpoint_.wanted()) return;
  if (const auto part = workload_.checkpoint_parts.find(name); part != workload_.checkpoint_parts.end()) {
    checkpoint_.Add(part->second, value);
    return;
  }
  const auto key = workload_.checkpoint_keys.find(name);
  checkpoint_.Add(key == workload_.checkpoint_keys.end() ? name : key->second, value);
}

absl::Status VariableFiles::Finish(const Arrays& node_states) {
  absl::Status written;
  if (arrays_.wanted()) AddError(arrays_.Finish(), written);
  if (!checkpoint_.wanted()) return written;
  for (const auto& [key, value] : workload_.checkpoint_extras) checkpoint_.Add(key, value);
  for (const auto& [node, state] : node_states) checkpoint_.Add(absl::StrCat(kNodeStatePrefix, node), state);
  AddError(checkpoint_.Finish(), written);
  return written;
}

absl::Status VariableFiles::File::Open() {
  if (writer_ != nullptr) return absl::OkStatus();
  MR_ASSIGN_OR_RETURN(const auto reader, AwaitReader(path_));
  MR_ASSIGN_OR_RETURN(writer_, open_(path_));
  return absl::OkStatus();
}

void VariableFiles::File::Add(const std::string& name, const Tensor& value) {
  if (status_.ok()) status_ = Open();
  if (status_.ok()) status_ = writer_->Add(name, value);
}

void VariableFiles::File::Add(const VariablePart& part, const Tensor& value) {
  if (status_.ok()) status_ = Open();
  if (status_.ok()) status_ = writer_->AddSlice(part.key, part.slice, value);
}

absl::Status VariableFiles::File::Finish() {
  if (status_.ok()) status_ = Open();  // a file of no variables
  if (status_.ok()) status_ = writer_->Finish();
  return status_;
}

}  // namespace millrace::cli
