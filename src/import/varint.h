// Numbers as protobuf and leveldb write them.
#ifndef MILLRACE_SRC_IMPORT_VARINT_H_
#define MILLRACE_SRC_IMPORT_VARINT_H_

#include <cstdint>
#include <string_view>

namespace millrace {

// Takes one off the front. False where the bytes end within it, or it does not end within 64 bits.
inline bool TakeVarint(std::string_view& bytes, uint64_t* value) {
  *value = 0;
  for (int shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const unsigned char byte = static_cast<unsigned char>(bytes[0]);
    bytes.remove_prefix(1);
    *value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

}  // namespace millrace

#endif  // MILLRACE_SRC_IMPORT_VARINT_H_
