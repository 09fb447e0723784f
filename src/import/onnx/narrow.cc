#include "onnx/narrow.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"

namespace millrace::onnx {
namespace {

// Numbers of TensorProto.DataType.
enum NarrowType { kFloat8E4M3 = 17, kFloat8E4M3Uz = 18, kFloat8E5M2 = 19, kFloat8E5M2Uz = 20, kUint4 = 21, kInt4 = 22 };

constexpr const char* kNames[] = {
    "UNDEFINED",  "FLOAT",          "UINT8",      "INT8",           "UINT16", "INT16", "INT32",      "INT64",      "STRING", "BOOL",
    "FLOAT16",    "DOUBLE",         "UINT32",     "UINT64",         "COMPLEX64", "COMPLEX128", "BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ",
    "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "UINT4",      "INT4",           "FLOAT4E2M1", "FLOAT8E8M0", "UINT2", "INT2"};

bool IsHalfAByte(int32_t type) { return type == kUint4 || type == kInt4; }

// Sign, exponent, mantissa. FNUZ has one zero and one NaN, and a bias larger by one; of the others only E5M2 has infinities.
float FromFloat8(int32_t type, uint8_t bits) {
  const bool one_zero = type == kFloat8E4M3Uz || type == kFloat8E5M2Uz;
  const int mantissa_bits = type == kFloat8E4M3 || type == kFloat8E4M3Uz ? 3 : 2, exponent_bits = 7 - mantissa_bits;
  const int bias = (1 << (exponent_bits - 1)) - (one_zero ? 0 : 1), most = (1 << exponent_bits) - 1;
  const int mantissa = bits & ((1 << mantissa_bits) - 1), exponent = (bits >> mantissa_bits) & most;
  const float sign = (bits & 0x80) != 0 ? -1.0f : 1.0f;
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  if (one_zero && bits == 0x80) return kNan;
  if (type == kFloat8E4M3 && (bits & 0x7F) == 0x7F) return kNan;
  if (type == kFloat8E5M2 && exponent == most) return mantissa == 0 ? sign * std::numeric_limits<float>::infinity() : kNan;
  const int whole = exponent == 0 ? mantissa : mantissa + (1 << mantissa_bits);
  return sign * std::ldexp(static_cast<float>(whole), std::max(exponent, 1) - bias - mantissa_bits);
}

}  // namespace

std::string ElementTypeName(int64_t type) {
  return type >= 0 && type < static_cast<int64_t>(std::size(kNames)) ? kNames[type] : absl::StrCat(type);
}

DataType WideType(int32_t type) {
  switch (type) {
    case kFloat8E4M3:
    case kFloat8E4M3Uz:
    case kFloat8E5M2:
    case kFloat8E5M2Uz: return DataType::kFloat;
    case kUint4: return DataType::kUint8;
    case kInt4: return DataType::kInt8;
    default: return DataType::kInvalid;
  }
}

int64_t PackedBytes(int32_t type, int64_t elements) { return IsHalfAByte(type) ? elements / 2 + elements % 2 : elements; }

Tensor Widen(int32_t type, const Tensor& bytes, const Shape& shape) {
  CHECK_EQ(bytes.size_bytes(), PackedBytes(type, shape.num_elements()));
  Tensor wide(WideType(type), shape);
  const uint8_t* in = static_cast<const uint8_t*>(bytes.data());
  for (int64_t i = 0; i < shape.num_elements(); ++i) {
    if (!IsHalfAByte(type)) {
      static_cast<float*>(wide.mutable_data())[i] = FromFloat8(type, in[i]);
      continue;
    }
    const uint8_t half = i % 2 == 0 ? in[i / 2] & 0xF : in[i / 2] >> 4;
    static_cast<uint8_t*>(wide.mutable_data())[i] = type == kInt4 && half >= 8 ? half | 0xF0 : half;
  }
  return wide;
}

}  // namespace millrace::onnx
