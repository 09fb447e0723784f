// Matrix products, one by one and in batches.
#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "cuda/kernels/common.h"
#include "cuda/kernels/register.h"
#include "cuda/launch/layout.h"
#include "graph/fused_matmul.h"
#include "graph/staged_kernel.h"

namespace millrace::cuda {
namespace {

// Where one product of a stack of stacks begins, in bytes.
struct Begin {
  int64_t a = 0, b = 0, c = 0;
};

absl::StatusOr<std::unique_ptr<Kernel>> MakeOf(DeviceServices& services, const ProductShape& shape,
                                               std::vector<Begin> begins) {
  MR_ASSIGN_OR_RETURN(std::shared_ptr<Product> product, services.PlanProduct(shape));
  const int64_t scratch = product->scratch_bytes() > 0 ? product->scratch_bytes() + kLibraryAlignment : 0;
  return MakeLaunch(
      services,
      [product, begins = std::move(begins)](const Queue& queue, const KernelContext& context) -> absl::Status {
        for (const Begin& begin : begins) {
          MR_RETURN_IF_ERROR(product->Run(queue, context.input<char>(0) + begin.a, context.input<char>(1) + begin.b,
                                          nullptr, nullptr, context.output<char>(0) + begin.c, AlignedScratch(context)));
        }
        return absl::OkStatus();
      },
      scratch);
}

// Batches that broadcast in part: the last dimensions of the stack that have one stride in each operand are a batch,
// the others are walked. `dims` of the output's stack; a stride of 0 repeats.
std::vector<Begin> SplitBatch(const OpInstance& instance, ProductShape& shape, int64_t bytes) {
  const Shape& c = instance.outputs[0].shape;
  const int rank = c.rank() - 2;
  const auto strides_of = [&](const Shape& operand, int64_t matrix) {
    std::vector<int64_t> strides(rank, 0);
    int64_t step = matrix;
    for (int d = rank - 1, at = operand.rank() - 3; d >= 0 && at >= 0; --d, --at) {
      if (operand.dim(at) > 1) strides[d] = step;
      step *= operand.dim(at);
    }
    return strides;
  };
  const std::vector<int64_t> a = strides_of(instance.inputs[0].shape, shape.m * shape.k);
  const std::vector<int64_t> b = strides_of(instance.inputs[1].shape, shape.n * shape.k);
  int inner = rank;  // dimensions [inner, rank) are one batch
  shape.batch = 1;
  shape.stride_c = shape.m * shape.n;
  for (; inner > 0; --inner) {
    const int d = inner - 1;
    if (c.dim(d) == 1) continue;
    if (shape.batch == 1) {
      shape.stride_a = a[d];
      shape.stride_b = b[d];
    } else if (a[d] != shape.stride_a * shape.batch || b[d] != shape.stride_b * shape.batch) {
      break;
    }
    shape.batch *= c.dim(d);
  }
  int64_t outer = 1;
  for (int d = 0; d < inner; ++d) outer *= c.dim(d);
  std::vector<Begin> begins;
  for (int64_t i = 0; i < outer; ++i) {
    Begin begin;
    int64_t rest = i;
    for (int d = inner - 1; d >= 0; --d) {
      begin.a += rest % c.dim(d) * a[d] * bytes;
      begin.b += rest % c.dim(d) * b[d] * bytes;
      rest /= c.dim(d);
    }
    begin.c = i * shape.batch * shape.stride_c * bytes;
    shape.alignment = std::gcd(std::gcd(shape.alignment, begin.a), std::gcd(begin.b, begin.c));
    begins.push_back(begin);
  }
  return begins;
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeMatMul(DeviceServices& services, const OpInstance& instance) {
  const bool batched = instance.op != "MatMul";
  const Shape &a = instance.inputs[0].shape, &c = instance.outputs[0].shape;
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
  if (c.num_elements() == 0 || shape.k == 0) {
    return MakeLaunch(services, [total = instance.outputs[0].size_bytes()](const Queue& queue, const KernelContext& context) {
      LaunchZero(queue, context.outputs[0], total);
    });
  }
  constexpr size_t kMostStacks = 4096;
  std::vector<Begin> begins = SplitBatch(instance, shape, DataTypeSize(instance.outputs[0].dtype));
  if (begins.size() > kMostStacks) return Refused(instance, "batches that broadcast in so many parts");
  return MakeOf(services, shape, std::move(begins));
}

// Terms of a sum that follow one another and are one product: their factors stand side by side in scratch. One term alone
// is read where it is.
struct SumGroup {
  int terms = 1;
  std::shared_ptr<Product> product;
  std::vector<StridedCopy> a_parts, b_parts;  // none of a term alone
};
inline constexpr int kMostPacked = 8;
inline constexpr int64_t kMostPackedBytes = int64_t{64} << 20;

// Terms from the first of `depths` on that are packed: as many as may be, where copies of their factors move fewer bytes
// than the sum, which every further product reads and writes again. By sizes alone, so that bits depend on nothing else.
int PackedTerms(const ProductShape& shape, absl::Span<const int64_t> depths, int64_t bytes) {
  constexpr int64_t kLaunchBytes = int64_t{2} << 20;  // about what moves while another kernel begins
  const int64_t line = (shape.m + shape.n) * bytes;
  int terms = 0;
  int64_t depth = 0;
  for (int64_t next : depths) {
    if (terms == kMostPacked || (depth + next) * line > kMostPackedBytes) break;
    depth += next;
    ++terms;
  }
  if (terms < 2) return 1;
  const int64_t copies = 2 * depth * line + (2 * terms > kMostPacked ? 2 : 1) * kLaunchBytes;
  const int64_t sums = (terms - 1) * (2 * shape.m * shape.n * bytes + kLaunchBytes);
  return copies < sums ? terms : 1;
}

// A factor of `depth` along the dimension that is summed over and `lines` along the other one, to place `at` of `total`.
// `outer`: that dimension is the outer one.
StridedCopy PackedPart(bool outer, int64_t lines, int64_t depth, int64_t at, int64_t total) {
  StridedCopy copy;
  copy.rank = 2;
  copy.elements = lines * depth;
  copy.dims[0] = outer ? depth : lines;
  copy.dims[1] = outer ? lines : depth;
  copy.from_strides[0] = copy.dims[1];
  copy.to_strides[0] = outer ? lines : total;
  copy.from_strides[1] = copy.to_strides[1] = 1;
  copy.to_offset = outer ? at * lines : at;
  return copy;
}

SumGroup GroupOf(const ProductShape& shape, absl::Span<const int64_t> depths) {
  SumGroup group;
  group.terms = static_cast<int>(depths.size());
  if (group.terms == 1) return group;
  int64_t at = 0;
  for (int64_t depth : depths) {
    group.a_parts.push_back(PackedPart(shape.transpose_a, shape.m, depth, at, shape.k));
    group.b_parts.push_back(PackedPart(!shape.transpose_b, shape.n, depth, at, shape.k));
    at += depth;
  }
  return group;
}

struct PackedSum {
  int first = 0;  // input that the factors begin with; those before it are what they are added onto
  int bytes = 0;  // of an element
  std::vector<SumGroup> groups;
  int64_t b_at = 0, library_at = 0;  // of packed factors b, of the library's, in scratch
};

absl::Status RunSum(const PackedSum& sum, const Queue& queue, const KernelContext& context) {
  const void* onto = sum.first > 0 ? context.inputs[0] : nullptr;
  char* const scratch = AlignedScratch(context);
  int at = sum.first;
  for (const SumGroup& group : sum.groups) {
    const void *a = context.inputs[at], *b = context.inputs[at + 1];
    if (group.terms > 1) {
      std::vector<CopyTask> tasks;
      for (int k = 0; k < group.terms; ++k) tasks.push_back({group.a_parts[k], context.inputs[at + 2 * k], scratch});
      for (int k = 0; k < group.terms; ++k) {
        tasks.push_back({group.b_parts[k], context.inputs[at + 2 * k + 1], scratch + sum.b_at});
      }
      LaunchStridedCopies(queue, sum.bytes, tasks.data(), static_cast<int>(tasks.size()));
      a = scratch;
      b = scratch + sum.b_at;
    }
    MR_RETURN_IF_ERROR(group.product->Run(queue, a, b, onto, nullptr, context.outputs[0], scratch + sum.library_at));
    onto = context.outputs[0];
    at += 2 * group.terms;
  }
  return absl::OkStatus();
}

// _SumProducts and _AddProducts: input 0 is what the others' products are added onto where `first` is 1. One group after
// another, so that the order of the sum is the plan's; within a group it is the library's, and halves are rounded once.
absl::StatusOr<std::unique_ptr<Kernel>> MakeSum(DeviceServices& services, const OpInstance& instance, int first) {
  const Shape& c = instance.outputs[0].shape;
  ProductShape shape;
  MR_ASSIGN_OR_RETURN(shape.type, FloatingTypeOf(instance, instance.outputs[0].dtype));
  shape.transpose_a = instance.attrs.GetOr<bool>("transpose_a", false);
  shape.transpose_b = instance.attrs.GetOr<bool>("transpose_b", false);
  shape.m = c.dim(0);
  shape.n = c.dim(1);
  shape.stride_c = shape.m * shape.n;
  std::vector<int64_t> depths;
  for (size_t i = first; i + 1 < instance.inputs.size(); i += 2) {
    for (size_t k : {i, i + 1}) {
      if (instance.inputs[k].dtype != instance.outputs[0].dtype) return Refused(instance, "operands of several types");
    }
    depths.push_back(instance.inputs[i].shape.dim(shape.transpose_a ? 0 : 1));
    if (c.num_elements() == 0 || depths.back() == 0) return Refused(instance, "empty factors");
  }
  PackedSum sum;
  sum.first = first;
  sum.bytes = static_cast<int>(DataTypeSize(instance.outputs[0].dtype));
  int64_t packed_a = 0, packed_b = 0, library = 0;
  for (absl::Span<const int64_t> rest = depths; !rest.empty();) {
    const auto group = rest.first(PackedTerms(shape, rest, sum.bytes));
    rest.remove_prefix(group.size());
    const int64_t before = shape.k;
    shape.k = std::accumulate(group.begin(), group.end(), int64_t{0});
    shape.stride_a = shape.m * shape.k;
    shape.stride_b = shape.k * shape.n;
    SumGroup made = GroupOf(shape, group);
    if (!sum.groups.empty() && shape.k == before) {
      made.product = sum.groups.back().product;
    } else {
      MR_ASSIGN_OR_RETURN(made.product, services.PlanProduct(shape));
    }
    if (made.terms > 1) {
      packed_a = std::max(packed_a, AlignUp(shape.stride_a * sum.bytes, kLibraryAlignment));
      packed_b = std::max(packed_b, AlignUp(shape.stride_b * sum.bytes, kLibraryAlignment));
    }
    library = std::max(library, made.product->scratch_bytes());
    sum.groups.push_back(std::move(made));
  }
  sum.b_at = packed_a;
  sum.library_at = packed_a + packed_b;
  const int64_t scratch = sum.library_at + library;
  return MakeLaunch(
      services,
      [sum = std::move(sum)](const Queue& queue, const KernelContext& context) { return RunSum(sum, queue, context); },
      scratch > 0 ? scratch + kLibraryAlignment : 0);
}

// Of the product of a _FusedMatMul, with what of its bias and activation the library can do in the same launch.
ProductShape FusedShape(const OpInstance& product, Type type, const std::string& activation) {
  ProductShape shape;
  shape.type = type;
  shape.transpose_a = product.attrs.GetOr<bool>("transpose_a", false);
  shape.transpose_b = product.attrs.GetOr<bool>("transpose_b", false);
  shape.m = product.outputs[0].shape.dim(0);
  shape.n = product.outputs[0].shape.dim(1);
  shape.k = product.inputs[0].shape.dim(shape.transpose_a ? 0 : 1);
  shape.stride_a = shape.m * shape.k;
  shape.stride_b = shape.k * shape.n;
  shape.stride_c = shape.m * shape.n;
  shape.epilogue = activation == "Relu"             ? Epilogue::kBiasRelu
                   : activation == kGeluApproximate ? Epilogue::kBiasGelu
                                                    : Epilogue::kBias;
  return shape;
}

std::unique_ptr<Kernel> MakeProductWithBias(DeviceServices& services, std::shared_ptr<Product> product) {
  const int64_t scratch = product->scratch_bytes() > 0 ? product->scratch_bytes() + kLibraryAlignment : 0;
  return MakeLaunch(
      services,
      [product = std::move(product)](const Queue& queue, const KernelContext& context) {
        return product->Run(queue, context.inputs[0], context.inputs[1], nullptr, context.inputs[2], context.outputs[0],
                            AlignedScratch(context));
      },
      scratch);
}

// One launch where the library has it, else the product and a group of elementwise ops over it.
absl::StatusOr<std::unique_ptr<Kernel>> MakeFusedMatMul(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const Type type, FloatingTypeOf(instance, instance.outputs[0].dtype));
  MR_ASSIGN_OR_RETURN(const std::string activation, ActivationOf(instance.attrs));
  OpInstance product = ProductOf(instance);
  const ProductShape shape = FusedShape(product, type, activation);
  absl::StatusOr<std::unique_ptr<Product>> planned = absl::UnimplementedError("vectors");
  // Vectors are where libraries have refused what they had ranked.
  const bool matrices = shape.m > 1 && shape.n > 1 && shape.k > 1;
  if (matrices && type != Type::kDouble) planned = services.PlanProduct(shape);
  if (!planned.ok() && !absl::IsUnimplemented(planned.status())) return planned.status();
  if (planned.ok() && (activation.empty() || shape.epilogue != Epilogue::kBias)) {
    return MakeProductWithBias(services, *std::move(planned));
  }
  const bool no_op = activation == kGeluApproximate || activation == kGeluExact;
  if (no_op) return Refused(instance, absl::StrCat("activation ", activation));
  std::vector<StagedKernel::Stage> stages(2);
  if (planned.ok()) {
    stages[0] = {instance, {0, 1, 2}, MakeProductWithBias(services, *std::move(planned))};
  } else {
    MR_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> alone, MakeMatMul(services, product));
    stages[0] = {std::move(product), {0, 1}, std::move(alone)};
  }
  const bool has_bias = stages[0].operands.size() == 3;
  stages[1] = {ElementwiseOf(instance, !has_bias, activation), {StagedKernel::kResult}, nullptr};
  if (!has_bias) stages[1].operands.push_back(2);
  MR_ASSIGN_OR_RETURN(stages[1].kernel, MakeGroup(services, stages[1].node));
  return std::make_unique<StagedKernel>(std::move(stages));
}

}  // namespace

void RegisterProducts(KernelRegistry& registry, DeviceServices& services) {
  Add(registry, services, "_SumProducts", [](DeviceServices& s, const OpInstance& instance) { return MakeSum(s, instance, 0); });
  Add(registry, services, "_AddProducts", [](DeviceServices& s, const OpInstance& instance) { return MakeSum(s, instance, 1); });
  Add(registry, services, "_FusedMatMul", MakeFusedMatMul);
  for (const char* op : {"MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"}) {
    Add(registry, services, op, MakeMatMul);
  }
}

}  // namespace millrace::cuda
