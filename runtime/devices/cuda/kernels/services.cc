#include "cuda/kernels/services.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cuda/kernels/common.h"
#include "cuda/launch/ctc.h"
#include "cuda/launch/random_rare.h"
#include "graph/random_algorithm.h"
#include "graph/value_errors.h"
#include "graph/value_text.h"
#include "stream/driver_errors.h"

namespace millrace::cuda {
namespace {

// TensorFlow's name of an input that holds indices.
std::string_view IndicesName(const OpInstance& instance, int input) {
  const bool sparse = absl::StartsWith(instance.op, "SparseSegment");
  return absl::StrContains(instance.op, "Segment") && input == (sparse ? 2 : 1) ? "segment_ids" : "indices";
}

std::string TruncatedWords(const Fault& fault) {
  if (static_cast<TruncatedFault>(fault.value) == TruncatedFault::kParameters) return "Invalid parameters";
  const auto parameter = [&](int k) { return std::bit_cast<double>(fault.tuple[k]); };
  return absl::StrCat("TruncatedNormal rejection sampler failed to accept a sample: mean ", parameter(0), ", deviation ", parameter(1),
                      ", bounds ", parameter(2), " and ", parameter(3));
}

// Of ops that have words of their own for a number that is out of range; "": the op has none.
std::string WordsOfOp(const Fault& fault, const OpInstance& instance) {
  const std::string& op = instance.op;
  if (absl::StrContains(op, "Bincount")) {
    return absl::StrCat("Input arr must be non-negative!, element ", fault.at, " is ", fault.value);
  }
  if (op == "InvertPermutation") {
    const bool twice = fault.value >= 0 && fault.value < fault.limit;
    return twice ? absl::StrCat(fault.value, " is duplicated in the input.") : absl::StrCat(fault.value, " is not between 0 and ", fault.limit);
  }
  if (op == "ReverseSequence") {
    const std::string length = absl::StrCat("seq_lens(", fault.at, ")");
    return fault.value < 0 ? absl::StrCat(length, " < 0")
                           : absl::StrCat(length, " > input.dims(", instance.attrs.GetOr<int64_t>("seq_dim", 0), ")");
  }
  if (absl::StartsWith(op, "CropAndResize")) {
    return absl::StrCat("box_index has values outside [0, batch_size): box_index[", fault.at, "] = ", fault.value, ", batch_size ",
                        fault.limit);
  }
  if (absl::StartsWith(op, "BlockLSTM")) return absl::StrCat("seq_len_max is ", fault.value, ", expected 0 to ", fault.limit - 1, ", the steps of x");
  if (op == "MaxPoolGradWithArgmax") {
    return absl::StrCat("argmax[", fault.at, "] = ", fault.value, " is not in its image of ", fault.limit, " elements");
  }
  if (op == "RandomIndexShuffle") {
    return IsIndex(instance.inputs[0].dtype) && fault.value < 0 ? absl::StrCat("index must be >= 0 but was ", fault.value)
                                               : absl::StrCat("max_index must be >= index, but ", fault.limit - 1, " < ", fault.value);
  }
  if ((absl::StartsWith(op, "Stateless") && absl::EndsWith(op, "V2")) || op == "StatelessShuffle" || op == "StatelessRandomGammaV3") {
    return absl::StrCat("random algorithm ", fault.value, " is not supported, expected ", kAlgorithmPhilox, " (Philox) or ", kAlgorithmAuto,
                        " (auto)");
  }
  if (absl::StrContains(op, "ParameterizedTruncatedNormal")) return TruncatedWords(fault);
  if (absl::StartsWith(op, "CudnnRNN")) return absl::StrCat("sequence_lengths[", fault.at, "] = ", fault.value, " is not in [0, ", fault.limit - 1, "]");
  if (absl::StartsWith(op, "ScaleAndTranslate")) {
    return absl::StrCat("Scale should be greater than zero, got ", std::bit_cast<double>(fault.value));
  }
  if (absl::StartsWith(op, "QuantizeAndDequantize")) return absl::StrCat("num_bits is out of range: ", fault.value);
  return "";
}

bool HasInput(const OpInstance& instance, int input) { return input < static_cast<int>(instance.inputs.size()); }

absl::Status IndexFault(const Fault& fault, const OpInstance& instance) {
  const std::string range = absl::StrCat("[0, ", fault.limit, ")");
  if (fault.at < 0 || !HasInput(instance, fault.detail)) {
    return absl::InvalidArgumentError(absl::StrCat("input ", fault.detail, ": ", fault.value, " is not in ", range));
  }
  if (const std::string words = WordsOfOp(fault, instance); !words.empty()) return absl::InvalidArgumentError(words);
  const std::string_view name = IndicesName(instance, fault.detail);
  const std::string element =
      absl::StrCat(std::string(name), IndexString(instance.inputs[fault.detail].shape, fault.at), " = ", fault.value);
  if (name == "segment_ids") return absl::InvalidArgumentError(absl::StrCat(element, " is out of range ", range));
  if (instance.op == "SparseTensorDenseMatMul") {
    return absl::InvalidArgumentError(absl::StrCat(element, " is out of bounds: need 0 <= index < ", fault.limit));
  }
  return absl::InvalidArgumentError(absl::StrCat(element, " is not in ", range));
}

absl::Status TupleFault(const Fault& fault, const OpInstance& instance) {
  if (!HasInput(instance, fault.detail)) return absl::InvalidArgumentError(absl::StrCat("index tuple ", fault.at, " is out of range"));
  const TensorType& sliced = instance.op == "ScatterNd" ? instance.outputs[0] : instance.inputs[0];
  return NdIndexError(instance.inputs[fault.detail].shape, fault.at, absl::MakeConstSpan(fault.tuple, fault.value), sliced.shape);
}

absl::Status LabelFault(const Fault& fault) {
  return absl::InvalidArgumentError(
      absl::StrCat("label ", fault.value, " of row ", fault.at, " is out of range, expected [0, ", fault.limit, ")"));
}

absl::Status SequenceFault(const Fault& fault) {
  const std::string sequence = absl::StrCat("sequence ", fault.at), label = absl::StrCat("labels_indices[", fault.at, "]");
  switch (static_cast<CtcFault>(fault.detail)) {
    case CtcFault::kLength:
      return absl::InvalidArgumentError(absl::StrCat("sequence_length[", fault.at, "] is ", fault.value, ", expected [0, ", fault.limit, "]"));
    case CtcFault::kNoLabels: return absl::InvalidArgumentError(absl::StrCat(sequence, " has no labels"));
    case CtcFault::kLabel: return absl::InvalidArgumentError(absl::StrCat("label ", fault.value, " of ", sequence, " is out of range"));
    case CtcFault::kAfterNull:
      return absl::InvalidArgumentError(absl::StrCat("label ", fault.value, " of ", sequence, " follows a null label (one of at least ",
                                                     fault.limit, ")"));
    case CtcFault::kTooManyLabels:
      return absl::InvalidArgumentError(absl::StrCat(sequence, " has ", fault.value, " labels but only ", fault.limit,
                                                     " times; ignore_longer_outputs_than_inputs would skip it"));
    case CtcFault::kSequenceOfLabel:
      return absl::InvalidArgumentError(
          absl::StrCat(label, " is of sequence ", fault.value, ", expected a sequence in [0, ", fault.limit, ")"));
    case CtcFault::kOrderOfLabel:
      return absl::InvalidArgumentError(
          absl::StrCat(label, " is [", fault.value, ",", fault.limit, "], which is repeated or out of order"));
  }
  return absl::InternalError("a kernel reported a fault of sequences of an unknown kind");
}

int64_t MostShown(const OpInstance& instance) { return instance.attrs.GetOr<int64_t>("summarize", 3); }

absl::Status AssertionFault(const Fault& fault, const OpInstance& instance) {
  std::vector<std::string> data;
  for (size_t i = 1; i < instance.inputs.size(); ++i) {
    const Tensor* const value = ValueOf(instance, i);
    data.push_back(value != nullptr ? FirstValuesText(*value, MostShown(instance)) : "?");
  }
  const int64_t* element = fault.tuple;
  for (const auto& [input, count] : ShownInputs(instance)) {
    const TensorType& type = instance.inputs[input];
    const int64_t bytes = DataTypeSize(type.dtype);
    alignas(int64_t) char first[sizeof(fault.tuple)];
    for (int64_t k = 0; k < count; ++k) std::memcpy(first + k * bytes, element++, bytes);
    data[input - 1] = FirstValuesText(Tensor::Wrap(type.dtype, type.shape, first, nullptr), MostShown(instance));
  }
  return absl::InvalidArgumentError(absl::StrCat("assertion failed: [", absl::StrJoin(data, "] ["), "]"));
}

}  // namespace

std::vector<ShownInput> ShownInputs(const OpInstance& instance) {
  std::vector<ShownInput> shown;
  const int64_t most = MostShown(instance);
  for (int i = 1; i < static_cast<int>(instance.inputs.size()); ++i) {
    if (ValueOf(instance, i) != nullptr || DataTypeSize(instance.inputs[i].dtype) == 0) continue;
    const int64_t elements = instance.inputs[i].shape.num_elements();
    shown.push_back({i, most < 0 ? elements : std::min(most, elements)});
  }
  return shown;
}

absl::Status FaultStatus(const Fault& fault, const OpInstance& instance) {
  switch (fault.code) {
    case FaultCode::kNone: return absl::OkStatus();
    case FaultCode::kOnHost: break;
    case FaultCode::kElsewhere: return FailedElsewhere();
    case FaultCode::kIndexOutOfRange: return IndexFault(fault, instance);
    case FaultCode::kTupleOutOfRange: return TupleFault(fault, instance);
    case FaultCode::kNotBelow:
      return absl::InvalidArgumentError(
          absl::StrCat("minval is ", fault.value, " and maxval ", fault.limit, ", expected minval < maxval"));
    case FaultCode::kBadRange:
      return absl::InvalidArgumentError(absl::StrCat("Invalid range: input_min ", std::bit_cast<double>(fault.value), " > input_max ",
                                                     std::bit_cast<double>(fault.limit)));
    case FaultCode::kNotSorted: return absl::InvalidArgumentError("segment ids are not increasing");
    case FaultCode::kNotFinite:
      if (instance.op == "CropAndResize") return absl::InvalidArgumentError("Boxes contains at least one element that is not finite");
      return NotFiniteError(instance.attrs.GetOr<std::string>("message", ""), static_cast<uint32_t>(fault.detail),
                            instance.op == "CheckNumericsV2");
    case FaultCode::kNotInvertible: return absl::InvalidArgumentError("Input is not invertible.");
    case FaultCode::kAssertion: return AssertionFault(fault, instance);
    case FaultCode::kDivisionByZero: return absl::InvalidArgumentError("Integer division by zero");
    case FaultCode::kBadLabel: return LabelFault(fault);
    case FaultCode::kBadSequence: return SequenceFault(fault);
  }
  return absl::InternalError("a kernel reported a fault of an unknown kind");
}

}  // namespace millrace::cuda
