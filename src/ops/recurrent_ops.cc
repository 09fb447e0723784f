// Recurrent cells and sequences as single ops.
#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "ops/rare.h"
#include "ops/rules.h"

namespace millrace {
namespace {

struct Sizes {
  int64_t steps = 1, batch = 0, inputs = 0, cells = 0;
  Shape State() const { return Shape({batch, cells}); }
};

// Inputs from `x` on: x, cs_prev, h_prev, w, wci, wcf, wco, b; checked where shapes are known.
absl::StatusOr<Sizes> LstmSizes(const InferenceContext& context, int x, bool sequence) {
  for (int i = x + 1; i < context.num_inputs(); ++i) MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {x, i}));
  if (sequence) MR_RETURN_IF_ERROR(ExpectScalar(context, 0, "seq_len_max"));
  if (sequence && context.dtype(0) != DataType::kInt64) return context.Error("seq_len_max must be an int64");
  const Shape &input = context.shape(x), &w = context.shape(x + 3);
  if (!input.fully_known() || !w.fully_known()) return context.Error("needs the shapes of x and w when planning");
  if (input.rank() != (sequence ? 3 : 2) || w.rank() != 2) {
    return context.Error(absl::StrCat("x is ", input.ToString(), " and w ", w.ToString(), ", expected ",
                                      sequence ? "[steps,batch,inputs]" : "[batch,inputs]", " and a matrix"));
  }
  Sizes sizes;
  sizes.steps = sequence ? input.dim(0) : 1;
  sizes.batch = input.dim(input.rank() - 2);
  sizes.inputs = input.dim(input.rank() - 1);
  sizes.cells = w.dim(1) / 4;
  MR_RETURN_IF_ERROR(ExpectShape(context, x + 3, Shape({sizes.inputs + sizes.cells, 4 * sizes.cells})));
  for (int i : {x + 1, x + 2}) MR_RETURN_IF_ERROR(ExpectShape(context, i, sizes.State()));
  for (int i : {x + 4, x + 5, x + 6}) MR_RETURN_IF_ERROR(ExpectShape(context, i, Shape({sizes.cells})));
  MR_RETURN_IF_ERROR(ExpectShape(context, x + 7, Shape({4 * sizes.cells})));
  return sizes;
}

absl::Status LstmCellShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(8));
  MR_ASSIGN_OR_RETURN(const Sizes sizes, LstmSizes(context, 0, false));
  for (int k = 0; k < 7; ++k) context.AddOutput(context.dtype(0), sizes.State());
  return absl::OkStatus();
}

absl::Status LstmCellGradShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(16));
  MR_ASSIGN_OR_RETURN(const Sizes sizes, LstmSizes(context, 0, false));
  for (int i = 8; i < 16; ++i) MR_RETURN_IF_ERROR(ExpectShape(context, i, sizes.State()));
  context.AddOutput(context.dtype(0), sizes.State());
  context.AddOutput(context.dtype(0), Shape({sizes.batch, 4 * sizes.cells}));
  for (int k = 0; k < 3; ++k) context.AddOutput(context.dtype(0), Shape({sizes.cells}));
  return absl::OkStatus();
}

absl::Status SequenceShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(9));
  MR_ASSIGN_OR_RETURN(const Sizes sizes, LstmSizes(context, 1, true));
  for (int k = 0; k < 7; ++k) context.AddOutput(context.dtype(1), Shape({sizes.steps, sizes.batch, sizes.cells}));
  return absl::OkStatus();
}

absl::Status SequenceGradShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(18));
  MR_ASSIGN_OR_RETURN(const Sizes sizes, LstmSizes(context, 1, true));
  for (int i = 9; i < 18; ++i) MR_RETURN_IF_ERROR(ExpectShape(context, i, Shape({sizes.steps, sizes.batch, sizes.cells})));
  for (int i = 1; i < 9; ++i) context.AddOutput(context.dtype(1), context.shape(i));
  return absl::OkStatus();
}

// Inputs from the first on: x, h_prev, w_ru, w_c, b_ru, b_c.
absl::StatusOr<Sizes> GruSizes(const InferenceContext& context) {
  for (int i = 1; i < context.num_inputs(); ++i) MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {0, i}));
  const Shape &x = context.shape(0), &h = context.shape(1);
  if (!x.fully_known() || !h.fully_known()) return context.Error("needs the shapes of x and h_prev when planning");
  if (x.rank() != 2 || h.rank() != 2 || x.dim(0) != h.dim(0)) {
    return context.Error(absl::StrCat("x is ", x.ToString(), " and h_prev ", h.ToString(), ", expected [batch,inputs] and [batch,cells]"));
  }
  const Sizes sizes = {1, x.dim(0), x.dim(1), h.dim(1)};
  MR_RETURN_IF_ERROR(ExpectShape(context, 2, Shape({sizes.inputs + sizes.cells, 2 * sizes.cells})));
  MR_RETURN_IF_ERROR(ExpectShape(context, 3, Shape({sizes.inputs + sizes.cells, sizes.cells})));
  MR_RETURN_IF_ERROR(ExpectShape(context, 4, Shape({2 * sizes.cells})));
  MR_RETURN_IF_ERROR(ExpectShape(context, 5, Shape({sizes.cells})));
  return sizes;
}

absl::Status GruCellShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(6));
  MR_ASSIGN_OR_RETURN(const Sizes sizes, GruSizes(context));
  for (int k = 0; k < 4; ++k) context.AddOutput(context.dtype(0), sizes.State());
  return absl::OkStatus();
}

absl::Status GruCellGradShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(10));
  MR_ASSIGN_OR_RETURN(const Sizes sizes, GruSizes(context));
  for (int i = 6; i < 10; ++i) MR_RETURN_IF_ERROR(ExpectShape(context, i, sizes.State()));
  context.AddOutput(context.dtype(0), context.shape(0));
  context.AddOutput(context.dtype(0), sizes.State());
  context.AddOutput(context.dtype(0), sizes.State());
  context.AddOutput(context.dtype(0), Shape({sizes.batch, 2 * sizes.cells}));
  return absl::OkStatus();
}

// The products: 2 flops per weight and row, twice that for a gradient; weights are the largest matrix among the inputs.
Cost RecurrentCost(const OpInstance& node) {
  Cost cost;
  double weights = 0, rows = 1;
  for (const TensorType& type : node.inputs) {
    cost.bytes += type.size_bytes();
    if (type.shape.rank() == 2) weights = std::max<double>(weights, type.shape.num_elements());
    if (type.shape.rank() == 3) rows = std::max<double>(rows, type.shape.dim(0) * type.shape.dim(1));
  }
  for (const TensorType& type : node.outputs) cost.bytes += type.size_bytes();
  rows = std::max<double>(rows, node.outputs[0].shape.rank() == 2 ? node.outputs[0].shape.dim(0) : 1);
  cost.flops = 4 * weights * rows;
  return cost;
}

}  // namespace

void RegisterRecurrentOps(OpRegistry& registry) {
  AddOp(registry, {.name = "LSTMBlockCell", .shape = LstmCellShape, .cost = RecurrentCost});
  AddOp(registry, {.name = "LSTMBlockCellGrad", .shape = LstmCellGradShape});
  for (const char* name : {"BlockLSTM", "BlockLSTMV2"}) {
    AddOp(registry, {.name = name, .shape = SequenceShape, .cost = RecurrentCost});
  }
  for (const char* name : {"BlockLSTMGrad", "BlockLSTMGradV2"}) {
    AddOp(registry, {.name = name, .shape = SequenceGradShape, .cost = RecurrentCost});
  }
  AddOp(registry, {.name = "GRUBlockCell", .shape = GruCellShape, .cost = RecurrentCost});
  AddOp(registry, {.name = "GRUBlockCellGrad", .shape = GruCellGradShape, .cost = RecurrentCost});
}

}  // namespace millrace
