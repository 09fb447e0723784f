// Reductions of every kind of shape, whichever kernel takes them: rows, columns, several dimensions between, in one piece and in
// chunks, with rows of one term and none.
#ifndef MILLRACE_TESTS_CUDA_REDUCTIONS_H_
#define MILLRACE_TESTS_CUDA_REDUCTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cuda/launch/reduce.h"

namespace millrace::cuda {

struct Reduction {
  std::vector<int64_t> dims;
  std::vector<bool> reduced;

  std::string ToString() const {
    std::string text;
    for (size_t d = 0; d < dims.size(); ++d) text += " " + std::to_string(dims[d]) + (reduced[d] ? "*" : "");
    return text;
  }
};

inline ReduceShape ShapeOf(const Reduction& reduction) {
  ReduceShape shape;
  int64_t stride = 1;
  std::vector<int64_t> strides(reduction.dims.size());
  for (size_t d = reduction.dims.size(); d-- > 0; stride *= reduction.dims[d]) strides[d] = stride;
  for (size_t d = 0; d < reduction.dims.size(); ++d) {
    const int64_t dim = reduction.dims[d];
    int64_t& count = reduction.reduced[d] ? shape.terms : shape.rows;
    int& rank = reduction.reduced[d] ? shape.term_rank : shape.row_rank;
    count *= dim;
    (reduction.reduced[d] ? shape.term_dims : shape.row_dims)[rank] = dim;
    (reduction.reduced[d] ? shape.term_strides : shape.row_strides)[rank++] = strides[d];
  }
  shape.columns = !reduction.dims.empty() && !reduction.reduced.back();
  return shape;
}

inline std::vector<Reduction> Reductions() {
  return {
      {{}, {}},
      {{700}, {true}},
      {{100003}, {true}},                             // chunks that a warp adds up
      {{1300001}, {true}},                            // chunks that a block adds up
      {{3, 20011}, {false, true}},                    // rows, in chunks
      {{1100, 70}, {false, true}},                    // a warp for a row
      {{300, 1}, {false, true}},                      // rows of one term
      {{4099, 37}, {true, false}},                    // columns, in chunks
      {{11, 150, 40}, {false, true, false}},          // columns of several matrices
      {{7, 5, 600}, {true, false, true}},             // planes
      {{3, 2, 30001}, {true, false, true}},           // planes, in chunks
      {{9, 4, 5, 33}, {true, false, true, false}},    // columns of several dimensions
      {{5, 3, 7, 2, 11}, {true, false, true, false, true}},
      {{6, 0}, {false, true}},
  };
}

}  // namespace millrace::cuda

#endif  // MILLRACE_TESTS_CUDA_REDUCTIONS_H_
