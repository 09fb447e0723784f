#include "codecs/wav.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace millrace {
namespace {

constexpr int kSampleBits = 16;
constexpr int64_t kSampleBytes = 2, kHeaderBytes = 44;
constexpr float kScale = 1 << 15;

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

// Numbers of a file one after another, the lowest byte first; a read beyond the end is remembered.
class Bytes {
 public:
  explicit Bytes(std::string_view file) : rest_(file) {}
  std::string_view Text(size_t size) {
    short_ = short_ || size > rest_.size();
    const std::string_view text = rest_.substr(0, size);
    rest_.remove_prefix(text.size());
    return text;
  }
  uint32_t Number(int bytes) {
    const std::string_view text = Text(bytes);
    uint32_t number = 0;
    for (size_t i = 0; i < text.size(); ++i) number |= static_cast<uint32_t>(static_cast<uint8_t>(text[i])) << (8 * i);
    return number;
  }
  void Skip(int64_t bytes) { rest_.remove_prefix(std::min<size_t>(bytes, rest_.size())); }
  bool short_of_bytes() const { return short_; }
  bool at_end() const { return rest_.empty(); }

 private:
  std::string_view rest_;
  bool short_ = false;
};

absl::Status TooShort() { return absl::InvalidArgumentError("Data too short when trying to read string"); }

absl::Status Expect(Bytes& bytes, std::string_view text) {
  const std::string_view found = bytes.Text(text.size());
  if (bytes.short_of_bytes()) return TooShort();
  if (found == text) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("Header mismatch: Expected ", View(text), " but found ", View(found)));
}

// What programs put before the format.
absl::Status SkipToFormat(Bytes& bytes) {
  static constexpr std::array<std::string_view, 8> kSkipped = {"JUNK", "bext", "iXML", "qlty", "mext", "levl", "link", "axml"};
  for (std::string_view name = bytes.Text(4); name != "fmt "; name = bytes.Text(4)) {
    if (!bytes.short_of_bytes() && std::find(kSkipped.begin(), kSkipped.end(), name) == kSkipped.end()) {
      return absl::InvalidArgumentError(absl::StrCat("Unexpected field ", View(name)));
    }
    bytes.Text(bytes.Number(4));
    if (bytes.short_of_bytes()) return TooShort();
  }
  return absl::OkStatus();
}

absl::Status ReadFormat(Bytes& bytes, Sound& sound) {
  const uint32_t size = bytes.Number(4);
  if (!bytes.short_of_bytes() && size != 16 && size != 18) {
    return absl::InvalidArgumentError(absl::StrCat("Bad format chunk size for WAV: Expected 16 or 18, but got", size));
  }
  const uint32_t coding = bytes.Number(2);
  if (!bytes.short_of_bytes() && coding != 1) {
    return absl::InvalidArgumentError(absl::StrCat("Bad audio format for WAV: Expected 1 (PCM), but got", coding));
  }
  sound.channels = bytes.Number(2);
  sound.rate = bytes.Number(4);
  const uint32_t rate_bytes = bytes.Number(4), frame_bytes = bytes.Number(2), bits = bytes.Number(2);
  if (bytes.short_of_bytes()) return TooShort();
  if (sound.channels < 1) return absl::InvalidArgumentError("Bad number of channels for WAV: Expected at least 1, but got 0");
  if (bits != kSampleBits) return absl::InvalidArgumentError(absl::StrCat("Can only read 16-bit WAV files, but received ", bits));
  if (frame_bytes != kSampleBytes * sound.channels) {
    return absl::InvalidArgumentError(
        absl::StrCat("Bad bytes per sample in WAV header: Expected ", kSampleBytes * sound.channels, " but got ", frame_bytes));
  }
  const auto expected = static_cast<uint32_t>(frame_bytes * sound.rate);
  if (rate_bytes != expected) {
    return absl::InvalidArgumentError(absl::StrCat("Bad bytes per second in WAV header: Expected ", expected, " but got ", rate_bytes, " (sample_rate=",
                                                   sound.rate, ", bytes_per_sample=", frame_bytes, ")"));
  }
  bytes.Skip(size - 16);
  return absl::OkStatus();
}

absl::Status ReadSamples(Bytes& bytes, uint32_t size, Sound& sound) {
  sound.samples = size / (kSampleBytes * sound.channels);
  Bytes data(bytes.Text(sound.samples * sound.channels * kSampleBytes));
  if (bytes.short_of_bytes()) return TooShort();
  sound.values.resize(sound.samples * sound.channels);
  for (float& value : sound.values) value = static_cast<float>(static_cast<int16_t>(data.Number(2))) / kScale;
  return absl::OkStatus();
}

void Append(std::string& to, uint32_t number, int bytes) {
  for (int i = 0; i < bytes; ++i) to.push_back(static_cast<char>(number >> (8 * i)));
}

}  // namespace

absl::StatusOr<Sound> DecodeWav(std::string_view file) {
  Bytes bytes(file);
  Sound sound;
  absl::Status status = Expect(bytes, "RIFF");
  bytes.Number(4);  // the file's size, which few write as it is
  if (status.ok()) status = Expect(bytes, "WAVE");
  if (status.ok()) status = SkipToFormat(bytes);
  if (status.ok()) status = ReadFormat(bytes, sound);
  bool found = false;
  while (status.ok() && !bytes.at_end()) {
    const std::string_view name = bytes.Text(4);
    const uint32_t size = bytes.Number(4);
    if (bytes.short_of_bytes()) return TooShort();
    if (size > INT32_MAX) {
      return absl::InvalidArgumentError(
          absl::StrCat("WAV data chunk '", View(name), "' is too large: ", size, " bytes, but the limit is ", INT32_MAX));
    }
    if (name != "data") {
      bytes.Skip(size);
      continue;
    }
    if (found) return absl::InvalidArgumentError("More than one data chunk found in WAV");
    found = true;
    status = ReadSamples(bytes, size, sound);
  }
  if (!status.ok()) return status;
  if (!found) return absl::InvalidArgumentError("No data chunk found in WAV");
  return sound;
}

absl::StatusOr<std::string> EncodeWav(absl::Span<const float> values, int64_t channels, int64_t rate) {
  if (rate <= 0 || rate > UINT32_MAX) return absl::InvalidArgumentError(absl::StrCat("sample_rate must be in (0, 2^32), got: ", rate));
  if (channels <= 0 || channels > UINT16_MAX) return absl::InvalidArgumentError(absl::StrCat("num_channels must be in (0, 2^16), got: ", channels));
  const int64_t bytes = static_cast<int64_t>(values.size()) * kSampleBytes;
  if (bytes + kHeaderBytes > UINT32_MAX) return absl::InvalidArgumentError("Provided channels and frames cannot be encoded as a WAV.");
  std::string file = "RIFF";
  file.reserve(bytes + kHeaderBytes);
  Append(file, static_cast<uint32_t>(bytes + kHeaderBytes - 8), 4);
  file += "WAVEfmt ";
  Append(file, 16, 4);  // bytes of the format
  Append(file, 1, 2);   // not compressed
  Append(file, static_cast<uint32_t>(channels), 2);
  Append(file, static_cast<uint32_t>(rate), 4);
  Append(file, static_cast<uint32_t>(rate * kSampleBytes * channels), 4);
  Append(file, static_cast<uint32_t>(kSampleBytes * channels), 2);
  Append(file, kSampleBits, 2);
  file += "data";
  Append(file, static_cast<uint32_t>(bytes), 4);
  for (const float value : values) {
    const float scaled = std::isnan(value) ? 0 : std::round(value * kScale);
    const float sample = std::min<float>(std::max<float>(scaled, INT16_MIN), INT16_MAX);
    Append(file, static_cast<uint32_t>(static_cast<int16_t>(sample)), 2);
  }
  return file;
}

}  // namespace millrace
