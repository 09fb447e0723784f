// MurmurHash64A (Austin Appleby), the hash behind StringToHashBucket.
#ifndef MILLRACE_SRC_GRAPH_MURMUR_HASH_H_
#define MILLRACE_SRC_GRAPH_MURMUR_HASH_H_

#include <cstdint>
#include <string_view>

namespace millrace {

// Little-endian machines only, as the whole program.
uint64_t MurmurHash(uint64_t seed, std::string_view bytes);

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_MURMUR_HASH_H_
