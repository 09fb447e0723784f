// Sizes as people write and read them.
#include <array>
#include <cmath>
#include <limits>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "millrace/options.h"

namespace millrace {
namespace {

constexpr int64_t kLargestSize = int64_t{1} << 60;

struct Unit {
  const char* name;  // lower case
  double bytes;
};
constexpr std::array<Unit, 14> kUnits = {{{"", 1},
                                          {"b", 1},
                                          {"k", 1024.0},
                                          {"kb", 1e3},
                                          {"kib", 1024.0},
                                          {"m", 1048576.0},
                                          {"mb", 1e6},
                                          {"mib", 1048576.0},
                                          {"g", 1073741824.0},
                                          {"gb", 1e9},
                                          {"gib", 1073741824.0},
                                          {"t", 1099511627776.0},
                                          {"tb", 1e12},
                                          {"tib", 1099511627776.0}}};

absl::Status SizeError(const std::string& text, const char* what) {
  return absl::InvalidArgumentError(
      absl::StrCat("size \"", text, "\" ", what, "; expected a number with an optional unit, like 12GiB, 512MB or 1000000"));
}

}  // namespace

absl::StatusOr<int64_t> ParseSize(const std::string& text) {
  const std::string trimmed(absl::StripAsciiWhitespace(text));
  const size_t unit_begin = trimmed.find_first_not_of("0123456789.+-");
  const std::string digits = trimmed.substr(0, unit_begin);
  const std::string unit =
      unit_begin == std::string::npos
          ? ""
          : absl::AsciiStrToLower(absl::StripAsciiWhitespace(trimmed.substr(unit_begin)));
  double number = 0;
  if (digits.empty() || !absl::SimpleAtod(digits, &number)) return SizeError(text, "is not a number");
  if (number < 0 || digits[0] == '-') return SizeError(text, "is negative");
  for (const Unit& candidate : kUnits) {
    if (unit != candidate.name) continue;
    const double bytes = number * candidate.bytes;
    if (bytes > 0 && bytes < 1) return SizeError(text, "is less than a byte");
    if (bytes > static_cast<double>(kLargestSize)) return SizeError(text, "is more than 2^60 bytes");
    // Whole byte counts stay exact beyond a double's 53 bits.
    int64_t exact = 0;
    if (candidate.bytes == 1 && absl::SimpleAtoi(digits, &exact)) return exact;
    return static_cast<int64_t>(std::llround(bytes));
  }
  return SizeError(text, "has an unknown unit");
}

std::string FormatBytes(int64_t bytes) {
  static constexpr std::array<const char*, 5> kNames = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 0) return absl::StrCat("-", FormatBytes(bytes == std::numeric_limits<int64_t>::min() ? std::numeric_limits<int64_t>::max() : -bytes));
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  // 1023.995 would print as 1024.00.
  while (value >= 1023.995 && unit + 1 < kNames.size()) {
    value /= 1024;
    ++unit;
  }
  return absl::StrFormat("%.2f %s", value, kNames[unit]);
}

}  // namespace millrace
