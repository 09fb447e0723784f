#include "graph/value_errors.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace millrace {

std::string IndexString(const Shape& shape, int64_t flat) {
  if (shape.rank() == 0) return "";
  std::vector<int64_t> index(shape.rank());
  for (int d = shape.rank() - 1; d >= 0; --d) {
    index[d] = flat % shape.dim(d);
    flat /= shape.dim(d);
  }
  return absl::StrCat("[", absl::StrJoin(index, ","), "]");
}

absl::Status NdIndexError(const Shape& indices, int64_t row, absl::Span<const int64_t> values, const Shape& sliced) {
  const Shape rows(indices.dims().subspan(0, indices.rank() - 1));
  return absl::InvalidArgumentError(absl::StrCat("indices", IndexString(rows, row), " = [", absl::StrJoin(values, ", "),
                                                 "] does not index into shape ", sliced.ToString()));
}

namespace {

std::string Describe(uint32_t found, bool with_sign) {
  const uint32_t inf = found & (NotFinite::kNegativeInf | NotFinite::kPositiveInf);
  std::string infinities = "Inf";
  if (with_sign && inf != 0) {
    infinities = inf == NotFinite::kNegativeInf ? "-Inf" : inf == NotFinite::kPositiveInf ? "+Inf" : "-Inf, +Inf";
  }
  if ((found & NotFinite::kNan) == 0) return infinities;
  if (inf == 0) return "NaN";
  return with_sign ? absl::StrCat(infinities, ", and NaN") : "Inf and NaN";
}

}  // namespace

absl::Status NotFiniteError(std::string_view message, uint32_t found, bool with_sign) {
  return absl::InvalidArgumentError(absl::StrCat(std::string(message), " : Tensor had ", Describe(found, with_sign), " values"));
}

}  // namespace millrace
