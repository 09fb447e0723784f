// Files of arrays: LoadArrays and SaveArrays of millrace/import.h, and the former without the file.
#ifndef MILLRACE_SRC_IMPORT_NPZ_H_
#define MILLRACE_SRC_IMPORT_NPZ_H_

#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "millrace/tensor.h"

namespace millrace {

// Bytes of an .npz: a zip of .npy members, stored or deflated; names without ".npy".
absl::StatusOr<std::map<std::string, Tensor>> ArraysFromNpz(std::string_view bytes);
absl::StatusOr<Tensor> ArrayFromNpy(std::string_view bytes);

}  // namespace millrace

#endif  // MILLRACE_SRC_IMPORT_NPZ_H_
