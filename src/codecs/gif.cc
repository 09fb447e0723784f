#include <gif_lib.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "codecs/image.h"

namespace millrace {
namespace {

constexpr int kChannels = 3;
constexpr int64_t kMostBytes = int64_t{1} << 31;

int ReadRest(GifFileType* gif, GifByteType* to, int size) {
  auto* rest = static_cast<std::string_view*>(gif->UserData);
  const size_t read = std::min<size_t>(size, rest->size());
  std::memcpy(to, rest->data(), read);
  rest->remove_prefix(read);
  return static_cast<int>(read);
}

struct Close {
  void operator()(GifFileType* gif) const { DGifCloseFile(gif, nullptr); }
};

struct Frame {
  int clear = NO_TRANSPARENT_COLOR;
  std::vector<GifPixelType> colors;  // by number, row by row
};

// The rows of an interlaced frame come in four turns.
bool ReadColors(GifFileType* gif, std::vector<GifPixelType>& colors) {
  constexpr int kStart[] = {0, 4, 2, 1}, kStep[] = {8, 8, 4, 2};
  const GifImageDesc& place = gif->Image;
  if (place.Width <= 0 || place.Height <= 0 || place.Width > INT32_MAX / place.Height) return false;
  // A code of at least three bits is at most 4096 pixels, and some bytes have been read ahead.
  constexpr int64_t kMostOfByte = 4096 * 8 / 3, kReadAhead = 256;
  const auto& rest = *static_cast<const std::string_view*>(gif->UserData);
  if (int64_t{place.Width} * place.Height / kMostOfByte > static_cast<int64_t>(rest.size()) + kReadAhead) return false;
  colors.resize(place.Width * place.Height);
  if (!place.Interlace) return DGifGetLine(gif, colors.data(), place.Width * place.Height) == GIF_OK;
  for (int turn = 0; turn < 4; ++turn) {
    for (int y = kStart[turn]; y < place.Height; y += kStep[turn]) {
      if (DGifGetLine(gif, colors.data() + y * place.Width, place.Width) != GIF_OK) return false;
    }
  }
  return true;
}

// The color of the next frame that can be seen through, where an extension tells it.
bool ReadExtension(GifFileType* gif, int& clear) {
  int code = 0;
  GifByteType* bytes = nullptr;
  if (DGifGetExtension(gif, &code, &bytes) != GIF_OK) return false;
  while (bytes != nullptr) {
    GraphicsControlBlock control;
    if (code == GRAPHICS_EXT_FUNC_CODE && DGifExtensionToGCB(bytes[0], bytes + 1, &control) == GIF_OK) clear = control.TransparentColor;
    if (DGifGetExtensionNext(gif, &bytes) != GIF_OK) return false;
  }
  return true;
}

// Of a file that ends early, the frames that are complete; of those behind the first one only places where no more are wanted: they are in
// gif->SavedImages. `image` becomes as large as the largest one. False where that is too large.
bool ReadFrames(GifFileType* gif, bool first_only, Image& image, std::vector<Frame>& frames) {
  image.frames = 0;
  int clear = NO_TRANSPARENT_COLOR;
  GifRecordType type;
  while (DGifGetRecordType(gif, &type) == GIF_OK && type != TERMINATE_RECORD_TYPE) {
    if (type == EXTENSION_RECORD_TYPE && !ReadExtension(gif, clear)) break;
    if (type != IMAGE_DESC_RECORD_TYPE) continue;
    Frame frame{.clear = std::exchange(clear, NO_TRANSPARENT_COLOR)};
    if (DGifGetImageDesc(gif) != GIF_OK) break;
    const int64_t height = std::max<int64_t>(image.height, gif->Image.Height), width = std::max<int64_t>(image.width, gif->Image.Width);
    const int64_t shown = first_only ? 1 : image.frames + 1;
    if (height * width * kChannels * shown >= kMostBytes) return false;
    if (!ReadColors(gif, frame.colors)) break;
    image.height = height, image.width = width, image.frames = shown;
    if (!first_only || frames.empty()) frames.push_back(std::move(frame));
  }
  return true;
}

// Draws a frame over the one before, which `pixels` hold.
absl::Status Draw(const Frame& frame, const GifImageDesc& place, const ColorMapObject* common_colors, const Image& image, uint8_t* pixels) {
  const ColorMapObject* colors = place.ColorMap != nullptr ? place.ColorMap : common_colors;
  if (colors == nullptr) return absl::InvalidArgumentError("a frame has no color map");
  const int64_t bottom = std::min<int64_t>(place.Top + place.Height, image.height), right = std::min<int64_t>(place.Left + place.Width, image.width);
  for (int64_t y = std::max(place.Top, 0); y < bottom; ++y) {
    for (int64_t x = std::max(place.Left, 0); x < right; ++x) {
      const int color = frame.colors[(y - place.Top) * place.Width + (x - place.Left)];
      if (color == frame.clear) continue;
      if (color >= colors->ColorCount) {
        return absl::InvalidArgumentError(absl::StrCat("found color index ", color, " outside of color map range ", colors->ColorCount));
      }
      const GifColorType& rgb = colors->Colors[color];
      uint8_t* to = pixels + (y * image.width + x) * kChannels;
      to[0] = rgb.Red, to[1] = rgb.Green, to[2] = rgb.Blue;
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Image> DecodeGif(std::string_view file, bool first_frame_only) {
  const auto error = [size = file.size()](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("Invalid GIF data (size ", size, "), ", what));
  };
  int code = D_GIF_SUCCEEDED;
  std::string_view rest = file;
  const std::unique_ptr<GifFileType, Close> gif(DGifOpen(&rest, ReadRest, &code));
  if (gif == nullptr) return error(GifErrorString(code));
  Image image{.channels = kChannels};
  std::vector<Frame> frames;
  if (!ReadFrames(gif.get(), first_frame_only, image, frames)) return error(absl::StrCat("frames of more than ", kMostBytes, " bytes"));
  if (frames.empty()) return error(gif->Error != 0 ? GifErrorString(gif->Error) : "it does not contain any image");
  const int64_t size = image.height * image.width * kChannels;
  image.pixels.resize(size * image.frames);
  for (int k = 0; k < image.frames; ++k) {
    uint8_t* pixels = image.pixels.data() + k * size;
    if (k > 0) std::copy_n(pixels - size, size, pixels);
    const absl::Status drawn = Draw(frames[k], gif->SavedImages[k].ImageDesc, gif->SColorMap, image, pixels);
    if (!drawn.ok()) return error(drawn.message());
  }
  return image;
}

}  // namespace millrace
