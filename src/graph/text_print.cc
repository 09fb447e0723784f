#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "graph/text.h"

namespace millrace {
namespace {

bool IsPlainNameChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || std::strchr("_./>\\-", c);
}

std::string Quoted(const std::string& text) { return absl::StrCat("\"", absl::CHexEscape(text), "\""); }

std::string NameText(const std::string& name) {
  const bool plain = !name.empty() && std::all_of(name.begin(), name.end(),
                                                  [](char c) { return c != '\0' && IsPlainNameChar(c); });
  return plain ? name : Quoted(name);
}

std::string TypeText(DataType dtype) {
  const std::string name(DataTypeName(dtype));
  return name == "invalid" ? absl::StrCat("type(", static_cast<int32_t>(dtype), ")") : name;
}

// Shortest text that reads back as the same value, and as a float rather than an int.
template <typename T>
std::string FloatText(T value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const std::to_chars_result end = std::to_chars(buffer, buffer + sizeof(buffer), value);
  std::string text(buffer, end.ptr);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string ElementText(const Tensor& tensor, int64_t i) {
  switch (tensor.dtype()) {
    case DataType::kString: return Quoted(tensor.strings()[i]);
    case DataType::kBool: return tensor.IntAt(i) != 0 ? "true" : "false";
    case DataType::kFloat: return FloatText(tensor.as<float>()[i]);
    case DataType::kHalf:
    case DataType::kFloat8E5M2:
    case DataType::kFloat8E4M3fn:
    case DataType::kBfloat16: return FloatText(static_cast<float>(tensor.DoubleAt(i)));
    case DataType::kDouble: return FloatText(tensor.as<double>()[i]);
    case DataType::kUint64: return absl::StrCat(tensor.as<uint64_t>()[i]);
    case DataType::kComplex64: {
      const float* parts = static_cast<const float*>(tensor.data()) + 2 * i;
      return absl::StrCat("(", FloatText(parts[0]), ", ", FloatText(parts[1]), ")");
    }
    case DataType::kComplex128: {
      const double* parts = static_cast<const double*>(tensor.data()) + 2 * i;
      return absl::StrCat("(", FloatText(parts[0]), ", ", FloatText(parts[1]), ")");
    }
    default: return absl::StrCat(tensor.IntAt(i));
  }
}

bool AllElementsEqual(const Tensor& tensor) {
  const int64_t count = tensor.num_elements();
  if (tensor.dtype() == DataType::kString) {
    return std::all_of(tensor.strings().begin(), tensor.strings().end(),
                       [&](const std::string& s) { return s == tensor.strings()[0]; });
  }
  const char* bytes = static_cast<const char*>(tensor.data());
  const int64_t size = DataTypeSize(tensor.dtype());
  return count > 0 && std::memcmp(bytes, bytes + size, (count - 1) * size) == 0;
}

std::string TensorText(const Tensor& tensor, const GraphTextOptions& options) {
  const std::string type = absl::StrCat(TypeText(tensor.dtype()), tensor.shape().ToString());
  if (tensor.dtype() != DataType::kString && DataTypeSize(tensor.dtype()) == 0) return absl::StrCat(type, "{}");
  const int64_t count = tensor.num_elements();
  if (count > 2 && AllElementsEqual(tensor)) return absl::StrCat(type, "{", ElementText(tensor, 0), " ...}");
  if (count > options.max_tensor_elements) {
    const std::string text = AttrToString(tensor);
    return absl::StrCat(type, text.substr(text.rfind('#')));
  }
  std::string text = absl::StrCat(type, "{");
  for (int64_t i = 0; i < count; ++i) absl::StrAppend(&text, i > 0 ? ", " : "", ElementText(tensor, i));
  return text + "}";
}

std::string AttrMapText(const AttrMap& attrs, const GraphTextOptions& options) {
  std::string text = "{";
  for (const auto& [name, value] : attrs) {
    absl::StrAppend(&text, text.size() > 1 ? ", " : "", NameText(name), "=", AttrValueToText(value, options));
  }
  return text + "}";
}

struct ValuePrinter {
  const GraphTextOptions& options;
  std::string operator()(std::monostate) const { return "none"; }
  std::string operator()(int64_t value) const { return absl::StrCat(value); }
  std::string operator()(float value) const { return FloatText(value); }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(const std::string& value) const { return Quoted(value); }
  std::string operator()(DataType value) const { return TypeText(value); }
  std::string operator()(const Shape& value) const { return absl::StrCat("shape", value.ToString()); }
  std::string operator()(const Tensor& value) const { return TensorText(value, options); }
  std::string operator()(const FunctionRef& value) const {
    const bool has_attrs = value.attrs != nullptr && !value.attrs->empty();
    return absl::StrCat("&", NameText(value.name), has_attrs ? AttrMapText(*value.attrs, options) : "");
  }
  std::string operator()(const AttrParameter& value) const { return absl::StrCat("$", NameText(value.name)); }
  template <typename T>
  std::string operator()(const std::vector<T>& values) const {
    std::string text = "[";
    for (size_t i = 0; i < values.size(); ++i) {
      absl::StrAppend(&text, i > 0 ? ", " : "", (*this)(static_cast<const T&>(values[i])));
    }
    return text + "]";
  }
};

void AppendNode(const Graph& graph, const Node& node, const GraphTextOptions& options, std::string* out) {
  absl::StrAppend(out, NameText(node.name), " = ", NameText(node.op), "(");
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const OutputRef input = node.inputs[i];
    absl::StrAppend(out, i > 0 ? ", " : "", NameText(graph.node(input.node).name));
    if (input.index != 0) absl::StrAppend(out, ":", input.index);
  }
  out->append(")");
  for (NodeId control : node.control_inputs) absl::StrAppend(out, " ^", NameText(graph.node(control).name));
  if (options.attrs && !node.attrs.empty()) absl::StrAppend(out, " ", AttrMapText(node.attrs, options));
  if (options.types && !node.outputs.empty()) {
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      absl::StrAppend(out, i > 0 ? ", " : " : ", TypeText(node.outputs[i].dtype), node.outputs[i].shape.ToString());
    }
  }
  if (node.partition != kNoPartition) absl::StrAppend(out, " @p", node.partition);
  if (node.device == kHostDevice) {
    out->append(" @host");
  } else if (node.device != 0) {
    absl::StrAppend(out, " @d", node.device);
  }
  if (!node.requested_device.empty()) absl::StrAppend(out, " on ", Quoted(node.requested_device.str()));
  if (!node.in_place.empty()) {
    out->append(" inplace(");
    for (size_t i = 0; i < node.in_place.size(); ++i) {
      absl::StrAppend(out, i > 0 ? ", " : "", node.in_place[i].output, "<-", node.in_place[i].input);
    }
    out->append(")");
  }
  if (options.reasons && !node.reason.empty()) absl::StrAppend(out, " # ", absl::CEscape(node.reason.str()));
}

void AppendNodes(const Graph& graph, const GraphTextOptions& options, const char* indent, std::string* out) {
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    if (!graph.alive(NodeId{i})) continue;
    out->append(indent);
    AppendNode(graph, graph.node(NodeId{i}), options, out);
    out->append("\n");
  }
}

}  // namespace

std::string AttrValueToText(const AttrValue& value, const GraphTextOptions& options) {
  return std::visit(ValuePrinter{options}, value);
}

std::string NodeToText(const Graph& graph, NodeId id, const GraphTextOptions& options) {
  std::string text;
  AppendNode(graph, graph.node(id), options, &text);
  return text;
}

std::string GraphToText(const Graph& graph, const GraphTextOptions& options) {
  std::string text;
  if (graph.library() != nullptr) {
    std::vector<const Function*> functions;
    for (const auto& [name, function] : *graph.library()) functions.push_back(&function);
    std::sort(functions.begin(), functions.end(),
              [](const Function* a, const Function* b) { return a->name < b->name; });
    for (const Function* function : functions) {
      absl::StrAppend(&text, "function ", NameText(function->name));
      if (!function->attrs.empty()) absl::StrAppend(&text, " ", AttrMapText(function->attrs, options));
      for (const std::string& node : function->control_rets) absl::StrAppend(&text, " ^", NameText(node));
      text.append("\n");
      AppendNodes(*function->body, options, "  ", &text);
      text.append("end\n");
    }
  }
  AppendNodes(graph, options, "", &text);
  return text;
}

}  // namespace millrace
