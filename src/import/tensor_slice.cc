#include "import/tensor_slice.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "import/tensor_proto.h"

namespace millrace {
namespace {

// Ordered code: bytes whose order is that of what they stand for.

// A number of bytes, then the bytes, the highest first.
void AppendUnsigned(uint64_t value, std::string& to) {
  std::string bytes;
  for (; value > 0; value >>= 8) bytes.insert(bytes.begin(), static_cast<char>(value & 0xff));
  to.push_back(static_cast<char>(bytes.size()));
  to += bytes;
}

// 0x00 and 0xff are followed by the other one, the end is 0x00 0x01.
void AppendText(const std::string& text, std::string& to) {
  for (const char c : text) {
    to.push_back(c);
    if (c == '\x00') to.push_back('\xff');
    if (c == '\xff') to.push_back('\x00');
  }
  to += std::string("\x00\x01", 2);
}

// Two's complement in as few bytes as leave room for a head: as many ones as there are bytes and a zero, which the bits of the
// number are exclusive-ored with (so a zero and ones in front of a negative one).
void AppendSigned(int64_t value, std::string& to) {
  const uint64_t magnitude = static_cast<uint64_t>(value < 0 ? ~value : value);
  int bits = 0;
  while (bits < 64 && (magnitude >> bits) != 0) ++bits;
  const int length = bits / 7 + 1;
  std::string bytes(length, value < 0 ? '\xff' : '\x00');
  for (int i = 0; i < std::min(length, 8); ++i) bytes[length - 1 - i] = static_cast<char>(static_cast<uint64_t>(value) >> (8 * i));
  for (int bit = 0; bit < length; ++bit) bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (0x80 >> (bit % 8)));
  to += bytes;
}

// The box that both slices hold; of no elements where they hold none.
TensorSlice Common(const TensorSlice& a, const TensorSlice& b) {
  TensorSlice common = a;
  for (int d = 0; d < a.shape.rank(); ++d) {
    const int64_t begin = std::max(a.begin[d], b.begin[d]);
    const int64_t end = std::min(a.begin[d] + a.shape.dim(d), b.begin[d] + b.shape.dim(d));
    common.begin[d] = begin;
    common.shape.set_dim(d, std::max<int64_t>(0, end - begin));
  }
  return common;
}

// Where element `at` of the tensor is within the slice's own elements.
int64_t IndexIn(const TensorSlice& slice, const Shape::Dims& at) {
  int64_t index = 0;
  for (int d = 0; d < slice.shape.rank(); ++d) index = index * slice.shape.dim(d) + at[d] - slice.begin[d];
  return index;
}

}  // namespace

TensorSlice WholeSlice(const Shape& whole) { return {whole, Shape::Dims(whole.rank(), 0), whole}; }

bool IsWhole(const TensorSlice& slice) { return slice.shape == slice.whole; }

absl::Status CheckSlice(const TensorSlice& slice) {
  const int rank = slice.whole.rank();
  bool within = slice.whole.fully_known() && slice.shape.fully_known() && slice.shape.rank() == rank && static_cast<int>(slice.begin.size()) == rank;
  for (int d = 0; within && d < rank; ++d) {
    const int64_t begin = slice.begin[d];
    within = begin >= 0 && begin <= slice.whole.dim(d) && slice.shape.dim(d) <= slice.whole.dim(d) - begin;
  }
  if (within) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a slice of ", slice.shape.ToString(), " from [", absl::StrJoin(slice.begin, ","),
                                                 "] on does not lie within ", slice.whole.ToString()));
}

absl::StatusOr<TensorSlice> SliceFromProto(const Shape& whole, const proto::TensorSliceProto& proto) {
  const auto outside = [&] {
    return absl::InvalidArgumentError(absl::StrCat("corrupt: one of its slices does not lie within ", whole.ToString()));
  };
  if (proto.extent_size() != whole.rank()) return outside();
  TensorSlice slice = WholeSlice(whole);
  for (int d = 0; d < whole.rank(); ++d) {
    const proto::TensorSliceProto::Extent& extent = proto.extent(d);
    if (extent.has_length_case() != proto::TensorSliceProto::Extent::kLength) continue;
    if (extent.start() < 0 || extent.length() < 0 || extent.start() > whole.dim(d) || extent.length() > whole.dim(d) - extent.start()) {
      return outside();
    }
    slice.begin[d] = extent.start();
    slice.shape.set_dim(d, extent.length());
  }
  return slice;
}

void SliceToProto(const TensorSlice& slice, proto::TensorSliceProto* proto) {
  for (int d = 0; d < slice.shape.rank(); ++d) {
    proto::TensorSliceProto::Extent* extent = proto->add_extent();
    extent->set_start(slice.begin[d]);
    extent->set_length(slice.shape.dim(d));
  }
}

std::string SliceKey(const std::string& name, const proto::TensorSliceProto& slice) {
  std::string key;
  AppendUnsigned(0, key);
  AppendText(name, key);
  AppendUnsigned(slice.extent_size(), key);
  for (const proto::TensorSliceProto::Extent& extent : slice.extent()) {
    const bool is_part = extent.has_length_case() == proto::TensorSliceProto::Extent::kLength;
    AppendSigned(is_part ? extent.start() : 0, key);
    AppendSigned(is_part ? extent.length() : -1, key);
  }
  return key;
}

int64_t CommonElements(const TensorSlice& a, const TensorSlice& b) { return Common(a, b).shape.num_elements(); }

void CopyCommon(const TensorSlice& from, const Tensor& source, const TensorSlice& to, Tensor& target) {
  const TensorSlice common = Common(from, to);
  const int rank = common.shape.rank();
  if (common.shape.num_elements() == 0) return;
  const int64_t size = DataTypeSize(source.dtype());
  const int64_t row = rank > 0 ? common.shape.dim(rank - 1) : 1;
  const char* const in = static_cast<const char*>(source.data());
  char* const out = static_cast<char*>(target.mutable_data());
  Shape::Dims at = common.begin;
  for (bool more = true; more;) {
    std::memcpy(out + IndexIn(to, at) * size, in + IndexIn(from, at) * size, row * size);
    int d = rank - 2;
    for (; d >= 0 && ++at[d] == common.begin[d] + common.shape.dim(d); --d) at[d] = common.begin[d];
    more = d >= 0;
  }
}

bool AnyOverlap(std::vector<TensorSlice> slices) {
  if (slices.empty() || slices[0].whole.rank() == 0) return slices.size() > 1;
  std::sort(slices.begin(), slices.end(), [](const TensorSlice& a, const TensorSlice& b) { return a.begin[0] < b.begin[0]; });
  for (size_t i = 0; i < slices.size(); ++i) {
    const int64_t end = slices[i].begin[0] + slices[i].shape.dim(0);
    for (size_t k = i + 1; k < slices.size() && slices[k].begin[0] < end; ++k) {
      if (CommonElements(slices[i], slices[k]) > 0) return true;
    }
  }
  return false;
}

}  // namespace millrace
