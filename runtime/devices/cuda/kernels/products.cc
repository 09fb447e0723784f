// Matrix products, one by one and in batches.
#include <vector>

#include "cuda/kernels/common.h"
#include "cuda/kernels/register.h"

namespace millrace::cuda {
namespace {

absl::StatusOr<std::unique_ptr<Kernel>> MakeOf(DeviceServices& services, const ProductShape& shape) {
  MR_ASSIGN_OR_RETURN(std::shared_ptr<Product> product, services.PlanProduct(shape));
  const int64_t scratch = product->scratch_bytes();
  return MakeLaunch(
      services,
      [product](const Queue& queue, const KernelContext& context) {
        return product->Run(queue, context.inputs[0], context.inputs[1], context.outputs[0], context.scratch);
      },
      scratch);
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeMatMul(DeviceServices& services, const OpInstance& instance) {
  const bool batched = instance.op != "MatMul";
  const Shape &a = instance.inputs[0].shape, &b = instance.inputs[1].shape, &c = instance.outputs[0].shape;
  ProductShape shape;
  MR_ASSIGN_OR_RETURN(shape.type, FloatingTypeOf(instance, instance.outputs[0].dtype));
  if (instance.inputs[0].dtype != instance.outputs[0].dtype || instance.inputs[1].dtype != instance.outputs[0].dtype) {
    return Refused(instance, "operands of several types");
  }
  shape.transpose_a = instance.attrs.GetOr<bool>(batched ? "adj_x" : "transpose_a", false);
  shape.transpose_b = instance.attrs.GetOr<bool>(batched ? "adj_y" : "transpose_b", false);
  shape.m = c.dim(c.rank() - 2);
  shape.n = c.dim(c.rank() - 1);
  shape.k = a.dim(a.rank() - (shape.transpose_a ? 2 : 1));
  if (shape.m == 0 || shape.n == 0 || shape.k == 0 || c.num_elements() == 0) return Refused(instance, "empty operands");
  shape.batch = c.num_elements() / (shape.m * shape.n);
  const int64_t a_batch = a.num_elements() / (shape.m * shape.k), b_batch = b.num_elements() / (shape.n * shape.k);
  // Whole stacks that repeat are a stride of 0; others would need a list of pointers.
  if ((a_batch != shape.batch && a_batch != 1) || (b_batch != shape.batch && b_batch != 1)) {
    return Refused(instance, "batches that broadcast in part");
  }
  shape.stride_a = a_batch == 1 ? 0 : shape.m * shape.k;
  shape.stride_b = b_batch == 1 ? 0 : shape.n * shape.k;
  shape.stride_c = shape.m * shape.n;
  return MakeOf(services, shape);
}

}  // namespace

void RegisterProducts(KernelRegistry& registry, DeviceServices& services) {
  for (const char* op : {"MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"}) {
    Add(registry, services, op, MakeMatMul);
  }
}

}  // namespace millrace::cuda
