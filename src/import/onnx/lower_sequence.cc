// Sequences whose lengths are known while the model is read: no node stands for one, its tensors are taken by their places.
// Optionals, of which it is known whether they hold something.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "onnx/lowering.h"

namespace millrace::onnx {
namespace {

constexpr int64_t kMostTensors = 20000;

absl::Status SequenceConstruct(NodeContext& c) {
  Sequence tensors;
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (!c.has(i)) return c.Error(absl::StrCat("input ", i, " is missing"));
    tensors.push_back(c.in(i));
  }
  c.Set(0, ValueOf(std::move(tensors)));
  return absl::OkStatus();
}

absl::Status SequenceEmpty(NodeContext& c) {
  c.Set(0, ValueOf(Sequence()));
  return absl::OkStatus();
}

// The place that input `i` says, negative from the end; `end` is the largest that is allowed.
absl::StatusOr<int64_t> Place(NodeContext& c, int i, int64_t size, int64_t end) {
  MR_ASSIGN_OR_RETURN(const IntList place, c.ConstantInts(i));
  if (place.size() != 1) return c.Error(absl::StrCat("input ", i, " has ", place.size(), " elements, expected one"));
  const int64_t at = place[0] < 0 ? place[0] + size : place[0];
  if (at < 0 || at > end) return c.Error(absl::StrCat("place ", place[0], " in a sequence of ", size));
  return at;
}

absl::Status SequenceAt(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(2, 2));
  MR_ASSIGN_OR_RETURN(const Sequence tensors, c.sequence(0));
  const int64_t size = static_cast<int64_t>(tensors.size());
  MR_ASSIGN_OR_RETURN(const int64_t at, Place(c, 1, size, size - 1));
  c.Set(0, tensors[at]);
  return absl::OkStatus();
}

absl::Status SequenceInsert(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(2, 3));
  MR_ASSIGN_OR_RETURN(Sequence tensors, c.sequence(0));
  const Output tensor = c.in(1);
  if (!tensor.valid()) return absl::OkStatus();
  if (!tensors.empty() && tensors[0].dtype() != tensor.dtype()) {
    return c.Error(absl::StrCat("a ", tensor.type().ToString(), " for a sequence of ", tensors[0].type().ToString()));
  }
  int64_t at = static_cast<int64_t>(tensors.size());
  if (at >= kMostTensors) return c.Unsupported(absl::StrCat("a sequence of more than ", kMostTensors, " tensors"));
  if (c.has(2)) {
    MR_ASSIGN_OR_RETURN(at, Place(c, 2, at, at));
  }
  tensors.insert(tensors.begin() + at, tensor);
  c.Set(0, ValueOf(std::move(tensors)));
  return absl::OkStatus();
}

absl::Status SequenceErase(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 2));
  MR_ASSIGN_OR_RETURN(Sequence tensors, c.sequence(0));
  const int64_t size = static_cast<int64_t>(tensors.size());
  if (size == 0) return c.Error("the sequence is empty");
  int64_t at = size - 1;
  if (c.has(1)) {
    MR_ASSIGN_OR_RETURN(at, Place(c, 1, size, size - 1));
  }
  tensors.erase(tensors.begin() + at);
  c.Set(0, ValueOf(std::move(tensors)));
  return absl::OkStatus();
}

absl::Status SequenceLength(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  MR_ASSIGN_OR_RETURN(const Sequence tensors, c.sequence(0));
  c.Set(0, c.b.SharedConst(Tensor::Scalar<int64_t>(static_cast<int64_t>(tensors.size()))));
  return absl::OkStatus();
}

// Parts of given sizes, of one size (the last may be smaller), or slices of which the dimension may be dropped.
absl::Status SplitToSequence(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 2));
  const Output x = c.in(0);
  if (!x.valid()) return absl::OkStatus();
  MR_ASSIGN_OR_RETURN(const int64_t axis, c.Axis(c.Int("axis", 0), x.rank()));
  const int64_t length = x.dim(static_cast<int>(axis));
  if (!c.has(1)) {
    if (length > kMostTensors) return c.Unsupported(absl::StrCat("a sequence of more than ", kMostTensors, " tensors"));
    Sequence slices = ops::Unpack(x, axis);
    if (c.Int("keepdims", 1) != 0) {
      for (Output& slice : slices) slice = ops::ExpandDims(slice, axis);
    }
    c.Set(0, ValueOf(std::move(slices)));
    return absl::OkStatus();
  }
  MR_ASSIGN_OR_RETURN(const Tensor given, c.Constant(1));
  MR_ASSIGN_OR_RETURN(IntList sizes, c.ConstantInts(1));
  if (given.shape().rank() == 0) {
    const int64_t part = sizes[0];
    if (part < 1 || length / part > kMostTensors) return c.Error(absl::StrCat("parts of ", part, " out of ", length));
    sizes.clear();
    for (int64_t from = 0; from < length; from += part) sizes.push_back(std::min(part, length - from));
  }
  int64_t sum = 0;
  for (int64_t size : sizes) {
    if (size < 0 || size > length) return c.Error(absl::StrCat("a part of ", size, " out of ", length));
    sum += size;
  }
  if (sum != length) return c.Error(absl::StrCat("parts of ", sum, " in all, expected ", length));
  c.Set(0, ValueOf(sizes.size() == 1 ? Sequence{x} : ops::SplitV(x, sizes, axis)));
  return absl::OkStatus();
}

absl::Status ConcatFromSequence(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  MR_ASSIGN_OR_RETURN(const Sequence tensors, c.sequence(0));
  if (tensors.empty()) return c.Error("the sequence is empty");
  if (!tensors[0].valid()) return absl::OkStatus();
  const bool stacks = c.Int("new_axis", 0) != 0;
  if (c.Attribute("axis") == nullptr) return c.Error("axis is missing");
  MR_ASSIGN_OR_RETURN(const int64_t axis, c.Axis(c.Int("axis", 0), tensors[0].rank() + (stacks ? 1 : 0)));
  c.Set(0, stacks ? ops::Pack(tensors, axis) : ops::Concat(tensors, axis));
  return absl::OkStatus();
}

// A body for every place of the sequences; inputs that are tensors are the same for all.
absl::Status SequenceMap(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, INT32_MAX));
  const onnx_proto::AttributeProto* body = c.Attribute("body");
  if (body == nullptr) return c.Error("the body is missing");
  MR_ASSIGN_OR_RETURN(const Sequence first, c.sequence(0));
  std::vector<ModelValue> inputs;
  for (int i = 0; i < c.num_inputs(); ++i) {
    inputs.push_back(c.any(i));
    if (inputs[i].sequence == nullptr || inputs[i].sequence->size() == first.size()) continue;
    return c.Error(absl::StrCat("sequences of ", first.size(), " and ", inputs[i].sequence->size(), " tensors"));
  }
  std::vector<Sequence> results(c.num_outputs());
  for (size_t place = 0; place < first.size(); ++place) {
    std::vector<ModelValue> here;
    for (const ModelValue& input : inputs) here.push_back(input.sequence == nullptr ? input : ValueOf((*input.sequence)[place]));
    MR_ASSIGN_OR_RETURN(const std::vector<ModelValue> outputs, c.source().Lower(body->g(), here));
    if (outputs.size() != results.size()) return c.Error("the body has another number of outputs");
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i].sequence != nullptr) return c.Error("the body gives a sequence, expected tensors");
      results[i].push_back(outputs[i].tensor);
    }
  }
  for (int i = 0; i < c.num_outputs(); ++i) c.Set(i, ValueOf(std::move(results[i])));
  return absl::OkStatus();
}

absl::Status HoldsSomething(NodeContext& c) {
  c.Set(0, c.b.SharedConst(Tensor::Scalar<bool>(c.has(0))));
  return absl::OkStatus();
}

absl::Status WhatItHolds(NodeContext& c) {
  if (!c.has(0)) return c.Unsupported("an optional that holds nothing");
  c.Set(0, c.any(0));
  return absl::OkStatus();
}

}  // namespace

void AddSequenceLowerings(LoweringTable& table) {
  for (const auto& [op, lowering] : std::initializer_list<std::pair<const char*, Lowering>>{
           {"SequenceConstruct", SequenceConstruct},
           {"SequenceEmpty", SequenceEmpty},
           {"SequenceAt", SequenceAt},
           {"SequenceInsert", SequenceInsert},
           {"SequenceErase", SequenceErase},
           {"SequenceLength", SequenceLength},
           {"SplitToSequence", SplitToSequence},
           {"ConcatFromSequence", ConcatFromSequence},
           {"SequenceMap", SequenceMap},
           {"Optional", WhatItHolds},
           {"OptionalGetElement", WhatItHolds},
           {"OptionalHasElement", HoldsSomething}}) {
    table.Add(op, lowering);
  }
}

}  // namespace millrace::onnx
