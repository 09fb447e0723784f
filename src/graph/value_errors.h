// Errors of values that ops refuse, in TensorFlow's words.
#ifndef MILLRACE_SRC_GRAPH_VALUE_ERRORS_H_
#define MILLRACE_SRC_GRAPH_VALUE_ERRORS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "millrace/types.h"

namespace millrace {

// "[1,2]": where element `flat` of a tensor of this shape is.
std::string IndexString(const Shape& shape, int64_t flat);

// InvalidArgument: "indices[1] = [0, 3] does not index into shape [2,3]". Tuple `row` of `indices`, along its last dimension, is `values`.
absl::Status NdIndexError(const Shape& indices, int64_t row, absl::Span<const int64_t> values, const Shape& sliced);

// What a tensor holds that is no number; several are or-ed.
struct NotFinite {
  static constexpr uint32_t kNan = 1, kNegativeInf = 2, kPositiveInf = 4;
};

// InvalidArgument: "MESSAGE : Tensor had Inf and NaN values"; `with_sign`: it says which infinities.
absl::Status NotFiniteError(std::string_view message, uint32_t found, bool with_sign);

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_VALUE_ERRORS_H_
