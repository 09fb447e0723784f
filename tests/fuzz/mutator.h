// A small deterministic fuzzer: inputs are made from a corpus by random edits, so that the bounded slice that runs
// in the tests needs no special compiler. With clang the same targets are libFuzzer programs (MILLRACE_FUZZ).
#ifndef MILLRACE_TESTS_FUZZ_MUTATOR_H_
#define MILLRACE_TESTS_FUZZ_MUTATOR_H_

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace millrace {

class Mutator {
 public:
  // `corpus` must not be empty.
  Mutator(std::vector<std::string> corpus, uint64_t seed) : corpus_(std::move(corpus)), random_(seed) {}

  // The next input: one of the corpus with a few edits, mostly one or two.
  std::string Next();

 private:
  uint64_t Below(uint64_t limit) { return limit == 0 ? 0 : random_() % limit; }
  void Edit(std::string& bytes);

  std::vector<std::string> corpus_;
  std::mt19937_64 random_;
};

struct FuzzCounts {
  int64_t inputs = 0;
  int64_t accepted = 0;  // for which the target returned true
};
// Feeds `target` with inputs until `inputs` have run or `seconds` (MILLRACE_FUZZ_SECONDS overrides both) are over.
FuzzCounts Fuzz(const std::vector<std::string>& corpus, uint64_t seed, int64_t inputs, double seconds,
             const std::function<bool(const std::string&)>& target);

}  // namespace millrace

#endif  // MILLRACE_TESTS_FUZZ_MUTATOR_H_
