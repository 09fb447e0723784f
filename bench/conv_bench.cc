// Convolutions of many geometries by every kernel there is: where the choice of conv.cc comes from.
//
//   conv_bench [PART]       prints a markdown table: GFLOP/s (of the direct sum) of one thread, best of several runs; of
//                           the layers whose names contain PART
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include "cpu/kernels/conv_kernels.h"

namespace {

using millrace::KernelContext;
using millrace::OpInstance;
using millrace::Shape;
using millrace::cpu::ConvGeometry;
using millrace::cpu::ConvKind;

class SerialRunner final : public millrace::ParallelRunner {
 public:
  void For(int64_t shards, absl::FunctionRef<void(int64_t)> fn) override {
    for (int64_t i = 0; i < shards; ++i) fn(i);
  }
};

struct Layer {
  const char* what;
  int64_t batch, size, channels, out_channels, kernel_h, kernel_w, stride = 1, dilation = 1, depth = 0;
};

constexpr Layer kLayers[] = {
    {"deepspeech 11x21, 1 -> 8, stride 2", 2, 60, 1, 8, 11, 21, 2},
    {"deepspeech2 41x11, 1 -> 32, stride 2", 2, 128, 1, 32, 41, 11, 2},
    {"deepspeech2 21x11, 32 -> 32, stride 2", 2, 64, 32, 32, 21, 11, 2},
    {"first 7x7, 3 -> 64, stride 2", 2, 112, 3, 64, 7, 7, 2},
    {"first 3x3, 3 -> 32, stride 2", 2, 112, 3, 32, 3, 3, 2},
    {"first 3x3, 3 -> 16", 8, 32, 3, 16, 3, 3},
    {"first 5x5, 1 -> 32", 8, 28, 1, 32, 5, 5},
    {"last 1x1, 64 -> 2", 2, 64, 64, 2, 1, 1},
    {"last 3x3, 64 -> 3", 2, 64, 64, 3, 3, 3},
    {"cifar 3x3, 16 -> 16", 8, 32, 16, 16, 3, 3},
    {"cifar 3x3, 32 -> 32", 8, 16, 32, 32, 3, 3},
    {"cifar 3x3, 64 -> 64", 8, 8, 64, 64, 3, 3},
    {"odd 3x3, 12 -> 20", 4, 28, 12, 20, 3, 3},
    {"odd 5x5, 7 -> 9", 4, 28, 7, 9, 5, 5},
    {"3x3, 64 -> 64", 4, 56, 64, 64, 3, 3},
    {"3x3, 128 -> 128", 2, 28, 128, 128, 3, 3},
    {"3x3, 256 -> 256", 4, 14, 256, 256, 3, 3},
    {"3x3, 512 -> 512", 8, 7, 512, 512, 3, 3},
    {"3x3, 96 -> 208", 4, 14, 96, 208, 3, 3},
    {"1x1, 256 -> 64", 2, 28, 256, 64, 1, 1},
    {"1x1, 256 -> 512, stride 2", 2, 28, 256, 512, 1, 1, 2},
    {"1x7, 128 -> 128", 2, 17, 128, 128, 1, 7},
    {"3x3, 64 -> 64, stride 2", 2, 56, 64, 64, 3, 3, 2},
    {"3x3, 64 -> 64, stride 3", 2, 57, 64, 64, 3, 3, 3},
    {"3x3, 64 -> 64, dilation 2", 2, 28, 64, 64, 3, 3, 1, 2},
    {"3x3, 24 -> 24, dilation 6", 2, 28, 24, 24, 3, 3, 1, 6},
    {"transposed 4x4, 16 -> 3, stride 2", 2, 64, 3, 16, 4, 4, 2},
    {"3-D 3x3x3, 1 -> 8", 1, 24, 1, 8, 3, 3, 1, 1, 3},
    {"3-D 3x3x3, 8 -> 8", 1, 24, 8, 8, 3, 3, 1, 1, 3},
    {"3-D 3x3x3, 32 -> 32", 1, 12, 32, 32, 3, 3, 1, 1, 3},
    {"3-D 2x2x2, 16 -> 8, stride 2", 1, 24, 8, 16, 2, 2, 2, 1, 2},
    {"3-D 1x1x1, 8 -> 2", 1, 24, 8, 2, 1, 1, 1, 1, 1},
};

ConvGeometry GeometryOf(const Layer& layer, bool channels_first) {
  ConvGeometry g;
  g.spatial = layer.depth > 0 ? 3 : 2;
  g.channels_first = channels_first;
  g.batch = layer.batch;
  g.in_channels = layer.channels;
  g.out_channels = layer.out_channels;
  const int64_t kernel[3] = {layer.depth > 0 ? layer.depth : layer.kernel_h,
                             layer.depth > 0 ? layer.kernel_h : layer.kernel_w, layer.kernel_w};
  for (int d = 0; d < g.spatial; ++d) {
    g.in[d] = layer.size;
    g.kernel[d] = kernel[d];
    g.stride[d] = layer.stride;
    g.dilation[d] = layer.dilation;
    g.out[d] = (layer.size + layer.stride - 1) / layer.stride;  // SAME
    const int64_t extent = (kernel[d] - 1) * layer.dilation + 1;
    const int64_t pad = std::max<int64_t>((g.out[d] - 1) * layer.stride + extent - layer.size, 0);
    g.pad_before[d] = pad / 2;
    g.pad_after[d] = pad - pad / 2;
  }
  return g;
}

// What this thread has used of a core: it says the same on a machine that is shared.
double ThreadSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::string Rate(const absl::StatusOr<std::unique_ptr<millrace::Kernel>>& kernel, const OpInstance& instance,
                 const ConvGeometry& g, ConvKind kind) {
  if (!kernel.ok()) return "-";
  std::vector<float> input(g.input_elements(), 0.5f), filter(g.filter_elements(), 0.25f), output(g.output_elements(), 1);
  std::vector<char> scratch((*kernel)->scratch_bytes() + 64);
  void* aligned = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(scratch.data()) + 63) / 64 * 64);
  void* inputs[3] = {input.data(), filter.data(), output.data()};
  void* outputs[1] = {kind == ConvKind::kForward ? output.data() : kind == ConvKind::kInput ? input.data() : filter.data()};
  SerialRunner runner;
  KernelContext context;
  context.instance = &instance;
  context.inputs = inputs;
  context.outputs = outputs;
  context.scratch = aligned;
  context.parallel = &runner;
  std::vector<char> others(8 << 20);
  double best = 1e9, spent = 0;
  for (int run = 0; run < 20 && spent < 0.2; ++run) {
    // As in a step: other nodes have run in between, and the nearest caches hold what is theirs.
    for (size_t i = 0; i < others.size(); i += 64) ++others[i];
    const double start = ThreadSeconds();
    if (!(*kernel)->Run(context).ok()) return "failed";
    const double seconds = ThreadSeconds() - start;
    best = std::min(best, seconds);
    spent += seconds;
  }
  char text[64];
  std::snprintf(text, sizeof(text), "%.1f", g.flops() / best * 1e-9);
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string part = argc > 1 ? argv[1] : "";
  if (argc > 2 || part.starts_with('-')) {
    const bool help = part == "-h" || part == "--help";
    std::fprintf(help ? stdout : stderr, "usage: conv_bench [PART]\nConvolutions by every kernel, of the layers whose names contain PART, or of all.\n");
    return help ? 0 : 2;
  }
  std::printf("| layer | layout | kind | oneDNN | patches | minimal filtering |\n|---|---|---|---|---|---|\n");
  const char* const kinds[] = {"forward", "input", "filter"};
  for (const Layer& layer : kLayers) {
    if (std::strstr(layer.what, part.c_str()) == nullptr) continue;
    for (bool channels_first : {false, true}) {
      const ConvGeometry g = GeometryOf(layer, channels_first);
      for (ConvKind kind : {ConvKind::kForward, ConvKind::kInput, ConvKind::kFilter}) {
        OpInstance instance;
        instance.name = instance.op = "conv";
        const std::string onednn = Rate(MakeOneDnnConv(g, kind), instance, g, kind);
        std::unique_ptr<millrace::Kernel> minimal = MakeWinogradConv(g, kind);
        const std::string winograd = minimal == nullptr ? "-" : Rate(std::move(minimal), instance, g, kind);
        const std::string patches = channels_first ? "-" : Rate(MakeGemmConv(instance, g, kind), instance, g, kind);
        std::printf("| %s | %s | %s | %s | %s | %s |\n", layer.what, channels_first ? "NCHW" : "NHWC",
                    kinds[static_cast<int>(kind)], onednn.c_str(), patches.c_str(), winograd.c_str());
        std::fflush(stdout);
      }
    }
  }
  return 0;
}
