#include "import/tensor_proto.h"

#include <google/protobuf/io/coded_stream.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "millrace/options.h"
#include "millrace/quantized_types.h"
#include "millrace/status.h"

namespace millrace {
namespace {

constexpr int kMaxRank = 254;
constexpr int64_t kMaxRepeatedStrings = int64_t{1} << 24;

absl::Status WrongValueCount(const TensorType& type, int64_t values) {
  return absl::InvalidArgumentError(absl::StrCat("a tensor ", type.ToString(), " with ", values,
                                                 " values in the file, expected all of its ",
                                                 type.shape.num_elements(), " elements"));
}

// Strings as TensorFlow packs them (port::EncodeStringList): the lengths of all as varints, then the bytes of all.
absl::StatusOr<Tensor> StringsFromContent(const std::string& content, const Shape& shape) {
  const TensorType type{DataType::kString, shape};
  const auto wrong = [&] {
    return absl::InvalidArgumentError(absl::StrCat("a tensor ", type.ToString(), " with ", content.size(), " bytes in the file, which are not ",
                                                   shape.num_elements(), " lengths and as many strings"));
  };
  if (shape.num_elements() > static_cast<int64_t>(content.size())) return wrong();
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t*>(content.data()), static_cast<int>(content.size()));
  std::vector<uint64_t> lengths(shape.num_elements());
  for (uint64_t& length : lengths) {
    if (!in.ReadVarint64(&length) || length > content.size()) return wrong();
  }
  Tensor tensor(DataType::kString, shape);
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (!in.ReadString(&tensor.mutable_strings()[i], static_cast<int>(lengths[i]))) return wrong();
  }
  if (in.CurrentPosition() != static_cast<int>(content.size())) return wrong();
  return tensor;
}

// `parts` values of `Source` make an element (2 for complex numbers).
template <typename Target, typename Source>
absl::Status FillFrom(const google::protobuf::RepeatedField<Source>& values, int parts, Tensor& tensor) {
  const int64_t given = values.size() / parts;
  const int64_t count = tensor.num_elements();
  if (given > count || values.size() % parts != 0) return WrongValueCount(tensor.type(), given);
  Target* out = static_cast<Target*>(tensor.mutable_data());
  if (given == 0) return absl::OkStatus();
  for (int64_t i = 0; i < given * parts; ++i) out[i] = static_cast<Target>(values.Get(i));
  for (int64_t i = given * parts; i < count * parts; ++i) out[i] = out[i - parts];
  return absl::OkStatus();
}

absl::Status FillStrings(const proto::TensorProto& proto, Tensor& tensor) {
  const int64_t given = proto.string_val_size();
  const int64_t count = tensor.num_elements();
  if (given > count) return WrongValueCount(tensor.type(), given);
  std::vector<std::string>& out = tensor.mutable_strings();
  for (int64_t i = 0; i < count && given > 0; ++i) out[i] = proto.string_val(std::min<int64_t>(i, given - 1));
  return absl::OkStatus();
}

// Elements of one byte, the last one again where there are fewer.
absl::Status FillBytes(const std::string& bytes, Tensor& tensor) {
  const auto given = static_cast<int64_t>(bytes.size()), count = tensor.num_elements();
  if (given > count) return WrongValueCount(tensor.type(), given);
  for (int64_t i = 0; i < count && given > 0; ++i) static_cast<char*>(tensor.mutable_data())[i] = bytes[std::min(i, given - 1)];
  return absl::OkStatus();
}

absl::Status FillFromValues(const proto::TensorProto& proto, Tensor& tensor) {
  switch (HeldIn(tensor.dtype())) {
    case DataType::kFloat: return FillFrom<float>(proto.float_val(), 1, tensor);
    case DataType::kDouble: return FillFrom<double>(proto.double_val(), 1, tensor);
    case DataType::kInt32: return FillFrom<int32_t>(proto.int_val(), 1, tensor);
    case DataType::kInt16: return FillFrom<int16_t>(proto.int_val(), 1, tensor);
    case DataType::kInt8: return FillFrom<int8_t>(proto.int_val(), 1, tensor);
    case DataType::kUint8: return FillFrom<uint8_t>(proto.int_val(), 1, tensor);
    case DataType::kUint16: return FillFrom<uint16_t>(proto.int_val(), 1, tensor);
    case DataType::kInt64: return FillFrom<int64_t>(proto.int64_val(), 1, tensor);
    case DataType::kUint32: return FillFrom<uint32_t>(proto.uint32_val(), 1, tensor);
    case DataType::kUint64: return FillFrom<uint64_t>(proto.uint64_val(), 1, tensor);
    case DataType::kBool: return FillFrom<bool>(proto.bool_val(), 1, tensor);
    case DataType::kHalf:
    case DataType::kBfloat16: return FillFrom<uint16_t>(proto.half_val(), 1, tensor);
    case DataType::kComplex64: return FillFrom<float>(proto.scomplex_val(), 2, tensor);
    case DataType::kComplex128: return FillFrom<double>(proto.dcomplex_val(), 2, tensor);
    case DataType::kString: return FillStrings(proto, tensor);
    case DataType::kFloat8E5M2:
    case DataType::kFloat8E4M3fn: return FillBytes(proto.float8_val(), tensor);
    default: return absl::OkStatus();
  }
}

int64_t NumValues(const proto::TensorProto& proto) {
  return int64_t{proto.float_val_size()} + proto.double_val_size() + proto.int_val_size() + proto.string_val_size() +
         proto.scomplex_val_size() / 2 + proto.int64_val_size() + proto.bool_val_size() +
         proto.dcomplex_val_size() / 2 + proto.half_val_size() + proto.uint32_val_size() + proto.uint64_val_size() +
         static_cast<int64_t>(proto.float8_val().size());
}

// Writes one value that stands for every element; false when it has no short form: as text, a NaN would lose its bits.
bool OneValueToProto(const Tensor& tensor, proto::TensorProto* proto) {
  const bool as_number = tensor.dtype() == DataType::kFloat || tensor.dtype() == DataType::kDouble;
  if (as_number && std::isnan(tensor.DoubleAt(0))) return false;
  switch (HeldIn(tensor.dtype())) {
    case DataType::kFloat: proto->add_float_val(tensor.as<float>()[0]); return true;
    case DataType::kDouble: proto->add_double_val(tensor.as<double>()[0]); return true;
    case DataType::kInt64: proto->add_int64_val(tensor.as<int64_t>()[0]); return true;
    case DataType::kBool: proto->add_bool_val(tensor.as<bool>()[0]); return true;
    case DataType::kHalf:
    case DataType::kBfloat16: proto->add_half_val(tensor.as<uint16_t>()[0]); return true;
    case DataType::kFloat8E5M2:
    case DataType::kFloat8E4M3fn: proto->set_float8_val(tensor.data(), 1); return true;
    case DataType::kInt32:
    case DataType::kInt16:
    case DataType::kInt8:
    case DataType::kUint16:
    case DataType::kUint8: proto->add_int_val(static_cast<int32_t>(tensor.IntAt(0))); return true;
    default: return false;
  }
}

bool AllElementsEqual(const Tensor& tensor) {
  const char* bytes = static_cast<const char*>(tensor.data());
  const int64_t size = DataTypeSize(tensor.dtype());
  return std::memcmp(bytes, bytes + size, tensor.size_bytes() - size) == 0;
}

}  // namespace

absl::StatusOr<Shape> ShapeFromProto(const proto::TensorShapeProto& proto) {
  if (proto.unknown_rank()) return Shape::UnknownRank();
  if (proto.dim_size() > kMaxRank) {
    return absl::InvalidArgumentError(absl::StrCat("a shape of rank ", proto.dim_size(), ", expected at most ",
                                                   kMaxRank));
  }
  Shape shape;
  for (const proto::TensorShapeProto::Dim& dim : proto.dim()) {
    if (dim.size() < -1) {
      return absl::InvalidArgumentError(absl::StrCat("a dimension of ", dim.size(), ", expected -1 (unknown) or more"));
    }
    shape.AddDim(dim.size());
  }
  return shape;
}

void ShapeToProto(const Shape& shape, proto::TensorShapeProto* proto) {
  if (shape.unknown_rank()) {
    proto->set_unknown_rank(true);
    return;
  }
  for (int64_t dim : shape.dims()) proto->add_dim()->set_size(dim);
}

absl::StatusOr<Tensor> TensorFromProto(const proto::TensorProto& proto) {
  const DataType dtype = static_cast<DataType>(proto.dtype());
  if (dtype == DataType::kInvalid || DataTypeName(dtype) == "invalid") {
    return absl::UnimplementedError(
        absl::StrCat("a tensor of element type ", static_cast<int32_t>(dtype),
                     " (TensorFlow's DataType), expected a number, bool or string type"));
  }
  MR_ASSIGN_OR_RETURN(const Shape shape, ShapeFromProto(proto.tensor_shape()));
  const TensorType type{dtype, shape};
  if (!shape.fully_known()) {
    return absl::InvalidArgumentError(absl::StrCat("a tensor ", type.ToString(), ", expected a known shape"));
  }
  if (dtype == DataType::kResource || dtype == DataType::kVariant) return Tensor(dtype, shape);
  // TensorFlow writes a value for them, too, and reads none.
  if (shape.num_elements() == 0) return Tensor(dtype, shape);
  const std::string& content = proto.tensor_content();
  if (!content.empty() && dtype == DataType::kString) return StringsFromContent(content, shape);
  if (!content.empty()) {
    if (static_cast<int64_t>(content.size()) != type.size_bytes()) {
      return absl::InvalidArgumentError(absl::StrCat("a tensor ", type.ToString(), " with ", content.size(),
                                                     " bytes in the file, expected ", type.size_bytes()));
    }
    Tensor tensor(dtype, shape);
    std::memcpy(tensor.mutable_data(), content.data(), content.size());
    if (dtype == DataType::kBool) {  // a bool of another byte than 0 and 1 is undefined behaviour
      for (bool& b : tensor.mutable_as<bool>()) b = reinterpret_cast<const unsigned char&>(b) != 0;
    }
    return tensor;
  }
  const bool too_large = dtype == DataType::kString ? shape.num_elements() > kMaxRepeatedStrings
                                                    : type.size_bytes() > kMaxRepeatedBytes;
  if (too_large && NumValues(proto) < shape.num_elements()) return WrongValueCount(type, NumValues(proto));
  Tensor tensor(dtype, shape);
  MR_RETURN_IF_ERROR(FillFromValues(proto, tensor));
  return tensor;
}

void TensorToProto(const Tensor& tensor, proto::TensorProto* proto) {
  proto->set_dtype(static_cast<proto::DataType>(tensor.dtype()));
  ShapeToProto(tensor.shape(), proto->mutable_tensor_shape());
  if (tensor.dtype() == DataType::kString) {
    for (const std::string& s : tensor.strings()) proto->add_string_val(s);
    return;
  }
  if (tensor.num_elements() > 1 && tensor.size_bytes() > 0 && AllElementsEqual(tensor) &&
      OneValueToProto(tensor, proto)) {
    return;
  }
  proto->set_tensor_content(tensor.data(), tensor.size_bytes());
}

}  // namespace millrace
