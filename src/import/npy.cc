#include "import/npy.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "millrace/quantized_types.h"
#include "millrace/status.h"

namespace millrace {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr size_t kMaxHeaderBytes = 1 << 20;
constexpr int kMaxRank = 64;  // NumPy's own limit

// What the header says of the elements.
struct Elements {
  DataType dtype = DataType::kInvalid;
  char kind = 0;            // NumPy's: b i u f c S U V
  int64_t item_bytes = 0;   // in the file
  bool big_endian = false;
};

struct Header {
  Elements elements;
  bool fortran_order = false;
  Shape shape;
};

absl::Status Bad(const std::string& message) { return absl::InvalidArgumentError(message); }

DataType DataTypeOf(char kind, int64_t item_bytes) {
  struct Row {
    char kind;
    int64_t item_bytes;
    DataType dtype;
  };
  constexpr Row kRows[] = {
      {'b', 1, DataType::kBool},      {'i', 1, DataType::kInt8},       {'i', 2, DataType::kInt16},
      {'i', 4, DataType::kInt32},     {'i', 8, DataType::kInt64},      {'u', 1, DataType::kUint8},
      {'u', 2, DataType::kUint16},    {'u', 4, DataType::kUint32},     {'u', 8, DataType::kUint64},
      {'f', 2, DataType::kHalf},      {'f', 4, DataType::kFloat},      {'f', 8, DataType::kDouble},
      {'c', 8, DataType::kComplex64}, {'c', 16, DataType::kComplex128}, {'V', 2, DataType::kBfloat16}};
  if (kind == 'S' || kind == 'U') return DataType::kString;
  for (const Row& row : kRows) {
    if (row.kind == kind && row.item_bytes == item_bytes) return row.dtype;
  }
  return DataType::kInvalid;
}

// "<f4": byte order, kind, size.
absl::StatusOr<Elements> ParseElements(const std::string& descr) {
  Elements elements;
  const size_t begin = descr.empty() || absl::ascii_isalpha(descr[0]) ? 0 : 1;
  int64_t count = 0;
  if (descr.size() > begin + 1 && absl::SimpleAtoi(descr.substr(begin + 1), &count) && count >= 0 &&
      count <= INT32_MAX) {
    elements.kind = descr[begin];
    elements.item_bytes = elements.kind == 'U' ? 4 * count : count;
    elements.big_endian = begin == 1 && descr[0] == '>';
    elements.dtype = DataTypeOf(elements.kind, elements.item_bytes);
  }
  if (descr.size() > begin && descr[begin] == 'O') {
    return Bad(absl::StrCat("elements of type '", absl::CHexEscape(descr), "', Python objects, which are pickled and not read; expected strings of type "
                            "'S', which lose NULs at their ends, or, of feeds but of ONNX models, their bytes (uint8) beside NAME/row_splits"));
  }
  if (elements.dtype == DataType::kInvalid) {
    return Bad(absl::StrCat("elements of type '", absl::CHexEscape(descr),
                            "', expected bool, an integer, a float, complex or a string type of NumPy",
                            elements.kind == 'V' && elements.item_bytes == 1 ? ": a void of 1 byte does not tell which type of float8 it is" : ""));
  }
  return elements;
}

// Reads the header's text: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  absl::StatusOr<Header> Parse() {
    Header header;
    bool has_descr = false, has_order = false, has_shape = false;
    MR_RETURN_IF_ERROR(Expect('{'));
    while (!Take('}')) {
      MR_ASSIGN_OR_RETURN(const std::string key, Quoted());
      MR_RETURN_IF_ERROR(Expect(':'));
      if (key == "descr") {
        has_descr = true;
        MR_ASSIGN_OR_RETURN(const std::string descr, Quoted());
        MR_ASSIGN_OR_RETURN(header.elements, ParseElements(descr));
      } else if (key == "fortran_order") {
        has_order = true;
        MR_ASSIGN_OR_RETURN(header.fortran_order, Bool());
      } else if (key == "shape") {
        has_shape = true;
        MR_ASSIGN_OR_RETURN(header.shape, Dims());
      } else {
        return Bad(absl::StrCat("the array's header has a key '", absl::CHexEscape(key), "'"));
      }
      if (!Take(',')) {
        MR_RETURN_IF_ERROR(Expect('}'));
        break;
      }
    }
    if (!has_descr || !has_order || !has_shape) {
      return Bad("the array's header lacks a key, expected descr, fortran_order and shape");
    }
    return header;
  }

 private:
  void SkipSpace() {
    while (position_ < text_.size() && absl::ascii_isspace(static_cast<unsigned char>(text_[position_]))) ++position_;
  }
  bool Take(char c) {
    SkipSpace();
    if (position_ >= text_.size() || text_[position_] != c) return false;
    ++position_;
    return true;
  }
  absl::Status Expect(char c) {
    if (Take(c)) return absl::OkStatus();
    return Bad(absl::StrCat("the array's header is not NumPy's: expected '", std::string(1, c), "' at '",
                            absl::CHexEscape(std::string(text_.substr(position_, 20))), "'"));
  }
  absl::StatusOr<std::string> Quoted() {
    const char quote = Take('\'') ? '\'' : '"';
    if (quote == '"') {
      if (position_ < text_.size() && text_[position_] == '[') return Bad("a structured array, expected plain elements");
      MR_RETURN_IF_ERROR(Expect('"'));
    }
    const size_t end = text_.find(quote, position_);
    if (end == std::string_view::npos) return Bad("the array's header is not NumPy's: a string does not end");
    std::string value(text_.substr(position_, end - position_));
    position_ = end + 1;
    return value;
  }
  std::string Word() {
    SkipSpace();
    const size_t begin = position_;
    while (position_ < text_.size() && absl::ascii_isalnum(static_cast<unsigned char>(text_[position_]))) ++position_;
    return std::string(text_.substr(begin, position_ - begin));
  }
  absl::StatusOr<bool> Bool() {
    const std::string word = Word();
    if (word != "True" && word != "False") return Bad("the array's header has fortran_order other than True or False");
    return word == "True";
  }
  absl::StatusOr<Shape> Dims() {
    Shape shape;
    MR_RETURN_IF_ERROR(Expect('('));
    while (!Take(')')) {
      std::string word = Word();
      if (!word.empty() && word.back() == 'L') word.pop_back();  // Python 2's long
      int64_t dim = 0;
      if (!absl::SimpleAtoi(word, &dim) || dim < 0) {
        return Bad(absl::StrCat("the array's header has dimension '", word, "', expected a number"));
      }
      if (shape.rank() == kMaxRank) return Bad(absl::StrCat("an array of more than ", kMaxRank, " dimensions"));
      shape.AddDim(dim);
      if (!Take(',')) {
        MR_RETURN_IF_ERROR(Expect(')'));
        break;
      }
    }
    return shape;
  }

  std::string_view text_;
  size_t position_ = 0;
};

// Reads magic, version and header; `left` is what remains of the array's bytes.
absl::StatusOr<Header> ReadHeader(ReadBytes read, int64_t* left) {
  unsigned char head[12] = {};
  if (*left < 10) return Bad(absl::StrCat(*left, " bytes, too few for an array's header"));
  MR_RETURN_IF_ERROR(read(head, 10));
  if (std::memcmp(head, kMagic.data(), kMagic.size()) != 0) return Bad("not a NumPy array (.npy)");
  const int version = head[6];
  if (version < 1 || version > 3) return Bad(absl::StrCat("version ", version, " of the format, expected 1 to 3"));
  *left -= 10;
  size_t length = head[8] + (head[9] << 8);
  if (version > 1) {
    if (*left < 2) return Bad("truncated in the array's header");
    MR_RETURN_IF_ERROR(read(head + 10, 2));
    *left -= 2;
    length += (static_cast<size_t>(head[10]) << 16) + (static_cast<size_t>(head[11]) << 24);
  }
  if (static_cast<int64_t>(length) > *left || length > kMaxHeaderBytes) {
    return Bad(absl::StrCat("a header of ", length, " bytes, but ", *left, " bytes are left"));
  }
  std::string text(length, '\0');
  MR_RETURN_IF_ERROR(read(text.data(), length));
  *left -= static_cast<int64_t>(length);
  return HeaderParser(text).Parse();
}

void SwapBytes(char* data, int64_t bytes, int64_t unit) {
  for (int64_t i = 0; i + unit <= bytes; i += unit) std::reverse(data + i, data + i + unit);
}

// `data` holds the array with its first dimension running fastest; returns it with the last one running fastest.
std::string FromFortranOrder(const std::string& data, const Shape& shape, int64_t item_bytes) {
  std::string ordered(data.size(), '\0');
  const int rank = shape.rank();
  std::vector<int64_t> stride(rank), index(rank, 0);
  int64_t step = item_bytes;
  for (int d = 0; d < rank; ++d) {
    stride[d] = step;
    step *= shape.dim(d);
  }
  int64_t from = 0;
  for (size_t to = 0; to < data.size(); to += item_bytes) {
    std::memcpy(&ordered[to], &data[from], item_bytes);
    for (int d = rank - 1; d >= 0; --d) {
      from += stride[d];
      if (++index[d] < shape.dim(d)) break;
      from -= stride[d] * shape.dim(d);
      index[d] = 0;
    }
  }
  return ordered;
}

void AppendUtf8(uint32_t c, std::string* out) {
  if (c < 0x80) {
    out->push_back(static_cast<char>(c));
    return;
  }
  const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  constexpr unsigned char kLead[] = {0, 0xC0, 0xE0, 0xF0};
  out->push_back(static_cast<char>(kLead[more] | (c >> (6 * more))));
  for (int i = more - 1; i >= 0; --i) out->push_back(static_cast<char>(0x80 | ((c >> (6 * i)) & 0x3F)));
}

absl::Status FillStrings(const std::string& data, const Elements& elements, Tensor& tensor) {
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    const std::string_view item = std::string_view(data).substr(i * elements.item_bytes, elements.item_bytes);
    std::string& out = tensor.mutable_strings()[i];
    if (elements.kind == 'S') {
      out.assign(item.substr(0, item.find_last_not_of('\0') + 1));
      continue;
    }
    std::vector<uint32_t> characters(item.size() / 4);
    std::memcpy(characters.data(), item.data(), characters.size() * 4);
    while (!characters.empty() && characters.back() == 0) characters.pop_back();
    for (uint32_t c : characters) {
      if (c > 0x10FFFF) return Bad(absl::StrCat("character ", c, " in a string, expected Unicode"));
      AppendUtf8(c, &out);
    }
  }
  return absl::OkStatus();
}

std::string DescrOf(const Tensor& tensor) {
  switch (HeldIn(tensor.dtype())) {
    case DataType::kBool: return "|b1";
    case DataType::kInt8: return "|i1";
    case DataType::kInt16: return "<i2";
    case DataType::kInt32: return "<i4";
    case DataType::kInt64: return "<i8";
    case DataType::kUint8: return "|u1";
    case DataType::kUint16: return "<u2";
    case DataType::kUint32: return "<u4";
    case DataType::kUint64: return "<u8";
    case DataType::kHalf: return "<f2";
    case DataType::kFloat: return "<f4";
    case DataType::kDouble: return "<f8";
    case DataType::kComplex64: return "<c8";
    case DataType::kComplex128: return "<c16";
    case DataType::kBfloat16: return "|V2";
    case DataType::kFloat8E5M2:
    case DataType::kFloat8E4M3fn: return "|V1";
    case DataType::kString: {
      size_t longest = 1;
      for (const std::string& s : tensor.strings()) longest = std::max(longest, s.size());
      return absl::StrCat("|S", longest);
    }
    default: return "";
  }
}

}  // namespace

absl::StatusOr<Tensor> ReadNpy(int64_t size_bytes, ReadBytes read) {
  MR_ASSIGN_OR_RETURN(const Header header, ReadHeader(read, &size_bytes));
  const Elements& elements = header.elements;
  int64_t expected = 0;
  if (__builtin_mul_overflow(header.shape.num_elements(), elements.item_bytes, &expected) || expected != size_bytes ||
      (elements.item_bytes == 0 && header.shape.num_elements() > INT32_MAX)) {
    return Bad(absl::StrCat("an array ", header.shape.ToString(), " of ", elements.item_bytes, "-byte elements, but ",
                            size_bytes, " bytes of data"));
  }
  Tensor tensor(elements.dtype, header.shape);
  const int64_t unit = elements.kind == 'U' ? 4 : elements.kind == 'c' ? elements.item_bytes / 2 : elements.item_bytes;
  const bool swap = elements.big_endian && unit > 1 && elements.kind != 'S' && elements.kind != 'V';
  if (!header.fortran_order && elements.dtype != DataType::kString) {
    MR_RETURN_IF_ERROR(read(tensor.mutable_data(), expected));
    if (swap) SwapBytes(static_cast<char*>(tensor.mutable_data()), expected, unit);
  } else {
    std::string data(expected, '\0');
    MR_RETURN_IF_ERROR(read(data.data(), data.size()));
    if (swap) SwapBytes(data.data(), expected, unit);
    if (header.fortran_order && expected > 0) data = FromFortranOrder(data, header.shape, elements.item_bytes);
    if (elements.dtype == DataType::kString) {
      MR_RETURN_IF_ERROR(FillStrings(data, elements, tensor));
    } else {
      std::memcpy(tensor.mutable_data(), data.data(), data.size());
    }
  }
  if (elements.dtype == DataType::kBool) {  // a bool of another byte than 0 and 1 is undefined behaviour
    unsigned char* bytes = static_cast<unsigned char*>(tensor.mutable_data());
    for (int64_t i = 0; i < expected; ++i) bytes[i] = bytes[i] != 0;
  }
  return tensor;
}

absl::StatusOr<std::string> NpyHeader(const Tensor& tensor) {
  const std::string descr = DescrOf(tensor);
  if (descr.empty()) {
    return Bad(absl::StrCat("a tensor ", tensor.type().ToString(), ", which NumPy has no element type for"));
  }
  if (tensor.dtype() == DataType::kString) {
    for (size_t i = 0; i < tensor.strings().size(); ++i) {
      if (!absl::EndsWith(tensor.strings()[i], absl::string_view("\0", 1))) continue;
      return Bad(absl::StrCat("string ", i, " of a tensor ", tensor.type().ToString(),
                              " ends in a NUL, which NumPy's strings cannot: it would be read without it"));
    }
  }
  std::string shape;
  for (int64_t dim : tensor.shape().dims()) absl::StrAppend(&shape, dim, ", ");
  if (tensor.shape().rank() > 1) shape.resize(shape.size() - 2);
  if (tensor.shape().rank() == 1) shape.pop_back();
  std::string text = absl::StrCat("{'descr': '", descr, "', 'fortran_order': False, 'shape': (", shape, "), }");
  const size_t prefix = kMagic.size() + 4;
  const size_t total = AlignUp(static_cast<int64_t>(prefix + text.size() + 1));
  text.resize(total - prefix - 1, ' ');
  text.push_back('\n');
  std::string header(kMagic);
  header.append({'\x01', '\x00', static_cast<char>(text.size() & 0xFF), static_cast<char>(text.size() >> 8)});
  return header + text;
}

std::string_view NpyData(const Tensor& tensor, std::string* storage) {
  if (tensor.dtype() != DataType::kString) {
    return {static_cast<const char*>(tensor.data()), static_cast<size_t>(tensor.size_bytes())};
  }
  size_t longest = 1;
  for (const std::string& s : tensor.strings()) longest = std::max(longest, s.size());
  storage->clear();
  for (const std::string& s : tensor.strings()) {
    storage->append(s);
    storage->append(longest - s.size(), '\0');
  }
  return *storage;
}

}  // namespace millrace
