// tf.train.Example records that are written in JSON.
#ifndef MILLRACE_SRC_GRAPH_JSON_EXAMPLE_H_
#define MILLRACE_SRC_GRAPH_JSON_EXAMPLE_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace millrace {

// The record's bytes as DecodeJSONExample makes them: fields in the order in which they come. As protobuf does it takes keys without
// quotes or in single ones, and a comma behind the last member. InvalidArgument says what is wrong, and where.
absl::StatusOr<std::string> ExampleFromJson(std::string_view json);

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_JSON_EXAMPLE_H_
