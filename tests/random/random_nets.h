// Random networks whose layers are what the rewriting passes look for. See README.md.
#ifndef MILLRACE_TESTS_RANDOM_RANDOM_NETS_H_
#define MILLRACE_TESTS_RANDOM_RANDOM_NETS_H_

#include <random>

#include "random/random_graph.h"

namespace millrace {

// Layers over time steps of few rows: products with the same weight in every step, what follows them row by row, recurrences and
// losses per row; here and there a step differs. For PackRows and sums of products.
TrainingGraph RandomRecurrentNet(std::mt19937_64& random);

// Layers over images or volumes: convolutions of all sorts, batch norms, pools, and what goes along with images in any layout or
// needs one. For ChannelsFirst and the fusions.
TrainingGraph RandomImageNet(std::mt19937_64& random);

// Layers over sequences of vectors: embeddings, attention, norms of single ops, dropout, products over all of them. For sums of
// products, elementwise groups with reductions, and random streams.
TrainingGraph RandomSequenceNet(std::mt19937_64& random);

}  // namespace millrace

#endif  // MILLRACE_TESTS_RANDOM_RANDOM_NETS_H_
