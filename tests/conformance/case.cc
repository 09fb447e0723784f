#include "conformance/case.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "codecs/inflate.h"
#include "files/mapped_file.h"
#include "graph/float16.h"
#include "graph/with_message.h"
#include "import/graph_file.h"
#include "millrace/graph.h"
#include "millrace/status.h"

namespace millrace::conformance {
namespace {

uint64_t SplitMix(uint64_t x) {
  x *= 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

template <typename T>
void Store(Tensor& tensor, int64_t i, T value) {
  tensor.mutable_as<T>()[i] = value;
}

// The same numbers as Gen in case_builder.py.
absl::StatusOr<Tensor> Generate(const Tensor& range, DataType dtype, const Shape& shape, uint64_t seed) {
  const double low = range.DoubleAt(0), high = range.DoubleAt(1);
  const uint64_t integers = std::max<uint64_t>(1, static_cast<uint64_t>(high - low));
  Tensor tensor(dtype, shape);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    const uint64_t random = SplitMix(static_cast<uint64_t>(i) + (seed << 40) + 1);
    const int64_t integer = static_cast<int64_t>(low) + static_cast<int64_t>(random % integers);
    const double real = low + static_cast<double>(random >> 40) * 0x1p-24 * (high - low);
    switch (dtype) {
      case DataType::kFloat: Store<float>(tensor, i, static_cast<float>(real)); break;
      case DataType::kDouble: Store<double>(tensor, i, real); break;
      case DataType::kHalf: Store<uint16_t>(tensor, i, FloatToHalf(static_cast<float>(real))); break;
      case DataType::kBfloat16: Store<uint16_t>(tensor, i, FloatToBfloat16(static_cast<float>(real))); break;
      case DataType::kInt32: Store<int32_t>(tensor, i, static_cast<int32_t>(integer)); break;
      case DataType::kInt64: Store<int64_t>(tensor, i, integer); break;
      case DataType::kInt8: Store<int8_t>(tensor, i, static_cast<int8_t>(integer)); break;
      case DataType::kInt16: Store<int16_t>(tensor, i, static_cast<int16_t>(integer)); break;
      case DataType::kUint8: Store<uint8_t>(tensor, i, static_cast<uint8_t>(integer)); break;
      case DataType::kUint16: Store<uint16_t>(tensor, i, static_cast<uint16_t>(integer)); break;
      case DataType::kUint32: Store<uint32_t>(tensor, i, static_cast<uint32_t>(integer)); break;
      case DataType::kUint64: Store<uint64_t>(tensor, i, static_cast<uint64_t>(integer)); break;
      case DataType::kBool: Store<bool>(tensor, i, integer != 0); break;
      default:
        return absl::UnimplementedError(absl::StrCat("generated inputs of ", std::string(DataTypeName(dtype))));
    }
  }
  return tensor;
}

absl::StatusOr<Tensor> InputTensor(const Node& node) {
  MR_ASSIGN_OR_RETURN(Tensor value, node.attrs.Get<Tensor>("value"));
  if (!node.attrs.Has("_seed")) return value;
  MR_ASSIGN_OR_RETURN(const DataType dtype, node.attrs.Get<DataType>("_dtype"));
  MR_ASSIGN_OR_RETURN(const Shape shape, node.attrs.Get<Shape>("_shape"));
  MR_ASSIGN_OR_RETURN(const int64_t seed, node.attrs.Get<int64_t>("_seed"));
  return Generate(value, dtype, shape, static_cast<uint64_t>(seed));
}

absl::StatusOr<Expected> ExpectedTensor(const Node& node) {
  Expected expected;
  MR_ASSIGN_OR_RETURN(expected.values, node.attrs.Get<Tensor>("value"));
  expected.type = {expected.values.dtype(), node.attrs.GetOr<Shape>("_shape", expected.values.shape())};
  expected.stride = node.attrs.GetOr<int64_t>("_stride", 1);
  return expected;
}

absl::StatusOr<Case> MakeCase(const Graph& graph, const Node& node, std::string family, std::string name) {
  Case result;
  result.family = std::move(family);
  result.name = std::move(name);
  result.op = node.op;
  for (const auto& [key, value] : node.attrs) {
    if (key[0] != '_') result.attrs.Set(key, value);
  }
  result.rtol = node.attrs.GetOr<float>("_rtol", 0);
  result.atol = node.attrs.GetOr<float>("_atol", 0);
  result.runs = node.attrs.GetOr<int64_t>("_runs", 1);
  if (node.attrs.Has("_error")) result.error = node.attrs.GetOr<std::string>("_error", "");
  for (const OutputRef& input : node.inputs) {
    const Node& source = graph.node(input.node);
    MR_ASSIGN_OR_RETURN(Tensor tensor, InputTensor(source));
    result.inputs.push_back(std::move(tensor));
    result.is_variable.push_back(source.attrs.Has("_variable"));
  }
  return result;
}

bool Close(double found, double expected, double rtol, double atol) {
  if (std::isnan(expected) || std::isnan(found)) return std::isnan(expected) && std::isnan(found);
  if (found == expected) return true;
  return std::isfinite(expected) && std::abs(found - expected) <= atol + rtol * std::abs(expected);
}

bool SameElement(const Tensor& a, int64_t i, const Tensor& b, int64_t k, double rtol, double atol) {
  if (a.dtype() == DataType::kString) return a.strings()[i] == b.strings()[k];
  const int64_t size = DataTypeSize(a.dtype());
  if (std::memcmp(static_cast<const char*>(a.data()) + i * size, static_cast<const char*>(b.data()) + k * size, size) ==
      0) {
    return true;
  }
  const bool is_complex64 = a.dtype() == DataType::kComplex64, is_complex128 = a.dtype() == DataType::kComplex128;
  for (int part = 0; part < 2 && is_complex64; ++part) {
    const auto x = static_cast<const float*>(a.data())[2 * i + part], y = static_cast<const float*>(b.data())[2 * k + part];
    if (!Close(x, y, rtol, atol)) return false;
  }
  for (int part = 0; part < 2 && is_complex128; ++part) {
    const auto x = static_cast<const double*>(a.data())[2 * i + part];
    if (!Close(x, static_cast<const double*>(b.data())[2 * k + part], rtol, atol)) return false;
  }
  if (is_complex64 || is_complex128) return true;
  return IsFloating(a.dtype()) && Close(a.DoubleAt(i), b.DoubleAt(k), rtol, atol);
}

std::string ElementString(const Tensor& tensor, int64_t i) {
  if (tensor.dtype() == DataType::kString) return absl::StrCat("'", tensor.strings()[i], "'");
  if (IsInteger(tensor.dtype())) return absl::StrCat(tensor.IntAt(i));
  char text[40];
  std::snprintf(text, sizeof(text), "%.17g", tensor.DoubleAt(i));
  return text;
}

absl::StatusOr<Graph> LoadFile(const std::string& path) {
  MR_ASSIGN_OR_RETURN(const std::shared_ptr<const MappedFile> file, MappedFile::Open(path));
  MR_ASSIGN_OR_RETURN(const std::string bytes, Inflated(file->bytes(), /*gzip=*/true));
  return GraphFromBytes(bytes);
}

}  // namespace

std::vector<std::string> CaseFiles(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string path = entry.path();
    if (absl::EndsWith(path, ".pb.gz")) paths.push_back(path);
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::string FamilyOf(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename();
  return name.substr(0, name.find('.'));
}

absl::StatusOr<std::vector<Case>> LoadCases(const std::string& path) {
  const absl::StatusOr<Graph> loaded = LoadFile(path);
  if (!loaded.ok()) return WithPrefix(loaded.status(), path);
  const Graph& graph = *loaded;
  const std::string family = FamilyOf(path);
  std::vector<Case> cases;
  for (int32_t id = 0; id < graph.num_ids(); ++id) {
    const Node& node = graph.node(NodeId{id});
    const size_t slash = node.name.rfind('/');
    if (slash == std::string::npos) return absl::InvalidArgumentError(absl::StrCat(path, ": node ", node.name));
    const std::string name = node.name.substr(0, slash);
    absl::string_view role = absl::string_view(node.name).substr(slash + 1);
    int index = 0;
    if (role == "op") {
      MR_ASSIGN_OR_RETURN(Case one, MakeCase(graph, node, family, name));
      cases.push_back(std::move(one));
    } else if (absl::ConsumePrefix(&role, "out") && absl::SimpleAtoi(role, &index)) {
      MR_ASSIGN_OR_RETURN(cases.back().outputs[index], ExpectedTensor(node));
    } else if (absl::ConsumePrefix(&role, "var") && absl::SimpleAtoi(role, &index)) {
      MR_ASSIGN_OR_RETURN(cases.back().variables[index], ExpectedTensor(node));
    }
  }
  return cases;
}

absl::StatusOr<std::vector<Case>> LoadAllCases(const std::string& folder) {
  std::vector<Case> all;
  for (const std::string& path : CaseFiles(folder)) {
    MR_ASSIGN_OR_RETURN(std::vector<Case> cases, LoadCases(path));
    std::move(cases.begin(), cases.end(), std::back_inserter(all));
  }
  return all;
}

absl::Status CompareTensors(const Tensor& found, const Expected& expected, double rtol, double atol) {
  if (!(found.type() == expected.type)) {
    return absl::InternalError(
        absl::StrCat("is ", found.type().ToString(), ", expected ", expected.type.ToString()));
  }
  int64_t wrong = 0, first = -1;
  for (int64_t k = 0; k < expected.values.num_elements(); ++k) {
    if (SameElement(found, k * expected.stride, expected.values, k, rtol, atol)) continue;
    if (wrong++ == 0) first = k;
  }
  if (wrong == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(
      found.type().ToString(), ": ", wrong, " of ", expected.values.num_elements(), " elements differ, the first at ",
      first * expected.stride, ": got ", ElementString(found, first * expected.stride), ", expected ",
      ElementString(expected.values, first)));
}

}  // namespace millrace::conformance
