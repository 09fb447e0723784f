#include "graph/letters.h"

#include <unicode/locid.h>
#include <unicode/unistr.h>
#include <unicode/uscript.h>

namespace millrace {
namespace {

icu::UnicodeString Characters(std::string_view text) {
  text = text.substr(0, text.find('\0'));
  return icu::UnicodeString::fromUTF8(icu::StringPiece(text.data(), static_cast<int32_t>(text.size())));
}

std::string Utf8(const icu::UnicodeString& characters) {
  std::string text;
  characters.toUTF8String(text);
  return text;
}

}  // namespace

std::string LowerCase(std::string_view text) { return Utf8(Characters(text).toLower(icu::Locale::getRoot())); }
std::string UpperCase(std::string_view text) { return Utf8(Characters(text).toUpper(icu::Locale::getRoot())); }

int32_t ScriptOf(int32_t code) {
  UErrorCode status = U_ZERO_ERROR;
  const UScriptCode script = uscript_getScript(code, &status);
  return U_SUCCESS(status) ? script : USCRIPT_INVALID_CODE;
}

}  // namespace millrace
