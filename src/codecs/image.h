// Files of images as pixels. What they read, and how, is what TensorFlow's DecodeImage and its relatives do, with the libraries that it
// uses (libjpeg-turbo, libpng, giflib, libwebp), so that pixels have its bits.
#ifndef MILLRACE_SRC_CODECS_IMAGE_H_
#define MILLRACE_SRC_CODECS_IMAGE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace millrace {

// Frame by frame, row by row, the channels of a pixel beside each other.
struct Image {
  int64_t frames = 1, height = 0, width = 0, channels = 0;
  int bytes = 1;                // of a channel; two are a uint16 in this machine's order
  std::vector<uint8_t> pixels;  // frames * height * width * channels * bytes
};

enum class ImageFormat { kUnknown, kBmp, kGif, kJpeg, kJpegXl, kPng, kWebp };
// By the first bytes of a file.
ImageFormat FormatOf(std::string_view file);
const char* NameOf(ImageFormat format);

// channels: 1, 3 or 4; 0: those of the file. InvalidArgument where the file is none, or of more than 2^29 pixels.
absl::StatusOr<Image> DecodePng(std::string_view file, int channels, bool sixteen_bits);
// Three channels. A frame that is smaller than the largest, or has pixels that can be seen through, shows the one before, the first one black.
absl::StatusOr<Image> DecodeGif(std::string_view file, bool first_frame_only);
// channels: 3 or 4; 0: those of the file. Without compression or a palette.
absl::StatusOr<Image> DecodeBmp(std::string_view file, int channels);

// Three channels, or four where pixels can be seen through, as in all animations, whose frames are whole pictures. channels: that many; 0: whichever.
absl::StatusOr<Image> DecodeWebp(std::string_view file, int channels, bool first_frame_only);

// An image of one frame to be written, as Image holds it.
struct PixelView {
  int64_t height = 0, width = 0, channels = 0;
  int bytes = 1;
  const uint8_t* pixels = nullptr;
};

// Of one to four channels. compression: zlib's, from 0 to 9; -1: its default. Requires pixels.
absl::StatusOr<std::string> EncodePng(const PixelView& image, int compression);

}  // namespace millrace

#endif  // MILLRACE_SRC_CODECS_IMAGE_H_
