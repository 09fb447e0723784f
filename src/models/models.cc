#include "models/models.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/parameters.h"
#include "millrace/optimizers.h"
#include "millrace/status.h"
#include "models/generators.h"

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

// Options with the model's defaults where nothing was given.
absl::StatusOr<ModelOptions> Complete(const ModelInfo& info, const ModelOptions& given) {
  ModelOptions options = info.defaults;
  const auto take = [&](const char* name, int64_t value, int64_t& field) -> absl::Status {
    if (value == 0) return absl::OkStatus();
    constexpr int64_t kMost = int64_t{1} << 31;
    if (value < 0 || value > kMost) {
      return absl::InvalidArgumentError(
          absl::StrCat("model ", info.name, ": ", name, " is ", value, ", expected 1 to ", kMost));
    }
    field = value;
    return absl::OkStatus();
  };
  MR_RETURN_IF_ERROR(take("batch", given.batch, options.batch));
  MR_RETURN_IF_ERROR(take("image_size", given.image_size, options.image_size));
  MR_RETURN_IF_ERROR(take("classes", given.classes, options.classes));
  MR_RETURN_IF_ERROR(take("depth", given.depth, options.depth));
  MR_RETURN_IF_ERROR(take("layers", given.layers, options.layers));
  MR_RETURN_IF_ERROR(take("hidden", given.hidden, options.hidden));
  MR_RETURN_IF_ERROR(take("heads", given.heads, options.heads));
  MR_RETURN_IF_ERROR(take("steps_unrolled", given.steps_unrolled, options.steps_unrolled));
  MR_RETURN_IF_ERROR(take("vocab", given.vocab, options.vocab));
  MR_RETURN_IF_ERROR(take("experts", given.experts, options.experts));
  MR_RETURN_IF_ERROR(take("devices", given.devices, options.devices));
  MR_RETURN_IF_ERROR(take("channels", given.channels, options.channels));
  MR_RETURN_IF_ERROR(take("levels", given.levels, options.levels));
  if (!given.variant.empty()) options.variant = given.variant;
  if (!given.optimizer.empty()) options.optimizer = given.optimizer;
  if (given.learning_rate != 0) options.learning_rate = given.learning_rate;
  if (given.weight_decay >= 0) options.weight_decay = given.weight_decay;
  if (given.dropout >= 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("model ", info.name, ": dropout is ", given.dropout, ", expected at least 0 and below 1"));
  }
  if (given.dropout >= 0) options.dropout = given.dropout;
  options.seed = given.seed;
  return options;
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
  b.set_seed(options.seed);
  MR_ASSIGN_OR_RETURN(const Output loss, generator->build(b, options));
  Minimize(b, std::move(optimizer), loss, "train");
  b.AddInit("init");
  return std::move(b).Build();
}

int64_t CountParameters(const Graph& graph) { return ParametersOf(graph).elements; }

}  // namespace millrace
