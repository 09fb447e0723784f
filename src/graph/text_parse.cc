#include <cstring>
#include <limits>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "graph/float16.h"
#include "graph/float8.h"
#include "graph/function.h"
#include "graph/one_line.h"
#include "graph/text.h"
#include "graph/with_message.h"
#include "millrace/quantized_types.h"
#include "millrace/status.h"

namespace millrace {
namespace {

constexpr int kMaxDepth = 64;  // of nested lists and attributes
constexpr int64_t kMaxElements = int64_t{1} << 28;

bool IsWordChar(char c) { return absl::ascii_isalnum(c) || (c != '\0' && std::strchr("_./>\\-+", c)); }

// Reads one line from left to right. Errors carry the line's number.
class Cursor {
 public:
  Cursor(std::string_view line, int number) : line_(line), number_(number) {}

  absl::Status Error(const std::string& message) const {
    return absl::InvalidArgumentError(absl::StrCat("line ", number_, ": ", message, ", found '",
                                                   std::string(line_.substr(position_, 20)), "'"));
  }
  void SkipSpace() {
    while (position_ < line_.size() && absl::ascii_isspace(line_[position_])) ++position_;
  }
  bool AtEnd() {
    SkipSpace();
    return position_ == line_.size();
  }
  // Takes `token` if it is next.
  bool Take(std::string_view token) {
    SkipSpace();
    if (line_.substr(position_, token.size()) != token) return false;
    position_ += token.size();
    return true;
  }
  char Peek() {
    SkipSpace();
    return position_ < line_.size() ? line_[position_] : '\0';
  }
  absl::Status Expect(std::string_view token) {
    if (Take(token)) return absl::OkStatus();
    return Error(absl::StrCat("expected '", std::string(token), "'"));
  }
  // A run of name characters; empty when there is none.
  std::string Word() {
    SkipSpace();
    const size_t begin = position_;
    while (position_ < line_.size() && IsWordChar(line_[position_])) ++position_;
    return std::string(line_.substr(begin, position_ - begin));
  }
  absl::StatusOr<std::string> QuotedText() {
    MR_RETURN_IF_ERROR(Expect("\""));
    const size_t begin = position_;
    while (position_ < line_.size() && line_[position_] != '"') position_ += line_[position_] == '\\' ? 2 : 1;
    if (position_ >= line_.size()) {
      position_ = line_.size();
      return Error("expected a closing '\"'");
    }
    std::string text;
    if (!absl::CUnescape(std::string(line_.substr(begin, position_ - begin)), &text)) return Error("bad escape");
    ++position_;
    return text;
  }
  absl::StatusOr<std::string> Name() {
    if (Peek() == '"') return QuotedText();
    std::string word = Word();
    if (word.empty()) return Error("expected a name");
    return word;
  }
  absl::StatusOr<int64_t> Int() {
    int64_t value = 0;
    const std::string word = Word();
    if (!absl::SimpleAtoi(word, &value)) return Error(absl::StrCat("expected an integer instead of '", word, "'"));
    return value;
  }
  // An index or count that fits a 32-bit field.
  absl::StatusOr<int32_t> Index() {
    MR_ASSIGN_OR_RETURN(const int64_t value, Int());
    if (value < 0 || value > std::numeric_limits<int32_t>::max()) return Error("expected an index");
    return static_cast<int32_t>(value);
  }
  std::string Rest() { return std::string(absl::StripAsciiWhitespace(std::string(line_.substr(position_)))); }

 private:
  std::string_view line_;
  int number_;
  size_t position_ = 0;
};

absl::StatusOr<AttrValue> ParseValue(Cursor& cursor, int depth);

// After the '{'.
absl::StatusOr<AttrMap> ParseAttrs(Cursor& cursor, int depth) {
  AttrMap attrs;
  if (cursor.Take("}")) return attrs;
  do {
    MR_ASSIGN_OR_RETURN(const std::string name, cursor.Name());
    MR_RETURN_IF_ERROR(cursor.Expect("="));
    MR_ASSIGN_OR_RETURN(AttrValue value, ParseValue(cursor, depth));
    if (attrs.Has(name)) return cursor.Error(absl::StrCat("attribute '", name, "' is given twice"));
    attrs.Set(name, std::move(value));
  } while (cursor.Take(","));
  MR_RETURN_IF_ERROR(cursor.Expect("}"));
  return attrs;
}

// "float", or "type(101)" for a number without a name; `word` has been read.
absl::StatusOr<DataType> ParseDataType(Cursor& cursor, const std::string& word) {
  if (word == "type") {
    MR_RETURN_IF_ERROR(cursor.Expect("("));
    MR_ASSIGN_OR_RETURN(const int32_t number, cursor.Index());
    MR_RETURN_IF_ERROR(cursor.Expect(")"));
    return static_cast<DataType>(number);
  }
  const DataType dtype = DataTypeFromName(word);
  if (dtype == DataType::kInvalid) return cursor.Error(absl::StrCat("expected a type instead of '", word, "'"));
  return dtype;
}

// "[2,?]" or "<unknown>".
absl::StatusOr<Shape> ParseShape(Cursor& cursor) {
  if (cursor.Take("<unknown>")) return Shape::UnknownRank();
  MR_RETURN_IF_ERROR(cursor.Expect("["));
  Shape shape;
  if (cursor.Take("]")) return shape;
  do {
    if (cursor.Take("?")) {
      shape.AddDim(-1);
      continue;
    }
    MR_ASSIGN_OR_RETURN(const int64_t dim, cursor.Int());
    if (dim < 0) return cursor.Error("expected a dimension");
    shape.AddDim(dim);
  } while (cursor.Take(","));
  MR_RETURN_IF_ERROR(cursor.Expect("]"));
  return shape;
}

absl::StatusOr<double> ParseFloat(Cursor& cursor) {
  double value = 0;
  const std::string word = cursor.Word();
  if (!absl::SimpleAtod(word, &value)) return cursor.Error(absl::StrCat("expected a number instead of '", word, "'"));
  return value;
}

template <typename T>
absl::Status ParseInteger(Cursor& cursor, Tensor& tensor, int64_t i) {
  const std::string word = cursor.Word();
  if constexpr (std::is_same_v<T, uint64_t>) {
    if (absl::SimpleAtoi(word, &tensor.mutable_as<uint64_t>()[i])) return absl::OkStatus();
  } else {
    int64_t value = 0;
    if (absl::SimpleAtoi(word, &value) && value >= std::numeric_limits<T>::min() &&
        value <= static_cast<int64_t>(std::numeric_limits<T>::max())) {
      tensor.mutable_as<T>()[i] = static_cast<T>(value);
      return absl::OkStatus();
    }
  }
  return cursor.Error(absl::StrCat("expected a ", std::string(DataTypeName(tensor.dtype())), " instead of '", word,
                                   "'"));
}

template <typename T>
absl::Status ParseComplex(Cursor& cursor, Tensor& tensor, int64_t i) {
  T* parts = static_cast<T*>(tensor.mutable_data()) + 2 * i;
  MR_RETURN_IF_ERROR(cursor.Expect("("));
  MR_ASSIGN_OR_RETURN(const double real, ParseFloat(cursor));
  MR_RETURN_IF_ERROR(cursor.Expect(","));
  MR_ASSIGN_OR_RETURN(const double imaginary, ParseFloat(cursor));
  parts[0] = static_cast<T>(real);
  parts[1] = static_cast<T>(imaginary);
  return cursor.Expect(")");
}

absl::Status ParseElement(Cursor& cursor, Tensor& tensor, int64_t i) {
  switch (HeldIn(tensor.dtype())) {
    case DataType::kString: {
      MR_ASSIGN_OR_RETURN(tensor.mutable_strings()[i], cursor.QuotedText());
      return absl::OkStatus();
    }
    case DataType::kBool: {
      const std::string word = cursor.Word();
      if (word != "true" && word != "false") return cursor.Error("expected true or false");
      tensor.mutable_as<bool>()[i] = word == "true";
      return absl::OkStatus();
    }
    case DataType::kFloat: {
      const std::string word = cursor.Word();
      if (!absl::SimpleAtof(word, &tensor.mutable_as<float>()[i])) return cursor.Error("expected a float");
      return absl::OkStatus();
    }
    case DataType::kDouble: {
      MR_ASSIGN_OR_RETURN(tensor.mutable_as<double>()[i], ParseFloat(cursor));
      return absl::OkStatus();
    }
    case DataType::kHalf:
    case DataType::kBfloat16: {
      MR_ASSIGN_OR_RETURN(const double value, ParseFloat(cursor));
      const bool half = tensor.dtype() == DataType::kHalf;
      tensor.mutable_as<uint16_t>()[i] =
          half ? FloatToHalf(static_cast<float>(value)) : FloatToBfloat16(static_cast<float>(value));
      return absl::OkStatus();
    }
    case DataType::kFloat8E5M2:
    case DataType::kFloat8E4M3fn: {
      MR_ASSIGN_OR_RETURN(const double value, ParseFloat(cursor));
      static_cast<uint8_t*>(tensor.mutable_data())[i] = tensor.dtype() == DataType::kFloat8E5M2 ? ToFloat8<E5M2>(value) : ToFloat8<E4M3fn>(value);
      return absl::OkStatus();
    }
    case DataType::kComplex64: return ParseComplex<float>(cursor, tensor, i);
    case DataType::kComplex128: return ParseComplex<double>(cursor, tensor, i);
    case DataType::kInt8: return ParseInteger<int8_t>(cursor, tensor, i);
    case DataType::kInt16: return ParseInteger<int16_t>(cursor, tensor, i);
    case DataType::kInt32: return ParseInteger<int32_t>(cursor, tensor, i);
    case DataType::kInt64: return ParseInteger<int64_t>(cursor, tensor, i);
    case DataType::kUint8: return ParseInteger<uint8_t>(cursor, tensor, i);
    case DataType::kUint16: return ParseInteger<uint16_t>(cursor, tensor, i);
    case DataType::kUint32: return ParseInteger<uint32_t>(cursor, tensor, i);
    case DataType::kUint64: return ParseInteger<uint64_t>(cursor, tensor, i);
    default: return cursor.Error("this type has no elements to write");
  }
}

void RepeatFirstElement(Tensor& tensor) {
  if (tensor.dtype() == DataType::kString) {
    for (std::string& s : tensor.mutable_strings()) s = tensor.strings()[0];
    return;
  }
  char* bytes = static_cast<char*>(tensor.mutable_data());
  const int64_t size = DataTypeSize(tensor.dtype());
  for (int64_t i = 1; i < tensor.num_elements(); ++i) std::memcpy(bytes + i * size, bytes, size);
}

// After the dtype: "[2]{1, 2}" or "[8]{0.0 ...}".
absl::StatusOr<Tensor> ParseTensor(Cursor& cursor, DataType dtype) {
  MR_ASSIGN_OR_RETURN(const Shape shape, ParseShape(cursor));
  if (!shape.fully_known() || shape.num_elements() > kMaxElements) return cursor.Error("expected a known shape before");
  if (cursor.Peek() == '#') return cursor.Error("expected elements (this tensor was printed as a digest)");
  MR_RETURN_IF_ERROR(cursor.Expect("{"));
  Tensor tensor(dtype, shape);
  if (cursor.Take("}")) {
    if (tensor.num_elements() > 0 && (dtype == DataType::kString || DataTypeSize(dtype) > 0)) {
      return cursor.Error("expected elements before");
    }
    return tensor;
  }
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    if (i > 0) MR_RETURN_IF_ERROR(cursor.Expect(","));
    MR_RETURN_IF_ERROR(ParseElement(cursor, tensor, i));
    if (i == 0 && cursor.Take("...")) {
      RepeatFirstElement(tensor);
      break;
    }
  }
  MR_RETURN_IF_ERROR(cursor.Expect("}"));
  return tensor;
}

// After the '['. Every element has the type of the first.
absl::StatusOr<AttrValue> ParseList(Cursor& cursor, int depth) {
  if (cursor.Take("]")) return AttrValue(std::vector<int64_t>());
  std::vector<AttrValue> elements;
  do {
    MR_ASSIGN_OR_RETURN(AttrValue element, ParseValue(cursor, depth));
    elements.push_back(std::move(element));
    if (elements.back().index() != elements[0].index()) return cursor.Error("expected list elements of one type");
  } while (cursor.Take(","));
  MR_RETURN_IF_ERROR(cursor.Expect("]"));
  return std::visit(
      [&](const auto& first) -> absl::StatusOr<AttrValue> {
        using T = std::decay_t<decltype(first)>;
        if constexpr (std::is_same_v<T, std::monostate> || std::is_same_v<T, AttrParameter> || kIsAttrList<T>) {
          return cursor.Error("expected list elements of another kind");
        } else {
          std::vector<T> list;
          for (const AttrValue& element : elements) list.push_back(std::get<T>(element));
          return AttrValue(std::move(list));
        }
      },
      elements[0]);
}

absl::StatusOr<AttrValue> ParseNumberOrWord(Cursor& cursor) {
  const std::string word = cursor.Word();
  if (word == "true" || word == "false") return AttrValue(word == "true");
  if (word == "none") return AttrValue();
  if (word == "shape") {
    MR_ASSIGN_OR_RETURN(Shape shape, ParseShape(cursor));
    return AttrValue(std::move(shape));
  }
  if (word == "type" || DataTypeFromName(word) != DataType::kInvalid) {
    MR_ASSIGN_OR_RETURN(const DataType dtype, ParseDataType(cursor, word));
    if (cursor.Peek() != '[') return AttrValue(dtype);
    MR_ASSIGN_OR_RETURN(Tensor tensor, ParseTensor(cursor, dtype));
    return AttrValue(std::move(tensor));
  }
  int64_t integer = 0;
  if (absl::SimpleAtoi(word, &integer)) return AttrValue(integer);
  float real = 0;
  if (!word.empty() && absl::SimpleAtof(word, &real)) return AttrValue(real);
  return cursor.Error(absl::StrCat("expected an attribute value instead of '", word, "'"));
}

absl::StatusOr<AttrValue> ParseValue(Cursor& cursor, int depth) {
  if (depth > kMaxDepth) return cursor.Error("expected less nesting");
  if (cursor.Peek() == '"') {
    MR_ASSIGN_OR_RETURN(std::string text, cursor.QuotedText());
    return AttrValue(std::move(text));
  }
  if (cursor.Take("[")) return ParseList(cursor, depth + 1);
  if (cursor.Take("$")) {
    MR_ASSIGN_OR_RETURN(std::string name, cursor.Name());
    return AttrValue(AttrParameter{std::move(name)});
  }
  if (cursor.Take("&")) {
    FunctionRef function;
    MR_ASSIGN_OR_RETURN(function.name, cursor.Name());
    AttrMap attrs;
    if (cursor.Take("{")) {
      MR_ASSIGN_OR_RETURN(attrs, ParseAttrs(cursor, depth + 1));
    }
    function.attrs = std::make_shared<const AttrMap>(std::move(attrs));
    return AttrValue(std::move(function));
  }
  return ParseNumberOrWord(cursor);
}

// Nodes of one graph (or function body); inputs are resolved when all lines are read.
class GraphParser {
 public:
  absl::Status ParseNode(std::string_view line, int number);
  absl::StatusOr<Graph> Finish();

 private:
  struct Edge {
    NodeId consumer;
    size_t slot = 0;
    bool control = false;
    std::string producer;
    int line = 0;
  };
  absl::Status ParseInputs(Cursor& cursor, int number, Node& node);
  static absl::Status ParseTypes(Cursor& cursor, Node& node);
  static absl::Status ParseSuffix(Cursor& cursor, Node& node);

  Graph graph_;
  std::vector<Edge> edges_;
};

absl::Status GraphParser::ParseInputs(Cursor& cursor, int number, Node& node) {
  const NodeId consumer{graph_.num_ids()};
  MR_RETURN_IF_ERROR(cursor.Expect("("));
  if (!cursor.Take(")")) {
    do {
      MR_ASSIGN_OR_RETURN(std::string producer, cursor.Name());
      int32_t index = 0;
      if (cursor.Take(":")) {
        MR_ASSIGN_OR_RETURN(index, cursor.Index());
      }
      edges_.push_back({consumer, node.inputs.size(), false, std::move(producer), number});
      node.inputs.push_back({NodeId(), index});
    } while (cursor.Take(","));
    MR_RETURN_IF_ERROR(cursor.Expect(")"));
  }
  while (cursor.Take("^")) {
    MR_ASSIGN_OR_RETURN(std::string producer, cursor.Name());
    edges_.push_back({consumer, node.control_inputs.size(), true, std::move(producer), number});
    node.control_inputs.push_back(NodeId());
  }
  return absl::OkStatus();
}

absl::Status GraphParser::ParseTypes(Cursor& cursor, Node& node) {
  do {
    MR_ASSIGN_OR_RETURN(const DataType dtype, ParseDataType(cursor, cursor.Word()));
    MR_ASSIGN_OR_RETURN(Shape shape, ParseShape(cursor));
    node.outputs.push_back({dtype, std::move(shape)});
  } while (cursor.Take(","));
  return absl::OkStatus();
}

absl::Status GraphParser::ParseSuffix(Cursor& cursor, Node& node) {
  if (cursor.Take("{")) {
    MR_ASSIGN_OR_RETURN(node.attrs, ParseAttrs(cursor, 0));
  }
  if (cursor.Take(":")) MR_RETURN_IF_ERROR(ParseTypes(cursor, node));
  if (cursor.Take("@p")) {
    MR_ASSIGN_OR_RETURN(node.partition, cursor.Index());
  }
  if (cursor.Take("@host")) {
    node.device = kHostDevice;
  } else if (cursor.Take("@d")) {
    MR_ASSIGN_OR_RETURN(node.device, cursor.Index());
  }
  if (cursor.Take("on ")) {
    MR_ASSIGN_OR_RETURN(node.requested_device, cursor.QuotedText());
  }
  if (cursor.Take("inplace(")) {
    do {
      InPlace pair;
      MR_ASSIGN_OR_RETURN(pair.output, cursor.Index());
      MR_RETURN_IF_ERROR(cursor.Expect("<-"));
      MR_ASSIGN_OR_RETURN(pair.input, cursor.Index());
      node.in_place.push_back(pair);
    } while (cursor.Take(","));
    MR_RETURN_IF_ERROR(cursor.Expect(")"));
  }
  if (cursor.Take("#")) {
    std::string reason;
    if (!absl::CUnescape(cursor.Rest(), &reason)) return cursor.Error("bad escape in reason");
    node.reason = std::move(reason);
    return absl::OkStatus();
  }
  return cursor.AtEnd() ? absl::OkStatus() : cursor.Error("expected the end of the line");
}

absl::Status GraphParser::ParseNode(std::string_view line, int number) {
  Cursor cursor(line, number);
  Node node;
  MR_ASSIGN_OR_RETURN(node.name, cursor.Name());
  MR_RETURN_IF_ERROR(cursor.Expect("="));
  MR_ASSIGN_OR_RETURN(node.op, cursor.Name());
  MR_RETURN_IF_ERROR(ParseInputs(cursor, number, node));
  MR_RETURN_IF_ERROR(ParseSuffix(cursor, node));
  const absl::StatusOr<NodeId> added = graph_.AddNode(std::move(node));
  if (added.ok()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("line ", number, ": ", added.status().message()));
}

absl::StatusOr<Graph> GraphParser::Finish() {
  for (const Edge& edge : edges_) {
    const NodeId producer = graph_.Find(edge.producer);
    Node& consumer = graph_.mutable_node(edge.consumer);
    if (!producer.valid()) {
      return absl::InvalidArgumentError(absl::StrCat("line ", edge.line, ": node '", consumer.name, "' takes ",
                                                     edge.control ? "control input '" : "input '", edge.producer,
                                                     "', but there is no node of that name"));
    }
    if (edge.control) {
      consumer.control_inputs[edge.slot] = producer;
    } else {
      consumer.inputs[edge.slot].node = producer;
    }
  }
  return std::move(graph_);
}

// "function NAME {attributes} ^control_ret"
struct FunctionHead {
  std::string name;
  AttrMap attrs;
  std::vector<std::string> control_rets;
};

absl::StatusOr<FunctionHead> ParseFunctionHead(std::string_view line, int number) {
  Cursor cursor(line, number);
  MR_RETURN_IF_ERROR(cursor.Expect("function "));
  FunctionHead head;
  MR_ASSIGN_OR_RETURN(head.name, cursor.Name());
  if (cursor.Take("{")) {
    MR_ASSIGN_OR_RETURN(head.attrs, ParseAttrs(cursor, 0));
  }
  while (cursor.Take("^")) {
    MR_ASSIGN_OR_RETURN(std::string control, cursor.Name());
    head.control_rets.push_back(std::move(control));
  }
  if (!cursor.AtEnd()) return cursor.Error("expected the end of the line");
  return head;
}

absl::StatusOr<Graph> ParseLines(std::string_view text) {
  auto library = std::make_shared<Graph::Library>();
  GraphParser main;
  std::optional<FunctionHead> head;  // of the function whose lines are being read
  std::optional<GraphParser> body;
  int number = 0;
  while (!text.empty()) {
    ++number;
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    Cursor cursor(line, number);
    if (cursor.AtEnd() || cursor.Peek() == '#') continue;
    if (cursor.Take("function ") && cursor.Peek() != '=') {
      if (head.has_value()) return cursor.Error("expected 'end' of the function before");
      MR_ASSIGN_OR_RETURN(head, ParseFunctionHead(line, number));
      body.emplace();
    } else if (head.has_value() && cursor.Take("end") && cursor.AtEnd()) {
      MR_ASSIGN_OR_RETURN(Graph graph, body->Finish());
      absl::StatusOr<Function> function =
          MakeFunction(head->name, std::move(head->attrs), std::move(graph), std::move(head->control_rets));
      if (!function.ok()) {
        return WithPrefix(function.status(), absl::StrCat("line ", number, ": function '", head->name, "'"));
      }
      if (!library->emplace(head->name, *std::move(function)).second) {
        return cursor.Error(absl::StrCat("two functions are named '", head->name, "'"));
      }
      head.reset();
    } else {
      MR_RETURN_IF_ERROR((head.has_value() ? *body : main).ParseNode(line, number));
    }
  }
  if (head.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat("line ", number, ": expected 'end' of function '", head->name, "'"));
  }
  MR_ASSIGN_OR_RETURN(Graph graph, main.Finish());
  if (!library->empty()) graph.set_library(std::move(library));
  return graph;
}

}  // namespace

absl::StatusOr<Graph> ParseGraphText(std::string_view text) {
  absl::StatusOr<Graph> graph = ParseLines(text);
  if (!graph.ok()) return OneLine(graph.status());
  return graph;
}

}  // namespace millrace
