// Copies an n-dimensional block between two strided layouts: what slices, transposes, broadcasts, tiles,
// reversals and space/batch rearrangements come down to.
//
//   for all index in dims: out[out_offset + index · out_strides] = in[in_offset + index · in_strides]
//
// Strides count elements and may be 0 (broadcast) or negative (reverse) on the input's side.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_STRIDED_COPY_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_STRIDED_COPY_H_

#include "absl/container/inlined_vector.h"
#include "cpu/kernels/common.h"

namespace millrace::cpu {

class StridedCopy {
 public:
  // Requires element_size 1, 2, 4, 8 or 16.
  explicit StridedCopy(int64_t element_size) : element_size_(element_size) {}

  void AddDim(int64_t size, int64_t in_stride, int64_t out_stride) { dims_.push_back({size, in_stride, out_stride}); }
  void set_in_offset(int64_t elements) { in_offset_ = elements; }
  void set_out_offset(int64_t elements) { out_offset_ = elements; }
  // Drops and merges dimensions and chooses the loops. Call once, after the last AddDim and before Run.
  void Prepare();

  // Distinct indices must lead to distinct output elements, and no output element may be an input one.
  void Run(const KernelContext& context, const void* in, void* out) const;

 private:
  struct Dim {
    int64_t size, in_stride, out_stride;
  };
  using Dims = absl::InlinedVector<Dim, 8>;

  template <typename T>
  void RunTyped(const KernelContext& context, const T* in, T* out) const;
  template <typename T>
  void CopyRows(const T* in, T* out, int64_t begin, int64_t end) const;
  template <typename T>
  void CopyNarrow(const T* in, T* out, int64_t begin, int64_t end) const;
  template <typename T>
  void CopyBlocks(const T* in, T* out, int64_t begin, int64_t end) const;

  int64_t element_size_;
  int64_t in_offset_ = 0, out_offset_ = 0;
  Dims dims_;  // after Prepare: outermost first, at least one
  int64_t elements_ = 1;
  bool transposes_ = false;  // the last two dims form a 2-D transpose
  bool narrow_ = false;      // the last dim is so short that the loop over the one before it is the inner one
};

// Row-major strides of `dims`, in elements.
absl::InlinedVector<int64_t, 8> RowMajorStrides(absl::Span<const int64_t> dims);

// Whole tensors at memory bandwidth; in == out is a copy already.
void CopyTensor(const KernelContext& context, const void* in, void* out, int64_t bytes);
void FillZero(const KernelContext& context, void* out, int64_t bytes);

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_STRIDED_COPY_H_
