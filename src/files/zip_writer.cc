#include "files/zip_writer.h"

#include <zlib.h>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"

namespace millrace {
namespace {

constexpr uint16_t kVersion = 45;            // the first with zip64
constexpr uint16_t kUtf8Names = 0x0800;
constexpr uint16_t kFirstDay = 1 << 5 | 1;   // 1980-01-01
constexpr uint16_t kZip64 = 1;               // id of the extra field
constexpr uint16_t kIn16 = UINT16_MAX;       // "see the zip64 field"
constexpr uint32_t kIn32 = UINT32_MAX;

// Appends integers in little-endian order.
class Record {
 public:
  explicit Record(std::string_view signature) : bytes_(signature) {}
  Record& U16(uint64_t value) { return Put(value, 2); }
  Record& U32(uint64_t value) { return Put(value, 4); }
  Record& U64(uint64_t value) { return Put(value, 8); }
  Record& Text(std::string_view text) {
    bytes_.append(text);
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  Record& Put(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) bytes_.push_back(static_cast<char>(value >> (8 * i)));
    return *this;
  }
  std::string bytes_;
};

uint32_t Crc(const std::vector<std::string_view>& parts) {
  uLong crc = crc32(0, nullptr, 0);
  for (std::string_view part : parts) {
    crc = crc32_z(crc, reinterpret_cast<const Bytef*>(part.data()), part.size());
  }
  return static_cast<uint32_t>(crc);
}

}  // namespace

absl::Status ZipWriter::Append(std::string_view bytes) {
  offset_ += bytes.size();
  return file_.Append(bytes);
}

absl::Status ZipWriter::Add(const std::string& name, const std::vector<std::string_view>& parts) {
  if (name.size() > UINT16_MAX) {
    return absl::InvalidArgumentError(absl::StrCat("a name of ", name.size(), " bytes in a zip archive, expected at "
                                                   "most 65535"));
  }
  uint64_t size = 0;
  for (std::string_view part : parts) size += part.size();
  const uint32_t crc = Crc(parts);
  Record local("PK\x03\x04");
  local.U16(kVersion).U16(kUtf8Names).U16(0).U16(0).U16(kFirstDay).U32(crc).U32(kIn32).U32(kIn32);
  local.U16(name.size()).U16(20).Text(name).U16(kZip64).U16(16).U64(size).U64(size);
  Record entry("PK\x01\x02");
  entry.U16(kVersion).U16(kVersion).U16(kUtf8Names).U16(0).U16(0).U16(kFirstDay).U32(crc).U32(kIn32).U32(kIn32);
  entry.U16(name.size()).U16(28).U16(0).U16(0).U16(0).U32(0).U32(kIn32).Text(name);
  entry.U16(kZip64).U16(24).U64(size).U64(size).U64(offset_);
  directory_ += entry.bytes();
  ++members_;
  MR_RETURN_IF_ERROR(Append(local.bytes()));
  for (std::string_view part : parts) MR_RETURN_IF_ERROR(Append(part));
  return absl::OkStatus();
}

absl::Status ZipWriter::Finish() {
  Record end("PK\x05\x06");
  if (members_ == 0) {
    // NumPy tells an archive of nothing by these first bytes alone.
    end.U16(0).U16(0).U16(0).U16(0).U32(0).U32(0).U16(0);
    return Append(end.bytes());
  }
  const uint64_t directory_offset = offset_;
  MR_RETURN_IF_ERROR(Append(directory_));
  Record end64("PK\x06\x06");
  end64.U64(44).U16(kVersion).U16(kVersion).U32(0).U32(0).U64(members_).U64(members_);
  end64.U64(directory_.size()).U64(directory_offset);
  Record locator("PK\x06\x07");
  locator.U32(0).U64(offset_).U32(1);
  end.U16(0).U16(0).U16(kIn16).U16(kIn16).U32(kIn32).U32(kIn32).U16(0);
  return Append(absl::StrCat(end64.bytes(), locator.bytes(), end.bytes()));
}

}  // namespace millrace
