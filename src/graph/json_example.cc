#include "graph/json_example.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "graph/message_fields.h"
#include "graph/unicode.h"
#include "millrace/status.h"

namespace millrace {
namespace {

// Fields of Feature, in which a list of the kind is.
enum class ListKind : uint64_t { kBytes = 1, kFloats = 2, kInts = 3 };

std::optional<ListKind> KindNamed(std::string_view name) {
  if (name == "bytesList" || name == "bytes_list") return ListKind::kBytes;
  if (name == "floatList" || name == "float_list") return ListKind::kFloats;
  if (name == "int64List" || name == "int64_list") return ListKind::kInts;
  return std::nullopt;
}

class ExampleReader {
 public:
  explicit ExampleReader(std::string_view json) : json_(json) {}

  absl::StatusOr<std::string> Read() {
    std::string example;
    MR_RETURN_IF_ERROR(ReadObject([&](const std::string& key) { return ReadFeatures(key, example); }));
    SkipSpace();
    if (at_ < json_.size()) return absl::InvalidArgumentError("Error while parsing JSON: extraneous characters after end of JSON object");
    return example;
  }

 private:
  // Lists in lists are one list.
  static constexpr int kMostDepth = 100;

  absl::Status Error(const std::string& what) const {
    if (at_ >= json_.size()) return absl::InvalidArgumentError("Error while parsing JSON: unexpected EOF");
    return absl::InvalidArgumentError(absl::StrCat("Error while parsing JSON: ", what, " at offset ", at_));
  }
  absl::Status NoField(const std::string& key) const { return Error(absl::StrCat("no such field: '", key, "'")); }

  void SkipSpace() {
    constexpr std::string_view kSpace = " \t\r\n";
    while (at_ < json_.size() && kSpace.find(json_[at_]) != std::string_view::npos) ++at_;
  }
  bool Is(char c) {
    SkipSpace();
    return at_ < json_.size() && json_[at_] == c;
  }
  bool Take(char c) {
    const bool is = Is(c);
    if (is) ++at_;
    return is;
  }
  absl::Status Expect(char c) {
    if (Take(c)) return absl::OkStatus();
    return Error(absl::StrCat("expected '", std::string(1, c), "'"));
  }
  bool TakeNull() {
    SkipSpace();
    constexpr std::string_view kNull = "null";
    const bool is_null = json_.substr(at_, kNull.size()) == kNull;
    if (is_null) at_ += kNull.size();
    return is_null;
  }

  template <typename ReadMember>
  absl::Status ReadObject(ReadMember read) {
    MR_RETURN_IF_ERROR(Expect('{'));
    while (!Take('}')) {
      MR_ASSIGN_OR_RETURN(const std::string key, ReadKey());
      MR_RETURN_IF_ERROR(Expect(':'));
      MR_RETURN_IF_ERROR(read(key));
      if (!Take(',') && !Is('}')) return Error("expected ',' or '}'");
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> ReadKey() {
    if (Is('"') || Is('\'')) return ReadString();
    const auto is_word = [](char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_'; };
    const size_t begin = at_;
    while (at_ < json_.size() && is_word(json_[at_])) ++at_;
    if (at_ > begin && !absl::ascii_isdigit(static_cast<unsigned char>(json_[begin]))) return std::string(json_.substr(begin, at_ - begin));
    return Error("expected a key");
  }

  absl::StatusOr<std::string> ReadString() {
    if (!Is('"') && !Is('\'')) return Error("expected '\"'");
    const char quote = json_[at_++];
    std::string text;
    while (at_ < json_.size() && json_[at_] != quote) {
      if (json_[at_] == '\\') {
        MR_RETURN_IF_ERROR(ReadEscape(text));
      } else {
        text.push_back(json_[at_++]);
      }
    }
    MR_RETURN_IF_ERROR(Expect(quote));
    return text;
  }

  absl::Status ReadEscape(std::string& text) {
    constexpr std::string_view kEscapes = "\"\\/'bfnrt", kMeant = "\"\\/'\b\f\n\r\t";
    ++at_;
    if (at_ < json_.size() && json_[at_] == 'u') return ReadCode(text);
    const size_t which = at_ < json_.size() ? kEscapes.find(json_[at_]) : std::string_view::npos;
    if (which == std::string_view::npos) return Error("invalid escape");
    ++at_;
    text.push_back(kMeant[which]);
    return absl::OkStatus();
  }

  // uXXXX, or two of them that are one character.
  absl::Status ReadCode(std::string& text) {
    const auto is_in = [](int32_t unit, int32_t first) { return unit >= first && unit < first + 0x400; };
    MR_ASSIGN_OR_RETURN(int32_t code, ReadUnit());
    if (is_in(code, 0xD800)) {
      MR_RETURN_IF_ERROR(at_ < json_.size() && json_[at_] == '\\' ? Expect('\\') : Error("expected '\\u'"));
      MR_ASSIGN_OR_RETURN(const int32_t low, ReadUnit());
      if (!is_in(low, 0xDC00)) return Error("invalid low surrogate");
      code = 0x10000 + (code - 0xD800) * 0x400 + (low - 0xDC00);
    } else if (is_in(code, 0xDC00)) {
      return Error("unpaired low surrogate");
    }
    AppendCode(code, Encoding::kUtf8, text);
    return absl::OkStatus();
  }
  absl::StatusOr<int32_t> ReadUnit() {
    constexpr size_t kLength = 5;  // with the u
    uint32_t unit = 0;
    const std::string_view digits = json_.substr(std::min(at_ + 1, json_.size()), kLength - 1);
    const bool right = at_ < json_.size() && json_[at_] == 'u' && digits.size() == kLength - 1 &&
                       std::all_of(digits.begin(), digits.end(), [](char c) { return absl::ascii_isxdigit(static_cast<unsigned char>(c)); });
    if (!right) return Error("invalid Unicode escape");
    std::from_chars(digits.data(), digits.data() + digits.size(), unit, 16);
    at_ += kLength;
    return static_cast<int32_t>(unit);
  }

  absl::Status ReadFeatures(const std::string& key, std::string& example) {
    if (key != "features") return NoField(key);
    if (TakeNull()) return absl::OkStatus();
    std::string features;
    MR_RETURN_IF_ERROR(ReadObject([&](const std::string& name) { return ReadMap(name, features); }));
    AppendBytes(1, features, example);
    return absl::OkStatus();
  }

  absl::Status ReadMap(const std::string& key, std::string& features) {
    if (key != "feature") return NoField(key);
    if (TakeNull()) return absl::OkStatus();
    std::set<std::string> names;
    return ReadObject([&](const std::string& name) -> absl::Status {
      if (!names.insert(name).second) return Error(absl::StrCat("got unexpectedly-repeated repeated map key: '", name, "'"));
      std::string entry, feature;
      AppendBytes(1, name, entry);
      if (!TakeNull()) {
        bool has_list = false;
        MR_RETURN_IF_ERROR(ReadObject([&](const std::string& kind) { return ReadList(kind, has_list, feature); }));
        AppendBytes(2, feature, entry);
      }
      AppendBytes(1, entry, features);
      return absl::OkStatus();
    });
  }

  absl::Status ReadList(const std::string& key, bool& has_list, std::string& feature) {
    const std::optional<ListKind> kind = KindNamed(key);
    if (!kind) return NoField(key);
    if (TakeNull()) return absl::OkStatus();
    if (has_list) return Error(absl::StrCat("'", key, "' has already been set (either directly or as part of a oneof)"));
    has_list = true;
    std::string list;
    MR_RETURN_IF_ERROR(ReadObject([&](const std::string& name) -> absl::Status {
      if (name != "value") return NoField(name);
      return TakeNull() ? absl::OkStatus() : ReadValues(*kind, 0, list);
    }));
    AppendBytes(static_cast<uint64_t>(*kind), list, feature);
    return absl::OkStatus();
  }

  absl::Status ReadValues(ListKind kind, int depth, std::string& list) {
    if (!Take('[')) return ReadValue(kind, list);
    if (depth > kMostDepth) return Error("lists are too deep");
    while (!Take(']')) {
      MR_RETURN_IF_ERROR(ReadValues(kind, depth + 1, list));
      if (!Take(',') && !Is(']')) return Error("expected ',' or ']'");
    }
    return absl::OkStatus();
  }

  // A null is 0, or nothing.
  absl::Status ReadValue(ListKind kind, std::string& list) {
    const bool is_null = TakeNull();
    if (kind == ListKind::kBytes) {
      std::string bytes;
      if (!is_null) {
        MR_ASSIGN_OR_RETURN(bytes, ReadBytes());
      }
      AppendBytes(1, bytes, list);
    } else if (kind == ListKind::kFloats) {
      float value = 0;
      if (!is_null) {
        MR_ASSIGN_OR_RETURN(value, ReadFloat());
      }
      AppendVarint(1 << 3 | 5, list);
      char bits[sizeof value];
      std::memcpy(bits, &value, sizeof value);
      list.append(bits, sizeof value);
    } else {
      int64_t value = 0;
      if (!is_null) {
        MR_ASSIGN_OR_RETURN(value, ReadInt());
      }
      AppendVarint(1 << 3, list);
      AppendVarint(static_cast<uint64_t>(value), list);
    }
    return absl::OkStatus();
  }

  // Base 64, of either alphabet, filled up to a multiple of four or not at all.
  absl::StatusOr<std::string> ReadBytes() {
    MR_ASSIGN_OR_RETURN(std::string code, ReadString());
    const size_t given = code.size();
    code.resize(std::min(code.find_last_not_of('=') + 1, code.size()));
    const bool filled_up = code.size() == given || (given % 4 == 0 && given - code.size() <= 2);
    std::replace(code.begin(), code.end(), '+', '-');
    std::replace(code.begin(), code.end(), '/', '_');
    const auto is_digit = [](char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_'; };
    std::string bytes;
    // Bits that are left over do not matter.
    constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    const bool right = filled_up && std::all_of(code.begin(), code.end(), is_digit) && code.size() % 4 != 1;
    if (right && code.size() % 4 != 0) {
      const size_t kept = code.size() % 4 == 2 ? 0x30 : 0x3C;
      code.back() = kAlphabet[kAlphabet.find(code.back()) & kept];
    }
    if (right && absl::WebSafeBase64Unescape(code, &bytes)) return bytes;
    return Error("corrupt base64");
  }

  // A number as JSON has it, by its letters.
  absl::StatusOr<std::string> ReadNumber() {
    SkipSpace();
    size_t end = at_;
    const auto digits = [&] {
      const size_t begin = end;
      while (end < json_.size() && absl::ascii_isdigit(static_cast<unsigned char>(json_[end]))) ++end;
      return end > begin;
    };
    const auto is = [&](std::string_view any) { return end < json_.size() && any.find(json_[end]) != std::string_view::npos; };
    if (is("-")) ++end;
    const size_t whole = end;
    if (!digits() || (json_[whole] == '0' && end > whole + 1)) return Error("expected a number or a string");
    if (is(".")) {
      ++end;
      if (!digits()) return Error("number cannot have trailing period");
    }
    if (is("eE")) {
      ++end;
      if (is("+-")) ++end;
      if (!digits()) return Error("expected an exponent");
    }
    const std::string number(json_.substr(at_, end - at_));
    at_ = end;
    return number;
  }

  absl::StatusOr<float> ReadFloat() {
    const bool quoted = Is('"') || Is('\'');
    MR_ASSIGN_OR_RETURN(const std::string text, quoted ? ReadString() : ReadNumber());
    double value = 0;
    if (!absl::SimpleAtod(text, &value)) return Error("non-number characters in quoted number");
    if (!quoted && !std::isfinite(value)) return Error(absl::StrCat("invalid number: '", text, "'"));
    if (std::isfinite(value) && std::abs(value) > std::numeric_limits<float>::max()) return Error("float out of range");
    return static_cast<float>(value);
  }

  absl::StatusOr<int64_t> ReadInt() {
    const bool quoted = Is('"') || Is('\'');
    MR_ASSIGN_OR_RETURN(const std::string text, quoted ? ReadString() : ReadNumber());
    if (text.empty() || absl::StripAsciiWhitespace(text).size() != text.size()) return Error("non-number characters in quoted number");
    int64_t whole = 0;
    if (absl::SimpleAtoi(text, &whole)) return whole;
    constexpr double kMost = static_cast<double>(int64_t{1} << 53);  // up to which each is a double
    double value = 0;
    if (!absl::SimpleAtod(text, &value)) return Error("non-number characters in quoted number");
    if (!(std::abs(value) <= kMost)) return Error("JSON number out of range for int");
    if (std::trunc(value) != value) return Error("expected integer, but JSON number had fractional part");
    return static_cast<int64_t>(value);
  }

  const std::string_view json_;
  size_t at_ = 0;
};

}  // namespace

absl::StatusOr<std::string> ExampleFromJson(std::string_view json) { return ExampleReader(json).Read(); }

}  // namespace millrace
