// Protobuf messages on the wire, for records that ops take from strings: what is known of a message is its bytes alone.
#ifndef MILLRACE_SRC_GRAPH_MESSAGE_FIELDS_H_
#define MILLRACE_SRC_GRAPH_MESSAGE_FIELDS_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace millrace {

inline void AppendVarint(uint64_t value, std::string& to) {
  for (; value >= 0x80; value >>= 7) to.push_back(static_cast<char>(value | 0x80));
  to.push_back(static_cast<char>(value));
}
// A message, or a string, as a field of another.
inline void AppendBytes(uint64_t field, std::string_view bytes, std::string& to) {
  AppendVarint(field << 3 | 2, to);
  AppendVarint(bytes.size(), to);
  to.append(bytes);
}

// Fields of a message, one by one.
class MessageFields {
 public:
  explicit MessageFields(std::string_view bytes) : rest_(bytes) {}

  // False at the end, and where the bytes are no message.
  bool Next() {
    uint64_t tag = 0;
    if (rest_.empty() || !Varint(&tag)) return false;
    number_ = tag >> 3;
    wire_ = static_cast<int>(tag & 7);
    if (wire_ == 0) return Varint(&varint_);
    uint64_t size = wire_ == 1 ? 8 : 4;
    if (wire_ == 2 && !Varint(&size)) return false;
    if ((wire_ != 1 && wire_ != 2 && wire_ != 5) || size > rest_.size()) return right_ = false;
    bytes_ = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return true;
  }
  bool Varint(uint64_t* value) {
    *value = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      *value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return true;
    }
    return right_ = false;
  }

  bool right() const { return right_; }
  bool empty() const { return rest_.empty(); }
  uint64_t number() const { return number_; }
  bool is_varint() const { return wire_ == 0; }
  bool is_message(uint64_t number) const { return wire_ == 2 && number_ == number; }
  bool is_bytes() const { return wire_ == 2; }
  bool is_fixed32() const { return wire_ == 5; }
  bool is_fixed64() const { return wire_ == 1; }
  uint64_t varint() const { return varint_; }
  std::string_view bytes() const { return bytes_; }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_, bytes_;
  uint64_t number_ = 0, varint_ = 0;
  int wire_ = 0;
  bool right_ = true;
};

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_MESSAGE_FIELDS_H_
