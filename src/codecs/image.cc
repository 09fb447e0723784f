#include "codecs/image.h"

namespace millrace {

ImageFormat FormatOf(std::string_view file) {
  using namespace std::string_view_literals;
  const auto begins = [file](std::string_view with) { return file.substr(0, with.size()) == with; };
  if (begins("\xff\xd8\xff"sv)) return ImageFormat::kJpeg;
  if (begins("\x89PNG\r\n\x1a\n"sv)) return ImageFormat::kPng;
  if (begins("GIF8"sv)) return ImageFormat::kGif;
  if (begins("BM"sv)) return ImageFormat::kBmp;
  if (begins("RIFF"sv) && file.size() > 12 && file.substr(8, 4) == "WEBP"sv) return ImageFormat::kWebp;
  if (begins("\xff\x0a"sv) || begins("\0\0\0\x0cJXL \r\n\x87\n"sv)) return ImageFormat::kJpegXl;
  return ImageFormat::kUnknown;
}

const char* NameOf(ImageFormat format) {
  switch (format) {
    case ImageFormat::kBmp: return "BMP";
    case ImageFormat::kGif: return "GIF";
    case ImageFormat::kJpeg: return "JPEG";
    case ImageFormat::kJpegXl: return "JPEG XL";
    case ImageFormat::kPng: return "PNG";
    case ImageFormat::kWebp: return "WebP";
    case ImageFormat::kUnknown: return "unknown";
  }
  return "unknown";
}

}  // namespace millrace
