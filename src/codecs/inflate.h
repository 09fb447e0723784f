// Compressed strings, as DecodeCompressed takes them.
#ifndef MILLRACE_SRC_CODECS_INFLATE_H_
#define MILLRACE_SRC_CODECS_INFLATE_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace millrace {

// What a zlib stream holds, or streams of gzip one after another. Of one that ends early what there is of it, as TensorFlow has it;
// DataLoss in TensorFlow's words where the bytes are another format or were changed.
absl::StatusOr<std::string> Inflated(std::string_view bytes, bool gzip);

}  // namespace millrace

#endif  // MILLRACE_SRC_CODECS_INFLATE_H_
