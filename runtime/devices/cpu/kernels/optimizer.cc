// Apply* and ResourceApply*.
#include "cpu/kernels/optimizer.h"

#include <complex>

#include "absl/strings/str_cat.h"
#include "cpu/kernels/complex.h"
#include "cpu/kernels/register.h"

namespace millrace::cpu {
namespace {

std::complex<double> ScalarValue(const void* data, DataType dtype) {
  switch (dtype) {
    case DataType::kFloat:
      return *static_cast<const float*>(data);
    case DataType::kDouble:
      return *static_cast<const double*>(data);
    case DataType::kInt32:
      return *static_cast<const int32_t*>(data);
    case DataType::kInt64:
      return static_cast<double>(*static_cast<const int64_t*>(data));
    case DataType::kComplex64:
      return *static_cast<const std::complex<float>*>(data);
    case DataType::kComplex128:
      return *static_cast<const std::complex<double>*>(data);
    default:
      break;
  }
  float value = 0;
  WideningOf(dtype).load(data, &value, 1);
  return value;
}

bool IsScalarType(DataType dtype) {
  return IsFloating(dtype) || IsComplex(dtype) || dtype == DataType::kInt32 || dtype == DataType::kInt64;
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeApply(const OpInstance& instance, const UpdateRule& rule) {
  absl::StatusOr<BoundUpdate> update = BoundUpdate::Create(instance, rule, /*sparse=*/false);
  if (!update.ok()) return update.status();
  const int64_t elements = instance.inputs[update->gradient_input()].shape.num_elements();
  return MakeKernel([update = *std::move(update), elements](const KernelContext& context) {
    const BoundUpdate::Scalars scalars = update.ReadScalars(context);
    const BoundUpdate::Pointers slots = update.SlotPointers(context);
    const char* gradient = context.input<char>(update.gradient_input());
    ParallelRange(context, elements, kElementGrain / 4,
                  [&](int64_t begin, int64_t end) { update.Run(slots, begin, gradient, begin, scalars, end - begin); });
    return absl::OkStatus();
  });
}

}  // namespace

absl::StatusOr<BoundUpdate> BoundUpdate::Create(const OpInstance& instance, const UpdateRule& rule, bool sparse) {
  BoundUpdate update;
  const DataType dtype = instance.inputs[0].dtype;
  const bool other = rule.attr != nullptr && instance.attrs.GetOr<bool>(rule.attr, !rule.attr_value) == rule.attr_value;
  const UpdateLoops loops = IsComplex(dtype) ? ComplexUpdateLoops(rule.name, other) : other ? rule.other : rule.loops;
  update.widening_ = WideningOf(dtype);
  if (update.widening_.compute == DataType::kFloat || dtype == DataType::kComplex64) update.loop_ = loops.on_float;
  if (update.widening_.compute == DataType::kDouble || dtype == DataType::kComplex128) update.loop_ = loops.on_double;
  if (update.loop_ == nullptr) return UnsupportedType(instance, dtype);
  update.bytes_ = DataTypeSize(dtype);
  update.slots_ = rule.slots;
  update.gradient_ = rule.gradient;
  for (int i = rule.slots; i < static_cast<int>(instance.inputs.size()); ++i) {
    if (i == rule.gradient || (sparse && i == rule.gradient + 1)) continue;
    if (!IsScalarType(instance.inputs[i].dtype)) return UnsupportedType(instance, instance.inputs[i].dtype);
    update.scalars_.emplace_back(i, instance.inputs[i].dtype);
  }
  return update;
}

BoundUpdate::Scalars BoundUpdate::ReadScalars(const KernelContext& context) const {
  Scalars scalars = {};
  for (size_t k = 0; k < scalars_.size(); ++k) {
    const std::complex<double> value = ScalarValue(context.inputs[scalars_[k].first], scalars_[k].second);
    scalars[k] = value.real();
    scalars[kMaxScalars + k] = value.imag();
  }
  return scalars;
}

BoundUpdate::Pointers BoundUpdate::SlotPointers(const KernelContext& context) const {
  Pointers pointers = {};
  for (int k = 0; k < slots_; ++k) pointers[k] = context.variable<char>(k);
  return pointers;
}

void BoundUpdate::Run(const Pointers& slots, int64_t at, const char* gradient, int64_t from, const Scalars& scalars,
                      int64_t n) const {
  void* arrays[kMaxSlots] = {};
  if (widening_.load == nullptr) {
    for (int k = 0; k < slots_; ++k) arrays[k] = slots[k] + at * bytes_;
    loop_(arrays, gradient + from * bytes_, scalars.data(), n);
    return;
  }
  Block wide[kMaxSlots], wide_gradient;
  for (int k = 0; k < slots_; ++k) arrays[k] = wide[k].bytes;
  for (int64_t i = 0; i < n; i += kBlockElements) {
    const int64_t count = std::min(kBlockElements, n - i);
    for (int k = 0; k < slots_; ++k) widening_.load(slots[k] + (at + i) * bytes_, wide[k].bytes, count);
    widening_.load(gradient + (from + i) * bytes_, wide_gradient.bytes, count);
    loop_(arrays, wide_gradient.bytes, scalars.data(), count);
    for (int k = 0; k < slots_; ++k) widening_.store(wide[k].bytes, slots[k] + (at + i) * bytes_, count);
  }
}

void RegisterOptimizerKernels(KernelRegistry& registry) {
  for (const UpdateRule& rule : UpdateRules()) {
    for (const char* prefix : {"ResourceApply", "Apply"}) {
      if (!rule.reference && prefix[0] == 'A') continue;
      AddKernel(registry, absl::StrCat(prefix, rule.name),
                [&rule](const OpInstance& instance) { return MakeApply(instance, rule); });
    }
  }
  AddKernel(registry, "_AssignMovingAverage", [](const OpInstance& instance) { return MakeApply(instance, MovingAverageRule()); });
}

}  // namespace millrace::cpu
