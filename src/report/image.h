// The bytes of a picture file, by the ending of its name.
#ifndef MILLRACE_SRC_REPORT_IMAGE_H_
#define MILLRACE_SRC_REPORT_IMAGE_H_

#include <string>

#include "absl/status/statusor.h"

namespace millrace {

// OK when `path` ends in .svg, or in .png and this build has librsvg. Ask before the work that makes the picture.
absl::Status CheckImagePath(const std::string& path);

// `svg` as the file `path` wants it.
absl::StatusOr<std::string> ImageBytes(const std::string& path, const std::string& svg);

}  // namespace millrace

#endif  // MILLRACE_SRC_REPORT_IMAGE_H_
