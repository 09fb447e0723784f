// SipHash-2-4, the keyed hash behind StringToHashBucketStrong.
#ifndef MILLRACE_SRC_GRAPH_SIP_HASH_H_
#define MILLRACE_SRC_GRAPH_SIP_HASH_H_

#include <array>
#include <cstdint>
#include <string_view>

namespace millrace {

// Little-endian machines only, as the whole program.
uint64_t SipHash(const std::array<uint64_t, 2>& key, std::string_view bytes);

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_SIP_HASH_H_
