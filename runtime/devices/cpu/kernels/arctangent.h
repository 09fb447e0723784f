// The fits of the arctangent, of Moshier's Cephes library, for packets of floats and of doubles.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_ARCTANGENT_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_ARCTANGENT_H_

#include <Eigen/Core>
#include <limits>

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

// The angle of the smaller part over the larger, less pi / 4 above tan(pi / 8), put into the octant that both are of.
struct Atan2 {
  template <typename P>
  static P Apply(const P& y, const P& x) {
    namespace ei = Eigen::internal;
    using S = typename ei::unpacket_traits<P>::type;
    const auto all = [](double value) { return ei::pset1<P>(static_cast<S>(value)); };
    const P zero = all(0), one = all(1), sign = all(-0.0), infinity = all(std::numeric_limits<double>::infinity());
    const P ax = ei::pabs(x), ay = ei::pabs(y);
    P small = ei::pmin(ax, ay), large = ei::pmax(ax, ay);
    const P both_infinite = ei::pcmp_eq(small, infinity);
    // A quarter of numbers of which the sum might be too large.
    const P scale = ei::pselect(ei::pcmp_lt(all(std::numeric_limits<S>::max() / 4), large), all(0.25), one);
    small = ei::pselect(both_infinite, one, ei::pmul(small, scale));
    large = ei::pselect(both_infinite, one, ei::pmul(large, scale));
    const P steep = ei::pcmp_lt(ei::pmul(large, all(0.41421356237309503)), small);
    const P ratio = ei::pdiv(ei::pselect(steep, ei::psub(small, large), small), ei::pselect(steep, ei::padd(small, large), large));
    const P t = ei::pselect(ei::pcmp_eq(large, zero), zero, ratio);
    P angle = ei::padd(ei::padd(t, ei::pmul(t, AtanTail(ei::pmul(t, t), S()))), ei::pselect(steep, all(0.78539816339744831), zero));
    angle = ei::pselect(ei::pcmp_lt(ax, ay), ei::psub(all(1.5707963267948966), angle), angle);
    const P leftwards = ei::pcmp_lt(ei::por(one, ei::pand(x, sign)), zero);  // minus zero too
    angle = ei::pselect(leftwards, ei::psub(all(3.1415926535897932), angle), angle);
    angle = ei::por(angle, ei::pand(y, sign));
    return ei::pselect(ei::pand(ei::pcmp_eq(x, x), ei::pcmp_eq(y, y)), angle, ei::padd(x, y));
  }
};

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_ARCTANGENT_H_
