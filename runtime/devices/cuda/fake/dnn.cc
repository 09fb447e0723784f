// cuDNN's graph interface for convolutions, by its definition. Of its engines most are such as a user must not take, each for
// another reason; it knows none for three dimensions with the channels last, so that the other layout is tried, none for a
// convolution in groups with something behind it, which then runs apart, and none for dilated windows by a handle, so that the
// device is described. For windows eleven wide one of its libraries is missing.
#include <cudnn.h>

#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "cuda/fake/convolution.h"
#include "cuda/fake/faults.h"
#include "cuda/fake/streams.h"

namespace {

using millrace::cuda::fake::Agree;
using millrace::cuda::fake::Block;
using millrace::cuda::fake::Convolution;
using millrace::cuda::fake::CurrentDevice;
using millrace::cuda::fake::DeviceOf;
using millrace::cuda::fake::EnqueueKernel;
using millrace::cuda::fake::IsScratch;
using millrace::cuda::fake::IsStream;
using millrace::cuda::fake::MayCall;
using millrace::cuda::fake::Number;
using millrace::cuda::fake::OnDevice;
using millrace::cuda::fake::Part;
using millrace::cuda::fake::SpoilScratch;
using millrace::cuda::fake::Tensor;
using millrace::cuda::fake::Window;

struct Engine {
  int number_note = -1, behaviour_note = -1;
  int64_t scratch_bytes = 2048;
  bool plans = true, runs = true;
  std::optional<int64_t> tile;  // what its knob must be set to
};
const Engine kEngines[] = {
    {.number_note = CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC},
    {.number_note = CUDNN_NUMERICAL_NOTE_TENSOR_CORE},
    {.number_note = CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS},
    {.number_note = CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION},
    {.behaviour_note = CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION},
    {.scratch_bytes = int64_t{1} << 40},
    {.plans = false},
    {.runs = false},
    {.tile = 2},
    {.scratch_bytes = 0},
};
constexpr int64_t kEngineCount = std::size(kEngines);
const std::vector<int64_t> kBestEngines = {0, 1, 2, 3, 4, 5, 6, 7, 8}, kOtherEngines = {8, 9};

struct Content;
using Link = std::shared_ptr<const Content>;
struct Value {
  cudnnBackendAttributeType_t type;
  std::vector<char> bytes;
  std::vector<Link> links;  // instead, of descriptors
  int64_t count = 0;
};
struct Content {
  cudnnBackendDescriptorType_t type;
  bool finalized = false;
  std::map<int, Value> values;
  // Of an operation, and of all that is made for its graph.
  std::shared_ptr<const Convolution> convolution;
  Part part = Part::kY;
  bool by_handle = false;  // that its graph has, or else the device is described
};
struct Descriptor {
  std::shared_ptr<Content> content;
};
struct Handle {
  const int device = CurrentDevice();
  cudaStream_t stream = nullptr;
};

Descriptor* Of(cudnnBackendDescriptor_t d) { return reinterpret_cast<Descriptor*>(d); }
Handle* Of(cudnnHandle_t handle) { return reinterpret_cast<Handle*>(handle); }

size_t SizeOf(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_INT64: return sizeof(int64_t);
    case CUDNN_TYPE_INT32: return sizeof(int32_t);
    case CUDNN_TYPE_DOUBLE: return sizeof(double);
    case CUDNN_TYPE_FLOAT: return sizeof(float);
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR: return sizeof(void*);
    case CUDNN_TYPE_BOOLEAN: return sizeof(bool);
    case CUDNN_TYPE_CHAR: return 1;
    case CUDNN_TYPE_DATA_TYPE:
    case CUDNN_TYPE_POINTWISE_MODE:
    case CUDNN_TYPE_NAN_PROPOGATION:
    case CUDNN_TYPE_CONVOLUTION_MODE:
    case CUDNN_TYPE_HEUR_MODE:
    case CUDNN_TYPE_KNOB_TYPE: return sizeof(int);
    default: return 0;
  }
}

// The values of an attribute; none where it is missing, or of another type.
template <typename T>
std::vector<T> Values(const Content& content, int name, cudnnBackendAttributeType_t type) {
  const auto found = content.values.find(name);
  if (found == content.values.end() || found->second.type != type) return {};
  std::vector<T> values(found->second.count);
  std::memcpy(values.data(), found->second.bytes.data(), found->second.bytes.size());
  return values;
}
template <typename T>
std::optional<T> One(const Content& content, int name, cudnnBackendAttributeType_t type) {
  const std::vector<T> values = Values<T>(content, name, type);
  return values.size() == 1 ? std::optional<T>(values[0]) : std::nullopt;
}
const Content* Linked(const Content& content, int name, cudnnBackendDescriptorType_t type) {
  const auto found = content.values.find(name);
  if (found == content.values.end() || found->second.links.size() != 1) return nullptr;
  const Content* linked = found->second.links[0].get();
  return linked->type == type ? linked : nullptr;
}

std::optional<Tensor> TensorOf(const Content* content) {
  if (content == nullptr) return std::nullopt;
  const auto type = One<cudnnDataType_t>(*content, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE);
  const auto alignment = One<int64_t>(*content, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64);
  const auto dims = Values<int64_t>(*content, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64);
  const auto strides = Values<int64_t>(*content, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64);
  if (!type || !alignment || dims.size() != strides.size() || dims.size() < 4 || dims.size() > 5) return std::nullopt;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 1 || strides[i] < 1) return std::nullopt;
  }
  if (!One<int64_t>(*content, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64)) return std::nullopt;
  Tensor tensor;
  switch (*type) {
    case CUDNN_DATA_FLOAT: tensor.type = Number::kFloat; break;
    case CUDNN_DATA_DOUBLE: tensor.type = Number::kDouble; break;
    case CUDNN_DATA_HALF: tensor.type = Number::kHalf; break;
    case CUDNN_DATA_BFLOAT16: tensor.type = Number::kBfloat16; break;
    default: return std::nullopt;
  }
  tensor.rank = static_cast<int>(dims.size());
  for (int i = 0; i < tensor.rank; ++i) {
    tensor.dims[i] = dims[i];
    tensor.strides[i] = strides[i];
  }
  return tensor;
}

int64_t IdOf(const Content& tensor) { return *One<int64_t>(tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64); }
bool IsVirtual(const Content& tensor) {
  return One<char>(tensor, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN).value_or(0) != 0;  // a bool is a byte
}

std::optional<Window> WindowOf(const Content* content) {
  if (content == nullptr) return std::nullopt;
  const auto mode = One<cudnnConvolutionMode_t>(*content, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE);
  const auto spatial = One<int64_t>(*content, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64);
  if (mode != CUDNN_CROSS_CORRELATION || !spatial || *spatial < 2 || *spatial > 3) return std::nullopt;
  if (!One<cudnnDataType_t>(*content, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE)) return std::nullopt;
  Window window;
  window.spatial = static_cast<int>(*spatial);
  const std::pair<int, int64_t*> all[] = {{CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, window.pad},
                                          {CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, window.pad_after},
                                          {CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, window.stride},
                                          {CUDNN_ATTR_CONVOLUTION_DILATIONS, window.dilation}};
  for (const auto& [name, to] : all) {
    const auto values = Values<int64_t>(*content, name, CUDNN_TYPE_INT64);
    if (values.size() != static_cast<size_t>(*spatial)) return std::nullopt;
    std::copy(values.begin(), values.end(), to);
  }
  return window;
}

// The attributes of the three operations have other names each.
struct Names {
  Part part;
  int alpha, beta, window, x, w, y;
};
std::optional<Names> NamesOf(cudnnBackendDescriptorType_t type) {
  switch (type) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      return Names{Part::kY,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y};
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      return Names{Part::kX,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY};
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      return Names{Part::kW,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY};
    default: return std::nullopt;
  }
}

bool FinalizeOperation(Content& content, const Names& names) {
  const auto x = TensorOf(Linked(content, names.x, CUDNN_BACKEND_TENSOR_DESCRIPTOR));
  const auto w = TensorOf(Linked(content, names.w, CUDNN_BACKEND_TENSOR_DESCRIPTOR));
  const Content* of_y = Linked(content, names.y, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  auto y = TensorOf(of_y);
  const Content* settings = Linked(content, names.window, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const auto window = WindowOf(settings);
  if (!x || !w || !y || !window) return false;
  // What is not in memory is not rounded to halves.
  if (IsVirtual(*of_y) && y->type != Number::kFloat) return false;
  if (IsVirtual(*of_y)) y->type = x->type;
  const bool wide = One<cudnnDataType_t>(*settings, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE) == CUDNN_DATA_DOUBLE;
  if (wide != (x->type == Number::kDouble)) return false;
  const auto is = [&](int name, double value) {
    return wide ? One<double>(content, name, CUDNN_TYPE_DOUBLE) == value
                : One<float>(content, name, CUDNN_TYPE_FLOAT) == static_cast<float>(value);
  };
  const Convolution convolution{*x, *w, *y, *window};
  if (!is(names.alpha, 1) || !is(names.beta, 0) || !Agree(convolution)) return false;
  content.convolution = std::make_shared<const Convolution>(convolution);
  content.part = names.part;
  return true;
}

// Behind the convolution: the tensor beside it, then a bias, then perhaps a Relu, each of what the one before gives.
bool AddPointwise(Convolution& convolution, const Content& operation, int64_t& before, bool& open) {
  const auto tensor = [&](int name) { return Linked(operation, name, CUDNN_BACKEND_TENSOR_DESCRIPTOR); };
  const Content *x = tensor(CUDNN_ATTR_OPERATION_POINTWISE_XDESC), *y = tensor(CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
  const Content* b = tensor(CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
  const Content* settings = Linked(operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  if (x == nullptr || y == nullptr || settings == nullptr || !open || IdOf(*x) != before) return false;
  const auto mode = One<cudnnPointwiseMode_t>(*settings, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE);
  if (mode == CUDNN_POINTWISE_RELU_FWD) {
    if (b != nullptr || !convolution.bias || convolution.relu) return false;
    convolution.relu = true;
  } else if (mode == CUDNN_POINTWISE_ADD && b != nullptr) {
    const auto other = TensorOf(b);
    const bool vector = other->dims[0] == 1 && other->dims[2] * other->dims[3] * other->dims[4] == 1;
    if (convolution.bias || other->type != convolution.x.type || other->dims[1] != convolution.y.dims[1]) return false;
    if (IdOf(*b) == 5 && other->dims[0] == convolution.y.dims[0] && !convolution.side) {
      convolution.side = true;
    } else if (IdOf(*b) == 4 && vector) {
      convolution.bias = true;
    } else {
      return false;
    }
  } else {
    return false;
  }
  before = IdOf(*y);
  open = IsVirtual(*y);
  return open || TensorOf(y)->type == convolution.x.type;
}

// The one convolution that the operations are, with all that is behind it.
bool FinalizeGraph(Content& content, const std::vector<Link>& operations) {
  const Content& first = *operations[0];
  const auto names = NamesOf(first.type);
  if (!names || first.convolution == nullptr) return false;
  Convolution convolution = *first.convolution;
  const Content* y = Linked(first, names->y, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  int64_t before = IdOf(*y);
  bool open = IsVirtual(*y);
  for (size_t i = 1; i < operations.size(); ++i) {
    if (!AddPointwise(convolution, *operations[i], before, open)) return false;
  }
  content.convolution = std::make_shared<const Convolution>(convolution);
  content.part = first.part;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  const int handle = CUDNN_ATTR_OPERATIONGRAPH_HANDLE;
#pragma GCC diagnostic pop
  content.by_handle = content.values.count(handle) > 0;
  if (content.by_handle && One<void*>(content, handle, CUDNN_TYPE_HANDLE).value_or(nullptr) == nullptr) return false;
  return !open && before == 3;
}

// Takes the convolution over from what was made before.
bool Inherit(Content& content, const Content* from) {
  if (from == nullptr || from->convolution == nullptr) return false;
  content.convolution = from->convolution;
  content.part = from->part;
  content.by_handle = from->by_handle;
  return true;
}

// As where one of cuDNN's libraries is not found when it is first wanted.
bool LacksLibrary(const Convolution& c) { return c.w.dims[c.w.rank - 1] == 11; }

bool HasEngines(const Convolution& c, bool by_handle) {
  for (const int64_t dilation : c.window.dilation) {
    if (by_handle && dilation > 1) return false;
  }
  const bool channels_last_3d = c.window.spatial == 3 && c.x.strides[1] == 1 && c.x.dims[1] > 1;
  return !channels_last_3d && !(c.bias && c.groups() > 1);
}

int64_t EngineIndex(const Content& engine) {
  return One<int64_t>(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64).value_or(-1);
}
const Engine& EngineOf(const Content& config) {
  return kEngines[EngineIndex(*Linked(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR))];
}

// An engine that wants a tile is given it, the others are given nothing.
bool KnobsFit(const Content& config, const Engine& engine) {
  const auto knobs = config.values.find(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES);
  if (!engine.tile) return knobs == config.values.end();
  if (knobs == config.values.end() || knobs->second.links.size() != 1) return false;
  const Content& knob = *knobs->second.links[0];
  return One<cudnnBackendKnobType_t>(knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE) == CUDNN_KNOB_TYPE_TILE_SIZE &&
         One<int64_t>(knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64) == engine.tile;
}

cudnnStatus_t Finalize(Content& content) {
  const auto says = [](bool right) { return right ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM; };
  const auto graph = [&](int name) { return Linked(content, name, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR); };
  // By its graph's handle, or as this says: one of them.
  const auto on_device = [&](int name) {
    return content.by_handle != (Linked(content, name, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR) != nullptr);
  };
  if (const auto names = NamesOf(content.type)) return says(FinalizeOperation(content, *names));
  switch (content.type) {
    case CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR:
      return says(One<int32_t>(content, CUDNN_ATTR_DEVICEPROP_DEVICE_ID, CUDNN_TYPE_INT32) == 0);
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR: return says(TensorOf(&content).has_value());
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR: return says(WindowOf(&content).has_value());
    case CUDNN_BACKEND_POINTWISE_DESCRIPTOR:
      return says(One<cudnnDataType_t>(content, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE) == CUDNN_DATA_FLOAT);
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: return CUDNN_STATUS_SUCCESS;
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR: {
      const auto ops = content.values.find(CUDNN_ATTR_OPERATIONGRAPH_OPS);
      return says(ops != content.values.end() && FinalizeGraph(content, ops->second.links));
    }
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR: {
      const bool of_graph = Inherit(content, graph(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH));
      const auto mode = One<cudnnBackendHeurMode_t>(content, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE);
      if (!of_graph || !mode || !on_device(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP)) return CUDNN_STATUS_BAD_PARAM;
      if (LacksLibrary(*content.convolution)) return CUDNN_STATUS_NOT_SUPPORTED_SUBLIBRARY_UNAVAILABLE;
      return HasEngines(*content.convolution, content.by_handle) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
    }
    case CUDNN_BACKEND_ENGINE_DESCRIPTOR: {
      const bool of_graph = Inherit(content, graph(CUDNN_ATTR_ENGINE_OPERATION_GRAPH));
      if (!of_graph || !on_device(CUDNN_ATTR_ENGINE_DEVICEPROP)) return CUDNN_STATUS_BAD_PARAM;
      const int64_t index = EngineIndex(content);
      return index >= 0 && index < kEngineCount ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
    }
    case CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR: return CUDNN_STATUS_SUCCESS;
    case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR:
      return says(Inherit(content, Linked(content, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR)) &&
                  KnobsFit(content, EngineOf(content)));
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: {
      const Content* config = Linked(content, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
      if (!Inherit(content, config)) return CUDNN_STATUS_BAD_PARAM;
      return EngineOf(*config).plans ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
    }
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
      return says(Values<int64_t>(content, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64).size() ==
                      Values<void*>(content, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR).size() &&
                  One<void*>(content, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR));
    default: return CUDNN_STATUS_NOT_SUPPORTED;
  }
}

void SetValue(Content& content, int name, cudnnBackendAttributeType_t type, int64_t count, const void* values) {
  Value value{type, {}, {}, count};
  value.bytes.assign(static_cast<const char*>(values), static_cast<const char*>(values) + SizeOf(type) * count);
  content.values[name] = std::move(value);
}
void SetLink(Content& content, int name, Link link) {
  content.values[name] = {CUDNN_TYPE_BACKEND_DESCRIPTOR, {}, {std::move(link)}, 1};
}

// The configuration that a ranking returns, with all that belongs to it.
std::shared_ptr<Content> MakeConfig(const Content& heuristics, int64_t index) {
  const auto make = [&](cudnnBackendDescriptorType_t type) {
    auto content = std::make_shared<Content>();
    content->type = type;
    content->finalized = true;
    Inherit(*content, &heuristics);
    return content;
  };
  const auto engine = make(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  SetValue(*engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &index);
  const auto config = make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  SetLink(*config, CUDNN_ATTR_ENGINECFG_ENGINE, engine);
  if (const auto tile = kEngines[index].tile) {
    const auto knob = make(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    const cudnnBackendKnobType_t type = CUDNN_KNOB_TYPE_TILE_SIZE;
    SetValue(*knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type);
    SetValue(*knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &*tile);
    SetLink(*config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, knob);
  }
  return config;
}

// What cuDNN computes itself of the attribute's descriptors.
std::vector<std::shared_ptr<Content>> Descriptors(const Content& content, int name) {
  std::vector<std::shared_ptr<Content>> found;
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS) {
    const auto mode = One<cudnnBackendHeurMode_t>(content, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE);
    for (const int64_t index : mode == CUDNN_HEUR_MODE_A ? kBestEngines : kOtherEngines) {
      found.push_back(MakeConfig(content, index));
    }
  } else if (const auto value = content.values.find(name); value != content.values.end()) {
    for (const Link& link : value->second.links) found.push_back(std::make_shared<Content>(*link));
  }
  return found;
}

cudnnStatus_t GetNotes(int note, int64_t wanted, int64_t* count, void* values) {
  *count = note < 0 ? 0 : 1;
  if (*count > wanted) return CUDNN_STATUS_BAD_PARAM;
  if (*count == 1) std::memcpy(values, &note, sizeof note);
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

size_t cudnnGetVersion() { return CUDNN_VERSION; }
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  if (MayCall() != cudaSuccess) return CUDNN_STATUS_NOT_INITIALIZED;  // it takes memory
  return *handle = reinterpret_cast<cudnnHandle_t>(new Handle), CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) { return Block("cudnnDestroy"), delete Of(handle), CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  // The one before may be looked at, too.
  cudaStream_t& now = Of(handle)->stream;
  if (DeviceOf(stream) != Of(handle)->device || (now != nullptr && !IsStream(now))) return CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH;
  return now = stream, CUDNN_STATUS_SUCCESS;
}
const char* cudnnGetErrorString(cudnnStatus_t) { return "an error of the fake"; }
void cudnnGetLastErrorString(char* message, size_t most) { std::strncpy(message, "in detail", most); }

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* descriptor) {
  auto* const made = new Descriptor{std::make_shared<Content>()};
  made->content->type = type;
  *descriptor = reinterpret_cast<cudnnBackendDescriptor_t>(made);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  return delete Of(descriptor), CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  Content& content = *Of(descriptor)->content;
  const cudnnStatus_t status = content.finalized ? CUDNN_STATUS_BAD_PARAM : Finalize(content);
  content.finalized = status == CUDNN_STATUS_SUCCESS;
  return status;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void* values) {
  Content& content = *Of(descriptor)->content;
  if (content.finalized || count < 1 || values == nullptr) return CUDNN_STATUS_BAD_PARAM;
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    Value links{type, {}, {}, count};
    for (int64_t i = 0; i < count; ++i) {
      const Descriptor* other = Of(static_cast<const cudnnBackendDescriptor_t*>(values)[i]);
      if (!other->content->finalized) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
      links.links.push_back(other->content);
    }
    content.values[name] = std::move(links);
    return CUDNN_STATUS_SUCCESS;
  }
  if (SizeOf(type) == 0) return CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE;
  SetValue(content, name, type, count, values);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t wanted, int64_t* count, void* values) {
  const Content& content = *Of(descriptor)->content;
  if (!content.finalized) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
  if (type == CUDNN_TYPE_NUMERICAL_NOTE) return GetNotes(kEngines[EngineIndex(content)].number_note, wanted, count, values);
  if (type == CUDNN_TYPE_BEHAVIOR_NOTE) return GetNotes(kEngines[EngineIndex(content)].behaviour_note, wanted, count, values);
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    const auto found = Descriptors(content, name);
    *count = static_cast<int64_t>(found.size());
    for (int64_t i = 0; i < std::min(*count, wanted); ++i) {
      Descriptor* to = Of(static_cast<cudnnBackendDescriptor_t*>(values)[i]);
      if (to->content->type != found[i]->type || to->content->finalized) return CUDNN_STATUS_BAD_PARAM;
      to->content = found[i];
    }
    return CUDNN_STATUS_SUCCESS;
  }
  if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE && type == CUDNN_TYPE_INT64 && wanted == 1) {
    *count = 1;
    const Content* config = Linked(content, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    return *static_cast<int64_t*>(values) = EngineOf(*config).scratch_bytes, CUDNN_STATUS_SUCCESS;
  }
  const auto value = content.values.find(name);
  if (value == content.values.end() || value->second.type != type || value->second.count > wanted) return CUDNN_STATUS_BAD_PARAM;
  *count = value->second.count;
  std::memcpy(values, value->second.bytes.data(), value->second.bytes.size());
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack) {
  const Content &made = *Of(plan)->content, &given = *Of(pack)->content;
  if (Of(handle)->stream == nullptr || !made.finalized || !given.finalized) return CUDNN_STATUS_BAD_PARAM;
  const Content* config = Linked(made, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  const Engine& engine = EngineOf(*config);
  const auto ids = Values<int64_t>(given, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64);
  const auto pointers = Values<void*>(given, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR);
  void* const scratch = *One<void*>(given, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR);
  const Convolution& convolution = *made.convolution;
  std::vector<int64_t> expected{1, 2, 3};
  if (convolution.bias) expected.push_back(4);
  if (convolution.side) expected.push_back(5);
  if (ids != expected) return CUDNN_STATUS_BAD_PARAM;
  const int64_t elements[] = {convolution.x.elements(), convolution.w.elements(), convolution.y.elements(),
                              convolution.y.dims[1], convolution.y.elements()};
  for (size_t i = 0; i < pointers.size(); ++i) {
    if (reinterpret_cast<uintptr_t>(pointers[i]) % 64 != 0) return CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER;
    const int64_t size = elements[ids[i] - 1] * SizeOf(convolution.x.type);
    if (!OnDevice(pointers[i], static_cast<size_t>(size))) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  }
  const auto bytes = static_cast<size_t>(engine.scratch_bytes);
  if (!engine.runs || !IsScratch(scratch, bytes, bytes) || (bytes > 0 && !OnDevice(scratch, bytes))) {
    return CUDNN_STATUS_EXECUTION_FAILED;
  }
  const auto work = [convolution = made.convolution, part = made.part, pointers, scratch, bytes] {
    if (bytes > 0) SpoilScratch(scratch, bytes);
    const void* const bias = convolution->bias ? pointers[3] : nullptr;
    const void* const side = convolution->side ? pointers[4] : nullptr;
    Compute(*convolution, part, pointers[0], pointers[1], pointers[2], bias, side);
  };
  return EnqueueKernel(Of(handle)->stream, work) == cudaSuccess ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
}

}  // extern "C"
