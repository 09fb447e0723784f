// Ops that read and write files of images and of sound (src/codecs) that planning knows.
#ifndef MILLRACE_SRC_GRAPH_MEDIA_CODES_H_
#define MILLRACE_SRC_GRAPH_MEDIA_CODES_H_

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "millrace/attr.h"
#include "millrace/tensor.h"

namespace millrace {

// Decode{Jpeg,Png,Gif,Bmp,WebP,Image,AndCropJpeg}, ExtractJpegShape, Encode{Jpeg,JpegVariableQuality,Png}, DecodeWav, EncodeWav.
bool CodesMedia(std::string_view op);
absl::Span<const char* const> MediaCodeOps();
// The op's outputs. InvalidArgument in TensorFlow's words, Unimplemented for JPEG XL.
absl::StatusOr<std::vector<Tensor>> MediaCodes(std::string_view op, const AttrMap& attrs, absl::Span<const Tensor> inputs);

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_MEDIA_CODES_H_
