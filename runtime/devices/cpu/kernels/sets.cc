// Sets along the last dimension: intersections, differences, unions, and how many elements each has.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "cpu/kernels/common.h"
#include "cpu/kernels/rare.h"
#include "cpu/kernels/real_shapes.h"
#include "cpu/kernels/values.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;
using Group = std::vector<int64_t>;  // the index without its last dimension
using Groups = std::map<Group, std::vector<int64_t>>;

// Of the groups those with elements, each sorted and without repetition.
struct Sets {
  Shape dims;  // of all groups
  Groups groups;
};

void Sort(Groups& groups) {
  for (auto& [group, values] : groups) {
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
  }
}

template <typename T>
Sets ReadDense(const KernelContext& context, int input) {
  const TensorType& type = context.input_type(input);
  Sets sets;
  const int last = type.shape.rank() - 1;
  for (int d = 0; d < last; ++d) sets.dims.AddDim(type.shape.dim(d));
  const int64_t width = type.shape.dim(last);
  for (int64_t i = 0; i < type.shape.num_elements(); ++i) {
    Group group(last);
    int64_t rest = i / width;
    for (int d = last - 1; d >= 0; --d) {
      group[d] = rest % type.shape.dim(d);
      rest /= type.shape.dim(d);
    }
    sets.groups[group].push_back(static_cast<int64_t>(context.input<T>(input)[i]));
  }
  Sort(sets.groups);
  return sets;
}

// (indices, values, dense shape) from input `first` on.
template <typename T>
absl::StatusOr<Sets> ReadSparse(const KernelContext& context, int first, bool validate) {
  const TensorType& values = context.input_type(first + 1);
  const int rank = static_cast<int>(context.input_type(first + 2).shape.num_elements()), last = rank - 1;
  const auto* dims = static_cast<const int64_t*>(ValueReader(context).data(first + 2));
  const int64_t* index = context.input<int64_t>(first);
  Sets sets;
  for (int d = 0; d < last; ++d) sets.dims.AddDim(dims[d]);
  for (int64_t i = 0; i < values.shape.num_elements(); ++i, index += rank) {
    for (int d = 0; d < rank; ++d) {
      if (index[d] >= 0 && index[d] < dims[d]) continue;
      return absl::InvalidArgumentError(absl::StrCat("indices[", i, "] is out of bounds: ", index[d], " is not in [0, ", dims[d], ")"));
    }
    if (validate && i > 0 && !std::lexicographical_compare(index - rank, index, index, index + rank)) {
      return absl::InvalidArgumentError(absl::StrCat("indices[", i, "] is out of order or repeated"));
    }
    sets.groups[Group(index, index + last)].push_back(static_cast<int64_t>(context.input<T>(first + 1)[i]));
  }
  Sort(sets.groups);
  return sets;
}

std::vector<int64_t> Combined(const std::string& operation, const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  std::vector<int64_t> out;
  const auto end = std::back_inserter(out);
  if (operation == "a-b") std::set_difference(a.begin(), a.end(), b.begin(), b.end(), end);
  if (operation == "b-a") std::set_difference(b.begin(), b.end(), a.begin(), a.end(), end);
  if (operation == "intersection") std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), end);
  if (operation == "union") std::set_union(a.begin(), a.end(), b.begin(), b.end(), end);
  return out;
}

template <typename T>
absl::Status Operate(const KernelContext& context, const std::string& operation, bool first_dense, bool second_dense, bool validate) {
  Sets a, b;
  if (first_dense) {
    a = ReadDense<T>(context, 0);
  } else {
    MR_ASSIGN_OR_RETURN(a, ReadSparse<T>(context, 0, validate));
  }
  const int second = first_dense ? 1 : 3;
  if (second_dense) {
    b = ReadDense<T>(context, second);
  } else {
    MR_ASSIGN_OR_RETURN(b, ReadSparse<T>(context, second, validate));
  }
  if (!(a.dims == b.dims)) {
    return absl::InvalidArgumentError(absl::StrCat("sets of groups ", a.dims.ToString(), " and ", b.dims.ToString(), ", expected equal ones"));
  }
  Groups all = a.groups;
  all.insert(b.groups.begin(), b.groups.end());
  const int64_t rank = context.output_type(0).shape.dim(1), room = context.output_type(1).shape.num_elements();
  int64_t found = 0, longest = 0;
  for (const auto& [group, values] : all) {
    const std::vector<int64_t> result = Combined(operation, a.groups[group], b.groups[group]);
    longest = std::max(longest, static_cast<int64_t>(result.size()));
    for (size_t k = 0; k < result.size(); ++k) {
      if (found >= room) return absl::InternalError("a set has more elements than was planned for");
      int64_t* index = context.output<int64_t>(0) + found * rank;
      std::copy(group.begin(), group.end(), index);
      index[rank - 1] = static_cast<int64_t>(k);
      context.output<T>(1)[found++] = static_cast<T>(result[k]);
    }
  }
  for (int64_t d = 0; d + 1 < rank; ++d) context.output<int64_t>(2)[d] = a.dims.dim(static_cast<int>(d));
  context.output<int64_t>(2)[rank - 1] = longest;
  SetRealRows(context, 0, 1, found, rank);
  return absl::OkStatus();
}

template <bool kFirstDense, bool kSecondDense>
KernelOr MakeOperation(const OpInstance& node) {
  const std::string operation = absl::AsciiStrToLower(node.attrs.GetOr<std::string>("set_operation", ""));
  const bool validate = node.attrs.GetOr<bool>("validate_indices", true);
  return DispatchInteger(node, node.outputs[1].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    return MakeKernel([=](const KernelContext& context) {
      return Operate<T>(context, operation, kFirstDense, kSecondDense, validate);
    });
  });
}

template <typename T>
absl::Status CountElements(const KernelContext& context, bool validate) {
  MR_ASSIGN_OR_RETURN(const Sets sets, ReadSparse<T>(context, 0, validate));
  const Shape& shape = context.output_type(0).shape;
  if (!(sets.dims == shape)) return absl::InvalidArgumentError("the dense shape is not what was planned for");
  std::fill_n(context.output<int32_t>(0), shape.num_elements(), 0);
  for (const auto& [group, values] : sets.groups) {
    int64_t at = 0;
    for (int d = 0; d < shape.rank(); ++d) at = at * shape.dim(d) + group[d];
    context.output<int32_t>(0)[at] = static_cast<int32_t>(values.size());
  }
  return absl::OkStatus();
}

KernelOr MakeSize(const OpInstance& node) {
  const bool validate = node.attrs.GetOr<bool>("validate_indices", true);
  return DispatchInteger(node, node.inputs[1].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    return MakeKernel([validate](const KernelContext& context) { return CountElements<T>(context, validate); });
  });
}

}  // namespace

void RegisterSetKernels(KernelRegistry& registry) {
  AddKernel(registry, "DenseToDenseSetOperation", MakeOperation<true, true>);
  AddKernel(registry, "DenseToSparseSetOperation", MakeOperation<true, false>);
  AddKernel(registry, "SparseToSparseSetOperation", MakeOperation<false, false>);
  AddKernel(registry, "SetSize", MakeSize);
}

}  // namespace millrace::cpu
