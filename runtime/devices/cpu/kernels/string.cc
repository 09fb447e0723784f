// Assert and Print, and the ops whose outputs are strings: those have no memory and their kernels do nothing.
#include "absl/strings/str_join.h"
#include "cpu/kernels/register.h"
#include "cpu/kernels/strided_copy.h"
#include "cpu/kernels/values.h"
#include "glog/logging.h"
#include "graph/value_text.h"

namespace millrace::cpu {
namespace {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

// Input `i` of a running kernel; "?" for strings that no plan knows.
std::string InputSummary(const KernelContext& context, int i, int64_t most, decltype(FirstValuesText)& text_of = FirstValuesText) {
  const TensorType& type = context.input_type(i);
  if (ValueReader(context).planned(i)) return text_of(context.instance->input_values[i], most);
  if (DataTypeSize(type.dtype) == 0) return "?";
  return text_of(Tensor::Wrap(type.dtype, type.shape, context.inputs[i], nullptr), most);
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

KernelOr MakePrintFormatted(const OpInstance& instance) {
  return MakeKernel([text = ValueTemplate(instance.attrs)](const KernelContext& context) {
    std::vector<std::string> values;
    for (size_t i = 0; i < context.instance->inputs.size(); ++i) {
      values.push_back(InputSummary(context, static_cast<int>(i), text.most(), EndValuesText));
    }
    LOG(INFO) << text.Filled(values);
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
  AddKernel(registry, "_PrintFormatted", MakePrintFormatted);
  for (const char* name : {"StringFormat", "ScalarSummary", "HistogramSummary", "ImageSummary", "AudioSummaryV2",
                           "TensorSummary", "TensorSummaryV2", "MergeSummary", "AsString", "StringJoin", "StringLower",
                           "StringUpper", "StringStrip", "SummaryWriter", "CreateSummaryFileWriter", "FlushSummaryWriter", "CloseSummaryWriter",
                           "WriteSummary", "WriteScalarSummary", "WriteHistogramSummary", "WriteImageSummary", "WriteAudioSummary",
                           "WriteGraphSummary", "WriteRawProtoSummary", "Substr", "ReduceJoin", "RegexReplace", "StaticRegexReplace"}) {
    AddKernel(registry, name, MakeNothing);
  }
}

}  // namespace millrace::cpu
