// Names of files of what is given by a folder or a prefix.
#ifndef MILLRACE_SRC_FILES_MODEL_FILES_H_
#define MILLRACE_SRC_FILES_MODEL_FILES_H_

#include <string>

namespace millrace {

// PREFIX.index of a checkpoint.
inline constexpr char kCheckpointIndex[] = ".index";

// Of a SavedModel: its graph, binary, or text where there is only that.
std::string SavedModelFile(const std::string& folder);

}  // namespace millrace

#endif  // MILLRACE_SRC_FILES_MODEL_FILES_H_
