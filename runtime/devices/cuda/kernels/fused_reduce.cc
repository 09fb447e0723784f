// Groups of elementwise ops with reductions of what they compute (_FusedReduce, _FusedMapReduce; graph/fused_reduce.h): terms are
// computed as they are added up, in the order in which a reduction alone adds them, so the bits are those of the nodes apart.
// A kernel is compiled for the group where the device has a compiler, else one reads the ops.
#include <algorithm>
#include <map>
#include <vector>

#include "cuda/kernels/common.h"
#include "cuda/kernels/fused_program.h"
#include "cuda/kernels/fused_source.h"
#include "cuda/kernels/reduce_shape.h"
#include "cuda/kernels/register.h"
#include "cuda/launch/reduce_index.h"
#include "graph/fused_reduce.h"
#include "graph/spread.h"

namespace millrace::cuda {
namespace {

absl::StatusOr<FusedReduceProgram> ProgramOf(const OpInstance& node, const FusedGroup& group, const std::vector<GroupReduction>& reductions) {
  static const auto* const ops = new std::map<std::string, FusedReduction>{
      {"Sum", FusedReduction::kSum}, {"Mean", FusedReduction::kMean}, {"Max", FusedReduction::kMax}, {"Min", FusedReduction::kMin}};
  FusedReduceProgram program;
  program.group = group.program;
  for (const GroupReduction& reduction : reductions) {
    const auto operand = static_cast<size_t>(reduction.operand >= 0 ? reduction.operand : -1 - reduction.operand);
    if (reduction.operand >= 0 && program.group.operands[operand] != FusedOperand::kFull) {
      return absl::InvalidArgumentError(absl::StrCat("reduces input ", operand, ", which has another shape"));
    }
    FusedReductionOf& made = program.reduction[program.reductions++];
    MR_ASSIGN_OR_RETURN(made.type, FloatingTypeOf(node, node.outputs[reduction.output].dtype));
    made.operand = static_cast<uint8_t>(reduction.operand >= 0 ? static_cast<int>(operand) : group.op_operands[operand]);
    made.op = ops->at(reduction.op);
  }
  return program;
}

// Whether an input, as it repeats over the shape, has the same element for all terms of a row.
bool IsOfRow(const OpInstance& node, size_t k, const FusedGroup& group, const std::vector<bool>& reduced) {
  if (group.program.operands[k] == FusedOperand::kFull || group.known.pitches[k] > 0 || group.input_offsets[k] > 0) return false;
  const Shape& input = node.inputs[k].shape;
  const int skipped = static_cast<int>(reduced.size()) - input.rank();
  for (int d = 0; d < input.rank(); ++d) {
    if (input.dim(d) != 1 && (skipped < 0 || reduced[d + skipped])) return false;
  }
  return true;
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeFusedReduction(DeviceServices& services, const OpInstance& node) {
  MR_ASSIGN_OR_RETURN(const std::vector<GroupReduction> reductions,
                      GroupReductionsOf(node.attrs, node.inputs.size(), node.outputs.size()));
  MR_ASSIGN_OR_RETURN(const std::vector<FusedOp> ops, ReadFusedOps(node));
  MR_ASSIGN_OR_RETURN(const FusedGroup group, ReadFusedGroup(node, ops));
  MR_ASSIGN_OR_RETURN(const FusedReduceProgram program, ProgramOf(node, group, reductions));
  const std::vector<bool> reduced = ReducedDims(node.attrs);
  MR_ASSIGN_OR_RETURN(const ReduceShape shape, ReduceShapeOf(node, FusedShapeOf(node), reduced));
  const SumGrid grid = SumGridOf(shape.rows, shape.terms, shape.columns);
  FusedReduceArguments known;
  known.rows = shape.rows;
  known.terms = shape.terms;
  known.chunks = grid.chunks;
  known.columns = shape.columns;
  known.row_index = RowIndexOf(shape);
  known.term_index = TermIndexOf(shape);
  FusedReduceText how;
  how.kind = grid.kind;
  how.rest_kind = grid.rest_kind;
  how.chunks = grid.chunks > 1;
  how.small = group.small && (shape.term_rank < 2 || known.term_index.dims[1].small_magic != 0);
  how.term_rank = shape.term_rank > 2 ? 0 : std::max(shape.term_rank, 1);
  for (size_t k = 0; k < node.inputs.size(); ++k) how.of_row[k] = IsOfRow(node, k, group, reduced);
  absl::StatusOr<std::shared_ptr<const CompiledFusion>> compiled = services.CompileFusion(FusedReduceSource(program, how));
  if (!compiled.ok() && !absl::IsUnimplemented(compiled.status())) return compiled.status();
  const std::shared_ptr<const CompiledFusion> kernel = compiled.ok() ? *compiled : nullptr;
  const int64_t chunk_sums = grid.chunks > 1 ? shape.rows * grid.chunks : 0;
  const auto launch = [=](const Queue& queue, const KernelContext& context) -> absl::Status {
    FusedReduceArguments arguments = known;
    arguments.group = group.Arguments(queue, context);
    for (size_t k = 0; k < reductions.size(); ++k) arguments.reduced[k] = context.outputs[reductions[k].output];
    arguments.partial = context.scratch;
    if (kernel != nullptr) {
      const absl::Status launched = kernel->LaunchReduce(queue, arguments);
      if (!absl::IsUnimplemented(launched)) return launched;
    }
    LaunchFusedReduce(queue, program, arguments);
    return absl::OkStatus();
  };
  return MakeLaunch(services, launch, chunk_sums * program.reductions * static_cast<int64_t>(sizeof(double)));
}

}  // namespace

void RegisterFusedReductions(KernelRegistry& registry, DeviceServices& services) {
  for (const char* op : {"_FusedReduce", "_FusedMapReduce"}) Add(registry, services, op, MakeFusedReduction);
}

}  // namespace millrace::cuda
