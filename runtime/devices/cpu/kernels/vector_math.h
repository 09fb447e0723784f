// Loops over SIMD packets, for functions that the compiler cannot vectorise by itself.
//
// Every element goes through the packet function, those of a last short packet too: a value does not depend on where
// in the tensor or in the shard it stands.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_VECTOR_MATH_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_VECTOR_MATH_H_

#include <Eigen/Core>
#include <algorithm>
#include <cstdint>

#include "cpu/kernels/unary.h"

namespace millrace::cpu {

template <typename T>
using PacketOf = typename Eigen::internal::packet_traits<T>::type;

// The first n elements of a packet's worth, the rest as padding that no function trips over.
template <typename T>
PacketOf<T> LoadPart(const T* x, int64_t n) {
  constexpr int64_t kLanes = Eigen::internal::unpacket_traits<PacketOf<T>>::size;
  alignas(64) T part[kLanes];
  std::fill(std::copy_n(x, n, part), part + kLanes, T{1});
  return Eigen::internal::pload<PacketOf<T>>(part);
}
template <typename T>
void StorePart(const PacketOf<T>& packet, T* y, int64_t n) {
  alignas(64) T part[Eigen::internal::unpacket_traits<PacketOf<T>>::size];
  Eigen::internal::pstore(part, packet);
  std::copy_n(part, n, y);
}

// y[i] = Op::Apply(x[i]), Op over packets.
template <typename Op, typename T>
void PacketLoop(const void* vx, void* vy, int64_t n) {
  constexpr int64_t kLanes = Eigen::internal::unpacket_traits<PacketOf<T>>::size;
  const T* x = static_cast<const T*>(vx);
  T* y = static_cast<T*>(vy);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    Eigen::internal::pstoreu(y + i, Op::Apply(Eigen::internal::ploadu<PacketOf<T>>(x + i)));
  }
  if (i < n) StorePart<T>(Op::Apply(LoadPart(x + i, n - i)), y + i, n - i);
}

// out[i] = Op::Apply(a[i], b[i]), Op over packets.
template <typename Op, typename T>
void PacketPairLoop(BinaryMode mode, const void* va, const void* vb, void* vout, int64_t n) {
  using Packet = PacketOf<T>;
  constexpr int64_t kLanes = Eigen::internal::unpacket_traits<Packet>::size;
  const T* a = static_cast<const T*>(va);
  const T* b = static_cast<const T*>(vb);
  T* out = static_cast<T*>(vout);
  const bool scalar_a = mode == BinaryMode::kScalarVector, scalar_b = mode == BinaryMode::kVectorScalar;
  if (n == 0) return;
  const Packet all_a = Eigen::internal::pset1<Packet>(*a), all_b = Eigen::internal::pset1<Packet>(*b);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Packet x = scalar_a ? all_a : Eigen::internal::ploadu<Packet>(a + i);
    const Packet y = scalar_b ? all_b : Eigen::internal::ploadu<Packet>(b + i);
    Eigen::internal::pstoreu(out + i, Op::Apply(x, y));
  }
  if (i < n) {
    const Packet x = scalar_a ? all_a : LoadPart(a + i, n - i);
    const Packet y = scalar_b ? all_b : LoadPart(b + i, n - i);
    StorePart<T>(Op::Apply(x, y), out + i, n - i);
  }
}

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_VECTOR_MATH_H_
