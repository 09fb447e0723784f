// CRC-32C (Castagnoli), the checksum of TensorFlow's checkpoints.
#ifndef MILLRACE_SRC_FILES_CRC32C_H_
#define MILLRACE_SRC_FILES_CRC32C_H_

#include <cstdint>
#include <string_view>

namespace millrace {

// The checksum of what `crc` is the checksum of (0: nothing) followed by `bytes`.
uint32_t ExtendCrc32c(uint32_t crc, std::string_view bytes);

// As it is stored beside data that may itself hold checksums.
inline uint32_t MaskCrc32c(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }

}  // namespace millrace

#endif  // MILLRACE_SRC_FILES_CRC32C_H_
