// JPEG files, by libjpeg-turbo.
#ifndef MILLRACE_SRC_CODECS_JPEG_H_
#define MILLRACE_SRC_CODECS_JPEG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "codecs/image.h"

namespace millrace {

struct CropWindow {
  int64_t y = 0, x = 0, height = 0, width = 0;
};

struct JpegReading {
  int channels = 0;                  // 1 or 3; 0: those of the file, three where it has more
  int ratio = 1;                     // 1, 2, 4 or 8: sides are divided by it
  bool fancy_upscaling = true;       // of the planes of color
  bool recover_truncated = false;    // rows that are missing repeat the last one
  float acceptable_fraction = 1;     // of the rows, where some are missing; these are black
  bool accurate = false;             // the slower of the integer cosine transforms
  std::optional<CropWindow> window;  // of the image after division
};
absl::StatusOr<Image> DecodeJpeg(std::string_view file, const JpegReading& reading);

struct JpegSize {
  int64_t height = 0, width = 0, channels = 0;
};
absl::StatusOr<JpegSize> SizeOfJpeg(std::string_view file);

struct JpegWriting {
  int quality = 95;  // 0 to 100
  bool progressive = false, optimize_size = false, chroma_downsampling = true;
  bool density_in_inches = true;  // else in centimetres
  int x_density = 300, y_density = 300;
  std::string_view xmp_metadata;
};
// Of one or three channels of a byte. Requires pixels.
absl::StatusOr<std::string> EncodeJpeg(const PixelView& image, const JpegWriting& writing);

}  // namespace millrace

#endif  // MILLRACE_SRC_CODECS_JPEG_H_
