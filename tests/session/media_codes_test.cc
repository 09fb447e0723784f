// Files of images and sound within a graph: what is written is read again, in a function over fed files, and without a file it is an error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/session.h"
#include "text_session.h"

namespace millrace {
namespace {

using testing::Ints;
using testing::SessionOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor Pixels(int64_t height, int64_t width, int64_t channels) {
  Tensor tensor(DataType::kUint8, Shape({height, width, channels}));
  for (int64_t i = 0; i < tensor.num_elements(); ++i) tensor.mutable_as<uint8_t>()[i] = static_cast<uint8_t>(i * 5 % 256);
  return tensor;
}

TEST(MediaCodes, ImagesAreReadAsTheyWereWritten) {
  const auto session = SessionOf(R"(
image = Placeholder() {dtype=uint8, shape=shape[9,7,3]}
best = Const() {dtype=int32, value=int32[]{100}}
worst = Const() {dtype=int32, value=int32[]{1}}
png = EncodePng(image) {T=uint8}
same = DecodePng(png) {dtype=uint8}
any = DecodeImage(png) {dtype=float}
jpeg = EncodeJpeg(image) {quality=90, xmp_metadata="about it"}
size = ExtractJpegShape(jpeg) {output_type=int64}
near = DecodeJpeg(jpeg)
large = EncodeJpegVariableQuality(image, best)
small = EncodeJpegVariableQuality(image, worst)
large_bytes = StringLength(large)
small_bytes = StringLength(small)
)");
  const Tensor image = Pixels(9, 7, 3);
  std::vector<Tensor> out;
  const absl::Status status = session->Run({{"image", image}}, {"same", "any", "size", "near", "large_bytes", "small_bytes"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(out[0].BitEqual(image));
  for (int64_t i = 0; i < image.num_elements(); ++i) EXPECT_FLOAT_EQ(out[1].as<float>()[i], static_cast<float>(image.as<uint8_t>()[i]) / 255) << i;
  EXPECT_THAT(Ints(out[2]), ElementsAre(9, 7, 3));
  EXPECT_EQ(out[3].shape(), image.shape());
  EXPECT_LT(Ints(out[5])[0], Ints(out[4])[0]);
}

TEST(MediaCodes, SoundIsReadAsItWasWritten) {
  const auto session = SessionOf(R"(
audio = Placeholder() {dtype=float, shape=shape[3,2]}
rate = Const() {dtype=int32, value=int32[]{16000}}
file = EncodeWav(audio, rate)
read = DecodeWav(file) {desired_channels=1}
)");
  Tensor audio(DataType::kFloat, Shape({3, 2}));
  const std::vector<float> samples = {0.5f, 0, -0.25f, 1, 2, 0};
  std::copy(samples.begin(), samples.end(), audio.mutable_as<float>().begin());
  std::vector<Tensor> out;
  const absl::Status status = session->Run({{"audio", audio}}, {"read:0", "read:1"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(std::vector<float>(out[0].as<float>().begin(), out[0].as<float>().end()), ElementsAre(0.5f, -0.25f, 32767.0f / 32768));
  EXPECT_THAT(Ints(out[1]), ElementsAre(16000));
}

TEST(MediaCodes, WhatIsNoImageIsAnErrorOfTheNode) {
  const auto session = SessionOf(R"(
file = Placeholder() {dtype=string, shape=shape[]}
pixels = DecodeImage(file) {dtype=uint8}
)");
  for (const auto& [file, what] : {std::pair("abc", "Unknown image file format"), std::pair("RIFF1234WEBPVP8 ", "Failed to decode WebP header."), std::pair("\xff\x0a", "the image is JPEG XL")}) {
    Tensor text(DataType::kString, Shape());
    text.mutable_strings()[0] = file;
    std::vector<Tensor> out;
    EXPECT_THAT(std::string(session->Run({{"file", text}}, {"pixels"}, {}, &out).message()), ::testing::AllOf(HasSubstr("'pixels'"), HasSubstr(what)));
  }
}

// Files whose memory is not that of their pixels.
std::string LargeAnimation(int frames) {
  using std::string_literals::operator""s;
  std::string file = "RIFF\x00\x01\x00\x00WEBPVP8X\x0a\x00\x00\x00\x02\x00\x00\x00\xff\x3f\x00\xff\x1f\x00"s;  // 16384 by 8192
  file += "ANIM\x06\x00\x00\x00\x00\x00\x00\x00\x00\x00"s;
  for (int frame = 0; frame < frames; ++frame) {
    file += "ANMF\x20\x00\x00\x00"s + std::string(16, '\0') + "VP8L\x08\x00\x00\x00\x2f"s + std::string(7, '\0');
  }
  file[4] = static_cast<char>(file.size() - 8);
  file[5] = 0;
  return file;
}

TEST(MediaCodes, CanvasesOfAnAnimationCountAsItsFramesDo) {
  const auto session = SessionOf(R"(
file = Placeholder() {dtype=string, shape=shape[]}
pixels = DecodeImage(file) {dtype=uint8}
)");
  Tensor file(DataType::kString, Shape());
  file.mutable_strings()[0] = LargeAnimation(3);
  std::vector<Tensor> out;
  EXPECT_THAT(std::string(session->Run({{"file", file}}, {"pixels"}, {}, &out).message()),
              HasSubstr("frames and canvases of more than 2147483648 bytes"));
}

}  // namespace
}  // namespace millrace
