// The parts of reading a message that do not depend on which message it is.
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "import/graph_file.h"
#include "millrace/status.h"

namespace millrace {
namespace {

using google::protobuf::internal::WireFormatLite;

constexpr int kMaxTextDepth = 100;  // protobuf's own limit for binary messages

class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (text_.empty()) text_ = absl::StrCat(line + 1, ":", column + 1, ": ", message);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

absl::Status TooLarge(std::string_view bytes) {
  return absl::InvalidArgumentError(absl::StrCat(bytes.size(), " bytes, expected at most 2 GiB (a protobuf message)"));
}

bool ReadField(google::protobuf::io::CodedInputStream& stream, std::string_view bytes, WireField* field) {
  field->offset = stream.CurrentPosition();
  const uint32_t tag = stream.ReadTag();
  if (tag == 0) return false;
  field->number = WireFormatLite::GetTagFieldNumber(tag);
  field->is_bytes = WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
  if (field->is_bytes) {
    uint32_t length = 0;
    if (!stream.ReadVarint32(&length) || length > bytes.size() - stream.CurrentPosition()) return false;
    field->payload = bytes.substr(stream.CurrentPosition(), length);
    return stream.Skip(static_cast<int>(length));
  }
  if (WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_VARINT) return stream.ReadVarint64(&field->value);
  return WireFormatLite::SkipField(&stream, tag);
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
  if (bytes.size() > std::numeric_limits<int>::max()) return TooLarge(bytes);
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
  if (bytes.size() > std::numeric_limits<int>::max()) return TooLarge(bytes);
  google::protobuf::LogSilencer silence;
  if (message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("truncated or corrupt, expected a ", message->GetDescriptor()->name()));
}

absl::Status ForEachField(std::string_view bytes, const std::function<absl::Status(const WireField&)>& visit) {
  if (bytes.size() > std::numeric_limits<int>::max()) return TooLarge(bytes);
  const int size = static_cast<int>(bytes.size());
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const uint8_t*>(bytes.data()), size);
  stream.SetTotalBytesLimit(std::numeric_limits<int>::max());
  while (stream.CurrentPosition() < size) {
    WireField field;
    if (!ReadField(stream, bytes, &field)) {
      return absl::InvalidArgumentError(
          absl::StrCat("truncated or corrupt at byte ", field.offset, " of ", bytes.size()));
    }
    MR_RETURN_IF_ERROR(visit(field));
  }
  return absl::OkStatus();
}

}  // namespace millrace
