#include "codecs/jpeg.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "codecs/jpeg_error.h"

namespace millrace {
namespace {

constexpr int64_t kMostPixels = int64_t{1} << 29;
constexpr JOCTET kEnd[2] = {0xff, JPEG_EOI};

// A file in memory. One that ends early is an error, or ends with a mark of its own.
class Source : public jpeg_source_mgr {
 public:
  Source(std::string_view file, bool recover) : file_(file), recover_(recover) {
    init_source = [](j_decompress_ptr) {};
    fill_input_buffer = [](j_decompress_ptr info) -> boolean { return static_cast<Source*>(info->src)->End(info); };
    skip_input_data = [](j_decompress_ptr info, long bytes) { static_cast<Source*>(info->src)->Skip(info, bytes); };
    resync_to_restart = jpeg_resync_to_restart;
    term_source = [](j_decompress_ptr) {};
    next_input_byte = reinterpret_cast<const JOCTET*>(file_.data());
    bytes_in_buffer = file_.size();
  }

 private:
  boolean End(j_decompress_ptr info) {
    if (info->input_scan_number == 0) ERREXIT(info, file_.empty() ? JERR_INPUT_EMPTY : JERR_INPUT_EOF);  // still in the header
    // As TensorFlow does, a single scan is read from its last bytes again; several would be so without an end, and so would bytes that only
    // fill up.
    const bool fills = std::all_of(next_input_byte, next_input_byte + bytes_in_buffer, [](JOCTET byte) { return byte == 0xff; });
    const bool again = bytes_in_buffer > 0 && !fills && !jpeg_has_multiple_scans(info);
    if (again || (bytes_in_buffer > 0 && !recover_)) return recover_ ? TRUE : FALSE;
    if (!recover_ || (next_input_byte == kEnd && bytes_in_buffer == 0 && !jpeg_has_multiple_scans(info))) ERREXIT(info, JERR_INPUT_EOF);
    next_input_byte = kEnd;
    bytes_in_buffer = sizeof(kEnd);
    return TRUE;
  }
  void Skip(j_decompress_ptr info, long bytes) {
    if (bytes < 0) return;
    if (static_cast<size_t>(bytes) > bytes_in_buffer) {
      bytes_in_buffer = 0;
      End(info);
    } else {
      next_input_byte += bytes;
      bytes_in_buffer -= bytes;
    }
  }

  std::string_view file_;
  bool recover_;
};

class Decompressor {
 public:
  Decompressor(std::string_view file, bool recover) : source_(file, recover) {
    info_.err = &errors_;
    created_ = errors_.Try([&] { jpeg_create_decompress(&info_); });
    info_.src = &source_;
  }
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;
  ~Decompressor() {
    if (created_) jpeg_destroy_decompress(&info_);
  }
  template <typename Fn>
  bool Try(const Fn& fn) {
    return created_ && errors_.Try([&] { fn(&info_); });
  }
  jpeg_progress_mgr& progress() { return progress_; }
  const jpeg_decompress_struct& info() const { return info_; }
  absl::Status Error() const { return absl::InvalidArgumentError(absl::StrCat("Invalid JPEG data or crop window: ", errors_.message())); }

 private:
  JpegErrors errors_;
  Source source_;
  jpeg_progress_mgr progress_ = {};
  jpeg_decompress_struct info_ = {};
  bool created_ = false;
};

// Reads the header. An image of several scans is kept whole, so its size is limited before it is divided, and so are its scans, each of which goes
// over all of it.
void ReadHeader(j_decompress_ptr info, jpeg_progress_mgr& progress) {
  jpeg_read_header(info, TRUE);
  if (int64_t{info->image_width} * info->image_height * info->num_components >= kMostPixels) ERREXIT1(info, JERR_IMAGE_TOO_BIG, kMostPixels);
  progress.progress_monitor = [](j_common_ptr common) {
    constexpr int kMostScans = 500;
    const auto* decompress = reinterpret_cast<j_decompress_ptr>(common);
    if (decompress->input_scan_number > kMostScans) ERREXIT(common, JERR_INPUT_EOF);
  };
  info->progress = &progress;
}

void Begin(j_decompress_ptr info, jpeg_progress_mgr& progress, const JpegReading& reading, int& channels) {
  ReadHeader(info, progress);
  if (channels == 0) channels = std::min(info->num_components, 3);
  const bool has_ink = info->jpeg_color_space == JCS_CMYK || info->jpeg_color_space == JCS_YCCK;
  info->out_color_space = channels == 1 ? JCS_GRAYSCALE : has_ink ? JCS_CMYK : JCS_RGB;
  info->do_fancy_upsampling = reading.fancy_upscaling ? TRUE : FALSE;
  info->scale_num = 1;
  info->scale_denom = reading.ratio;
  info->dct_method = reading.accurate ? JDCT_ISLOW : JDCT_IFAST;
  jpeg_calc_output_dimensions(info);
}

absl::Status CheckWindow(const CropWindow& window, int64_t height, int64_t width) {
  if (window.height > 0 && window.width > 0 && window.y >= 0 && window.x >= 0 && window.y + window.height <= height && window.x + window.width <= width) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("Invalid JPEG data or crop window: x=", window.x, ", y=", window.y, ", w=", window.width,
                                                 ", h=", window.height, " for image_width: ", width, " and image_height: ", height));
}

// Cyan, magenta, yellow and black as red, green and blue; Adobe's programs write inks inverted.
void MixInks(const uint8_t* inks, int64_t width, bool inverted, uint8_t* to) {
  for (int64_t x = 0; x < width; ++x) {
    const int black = inverted ? inks[4 * x + 3] : 255 - inks[4 * x + 3];
    for (int c = 0; c < 3; ++c) to[3 * x + c] = static_cast<uint8_t>(black * (inverted ? inks[4 * x + c] : 255 - inks[4 * x + c]) / 255);
  }
}

// What a row of the library becomes.
struct Rows {
  Image* image;
  std::vector<uint8_t> line;  // of the library, as wide as whole blocks where there is a window
  int64_t offset = 0;         // of the window in the line
  bool inks = false, inverted = false;

  void Put(int64_t row) {
    const int64_t bytes = image->width * image->channels;
    uint8_t* to = image->pixels.data() + row * bytes;
    inks ? MixInks(line.data() + offset, image->width, inverted, to) : static_cast<void>(std::copy_n(line.data() + offset, bytes, to));
  }
  // Row `row` is missing, and those below.
  void RepeatFrom(int64_t row) {
    const int64_t bytes = image->width * image->channels;
    for (int64_t to = std::max<int64_t>(row, 1); to < image->height; ++to) {
      std::memcpy(image->pixels.data() + to * bytes, image->pixels.data() + (to - 1) * bytes, bytes);
    }
  }
};

// Moves to the window: the library begins lines at whole blocks.
void SeekWindow(j_decompress_ptr info, const CropWindow& window) {
  auto x = static_cast<JDIMENSION>(window.x), width = static_cast<JDIMENSION>(window.width);
  jpeg_crop_scanline(info, &x, &width);
  jpeg_skip_scanlines(info, static_cast<JDIMENSION>(window.y));
}

// Rows that are there, of the image's.
int64_t ReadRows(j_decompress_ptr info, Rows& rows) {
  JSAMPROW line = rows.line.data();
  for (int64_t row = 0; row < rows.image->height; ++row) {
    if (jpeg_read_scanlines(info, &line, 1) == 0) return row;
    rows.Put(row);
  }
  return rows.image->height;
}

}  // namespace

absl::StatusOr<Image> DecodeJpeg(std::string_view file, const JpegReading& reading) {
  Decompressor jpeg(file, reading.recover_truncated);
  int channels = reading.channels;
  if (!jpeg.Try([&](j_decompress_ptr info) { Begin(info, jpeg.progress(), reading, channels); })) return jpeg.Error();
  const int64_t height = jpeg.info().output_height, width = jpeg.info().output_width;
  if (!jpeg.Try([](j_decompress_ptr info) { jpeg_start_decompress(info); })) return jpeg.Error();
  Image image{.height = height, .width = width, .channels = channels};
  if (const auto& window = reading.window) {
    const absl::Status inside = CheckWindow(*window, height, width);
    if (!inside.ok()) return inside;
    if (!jpeg.Try([&](j_decompress_ptr info) { SeekWindow(info, *window); })) return jpeg.Error();
    image.height = window->height, image.width = window->width;
  }
  image.pixels.resize(image.height * image.width * channels);
  Rows rows{.image = &image, .inks = jpeg.info().out_color_space == JCS_CMYK, .inverted = jpeg.info().saw_Adobe_marker != 0};
  const int line_channels = rows.inks ? 4 : channels;
  rows.line.resize(jpeg.info().output_width * line_channels);
  rows.offset = (jpeg.info().output_width - image.width) * line_channels;
  int64_t read = 0;
  if (!jpeg.Try([&](j_decompress_ptr info) { read = ReadRows(info, rows); })) return jpeg.Error();
  if (read == image.height) return image;
  if (reading.recover_truncated) {
    rows.RepeatFrom(read);
  } else if (static_cast<float>(read) / static_cast<float>(image.height) < std::min(1.0f, reading.acceptable_fraction)) {
    return absl::InvalidArgumentError(absl::StrCat("Invalid JPEG data or crop window: it ends at row ", read, " of ", image.height));
  }
  return image;
}

absl::StatusOr<JpegSize> SizeOfJpeg(std::string_view file) {
  Decompressor jpeg(file, /*recover=*/false);
  const bool begun = jpeg.Try([&](j_decompress_ptr info) {
    ReadHeader(info, jpeg.progress());
    jpeg_calc_output_dimensions(info);
  });
  if (!begun) return jpeg.Error();
  return JpegSize{jpeg.info().output_height, jpeg.info().output_width, jpeg.info().output_components};
}

}  // namespace millrace
