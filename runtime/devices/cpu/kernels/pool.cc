#include "cpu/kernels/pool.h"

#include "absl/strings/str_cat.h"
#include "cpu/kernels/pool_windows.h"
#include "cpu/kernels/register.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

absl::StatusOr<std::vector<int64_t>> KnownInput(const OpInstance& node, int i) {
  if (i >= static_cast<int>(node.input_values.size()) || node.input_values[i].empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("input ", i, " (ksize or strides) must be known when the graph is planned (node '", node.name, "')"));
  }
  std::vector<int64_t> ints(node.input_values[i].num_elements());
  for (size_t k = 0; k < ints.size(); ++k) ints[k] = node.input_values[i].IntAt(k);
  return ints;
}

}  // namespace

absl::StatusOr<PoolGeometry> PoolGeometryOf(const OpInstance& node, const Shape& input, int window_input) {
  if (window_input < 0) return MakePoolGeometry(node.attrs, input, input.rank());
  PoolWindow window;
  MR_ASSIGN_OR_RETURN(window.ksize, KnownInput(node, window_input));
  MR_ASSIGN_OR_RETURN(window.strides, KnownInput(node, window_input + 1));
  return MakePoolGeometry(node.attrs, input, input.rank(), &window);
}

void RegisterPoolKernels(KernelRegistry& registry) {
  RegisterMaxPoolKernels(registry);
  RegisterMaxPoolGradKernels(registry);
  RegisterAvgPoolKernels(registry);
}

}  // namespace millrace::cpu
