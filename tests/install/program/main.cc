// Embeds Millrace: builds a small network with an operation of its own, trains it without and with a budget, and
// finds the same bits. Given a file, it reads that graph as well; given a folder, too, it expects the CUDA plugin to be looked for
// there. Its own messages are in a file that Millrace has, too.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "millrace/device.h"
#include "millrace/graph_builder.h"
#include "millrace/graph_ops.h"
#include "millrace/import.h"
#include "millrace/onnx.h"
#include "millrace/optimizers.h"
#include "millrace/report.h"
#include "millrace/session.h"
#include "proto/graph.pb.h"

namespace {

void Check(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

template <typename T>
T Value(absl::StatusOr<T> value) {
  Check(value.status());
  return *std::move(value);
}

// An operation of our own: y = 2 x, with its kernel.
class DoubleKernel : public millrace::Kernel {
 public:
  absl::Status Run(const millrace::KernelContext& context) const override {
    const int64_t elements = context.input_type(0).shape.num_elements();
    for (int64_t i = 0; i < elements; ++i) context.output<float>(0)[i] = 2 * context.input<float>(0)[i];
    return absl::OkStatus();
  }
};

struct Registries {
  std::shared_ptr<const millrace::OpRegistry> ops;
  std::shared_ptr<const millrace::KernelRegistry> kernels;
};

Registries WithDouble() {
  auto ops = std::make_shared<millrace::OpRegistry>(millrace::OpRegistry::Builtin());
  millrace::OpDef def;
  def.name = "Double";
  def.shape = [](millrace::InferenceContext& context) -> absl::Status {
    if (context.num_inputs() != 1) return context.Error("expected one input");
    context.AddOutput(context.dtype(0), context.shape(0));
    return absl::OkStatus();
  };
  Check(ops->Register(def));
  auto kernels = std::make_shared<millrace::KernelRegistry>(millrace::CpuKernels());
  Check(kernels->Register("Double", [](const millrace::OpInstance&) -> absl::StatusOr<std::unique_ptr<millrace::Kernel>> {
    return std::make_unique<DoubleKernel>();
  }));
  return {ops, kernels};
}

// Dense layers on inputs that our own operation doubles.
millrace::Graph BuildNetwork(const Registries& registries) {
  using namespace millrace;
  GraphBuilder b(registries.ops);
  Output x = b.Placeholder("x", DataType::kFloat, {64, 256});
  const Output labels = b.Placeholder("labels", DataType::kInt32, {64});
  x = b.Op("Double", {x}, {}, "twice");
  for (const char* name : {"w1", "w2", "w3", "w4"}) {
    x = ops::Relu(ops::MatMul(x, b.AddVariable(name, {256, 256}, init::GlorotUniform())));
  }
  const Output logits = ops::MatMul(x, b.AddVariable("w5", {256, 10}, init::GlorotUniform()));
  const Output loss = ops::Mean(ops::SparseSoftmaxCrossEntropy(logits, labels).loss, {}, "loss");
  Minimize(b, Sgd(0.01), loss, "train");
  b.AddInit("init");
  return Value(std::move(b).Build());
}

struct Trained {
  std::vector<float> losses;
  std::map<std::string, millrace::Tensor> variables;
  int64_t peak_device_bytes = 0;
};

Trained Train(millrace::Graph graph, const millrace::SessionOptions& options) {
  millrace::Tensor images(millrace::DataType::kFloat, {64, 256}), labels(millrace::DataType::kInt32, {64});
  for (int i = 0; i < 64 * 256; ++i) images.mutable_as<float>()[i] = static_cast<float>(i % 17) / 17;
  for (int i = 0; i < 64; ++i) labels.mutable_as<int32_t>()[i] = i % 10;

  auto session = Value(millrace::Session::Create(std::move(graph), options));
  Check(session->Run({}, {}, {"init"}, nullptr));
  Trained trained;
  for (int step = 0; step < 5; ++step) {
    std::vector<millrace::Tensor> out;
    Check(session->Run({{"x", images}, {"labels", labels}}, {"loss:0"}, {"train"}, &out));
    trained.losses.push_back(out[0].as<float>()[0]);
  }
  trained.variables = Value(session->Variables());
  trained.peak_device_bytes = session->last_run().peak_device_bytes;
  return trained;
}

bool SameBits(const Trained& a, const Trained& b) {
  if (a.losses != b.losses || a.variables.size() != b.variables.size()) return false;
  for (const auto& [name, tensor] : a.variables) {
    const auto other = b.variables.find(name);
    if (other == b.variables.end() || !tensor.BitEqual(other->second)) return false;
  }
  return true;
}

// The CUDA plugin is beside the library. There may be none of it, or no device: then the error says so.
bool LooksForThePluginIn(const std::string& folder, millrace::Graph graph, millrace::SessionOptions options) {
  const std::string plugin = folder + "/libmillrace_cuda.so";
  options.device = "cuda";
  const absl::Status status = millrace::Session::Create(std::move(graph), options).status();
  const bool looked_there = absl::StrContains(status.message(), plugin + ": no such file");
  const bool good = std::filesystem::exists(plugin) ? !looked_there && !absl::IsNotFound(status) : looked_there;
  if (!good) std::fprintf(stderr, "looking for %s: %s\n", plugin.c_str(), status.ToString().c_str());
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  const Registries registries = WithDouble();
  const millrace::Graph graph = BuildNetwork(registries);
  millrace::SessionOptions options;
  options.ops = registries.ops;
  options.kernels = registries.kernels;
  options.planning.strategy = "baseline";
  const Trained free = Train(graph.Clone(), options);
  options.planning.strategy = "tensorflowmem";
  options.planning.device_memory_bytes = free.peak_device_bytes * 7 / 10;
  const Trained bounded = Train(graph.Clone(), options);

  std::printf("losses %g ... %g; peak %lld bytes, and %lld within a budget of %lld\n", free.losses.front(),
              free.losses.back(), static_cast<long long>(free.peak_device_bytes),
              static_cast<long long>(bounded.peak_device_bytes),
              static_cast<long long>(options.planning.device_memory_bytes));
  bool good = SameBits(free, bounded) && free.losses.back() < free.losses.front() &&
              bounded.peak_device_bytes <= options.planning.device_memory_bytes;
  embedding::Graph message;
  message.add_nodes("w1");
  good = good && message.DebugString() == "nodes: \"w1\"\n";
  if (argc > 1) good = good && Value(millrace::LoadGraph(argv[1])).num_nodes() > 0;
  if (argc > 2) good = good && LooksForThePluginIn(argv[2], graph.Clone(), options);
  options.planning.device_memory_bytes = 1000;
  auto hopeless = Value(millrace::Session::Create(graph.Clone(), options));
  good = good && absl::IsResourceExhausted(hopeless->Run({}, {}, {"init"}, nullptr));
  const std::string report = millrace::ReportToJson({hopeless->graph_summary(), hopeless->machine(), {hopeless->last_run()}});
  good = good && absl::StrContains(report, "\"strategy\": \"tensorflowmem\"");
  // Designated initialisers need not name every field, whatever the warnings.
  const millrace::OnnxOptions onnx = {.training = {{.loss = "loss"}}};
  good = good && absl::IsNotFound(millrace::LoadOnnx("/nonexistent/model.onnx", onnx).status());
  std::puts(good ? "good" : "BAD");
  return good ? 0 : 1;
}
