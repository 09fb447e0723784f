// Gradients of matrix products.
#include "builder/emit.h"
#include "builder/gradient_rules.h"

namespace millrace {
namespace {

using Context = GradientContext;

// With g the gradient of op(A) op(B): the products that give dA and dB for every pair of transpositions.
struct Product {
  bool a_is_g;  // g is the first factor
  bool transpose_first;
  bool transpose_second;
};
Product FirstGradient(bool ta, bool tb) {
  return ta ? Product{false, tb, true} : Product{true, false, !tb};
}
Product SecondGradient(bool ta, bool tb) {
  return tb ? Product{true, true, ta} : Product{false, !ta, false};
}

absl::Status ProductGradient(Context& c, const char* op, const char* flag_a, const char* flag_b) {
  const bool ta = c.attrs().GetOr<bool>(flag_a, false), tb = c.attrs().GetOr<bool>(flag_b, false);
  const Output g = c.gradient();
  // Adjoints conjugate by themselves.
  const bool conjugates = c.op() == "MatMul";
  const auto product = [&](const Product& p, const Output& input) -> Output {
    const Output other = conjugates ? Conj(input) : input;
    const Output& first = p.a_is_g ? g : other;
    const Output& second = p.a_is_g ? other : g;
    return Emit(op, {first, second}, {{"T", c.dtype()}, {flag_a, p.transpose_first}, {flag_b, p.transpose_second}});
  };
  if (c.wants(0)) SetReduced(c, 0, product(FirstGradient(ta, tb), c.input(1)), 2);
  if (c.wants(1)) SetReduced(c, 1, product(SecondGradient(ta, tb), c.input(0)), 2);
  return absl::OkStatus();
}

absl::Status MatMulGradient(Context& c) { return ProductGradient(c, "MatMul", "transpose_a", "transpose_b"); }

absl::Status BatchMatMulGradient(Context& c) {
  MR_RETURN_IF_ERROR(ExpectRanks(c));
  return ProductGradient(c, c.op() == "BatchMatMul" ? "BatchMatMul" : "BatchMatMulV2", "adj_x", "adj_y");
}

// The inputs may be of another type than the product.
absl::Status BatchMatMulV3Gradient(Context& c) {
  MR_RETURN_IF_ERROR(ExpectRanks(c));
  const bool ta = c.attrs().GetOr<bool>("adj_x", false), tb = c.attrs().GetOr<bool>("adj_y", false);
  const Output g = c.gradient();
  const auto set = [&](int i, const Product& p) {
    if (!c.wants(i)) return;
    const Output other = ops::Cast(c.input(1 - i), g.dtype());
    const Output product = p.a_is_g ? ops::BatchMatMul(g, other, {p.transpose_first, p.transpose_second})
                                    : ops::BatchMatMul(other, g, {p.transpose_first, p.transpose_second});
    SetReduced(c, i, ops::Cast(product, c.input(i).dtype()), 2);
  };
  set(0, FirstGradient(ta, tb));
  set(1, SecondGradient(ta, tb));
  return absl::OkStatus();
}

absl::Status MatrixBandPartGradient(Context& c) {
  c.Set(0, Emit("MatrixBandPart", {c.gradient(), c.input(1), c.input(2)}, c.attrs()));
  return absl::OkStatus();
}

}  // namespace

void AddMatMulGradients(GradientTable& table) {
  table.Add("MatMul", MatMulGradient);
  table.Add({"BatchMatMul", "BatchMatMulV2"}, BatchMatMulGradient);
  table.Add("BatchMatMulV3", BatchMatMulV3Gradient);
  table.Add("MatrixBandPart", MatrixBandPartGradient);
}

}  // namespace millrace
