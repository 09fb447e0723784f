// Functions of libraries as the structs that loops over elements take.
#ifndef MILLRACE_CPU_KERNELS_WRAP_FUNCTION_H_
#define MILLRACE_CPU_KERNELS_WRAP_FUNCTION_H_

#define MILLRACE_UNARY(Name, function) \
  struct Name {                        \
    template <typename T>              \
    static T Apply(T x) {              \
      return function(x);              \
    }                                  \
  }

#define MILLRACE_BINARY(Name, function) \
  struct Name {                         \
    template <typename T>               \
    static T Apply(T a, T b) {          \
      return function(a, b);            \
    }                                   \
  }

#endif  // MILLRACE_CPU_KERNELS_WRAP_FUNCTION_H_
