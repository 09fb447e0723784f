#include "graph/fingerprint.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include "millrace/attr.h"
#include "xxhash.h"

namespace millrace {
namespace {

// A chain: each piece is hashed with what came before as its seed.
class Hasher {
 public:
  uint64_t digest() const { return digest_; }

  void Bytes(const void* data, size_t size) { digest_ = XXH3_64bits_withSeed(data, size, digest_); }
  void Text(std::string_view text) { Bytes(text.data(), text.size()); }
  void Number(int64_t value) { Bytes(&value, sizeof(value)); }

  void Attributes(const AttrMap& attrs) {
    Number(static_cast<int64_t>(attrs.size()));
    for (const auto& [name, value] : attrs) {
      Text(name);
      Number(static_cast<int64_t>(value.index()));
      std::visit([this](const auto& held) { Value(held); }, value);
    }
  }

 private:
  void Value(std::monostate) {}
  void Value(const std::string& value) { Text(value); }
  void Value(const Shape& value) { Text(value.ToString()); }
  void Value(const AttrParameter& value) { Text(value.name); }
  void Value(const FunctionRef& value) {
    Text(value.name);
    if (value.attrs != nullptr) Attributes(*value.attrs);
  }
  void Value(const Tensor& value) {
    Text(value.type().ToString());
    if (value.dtype() == DataType::kString) {
      for (const std::string& text : value.strings()) Text(text);
    } else if (!value.empty()) {
      Bytes(value.data(), static_cast<size_t>(value.size_bytes()));
    }
  }
  template <typename T>
  void Value(const T& value) {
    if constexpr (kIsAttrList<T>) {
      Number(static_cast<int64_t>(value.size()));
      for (const auto& element : value) Value(static_cast<const typename T::value_type&>(element));
    } else {
      static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
      Bytes(&value, sizeof(value));
    }
  }

  uint64_t digest_ = 0;
};

void AddNodes(const Graph& graph, Hasher& hasher) {
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const Node& node = graph.node(NodeId{i});
    if (node.removed) continue;
    hasher.Text(node.name);
    hasher.Text(node.op);
    hasher.Text(node.requested_device);
    hasher.Number(static_cast<int64_t>(node.inputs.size()));
    for (const OutputRef& input : node.inputs) hasher.Number((int64_t{input.node.value} << 32) + input.index);
    for (const NodeId input : node.control_inputs) hasher.Number(input.value);
    hasher.Attributes(node.attrs);
  }
}

}  // namespace

uint64_t Fingerprint(const Graph& graph) {
  Hasher hasher;
  AddNodes(graph, hasher);
  uint64_t functions = 0;  // their sum: a library has no order
  if (graph.library() != nullptr) {
    for (const auto& [name, function] : *graph.library()) {
      Hasher body;
      body.Text(name);
      for (const std::string& result : function.control_rets) body.Text(result);
      body.Attributes(function.attrs);
      if (function.body != nullptr) AddNodes(*function.body, body);
      functions += body.digest();
    }
  }
  hasher.Number(static_cast<int64_t>(functions));
  return hasher.digest() == 0 ? 1 : hasher.digest();
}

}  // namespace millrace
