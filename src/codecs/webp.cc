#include <webp/decode.h>
#include <webp/demux.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "codecs/image.h"

namespace millrace {
namespace {

constexpr int kAnimationChannels = 4, kCanvases = 2;
constexpr int64_t kMostPixels = int64_t{1} << 29, kMostBytes = int64_t{1} << 31;

const uint8_t* BytesOf(std::string_view file) { return reinterpret_cast<const uint8_t*>(file.data()); }

struct Delete {
  void operator()(WebPAnimDecoder* decoder) const { WebPAnimDecoderDelete(decoder); }
  void operator()(WebPDemuxer* frames) const { WebPDemuxDelete(frames); }
};

// Whether so few bytes cannot be all of a lossy image: of 16 by 16 pixels, the prediction alone takes more than 3 bits.
bool IsCut(const WebPBitstreamFeatures& about, size_t file_bytes) {
  constexpr int kLossy = 1;
  constexpr int64_t kPixelsOfByte = 1024, kReadAhead = 4096;
  return about.format == kLossy && int64_t{about.width} * about.height / kPixelsOfByte > static_cast<int64_t>(file_bytes) + kReadAhead;
}

// Whole pictures: the library draws each frame over the ones before, on canvases that take memory, too.
absl::StatusOr<Image> ReadAnimation(std::string_view file, bool first_frame_only) {
  const auto error = [](absl::string_view what) { return absl::InvalidArgumentError(absl::StrCat("Failed to decode WebP Animation: ", what)); };
  const WebPData data = {BytesOf(file), file.size()};
  const std::unique_ptr<WebPDemuxer, Delete> frames(WebPDemux(&data));
  if (frames == nullptr) return error("failed to decode WebP Animation");
  const auto about = [&](WebPFormatFeature feature) { return int64_t{WebPDemuxGetI(frames.get(), feature)}; };
  Image image{.frames = first_frame_only ? 1 : about(WEBP_FF_FRAME_COUNT), .height = about(WEBP_FF_CANVAS_HEIGHT),
              .width = about(WEBP_FF_CANVAS_WIDTH), .channels = kAnimationChannels};
  const int64_t size = image.height * image.width * image.channels;
  if (size > kMostBytes / (image.frames + kCanvases)) return error(absl::StrCat("frames and canvases of more than ", kMostBytes, " bytes"));
  const std::unique_ptr<WebPAnimDecoder, Delete> decoder(WebPAnimDecoderNew(&data, nullptr));
  if (decoder == nullptr) return error("failed to decode WebP Animation");
  for (int64_t frame = 0; frame < image.frames; ++frame) {
    uint8_t* pixels = nullptr;
    int end_ms = 0;
    if (WebPAnimDecoderGetNext(decoder.get(), &pixels, &end_ms) == 0) return error(absl::StrCat("failed to decode frame: ", frame));
    image.pixels.insert(image.pixels.end(), pixels, pixels + size);
  }
  return image;
}

}  // namespace

absl::StatusOr<Image> DecodeWebp(std::string_view file, int channels, bool first_frame_only) {
  if (channels == 1) return absl::InvalidArgumentError("WebP only supports 3 or 4 channels");
  WebPBitstreamFeatures about;
  if (WebPGetFeatures(BytesOf(file), file.size(), &about) != VP8_STATUS_OK) return absl::InvalidArgumentError("Failed to decode WebP header.");
  const int found = about.has_alpha != 0 ? 4 : 3;
  if (channels != 0 && channels != found) {
    return absl::InvalidArgumentError(absl::StrCat("Number of channels requested does not match input: ", channels, " of ", found));
  }
  if (int64_t{about.width} * about.height > kMostPixels) {
    return absl::InvalidArgumentError(absl::StrCat("WebP size too large: ", about.width, " by ", about.height));
  }
  if (about.has_animation != 0 && channels == 3) return absl::InvalidArgumentError("WebP Animation must be 4 channel RGBA");
  if (about.has_animation != 0) return ReadAnimation(file, first_frame_only);
  if (IsCut(about, file.size())) return absl::InvalidArgumentError("Failed to decode WebP image.");
  Image image{.height = about.height, .width = about.width, .channels = found};
  const int row_bytes = about.width * found;
  image.pixels.resize(static_cast<size_t>(row_bytes) * about.height);
  const auto decode = found == 4 ? WebPDecodeRGBAInto : WebPDecodeRGBInto;
  if (decode(BytesOf(file), file.size(), image.pixels.data(), image.pixels.size(), row_bytes) != nullptr) return image;
  return absl::InvalidArgumentError("Failed to decode WebP image.");
}

}  // namespace millrace
