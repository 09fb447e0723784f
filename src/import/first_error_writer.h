// A TensorWriter that has failed once fails from then on: what it could not take is not in the files.
#ifndef MILLRACE_SRC_IMPORT_FIRST_ERROR_WRITER_H_
#define MILLRACE_SRC_IMPORT_FIRST_ERROR_WRITER_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "millrace/import.h"

namespace millrace {

class FirstErrorWriter final : public TensorWriter {
 public:
  explicit FirstErrorWriter(std::unique_ptr<TensorWriter> writer) : writer_(std::move(writer)) {}

  absl::Status Add(const std::string& name, const Tensor& tensor) override {
    if (status_.ok()) status_ = writer_->Add(name, tensor);
    return status_;
  }
  absl::Status AddSlice(const std::string& name, const TensorSlice& slice, const Tensor& part) override {
    if (status_.ok()) status_ = writer_->AddSlice(name, slice, part);
    return status_;
  }
  absl::Status Finish() override {
    if (status_.ok()) status_ = writer_->Finish();
    return status_;
  }

 private:
  const std::unique_ptr<TensorWriter> writer_;
  absl::Status status_;
};

}  // namespace millrace

#endif  // MILLRACE_SRC_IMPORT_FIRST_ERROR_WRITER_H_
