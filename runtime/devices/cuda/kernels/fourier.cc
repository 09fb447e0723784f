#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "cuda/kernels/common.h"
#include "cuda/kernels/register.h"
#include "cuda/launch/complex.h"
#include "cuda/launch/fourier.h"
#include "cuda/launch/layout.h"

namespace millrace::cuda {
namespace {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

// FFT, RFFT2D: how many of the last dimensions are transformed.
int DimensionsOf(const std::string& op) { return op.back() == 'D' ? op[op.size() - 2] - '0' : 1; }

absl::StatusOr<Type> PartTypeOf(const OpInstance& instance, DataType dtype) {
  if (dtype == DataType::kFloat || dtype == DataType::kComplex64) return Type::kFloat;
  if (dtype == DataType::kDouble || dtype == DataType::kComplex128) return Type::kDouble;
  return Refused(instance, absl::StrCat("element type ", std::string(DataTypeName(dtype))));
}
int PartBytes(Type type) { return type == Type::kDouble ? 8 : 4; }

// Transforms along several dimensions of one array, one after another.
class Transforms {
 public:
  Transforms(Type type, bool inverse) : type_(type), inverse_(inverse) {}
  // Along the last `dims` dimensions but for the last `without`.
  Transforms(Type type, bool inverse, const Shape& shape, int dims, int without) : Transforms(type, inverse) {
    for (int at = shape.rank() - dims; at < shape.rank() - without; ++at) {
      FourierLines lines;
      for (int d = 0; d < shape.rank(); ++d) (d < at ? lines.outer : d == at ? lines.size : lines.inner) *= shape.dim(d);
      Add(lines);
    }
  }
  void Add(const FourierLines& lines) {
    lines_.push_back(lines);
    steps_ += FourierSteps(lines.size);
    scratch_bytes_ = std::max(scratch_bytes_, FourierScratchBytes(type_, lines));
  }
  bool none() const { return steps_ == 0; }
  int64_t scratch_bytes() const { return scratch_bytes_; }
  // Which of both arrays may hold what Launch is given: the one that its first step does not write.
  void* StartOf(void* out, void* work) const { return steps_ % 2 == 0 ? out : work; }

  // From `from`, which is StartOf(out, work) or another array, to `out`; gives where the result is, which is `from` where there is
  // nothing to do.
  const void* Launch(const Queue& queue, const void* from, void* out, void* work, void* scratch) const {
    void* to[] = {StartOf(work, out), StartOf(out, work)};
    for (const FourierLines& lines : lines_) {
      const int steps = FourierSteps(lines.size);
      if (steps == 0) continue;
      LaunchFourier(queue, type_, inverse_, lines, from, to, scratch);
      if (steps % 2 != 0) std::swap(to[0], to[1]);
      from = to[1];
    }
    return from;
  }

 private:
  Type type_;
  bool inverse_;
  std::vector<FourierLines> lines_;
  int steps_ = 0;
  int64_t scratch_bytes_ = 0;
};

// Two arrays of `array_bytes` each, then scratch of launches.
struct Workspace {
  Workspace(int64_t needed, std::initializer_list<int64_t> launches) : array_bytes(AlignUp(needed)), launch_bytes(std::max(launches)) {}
  int64_t bytes() const { return 2 * array_bytes + launch_bytes; }
  char* array(const KernelContext& context, int which) const { return static_cast<char*>(context.scratch) + which * array_bytes; }
  int64_t array_bytes, launch_bytes;
};

KernelOr MakeFft(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const Type type, PartTypeOf(instance, instance.inputs[0].dtype));
  const Shape& shape = instance.outputs[0].shape;
  if (shape.num_elements() == 0) return MakeLaunch(services, [](const Queue&, const KernelContext&) {});
  const Transforms transforms(type, instance.op[0] == 'I', shape, DimensionsOf(instance.op), 0);
  const StridedCopy copy = WholeCopy(instance.outputs[0].size_bytes() / 8);
  const int64_t work_bytes = AlignUp(instance.outputs[0].size_bytes());
  return MakeLaunch(
      services,
      [=](const Queue& queue, const KernelContext& context) {
        void *const out = context.outputs[0], *const work = context.scratch, *const start = transforms.StartOf(out, work);
        const void* from = context.inputs[0];
        // Nothing to do; or the output is the input, and the first step would write what it reads.
        if (from == out ? start != out : transforms.none()) {
          LaunchStridedCopy(queue, 8, copy, from, start);
          from = start;
        }
        transforms.Launch(queue, from, out, work, static_cast<char*>(work) + work_bytes);
      },
      work_bytes + transforms.scratch_bytes());
}

// The first elements of `in` along its last `dims` dimensions, as many as `kept` has; in parts, of which an element has `parts`.
StridedCopy CropOf(const Shape& in, const Shape& kept, int dims, int64_t parts) {
  StridedCopy crop;
  crop.rank = dims + 1;
  crop.elements = kept.num_elements() * parts;
  int64_t from = parts, to = parts;
  crop.dims[0] = 1;
  for (int d = kept.rank() - 1; d >= 0; --d) {
    const int at = std::max(d - (kept.rank() - dims) + 1, 0);
    if (at > 0 || d == kept.rank() - dims - 1) {
      crop.from_strides[at] = from;
      crop.to_strides[at] = to;
    }
    crop.dims[at] = at == 0 ? crop.dims[0] * kept.dim(d) : kept.dim(d);
    from *= in.dim(d);
    to *= kept.dim(d);
  }
  crop.dims[dims] *= parts;
  crop.from_strides[dims] = crop.to_strides[dims] = 1;
  return crop;
}

// Real rows, of which fft_length says how much counts, and their spectra.
struct RealRows {
  Type type = Type::kFloat;
  int dims = 1;
  int64_t size = 0, half = 0, rows = 0, length = 0;  // length: of the complex lines that rows are transformed as
  bool even() const { return size % 2 == 0; }
  int64_t bytes_of(int64_t numbers) const { return numbers * 2 * PartBytes(type); }
};

absl::StatusOr<RealRows> RowsOf(const OpInstance& instance) {
  const Tensor* const lengths = ValueOf(instance, 1);
  if (lengths == nullptr) return Refused(instance, "an fft_length that is not known when planning");
  RealRows real;
  MR_ASSIGN_OR_RETURN(real.type, PartTypeOf(instance, instance.inputs[0].dtype));
  real.dims = DimensionsOf(instance.op);
  real.size = lengths->IntAt(real.dims - 1);
  real.half = real.size / 2 + 1;
  real.length = ComplexLength(real.size);
  const Shape& out = instance.outputs[0].shape;
  const int64_t columns = out.dim(out.rank() - 1);
  real.rows = columns == 0 ? 0 : out.num_elements() / columns;
  return real;
}

bool IsEmpty(const OpInstance& instance) {
  return instance.inputs[0].shape.num_elements() == 0 || instance.outputs[0].shape.num_elements() == 0;
}
KernelOr MakeZeros(DeviceServices& services, const OpInstance& instance) {
  return MakeLaunch(services, [bytes = instance.outputs[0].size_bytes()](const Queue& queue, const KernelContext& context) {
    LaunchZero(queue, context.outputs[0], bytes);
  });
}

KernelOr MakeRfft(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const RealRows real, RowsOf(instance));
  if (IsEmpty(instance)) return MakeZeros(services, instance);
  const Shape &in = instance.inputs[0].shape, &out = instance.outputs[0].shape;
  Shape kept = out;
  kept.set_dim(out.rank() - 1, real.size);
  const bool crops = kept != in;
  const StridedCopy crop = CropOf(in, kept, real.dims, 1);
  Transforms along_rows(real.type, false);
  along_rows.Add({real.rows, real.length, 1});
  const Transforms others(real.type, false, out, real.dims, 1);
  const Workspace room(real.bytes_of(real.rows * std::max(real.length, others.none() ? 0 : real.half)),
                       {along_rows.scratch_bytes(), others.scratch_bytes(), SpectrumScratchBytes(real.type, real.size)});
  return MakeLaunch(
      services,
      [=](const Queue& queue, const KernelContext& context) {
        void *const a = room.array(context, 0), *const b = room.array(context, 1), *const scratch = room.array(context, 2);
        void *const start = along_rows.StartOf(a, b), *const other = start == a ? b : a;
        const void* from = context.inputs[0];
        if (crops) {
          void* const cropped = real.even() ? start : other;
          LaunchStridedCopy(queue, PartBytes(real.type), crop, from, cropped);
          from = cropped;
        }
        if (!real.even()) {
          LaunchRealToComplex(queue, real.type, real.type, from, start, real.rows * real.size);
          from = start;
        }
        const void* const lines = along_rows.Launch(queue, from, a, b, scratch);
        void* const spectra = others.StartOf(context.outputs[0], b);
        LaunchToSpectra(queue, real.type, real.rows, real.size, lines, spectra, scratch);
        others.Launch(queue, spectra, context.outputs[0], b, scratch);
      },
      room.bytes());
}

KernelOr MakeIrfft(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const RealRows real, RowsOf(instance));
  if (IsEmpty(instance)) return MakeZeros(services, instance);
  const Shape &in = instance.inputs[0].shape, &out = instance.outputs[0].shape;
  Shape kept = out;
  kept.set_dim(out.rank() - 1, real.half);
  const bool crops = kept != in;
  const StridedCopy crop = CropOf(in, kept, real.dims, 2);
  const Transforms others(real.type, true, kept, real.dims, 1);
  Transforms along_rows(real.type, true);
  along_rows.Add({real.rows, real.length, 1});
  const Workspace room(real.bytes_of(real.rows * std::max(real.length, real.half)),
                       {along_rows.scratch_bytes(), others.scratch_bytes(), SpectrumScratchBytes(real.type, real.size)});
  return MakeLaunch(
      services,
      [=](const Queue& queue, const KernelContext& context) {
        void *const a = room.array(context, 0), *const b = room.array(context, 1), *const scratch = room.array(context, 2);
        const void* from = context.inputs[0];
        if (crops) {
          void* const start = others.StartOf(a, b);
          LaunchStridedCopy(queue, PartBytes(real.type), crop, from, start);
          from = start;
        }
        const void* const spectra = others.Launch(queue, from, a, b, scratch);
        // `b` is free; `a` is when the spectra have been read.
        void* const start = real.even() ? along_rows.StartOf(context.outputs[0], b) : b;
        LaunchFromSpectra(queue, real.type, real.rows, real.size, spectra, start, scratch);
        if (real.even()) {
          along_rows.Launch(queue, start, context.outputs[0], b, scratch);
          return;
        }
        void *const end = along_rows.StartOf(b, a), *const work = end == a ? b : a;
        const void* const lines = along_rows.Launch(queue, start, end, work, scratch);
        LaunchComplexPart(queue, ComplexPart::kReal, real.type, lines, context.outputs[0], real.rows * real.size);
      },
      room.bytes());
}

}  // namespace

void RegisterFourier(KernelRegistry& registry, DeviceServices& services) {
  for (const char* op : {"FFT", "FFT2D", "FFT3D", "IFFT", "IFFT2D", "IFFT3D"}) Add(registry, services, op, MakeFft);
  for (const char* op : {"RFFT", "RFFT2D", "RFFT3D"}) Add(registry, services, op, MakeRfft);
  for (const char* op : {"IRFFT", "IRFFT2D", "IRFFT3D"}) Add(registry, services, op, MakeIrfft);
}

}  // namespace millrace::cuda
