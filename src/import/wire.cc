// The parts of reading a message that do not depend on which message it is.
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <limits>

#include "absl/strings/str_cat.h"
#include "import/graph_file.h"
#include "millrace/status.h"

namespace millrace {
namespace {

using google::protobuf::internal::WireFormatLite;

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
