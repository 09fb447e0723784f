// What is known of a graph's variables of strings when it is planned: those that are assigned once, with what follows from constants.
#ifndef MILLRACE_PASSES_REWRITE_KNOWN_WORDS_H_
#define MILLRACE_PASSES_REWRITE_KNOWN_WORDS_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "millrace/graph.h"
#include "millrace/op.h"
#include "passes/kernel_oracle.h"

namespace millrace {

bool IsVariableOfWords(const Node& node);
// What such a variable holds that a checkpoint gave its value: an attribute of the variable's node, a tensor.
inline constexpr const char* kRestoredWords = "_words";

// Whether it assigns one.
bool AssignsWords(const Node& node);

class KnownWords {
 public:
  // Looks through the whole graph, functions included.
  static absl::StatusOr<KnownWords> Find(const Graph& whole, const OpRegistry& ops, KernelOracle& oracle);

  // Of a variable that `user` reads. Unimplemented says why it is not known.
  absl::StatusOr<Tensor> Of(const Node& variable, const Node& user) const;

 private:
  struct Words {
    void Assign(const Node& by, Tensor assigned);

    Tensor value;
    std::string assigned_by, also_by;  // nodes; the second where there is another than the first
  };
  std::map<std::string, Words> by_name_;
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_REWRITE_KNOWN_WORDS_H_
