// Gradients of elementwise ops.
#include <cmath>

#include "builder/gradient_rules.h"

namespace millrace {
namespace {

using Context = GradientContext;
using ops::Binary;
using ops::Unary;

// A rule dx = expression(g, x, y) of an op with one input. Of complex numbers it sees conjugates of x and y, so that
// g times the derivative comes out as the gradient.
template <typename Expression>
GradientTable::Rule OfUnary(Expression expression) {
  return [expression](Context& c) {
    c.Set(0, expression(c.gradient(), Conj(c.input(0)), Conj(c.output(0))));
    return absl::OkStatus();
  };
}

// A rule of a broadcasting binary op: each expression gives (g, x, y, z) -> the unreduced gradient of one input. Complex
// x, y and z are conjugated, too.
template <typename First, typename Second>
GradientTable::Rule OfBinary(First first, Second second) {
  return [first, second](Context& c) {
    const Output g = c.gradient(), x = Conj(c.input(0)), y = Conj(c.input(1)), z = Conj(c.output(0));
    if (c.wants(0)) SetReduced(c, 0, first(g, x, y, z));
    if (c.wants(1)) SetReduced(c, 1, second(g, x, y, z));
    return absl::OkStatus();
  };
}

using In = const Output&;

absl::Status PassThrough(Context& c) {
  for (int i = 0; i < c.num_inputs() && i < c.num_outputs(); ++i) {
    if (c.has_gradient(i)) c.Set(i, c.gradient(i));
  }
  return absl::OkStatus();
}

absl::Status AddNGradient(Context& c) {
  for (int i = 0; i < c.num_inputs(); ++i) c.Set(i, c.gradient());
  return absl::OkStatus();
}

absl::Status CastGradient(Context& c) {
  c.Set(0, ops::Cast(c.gradient(), c.input(0).dtype()));
  return absl::OkStatus();
}

Output Zero(In like) { return like.builder()->Scalar(like.dtype(), 0); }

// dx where x >= y (Maximum) or x <= y (Minimum), dy elsewhere.
GradientTable::Rule OfExtremum(const char* comparison) {
  return OfBinary(
      [comparison](In g, In x, In y, In) { return ops::Select(Binary(comparison, x, y), g, Zero(g)); },
      [comparison](In g, In x, In y, In) { return ops::Select(Binary(comparison, x, y), Zero(g), g); });
}

Output PowExponentGradient(In g, In x, In, In z) {
  // log(x) only where x > 0 (of complex numbers, where x is not 0); elsewhere the gradient is 0.
  const Output positive = Binary(IsComplex(x.dtype()) ? "NotEqual" : "Greater", x, Zero(x));
  const Output safe_log = ops::Select(positive, ops::Log(ops::Select(positive, x, x.builder()->Scalar(x.dtype(), 1))),
                                      Zero(x));
  return g * z * safe_log;
}

absl::Status SelectGradient(Context& c) {
  MR_RETURN_IF_ERROR(ExpectRanks(c));
  const Output g = c.gradient();
  Output condition = c.input(0);
  // The older Select takes a condition per row.
  if (c.op() == "Select" && condition.rank() == 1 && g.rank() > 1) {
    std::vector<int64_t> dims(g.rank(), 1);
    dims[0] = condition.dim(0);
    condition = ops::Reshape(condition, dims);
  }
  if (c.wants(1)) SetReduced(c, 1, ops::Select(condition, g, Zero(g)));
  if (c.wants(2)) SetReduced(c, 2, ops::Select(condition, Zero(g), g));
  return absl::OkStatus();
}

absl::Status ClipByValueGradient(Context& c) {
  const Output g = c.gradient(), x = c.input(0);
  const Output below = Binary("Less", x, c.input(1));
  const Output above = Binary("Greater", x, c.input(2));
  if (c.wants(0)) SetReduced(c, 0, ops::Select(c.builder().Op("LogicalOr", {below, above}), Zero(g), g));
  if (c.wants(1)) SetReduced(c, 1, ops::Select(below, g, Zero(g)));
  if (c.wants(2)) SetReduced(c, 2, ops::Select(above, g, Zero(g)));
  return absl::OkStatus();
}

// dx = op(y, g), which conjugates y by itself.
GradientTable::Rule OfOutput(const char* op) {
  return [op](Context& c) {
    c.Set(0, Binary(op, c.output(0), c.gradient()));
    return absl::OkStatus();
  };
}

void AddRoots(GradientTable& table) {
  table.Add("Sqrt", OfOutput("SqrtGrad"));
  table.Add("Rsqrt", OfOutput("RsqrtGrad"));
  table.Add("Reciprocal", OfOutput("ReciprocalGrad"));
  table.Add("Inv", OfOutput("InvGrad"));
  table.Add("Square", OfUnary([](In g, In x, In) { return g * (x * 2.0); }));
  // Second derivatives: z = b / (2a), z = -b a^3 / 2, z = -b a^2, with a conjugated. These rules see conjugates: theirs of
  // what is conjugated again is what came in.
  table.Add("SqrtGrad", OfBinary([](In g, In a, In, In z) { return -Conj(g / Conj(a)) * Conj(z); },
                                 [](In g, In a, In, In) { return (g / Conj(a)) * 0.5; }));
  table.Add("RsqrtGrad", OfBinary([](In g, In a, In b, In) { return Conj(g) * -1.5 * Conj(b) * ops::Square(a); },
                                  [](In g, In a, In, In) { return Binary("RsqrtGrad", a, g); }));
  for (const char* op : {"ReciprocalGrad", "InvGrad"}) {
    table.Add(op, OfBinary([](In g, In a, In b, In) { return Conj(g) * -2.0 * Conj(b) * a; },
                           [op](In g, In a, In, In) { return Binary(op, a, g); }));
  }
}

void AddTranscendental(GradientTable& table) {
  table.Add("Exp", OfUnary([](In g, In, In y) { return g * y; }));
  table.Add("Expm1", OfUnary([](In g, In x, In) { return g * ops::Exp(x); }));
  table.Add("Log", OfUnary([](In g, In x, In) { return g * ops::Reciprocal(x); }));
  table.Add("Log1p", OfUnary([](In g, In x, In) { return g * ops::Reciprocal(x + 1.0); }));
  table.Add("Sin", OfUnary([](In g, In x, In) { return g * ops::Cos(x); }));
  table.Add("Cos", OfUnary([](In g, In x, In) { return -(g * ops::Sin(x)); }));
  table.Add("Tan", OfUnary([](In g, In x, In) { return g * ops::Square(ops::Reciprocal(ops::Cos(x))); }));
  table.Add("Sinh", OfUnary([](In g, In x, In) { return g * Unary("Cosh", x); }));
  table.Add("Cosh", OfUnary([](In g, In x, In) { return g * Unary("Sinh", x); }));
  table.Add("Asin", OfUnary([](In g, In x, In) { return g * ops::Rsqrt(-ops::Square(x) + 1.0); }));
  table.Add("Acos", OfUnary([](In g, In x, In) { return -(g * ops::Rsqrt(-ops::Square(x) + 1.0)); }));
  table.Add("Atan", OfUnary([](In g, In x, In) { return g * ops::Reciprocal(ops::Square(x) + 1.0); }));
  table.Add("Asinh", OfUnary([](In g, In, In y) { return g / Unary("Cosh", y); }));
  table.Add("Acosh", OfUnary([](In g, In, In y) { return g / Unary("Sinh", y); }));
  table.Add("Atanh", OfUnary([](In g, In x, In) { return g * ops::Reciprocal(-ops::Square(x) + 1.0); }));
  const double two_over_root_pi = 2 / std::sqrt(M_PI);
  table.Add("Erf", OfUnary([=](In g, In x, In) { return g * (ops::Exp(-ops::Square(x)) * two_over_root_pi); }));
  table.Add("Erfc", OfUnary([=](In g, In x, In) { return g * (ops::Exp(-ops::Square(x)) * -two_over_root_pi); }));
  table.Add("Lgamma", OfUnary([](In g, In x, In) { return g * Unary("Digamma", x); }));
}

void AddBinary(GradientTable& table) {
  const auto g_alone = [](In g, In, In, In) { return g; };
  table.Add({"Add", "AddV2"}, OfBinary(g_alone, g_alone));
  table.Add("Sub", OfBinary(g_alone, [](In g, In, In, In) { return -g; }));
  table.Add("Mul", OfBinary([](In g, In, In y, In) { return g * y; }, [](In g, In x, In, In) { return g * x; }));
  table.Add({"Div", "RealDiv"}, OfBinary([](In g, In, In y, In) { return g / y; },
                                         [](In g, In x, In y, In) { return g * (-x / y / y); }));
  table.Add("DivNoNan",
            OfBinary([](In g, In, In y, In) { return Binary("DivNoNan", g, y); },
                     [](In g, In x, In y, In) { return g * Binary("DivNoNan", Binary("DivNoNan", -x, y), y); }));
  table.Add("MulNoNan", OfBinary([](In g, In, In y, In) { return Binary("MulNoNan", g, y); },
                                 [](In g, In x, In, In) { return Binary("MulNoNan", x, g); }));
  table.Add("FloorMod", OfBinary(g_alone, [](In g, In x, In y, In) { return -(g * Binary("FloorDiv", x, y)); }));
  // Of complex numbers it is |x - y|^2; g is taken to be real, as TensorFlow does.
  table.Add("SquaredDifference", OfBinary([](In g, In x, In y, In) { return g * 2.0 * Conj(x - y); },
                                          [](In g, In x, In y, In) { return -(g * 2.0 * Conj(x - y)); }));
  table.Add("Maximum", OfExtremum("GreaterEqual"));
  table.Add("Minimum", OfExtremum("LessEqual"));
  table.Add("Pow", OfBinary([](In g, In x, In y, In) { return g * y * ops::Pow(x, y - 1.0); }, PowExponentGradient));
  table.Add("Atan2", OfBinary([](In g, In y, In x, In) { return x * (g / (ops::Square(x) + ops::Square(y))); },
                              [](In g, In y, In x, In) { return -y * (g / (ops::Square(x) + ops::Square(y))); }));
  table.Add("Xlogy", OfBinary([](In g, In x, In y, In) {
                                // log(y), and 0 where x is 0.
                                const Output nonzero = Binary("NotEqual", x, Zero(x));
                                return g * Binary("Xlogy", ops::Cast(nonzero, x.dtype()), y);
                              },
                              [](In g, In x, In y, In) { return g * Binary("Xdivy", x, y); }));
  table.Add("Xdivy", OfBinary([](In g, In x, In y, In) {
                                const Output nonzero = Binary("NotEqual", x, Zero(x));
                                return g * Binary("Xdivy", ops::Cast(nonzero, x.dtype()), y);
                              },
                              [](In g, In x, In y, In) { return g * Binary("Xdivy", -x, ops::Square(y)); }));
}

}  // namespace

void AddMathGradients(GradientTable& table) {
  table.Add({"Identity", "IdentityN", "Snapshot", "CheckNumerics", "CheckNumericsV2", "EnsureShape", "Print",
             "PrintV2", "ReadVariableOp", "PlaceholderWithDefault", "GuaranteeConst", "SwapIn", "SwapOut", "RefIdentity", "DeepCopy"},
            PassThrough);
  table.Add({"AddN", "AccumulateNV2"}, AddNGradient);
  table.Add("Cast", CastGradient);
  table.Add("Neg", OfUnary([](In g, In, In) { return -g; }));
  table.Add("Abs", OfUnary([](In g, In x, In) { return g * ops::Sign(x); }));
  AddRoots(table);
  AddTranscendental(table);
  AddBinary(table);
  table.Add({"Select", "SelectV2"}, SelectGradient);
  table.Add("ClipByValue", ClipByValueGradient);
  table.Add("L2Loss", OfUnary([](In g, In x, In) { return x * g; }));
  table.Add("NextAfter", OfBinary([](In g, In, In, In) { return g; }, [](In g, In, In, In) { return Unary("ZerosLike", g); }));
  table.AddNone({"StopGradient", "Sign", "Floor", "Ceil", "Rint", "Round", "FloorDiv", "TruncateDiv", "ZerosLike",
                 "OnesLike"});
}

}  // namespace millrace
