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

  // The next input: one of the corpus with one to eight edits.
  std::string Next();

 private:
  uint64_t Below(uint64_t limit) { return limit == 0 ? 0 : random_() % limit; }
  void Edit(std::string& bytes);

  std::vector<std::string> corpus_;
  std::mt19937_64 random_;
};

// Feeds `target` with inputs until `inputs` have run or `seconds` (MILLRACE_FUZZ_SECONDS overrides) are over.
// Returns how many ran.
int64_t Fuzz(const std::vector<std::string>& corpus, uint64_t seed, int64_t inputs, double seconds,
             const std::function<void(const std::string&)>& target);

}  // namespace millrace

#endif  // MILLRACE_TESTS_FUZZ_MUTATOR_H_
