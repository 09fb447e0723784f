// Names close to one that is not there: what a message offers in its place.
#ifndef MILLRACE_SRC_GRAPH_NEAR_NAMES_H_
#define MILLRACE_SRC_GRAPH_NEAR_NAMES_H_

#include <cstddef>
#include <string_view>

namespace millrace {

// How many letters are put in, left out, changed or exchanged with the next one to make one name of the other (Damerau's
// distance, with no letter moved twice); most + 1 when they are more than `most`, which ends the search early.
size_t DifferingLetters(std::string_view a, std::string_view b, size_t most);

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_NEAR_NAMES_H_
