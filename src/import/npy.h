// NumPy's .npy format, versions 1.0 to 3.0.
#ifndef MILLRACE_SRC_IMPORT_NPY_H_
#define MILLRACE_SRC_IMPORT_NPY_H_

#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "millrace/tensor.h"

namespace millrace {

// Fills `bytes` bytes at `out` with what comes next, or says why it cannot.
using ReadBytes = absl::FunctionRef<absl::Status(void* out, size_t bytes)>;

// An array of `size_bytes` bytes, header included: what the header claims is checked against it before anything is
// allocated. Fortran order and big-endian numbers are put in order; byte and unicode strings become string tensors
// (UTF-8), two-byte void elements bfloat16, as NumPy writes it.
absl::StatusOr<Tensor> ReadNpy(int64_t size_bytes, ReadBytes read);

// Magic, version and header of the array; its data follows it (NpyData).
absl::StatusOr<std::string> NpyHeader(const Tensor& tensor);
// The data of the array. A view of the tensor's memory, but for strings: they are written into `storage`.
std::string_view NpyData(const Tensor& tensor, std::string* storage);

}  // namespace millrace

#endif  // MILLRACE_SRC_IMPORT_NPY_H_
