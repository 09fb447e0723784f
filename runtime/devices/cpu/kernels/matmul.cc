// MatMul, BatchMatMul, and sums of products.
#include <algorithm>
#include <cstring>

#include "cpu/kernels/common.h"
#include "cpu/kernels/gemm.h"
#include "cpu/kernels/register.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

std::unique_ptr<Kernel> GemmKernel(std::unique_ptr<Gemm> gemm) {
  const int64_t scratch = gemm->scratch_bytes();
  return MakeKernel(
      [gemm = std::shared_ptr<const Gemm>(std::move(gemm))](const KernelContext& context) {
        return gemm->Run(context, context.inputs[0], context.inputs[1], context.outputs[0], context.scratch);
      },
      scratch);
}

// For every product of the output's batch, the matrices of a factor with `dims` batch dimensions, broadcast.
std::vector<int64_t> BatchIndices(absl::Span<const int64_t> output, absl::Span<const int64_t> dims) {
  std::vector<int64_t> indices(1, 0);
  const size_t missing = output.size() - dims.size();
  for (size_t i = 0; i < output.size(); ++i) {
    const int64_t dim = i < missing ? 1 : dims[i - missing];
    std::vector<int64_t> longer;
    longer.reserve(indices.size() * output[i]);
    for (int64_t index : indices) {
      for (int64_t j = 0; j < output[i]; ++j) longer.push_back(index * dim + (dim == 1 ? 0 : j));
    }
    indices = std::move(longer);
  }
  return indices;
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeProduct(const OpInstance& instance, bool transpose_a, bool transpose_b) {
  const Shape &a = instance.inputs[0].shape, &b = instance.inputs[1].shape, &c = instance.outputs[0].shape;
  const DataType dtype = instance.outputs[0].dtype;
  for (const TensorType& input : instance.inputs) {
    if (input.dtype != dtype) return UnsupportedType(instance, input.dtype);
  }
  const int64_t m = c.dim(c.rank() - 2), n = c.dim(c.rank() - 1), k = a.dim(a.rank() - (transpose_a ? 2 : 1));
  const auto batch_dims = [](const Shape& shape) { return shape.dims().subspan(0, shape.rank() - 2); };
  const std::vector<int64_t> of_a = BatchIndices(batch_dims(c), batch_dims(a));
  const std::vector<int64_t> of_b = BatchIndices(batch_dims(c), batch_dims(b));
  std::vector<GemmOffsets> products(of_a.size());
  for (size_t i = 0; i < products.size(); ++i) {
    products[i] = {of_a[i] * m * k, of_b[i] * k * n, static_cast<int64_t>(i) * m * n};
  }
  const GemmSizes sizes = GemmSizes::Dense(m, n, k, transpose_a, transpose_b);
  MR_ASSIGN_OR_RETURN(std::unique_ptr<Gemm> gemm, MakeGemm(instance, dtype, sizes, std::move(products)));
  return GemmKernel(std::move(gemm));
}

bool IsEightBits(DataType type) { return type == DataType::kInt8 || type == DataType::kUint8; }

void CopyToInt32(DataType from, const void* numbers, int64_t count, int32_t* to) {
  if (from == DataType::kInt8) {
    std::copy_n(static_cast<const int8_t*>(numbers), count, to);
  } else {
    std::copy_n(static_cast<const uint8_t*>(numbers), count, to);
  }
}

// The product in int32 of integers of eight bits, signed or not: of copies of the factors.
absl::StatusOr<std::unique_ptr<Kernel>> MakeWideningProduct(const OpInstance& instance, bool transpose_a, bool transpose_b) {
  OpInstance wide = instance;
  for (TensorType& input : wide.inputs) input.dtype = DataType::kInt32;
  MR_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> made, MakeProduct(wide, transpose_a, transpose_b));
  const int64_t own = AlignUp(made->scratch_bytes()), size_a = AlignUp(wide.inputs[0].size_bytes()), size_b = wide.inputs[1].size_bytes();
  return MakeKernel(
      [kernel = std::shared_ptr<const Kernel>(std::move(made)), own, size_a](const KernelContext& context) {
        char* scratch = static_cast<char*>(context.scratch);
        void* factors[] = {scratch + own, scratch + own + size_a};
        for (int i = 0; i < 2; ++i) {
          const TensorType& type = context.input_type(i);
          CopyToInt32(type.dtype, context.inputs[i], type.shape.num_elements(), static_cast<int32_t*>(factors[i]));
        }
        KernelContext inner = context;
        inner.inputs = factors;
        return kernel->Run(inner);
      },
      own + size_a + size_b);
}

// Inputs from `first` on are pairs of factors; input 0 is what their products are added onto when first == 1.
absl::StatusOr<std::unique_ptr<Kernel>> MakeSum(const OpInstance& instance, int first) {
  const bool ta = instance.attrs.GetOr("transpose_a", false), tb = instance.attrs.GetOr("transpose_b", false);
  const TensorType &a = instance.inputs[first], &c = instance.outputs[0];
  GemmSizes sizes = GemmSizes::Dense(c.shape.dim(0), c.shape.dim(1), a.shape.dim(ta ? 0 : 1), ta, tb);
  sizes.add = first > 0;
  const auto terms = static_cast<int64_t>(instance.inputs.size() - first) / 2;
  for (int64_t i = 1; i < terms; ++i) {
    if (instance.inputs[first + 2 * i].shape != a.shape) {
      return absl::UnimplementedError(absl::StrCat("the products of '", instance.name, "' have several sizes"));
    }
  }
  MR_ASSIGN_OR_RETURN(std::unique_ptr<Gemm> made, MakeGemmSum(instance, c.dtype, sizes, terms));
  const int64_t scratch = made->scratch_bytes(), bytes = c.size_bytes();
  return MakeKernel(
      [gemm = std::shared_ptr<const Gemm>(std::move(made)), first, bytes](const KernelContext& context) {
        if (first > 0 && context.inputs[0] != context.outputs[0]) {
          std::memcpy(context.outputs[0], context.inputs[0], bytes);
        }
        return gemm->RunSum(context, context.inputs + first, context.outputs[0], context.scratch);
      },
      scratch);
}

}  // namespace

void RegisterMatMulKernels(KernelRegistry& registry) {
  AddKernel(registry, "_SumProducts", [](const OpInstance& instance) { return MakeSum(instance, 0); });
  AddKernel(registry, "_AddProducts", [](const OpInstance& instance) { return MakeSum(instance, 1); });
  AddKernel(registry, "MatMul", [](const OpInstance& instance) {
    return MakeProduct(instance, instance.attrs.GetOr("transpose_a", false), instance.attrs.GetOr("transpose_b", false));
  });
  for (const char* name : {"BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"}) {
    AddKernel(registry, name, [](const OpInstance& instance) {
      const bool a = instance.attrs.GetOr("adj_x", false), b = instance.attrs.GetOr("adj_y", false);
      const bool widens = instance.outputs[0].dtype == DataType::kInt32 && IsEightBits(instance.inputs[0].dtype) && IsEightBits(instance.inputs[1].dtype);
      return widens ? MakeWideningProduct(instance, a, b) : MakeProduct(instance, a, b);
    });
  }
}

}  // namespace millrace::cpu
