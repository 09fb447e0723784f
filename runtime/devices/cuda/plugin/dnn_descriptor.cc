#include "cuda/plugin/dnn_descriptor.h"

#include "absl/strings/str_cat.h"
#include "millrace/status.h"

namespace millrace::cuda {

absl::Status DnnStatus(cudnnStatus_t status, std::string_view what) {
  if (status == CUDNN_STATUS_SUCCESS) return absl::OkStatus();
  char detail[512] = "";
  cudnnGetLastErrorString(detail, sizeof detail);
  const std::string message = absl::StrCat("cuDNN: ", std::string(what), ": ", cudnnGetErrorString(status),
                                           detail[0] != 0 ? absl::StrCat(" (", detail, ")") : "");
  // A library of cuDNN's that is not there is counted among what it does not support.
  const bool unsupported =
      CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED && status != CUDNN_STATUS_NOT_SUPPORTED_SUBLIBRARY_UNAVAILABLE;
  return unsupported ? absl::UnimplementedError(message) : absl::InternalError(message);
}

DnnDescriptor::DnnDescriptor(cudnnBackendDescriptorType_t type) : status_(cudnnBackendCreateDescriptor(type, &descriptor_)) {}

DnnDescriptor::~DnnDescriptor() {
  if (descriptor_ != nullptr) cudnnBackendDestroyDescriptor(descriptor_);
}

DnnDescriptor& DnnDescriptor::operator=(DnnDescriptor&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(status_, other.status_);
  return *this;
}

DnnDescriptor& DnnDescriptor::Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                                  const void* values) {
  if (status_ == CUDNN_STATUS_SUCCESS) status_ = cudnnBackendSetAttribute(descriptor_, name, type, count, values);
  return *this;
}

absl::Status DnnDescriptor::Finalize(std::string_view what) {
  if (status_ == CUDNN_STATUS_SUCCESS) status_ = cudnnBackendFinalize(descriptor_);
  return DnnStatus(status_, what);
}

absl::Status DnnDescriptor::Get(cudnnBackendAttributeName_t name, int64_t* value) const {
  int64_t count = 0;
  return DnnStatus(cudnnBackendGetAttribute(descriptor_, name, CUDNN_TYPE_INT64, 1, &count, value), "a number");
}

absl::Status DnnDescriptor::Get(cudnnBackendAttributeName_t name, cudnnBackendDescriptorType_t type, int64_t most,
                                std::vector<DnnDescriptor>* values) const {
  values->clear();
  std::vector<cudnnBackendDescriptor_t> filled;
  for (int64_t i = 0; i < most; ++i) {
    DnnDescriptor& one = values->emplace_back(type);
    MR_RETURN_IF_ERROR(DnnStatus(one.status_, "a descriptor"));
    filled.push_back(one.descriptor_);
  }
  int64_t count = 0;
  MR_RETURN_IF_ERROR(DnnStatus(
      cudnnBackendGetAttribute(descriptor_, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, most, &count, filled.data()), "descriptors"));
  values->resize(count < most ? count : most);
  return absl::OkStatus();
}

}  // namespace millrace::cuda
