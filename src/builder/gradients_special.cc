// Gradients of special functions and remainders.
#include <cmath>

#include "builder/gradient_rules.h"

namespace millrace {
namespace {

using Context = GradientContext;
using ops::Binary;
using ops::Unary;
using In = const Output&;

template <typename Expression>
GradientTable::Rule OfUnary(Expression expression) {
  return [expression](Context& c) {
    c.Set(0, expression(c.gradient(), c.input(0), c.output(0)));
    return absl::OkStatus();
  };
}

// A broadcasting op: expressions (x, y, z) -> the derivative by one input; none stands for a constant argument.
using Derivative = Output (*)(In x, In y, In z);
GradientTable::Rule OfBinary(Derivative first, Derivative second) {
  return [first, second](Context& c) {
    MR_RETURN_IF_ERROR(ExpectRanks(c));
    const Derivative derivatives[] = {first, second};
    for (int i = 0; i < 2; ++i) {
      if (!c.wants(i) || derivatives[i] == nullptr) continue;
      SetReduced(c, i, c.gradient() * derivatives[i](c.input(0), c.input(1), c.output(0)));
    }
    return absl::OkStatus();
  };
}

// value, and `at_zero` where x is 0 (a limit that the formula does not give).
Output Unless0(In x, In value, double at_zero) {
  const Output zero = Binary("Equal", x, x.builder()->Scalar(x.dtype(), 0));
  return ops::Select(zero, x.builder()->Scalar(x.dtype(), at_zero), value);
}

// Abramowitz and Stegun 9.6.27 and 9.6.28; the scaled ones differ by the factor exp(-|x|).
void AddBessel(GradientTable& table) {
  table.Add("BesselI0", OfUnary([](In g, In x, In) { return g * Unary("BesselI1", x); }));
  table.Add("BesselI0e", OfUnary([](In g, In x, In y) { return g * (Unary("BesselI1e", x) - ops::Sign(x) * y); }));
  table.Add("BesselI1", OfUnary([](In g, In x, In y) { return g * Unless0(x, Unary("BesselI0", x) - y / x, 0.5); }));
  table.Add("BesselI1e", OfUnary([](In g, In x, In y) {
              return g * Unless0(x, Unary("BesselI0e", x) - y * (ops::Sign(x) + ops::Reciprocal(x)), 0.5);
            }));
}

// Abramowitz and Stegun 9.1.28, 9.6.27 and 9.6.28.
void AddBesselOfOtherKinds(GradientTable& table) {
  table.Add("BesselJ0", OfUnary([](In g, In x, In) { return -g * Unary("BesselJ1", x); }));
  table.Add("BesselJ1", OfUnary([](In g, In x, In y) { return g * Unless0(x, Unary("BesselJ0", x) - y / x, 0.5); }));
  table.Add("BesselY0", OfUnary([](In g, In x, In) { return -g * Unary("BesselY1", x); }));
  table.Add("BesselY1", OfUnary([](In g, In x, In y) { return g * (Unary("BesselY0", x) - y / x); }));
  table.Add("BesselK0", OfUnary([](In g, In x, In) { return -g * Unary("BesselK1", x); }));
  table.Add("BesselK0e", OfUnary([](In g, In x, In y) { return g * (y - Unary("BesselK1e", x)); }));
  table.Add("BesselK1", OfUnary([](In g, In x, In y) { return -g * (Unary("BesselK0", x) + y / x); }));
  table.Add("BesselK1e", OfUnary([](In g, In x, In y) { return g * (y - y / x - Unary("BesselK0e", x)); }));
}

void AddIntegrals(GradientTable& table) {
  table.Add("Dawsn", OfUnary([](In g, In x, In y) { return g * (ops::OnesLike(x) - x * y * 2.0); }));
  table.Add("Expint", OfUnary([](In g, In x, In) { return g * ops::Exp(x) / x; }));
  table.Add("FresnelCos", OfUnary([](In g, In x, In) { return g * Unary("Cos", ops::Square(x) * (M_PI / 2)); }));
  table.Add("FresnelSin", OfUnary([](In g, In x, In) { return g * Unary("Sin", ops::Square(x) * (M_PI / 2)); }));
  table.Add("Spence", OfUnary([](In g, In x, In) { return g * (ops::Log(x) / (ops::OnesLike(x) - x)); }));
}

// d/dx of the regularised incomplete beta function: x^(a-1) (1-x)^(b-1) / B(a, b). There is none by a and b.
absl::Status BetaincGradient(Context& c) {
  MR_RETURN_IF_ERROR(ExpectRanks(c));
  if (!c.wants(2)) return absl::OkStatus();
  const Output &a = c.input(0), &b = c.input(1), &x = c.input(2);
  const Output log_beta = Unary("Lgamma", a) + Unary("Lgamma", b) - Unary("Lgamma", a + b);
  SetReduced(c, 2, c.gradient() * ops::Exp((a - 1.0) * ops::Log(x) + (b - 1.0) * Unary("Log1p", -x) - log_beta));
  return absl::OkStatus();
}

// d/dx of the regularised lower incomplete gamma function: x^(a-1) e^-x / Gamma(a).
Output IgammaByX(In a, In x, In) { return ops::Exp((a - 1.0) * ops::Log(x) - x - Unary("Lgamma", a)); }
Output IgammaByA(In a, In x, In) { return Binary("IgammaGradA", a, x); }

void AddGamma(GradientTable& table) {
  table.Add("Digamma", OfUnary([](In g, In x, In) { return g * Binary("Polygamma", ops::OnesLike(x), x); }));
  table.Add("Polygamma", OfBinary(nullptr, [](In n, In x, In) { return Binary("Polygamma", n + 1.0, x); }));
  table.Add("Zeta", OfBinary(nullptr, [](In x, In q, In) { return -x * Binary("Zeta", x + 1.0, q); }));
  table.Add("Igamma", OfBinary(IgammaByA, IgammaByX));
  table.Add("Igammac", OfBinary([](In a, In x, In z) { return -IgammaByA(a, x, z); },
                                [](In a, In x, In z) { return -IgammaByX(a, x, z); }));
}

// A sample of the gamma distribution moves with alpha as its distribution function says (implicit differentiation,
// Figurnov et al., 2018). RandomGamma draws a sample of every alpha for each element of its shape, the stateless ops
// broadcast alpha to the shape.
absl::Status RandomGammaGradient(Context& c) {
  MR_RETURN_IF_ERROR(ExpectRanks(c));
  const int alpha = c.num_inputs() - 1;
  if (c.wants(alpha)) {
    c.Set(alpha, SumAs(c.gradient() * Binary("RandomGammaGrad", c.input(alpha), c.output(0)), c.input(alpha)));
  }
  return absl::OkStatus();
}

// x / y rounded towards zero.
Output Truncated(In x, In y) {
  const Output quotient = x / y;
  return ops::Sign(quotient) * Unary("Floor", ops::Abs(quotient));
}

}  // namespace

void AddSpecialGradients(GradientTable& table) {
  AddBessel(table);
  AddBesselOfOtherKinds(table);
  AddIntegrals(table);
  table.Add("Betainc", BetaincGradient);
  AddGamma(table);
  table.Add({"RandomGamma", "StatelessRandomGammaV2", "StatelessRandomGammaV3"}, RandomGammaGradient);
  table.Add("Erfinv", OfUnary([](In g, In, In y) { return g * (ops::Exp(ops::Square(y)) * (std::sqrt(M_PI) / 2)); }));
  table.Add("Ndtri", OfUnary([](In g, In, In y) { return g * (ops::Exp(ops::Square(y) * 0.5) * std::sqrt(2 * M_PI)); }));
  table.Add("Xlog1py", OfBinary(
                           [](In x, In y, In) {
                             const Output zero = x.builder()->Scalar(x.dtype(), 0);
                             return Binary("Xlog1py", ops::Cast(Binary("NotEqual", x, zero), x.dtype()), y);
                           },
                           [](In x, In y, In) { return Binary("Xdivy", x, y + 1.0); }));
  table.Add({"Mod", "TruncateMod"}, OfBinary([](In x, In, In) { return ops::OnesLike(x); },
                                             [](In x, In y, In) { return -Truncated(x, y); }));
}

}  // namespace millrace
