// What tests of kernels that are written for a group of ops share.
#ifndef MILLRACE_TESTS_CUDA_FUSED_KERNELS_H_
#define MILLRACE_TESTS_CUDA_FUSED_KERNELS_H_

#include <dlfcn.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cuda/emulated/host_services.h"
#include "cuda/launch/fused.h"

namespace millrace::cuda {

// Ordinary numbers, and those that are not.
inline Tensor Values(const TensorType& type, uint32_t seed) {
  Tensor tensor(type.dtype, type.shape);
  std::mt19937 random(seed);
  const double rare[] = {0.0, -0.0, 1e30, -1e30, 1e-40, 1.0 / 0.0, -1.0 / 0.0, std::nan(""), 1.0, -1.0, 6.0, 0.5};
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    const uint32_t dice = random();
    const double value = dice % 8 == 0 ? rare[dice / 8 % 12] : (static_cast<double>(dice % 20001) - 10000) / 1500;
    const auto narrow = static_cast<float>(value);
    uint32_t bits;
    std::memcpy(&bits, &narrow, 4);
    switch (type.dtype) {
      case DataType::kFloat: tensor.mutable_as<float>()[i] = narrow; break;
      case DataType::kDouble: tensor.mutable_as<double>()[i] = value; break;
      case DataType::kHalf: static_cast<Half*>(tensor.mutable_data())[i] = NarrowHalf(narrow); break;
      case DataType::kBfloat16: static_cast<Bfloat16*>(tensor.mutable_data())[i] = NarrowBfloat16(narrow); break;
      default: tensor.mutable_as<bool>()[i] = dice % 2 == 0;
    }
  }
  return tensor;
}

inline std::vector<Tensor> InputsOf(const OpInstance& node) {
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < node.inputs.size(); ++i) inputs.push_back(Values(node.inputs[i], static_cast<uint32_t>(i) + 1));
  return inputs;
}

// Collects the texts that fused kernels are compiled from; runs `kernel` once it is there.
class TextServices final : public HostServices {
 public:
  TextServices() : HostServices(/*written_out=*/false) {}
  absl::StatusOr<std::shared_ptr<const CompiledFusion>> CompileFusion(const std::string& source) override {
    texts.push_back(source);
    if (kernel == nullptr) return absl::UnimplementedError("not yet");
    struct Loaded final : CompiledFusion {
      Loaded(void* entry, bool on_grid) : entry(entry), on_grid(on_grid) {}
      absl::Status Launch(const Queue&, const FusedArguments& arguments) const override {
        reinterpret_cast<void (*)(const FusedArguments*)>(entry)(&arguments);
        return absl::OkStatus();
      }
      absl::Status LaunchReduce(const Queue&, const FusedReduceArguments& r) const override {
        const SumGrid grid = SumGridOf(r.rows, r.terms, r.columns);
        if (on_grid) {
          reinterpret_cast<void (*)(const FusedReduceArguments*, int64_t, int64_t)>(entry)(&r, grid.blocks, grid.rest_blocks);
        } else {
          reinterpret_cast<void (*)(const FusedReduceArguments*)>(entry)(&r);
        }
        return absl::OkStatus();
      }
      void* entry;
      bool on_grid;
    };
    return std::make_shared<const Loaded>(kernel, on_grid);
  }
  std::vector<std::string> texts;
  void* kernel = nullptr;
  bool on_grid = false;  // the kernel takes blocks, too: of the sums, and of what adds up chunks
};

// What makes of a text the kernel that the device is given, on the grid that the host runs.
inline const char kOnGrid[] = "-DMILLRACE_GRID_ON_HOST -U_FORTIFY_SOURCE -Wno-unknown-pragmas -I" MILLRACE_GRID_DIR " -include " MILLRACE_GRID_SOURCE
                              ".h " MILLRACE_GRID_SOURCE ".cc";

// The text as a library of the host, or null.
inline void* Compiled(const std::string& text, const std::string& name, const std::string& how = "") {
  const std::string stem = absl::StrCat(::testing::TempDir(), "/fused_", name, "_", getpid());
  std::ofstream(stem + ".cc") << text;
  const std::string command = absl::StrCat(MILLRACE_CXX " -std=c++20 -O1 -ffp-contract=off -shared -fPIC ", how,
                                           " -I" MILLRACE_BINARY_DIR "/include_roots/cuda -o ", stem, ".so ", stem, ".cc");
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  void* library = dlopen((stem + ".so").c_str(), RTLD_NOW);
  EXPECT_NE(library, nullptr) << dlerror();
  std::remove((stem + ".cc").c_str());
  std::remove((stem + ".so").c_str());
  return library;
}

class OneThread final : public ParallelRunner {
 public:
  void For(int64_t shards, absl::FunctionRef<void(int64_t)> fn) override {
    for (int64_t i = 0; i < shards; ++i) fn(i);
  }
};

// All outputs, one after another. `in_place`: the first one takes the place of input 0.
inline std::string RunAll(const Kernel& kernel, const OpInstance& node, const std::vector<Tensor>& inputs, bool in_place = false) {
  std::vector<void*> in, out;
  for (const Tensor& tensor : inputs) in.push_back(const_cast<void*>(tensor.data()));
  std::vector<std::string> bytes;
  for (const TensorType& type : node.outputs) bytes.emplace_back(type.size_bytes(), '\0');
  for (std::string& one : bytes) out.push_back(one.data());
  if (in_place) {
    std::memcpy(bytes[0].data(), in[0], bytes[0].size());
    in[0] = bytes[0].data();
  }
  std::string scratch(kernel.scratch_bytes() + 64, '\0');
  KernelContext context;
  context.instance = &node;
  context.inputs = in.data();
  context.outputs = out.data();
  context.scratch = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(scratch.data()) + 63) / 64 * 64);
  OneThread one_thread;
  context.parallel = &one_thread;
  EXPECT_TRUE(kernel.Run(context).ok());
  return absl::StrJoin(bytes, "");
}

}  // namespace millrace::cuda

#endif  // MILLRACE_TESTS_CUDA_FUSED_KERNELS_H_
