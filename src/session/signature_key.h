// What a session plans for: names and types of a call of Session::Run, and what planning had to know beyond them.
#ifndef MILLRACE_SRC_SESSION_SIGNATURE_KEY_H_
#define MILLRACE_SRC_SESSION_SIGNATURE_KEY_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "millrace/session.h"
#include "millrace/tensor.h"
#include "passes/prepare.h"
#include "session/asker.h"

namespace millrace {

// Names as the caller wrote them.
struct SignatureKey {
  Session::FeedTypes feeds;
  std::vector<std::string> fetches;
  std::vector<std::string> targets;
  std::map<std::string, Tensor> feed_values;  // by tensor name, of feeds that shapes or turns of loops depend on
  Answers answers;                            // to what follows from the step itself
  bool ask = false;
  int64_t guesses = 0;
};

// "x" -> "x:0".
std::string TensorNameOf(const std::string& name);

// The memory of feeds is the caller's, who may fill it anew after the step.
std::map<std::string, Tensor> OwnCopies(const std::map<std::string, Tensor>& values);

// By tensor names, for the passes. Constants of the plan are the same where they are the same memory: feed values are copied.
Signature MakeSignature(const SignatureKey& key);

// Equal for equal keys only. Keys that differ by values begin with what they have without them, and no others do.
std::string ProgramKey(const SignatureKey& key);

}  // namespace millrace

#endif  // MILLRACE_SRC_SESSION_SIGNATURE_KEY_H_
