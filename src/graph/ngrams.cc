#include "graph/ngrams.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace millrace {
namespace {

class Maker {
 public:
  explicit Maker(const AttrMap& attrs)
      : separator_(attrs.GetOr<std::string>("separator", " ")),
        left_(attrs.GetOr<std::string>("left_pad", "")),
        right_(attrs.GetOr<std::string>("right_pad", "")),
        pads_(attrs.GetOr<int64_t>("pad_width", 0)),
        keep_short_(attrs.GetOr<bool>("preserve_short_sequences", false)),
        widths_(attrs.GetOr<std::vector<int64_t>>("ngram_widths", {})) {}

  void AppendRow(const std::string* words, int64_t length, std::vector<std::string>& texts) const {
    const size_t before = texts.size();
    for (int64_t width : widths_) AppendWidth(words, length, width, Pads(width), texts);
    // A row too short for any width is one run, pads and all.
    if (keep_short_ && texts.size() == before && length > 0 && pads_ >= 0) AppendWidth(words, length, length + 2 * pads_, pads_, texts);
  }

 private:
  // Pads at either end; a run never consists of pads alone.
  int64_t Pads(int64_t width) const { return pads_ < 0 ? width - 1 : std::min(pads_, width - 1); }

  void AppendWidth(const std::string* words, int64_t length, int64_t width, int64_t pads, std::vector<std::string>& texts) const {
    const int64_t count = std::max<int64_t>(0, length + 2 * pads - width + 1);
    for (int64_t i = 0; i < count; ++i) {
      std::string& text = texts.emplace_back();
      for (int64_t k = i - pads; k < i - pads + width; ++k) {
        if (k > i - pads) text += separator_;
        text += k < 0 ? left_ : k < length ? words[k] : right_;
      }
    }
  }

  std::string separator_, left_, right_;
  int64_t pads_;
  bool keep_short_;
  std::vector<int64_t> widths_;
};

}  // namespace

absl::StatusOr<NGrams> NGramsOf(const AttrMap& attrs, const Tensor& words, const Tensor& splits) {
  const Maker maker(attrs);
  NGrams made;
  const int64_t rows = splits.num_elements() - 1;
  if (rows < 0) return made;
  if (splits.IntAt(0) != 0) return absl::InvalidArgumentError(absl::StrCat("First split value must be 0, got ", splits.IntAt(0)));
  made.splits.push_back(0);
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t first = splits.IntAt(row), end = splits.IntAt(row + 1);
    if (end < first || end > words.num_elements()) {
      return absl::InvalidArgumentError(absl::StrCat("Invalid split value ", end, ", must be in [", first, ", ", words.num_elements(), "]"));
    }
    maker.AppendRow(words.strings().data() + first, end - first, made.texts);
    made.splits.push_back(static_cast<int64_t>(made.texts.size()));
  }
  if (splits.IntAt(rows) != words.num_elements()) {
    return absl::InvalidArgumentError(absl::StrCat("Last split value must be data size. Expected ", words.num_elements(), ", got ", splits.IntAt(rows)));
  }
  return made;
}

}  // namespace millrace
