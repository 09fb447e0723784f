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

// The product without the second look at infinities that C++ takes.
template <typename C>
C Times(C a, C b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

// `real`, or for nodes with complex inputs or outputs the complex kernel of this op, where there is one.
KernelFactory WithComplex(std::string_view op, KernelFactory real);

// The loop of Add, Sub, Mul or Div over complex numbers of this type; nullptr for others.
BinaryLoop ComplexLoop(std::string_view op, DataType dtype);

// The complex kernels of sums and products (complex_sums.cc); nullptr for other ops.
KernelFactory ComplexSums(std::string_view op);

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_COMPLEX_H_
