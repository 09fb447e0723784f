#include <png.h>

#include <algorithm>
#include <bit>
#include <csetjmp>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "codecs/image.h"

namespace millrace {
namespace {

constexpr int64_t kMostPixels = int64_t{1} << 29, kLongestSide = int64_t{1} << 27;

void JumpOut(png_structp png, png_const_charp) { png_longjmp(png, 1); }
void Ignore(png_structp, png_const_charp) {}

// What runs in here has no destructors: when something is wrong, libpng jumps out of it.
template <typename Fn>
bool Succeeds(png_structp png, png_infop info, const Fn& fn) {
  if (info == nullptr || setjmp(png_jmpbuf(png)) != 0) return false;
  fn(png, info);
  return true;
}

class Reader {
 public:
  explicit Reader(std::string_view file) : rest_(file), png_(png_create_read_struct(PNG_LIBPNG_VER_STRING, nullptr, JumpOut, Ignore)) {
    if (png_ == nullptr) return;
    info_ = png_create_info_struct(png_);
    png_set_read_fn(png_, this, Read);
    png_set_chunk_cache_max(png_, 1);  // texts are not read
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader() { png_destroy_read_struct(&png_, &info_, nullptr); }

  template <typename Fn>
  bool Try(const Fn& fn) {
    return Succeeds(png_, info_, fn);
  }

 private:
  static void Read(png_structp png, png_bytep to, png_size_t size) {
    auto* reader = static_cast<Reader*>(png_get_io_ptr(png));
    if (reader->rest_.size() < size) png_error(png, "the file ends early");
    std::memcpy(to, reader->rest_.data(), size);
    reader->rest_.remove_prefix(size);
  }

  std::string_view rest_;
  png_structp png_;
  png_infop info_ = nullptr;
};

struct Header {
  png_uint_32 width, height;
  int bit_depth, color_type, channels, passes;
  size_t row_bytes;  // as they are converted
};

int ChannelsOf(png_structp png, png_infop info, int color_type, bool has_clear_colors) {
  if (color_type == PNG_COLOR_TYPE_PALETTE) return has_clear_colors ? 4 : 3;
  return png_get_channels(png, info);
}

// Alpha is there, made of colors that can be seen through, opaque, or taken off.
void ConvertAlpha(png_structp png, const Header& header, bool has_clear_colors) {
  const bool has_alpha = (header.color_type & PNG_COLOR_MASK_ALPHA) != 0, wants_alpha = header.channels % 2 == 0;
  if (!wants_alpha) {
    if (has_alpha || has_clear_colors) png_set_strip_alpha(png);
  } else if (!has_alpha && has_clear_colors) {
    png_set_tRNS_to_alpha(png);
  } else if (!has_alpha) {
    png_set_add_alpha(png, (1 << header.bit_depth) - 1, PNG_FILLER_AFTER);
  }
}

void ConvertColors(png_structp png, const Header& header) {
  const bool is_grey = (header.color_type & PNG_COLOR_MASK_COLOR) == 0, wants_grey = header.channels < 3;
  if (header.color_type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
  if (is_grey && header.bit_depth < 8) png_set_expand_gray_1_2_4_to_8(png);
  if (wants_grey && !is_grey) png_set_rgb_to_gray(png, PNG_ERROR_ACTION_NONE, 0.299, 0.587);  // ITU-R BT.601
  if (!wants_grey && is_grey) png_set_gray_to_rgb(png);
}

void ReadHeader(png_structp png, png_infop info, bool sixteen_bits, Header& header) {
  png_read_info(png, info);
  png_get_IHDR(png, info, &header.width, &header.height, &header.bit_depth, &header.color_type, nullptr, nullptr, nullptr);
  const bool has_clear_colors = png_get_valid(png, info, PNG_INFO_tRNS) != 0;
  if (header.channels == 0) header.channels = ChannelsOf(png, info, header.color_type, has_clear_colors);
  ConvertAlpha(png, header, has_clear_colors);
  if (header.bit_depth > 8 && !sixteen_bits) png_set_strip_16(png);
  png_set_packing(png);
  header.passes = png_set_interlace_handling(png);
  if (sixteen_bits && std::endian::native == std::endian::little) png_set_swap(png);
  ConvertColors(png, header);
  png_read_update_info(png, info);
  header.row_bytes = png_get_rowbytes(png, info);
}

// zlib makes of a byte 1032 at most: a file that says more of itself has not what it says.
bool MayHold(std::string_view file, const Header& header) {
  constexpr int64_t kMostOfByte = 1032;
  const int64_t row_bytes = (int64_t{header.width} * header.bit_depth + 7) / 8;  // of one channel, as the least that there are
  return header.height * row_bytes / kMostOfByte <= static_cast<int64_t>(file.size());
}

// Rows of 8 bits, at the start of rows of 16, become rows of 16: 0xAB is 0xABAB.
void Widen(Image& image) {
  const int64_t count = image.width * image.channels;
  for (int64_t y = 0; y < image.height; ++y) {
    uint8_t* row = image.pixels.data() + y * count * 2;
    for (int64_t i = count - 1; i >= 0; --i) row[2 * i] = row[2 * i + 1] = row[i];
  }
}

void Append(png_structp png, png_bytep bytes, png_size_t size) {
  static_cast<std::string*>(png_get_io_ptr(png))->append(reinterpret_cast<const char*>(bytes), size);
}

class Writer {
 public:
  explicit Writer(std::string* file) : png_(png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, JumpOut, Ignore)) {
    if (png_ == nullptr) return;
    info_ = png_create_info_struct(png_);
    png_set_write_fn(png_, file, Append, [](png_structp) {});
  }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  ~Writer() { png_destroy_write_struct(&png_, &info_); }
  template <typename Fn>
  bool Try(const Fn& fn) {
    return Succeeds(png_, info_, fn);
  }

 private:
  png_structp png_;
  png_infop info_ = nullptr;
};

}  // namespace

absl::StatusOr<Image> DecodePng(std::string_view file, int channels, bool sixteen_bits) {
  Reader reader(file);
  Header header{.channels = channels};
  if (!reader.Try([&](png_structp png, png_infop info) { ReadHeader(png, info, sixteen_bits, header); })) {
    return absl::InvalidArgumentError("Invalid PNG. Failed to initialize decoder.");
  }
  const int64_t height = header.height, width = header.width;
  if (std::max(height, width) >= kLongestSide || height * width >= kMostPixels) {
    return absl::InvalidArgumentError(absl::StrCat("PNG size too large for int: ", width, " by ", height));
  }
  Image image{.height = height, .width = width, .channels = header.channels, .bytes = sixteen_bits ? 2 : 1};
  const int64_t row_bytes = width * image.channels * image.bytes, read_bytes = width * image.channels * (header.bit_depth > 8 ? image.bytes : 1);
  if (!MayHold(file, header) || static_cast<int64_t>(header.row_bytes) != read_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("Invalid PNG data, size ", file.size()));
  }
  image.pixels.resize(height * row_bytes);
  const bool whole = reader.Try([&](png_structp png, png_infop info) {
    for (int pass = 0; pass < header.passes; ++pass) {
      for (int64_t y = 0; y < height; ++y) png_read_row(png, image.pixels.data() + y * row_bytes, nullptr);
    }
    png_read_end(png, info);
  });
  if (!whole) return absl::InvalidArgumentError(absl::StrCat("Invalid PNG data, size ", file.size()));
  if (sixteen_bits && header.bit_depth <= 8) Widen(image);
  return image;
}

absl::StatusOr<std::string> EncodePng(const PixelView& image, int compression) {
  static constexpr int kColorTypes[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_RGB_ALPHA};
  constexpr int kMostMemory = 9;  // zlib's MAX_MEM_LEVEL
  std::string file;
  Writer writer(&file);
  const bool written = writer.Try([&](png_structp png, png_infop info) {
    png_set_compression_level(png, compression);
    png_set_compression_mem_level(png, kMostMemory);
    png_set_IHDR(png, info, static_cast<png_uint_32>(image.width), static_cast<png_uint_32>(image.height), 8 * image.bytes,
                 kColorTypes[image.channels - 1], PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);
    if (image.bytes == 2 && std::endian::native == std::endian::little) png_set_swap(png);
    for (int64_t y = 0; y < image.height; ++y) png_write_row(png, image.pixels + y * image.width * image.channels * image.bytes);
    png_write_end(png, nullptr);
  });
  if (!written) return absl::InvalidArgumentError("PNG encoding failed");
  return file;
}

}  // namespace millrace
