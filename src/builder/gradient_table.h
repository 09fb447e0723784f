// The built-in gradient rules, one family per source file.
#ifndef MILLRACE_SRC_BUILDER_GRADIENT_TABLE_H_
#define MILLRACE_SRC_BUILDER_GRADIENT_TABLE_H_

#include <functional>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "millrace/gradients.h"

namespace millrace {

class GradientTable {
 public:
  using Rule = std::function<absl::Status(GradientContext&)>;

  // CHECK-fails when the op has a rule already.
  void Add(std::string_view op, Rule rule);
  void Add(std::initializer_list<std::string_view> ops, const Rule& rule) {
    for (std::string_view op : ops) Add(op, rule);
  }
  // The outputs do not depend smoothly on the inputs: no gradient flows, and that is no error.
  void AddNone(std::initializer_list<std::string_view> ops);

  // The rule of every op, built once.
  static const GradientTable& Builtin();
  const Rule* Find(const std::string& op) const;  // nullptr when there is none
  // Why an op that is not differentiable has no gradient; nullptr for other ops.
  static const char* NotDifferentiable(const std::string& op);
  bool PassesNone(const std::string& op) const { return none_.count(op) > 0; }

 private:
  std::map<std::string, Rule> rules_;
  std::set<std::string> none_;
};

void AddMathGradients(GradientTable& table);      // elementwise ops
void AddActivationGradients(GradientTable& table);  // Relu and its kin, and their gradients
void AddReductionGradients(GradientTable& table);
void AddMatMulGradients(GradientTable& table);
void AddEinsumGradients(GradientTable& table);
void AddArrayGradients(GradientTable& table);     // shapes, concatenation, slices
void AddGatherGradients(GradientTable& table);    // gathers, scatters, segments
void AddConvGradients(GradientTable& table);
void AddLayoutGradients(GradientTable& table);    // diagonals, patches, blocks
void AddSegmentGradients(GradientTable& table);   // segment reductions, scatters that choose
void AddSpecialGradients(GradientTable& table);   // special functions, remainders
void AddPoolGradients(GradientTable& table);
void AddNormGradients(GradientTable& table);      // batch norm, LRN
void AddLinalgGradients(GradientTable& table);    // decompositions and solutions of matrices
void AddSparseGradients(GradientTable& table);
void AddImageGradients(GradientTable& table);     // colours, crops, projections, fake quantisation
void AddRareGradients(GradientTable& table);      // recurrent blocks, morphology, round trips
void AddComplexGradients(GradientTable& table);   // parts of complex numbers, Fourier transforms
void AddLossGradients(GradientTable& table);      // softmax, cross entropies, CTC

}  // namespace millrace

#endif  // MILLRACE_SRC_BUILDER_GRADIENT_TABLE_H_
