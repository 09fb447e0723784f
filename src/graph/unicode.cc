#include "graph/unicode.h"

#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace millrace {
namespace {

struct Piece {
  int32_t code = -1;  // -1: no character
  int64_t bytes = 1;
};

uint8_t Byte(std::string_view text, size_t at) { return static_cast<uint8_t>(text[at]); }

// Of what is wrong, the longest beginning of a character is one piece.
Piece NextUtf8(std::string_view text) {
  const uint8_t first = Byte(text, 0);
  if (first < 0x80) return {first, 1};
  const int more = first >= 0xC2 && first <= 0xDF ? 1 : first >= 0xE0 && first <= 0xEF ? 2 : first >= 0xF0 && first <= 0xF4 ? 3 : 0;
  if (more == 0) return {-1, 1};
  // Of the second byte: neither longer than needed, nor a surrogate, nor above the last plane.
  const uint8_t least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80, most = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  int32_t code = first & (0x3F >> more);
  for (int i = 1; i <= more; ++i) {
    if (static_cast<size_t>(i) >= text.size()) return {-1, i};
    const uint8_t byte = Byte(text, i);
    if (byte < (i == 1 ? least : 0x80) || byte > (i == 1 ? most : 0xBF)) return {-1, i};
    code = code << 6 | (byte & 0x3F);
  }
  return {code, more + 1};
}

int32_t Unit(std::string_view text, size_t at, int bytes, bool little) {
  uint32_t unit = 0;
  for (int i = 0; i < bytes; ++i) unit = unit << 8 | Byte(text, at + (little ? bytes - 1 - i : i));
  return static_cast<int32_t>(unit);
}

Piece NextUtf16(std::string_view text, bool little) {
  const int64_t size = static_cast<int64_t>(text.size());
  if (size < 2) return {-1, size};
  const int32_t first = Unit(text, 0, 2, little);
  if (first < 0xD800 || first > 0xDFFF) return {first, 2};
  if (first > 0xDBFF) return {-1, 2};
  if (size < 4) return {-1, size};
  const int32_t second = Unit(text, 2, 2, little);
  if (second < 0xDC00 || second > 0xDFFF) return {-1, 2};
  return {0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00), 4};
}

// What an encoding has bytes for: neither a surrogate nor beyond the last plane.
bool IsScalar(int32_t code) { return code >= 0 && code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF); }

Piece NextUtf32(std::string_view text, bool little) {
  if (text.size() < 4) return {-1, static_cast<int64_t>(text.size())};
  const int32_t code = Unit(text, 0, 4, little);
  return {IsScalar(code) ? code : -1, 4};
}

Piece Next(std::string_view text, Encoding encoding) {
  switch (encoding) {
    case Encoding::kUtf8: return NextUtf8(text);
    case Encoding::kUtf16Be: return NextUtf16(text, false);
    case Encoding::kUtf16Le: return NextUtf16(text, true);
    case Encoding::kUtf32Be: return NextUtf32(text, false);
    case Encoding::kUtf32Le: return NextUtf32(text, true);
    case Encoding::kAscii: return {Byte(text, 0) < 0x80 ? Byte(text, 0) : -1, 1};
    case Encoding::kLatin1: return {Byte(text, 0), 1};
  }
  return {};
}

void AppendUnit(uint32_t unit, int bytes, bool little, std::string& text) {
  for (int i = 0; i < bytes; ++i) text.push_back(static_cast<char>(unit >> 8 * (little ? i : bytes - 1 - i)));
}

void AppendUtf8(uint32_t code, std::string& text) {
  const int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  const uint32_t marks[] = {0, 0xC0, 0xE0, 0xF0};
  text.push_back(static_cast<char>(marks[more] | code >> 6 * more));
  for (int i = more - 1; i >= 0; --i) text.push_back(static_cast<char>(0x80 | (code >> 6 * i & 0x3F)));
}

void AppendUtf16(uint32_t code, bool little, std::string& text) {
  if (code < 0x10000) return AppendUnit(code, 2, little, text);
  AppendUnit(0xD800 + ((code - 0x10000) >> 10), 2, little, text);
  AppendUnit(0xDC00 + ((code - 0x10000) & 0x3FF), 2, little, text);
}

}  // namespace

absl::StatusOr<Encoding> EncodingOf(const std::string& name) {
  static const auto& encodings = *new std::map<std::string, Encoding>{
      {"utf8", Encoding::kUtf8},       {"utf16be", Encoding::kUtf16Be}, {"utf16le", Encoding::kUtf16Le}, {"utf32be", Encoding::kUtf32Be},
      {"utf32le", Encoding::kUtf32Le}, {"usascii", Encoding::kAscii},   {"ascii", Encoding::kAscii},     {"iso88591", Encoding::kLatin1},
      {"latin1", Encoding::kLatin1}};
  const auto found = encodings.find(absl::StrReplaceAll(absl::AsciiStrToLower(name), {{"-", ""}, {"_", ""}}));
  if (found != encodings.end()) return found->second;
  return absl::UnimplementedError(absl::StrCat("Could not create converter for input encoding: ", name,
                                               "; there are UTF-8, UTF-16-BE, UTF-16-LE, UTF-32-BE, UTF-32-LE, US-ASCII and ISO-8859-1"));
}

absl::StatusOr<UnicodeErrors> UnicodeErrors::Of(const AttrMap& attrs) {
  UnicodeErrors errors;
  const std::string policy = attrs.GetOr<std::string>("errors", "replace");
  errors.strict = policy == "strict";
  errors.ignore = policy == "ignore";
  if (!errors.strict && !errors.ignore && policy != "replace") {
    return absl::InvalidArgumentError(absl::StrCat("errors is '", policy, "', expected strict, replace or ignore"));
  }
  errors.control_characters = attrs.GetOr<bool>("replace_control_characters", false);
  const int64_t replacement = attrs.GetOr<int64_t>("replacement_char", errors.replacement);
  if (replacement < 0 || replacement > 0x10FFFF) {
    return absl::InvalidArgumentError("replacement_char out of unicode codepoint range");
  }
  errors.replacement = static_cast<int32_t>(replacement);
  return errors;
}

absl::StatusOr<std::vector<Character>> Decoded(std::string_view text, Encoding encoding, const UnicodeErrors& errors) {
  std::vector<Character> characters;
  for (int64_t at = 0; at < static_cast<int64_t>(text.size());) {
    const Piece piece = Next(text.substr(at), encoding);
    const bool malformed = piece.code < 0, wrong = malformed || (errors.control_characters && piece.code <= 0x1F);
    if (errors.strict && (malformed || (wrong && errors.strict_controls))) return absl::InvalidArgumentError("Invalid formatting on input string");
    if (!wrong || !errors.ignore) characters.push_back({wrong ? errors.replacement : piece.code, at});
    at += piece.bytes;
  }
  return characters;
}

void AppendCode(int32_t code, Encoding encoding, std::string& text) {
  constexpr uint32_t kReplacement = 0xFFFD;
  const uint32_t unit = static_cast<uint32_t>(code);
  switch (encoding) {
    case Encoding::kUtf16Be: return AppendUtf16(unit, false, text);
    case Encoding::kUtf16Le: return AppendUtf16(unit, true, text);
    case Encoding::kUtf32Be: return AppendUnit(unit, 4, false, text);
    case Encoding::kUtf32Le: return AppendUnit(unit, 4, true, text);
    default: return AppendUtf8(IsScalar(code) ? unit : kReplacement, text);
  }
}

absl::StatusOr<std::string> Encoded(const std::vector<int32_t>& codes, Encoding encoding, const UnicodeErrors& errors) {
  std::string text;
  for (int32_t code : codes) {
    if (!IsScalar(code)) {
      if (errors.strict) return absl::InvalidArgumentError("Code point is out of range for Unicode, or is a surrogate.");
      if (errors.ignore) continue;
      code = errors.replacement;
    }
    AppendCode(code, encoding, text);
  }
  return text;
}

}  // namespace millrace
