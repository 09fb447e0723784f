// Assert and Print, and the ops whose outputs are strings: those have no memory and their kernels do nothing.
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/match.h"
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

// Where PrintV2 writes to: a stream, the log, or the end of a file.
class PrintStream {
 public:
  static absl::StatusOr<PrintStream> Of(const AttrMap& attrs) {
    PrintStream stream;
    stream.name_ = attrs.GetOr<std::string>("output_stream", "stderr");
    stream.end_ = attrs.GetOr<std::string>("end", "\n");
    const bool known = absl::StartsWith(stream.name_, kFile) || stream.name_ == "stdout" || stream.name_ == "stderr" || stream.name_ == "log(info)" ||
                       stream.name_ == "log(warning)" || stream.name_ == "log(error)";
    if (known) return stream;
    return absl::InvalidArgumentError(absl::StrCat("Unknown output stream: ", stream.name_));
  }

  absl::Status Write(const std::string& text) const {
    if (name_ == "log(info)") LOG(INFO) << text << end_;
    if (name_ == "log(warning)") LOG(WARNING) << text << end_;
    if (name_ == "log(error)") LOG(ERROR) << text << end_;
    if (name_ == "stdout") return Put(stdout, text);
    if (name_ == "stderr") return Put(stderr, text);
    if (!absl::StartsWith(name_, kFile)) return absl::OkStatus();
    const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(name_.c_str() + kFile.size(), "a"), std::fclose);
    if (file != nullptr) return Put(file.get(), text);
    return absl::InvalidArgumentError(absl::StrCat("cannot append to ", name_, ": ", std::strerror(errno)));
  }

 private:
  static constexpr absl::string_view kFile = "file://";

  absl::Status Put(FILE* file, const std::string& text) const {
    const std::string line = text + end_;
    if (std::fwrite(line.data(), 1, line.size(), file) == line.size() && std::fflush(file) == 0) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat("cannot write to ", name_, ": ", std::strerror(errno)));
  }

  std::string name_, end_;
};

KernelOr MakePrintV2(const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const PrintStream stream, PrintStream::Of(instance.attrs));
  return MakeKernel([stream](const KernelContext& context) { return stream.Write(InputSummary(context, 0, -1)); });
}

KernelOr MakePrintFormatted(const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const PrintStream stream, PrintStream::Of(instance.attrs));
  return MakeKernel([stream, text = ValueTemplate(instance.attrs)](const KernelContext& context) {
    std::vector<std::string> values;
    for (size_t i = 0; i < context.instance->inputs.size(); ++i) {
      values.push_back(InputSummary(context, static_cast<int>(i), text.most(), EndValuesText));
    }
    return stream.Write(text.Filled(values));
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
                           "WriteGraphSummary", "WriteRawProtoSummary", "ReadFile", "SerializeTensor", "ShardedFilename", "ShardedFilespec", "Substr", "ReduceJoin", "RegexReplace", "StaticRegexReplace"}) {
    AddKernel(registry, name, MakeNothing);
  }
}

}  // namespace millrace::cpu
