// Complex numbers: the kernels that ops of real numbers use for them, and what the families of complex ops share.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_COMPLEX_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_COMPLEX_H_

#include <complex>

#include "cpu/kernels/binary.h"
#include "cpu/kernels/common.h"

namespace millrace::cpu {

inline bool IsComplex(DataType dtype) { return dtype == DataType::kComplex64 || dtype == DataType::kComplex128; }

// Calls visit(TypeTag<std::complex<T>>()); UnsupportedType for types that are not complex.
template <typename Visit>
absl::StatusOr<std::unique_ptr<Kernel>> DispatchComplex(const OpInstance& instance, DataType dtype, Visit&& visit) {
  if (dtype == DataType::kComplex64) return visit(TypeTag<std::complex<float>>());
  if (dtype == DataType::kComplex128) return visit(TypeTag<std::complex<double>>());
  return UnsupportedType(instance, dtype);
}

// Calls visit(TypeTag<T>()) for every type of numbers.
template <typename Visit>
absl::StatusOr<std::unique_ptr<Kernel>> DispatchNumericOrComplex(const OpInstance& instance, DataType dtype, Visit&& visit) {
  return IsComplex(dtype) ? DispatchComplex(instance, dtype, visit) : DispatchNumeric(instance, dtype, visit);
}

// The same, where complex numbers have what is made (sums, but neither maxima nor minima).
template <bool kComplexToo, typename Visit>
absl::StatusOr<std::unique_ptr<Kernel>> DispatchNumbers(const OpInstance& instance, DataType dtype, Visit&& visit) {
  if constexpr (kComplexToo) {
    return DispatchNumericOrComplex(instance, dtype, visit);
  } else {
    return DispatchNumeric(instance, dtype, visit);
  }
}

// What adds, subtracts or moves numbers does so with the parts of a complex one: the type of a part, and how many there are.
inline DataType PartOf(DataType dtype) {
  return dtype == DataType::kComplex64 ? DataType::kFloat : dtype == DataType::kComplex128 ? DataType::kDouble : dtype;
}
inline int64_t PartsOf(DataType dtype) { return IsComplex(dtype) ? 2 : 1; }

// `node` with its complex numbers as pairs of parts, a last dimension of 2; other tensors stay as they are.
OpInstance InParts(OpInstance node);

// The product without the second look at infinities that C++ takes.
template <typename C>
C Times(C a, C b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

// The product in a loop over any type of numbers, of complex ones by Times. Theirs is no inline function: the flags of complex.cc
// keep g++ 12 from contracting it, and those of other files do not.
std::complex<float> Product(std::complex<float> a, std::complex<float> b);
std::complex<double> Product(std::complex<double> a, std::complex<double> b);
template <typename T>
T Product(T a, T b) {
  return static_cast<T>(a * b);
}

// `real`, or for nodes with complex inputs or outputs the complex kernel of this op, where there is one.
KernelFactory WithComplex(std::string_view op, KernelFactory real);

// The loop of Add, Sub, Mul or Div over complex numbers of this type; nullptr for others.
BinaryLoop ComplexLoop(std::string_view op, DataType dtype);

// The complex kernels of sums and products (complex_sums.cc); nullptr for other ops.
KernelFactory ComplexSums(std::string_view op);

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_COMPLEX_H_
