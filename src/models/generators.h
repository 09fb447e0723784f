// The generators behind BuildModel: each emits its network into the builder and returns the loss.
#ifndef MILLRACE_SRC_MODELS_GENERATORS_H_
#define MILLRACE_SRC_MODELS_GENERATORS_H_

#include "absl/status/statusor.h"
#include "millrace/graph_builder.h"
#include "models/models.h"

namespace millrace {

struct ModelGenerator {
  ModelInfo info;
  // `options` has no defaults left in it. Options out of range are errors; shape errors stay in the builder.
  absl::StatusOr<Output> (*build)(GraphBuilder& b, const ModelOptions& options);
};

// Of activations and products.
DataType PrecisionOf(const ModelOptions& options);

ModelGenerator BertGenerator();
ModelGenerator DeeplabGenerator();
ModelGenerator DeepspeechGenerator();
ModelGenerator DensenetGenerator();
ModelGenerator GooglenetGenerator();
ModelGenerator GptGenerator();
ModelGenerator LstmGenerator();
ModelGenerator MlpGenerator();
ModelGenerator MoeTransformerGenerator();
ModelGenerator ResnetGenerator();
ModelGenerator Unet3dGenerator();
ModelGenerator VggGenerator();

}  // namespace millrace

#endif  // MILLRACE_SRC_MODELS_GENERATORS_H_
