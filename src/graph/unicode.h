// Characters of strings, in the encodings of Unicode, ASCII and Latin 1: what TensorFlow asks ICU for.
#ifndef MILLRACE_SRC_GRAPH_UNICODE_H_
#define MILLRACE_SRC_GRAPH_UNICODE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/attr.h"

namespace millrace {

enum class Encoding { kUtf8, kUtf16Be, kUtf16Le, kUtf32Be, kUtf32Le, kAscii, kLatin1 };

// Unimplemented lists those that there are.
absl::StatusOr<Encoding> EncodingOf(const std::string& name);

// What is done with what is no character, from the attributes of an op: an error, left out, or replaced.
struct UnicodeErrors {
  bool strict = false, ignore = false, control_characters = false;
  bool strict_controls = false;  // `strict` is for control characters, too; they are replaced otherwise
  int32_t replacement = 0xFFFD;
  static absl::StatusOr<UnicodeErrors> Of(const AttrMap& attrs);
};

// Of text in UTF-8, whose characters go on with bytes 10xxxxxx.
inline bool BeginsCharacter(char byte) { return (static_cast<unsigned char>(byte) & 0xC0u) != 0x80u; }

struct Character {
  int32_t code = 0;
  int64_t begin = 0;  // byte of the text
};

absl::StatusOr<std::vector<Character>> Decoded(std::string_view text, Encoding encoding, const UnicodeErrors& errors);
// Code points that no encoding has are left out or replaced, too.
absl::StatusOr<std::string> Encoded(const std::vector<int32_t>& codes, Encoding encoding, const UnicodeErrors& errors);
// A surrogate, which a replacement may be, becomes U+FFFD in UTF-8.
void AppendCode(int32_t code, Encoding encoding, std::string& text);

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_UNICODE_H_
