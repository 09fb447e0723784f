// Assert and Print, and the ops whose outputs are strings: those have no memory and their kernels do nothing.
#include <cstdio>

#include "absl/strings/str_join.h"
#include "cpu/kernels/register.h"
#include "cpu/kernels/strided_copy.h"
#include "cpu/kernels/values.h"
#include "glog/logging.h"

namespace millrace::cpu {
namespace {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

// As TensorFlow prints an element: 6 digits of floats, "?" for a string that no plan knows.
std::string ElementText(const Tensor& tensor, int64_t i) {
  switch (tensor.dtype()) {
    case DataType::kString: return tensor.strings()[i];
    case DataType::kBool: return tensor.IntAt(i) != 0 ? "1" : "0";
    case DataType::kUint64: return absl::StrCat(static_cast<uint64_t>(tensor.IntAt(i)));
    default: break;
  }
  if (IsInteger(tensor.dtype())) return absl::StrCat(tensor.IntAt(i));
  if (!IsFloating(tensor.dtype())) return "?";
  char text[32];
  std::snprintf(text, sizeof(text), "%g", tensor.DoubleAt(i));
  return text;
}

// Rows in brackets, the outermost dimension without, until `most` elements are written.
void AppendRows(const Tensor& tensor, int dim, int64_t most, int64_t& next, std::string& text) {
  const Shape& shape = tensor.shape();
  if (dim >= shape.rank()) {
    if (next < most) text += ElementText(tensor, next++);
    return;
  }
  const bool innermost = dim + 1 == shape.rank();
  for (int64_t i = 0; i < shape.dim(dim); ++i) {
    if (next >= most) {
      if (innermost && dim > 0) text += "...";
      return;
    }
    if (innermost) {
      if (i > 0) text += ' ';
      text += ElementText(tensor, next++);
    } else {
      text += '[';
      AppendRows(tensor, dim + 1, most, next, text);
      text += ']';
    }
  }
}

// TensorFlow's Tensor::SummarizeValue.
std::string Summary(const Tensor& tensor, int64_t most) {
  const int64_t elements = tensor.num_elements();
  if (most < 0) most = elements;
  std::string text;
  int64_t next = 0;
  AppendRows(tensor, 0, std::min(most, elements), next, text);
  if (most < elements) text += "...";
  return text;
}

// Input `i` of a running kernel as a tensor that shares its memory.
std::string InputSummary(const KernelContext& context, int i, int64_t most) {
  const TensorType& type = context.input_type(i);
  if (ValueReader(context).planned(i)) return Summary(context.instance->input_values[i], most);
  if (DataTypeSize(type.dtype) == 0) return "?";
  return Summary(Tensor::Wrap(type.dtype, type.shape, context.inputs[i], nullptr), most);
}

KernelOr MakeAssert(const OpInstance& instance) {
  const int64_t most = instance.attrs.GetOr<int64_t>("summarize", 3);
  return MakeKernel([most](const KernelContext& context) -> absl::Status {
    if (*static_cast<const bool*>(ValueReader(context).data(0))) return absl::OkStatus();
    std::vector<std::string> data;
    for (size_t i = 1; i < context.instance->inputs.size(); ++i) {
      data.push_back(absl::StrCat("[", InputSummary(context, static_cast<int>(i), most), "]"));
    }
    return absl::InvalidArgumentError(absl::StrCat("assertion failed: ", absl::StrJoin(data, " ")));
  });
}

KernelOr MakePrint(const OpInstance& instance) {
  const int64_t most = instance.attrs.GetOr<int64_t>("summarize", 3);
  const int64_t first = instance.attrs.GetOr<int64_t>("first_n", -1);
  const std::string message = instance.attrs.GetOr<std::string>("message", "");
  return MakeKernel([most, first, message](const KernelContext& context) {
    CopyTensor(context, context.inputs[0], context.outputs[0], context.output_type(0).size_bytes());
    int64_t& printed = *static_cast<int64_t*>(context.state);
    if (first >= 0 && printed >= first) return absl::OkStatus();
    ++printed;
    std::string text = message;
    for (size_t i = 1; i < context.instance->inputs.size(); ++i) {
      absl::StrAppend(&text, "[", InputSummary(context, static_cast<int>(i), most), "]");
    }
    LOG(INFO) << text;
    return absl::OkStatus();
  });
}

KernelOr MakePrintV2(const OpInstance&) {
  return MakeKernel([](const KernelContext& context) {
    LOG(INFO) << InputSummary(context, 0, -1);
    return absl::OkStatus();
  });
}

KernelOr MakeNothing(const OpInstance&) {
  return MakeKernel([](const KernelContext&) { return absl::OkStatus(); });
}

}  // namespace

void RegisterStringKernels(KernelRegistry& registry) {
  AddKernel(registry, "Assert", MakeAssert);
  AddKernel(registry, "Print", MakePrint);
  AddKernel(registry, "PrintV2", MakePrintV2);
  for (const char* name : {"StringFormat", "ScalarSummary", "HistogramSummary", "ImageSummary", "AudioSummaryV2",
                           "TensorSummary", "TensorSummaryV2", "MergeSummary", "AsString", "StringJoin", "StringLower",
                           "StringUpper", "StringStrip", "SummaryWriter", "CreateSummaryFileWriter", "FlushSummaryWriter", "CloseSummaryWriter",
                           "WriteSummary", "WriteScalarSummary", "WriteHistogramSummary", "WriteImageSummary", "WriteAudioSummary",
                           "WriteGraphSummary", "WriteRawProtoSummary", "Substr", "ReduceJoin", "RegexReplace", "StaticRegexReplace"}) {
    AddKernel(registry, name, MakeNothing);
  }
}

}  // namespace millrace::cpu
