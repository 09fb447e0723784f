#include "proto/parse.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace millrace {
namespace {

constexpr int kMaxTextDepth = 100;  // protobuf's own limit for binary messages

class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (text_.empty()) text_ = absl::StrCat("line ", line + 1, ", column ", column + 1, ": ", message);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

absl::Status CheckSize(std::string_view bytes) {
  if (bytes.size() <= std::numeric_limits<int>::max()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(bytes.size(), " bytes, expected at most 2 GiB (a protobuf message)"));
}

}  // namespace

bool LooksLikeText(std::string_view bytes) {
  constexpr size_t kEnough = 4096;
  const std::string_view head = bytes.substr(0, kEnough);
  return !head.empty() && std::all_of(head.begin(), head.end(), [](char c) {
    return absl::ascii_isspace(static_cast<unsigned char>(c)) || !absl::ascii_iscntrl(static_cast<unsigned char>(c));
  });
}

absl::Status ParseText(std::string_view bytes, bool skip_unknown_fields, google::protobuf::Message* message) {
  if (absl::Status status = CheckSize(bytes); !status.ok()) return status;
  google::protobuf::LogSilencer silence;
  google::protobuf::io::ArrayInputStream input(bytes.data(), static_cast<int>(bytes.size()));
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  parser.SetRecursionLimit(kMaxTextDepth);
  parser.AllowUnknownField(skip_unknown_fields);
  if (parser.Parse(&input, message)) return absl::OkStatus();
  return absl::InvalidArgumentError(error.text().empty() ? "not a text message" : error.text());
}

absl::Status ParseBinary(std::string_view bytes, google::protobuf::Message* message) {
  if (absl::Status status = CheckSize(bytes); !status.ok()) return status;
  google::protobuf::LogSilencer silence;
  if (message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("truncated or corrupt, expected a ", message->GetDescriptor()->name()));
}

}  // namespace millrace
