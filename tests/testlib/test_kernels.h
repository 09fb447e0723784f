// Small kernels on floats that are enough to tell whether the runtime hands out the right bytes at the right time.
#ifndef MILLRACE_TESTS_TESTLIB_TEST_KERNELS_H_
#define MILLRACE_TESTS_TESTLIB_TEST_KERNELS_H_

#include <memory>

#include "millrace/kernel.h"

namespace millrace::testing {

// Mix: every output o: out[k] = o + 1 + sum over inputs i of (i + 1) * in[k] / 2, on as many elements as each has.
// AddTo: input 0, a variable, += input 1. Assign: input 0, a variable, = input 1.
// Count: output 0 = number of runs of this node so far (int64 state).
// IsSet: output 0 = 1 when the variable of input 0 holds a value, else 0. FailIfNegative: Mix, but an error when
// input 0 starts with a negative element. ThrowIfNegative: an exception then. Nothing: no inputs or outputs are touched.
// HalfOf: output 0 is the first half of input 0, and its shape is set to say so.
KernelRegistry TestKernels();
std::shared_ptr<const KernelRegistry> SharedTestKernels();

}  // namespace millrace::testing

#endif  // MILLRACE_TESTS_TESTLIB_TEST_KERNELS_H_
