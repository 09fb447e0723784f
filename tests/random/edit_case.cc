#include <algorithm>
#include <cstring>
#include <limits>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "graph/murmur_hash.h"
#include "random/random_graph.h"

namespace millrace {
namespace {

using conformance::Case;

class Editor {
 public:
  Editor(Case& one, std::mt19937_64& random) : one_(one), random_(random) {}

  void Edit() {
    const size_t edits = 1 + Below(3);
    for (size_t i = 0; i < edits; ++i) {
      switch (Below(8)) {
        case 0: EditShape(); break;
        case 1: EditType(); break;
        case 2: EditCount(); break;
        case 3: EditValue(); break;
        default: EditAttribute(); break;
      }
    }
  }

 private:
  size_t Below(size_t n) { return n == 0 ? 0 : random_() % n; }
  int64_t Integer() {
    constexpr int64_t kIntegers[] = {-1, 0, 1, 2, 3, 7, 100, -100, std::numeric_limits<int32_t>::max(),
                                     std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()};
    return kIntegers[Below(std::size(kIntegers))];
  }
  DataType Type() {
    constexpr DataType kTypes[] = {DataType::kFloat, DataType::kDouble, DataType::kInt32, DataType::kInt64, DataType::kBool,
                                   DataType::kHalf, DataType::kBfloat16, DataType::kUint8, DataType::kUint64,
                                   DataType::kComplex64, DataType::kString};
    return kTypes[Below(std::size(kTypes))];
  }
  Tensor* Input() { return one_.inputs.empty() ? nullptr : &one_.inputs[Below(one_.inputs.size())]; }

  // Another shape, the bytes repeated.
  void EditShape() {
    Tensor* input = Input();
    if (input == nullptr) return;
    Shape shape;
    if (Below(2) == 0) {
      for (int d = 0; d < input->shape().rank(); ++d) shape.AddDim(input->shape().dim(d));
      if (shape.rank() > 0) shape.set_dim(static_cast<int>(Below(shape.rank())), static_cast<int64_t>(Below(6)));
    } else {
      for (size_t rank = Below(6); rank > 0; --rank) shape.AddDim(static_cast<int64_t>(Below(5)));
    }
    *input = Filled(*input, input->dtype(), shape);
  }
  void EditType() {
    if (Tensor* input = Input(); input != nullptr) *input = Tensor(Type(), input->shape());
  }
  void EditCount() {
    if (Below(2) == 0 && !one_.inputs.empty()) {
      one_.inputs.pop_back();
      one_.is_variable.pop_back();
    } else if (!one_.inputs.empty()) {
      one_.inputs.push_back(one_.inputs.front());
      one_.is_variable.push_back(false);
    }
  }
  void EditValue() {
    Tensor* input = Input();
    if (input == nullptr || input->num_elements() == 0) return;
    const size_t at = Below(input->num_elements());
    Tensor edited(input->dtype(), input->shape());
    if (edited.size_bytes() > 0) std::memcpy(edited.mutable_data(), input->data(), edited.size_bytes());
    if (edited.dtype() == DataType::kInt32) edited.mutable_as<int32_t>()[at] = static_cast<int32_t>(Integer());
    if (edited.dtype() == DataType::kInt64) edited.mutable_as<int64_t>()[at] = Integer();
    if (edited.dtype() == DataType::kFloat) edited.mutable_as<float>()[at] = std::numeric_limits<float>::quiet_NaN();
    *input = std::move(edited);
  }
  void EditAttribute() {
    if (one_.attrs.empty()) return;
    const auto& [name, value] = *(one_.attrs.begin() + static_cast<std::ptrdiff_t>(Below(one_.attrs.size())));
    const std::string key = name;
    AttrValue edited = value;
    if (auto* integer = std::get_if<int64_t>(&edited)) *integer = Integer();
    if (auto* flag = std::get_if<bool>(&edited)) *flag = !*flag;
    if (auto* real = std::get_if<float>(&edited)) *real = static_cast<float>(Integer());
    if (auto* text = std::get_if<std::string>(&edited)) *text = Below(2) == 0 ? "" : "VALID";
    if (auto* type = std::get_if<DataType>(&edited)) *type = Type();
    if (auto* integers = std::get_if<std::vector<int64_t>>(&edited)) {
      if (integers->empty() || Below(3) == 0) {
        integers->push_back(Integer());
      } else if (Below(2) == 0) {
        integers->pop_back();
      } else {
        (*integers)[Below(integers->size())] = Integer();
      }
    }
    if (Below(6) == 0) {
      one_.attrs.Erase(key);
    } else {
      one_.attrs.Set(key, std::move(edited));
    }
  }

  Case& one_;
  std::mt19937_64& random_;
};

}  // namespace

Tensor Filled(const Tensor& given, DataType type, const Shape& shape) {
  Tensor filled(type, shape);
  if (given.size_bytes() == 0) return filled;
  char* const to = static_cast<char*>(filled.mutable_data());
  for (int64_t i = 0; i < filled.size_bytes(); ++i) to[i] = static_cast<const char*>(given.data())[i % given.size_bytes()];
  return filled;
}

CasePicker::CasePicker(const std::vector<Case>& cases) : cases_(cases) {
  for (const Case& one : cases) hashes_.push_back(MurmurHash(0, absl::StrCat(one.family, ".", one.name)));
}

const Case& CasePicker::Pick(std::mt19937_64& random) const {
  const uint64_t draw = random();
  size_t best = 0;
  uint64_t highest = 0;
  for (size_t i = 0; i < cases_.size(); ++i) {
    const uint64_t both[] = {hashes_[i], draw};
    const uint64_t hash = MurmurHash(0, std::string_view(reinterpret_cast<const char*>(both), sizeof(both)));
    if (hash < highest) continue;
    highest = hash;
    best = i;
  }
  return cases_[best];
}

conformance::Case EditCase(conformance::Case one, std::mt19937_64& random) {
  Editor(one, random).Edit();
  return one;
}

}  // namespace millrace
