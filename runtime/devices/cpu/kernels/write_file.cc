// WriteFile: what planning knows, or what one op makes of a step's values (passes/rewrite/lower_prints.h), replaces the file.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "cpu/kernels/rare.h"
#include "cpu/kernels/values.h"
#include "millrace/status.h"
#include "runtime/string_evaluator.h"

namespace millrace::cpu {
namespace {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

absl::Status WriteTo(const std::string& path, const std::string& contents) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code failed;
  if (!folder.empty()) std::filesystem::create_directories(folder, failed);
  if (failed) return absl::FailedPreconditionError(absl::StrCat("cannot make folder ", folder.string(), ": ", failed.message()));
  std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "w"), std::fclose);
  if (file == nullptr) return absl::FailedPreconditionError(absl::StrCat("cannot open ", path, ": ", std::strerror(errno)));
  const bool whole = std::fwrite(contents.data(), 1, contents.size(), file.get()) == contents.size();
  if (std::fclose(file.release()) == 0 && whole) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot write to ", path, ": ", std::strerror(errno)));
}

// Input `i`, which the shape rule has seen.
absl::StatusOr<std::string> TextOf(const OpInstance& instance, int i) {
  if (ValueReader(instance).planned(i)) return instance.input_values[i].strings()[0];
  return absl::InvalidArgumentError(absl::StrCat("input ", i, " must be known when the graph is planned"));
}

absl::StatusOr<std::string> PathOf(const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const std::string name, TextOf(instance, 0));
  return std::string(absl::StripPrefix(name, "file://"));
}

KernelOr MakeWriteFile(const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(std::string path, PathOf(instance));
  MR_ASSIGN_OR_RETURN(std::string contents, TextOf(instance, 1));
  return MakeKernel([path = std::move(path), contents = std::move(contents)](const KernelContext&) { return WriteTo(path, contents); });
}

// (name of the file, what the contents are made of)
KernelOr MakeWriteMade(const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(std::string path, PathOf(instance));
  return MakeKernel([path = std::move(path)](const KernelContext& context) -> absl::Status {
    OpInstance making;
    making.op = context.instance->attrs.GetOr<std::string>("text_op", "");
    making.attrs = context.instance->attrs;
    std::vector<Tensor> values;
    for (size_t i = 1; i < context.instance->inputs.size(); ++i) {
      const TensorType& type = context.input_type(static_cast<int>(i));
      const bool planned = ValueReader(context).planned(static_cast<int>(i));
      values.push_back(planned ? context.instance->input_values[i] : Tensor::Wrap(type.dtype, type.shape, context.inputs[i], nullptr));
      making.inputs.push_back(type);
    }
    making.outputs = {TensorType{DataType::kString, Shape()}};
    const OpDef no_rules;  // only ops that move strings have use for them
    MR_ASSIGN_OR_RETURN(const std::vector<Tensor> made, EvaluateStrings(no_rules, KernelRegistry(), making, values));
    if (made[0].shape() == Shape()) return WriteTo(path, made[0].strings()[0]);
    return absl::InvalidArgumentError(absl::StrCat("Contents tensor must be scalar, but had shape: ", made[0].shape().ToString()));
  });
}

}  // namespace

void RegisterWriteFileKernels(KernelRegistry& registry) {
  AddKernel(registry, "WriteFile", MakeWriteFile);
  AddKernel(registry, "_WriteFileMade", MakeWriteMade);
}

}  // namespace millrace::cpu
