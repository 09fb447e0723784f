// GRUBlockCell and its gradient.
#include <cmath>

#include "cpu/kernels/common.h"
#include "cpu/kernels/gemm.h"
#include "cpu/kernels/rare.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

struct Gru {
  int64_t batch, inputs, cells;
  int64_t width() const { return inputs + cells; }
  int64_t joined_bytes() const { return AlignUp(batch * width() * 4); }
  int64_t gates_bytes() const { return AlignUp(batch * 2 * cells * 4); }
};

Gru GruOf(const OpInstance& node) {
  return {node.inputs[0].shape.dim(0), node.inputs[0].shape.dim(1), node.inputs[1].shape.dim(1)};
}

absl::StatusOr<std::shared_ptr<Gemm>> ProductOf(const OpInstance& node, const GemmSizes& sizes) {
  MR_ASSIGN_OR_RETURN(std::unique_ptr<Gemm> made, MakeGemm(node, DataType::kFloat, sizes, {GemmOffsets()}));
  return std::shared_ptr<Gemm>(std::move(made));
}

float Sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }

// (x, h_prev, w_ru, w_c, b_ru, b_c) -> r, u, c, h
absl::StatusOr<std::unique_ptr<Kernel>> MakeCell(const OpInstance& node) {
  if (node.outputs[0].dtype != DataType::kFloat) return UnsupportedType(node, node.outputs[0].dtype);
  const Gru gru = GruOf(node);
  MR_ASSIGN_OR_RETURN(const auto gates, ProductOf(node, GemmSizes::Dense(gru.batch, 2 * gru.cells, gru.width(), false, false)));
  MR_ASSIGN_OR_RETURN(const auto candidate, ProductOf(node, GemmSizes::Dense(gru.batch, gru.cells, gru.width(), false, false)));
  return MakeKernel(
      [=](const KernelContext& context) -> absl::Status {
        const int64_t n = gru.cells;
        char* scratch = static_cast<char*>(context.scratch);
        float *joined = reinterpret_cast<float*>(scratch), *sums = reinterpret_cast<float*>(scratch + gru.joined_bytes());
        void* room = scratch + gru.joined_bytes() + gru.gates_bytes();
        const float *x = context.input<float>(0), *h_prev = context.input<float>(1);
        float *r = context.output<float>(0), *u = context.output<float>(1), *c = context.output<float>(2), *h = context.output<float>(3);
        for (int64_t b = 0; b < gru.batch; ++b) {
          std::copy_n(x + b * gru.inputs, gru.inputs, joined + b * gru.width());
          std::copy_n(h_prev + b * n, n, joined + b * gru.width() + gru.inputs);
        }
        MR_RETURN_IF_ERROR(gates->Run(context, joined, context.input<float>(2), sums, room));
        for (int64_t b = 0; b < gru.batch; ++b) {
          for (int64_t k = 0; k < n; ++k) {
            r[b * n + k] = Sigmoid(sums[b * 2 * n + k] + context.input<float>(4)[k]);
            u[b * n + k] = Sigmoid(sums[b * 2 * n + n + k] + context.input<float>(4)[n + k]);
            joined[b * gru.width() + gru.inputs + k] = h_prev[b * n + k] * r[b * n + k];
          }
        }
        MR_RETURN_IF_ERROR(candidate->Run(context, joined, context.input<float>(3), sums, room));
        for (int64_t i = 0; i < gru.batch * n; ++i) {
          c[i] = std::tanh(sums[i] + context.input<float>(5)[i % n]);
          h[i] = u[i] * h_prev[i] + (1 - u[i]) * c[i];
        }
        return absl::OkStatus();
      },
      gru.joined_bytes() + gru.gates_bytes() + std::max(gates->scratch_bytes(), candidate->scratch_bytes()));
}

// (x, h_prev, w_ru, w_c, b_ru, b_c, r, u, c, d_h) -> d_x, d_h_prev, d_c_bar, d_r_bar_u_bar
absl::StatusOr<std::unique_ptr<Kernel>> MakeCellGrad(const OpInstance& node) {
  if (node.outputs[0].dtype != DataType::kFloat) return UnsupportedType(node, node.outputs[0].dtype);
  const Gru gru = GruOf(node);
  MR_ASSIGN_OR_RETURN(const auto candidate, ProductOf(node, GemmSizes::Dense(gru.batch, gru.width(), gru.cells, false, true)));
  MR_ASSIGN_OR_RETURN(const auto gates, ProductOf(node, GemmSizes::Dense(gru.batch, gru.width(), 2 * gru.cells, false, true)));
  return MakeKernel(
      [=](const KernelContext& context) -> absl::Status {
        const int64_t n = gru.cells, width = gru.width();
        char* scratch = static_cast<char*>(context.scratch);
        float *by_c = reinterpret_cast<float*>(scratch), *by_ru = reinterpret_cast<float*>(scratch + gru.joined_bytes());
        void* room = scratch + 2 * gru.joined_bytes();
        const auto in = [&](int k) { return context.input<float>(k); };
        const float *h_prev = in(1), *r = in(6), *u = in(7), *c = in(8), *d_h = in(9);
        float *d_x = context.output<float>(0), *d_h_prev = context.output<float>(1), *d_c = context.output<float>(2),
              *d_ru = context.output<float>(3);
        for (int64_t i = 0; i < gru.batch * n; ++i) d_c[i] = d_h[i] * (1 - u[i]) * (1 - c[i] * c[i]);
        MR_RETURN_IF_ERROR(candidate->Run(context, d_c, in(3), by_c, room));
        for (int64_t i = 0; i < gru.batch * n; ++i) {
          const int64_t b = i / n, k = i % n;
          d_ru[b * 2 * n + k] = by_c[b * width + gru.inputs + k] * h_prev[i] * r[i] * (1 - r[i]);
          d_ru[b * 2 * n + n + k] = d_h[i] * (h_prev[i] - c[i]) * u[i] * (1 - u[i]);
        }
        MR_RETURN_IF_ERROR(gates->Run(context, d_ru, in(2), by_ru, room));
        for (int64_t b = 0; b < gru.batch; ++b) {
          const float *first = by_ru + b * width, *second = by_c + b * width;
          for (int64_t k = 0; k < gru.inputs; ++k) d_x[b * gru.inputs + k] = first[k] + second[k];
          for (int64_t k = 0; k < n; ++k) {
            const int64_t i = b * n + k;
            d_h_prev[i] = first[gru.inputs + k] + second[gru.inputs + k] * r[i] + d_h[i] * u[i];
          }
        }
        return absl::OkStatus();
      },
      2 * gru.joined_bytes() + std::max(gates->scratch_bytes(), candidate->scratch_bytes()));
}

}  // namespace

void RegisterGruKernels(KernelRegistry& registry) {
  AddKernel(registry, "GRUBlockCell", MakeCell);
  AddKernel(registry, "GRUBlockCellGrad", MakeCellGrad);
}

}  // namespace millrace::cpu
