#include "graph/media_codes.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "codecs/image.h"
#include "codecs/jpeg.h"
#include "codecs/wav.h"
#include "millrace/status.h"

namespace millrace {
namespace {

using Outputs = absl::StatusOr<std::vector<Tensor>>;

absl::StatusOr<std::string_view> Contents(const Tensor& contents) {
  if (contents.dtype() != DataType::kString) return absl::InvalidArgumentError("`contents` must be a string");
  if (contents.shape().rank() != 0) {
    return absl::InvalidArgumentError(absl::StrCat("`contents` must be scalar, of rank 0, but got shape ", contents.shape().ToString()));
  }
  return contents.strings()[0];
}

absl::Status ExpectShapeOf(const Tensor& tensor, DataType type, int rank, std::string_view name) {
  if (tensor.dtype() == type && tensor.shape().rank() == rank) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(absl::string_view(name.data(), name.size()), " must be ", std::string(DataTypeName(type)), " of rank ",
                                                 rank, ", got ", tensor.type().ToString()));
}

Tensor TextScalar(std::string text) {
  Tensor result(DataType::kString, Shape());
  result.mutable_strings()[0] = std::move(text);
  return result;
}

absl::StatusOr<JpegReading> Reading(std::string_view op, const AttrMap& attrs, absl::Span<const Tensor> inputs, int channels) {
  JpegReading reading{.channels = channels};
  if (op != "DecodeJpeg" && op != "DecodeAndCropJpeg") return reading;
  reading.ratio = static_cast<int>(attrs.GetOr<int64_t>("ratio", 1));
  if (reading.ratio != 1 && reading.ratio != 2 && reading.ratio != 4 && reading.ratio != 8) {
    return absl::InvalidArgumentError(absl::StrCat("ratio must be 1, 2, 4, or 8, got ", reading.ratio));
  }
  reading.fancy_upscaling = attrs.GetOr<bool>("fancy_upscaling", true);
  reading.recover_truncated = attrs.GetOr<bool>("try_recover_truncated", false);
  reading.acceptable_fraction = attrs.GetOr<float>("acceptable_fraction", 1);
  const std::string method = attrs.GetOr<std::string>("dct_method", "");
  if (!method.empty() && method != "INTEGER_FAST" && method != "INTEGER_ACCURATE") {
    return absl::InvalidArgumentError("dct_method must be one of {'', 'INTEGER_FAST', 'INTEGER_ACCURATE'}");
  }
  reading.accurate = method == "INTEGER_ACCURATE";
  if (op == "DecodeJpeg") return reading;
  const Tensor& window = inputs[1];
  MR_RETURN_IF_ERROR(ExpectShapeOf(window, DataType::kInt32, 1, "crop_window"));
  if (window.num_elements() != 4) return absl::InvalidArgumentError(absl::StrCat("the elements of crop_window must be 4, but are ", window.num_elements()));
  reading.window = CropWindow{window.IntAt(0), window.IntAt(1), window.IntAt(2), window.IntAt(3)};
  return reading;
}

// WebP is read by any op, JPEG and PNG by any but DecodeBmp and DecodeAndCropJpeg (of PNG), GIF by those but DecodeWebP, and BMP by DecodeBmp and
// DecodeImage.
absl::Status CheckFormat(std::string_view op, ImageFormat format) {
  const std::string name = NameOf(format), by(op);
  if (format == ImageFormat::kUnknown) {
    return absl::InvalidArgumentError("Unknown image file format. One of JPEG, JPEG XL, PNG, GIF, BMP, WebP required.");
  }
  if (format == ImageFormat::kJpegXl) {
    return absl::UnimplementedError("the image is JPEG XL, of which no pixels are read; expected JPEG, PNG, GIF, BMP or WebP");
  }
  if (format == ImageFormat::kWebp) return absl::OkStatus();
  if (op == "DecodeAndCropJpeg" && format != ImageFormat::kJpeg) {
    return absl::InvalidArgumentError(absl::StrCat("DecodeAndCropJpeg operation can run on JPEG only, but detected ", name, "."));
  }
  if (op == "DecodeBmp" && format != ImageFormat::kBmp) {
    return absl::InvalidArgumentError(absl::StrCat("Trying to decode ", name, " format using DecodeBmp op. Use `decode_image` instead."));
  }
  if (op == "DecodeWebP" && format == ImageFormat::kGif) return absl::InvalidArgumentError("Bad op type DecodeWebP, the image is GIF");
  if (format == ImageFormat::kBmp && op != "DecodeBmp" && op != "DecodeImage") {
    return absl::InvalidArgumentError(
        absl::StrCat("Trying to decode BMP format using a wrong op. Use `decode_bmp` or `decode_image` instead. Op used: ", by));
  }
  return absl::OkStatus();
}

absl::StatusOr<Image> ReadImage(std::string_view op, const AttrMap& attrs, absl::Span<const Tensor> inputs, DataType type) {
  MR_ASSIGN_OR_RETURN(const std::string_view file, Contents(inputs[0]));
  const int channels = op == "DecodeGif" ? 3 : static_cast<int>(attrs.GetOr<int64_t>("channels", 0));
  if (channels != 0 && channels != 1 && channels != 3 && channels != 4) {
    return absl::InvalidArgumentError(absl::StrCat("`channels` must be 0, 1, 3 or 4 but got ", channels));
  }
  MR_ASSIGN_OR_RETURN(const JpegReading reading, Reading(op, attrs, inputs, channels));
  if (file.empty()) return absl::InvalidArgumentError("Input is empty.");
  const ImageFormat format = FormatOf(file);
  MR_RETURN_IF_ERROR(CheckFormat(op, format));
  switch (format) {
    case ImageFormat::kBmp: return DecodeBmp(file, channels);
    case ImageFormat::kPng: return DecodePng(file, channels, /*sixteen_bits=*/type != DataType::kUint8);
    case ImageFormat::kGif:
      if (channels != 0 && channels != 3) return absl::InvalidArgumentError(absl::StrCat("channels must be 0 or 3 for GIF, got ", channels));
      return DecodeGif(file, /*first_frame_only=*/!attrs.GetOr<bool>("expand_animations", true));
    case ImageFormat::kWebp:
      if (type != DataType::kUint8) return absl::InvalidArgumentError("WebP only supports uint8 for dtype");
      return DecodeWebp(file, channels, /*first_frame_only=*/!attrs.GetOr<bool>("expand_animations", true));
    default:
      if (channels == 4) return absl::InvalidArgumentError("JPEG does not support 4 channels");
      return DecodeJpeg(file, reading);
  }
}

// Whether the result has a dimension of frames.
absl::StatusOr<bool> HasFrames(std::string_view op, const AttrMap& attrs, std::string_view file, const Image& image) {
  const ImageFormat format = FormatOf(file);
  if (format == ImageFormat::kWebp) return attrs.GetOr<bool>("expand_animations", true);
  if (op == "DecodeGif") return true;
  if (format != ImageFormat::kGif) return false;
  if (op == "DecodeImage") return attrs.GetOr<bool>("expand_animations", true);
  if (image.frames == 1) return false;
  return absl::InvalidArgumentError(
      absl::StrCat("Got ", image.frames, " frames, but animated gifs can only be decoded by tf.io.decode_gif or tf.io.decode_image"));
}

// A channel as a number of the result's type: bytes are the upper ones of two, and floats are from 0 to 1.
Tensor Pixels(const Image& image, DataType type, const Shape& shape) {
  Tensor result(type, shape);
  const int64_t count = result.num_elements();
  const auto wide = [&](int64_t i) {
    uint16_t value;
    std::memcpy(&value, image.pixels.data() + 2 * i, sizeof(value));
    return value;
  };
  if (type == DataType::kFloat) {
    constexpr auto kByte = static_cast<float>(1.0 / UINT8_MAX), kTwoBytes = static_cast<float>(1.0 / UINT16_MAX);
    const absl::Span<float> to = result.mutable_as<float>();
    for (int64_t i = 0; i < count; ++i) to[i] = image.bytes == 1 ? static_cast<float>(image.pixels[i]) * kByte : static_cast<float>(wide(i)) * kTwoBytes;
  } else if (type == DataType::kUint16 && image.bytes == 1) {
    const absl::Span<uint16_t> to = result.mutable_as<uint16_t>();
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<uint16_t>(image.pixels[i] << 8);
  } else {
    std::copy(image.pixels.begin(), image.pixels.end(), static_cast<uint8_t*>(result.mutable_data()));
  }
  return result;
}

Outputs DecodeAny(std::string_view op, const AttrMap& attrs, absl::Span<const Tensor> inputs) {
  const bool chooses = op == "DecodePng" || op == "DecodeImage";
  const DataType type = chooses ? attrs.GetOr<DataType>("dtype", DataType::kUint8) : DataType::kUint8;
  if (type != DataType::kUint8 && type != DataType::kUint16 && (type != DataType::kFloat || op == "DecodePng")) {
    return absl::InvalidArgumentError(absl::StrCat("`dtype` for `", std::string(op), "` must be uint8, uint16", op == "DecodePng" ? "" : ", float",
                                                   " but got: ", std::string(DataTypeName(type))));
  }
  MR_ASSIGN_OR_RETURN(const Image image, ReadImage(op, attrs, inputs, type));
  MR_ASSIGN_OR_RETURN(const bool frames, HasFrames(op, attrs, inputs[0].strings()[0], image));
  Shape shape;
  if (frames) shape.AddDim(image.frames);
  for (const int64_t dim : {image.height, image.width, image.channels}) shape.AddDim(dim);
  return std::vector<Tensor>{Pixels(image, type, shape)};
}

Outputs ExtractJpegShape(const AttrMap& attrs, const Tensor& contents) {
  MR_ASSIGN_OR_RETURN(const std::string_view file, Contents(contents));
  MR_ASSIGN_OR_RETURN(const JpegSize size, SizeOfJpeg(file));
  Tensor result = Tensor::Vector<int64_t>({size.height, size.width, size.channels});
  if (attrs.GetOr<DataType>("output_type", DataType::kInt32) == DataType::kInt64) return std::vector<Tensor>{std::move(result)};
  return std::vector<Tensor>{
      Tensor::Vector<int32_t>({static_cast<int32_t>(size.height), static_cast<int32_t>(size.width), static_cast<int32_t>(size.channels)})};
}

absl::StatusOr<JpegWriting> Writing(const AttrMap& attrs, const std::string& metadata) {
  const std::string unit = attrs.GetOr<std::string>("density_unit", "in");
  if (unit != "in" && unit != "cm") return absl::InvalidArgumentError(absl::StrCat("density_unit must be 'in' or 'cm', got ", unit));
  return JpegWriting{.quality = static_cast<int>(attrs.GetOr<int64_t>("quality", 95)),
                     .progressive = attrs.GetOr<bool>("progressive", false),
                     .optimize_size = attrs.GetOr<bool>("optimize_size", false),
                     .chroma_downsampling = attrs.GetOr<bool>("chroma_downsampling", true),
                     .density_in_inches = unit == "in",
                     .x_density = static_cast<int>(attrs.GetOr<int64_t>("x_density", 300)),
                     .y_density = static_cast<int>(attrs.GetOr<int64_t>("y_density", 300)),
                     .xmp_metadata = metadata};
}

Outputs WriteJpeg(const AttrMap& attrs, absl::Span<const Tensor> inputs) {
  const Tensor& image = inputs[0];
  MR_RETURN_IF_ERROR(ExpectShapeOf(image, DataType::kUint8, 3, "image"));
  const std::string metadata = attrs.GetOr<std::string>("xmp_metadata", ""), format = attrs.GetOr<std::string>("format", "");
  MR_ASSIGN_OR_RETURN(JpegWriting writing, Writing(attrs, metadata));
  if (inputs.size() == 2) {
    MR_RETURN_IF_ERROR(ExpectShapeOf(inputs[1], DataType::kInt32, 0, "quality"));
    writing.quality = static_cast<int>(inputs[1].IntAt(0));
  }
  if (writing.quality < 0 || writing.quality > 100) {
    return absl::InvalidArgumentError(absl::StrCat("quality must be in [0,100], got ", writing.quality));
  }
  const int64_t channels = image.shape().dim(2);
  if (format.empty() && channels != 1 && channels != 3) {
    return absl::InvalidArgumentError(absl::StrCat("image must have 1 or 3 channels, got ", image.shape().ToString()));
  }
  if (!format.empty() && format != "grayscale" && format != "rgb") {
    return absl::InvalidArgumentError(absl::StrCat("format must be '', grayscale or rgb, got ", format));
  }
  if (const int64_t expected = format == "grayscale" ? 1 : 3; !format.empty() && channels != expected) {
    return absl::InvalidArgumentError(absl::StrCat("format ", format, " expects ", expected, " channels, got ", image.shape().ToString()));
  }
  if (image.num_elements() == 0) return absl::InvalidArgumentError(absl::StrCat("JPEG encoding failed: the image is ", image.shape().ToString()));
  const PixelView view{.height = image.shape().dim(0), .width = image.shape().dim(1), .channels = channels,
                       .pixels = static_cast<const uint8_t*>(image.data())};
  MR_ASSIGN_OR_RETURN(std::string file, EncodeJpeg(view, writing));
  return std::vector<Tensor>{TextScalar(std::move(file))};
}

Outputs WritePng(const AttrMap& attrs, const Tensor& images) {
  const int64_t compression = attrs.GetOr<int64_t>("compression", -1);
  if (compression < -1 || compression > 9) return absl::InvalidArgumentError(absl::StrCat("compression should be in [-1,9], got ", compression));
  const Shape& shape = images.shape();
  if (images.dtype() != DataType::kUint8 && images.dtype() != DataType::kUint16) {
    return absl::InvalidArgumentError(absl::StrCat("image is ", images.type().ToString(), ", expected uint8 or uint16"));
  }
  if (shape.rank() < 3) return absl::InvalidArgumentError(absl::StrCat("images must be at least rank 3", shape.ToString()));
  PixelView view{.height = shape.dim(shape.rank() - 3), .width = shape.dim(shape.rank() - 2), .channels = shape.dim(shape.rank() - 1),
                 .bytes = static_cast<int>(DataTypeSize(images.dtype())), .pixels = static_cast<const uint8_t*>(images.data())};
  if (view.channels < 1 || view.channels > 4) {
    return absl::InvalidArgumentError(absl::StrCat("image must have 1, 2, 3, or 4 channels, got ", view.channels));
  }
  Shape batch;
  for (int i = 0; i < shape.rank() - 3; ++i) batch.AddDim(shape.dim(i));
  Tensor files(DataType::kString, batch);
  const int64_t bytes = view.height * view.width * view.channels * view.bytes;
  for (std::string& file : files.mutable_strings()) {
    if (bytes == 0) return absl::InvalidArgumentError(absl::StrCat("PNG encoding failed: the image is ", shape.ToString()));
    MR_ASSIGN_OR_RETURN(file, EncodePng(view, static_cast<int>(compression)));
    view.pixels += bytes;
  }
  return std::vector<Tensor>{std::move(files)};
}

// Samples that the file has not are 0; channels that it has not are its last one.
Outputs ReadWav(const AttrMap& attrs, const Tensor& contents) {
  MR_ASSIGN_OR_RETURN(const std::string_view file, Contents(contents));
  const int64_t channels = attrs.GetOr<int64_t>("desired_channels", -1), samples = attrs.GetOr<int64_t>("desired_samples", -1);
  if (channels < -1) return absl::InvalidArgumentError(absl::StrCat("desired_channels must be >= -1, got ", channels));
  if (samples < -1) return absl::InvalidArgumentError(absl::StrCat("desired_samples must be >= -1, got ", samples));
  MR_ASSIGN_OR_RETURN(const Sound sound, DecodeWav(file));
  const int64_t rows = samples < 0 ? sound.samples : samples, columns = channels < 0 ? sound.channels : channels;
  constexpr int64_t kMost = int64_t{1} << 29;
  if (rows > kMost / std::max<int64_t>(columns, 1)) {
    return absl::InvalidArgumentError(absl::StrCat("makes ", rows, " times ", columns, " samples, expected at most ", kMost));
  }
  Tensor audio(DataType::kFloat, Shape({rows, columns}));
  const absl::Span<float> to = audio.mutable_as<float>();
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t c = 0; c < columns; ++c) {
      to[row * columns + c] = row < sound.samples ? sound.values[row * sound.channels + std::min(c, sound.channels - 1)] : 0.0f;
    }
  }
  return std::vector<Tensor>{std::move(audio), Tensor::Scalar<int32_t>(static_cast<int32_t>(sound.rate))};
}

Outputs WriteWav(const Tensor& audio, const Tensor& rate) {
  MR_RETURN_IF_ERROR(ExpectShapeOf(audio, DataType::kFloat, 2, "audio"));
  MR_RETURN_IF_ERROR(ExpectShapeOf(rate, DataType::kInt32, 0, "sample_rate"));
  MR_ASSIGN_OR_RETURN(std::string file, EncodeWav(audio.as<float>(), audio.shape().dim(1), rate.IntAt(0)));
  return std::vector<Tensor>{TextScalar(std::move(file))};
}

}  // namespace

absl::Span<const char* const> MediaCodeOps() {
  static const char* const ops[] = {"DecodeAndCropJpeg", "DecodeBmp", "DecodeGif",  "DecodeImage",               "DecodeJpeg", "DecodePng", "DecodeWav",
                                    "DecodeWebP",        "EncodeJpeg", "EncodeJpegVariableQuality", "EncodePng", "EncodeWav",  "ExtractJpegShape"};
  return ops;
}

bool CodesMedia(std::string_view op) {
  const auto ops = MediaCodeOps();
  return std::find(ops.begin(), ops.end(), op) != ops.end();
}

Outputs MediaCodes(std::string_view op, const AttrMap& attrs, absl::Span<const Tensor> inputs) {
  const size_t expected = op == "DecodeAndCropJpeg" || op == "EncodeJpegVariableQuality" || op == "EncodeWav" ? 2 : 1;
  if (inputs.size() != expected) return absl::InvalidArgumentError(absl::StrCat("has ", inputs.size(), " inputs, expected ", expected));
  if (op == "DecodeWav") return ReadWav(attrs, inputs[0]);
  if (op == "EncodeWav") return WriteWav(inputs[0], inputs[1]);
  if (op == "EncodePng") return WritePng(attrs, inputs[0]);
  if (op == "EncodeJpeg" || op == "EncodeJpegVariableQuality") return WriteJpeg(attrs, inputs);
  if (op == "ExtractJpegShape") return ExtractJpegShape(attrs, inputs[0]);
  return DecodeAny(op, attrs, inputs);
}

}  // namespace millrace
