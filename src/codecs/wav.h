// Sound in WAV files of 16 bits a sample.
#ifndef MILLRACE_SRC_CODECS_WAV_H_
#define MILLRACE_SRC_CODECS_WAV_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace millrace {

struct Sound {
  int64_t samples = 0, channels = 0;  // samples of a channel
  int64_t rate = 0;                   // samples a second
  std::vector<float> values;          // [samples, channels], from -1 to 1
};
// InvalidArgument where the file is none, or not of 16 bits without compression.
absl::StatusOr<Sound> DecodeWav(std::string_view file);

// values: [samples, channels], cut to what 16 bits hold.
absl::StatusOr<std::string> EncodeWav(absl::Span<const float> values, int64_t channels, int64_t rate);

}  // namespace millrace

#endif  // MILLRACE_SRC_CODECS_WAV_H_
