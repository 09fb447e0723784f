// A descriptor of cuDNN's graph interface: attributes are set, then it is finalized, then it may be used by others and read.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_PLUGIN_DNN_DESCRIPTOR_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_PLUGIN_DNN_DESCRIPTOR_H_

#include <cudnn.h>

#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace millrace::cuda {

// With cuDNN's own words. Unimplemented: what was asked for is not supported.
absl::Status DnnStatus(cudnnStatus_t status, std::string_view what);

class DnnDescriptor {
 public:
  DnnDescriptor() = default;
  explicit DnnDescriptor(cudnnBackendDescriptorType_t type);
  ~DnnDescriptor();
  DnnDescriptor(DnnDescriptor&& other) noexcept { *this = std::move(other); }
  DnnDescriptor& operator=(DnnDescriptor&& other) noexcept;

  cudnnBackendDescriptor_t get() const { return descriptor_; }

  // The first error of these is what Finalize returns.
  DnnDescriptor& Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count, const void* values);
  DnnDescriptor& Set(cudnnBackendAttributeName_t name, absl::Span<const int64_t> values) {
    return Set(name, CUDNN_TYPE_INT64, static_cast<int64_t>(values.size()), values.data());
  }
  DnnDescriptor& Set(cudnnBackendAttributeName_t name, int64_t value) { return Set(name, CUDNN_TYPE_INT64, 1, &value); }
  DnnDescriptor& Set(cudnnBackendAttributeName_t name, cudnnDataType_t value) {
    return Set(name, CUDNN_TYPE_DATA_TYPE, 1, &value);
  }
  DnnDescriptor& Set(cudnnBackendAttributeName_t name, const DnnDescriptor& other) {
    return Set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &other.descriptor_);
  }
  absl::Status Finalize(std::string_view what);

  // Of one that is finalized.
  absl::Status Get(cudnnBackendAttributeName_t name, int64_t* value) const;
  // At most `most` of them. T is what cuDNN keeps for `type`.
  template <typename T>
  absl::Status Get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t most, std::vector<T>* values) const {
    values->resize(most);
    int64_t count = 0;
    const cudnnStatus_t status = cudnnBackendGetAttribute(descriptor_, name, type, most, &count, values->data());
    values->resize(status == CUDNN_STATUS_SUCCESS && count < most ? count : most);
    return DnnStatus(status, "an attribute");
  }
  // Descriptors that cuDNN makes, each of `type`; at most `most`.
  absl::Status Get(cudnnBackendAttributeName_t name, cudnnBackendDescriptorType_t type, int64_t most,
                   std::vector<DnnDescriptor>* values) const;

 private:
  cudnnBackendDescriptor_t descriptor_ = nullptr;
  cudnnStatus_t status_ = CUDNN_STATUS_SUCCESS;
};

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_PLUGIN_DNN_DESCRIPTOR_H_
