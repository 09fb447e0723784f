#include "graph/number_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace millrace {
namespace {

std::string FloatText(const std::string& format, double number) {
  const auto parsed = absl::ParsedFormat<absl::FormatConversionCharSet::kFloating>::New(format);
  return parsed ? absl::StrFormat(*parsed, number) : "";
}

template <typename T>
std::string Pair(const std::string& format, const T* parts) {
  return absl::StrCat("(", FloatText(format, parts[0]), ",", FloatText(format, parts[1]), ")");
}

}  // namespace

absl::StatusOr<NumberText> NumberText::Create(const AttrMap& attrs, DataType dtype) {
  const std::string fill = attrs.GetOr<std::string>("fill", "");
  const int64_t width = attrs.GetOr<int64_t>("width", -1), precision = attrs.GetOr<int64_t>("precision", -1);
  const bool scientific = attrs.GetOr("scientific", false), shortest = attrs.GetOr("shortest", false);
  NumberText text;
  text.dtype_ = dtype;
  if (fill.size() > 1 || (!fill.empty() && std::string(" -0+#").find(fill) == std::string::npos)) {
    return absl::InvalidArgumentError(absl::StrCat("Fill argument not supported: \"", fill, "\""));
  }
  if (scientific && shortest) return absl::InvalidArgumentError("Cannot select both scientific and shortest notation");
  // Unsigned integers have no sign to show or to leave room for.
  const bool is_unsigned = dtype == DataType::kUint8 || dtype == DataType::kUint16 || dtype == DataType::kUint32 || dtype == DataType::kUint64;
  text.format_ = is_unsigned && (fill == "+" || fill == " ") ? "%" : absl::StrCat("%", fill);
  if (width > -1) absl::StrAppend(&text.format_, width);
  if (IsFloating(dtype) || dtype == DataType::kComplex64 || dtype == DataType::kComplex128) {
    if (precision > -1) absl::StrAppend(&text.format_, ".", precision);
    text.format_ += shortest ? 'g' : scientific ? 'e' : 'f';
    return text;
  }
  if (!IsInteger(dtype) && dtype != DataType::kBool) {
    return absl::UnimplementedError(absl::StrCat("AsString of ", std::string(DataTypeName(dtype)), ", expected numbers or bool"));
  }
  if (scientific || shortest || precision > -1) {
    return absl::InvalidArgumentError("scientific, shortest and precision are for floating point numbers");
  }
  text.format_ += dtype == DataType::kUint64 ? 'u' : 'd';
  return text;
}

std::string NumberText::Of(const Tensor& numbers, int64_t i) const {
  if (dtype_ == DataType::kBool) return numbers.IntAt(i) != 0 ? "true" : "false";
  if (IsFloating(dtype_)) return FloatText(format_, numbers.DoubleAt(i));
  if (dtype_ == DataType::kComplex64) return Pair(format_, static_cast<const float*>(numbers.data()) + 2 * i);
  if (dtype_ == DataType::kComplex128) return Pair(format_, static_cast<const double*>(numbers.data()) + 2 * i);
  const auto format = absl::ParsedFormat<absl::FormatConversionCharSet::kIntegral>::New(format_);
  if (!format) return "";
  return dtype_ == DataType::kUint64 ? absl::StrFormat(*format, static_cast<uint64_t>(numbers.IntAt(i)))
                                     : absl::StrFormat(*format, numbers.IntAt(i));
}

}  // namespace millrace
