#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/with_message.h"
#include "import/tensor_proto.h"
#include "millrace/status.h"

namespace millrace {
namespace {

absl::StatusOr<FunctionRef> FunctionFromProto(const proto::NameAttrList& proto) {
  FunctionRef function;
  function.name = proto.name();
  MR_ASSIGN_OR_RETURN(AttrMap attrs, AttrMapFromProto(proto.attr()));
  function.attrs = std::make_shared<const AttrMap>(std::move(attrs));
  return function;
}

void FunctionToProto(const FunctionRef& function, proto::NameAttrList* proto) {
  proto->set_name(function.name);
  if (function.attrs != nullptr) AttrMapToProto(*function.attrs, proto->mutable_attr());
}

template <typename T, typename Messages, typename Convert>
absl::StatusOr<AttrValue> ConvertList(const Messages& messages, Convert convert) {
  std::vector<T> values;
  for (const auto& message : messages) {
    MR_ASSIGN_OR_RETURN(T value, convert(message));
    values.push_back(std::move(value));
  }
  return AttrValue(std::move(values));
}

absl::StatusOr<AttrValue> ListFromProto(const proto::AttrValue::ListValue& list) {
  const int kinds = (list.s_size() > 0) + (list.i_size() > 0) + (list.f_size() > 0) + (list.b_size() > 0) +
                    (list.type_size() > 0) + (list.shape_size() > 0) + (list.tensor_size() > 0) +
                    (list.func_size() > 0);
  if (kinds > 1) return absl::InvalidArgumentError("a list with elements of several kinds, expected one kind");
  if (list.s_size() > 0) return AttrValue(std::vector<std::string>(list.s().begin(), list.s().end()));
  if (list.f_size() > 0) return AttrValue(std::vector<float>(list.f().begin(), list.f().end()));
  if (list.b_size() > 0) return AttrValue(std::vector<bool>(list.b().begin(), list.b().end()));
  if (list.type_size() > 0) {
    std::vector<DataType> types;
    for (const int type : list.type()) types.push_back(static_cast<DataType>(type));
    return AttrValue(std::move(types));
  }
  if (list.shape_size() > 0) return ConvertList<Shape>(list.shape(), ShapeFromProto);
  if (list.tensor_size() > 0) return ConvertList<Tensor>(list.tensor(), TensorFromProto);
  if (list.func_size() > 0) return ConvertList<FunctionRef>(list.func(), FunctionFromProto);
  return AttrValue(std::vector<int64_t>(list.i().begin(), list.i().end()));
}

struct ProtoWriter {
  proto::AttrValue* proto;
  void operator()(std::monostate) const {}
  void operator()(int64_t value) const { proto->set_i(value); }
  void operator()(float value) const { proto->set_f(value); }
  void operator()(bool value) const { proto->set_b(value); }
  void operator()(const std::string& value) const { proto->set_s(value); }
  void operator()(DataType value) const { proto->set_type(static_cast<proto::DataType>(value)); }
  void operator()(const Shape& value) const { ShapeToProto(value, proto->mutable_shape()); }
  void operator()(const Tensor& value) const { TensorToProto(value, proto->mutable_tensor()); }
  void operator()(const FunctionRef& value) const { FunctionToProto(value, proto->mutable_func()); }
  void operator()(const AttrParameter& value) const { proto->set_placeholder(value.name); }
  template <typename T>
  void operator()(const std::vector<T>& values) const {
    proto::AttrValue::ListValue* list = proto->mutable_list();
    for (const auto& value : values) Add(list, value);
  }
  static void Add(proto::AttrValue::ListValue* list, int64_t value) { list->add_i(value); }
  static void Add(proto::AttrValue::ListValue* list, float value) { list->add_f(value); }
  static void Add(proto::AttrValue::ListValue* list, bool value) { list->add_b(value); }
  static void Add(proto::AttrValue::ListValue* list, const std::string& value) { list->add_s(value); }
  static void Add(proto::AttrValue::ListValue* list, DataType value) {
    list->add_type(static_cast<proto::DataType>(value));
  }
  static void Add(proto::AttrValue::ListValue* list, const Shape& value) { ShapeToProto(value, list->add_shape()); }
  static void Add(proto::AttrValue::ListValue* list, const Tensor& value) { TensorToProto(value, list->add_tensor()); }
  static void Add(proto::AttrValue::ListValue* list, const FunctionRef& value) {
    FunctionToProto(value, list->add_func());
  }
};

// TensorFlow's optimizers note shapes down in which dimensions below -1 are unknown ones that they know to be equal.
void ForgetEqualities(proto::TensorShapeProto* shape) {
  for (int d = 0; d < shape->dim_size(); ++d) {
    if (shape->dim(d).size() < -1) shape->mutable_dim(d)->set_size(-1);
  }
}

// The value of an attribute that is a note: its name begins with an underscore.
absl::StatusOr<AttrValue> NoteFromProto(const proto::AttrValue& proto) {
  if (proto.value_case() != proto::AttrValue::kShape && proto.list().shape_size() == 0) return AttrFromProto(proto);
  proto::AttrValue note = proto;
  if (note.value_case() == proto::AttrValue::kShape) ForgetEqualities(note.mutable_shape());
  for (int i = 0; i < note.list().shape_size(); ++i) ForgetEqualities(note.mutable_list()->mutable_shape(i));
  return AttrFromProto(note);
}

}  // namespace

absl::StatusOr<AttrValue> AttrFromProto(const proto::AttrValue& proto) {
  switch (proto.value_case()) {
    case proto::AttrValue::kS: return AttrValue(proto.s());
    case proto::AttrValue::kI: return AttrValue(static_cast<int64_t>(proto.i()));
    case proto::AttrValue::kF: return AttrValue(proto.f());
    case proto::AttrValue::kB: return AttrValue(proto.b());
    case proto::AttrValue::kType: return AttrValue(static_cast<DataType>(proto.type()));
    case proto::AttrValue::kPlaceholder: return AttrValue(AttrParameter{proto.placeholder()});
    case proto::AttrValue::kList: return ListFromProto(proto.list());
    case proto::AttrValue::kShape: {
      MR_ASSIGN_OR_RETURN(Shape shape, ShapeFromProto(proto.shape()));
      return AttrValue(std::move(shape));
    }
    case proto::AttrValue::kTensor: {
      MR_ASSIGN_OR_RETURN(Tensor tensor, TensorFromProto(proto.tensor()));
      return AttrValue(std::move(tensor));
    }
    case proto::AttrValue::kFunc: {
      MR_ASSIGN_OR_RETURN(FunctionRef function, FunctionFromProto(proto.func()));
      return AttrValue(std::move(function));
    }
    case proto::AttrValue::VALUE_NOT_SET: return AttrValue();
  }
  return absl::InvalidArgumentError("an attribute value of an unknown kind");
}

void AttrToProto(const AttrValue& value, proto::AttrValue* proto) { std::visit(ProtoWriter{proto}, value); }

absl::StatusOr<AttrMap> AttrMapFromProto(const google::protobuf::RepeatedPtrField<proto::AttrEntry>& entries) {
  AttrMap attrs;
  attrs.Reserve(entries.size());
  for (const proto::AttrEntry& entry : entries) {
    absl::StatusOr<AttrValue> value = absl::StartsWith(entry.key(), "_") ? NoteFromProto(entry.value()) : AttrFromProto(entry.value());
    if (!value.ok()) return WithPrefix(value.status(), absl::StrCat("attribute '", entry.key(), "'"));
    attrs.Set(entry.key(), *std::move(value));
  }
  return attrs;
}

void AttrMapToProto(const AttrMap& attrs, google::protobuf::RepeatedPtrField<proto::AttrEntry>* entries) {
  for (const auto& [name, value] : attrs) {
    proto::AttrEntry* entry = entries->Add();
    entry->set_key(name);
    AttrToProto(value, entry->mutable_value());
  }
}

}  // namespace millrace
