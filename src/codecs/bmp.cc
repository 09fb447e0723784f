#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "codecs/image.h"

namespace millrace {
namespace {

constexpr size_t kHeaderBytes = 32;  // up to the bits of a pixel

template <typename T>
T Read(std::string_view file, size_t at) {
  T value;
  std::memcpy(&value, file.data() + at, sizeof(T));
  return value;
}

struct Layout {
  int64_t begin, width, height, channels, row_bytes;
  bool top_down;
};

absl::StatusOr<Layout> LayoutOf(std::string_view file) {
  if (file.size() < kHeaderBytes) {
    return absl::InvalidArgumentError(absl::StrCat("Incomplete bmp content, requires at least ", kHeaderBytes,
                                                   " bytes to find the header size, width, height, and bpp, got ", file.size(), " bytes"));
  }
  const int64_t rows = Read<int32_t>(file, 22);
  Layout layout{.begin = Read<int32_t>(file, 10), .width = Read<int32_t>(file, 18), .height = std::abs(rows),
                .channels = Read<int16_t>(file, 28) / 8, .row_bytes = 0, .top_down = rows < 0};
  if (layout.channels != 1 && layout.channels != 3 && layout.channels != 4) {
    return absl::InvalidArgumentError(absl::StrCat("Number of channels inherent in the image must be 1, 3 or 4, was ", layout.channels));
  }
  if (layout.width <= 0) return absl::InvalidArgumentError("Width must be positive");
  if (layout.height == 0) return absl::InvalidArgumentError("Height must be nonzero");
  if (layout.begin < 0) return absl::InvalidArgumentError("header size must be nonnegative");
  if (layout.width * layout.height >= INT32_MAX / 8) return absl::InvalidArgumentError("Total possible pixel bytes must be less than 2^30");
  layout.row_bytes = (layout.channels * layout.width + 3) / 4 * 4;
  const int64_t more = static_cast<int64_t>(file.size()) - layout.begin - layout.row_bytes * layout.height;
  if (more != 0) {
    return absl::InvalidArgumentError(absl::StrCat("Input size should match (header_size + row_size * abs_height) but they differ by ", more));
  }
  return layout;
}

// Blue comes first in the file; grey is all three.
void ConvertPixel(const uint8_t* from, int64_t from_channels, uint8_t* to, int64_t to_channels) {
  const bool grey = from_channels == 1;
  to[0] = from[grey ? 0 : 2];
  if (to_channels == 1) return;
  to[1] = from[grey ? 0 : 1];
  to[2] = from[0];
  if (to_channels == 4) to[3] = from_channels == 4 ? from[3] : UINT8_MAX;
}

}  // namespace

absl::StatusOr<Image> DecodeBmp(std::string_view file, int channels) {
  if (channels == 1) return absl::InvalidArgumentError("`channels` must be 0, 3 or 4 for BMP, but got 1");
  const absl::StatusOr<Layout> layout = LayoutOf(file);
  if (!layout.ok()) return layout.status();
  Image image{.height = layout->height, .width = layout->width, .channels = channels == 0 ? layout->channels : channels};
  image.pixels.resize(image.height * image.width * image.channels);
  for (int64_t row = 0; row < image.height; ++row) {
    const int64_t from_row = layout->top_down ? row : image.height - 1 - row;
    const auto* from = reinterpret_cast<const uint8_t*>(file.data()) + layout->begin + from_row * layout->row_bytes;
    uint8_t* to = image.pixels.data() + row * image.width * image.channels;
    for (int64_t x = 0; x < image.width; ++x) ConvertPixel(from + x * layout->channels, layout->channels, to + x * image.channels, image.channels);
  }
  return image;
}

}  // namespace millrace
