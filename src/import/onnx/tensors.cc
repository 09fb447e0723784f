#include "onnx/tensors.h"

#include <cstring>
#include <filesystem>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "files/mapped_file.h"
#include "onnx/lowering.h"
#include "onnx/narrow.h"
#include "millrace/status.h"

namespace millrace::onnx {
namespace {

using onnx_proto::TensorProto;

constexpr int64_t kMaxBytes = int64_t{1} << 40;

absl::StatusOr<TensorType> TypeOf(const TensorProto& proto, DataType dtype) {
  TensorType type{dtype, Shape()};
  if (type.dtype == DataType::kInvalid) {
    return absl::UnimplementedError(absl::StrCat("element type ", ElementTypeName(proto.data_type()), " is not supported"));
  }
  double bytes = static_cast<double>(std::max<int64_t>(DataTypeSize(type.dtype), 1));
  for (int64_t dim : proto.dims()) {
    if (dim < 0) return absl::InvalidArgumentError(absl::StrCat("has a dimension of ", dim));
    bytes *= static_cast<double>(dim);
    type.shape.AddDim(dim);
  }
  if (bytes > static_cast<double>(kMaxBytes)) {
    return absl::InvalidArgumentError(absl::StrCat("is ", type.ToString(), ", which no memory holds"));
  }
  return type;
}

absl::Status WrongSize(const TensorType& type, int64_t found, const char* what) {
  return absl::InvalidArgumentError(absl::StrCat("is ", type.ToString(), ", but has ", found, " ", what));
}

// Elements from a list of the message, which may hold narrower types in wider ones.
template <typename T, typename List>
absl::StatusOr<Tensor> FromList(const TensorType& type, const List& list) {
  if (list.size() != type.shape.num_elements()) return WrongSize(type, list.size(), "elements");
  Tensor tensor(type.dtype, type.shape);
  T* out = static_cast<T*>(tensor.mutable_data());
  for (int i = 0; i < list.size(); ++i) out[i] = static_cast<T>(list.Get(i));
  return tensor;
}

absl::StatusOr<Tensor> FromFields(const TensorProto& proto, const TensorType& type) {
  switch (type.dtype) {
    case DataType::kFloat: return FromList<float>(type, proto.float_data());
    case DataType::kDouble: return FromList<double>(type, proto.double_data());
    case DataType::kInt64: return FromList<int64_t>(type, proto.int64_data());
    case DataType::kInt32: return FromList<int32_t>(type, proto.int32_data());
    case DataType::kInt16: return FromList<int16_t>(type, proto.int32_data());
    case DataType::kInt8: return FromList<int8_t>(type, proto.int32_data());
    case DataType::kUint8:
    case DataType::kBool: return FromList<uint8_t>(type, proto.int32_data());
    case DataType::kUint16:
    case DataType::kHalf:
    case DataType::kBfloat16: return FromList<uint16_t>(type, proto.int32_data());
    case DataType::kUint32: return FromList<uint32_t>(type, proto.uint64_data());
    case DataType::kUint64: return FromList<uint64_t>(type, proto.uint64_data());
    default: return absl::UnimplementedError(absl::StrCat("element type ", std::string(DataTypeName(type.dtype))));
  }
}

absl::StatusOr<Tensor> FromBytes(const TensorType& type, std::string_view bytes) {
  if (static_cast<int64_t>(bytes.size()) != type.size_bytes()) {
    return WrongSize(type, static_cast<int64_t>(bytes.size()), "bytes");
  }
  Tensor tensor(type.dtype, type.shape);
  if (!bytes.empty()) std::memcpy(tensor.mutable_data(), bytes.data(), bytes.size());
  return tensor;
}

// A path that stays inside the model's folder, links included.
absl::StatusOr<std::string> ExternalPath(const std::string& location, const std::string& folder) {
  namespace fs = std::filesystem;
  const fs::path relative(location);
  if (folder.empty()) return absl::InvalidArgumentError("has external data, but the model has no folder");
  bool inside = !location.empty() && !relative.is_absolute();
  for (const fs::path& part : relative) inside = inside && part != "..";
  std::error_code error;
  const fs::path root = fs::canonical(folder, error);
  const fs::path path = fs::weakly_canonical(root / relative, error);
  if (inside && !error) {
    const fs::path within = path.lexically_relative(root);
    inside = !within.empty() && *within.begin() != "..";
  }
  if (!inside || error) {
    return absl::InvalidArgumentError(
        absl::StrCat("has external data in '", location, "', expected a file in the model's folder"));
  }
  return path.string();
}

// Walks graphs for the names of files.
class FileNames {
 public:
  explicit FileNames(const std::string& folder) : folder_(folder) {}

  void AddGraph(const onnx_proto::GraphProto& graph) {
    for (const TensorProto& tensor : graph.initializer()) AddTensor(tensor);
    AddNodes(graph.node());
  }
  void AddNodes(const google::protobuf::RepeatedPtrField<onnx_proto::NodeProto>& nodes) {
    for (const onnx_proto::NodeProto& node : nodes) {
      for (const onnx_proto::AttributeProto& attribute : node.attribute()) {
        AddTensor(attribute.t());
        for (const TensorProto& tensor : attribute.tensors()) AddTensor(tensor);
        AddGraph(attribute.g());
        for (const onnx_proto::GraphProto& graph : attribute.graphs()) AddGraph(graph);
      }
    }
  }
  std::vector<std::string> names() const { return {names_.begin(), names_.end()}; }

 private:
  void AddTensor(const TensorProto& tensor) {
    if (tensor.data_location() != TensorProto::EXTERNAL) return;
    for (const onnx_proto::StringStringEntryProto& entry : tensor.external_data()) {
      if (entry.key() != "location") continue;
      absl::StatusOr<std::string> path = ExternalPath(entry.value(), folder_);
      if (path.ok()) names_.insert(*std::move(path));  // others are not read either
    }
  }

  const std::string& folder_;
  std::set<std::string> names_;
};

absl::StatusOr<Tensor> FromExternal(const TensorProto& proto, const TensorType& type, const std::string& folder) {
  std::string location;
  int64_t offset = 0, length = type.size_bytes();
  for (const onnx_proto::StringStringEntryProto& entry : proto.external_data()) {
    bool ok = true;
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") ok = absl::SimpleAtoi(entry.value(), &offset) && offset >= 0;
    if (entry.key() == "length") ok = absl::SimpleAtoi(entry.value(), &length) && length >= 0;
    if (!ok) {
      return absl::InvalidArgumentError(
          absl::StrCat("has external data with ", entry.key(), " '", entry.value(), "', expected a number"));
    }
  }
  MR_ASSIGN_OR_RETURN(const std::string path, ExternalPath(location, folder));
  MR_ASSIGN_OR_RETURN(const std::shared_ptr<const MappedFile> file, MappedFile::Open(path));
  const int64_t size = static_cast<int64_t>(file->bytes().size());
  if (offset > size || length > size - offset) {
    return absl::InvalidArgumentError(absl::StrCat("has external data of ", length, " bytes at ", offset, " of ", path,
                                                   ", which has ", size));
  }
  return FromBytes(type, file->bytes().substr(offset, length));
}

// Elements of this type, wherever the message has them.
absl::StatusOr<Tensor> Elements(const TensorProto& proto, const TensorType& type, const std::string& folder) {
  if (proto.data_location() == TensorProto::EXTERNAL) return FromExternal(proto, type, folder);
  if (!proto.raw_data().empty()) return FromBytes(type, proto.raw_data());
  return FromFields(proto, type);
}

}  // namespace

absl::StatusOr<Tensor> WidenedFromOnnx(const TensorProto& proto, const std::string& folder) {
  const DataType wide = WideType(proto.data_type());
  if (wide == DataType::kInvalid) return TensorFromOnnx(proto, folder);
  MR_ASSIGN_OR_RETURN(const TensorType type, TypeOf(proto, wide));
  const TensorType packed{DataType::kUint8, {PackedBytes(proto.data_type(), type.shape.num_elements())}};
  MR_ASSIGN_OR_RETURN(const Tensor bytes, Elements(proto, packed, folder));
  return Widen(proto.data_type(), bytes, type.shape);
}

absl::StatusOr<Tensor> TensorFromOnnx(const TensorProto& proto, const std::string& folder) {
  MR_ASSIGN_OR_RETURN(const TensorType type, TypeOf(proto, TypeFromOnnx(proto.data_type())));
  if (type.dtype == DataType::kString) {
    if (proto.string_data_size() != type.shape.num_elements()) {
      return WrongSize(type, proto.string_data_size(), "elements");
    }
    Tensor tensor(type.dtype, type.shape);
    for (int i = 0; i < proto.string_data_size(); ++i) tensor.mutable_strings()[i] = proto.string_data(i);
    return tensor;
  }
  return Elements(proto, type, folder);
}

std::vector<std::string> ExternalFiles(const onnx_proto::ModelProto& model, const std::string& folder) {
  FileNames files(folder);
  files.AddGraph(model.graph());
  for (const onnx_proto::FunctionProto& function : model.functions()) files.AddNodes(function.node());
  return files.names();
}

}  // namespace millrace::onnx
