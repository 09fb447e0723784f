// Cases of sparse tensors, partitions and rows in place.
#include "absl/strings/str_cat.h"
#include "builder/gradient_cases.h"
#include "millrace/graph_ops.h"

namespace millrace::testing {
namespace {

using Inputs = const std::vector<Output>&;
using Cases = std::vector<GradientCase>;

constexpr DataType kInt64 = DataType::kInt64;

Output Longs(GraphBuilder& b, std::vector<int64_t> values, Shape shape) {
  Tensor tensor(kInt64, std::move(shape));
  for (size_t i = 0; i < values.size(); ++i) tensor.mutable_as<int64_t>()[i] = values[i];
  return b.Const(std::move(tensor));
}

// Four values of a [2, 3] matrix.
Output Indices(GraphBuilder& b) { return Longs(b, {0, 0, 0, 2, 1, 1, 1, 2}, Shape({4, 2})); }
Output Dims(GraphBuilder& b) { return Longs(b, {2, 3}, Shape({2})); }

void AddWithDenseCases(Cases& cases) {
  for (const char* op : {"SparseDenseCwiseAdd", "SparseDenseCwiseMul", "SparseDenseCwiseDiv"}) {
    for (const Shape& dense : {Shape({2, 3}), Shape({2, 1}), Shape({3})}) {
      cases.push_back({absl::StrCat(op, "_", dense.dim(0), dense.rank() == 1 ? "" : absl::StrCat("x", dense.dim(1))),
                       {{{4}}, {dense, 0.5, 2}},
                       [op](GraphBuilder& b, Inputs x) -> Output {
                         return b.Op(op, {Indices(b), x[0], Dims(b), x[1]}, {{"T", x[0].dtype()}}, op);
                       }});
    }
  }
  cases.push_back({"SparseTensorDenseAdd", {{{4}}, {{2, 3}}}, [](GraphBuilder& b, Inputs x) -> Output {
                     return b.Op("SparseTensorDenseAdd", {Indices(b), x[0], Dims(b), x[1]},
                                 {{"T", x[0].dtype()}, {"Tindices", kInt64}});
                   }});
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      const int64_t inner = ta ? 2 : 3;
      cases.push_back({absl::StrCat("SparseTensorDenseMatMul", ta ? "_ta" : "", tb ? "_tb" : ""),
                       {{{4}}, {tb ? Shape({2, inner}) : Shape({inner, 2})}},
                       [=](GraphBuilder& b, Inputs x) -> Output {
                         return b.Op("SparseTensorDenseMatMul", {Indices(b), x[0], Dims(b), x[1]},
                                     {{"T", x[0].dtype()}, {"Tindices", kInt64}, {"adjoint_a", ta}, {"adjoint_b", tb}});
                       }});
    }
  }
}

void AddAloneCases(Cases& cases) {
  cases.push_back({"SparseReorder", {{{4}}}, [](GraphBuilder& b, Inputs x) {
                     const Output indices = Longs(b, {1, 2, 0, 2, 1, 0, 0, 0}, Shape({4, 2}));
                     return b.Op("SparseReorder", {indices, x[0], Dims(b)}, {{"T", x[0].dtype()}}).output(1);
                   }});
  cases.push_back({"SparseSoftmax", {{{5}}}, [](GraphBuilder& b, Inputs x) -> Output {
                     const Output indices = Longs(b, {0, 0, 1, 0, 1, 0, 0, 1, 2, 1, 1, 0, 1, 1, 2}, Shape({5, 3}));
                     return b.Op("SparseSoftmax", {indices, x[0], Longs(b, {2, 2, 3}, Shape({3}))},
                                 {{"T", x[0].dtype()}});
                   }});
  cases.push_back({"DynamicPartition", {{{5, 2}}}, [](GraphBuilder& b, Inputs x) {
                     const Operation parts = b.Op("DynamicPartition", {x[0], b.Ints({1, 0, 2, 1, 0})},
                                                  {{"T", x[0].dtype()}, {"num_partitions", 3}});
                     return ops::Square(ops::Concat(parts.outputs(), 0));
                   }});
  // Rows 1 and 3 of 4 have no values. How many values come out is known only when running.
  const auto filled = [](GraphBuilder& b, Inputs x) {
    const Output indices = Longs(b, {0, 0, 0, 2, 2, 1}, Shape({3, 2}));
    return b.Op("SparseFillEmptyRows", {indices, x[0], Longs(b, {4, 3}, Shape({2})), x[1]}, {{"T", x[0].dtype()}}).output(1);
  };
  cases.push_back({"RaggedTensorToSparse", {{{4, 2}}}, [](GraphBuilder& b, Inputs x) {
    return b.Op("RaggedTensorToSparse", {Longs(b, {0, 1, 1, 4}, Shape({4})), x[0]},
                {{"T", x[0].dtype()}, {"RAGGED_RANK", 1}, {"Tsplits", DataType::kInt64}}).output(1);
  }});
  cases.push_back({"SparseFillEmptyRows", {{{3}}, {{}}}, [filled](GraphBuilder& b, Inputs x) {
                     const Output values = filled(b, x);
                     return ops::Sum(ops::Square(values) * (values + 3.0), {}, true);
                   }, false});
  cases.push_back({"SparseFillEmptyRows_mean", {{{3}}, {{}}}, [filled](GraphBuilder& b, Inputs x) {
                     return ops::Mean(ops::Exp(filled(b, x)));
                   }, false});
  // The elements above 0: their number is known only when running.
  cases.push_back({"GatherV2_where", {{{2, 3}}}, [](GraphBuilder& b, Inputs x) {
                     const Output flat = ops::Reshape(x[0], {6});
                     const Output where = b.Op("Where", {ops::Binary("Greater", flat, b.Scalar(flat.dtype(), 0))},
                                               {{"T", DataType::kBool}});
                     const Output chosen = ops::Gather(flat, ops::Squeeze(where, {1}));
                     return ops::Sum(ops::Square(chosen) * chosen, {});
                   }, false});
  for (const char* op : {"InplaceAdd", "InplaceSub", "InplaceUpdate"}) {
    cases.push_back({op, {{{4, 2}}, {{2, 2}}}, [op](GraphBuilder& b, Inputs x) -> Output {
                       return b.Op(op, {x[0], b.Ints({3, 1}), x[1]}, {{"T", x[0].dtype()}});
                     }});
  }
  cases.push_back({"MaxPoolWithArgmax_twice", {{{2, 4, 4, 2}}}, [](GraphBuilder& b, Inputs x) {
                     return b.Op("MaxPoolWithArgmax", {x[0]},
                                 {{"T", x[0].dtype()}, {"Targmax", kInt64}, {"ksize", std::vector<int64_t>{1, 2, 2, 1}},
                                  {"strides", std::vector<int64_t>{1, 2, 2, 1}}, {"padding", "VALID"},
                                  {"include_batch_in_index", false}}).output(0);
                   }, true, DataType::kFloat});
}

}  // namespace

void AddSparseCases(Cases& cases) {
  AddWithDenseCases(cases);
  AddAloneCases(cases);
}

}  // namespace millrace::testing
