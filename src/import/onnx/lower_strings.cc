// Strings: joined, matched, split and counted. What is as long as the strings say is computed while the model is read.
#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "graph/letters.h"
#include "onnx/lowering.h"

namespace millrace::onnx {
namespace {

// Bytes of a result that the model's numbers, not its inputs, make large.
constexpr int64_t kMostMade = int64_t{1} << 30;

absl::Status ExpectStrings(const NodeContext& c, const TensorType& type) {
  if (type.dtype == DataType::kString) return absl::OkStatus();
  return c.Error(absl::StrCat("input is ", type.ToString(), ", expected strings"));
}

Tensor StringsAs(std::vector<std::string> strings, Shape shape) {
  Tensor tensor(DataType::kString, std::move(shape));
  std::move(strings.begin(), strings.end(), tensor.mutable_strings().begin());
  return tensor;
}

absl::Status StringConcat(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(2, 2));
  const Output x = c.in(0), y = c.in(1);
  if (!x.valid() || !y.valid()) return absl::OkStatus();
  MR_RETURN_IF_ERROR(ExpectStrings(c, x.type()));
  MR_RETURN_IF_ERROR(ExpectStrings(c, y.type()));
  IntList both(std::max(x.rank(), y.rank()), 1);
  for (const Output& part : {x, y}) {
    for (int d = 0; d < part.rank(); ++d) {
      int64_t& size = both[both.size() - part.rank() + d];
      if (size == 1) size = part.dim(d);
    }
  }
  c.Set(0, c.b.Op("StringJoin", {ops::BroadcastTo(x, both), ops::BroadcastTo(y, both)}, {{"N", int64_t{2}}, {"separator", std::string()}}));
  return absl::OkStatus();
}

absl::Status RegexFullMatch(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  if (c.Attribute("pattern") == nullptr) return c.Error("pattern is missing");
  MR_ASSIGN_OR_RETURN(const Tensor x, c.Constant(0));
  MR_RETURN_IF_ERROR(ExpectStrings(c, x.type()));
  const Output pattern = c.b.SharedConst(StringsAs({c.String("pattern", "")}, Shape()));
  c.Set(0, c.b.Op("RegexFullMatch", {c.b.SharedConst(x), pattern}, {}));
  return absl::OkStatus();
}

// The letters of UTF-8 in another case. Zero bytes, at which UpperCase and LowerCase end, stay.
std::vector<std::string> InCase(std::vector<std::string> strings, bool upper) {
  for (std::string& text : strings) {
    std::vector<std::string> parts = absl::StrSplit(text, '\0');
    for (std::string& part : parts) part = upper ? UpperCase(part) : LowerCase(part);
    text = absl::StrJoin(parts, absl::string_view("\0", 1));
  }
  return strings;
}

// Without the words that stop; where none are left there is one that is empty.
absl::Status StringNormalizer(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  MR_ASSIGN_OR_RETURN(const Tensor x, c.Constant(0));
  MR_RETURN_IF_ERROR(ExpectStrings(c, x.type()));
  const int rank = x.shape().rank();
  if (rank < 1 || rank > 2 || (rank == 2 && x.shape().dim(0) != 1)) {
    return c.Error(absl::StrCat("input is ", x.type().ToString(), ", expected a vector or one row of strings"));
  }
  const std::string change = c.String("case_change_action", "NONE");
  if (change != "NONE" && change != "LOWER" && change != "UPPER") return c.Error(absl::StrCat("case_change_action is '", change, "'"));
  std::vector<std::string> stops = c.Strings("stopwords"), compared = x.strings(), left;
  if (c.Int("is_case_sensitive", 0) == 0) {
    stops = InCase(std::move(stops), false);
    compared = InCase(std::move(compared), false);
  }
  const std::set<std::string> stopping(stops.begin(), stops.end());
  for (size_t i = 0; i < compared.size(); ++i) {
    if (stopping.count(compared[i]) == 0) left.push_back(x.strings()[i]);
  }
  if (left.empty()) left.emplace_back();
  if (change != "NONE") left = InCase(std::move(left), change == "UPPER");
  const int64_t count = static_cast<int64_t>(left.size());
  c.Set(0, c.b.SharedConst(StringsAs(std::move(left), rank == 1 ? Shape({count}) : Shape({1, count}))));
  return absl::OkStatus();
}

// At white space where there is no delimiter; behind `most` parts the rest stays whole, if most is not negative.
std::vector<std::string> PartsOf(const std::string& text, const std::string& delimiter, int64_t most) {
  std::vector<std::string> parts;
  std::string_view rest = text;
  const auto cut = [&] { return most < 0 || static_cast<int64_t>(parts.size()) < most; };
  if (!delimiter.empty()) {
    if (text.empty()) return parts;
    for (size_t at = rest.find(delimiter); cut() && at != std::string_view::npos; at = rest.find(delimiter)) {
      parts.emplace_back(rest.substr(0, at));
      rest.remove_prefix(at + delimiter.size());
    }
    parts.emplace_back(rest);
    return parts;
  }
  const auto is_space = [](unsigned char letter) { return absl::ascii_isspace(letter); };
  while (!rest.empty() && is_space(rest.back())) rest.remove_suffix(1);
  while (true) {
    rest.remove_prefix(std::find_if_not(rest.begin(), rest.end(), is_space) - rest.begin());
    if (rest.empty()) return parts;
    const auto end = cut() ? std::find_if(rest.begin(), rest.end(), is_space) : rest.end();
    parts.emplace_back(rest.begin(), end);
    rest.remove_prefix(end - rest.begin());
  }
}

absl::Status StringSplit(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  MR_ASSIGN_OR_RETURN(const Tensor x, c.Constant(0));
  MR_RETURN_IF_ERROR(ExpectStrings(c, x.type()));
  const bool limited = c.Attribute("maxsplit") != nullptr;
  std::vector<std::vector<std::string>> parts;
  int64_t longest = 0;
  Tensor counts(DataType::kInt64, x.shape());
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    parts.push_back(PartsOf(x.strings()[i], c.String("delimiter", ""), limited ? c.Int("maxsplit", 0) : -1));
    counts.mutable_as<int64_t>()[i] = static_cast<int64_t>(parts.back().size());
    longest = std::max(longest, counts.as<int64_t>()[i]);
  }
  if (longest > 0 && x.num_elements() > kMostMade / static_cast<int64_t>(sizeof(std::string)) / longest) {
    return c.Unsupported(absl::StrCat(x.num_elements(), " strings of up to ", longest, " parts"));
  }
  Shape shape = x.shape();
  shape.AddDim(longest);
  Tensor split(DataType::kString, shape);
  for (size_t i = 0; i < parts.size(); ++i) std::move(parts[i].begin(), parts[i].end(), split.mutable_strings().begin() + i * longest);
  c.Set(0, c.b.SharedConst(std::move(split)));
  if (c.wants(1)) c.Set(1, c.b.SharedConst(std::move(counts)));
  return absl::OkStatus();
}

using Gram = std::vector<std::string>;  // numbers as their texts

Gram TextsOf(const Tensor& x) {
  if (x.dtype() == DataType::kString) return {x.strings().begin(), x.strings().end()};
  Gram texts;
  for (int64_t i = 0; i < x.num_elements(); ++i) texts.push_back(absl::StrCat(x.IntAt(i)));
  return texts;
}

struct Grams {
  std::map<Gram, size_t> places;  // in the pool, by what they are
  IntList columns;
  int64_t width = 0, lengths = 0;
};

// The pool has those of one element first, then of two, and so on; ngram_counts says where those of a length begin.
absl::StatusOr<Grams> ReadGrams(const NodeContext& c, bool of_strings) {
  Gram pool;
  if (of_strings) pool = c.Strings("pool_strings");
  for (int64_t number : of_strings ? IntList() : c.Ints("pool_int64s", {})) pool.push_back(absl::StrCat(number));
  if (pool.empty()) return c.Error("the pool is not of the input's type");
  Grams grams;
  grams.columns = c.Ints("ngram_indexes", {});
  IntList begins = c.Ints("ngram_counts", {});
  grams.lengths = static_cast<int64_t>(begins.size());
  begins.push_back(static_cast<int64_t>(pool.size()));
  for (size_t n = 1; n < begins.size(); ++n) {
    const int64_t begin = begins[n - 1], end = begins[n], length = static_cast<int64_t>(n);
    if (begin < 0 || end < begin || end > static_cast<int64_t>(pool.size()) || (end - begin) % length != 0) {
      return c.Error(absl::StrCat("ngram_counts has no whole grams of ", n, " elements"));
    }
    for (int64_t at = begin; at < end; at += length) grams.places.emplace(Gram(pool.begin() + at, pool.begin() + at + length), grams.places.size());
  }
  if (grams.places.size() != grams.columns.size() || grams.columns.empty()) {
    return c.Error(absl::StrCat("ngram_indexes has ", grams.columns.size(), " numbers, there are ", grams.places.size(), " grams"));
  }
  if (*std::min_element(grams.columns.begin(), grams.columns.end()) < 0) return c.Error("ngram_indexes has a negative number");
  const int64_t last = *std::max_element(grams.columns.begin(), grams.columns.end());
  if (last >= kMostMade / static_cast<int64_t>(sizeof(float))) return c.Unsupported(absl::StrCat("ngram_indexes has ", last));
  grams.width = last + 1;
  return grams;
}

// How often rows of x have the grams, with up to max_skip_count elements between two of theirs.
absl::Status TfIdfVectorizer(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  MR_ASSIGN_OR_RETURN(const Tensor x, c.Constant(0));
  const int rank = x.shape().rank();
  const bool countable = x.dtype() == DataType::kString || x.dtype() == DataType::kInt32 || x.dtype() == DataType::kInt64;
  if (rank < 1 || rank > 2 || !countable) {
    return c.Error(absl::StrCat("input is ", x.type().ToString(), ", expected a vector or rows of strings or integers"));
  }
  MR_ASSIGN_OR_RETURN(const Grams grams, ReadGrams(c, x.dtype() == DataType::kString));
  const std::string mode = c.String("mode", "TF");
  const std::vector<float> weights = c.Floats("weights");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF") return c.Error(absl::StrCat("mode is '", mode, "'"));
  if (!weights.empty() && weights.size() != grams.columns.size()) return c.Error(absl::StrCat("weights has ", weights.size(), " numbers"));
  const int64_t least = c.Int("min_gram_length", 1), most = c.Int("max_gram_length", 1), skips = c.Int("max_skip_count", 0);
  if (least < 1 || most < least || most > grams.lengths || skips < 0) {
    return c.Error(absl::StrCat("grams of ", least, " to ", most, " elements with up to ", skips, " between two, expected lengths of 1 to ",
                                grams.lengths, " in order and no negative numbers"));
  }
  const int64_t columns = x.shape().dim(rank - 1), rows = rank == 1 ? 1 : x.shape().dim(0);
  if (rows > kMostMade / static_cast<int64_t>(sizeof(float)) / grams.width) {
    return c.Unsupported(absl::StrCat(rows, " rows of ", grams.width, " numbers"));
  }
  const Gram elements = TextsOf(x);
  Tensor y(DataType::kFloat, rank == 1 ? Shape({grams.width}) : Shape({rows, grams.width}));
  std::fill_n(y.mutable_as<float>().begin(), y.num_elements(), 0.0f);
  const auto count = [&](int64_t row, int64_t first, int64_t length, int64_t step) {
    Gram gram;
    for (int64_t i = 0; i < length; ++i) gram.push_back(elements[row * columns + first + i * step]);
    const auto found = grams.places.find(gram);
    if (found == grams.places.end()) return;
    const float weight = mode == "TF" || weights.empty() ? 1.0f : weights[found->second];
    float& to = y.mutable_as<float>()[row * grams.width + grams.columns[found->second]];
    to = mode == "IDF" ? weight : to + weight;
  };
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t length = least; length <= std::min(most, columns); ++length) {
      const int64_t steps = length == 1 ? 1 : std::min((columns - 1) / (length - 1), skips < columns ? skips + 1 : columns);
      for (int64_t step = 1; step <= steps; ++step) {
        for (int64_t first = 0; first + (length - 1) * step < columns; ++first) count(row, first, length, step);
      }
    }
  }
  c.Set(0, c.b.SharedConst(std::move(y)));
  return absl::OkStatus();
}

}  // namespace

void AddStringLowerings(LoweringTable& table) {
  table.Add("RegexFullMatch", RegexFullMatch);
  table.Add("StringConcat", StringConcat);
  table.Add("StringNormalizer", StringNormalizer);
  table.Add("StringSplit", StringSplit);
  table.Add("TfIdfVectorizer", TfIdfVectorizer);
}

}  // namespace millrace::onnx
