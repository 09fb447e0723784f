// Constants that hold the path of a SavedModel's asset.
#ifndef MILLRACE_SRC_GRAPH_ASSET_FILE_H_
#define MILLRACE_SRC_GRAPH_ASSET_FILE_H_

#include <string_view>

namespace millrace {

// The attribute of such a constant: the asset's file, as the model names it. In the graph's fingerprint it stands for the path, so that
// a model is the same graph wherever it lies.
inline constexpr std::string_view kAssetFile = "_asset_file";

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_ASSET_FILE_H_
