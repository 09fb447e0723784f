// What LSTM and GRU cells and their gradients do between matrix products, in float.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_RECURRENT_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_RECURRENT_H_

#include "cuda/launch/queue.h"
#include "graph/recurrent_cell.h"

namespace millrace::cuda {

using CellShape = RecurrentCell;
using LstmShape = LstmCell;

// How many steps of a sequence count: known, or read by the kernels.
struct Steps {
  const int64_t* on_device = nullptr;
  int64_t known = 1;
};

// [cells] each; read where the shape has peepholes.
struct Peepholes {
  const float *i, *f, *o;
};

// A step's results, [batch, cells] each, in the order of the ops' outputs.
struct LstmResults {
  float *i, *cs, *f, *o, *ci, *co, *h;
};

// What the gradient of a step reads and writes.
struct LstmStepGrad {
  const float *i, *f, *o, *ci, *co, *cs_prev;
  const float *cs_grad, *h_grad;  // of the step's results
  const float* h_next;            // what the step behind adds to h_grad; read unless this is the last one that counts
  float* cs_carried;              // added to cs_grad likewise; then the gradient of cs_prev
  float* gates;                   // [batch, 4 * cells], gradients
};

// A number of steps outside [0, most] is a fault of input 0.
void LaunchCheckSteps(const Queue& queue, const int64_t* steps, int64_t most);
// Row after row of x beside one of h, which begins with `first`, [batch, cells], and goes on with `rest`; zeros behind the last
// step that counts.
void LaunchJoin(const Queue& queue, const CellShape& shape, const Steps& steps, int64_t rows, const float* x, const float* first,
                const float* rest, float* joined);
// y[i] = 0 behind the steps that count, which have `per_step` elements each.
void LaunchClearBehind(const Queue& queue, const Steps& steps, int64_t per_step, int64_t n, float* y);

// Step `step`, zeros where it does not count. `gates`: the product, [batch, 4 * cells].
void LaunchLstmCell(const Queue& queue, const LstmShape& shape, const Steps& steps, int64_t step, const float* gates,
                    const float* bias, const Peepholes& peepholes, const float* cs_prev, const LstmResults& out);
void LaunchLstmCellGrad(const Queue& queue, const LstmShape& shape, const Steps& steps, int64_t step, const Peepholes& peepholes,
                        const LstmStepGrad& grad);
// Gradients of the peepholes i, f and o, sums over the rows of all steps. `cs`: of all steps; `gates`: the gates' gradients.
struct PeepholeGrads {
  const float *gates, *cs_prev, *cs;
  float *i, *f, *o;
};
int64_t PeepholeScratchBytes(const LstmShape& shape, int64_t rows);
void LaunchPeepholeGrads(const Queue& queue, const LstmShape& shape, const Steps& steps, int64_t rows, const PeepholeGrads& grads,
                         void* scratch);

// r and u of their products, [batch, 2 * cells]; the columns of h in `joined` become h_prev * r.
void LaunchGruGates(const Queue& queue, const CellShape& shape, const float* sums, const float* bias, const float* h_prev, float* r,
                    float* u, float* joined);
// `c`: the product, which becomes the candidate.
void LaunchGruOutput(const Queue& queue, const CellShape& shape, const float* bias, const float* u, const float* h_prev, float* c,
                     float* h);

struct GruGrad {
  const float *h_prev, *r, *u, *c, *d_h;
  const float *by_c, *by_ru;  // what comes back through the products, [batch, inputs + cells]
  float *d_x, *d_h_prev, *d_c, *d_ru;
};
void LaunchGruCandidateGrad(const Queue& queue, const CellShape& shape, const GruGrad& grad);
void LaunchGruGatesGrad(const Queue& queue, const CellShape& shape, const GruGrad& grad);
void LaunchGruInputsGrad(const Queue& queue, const CellShape& shape, const GruGrad& grad);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_RECURRENT_H_
