#include "conformance/harness.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/with_message.h"
#include "millrace/status.h"
#include "runtime/op_evaluator.h"

namespace millrace::conformance {
namespace {

constexpr int64_t kRedZone = 256;  // bytes behind every buffer that nobody may write
constexpr int64_t kLargestOutput = int64_t{16} << 20;  // bytes: an edited case may ask for more memory than there is
constexpr int64_t kLargestScratch = int64_t{256} << 20;

// A buffer on the device, filled with `fill` behind its value, with a red zone behind it.
class Buffer {
 public:
  Buffer(TestDevice& device, int64_t bytes, uint8_t fill, const Tensor* value = nullptr)
      : device_(device), bytes_(bytes), fill_(fill), memory_(device.Allocate(AlignUp(bytes) + kRedZone)) {
    std::vector<uint8_t> content(AlignUp(bytes) + kRedZone, fill);
    if (value != nullptr && value->size_bytes() > 0) std::memcpy(content.data(), value->data(), static_cast<size_t>(value->size_bytes()));
    device_.CopyToDevice(memory_, content.data(), static_cast<int64_t>(content.size()));
  }
  ~Buffer() { device_.Free(memory_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* memory() const { return memory_; }
  // As the kernels left it: it is read once, since that is what takes longest on a device.
  Tensor Get(const TensorType& type) const {
    Tensor tensor(type.dtype, type.shape);
    if (tensor.size_bytes() > 0) std::memcpy(tensor.mutable_data(), After().data(), static_cast<size_t>(tensor.size_bytes()));
    return tensor;
  }
  bool RedZoneIntact() const {
    const std::vector<uint8_t>& after = After();
    return std::all_of(after.begin() + bytes_, after.end(), [&](uint8_t byte) { return byte == fill_; });
  }

 private:
  const std::vector<uint8_t>& After() const {
    if (after_.empty()) {
      after_.resize(AlignUp(bytes_) + kRedZone);
      device_.CopyToHost(after_.data(), memory_, static_cast<int64_t>(after_.size()));
    }
    return after_;
  }

  TestDevice& device_;
  int64_t bytes_;
  uint8_t fill_;
  void* memory_;
  mutable std::vector<uint8_t> after_;
};

struct RunOptions {
  uint8_t fill = 0xA5;
  ParallelRunner* runner = nullptr;
  std::optional<std::pair<int, int>> in_place;  // {output, input}
};

struct RunResult {
  std::vector<Tensor> outputs;
  std::vector<Tensor> variables;  // by input; empty() where it is none
};

class CaseRun {
 public:
  CaseRun(const Case& test, const OpDef& def, TestDevice& device) : test_(test), def_(def), device_(device) {}

  // Fills in the instance, with or without the values that the shape rule asks for.
  absl::Status Prepare(bool with_values);
  const OpInstance& instance() const { return instance_; }
  absl::StatusOr<RunResult> Run(const Kernel& kernel, const RunOptions& options);
  absl::Status Compare(const RunResult& result, bool strings = false) const;

 private:
  // The context keeps track of the first 64 inputs only.
  bool ByValue(size_t input) const {
    return input < 64 && input < instance_.input_values.size() && !instance_.input_values[input].empty();
  }
  using Buffers = std::vector<std::unique_ptr<Buffer>>;
  Buffers MakeInputs(uint8_t fill);
  absl::Status CheckAfterRun(const Buffers& inputs, const Buffers& outputs, const RunOptions& options) const;

  const Case& test_;
  const OpDef& def_;
  TestDevice& device_;
  OpInstance instance_;
};

absl::Status CaseRun::Prepare(bool with_values) {
  instance_ = OpInstance();
  instance_.name = test_.name;
  instance_.op = test_.op;
  instance_.attrs = test_.attrs;
  std::vector<const Tensor*> values;
  for (size_t i = 0; i < test_.inputs.size(); ++i) {
    instance_.inputs.push_back(test_.inputs[i].type());
    // Strings have no memory on a device: they are always taken by value.
    const bool known = with_values || test_.inputs[i].dtype() == DataType::kString;
    values.push_back(known && !test_.is_variable[i] ? &test_.inputs[i] : nullptr);
  }
  InferenceContext context(instance_.name, instance_.op, instance_.attrs, instance_.inputs, values);
  MR_RETURN_IF_ERROR(def_.InferShapes(context));
  instance_.outputs.assign(context.outputs().begin(), context.outputs().end());
  for (const TensorType& type : instance_.outputs) {
    if (!type.shape.fully_known()) return absl::InvalidArgumentError("the shape rule left an output's shape open");
    if (type.size_bytes() > kLargestOutput) return absl::ResourceExhaustedError("an output is too large for a test");
  }
  instance_.input_values.resize(test_.inputs.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const bool asked = i >= 64 || ((context.by_value() >> i) & 1) != 0;
    if (values[i] != nullptr && (asked || values[i]->dtype() == DataType::kString)) {
      instance_.input_values[i] = *values[i];
    }
  }
  return absl::OkStatus();
}

CaseRun::Buffers CaseRun::MakeInputs(uint8_t fill) {
  Buffers buffers;
  for (size_t i = 0; i < test_.inputs.size(); ++i) {
    // An input taken by value has no memory at run time: its buffer stays garbage.
    buffers.push_back(std::make_unique<Buffer>(device_, test_.inputs[i].size_bytes(), fill, ByValue(i) ? nullptr : &test_.inputs[i]));
  }
  return buffers;
}

absl::Status CaseRun::CheckAfterRun(const Buffers& inputs, const Buffers& outputs, const RunOptions& options) const {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i]->RedZoneIntact()) return absl::InternalError(absl::StrCat("wrote behind input ", i));
    const bool overwritten = options.in_place && options.in_place->second == static_cast<int>(i);
    if (!test_.is_variable[i] && !ByValue(i) && !overwritten && test_.inputs[i].dtype() != DataType::kString &&
        !inputs[i]->Get(test_.inputs[i].type()).BitEqual(test_.inputs[i])) {
      return absl::InternalError(absl::StrCat("changed its input ", i));
    }
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i]->RedZoneIntact()) return absl::InternalError(absl::StrCat("wrote behind output ", i));
  }
  return absl::OkStatus();
}

absl::StatusOr<RunResult> CaseRun::Run(const Kernel& kernel, const RunOptions& options) {
  const Buffers inputs = MakeInputs(options.fill);
  Buffers outputs;
  for (const TensorType& type : instance_.outputs) {
    outputs.push_back(std::make_unique<Buffer>(device_, type.size_bytes(), options.fill));
  }
  if (kernel.scratch_bytes() > kLargestScratch) return absl::ResourceExhaustedError("scratch is too large for a test");
  const Buffer scratch(device_, kernel.scratch_bytes(), options.fill);
  const Tensor state(DataType::kUint8, Shape({def_.state_bytes}));
  Tensor mutable_state = state;
  std::vector<void*> in, out;
  for (const auto& buffer : inputs) in.push_back(buffer->memory());
  for (const auto& buffer : outputs) out.push_back(buffer->memory());
  if (def_.returns_variable) out[0] = in[0];
  if (options.in_place) out[options.in_place->first] = in[options.in_place->second];
  const bool initialized = true;
  const std::vector<const bool*> all_initialized(in.size(), &initialized);
  std::vector<Shape> shapes;
  for (const TensorType& type : instance_.outputs) shapes.push_back(type.shape);
  KernelContext context;
  context.instance = &instance_;
  context.inputs = in.data();
  context.outputs = out.data();
  context.scratch = scratch.memory();
  context.state = mutable_state.mutable_data();
  context.parallel = options.runner;
  context.stream = device_.stream();
  context.initialized = all_initialized.data();
  context.output_shapes = shapes.data();
  for (int64_t run = 0; run < test_.runs; ++run) {
    MR_RETURN_IF_ERROR(kernel.Run(context));
    MR_RETURN_IF_ERROR(device_.Synchronize(instance_));
  }
  if (!scratch.RedZoneIntact()) return absl::InternalError("wrote behind its scratch");
  MR_RETURN_IF_ERROR(CheckAfterRun(inputs, outputs, options));
  RunResult result;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const TensorType type = {instance_.outputs[i].dtype, shapes[i]};
    const bool in_variable = def_.returns_variable && i == 0;
    const bool in_input = options.in_place && options.in_place->first == static_cast<int>(i);
    result.outputs.push_back(in_variable ? inputs[0]->Get(type)
                             : in_input  ? inputs[options.in_place->second]->Get(type)
                                         : outputs[i]->Get(type));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    result.variables.push_back(test_.is_variable[i] ? inputs[i]->Get(test_.inputs[i].type()) : Tensor());
  }
  return result;
}

double Epsilon(DataType dtype) {
  switch (dtype) {
    case DataType::kFloat: return 1.2e-7;
    case DataType::kDouble: return 2.3e-16;
    case DataType::kHalf: return 9.8e-4;
    case DataType::kBfloat16: return 7.9e-3;
    default: return 0;
  }
}

absl::Status CaseRun::Compare(const RunResult& result, bool strings) const {
  const auto compare = [&](const Tensor& actual, const auto& expected, const std::string& what) {
    const double ulps = device_.ulps() * Epsilon(actual.dtype());
    const double atol = std::max({test_.atol, ulps, device_.slack(test_)});
    return WithPrefix(CompareTensors(actual, expected, std::max<double>(test_.rtol, ulps), atol), what);
  };
  for (const auto& [i, expected] : test_.outputs) {
    if (i >= static_cast<int>(result.outputs.size())) return absl::InternalError(absl::StrCat("has no output ", i));
    // Strings have no memory on a device; what planning knows of them is held to TensorFlow's.
    if (expected.type.dtype == DataType::kString && !strings) continue;
    MR_RETURN_IF_ERROR(compare(result.outputs[i], expected, absl::StrCat("output ", i)));
  }
  for (const auto& [i, expected] : test_.variables) {
    MR_RETURN_IF_ERROR(compare(result.variables[i], expected, absl::StrCat("variable of input ", i)));
  }
  return absl::OkStatus();
}

absl::Status SameBits(const RunResult& a, const RunResult& b) {
  for (size_t i = 0; i < a.outputs.size(); ++i) {
    if (!a.outputs[i].BitEqual(b.outputs[i])) return absl::InternalError(absl::StrCat("output ", i, " has other bits"));
  }
  for (size_t i = 0; i < a.variables.size(); ++i) {
    if (!a.variables[i].empty() && !a.variables[i].BitEqual(b.variables[i])) {
      return absl::InternalError(absl::StrCat("variable of input ", i, " has other bits"));
    }
  }
  return absl::OkStatus();
}

// The error that running gives, or OK: through the shape rule, the kernel's factory and its run.
absl::Status CheckKernel(const Case& test, const OpDef& def, TestDevice& device, CaseRun& run) {
  const KernelFactory* factory = device.kernels().Find(test.op);
  if (factory == nullptr) return absl::UnimplementedError(absl::StrCat("no kernel of op ", test.op));
  MR_ASSIGN_OR_RETURN(const std::unique_ptr<Kernel> kernel, (*factory)(run.instance()));
  const auto runners = device.runners();
  MR_ASSIGN_OR_RETURN(const RunResult first, run.Run(*kernel, {.runner = runners[0].second}));
  MR_RETURN_IF_ERROR(run.Compare(first));
  for (const auto& [name, runner] : runners) {
    absl::StatusOr<RunResult> again = run.Run(*kernel, {.fill = 0x3C, .runner = runner});
    MR_RETURN_IF_ERROR(WithPrefix(again.status(), absl::StrCat("run again, ", name)));
    MR_RETURN_IF_ERROR(WithPrefix(SameBits(first, *again), absl::StrCat("other garbage in memory, ", name)));
  }
  for (const auto& pair : def.in_place) {
    const auto [output, input] = pair;
    if (test.runs > 1 || output >= static_cast<int>(run.instance().outputs.size()) ||
        input >= static_cast<int>(test.inputs.size()) || test.is_variable[input] ||
        !run.instance().input_values[input].empty() ||
        run.instance().outputs[output].size_bytes() != test.inputs[input].size_bytes()) {
      continue;
    }
    absl::StatusOr<RunResult> in_place = run.Run(*kernel, {.runner = runners[0].second, .in_place = pair});
    MR_RETURN_IF_ERROR(WithPrefix(in_place.status(), "in place"));
    MR_RETURN_IF_ERROR(WithPrefix(SameBits(first, *in_place), "in place"));
  }
  return absl::OkStatus();
}

absl::Status CheckEvaluateOp(const Case& test, const OpDef& def, TestDevice& device, CaseRun& run) {
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < test.inputs.size(); ++i) {
    inputs.push_back(test.inputs[i]);
    if (!test.is_variable[i]) continue;
    inputs[i] = Tensor(test.inputs[i].dtype(), test.inputs[i].shape());
    std::memcpy(inputs[i].mutable_data(), test.inputs[i].data(), test.inputs[i].size_bytes());
  }
  absl::StatusOr<std::vector<Tensor>> outputs = EvaluateOp(def, device.kernels(), run.instance(), inputs);
  const auto& types = run.instance().outputs;
  const bool strings = std::any_of(types.begin(), types.end(), [](const TensorType& type) { return type.dtype == DataType::kString; });
  // Summaries and formatted texts are for people to read.
  if (strings && absl::IsUnimplemented(outputs.status())) return absl::OkStatus();
  MR_RETURN_IF_ERROR(outputs.status());
  return run.Compare({*std::move(outputs), std::move(inputs)}, strings);
}

absl::Status CheckMode(const Case& test, const OpDef& def, TestDevice& device, CaseRun& run) {
  if (!def.is_view) MR_RETURN_IF_ERROR(CheckKernel(test, def, device, run));
  // State goes on from run to run, EvaluateOp runs once.
  if ((device.is_host() || def.is_view) && test.runs == 1) {
    MR_RETURN_IF_ERROR(WithPrefix(CheckEvaluateOp(test, def, device, run), "EvaluateOp"));
  }
  return absl::OkStatus();
}

absl::Status ExpectError(const Case& test, const absl::Status& status) {
  if (status.ok()) return absl::InternalError(absl::StrCat("succeeded, expected the error '", *test.error, "'"));
  if (status.code() == absl::StatusCode::kUnimplemented || status.code() == absl::StatusCode::kInternal ||
      !absl::StrContains(status.message(), *test.error)) {
    return absl::InternalError(
        absl::StrCat("failed with '", status.ToString(), "', expected the error '", *test.error, "'"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckCase(const Case& test, const OpRegistry& ops, TestDevice& device) {
  const OpDef* def = ops.Find(test.op);
  if (def == nullptr) return absl::UnimplementedError(absl::StrCat("op ", test.op, " is not registered"));
  CaseRun run(test, *def, device);
  // Only planning knows strings, and what is wrong with them: a device has nothing to say.
  const auto is_string = [](const TensorType& type) { return type.dtype == DataType::kString; };
  if (!device.is_host() && test.error && run.Prepare(/*with_values=*/true).ok() &&
      std::any_of(run.instance().outputs.begin(), run.instance().outputs.end(), is_string)) {
    return absl::OkStatus();
  }
  // Many rules need values that only the plan knows; then there is nothing to run without them.
  if (run.Prepare(/*with_values=*/false).ok()) {
    const absl::Status status = CheckMode(test, *def, device, run);
    MR_RETURN_IF_ERROR(WithPrefix(test.error ? ExpectError(test, status) : status, "without values"));
  }
  absl::Status status = run.Prepare(/*with_values=*/true);
  if (status.ok()) status = CheckMode(test, *def, device, run);
  return WithPrefix(test.error ? ExpectError(test, status) : status, "with values");
}

}  // namespace millrace::conformance
