#include "models/models.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/parameters.h"
#include "millrace/optimizers.h"
#include "millrace/status.h"
#include "models/generators.h"
#include "models/layers.h"

namespace millrace {
namespace {

const std::vector<ModelGenerator>& Generators() {
  static const std::vector<ModelGenerator>& generators = *new std::vector<ModelGenerator>{
      ResnetGenerator(), MlpGenerator(),       VggGenerator(),  GooglenetGenerator(), DensenetGenerator(),
      DeeplabGenerator(), Unet3dGenerator(),   LstmGenerator(), DeepspeechGenerator(), BertGenerator(),
      GptGenerator(),    MoeTransformerGenerator(),
  };
  return generators;
}

constexpr int64_t kMostElements = (int64_t{1} << 31) - 1;  // along a dimension
constexpr int64_t kMostParts = 100'000;                    // that have nodes of their own

constexpr const char* kPrecisions[] = {"float32", "bfloat16", "float16"};

absl::Status CheckPrecision(const ModelInfo& info, const ModelOptions& options) {
  const bool known = options.precision.empty() || std::count(std::begin(kPrecisions), std::end(kPrecisions), options.precision) > 0;
  const bool has = std::count(info.options.begin(), info.options.end(), "precision") > 0;
  if (known && (has || PrecisionOf(options) == DataType::kFloat)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("model ", info.name, ": precision is '", options.precision, "', expected ",
                                                 has ? absl::StrJoin(kPrecisions, ", ") : kPrecisions[0]));
}

// Options with the model's defaults where nothing was given.
absl::StatusOr<ModelOptions> Complete(const ModelInfo& info, const ModelOptions& given) {
  ModelOptions options = info.defaults;
  const auto take = [&](const char* name, int64_t value, int64_t& field, int64_t most = kMostElements) -> absl::Status {
    if (value == 0) return absl::OkStatus();
    if (value < 0 || value > most) {
      return absl::InvalidArgumentError(
          absl::StrCat("model ", info.name, ": ", name, " is ", value, ", expected 1 to ", most));
    }
    field = value;
    return absl::OkStatus();
  };
  MR_RETURN_IF_ERROR(take("batch", given.batch, options.batch));
  MR_RETURN_IF_ERROR(take("image_size", given.image_size, options.image_size));
  MR_RETURN_IF_ERROR(take("classes", given.classes, options.classes));
  MR_RETURN_IF_ERROR(take("depth", given.depth, options.depth, kMostParts));
  MR_RETURN_IF_ERROR(take("layers", given.layers, options.layers, kMostParts));
  MR_RETURN_IF_ERROR(take("hidden", given.hidden, options.hidden));
  MR_RETURN_IF_ERROR(take("heads", given.heads, options.heads));
  MR_RETURN_IF_ERROR(take("steps_unrolled", given.steps_unrolled, options.steps_unrolled, 10 * kMostParts));
  MR_RETURN_IF_ERROR(take("vocab", given.vocab, options.vocab));
  MR_RETURN_IF_ERROR(take("experts", given.experts, options.experts, kMostParts));
  MR_RETURN_IF_ERROR(take("devices", given.devices, options.devices));
  MR_RETURN_IF_ERROR(take("channels", given.channels, options.channels));
  MR_RETURN_IF_ERROR(take("levels", given.levels, options.levels, 30));
  if (!given.variant.empty()) options.variant = given.variant;
  if (!given.optimizer.empty()) options.optimizer = given.optimizer;
  const auto take_rate = [&](const char* name, double value, double own, double& field, bool below_1) -> absl::Status {
    if (value == own) return absl::OkStatus();
    if (!(value >= 0) || !std::isfinite(value) || (below_1 && value >= 1)) {
      return absl::InvalidArgumentError(absl::StrCat("model ", info.name, ": ", name, " is ", value,
                                                     ", expected at least 0", below_1 ? " and below 1" : ""));
    }
    field = value;
    return absl::OkStatus();
  };
  MR_RETURN_IF_ERROR(take_rate("learning_rate", given.learning_rate, 0, options.learning_rate, false));
  MR_RETURN_IF_ERROR(take_rate("weight_decay", given.weight_decay, -1, options.weight_decay, false));
  MR_RETURN_IF_ERROR(take_rate("dropout", given.dropout, -1, options.dropout, true));
  options.seed = given.seed;
  if (!given.precision.empty()) options.precision = given.precision;
  MR_RETURN_IF_ERROR(CheckPrecision(info, options));
  // Of one class everything is, and there is nothing to train.
  const bool classifies = std::count(info.options.begin(), info.options.end(), "classes") > 0;
  if (classifies) MR_RETURN_IF_ERROR(layers::ExpectAtLeast(info.name, "classes", options.classes, 2));
  return options;
}

// That counts of parameters, and bytes of them and of their gradients and slots, fit 64 bits.
absl::Status CheckParameters(const ModelInfo& info, const Graph& graph) {
  constexpr double kMostParameters = 1e15;
  double parameters = 0;
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const Node& node = graph.node(NodeId{i});
    if (!IsVariable(node)) continue;
    double elements = 1;
    for (int64_t dim : node.attrs.GetOr("shape", Shape()).dims()) elements *= static_cast<double>(dim);
    parameters += elements;
  }
  if (parameters <= kMostParameters) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("model ", info.name, ": ", parameters, " numbers in variables, expected at most ", kMostParameters));
}

}  // namespace

absl::Span<const ModelInfo> Models() {
  static const std::vector<ModelInfo>& infos = *[] {
    auto* all = new std::vector<ModelInfo>();
    for (const ModelGenerator& generator : Generators()) {
      all->push_back(generator.info);
      for (const char* common : {"batch", "optimizer", "learning_rate", "weight_decay", "seed"}) {
        all->back().options.push_back(common);
      }
    }
    return all;
  }();
  return infos;
}

absl::StatusOr<Graph> BuildModel(std::string_view name, const ModelOptions& given) {
  const std::vector<ModelGenerator>& generators = Generators();
  const auto generator = std::find_if(generators.begin(), generators.end(),
                                      [&](const ModelGenerator& g) { return g.info.name == name; });
  if (generator == generators.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "no model '", std::string(name), "', expected one of ",
        absl::StrJoin(generators, ", ", [](std::string* out, const ModelGenerator& g) { out->append(g.info.name); })));
  }
  MR_ASSIGN_OR_RETURN(const ModelOptions options, Complete(generator->info, given));
  MR_ASSIGN_OR_RETURN(std::unique_ptr<Optimizer> optimizer, MakeOptimizer(options.optimizer, options.learning_rate, options.weight_decay));
  GraphBuilder b;
  constexpr int64_t kMostNodes = 4'000'000;  // some 10 GB of graph
  b.LimitNodes(kMostNodes);
  b.set_seed(options.seed);
  MR_ASSIGN_OR_RETURN(const Output loss, generator->build(b, options));
  Minimize(b, std::move(optimizer), loss, "train");
  b.AddInit("init");
  MR_ASSIGN_OR_RETURN(Graph graph, std::move(b).Build());
  MR_RETURN_IF_ERROR(CheckParameters(generator->info, graph));
  return graph;
}

DataType PrecisionOf(const ModelOptions& options) {
  if (options.precision == "bfloat16") return DataType::kBfloat16;
  return options.precision == "float16" ? DataType::kHalf : DataType::kFloat;
}

int64_t CountParameters(const Graph& graph) { return ParametersOf(graph).elements; }

}  // namespace millrace
