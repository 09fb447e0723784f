#include "codecs/inflate.h"

#include <zlib.h>

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"

namespace millrace {
namespace {

constexpr size_t kMostInflatedBytes = size_t{1} << 31;
constexpr size_t kStepBytes = size_t{1} << 12;

class Inflater {
 public:
  explicit Inflater(bool gzip) {
    constexpr int kGzip = 16;  // of zlib, added to the bits of the window
    begun_ = inflateInit2(&stream_, gzip ? MAX_WBITS + kGzip : MAX_WBITS) == Z_OK;
  }
  ~Inflater() {
    if (begun_) inflateEnd(&stream_);
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  bool begun() const { return begun_; }
  z_stream& stream() { return stream_; }

 private:
  z_stream stream_ = {};
  bool begun_ = false;
};

}  // namespace

absl::StatusOr<std::string> Inflated(std::string_view bytes, bool gzip) {
  if (bytes.size() > std::numeric_limits<uInt>::max()) return absl::InvalidArgumentError(absl::StrCat(bytes.size(), " bytes are too many to inflate"));
  Inflater inflater(gzip);
  if (!inflater.begun()) return absl::ResourceExhaustedError("zlib has no memory");
  z_stream& stream = inflater.stream();
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));  // zlib does not write there
  stream.avail_in = static_cast<uInt>(bytes.size());
  std::string result;
  size_t size = 0;
  while (true) {
    if (size > kMostInflatedBytes) return absl::InvalidArgumentError(absl::StrCat("inflates to more than ", kMostInflatedBytes, " bytes"));
    if (result.size() == size) result.resize(std::min(std::max(kStepBytes, size * 2), kMostInflatedBytes + 1));
    stream.next_out = reinterpret_cast<Bytef*>(result.data() + size);
    stream.avail_out = static_cast<uInt>(std::min<size_t>(result.size() - size, std::numeric_limits<uInt>::max()));
    const uInt room = stream.avail_out;
    const int status = inflate(&stream, Z_NO_FLUSH);
    size += room - stream.avail_out;
    if (status == Z_STREAM_END && gzip && stream.avail_in > 0) {
      inflateReset(&stream);
    } else if (status == Z_STREAM_END || (status == Z_BUF_ERROR && stream.avail_in == 0) || (status == Z_OK && stream.avail_in == 0 && stream.avail_out > 0)) {
      break;
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      return absl::DataLossError(absl::StrCat("inflate() failed with error ", status, ": ", stream.msg == nullptr ? "no message" : stream.msg));
    }
  }
  result.resize(size);
  return result;
}

}  // namespace millrace
