#include "graph/csv.h"

#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "millrace/status.h"

namespace millrace {
namespace {

using CsvFields = std::vector<std::string>;

bool EndsLine(char c) { return c == '\n' || c == '\r'; }

// Takes the fields of a record one by one.
class CsvReader {
 public:
  CsvReader(std::string_view record, char delimiter, bool quotes) : record_(record), delimiter_(delimiter), quotes_(quotes) {}

  // Ends of lines before a field are passed over. False where no field begins.
  absl::StatusOr<bool> Next(std::string* field) {
    field->clear();
    while (at_ < record_.size() && EndsLine(record_[at_])) ++at_;
    if (at_ >= record_.size()) return false;
    MR_RETURN_IF_ERROR(quotes_ && record_[at_] == '"' ? TakeQuoted(field) : TakePlain(field));
    return true;
  }
  // Whether an empty field follows the last delimiter.
  bool ends_with_delimiter() const { return !record_.empty() && record_.back() == delimiter_; }

 private:
  absl::Status TakePlain(std::string* field) {
    for (; at_ < record_.size() && record_[at_] != delimiter_; ++at_) {
      if ((quotes_ && record_[at_] == '"') || EndsLine(record_[at_])) {
        return absl::InvalidArgumentError("Unquoted fields cannot have quotes/CRLFs inside");
      }
      field->push_back(record_[at_]);
    }
    ++at_;
    return absl::OkStatus();
  }

  // Two quotes stand for one.
  absl::Status TakeQuoted(std::string* field) {
    for (++at_; at_ + 1 < record_.size() && (record_[at_] != '"' || record_[at_ + 1] != delimiter_); ++at_) {
      if (record_[at_] == '"' && record_[++at_] != '"') {
        return absl::InvalidArgumentError("Quote inside a string has to be escaped by another quote");
      }
      field->push_back(record_[at_]);
    }
    if (at_ >= record_.size() || record_[at_] != '"') return absl::InvalidArgumentError("Quoted field has to end with quote followed by delim or end");
    at_ += 2;
    return absl::OkStatus();
  }

  std::string_view record_;
  size_t at_ = 0;
  char delimiter_;
  bool quotes_;
};

class Csv {
 public:
  static absl::StatusOr<Csv> Of(const AttrMap& attrs, size_t columns) {
    Csv csv;
    const std::string delimiter = attrs.GetOr<std::string>("field_delim", ",");
    if (delimiter.size() != 1) return absl::InvalidArgumentError("field_delim should be only 1 char");
    csv.delimiter_ = delimiter[0];
    csv.quotes_ = attrs.GetOr<bool>("use_quote_delim", true);
    csv.not_available_ = attrs.GetOr<std::string>("na_value", "");
    csv.chosen_ = attrs.GetOr<std::vector<int64_t>>("select_cols", {});
    if (!csv.chosen_.empty() && csv.chosen_.size() != columns) return absl::InvalidArgumentError("select_cols should match output size");
    for (size_t k = 0; k < csv.chosen_.size(); ++k) {
      if (csv.chosen_[k] < 0) return absl::InvalidArgumentError("select_cols should be non-negative indices");
      if (k > 0 && csv.chosen_[k] <= csv.chosen_[k - 1]) return absl::InvalidArgumentError("select_cols should be strictly increasing indices");
    }
    return csv;
  }

  bool is_missing(const std::string& field) const { return field.empty() || field == not_available_; }

  // The chosen fields; what is behind the last of them is not read.
  absl::StatusOr<CsvFields> FieldsOf(std::string_view record) const {
    CsvReader reader(record, delimiter_, quotes_);
    CsvFields fields;
    std::string field;
    int64_t column = 0;
    for (;; ++column) {
      MR_ASSIGN_OR_RETURN(const bool found, reader.Next(&field));
      if (!found) break;
      if (IsChosen(column, fields.size())) fields.push_back(field);
      if (!chosen_.empty() && fields.size() == chosen_.size()) return fields;
    }
    if (reader.ends_with_delimiter() && IsChosen(column, fields.size())) fields.emplace_back();
    return fields;
  }

 private:
  bool IsChosen(int64_t column, size_t next) const { return chosen_.empty() || chosen_[next] == column; }

  char delimiter_ = ',';
  bool quotes_ = true;
  std::string not_available_;
  std::vector<int64_t> chosen_;
};

bool Parse(const std::string& text, float* number) { return absl::SimpleAtof(text, number); }
bool Parse(const std::string& text, double* number) { return absl::SimpleAtod(text, number); }
bool Parse(const std::string& text, int32_t* number) { return absl::SimpleAtoi(text, number); }
bool Parse(const std::string& text, int64_t* number) { return absl::SimpleAtoi(text, number); }

// Element `at` of a column. False where the text is no number of its type.
template <typename T>
bool SetNumber(Tensor& column, int64_t at, const std::string* text, const Tensor& otherwise) {
  T& number = column.mutable_as<T>()[at];
  if (text != nullptr) return Parse(*text, &number);
  number = otherwise.as<T>()[0];
  return true;
}

// From the text, or where there is none from its default.
bool SetElement(Tensor& column, int64_t at, const std::string* text, const Tensor& otherwise) {
  switch (column.dtype()) {
    case DataType::kFloat: return SetNumber<float>(column, at, text, otherwise);
    case DataType::kDouble: return SetNumber<double>(column, at, text, otherwise);
    case DataType::kInt32: return SetNumber<int32_t>(column, at, text, otherwise);
    case DataType::kInt64: return SetNumber<int64_t>(column, at, text, otherwise);
    default: column.mutable_strings()[at] = text != nullptr ? *text : otherwise.strings()[0]; return true;
  }
}

absl::Status CheckDefaults(absl::Span<const Tensor> defaults) {
  for (size_t f = 0; f < defaults.size(); ++f) {
    const Tensor& given = defaults[f];
    if (given.shape().rank() > 1) return absl::InvalidArgumentError("Each record default should be at most rank 1");
    if (given.num_elements() > 1) return absl::InvalidArgumentError("Shape of a default must be a length-0 or length-1 vector, or a scalar.");
    const DataType type = given.dtype();
    const bool known = type == DataType::kFloat || type == DataType::kDouble || type == DataType::kInt32 || type == DataType::kInt64 ||
                       type == DataType::kString;
    if (!known) return absl::InvalidArgumentError(absl::StrCat("csv: data type ", std::string(DataTypeName(type)), " not supported in field ", f));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<Tensor>> CsvColumns(const AttrMap& attrs, absl::Span<const Tensor> inputs) {
  if (inputs.size() < 2 || inputs[0].dtype() != DataType::kString) return absl::InvalidArgumentError("has no records and defaults of their fields");
  const absl::Span<const Tensor> defaults = inputs.subspan(1);
  MR_ASSIGN_OR_RETURN(const Csv csv, Csv::Of(attrs, defaults.size()));
  MR_RETURN_IF_ERROR(CheckDefaults(defaults));
  std::vector<Tensor> columns;
  for (const Tensor& given : defaults) columns.emplace_back(given.dtype(), inputs[0].shape());
  for (size_t i = 0; i < inputs[0].strings().size(); ++i) {
    MR_ASSIGN_OR_RETURN(const CsvFields fields, csv.FieldsOf(inputs[0].strings()[i]));
    if (fields.size() != columns.size()) {
      return absl::InvalidArgumentError(absl::StrCat("Expect ", columns.size(), " fields but have ", fields.size(), " in record ", i));
    }
    for (size_t f = 0; f < columns.size(); ++f) {
      const bool missing = csv.is_missing(fields[f]);
      if (missing && defaults[f].num_elements() == 0) {
        return absl::InvalidArgumentError(absl::StrCat("Field ", f, " is required but missing in record ", i, "!"));
      }
      if (SetElement(columns[f], static_cast<int64_t>(i), missing ? nullptr : &fields[f], defaults[f])) continue;
      return absl::InvalidArgumentError(absl::StrCat("Field ", f, " in record ", i, " is not a valid ", std::string(DataTypeName(columns[f].dtype())), ": ",
                                                     fields[f]));
    }
  }
  return columns;
}

}  // namespace millrace
