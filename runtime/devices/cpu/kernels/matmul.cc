// MatMul, BatchMatMul, and sums of products.
#include <algorithm>
#include <cstring>

#include "cpu/kernels/common.h"
#include "cpu/kernels/convert.h"
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

// What a product of small integers is computed in, of copies of its factors; kInvalid where it needs none. Integers of eight bits,
// signed or not, have products in int32 or with bfloat16; int16 keeps its bits.
DataType CopiesOf(const OpInstance& instance) {
  const DataType a = instance.inputs[0].dtype, b = instance.inputs[1].dtype, c = instance.outputs[0].dtype;
  const auto fits = [&](DataType type) { return type == c || IsEightBits(type); };
  if (c == DataType::kInt16 && a == c && b == c) return DataType::kInt32;
  const bool mixed = (c == DataType::kInt32 && a != c && b != c) || (c == DataType::kBfloat16 && a != b);
  return mixed && fits(a) && fits(b) ? c : DataType::kInvalid;
}

// Of `n` numbers, block by block.
void Convert(DataType from, const void* numbers, DataType to, void* copies, int64_t n) {
  const Conversion conversion = ConversionOf(from, to);
  const int64_t from_bytes = DataTypeSize(from), to_bytes = DataTypeSize(to);
  for (int64_t i = 0; i < n; i += kBlockElements) {
    conversion.RunBlock(static_cast<const char*>(numbers) + i * from_bytes, static_cast<char*>(copies) + i * to_bytes, std::min(kBlockElements, n - i));
  }
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeProductOfCopies(const OpInstance& instance, DataType copies, bool transpose_a, bool transpose_b) {
  OpInstance wide = instance;
  for (auto* types : {&wide.inputs, &wide.outputs}) {
    for (TensorType& type : *types) type.dtype = copies;
  }
  MR_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> made, MakeProduct(wide, transpose_a, transpose_b));
  const bool narrows = instance.outputs[0].dtype != copies;
  const int64_t own = AlignUp(made->scratch_bytes()), size_a = AlignUp(wide.inputs[0].size_bytes()), size_b = AlignUp(wide.inputs[1].size_bytes());
  const int64_t size_c = narrows ? wide.outputs[0].size_bytes() : 0;
  return MakeKernel(
      [kernel = std::shared_ptr<const Kernel>(std::move(made)), copies, own, size_a, size_b, narrows](const KernelContext& context) {
        char* scratch = static_cast<char*>(context.scratch);
        void* factors[] = {scratch + own, scratch + own + size_a};
        for (int i = 0; i < 2; ++i) {
          const TensorType& type = context.input_type(i);
          Convert(type.dtype, context.inputs[i], copies, factors[i], type.shape.num_elements());
        }
        void* product = narrows ? scratch + own + size_a + size_b : context.outputs[0];
        KernelContext inner = context;
        inner.inputs = factors;
        inner.outputs = &product;
        MR_RETURN_IF_ERROR(kernel->Run(inner));
        const TensorType& type = context.output_type(0);
        if (narrows) Convert(copies, product, type.dtype, context.outputs[0], type.shape.num_elements());
        return absl::OkStatus();
      },
      own + size_a + size_b + size_c);
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeAnyProduct(const OpInstance& instance, const char* transposes_a, const char* transposes_b) {
  const bool a = instance.attrs.GetOr(transposes_a, false), b = instance.attrs.GetOr(transposes_b, false);
  const DataType copies = CopiesOf(instance);
  return copies == DataType::kInvalid ? MakeProduct(instance, a, b) : MakeProductOfCopies(instance, copies, a, b);
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
  AddKernel(registry, "MatMul", [](const OpInstance& instance) { return MakeAnyProduct(instance, "transpose_a", "transpose_b"); });
  for (const char* name : {"BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"}) {
    AddKernel(registry, name, [](const OpInstance& instance) { return MakeAnyProduct(instance, "adj_x", "adj_y"); });
  }
}

}  // namespace millrace::cpu
