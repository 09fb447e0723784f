// Discrete Fourier transforms of lines of complex numbers, and the spectra of real ones.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_FOURIER_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_FOURIER_H_

#include "cuda/launch/queue.h"

namespace millrace::cuda {

// Lines along one dimension of an array: number k of line (o, i) is at (o * size + k) * inner + i.
struct FourierLines {
  int64_t outer = 1, size = 1, inner = 1;
};

// Steps of a transform, each of which reads one array and writes another one; none for lines of one number.
int FourierSteps(int64_t size);
// `type`: of the parts, kFloat or kDouble, here and below.
int64_t FourierScratchBytes(Type type, const FourierLines& lines);
// The steps write to[0], to[1], to[0] and so on; `from` may be to[1]. The inverse is divided by the size.
void LaunchFourier(const Queue& queue, Type type, bool inverse, const FourierLines& lines, const void* from, void* const to[2],
                   void* scratch);

// Spectra of rows of `size` real numbers are size / 2 + 1 numbers; the rest mirrors them. An even row is transformed as size / 2
// complex numbers, an odd one as `size` of them, whose imaginary parts are 0.
inline int64_t ComplexLength(int64_t size) { return size % 2 == 0 ? size / 2 : size; }
int64_t SpectrumScratchBytes(Type type, int64_t size);
// From such transforms to spectra, and back. Scratch may be that of LaunchFourier.
void LaunchToSpectra(const Queue& queue, Type type, int64_t rows, int64_t size, const void* transforms, void* spectra, void* scratch);
void LaunchFromSpectra(const Queue& queue, Type type, int64_t rows, int64_t size, const void* spectra, void* transforms, void* scratch);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_FOURIER_H_
