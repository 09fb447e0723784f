#include <string>

#include "absl/strings/str_cat.h"
#include "codecs/jpeg.h"
#include "codecs/jpeg_error.h"

namespace millrace {
namespace {

// Appends what the library writes to a string.
class Destination : public jpeg_destination_mgr {
 public:
  Destination() {
    init_destination = [](j_compress_ptr info) { static_cast<Destination*>(info->dest)->Empty(); };
    empty_output_buffer = [](j_compress_ptr info) -> boolean {
      auto* self = static_cast<Destination*>(info->dest);
      self->file_.append(reinterpret_cast<const char*>(self->buffer_), sizeof(self->buffer_));
      self->Empty();
      return TRUE;
    };
    term_destination = [](j_compress_ptr info) {
      auto* self = static_cast<Destination*>(info->dest);
      self->file_.append(reinterpret_cast<const char*>(self->buffer_), sizeof(self->buffer_) - self->free_in_buffer);
    };
  }
  std::string& file() { return file_; }

 private:
  void Empty() { next_output_byte = buffer_, free_in_buffer = sizeof(buffer_); }

  std::string file_;
  JOCTET buffer_[16 << 10];
};

void SetUp(j_compress_ptr info, const PixelView& image, const JpegWriting& writing) {
  info->image_width = static_cast<JDIMENSION>(image.width);
  info->image_height = static_cast<JDIMENSION>(image.height);
  info->input_components = static_cast<int>(image.channels);
  info->in_color_space = image.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(info);
  if (writing.optimize_size) info->optimize_coding = TRUE;
  info->density_unit = writing.density_in_inches ? 1 : 2;
  info->X_density = static_cast<UINT16>(writing.x_density);
  info->Y_density = static_cast<UINT16>(writing.y_density);
  jpeg_set_quality(info, writing.quality, TRUE);
  if (writing.progressive) jpeg_simple_progression(info);
  for (int c = 0; c < info->num_components && !writing.chroma_downsampling; ++c) {
    info->comp_info[c].h_samp_factor = info->comp_info[c].v_samp_factor = 1;
  }
}

void Write(j_compress_ptr info, const PixelView& image, std::string_view metadata) {
  jpeg_start_compress(info, TRUE);
  if (!metadata.empty()) {
    jpeg_write_marker(info, JPEG_APP0 + 1, reinterpret_cast<const JOCTET*>(metadata.data()), static_cast<unsigned>(metadata.size()));
  }
  for (int64_t y = 0; y < image.height; ++y) {
    JSAMPROW row = const_cast<JSAMPROW>(image.pixels + y * image.width * image.channels);
    jpeg_write_scanlines(info, &row, 1);
  }
  jpeg_finish_compress(info);
}

}  // namespace

absl::StatusOr<std::string> EncodeJpeg(const PixelView& image, const JpegWriting& writing) {
  constexpr int64_t kMostPixels = int64_t{1} << 29;
  if (image.height * image.width >= kMostPixels) {
    return absl::InvalidArgumentError(absl::StrCat("JPEG size too large: ", image.width, " by ", image.height));
  }
  // Adobe's namespace, with the byte that ends it, comes before the text.
  constexpr std::string_view kXmp("http://ns.adobe.com/xap/1.0/\0", 29);
  std::string metadata;
  if (!writing.xmp_metadata.empty()) metadata = std::string(kXmp) + std::string(writing.xmp_metadata);
  JpegErrors errors;
  Destination destination;
  jpeg_compress_struct info = {};
  info.err = &errors;
  const bool created = errors.Try([&] { jpeg_create_compress(&info); });
  info.dest = &destination;
  const bool written = created && errors.Try([&] {
    SetUp(&info, image, writing);
    Write(&info, image, metadata);
  });
  if (created) jpeg_destroy_compress(&info);
  if (!written) return absl::InvalidArgumentError(absl::StrCat("JPEG encoding failed: ", errors.message()));
  return std::move(destination.file());
}

}  // namespace millrace
