// The fits of the arctangent, of Moshier's Cephes library, for packets of floats and of doubles.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_ARCTANGENT_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_ARCTANGENT_H_

#include <Eigen/Core>

namespace millrace::cpu {

// atan(x) - x over x, of x^2, for 0 <= x <= tan(pi / 8).
template <typename P>
P AtanTail(const P& z, float) {
  namespace ei = Eigen::internal;
  P sum = ei::pset1<P>(8.05374449538e-2f);
  for (const float c : {-1.38776856032e-1f, 1.99777106478e-1f, -3.33329491539e-1f}) sum = ei::padd(ei::pmul(sum, z), ei::pset1<P>(c));
  return ei::pmul(sum, z);
}
template <typename P>
P AtanTail(const P& z, double) {
  namespace ei = Eigen::internal;
  P above = ei::pset1<P>(-8.750608600031904122785e-1), below = ei::padd(z, ei::pset1<P>(2.485846490142306297962e1));
  for (const double c : {-1.615753718733365076637e1, -7.500855792314704667340e1, -1.228866684490136173410e2, -6.485021904942025371773e1}) {
    above = ei::padd(ei::pmul(above, z), ei::pset1<P>(c));
  }
  for (const double c : {1.650270098316988542046e2, 4.328810604912902668951e2, 4.853903996359136964868e2, 1.945506571482613964425e2}) {
    below = ei::padd(ei::pmul(below, z), ei::pset1<P>(c));
  }
  return ei::pdiv(ei::pmul(above, z), below);
}

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_ARCTANGENT_H_
