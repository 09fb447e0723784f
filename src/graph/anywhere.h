// What code needs that is compiled for the host and, by nvcc, for devices.
#ifndef MILLRACE_SRC_GRAPH_ANYWHERE_H_
#define MILLRACE_SRC_GRAPH_ANYWHERE_H_

#include <cstdint>
#include <cstring>

#if defined(__CUDACC__)
#define MR_ANYWHERE __host__ __device__
#else
#define MR_ANYWHERE
#endif

namespace millrace {

MR_ANYWHERE inline uint64_t BitsOf(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
MR_ANYWHERE inline double DoubleOf(uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_ANYWHERE_H_
