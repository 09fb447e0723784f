// Attributes of a node: TensorFlow's AttrValue as plain C++ data.
#ifndef MILLRACE_ATTR_H_
#define MILLRACE_ATTR_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/copy_on_write.h"
#include "millrace/tensor.h"
#include "millrace/types.h"

namespace millrace {

class AttrMap;

// A function named by an attribute (PartitionedCall's f, While's body), with attributes of its own.
struct FunctionRef {
  std::string name;
  std::shared_ptr<const AttrMap> attrs;
};

// Inside a function: stands for the attribute of that name of the call, until the call is inlined.
struct AttrParameter {
  std::string name;
};

using AttrVariant =
    std::variant<std::monostate, int64_t, float, bool, std::string, DataType, Shape, Tensor,
                 FunctionRef, std::vector<int64_t>, std::vector<float>, std::vector<bool>,
                 std::vector<std::string>, std::vector<DataType>, std::vector<Shape>,
                 std::vector<Tensor>, std::vector<FunctionRef>, AttrParameter>;

template <typename T, typename Variant>
inline constexpr bool kIsAlternative = false;
template <typename T, typename... Ts>
inline constexpr bool kIsAlternative<T, std::variant<Ts...>> = (std::is_same_v<T, Ts> || ...);

// A value of one of these types, read as a std::variant is; other integers that fit become an int64_t, literals a std::string.
// How it is made, copied and destroyed is compiled in attr.cc alone: it was a fifth of the time that a small file took to compile.
struct AttrValue : AttrVariant {
  AttrValue();
  template <typename T>
    requires kIsAlternative<T, AttrVariant>
  AttrValue(T value);
  template <typename T>
    requires(std::is_integral_v<T> && !kIsAlternative<T, AttrVariant> && requires(T value) { int64_t{value}; })
  AttrValue(T value) : AttrValue(int64_t{value}) {}
  AttrValue(const char* value);
  AttrValue(const AttrValue& other);
  AttrValue(AttrValue&& other) noexcept;
  AttrValue& operator=(const AttrValue& other);
  AttrValue& operator=(AttrValue&& other) noexcept;
  ~AttrValue();
};

// An empty list reads as an empty list of any element type: files do not say which it was.
bool IsEmptyList(const AttrValue& value);
template <typename T>
inline constexpr bool kIsAttrList = false;
template <typename T>
inline constexpr bool kIsAttrList<std::vector<T>> = true;

// Name -> value, sorted by name so that equal maps print equal text. Copies share their entries.
class AttrMap {
 public:
  using Entry = std::pair<std::string, AttrValue>;
  using Entries = std::vector<Entry>;

  AttrMap() = default;
  AttrMap(std::initializer_list<Entry> entries);
  AttrMap(const AttrMap& other);
  AttrMap(AttrMap&& other) noexcept = default;
  AttrMap& operator=(const AttrMap& other);
  AttrMap& operator=(AttrMap&& other) noexcept;
  ~AttrMap();

  // nullptr when absent.
  const AttrValue* Find(std::string_view name) const;
  bool Has(std::string_view name) const { return Find(name) != nullptr; }
  void Set(std::string_view name, AttrValue value);
  void Reserve(size_t entries);
  void Erase(std::string_view name);

  // The value, or an InvalidArgument that names the attribute, what is there and what was expected.
  // T is one of AttrValue's alternatives.
  template <typename T>
  absl::StatusOr<T> Get(std::string_view name) const;
  // The value, or `fallback` when absent or of another type (TensorFlow's defaults of an op).
  template <typename T>
  T GetOr(std::string_view name, T fallback) const {
    const AttrValue* value = Find(name);
    if (value == nullptr) return fallback;
    if (const T* typed = std::get_if<T>(value)) return *typed;
    if constexpr (kIsAttrList<T>) {
      if (IsEmptyList(*value)) return T();
    }
    return fallback;
  }

  bool empty() const { return entries_->empty(); }
  size_t size() const { return entries_->size(); }
  Entries::const_iterator begin() const { return entries_->begin(); }
  Entries::const_iterator end() const { return entries_->end(); }

 private:
  CopyOnWrite<Entries> entries_;
};

// "int 3", "list(int) [1,2]" ...: for messages, dumps and kernel cache keys (a Tensor prints its digest).
std::string AttrToString(const AttrValue& value);

absl::Status AttrTypeError(std::string_view name, const AttrValue* found, size_t expected_index);

template <typename T>
absl::StatusOr<T> AttrMap::Get(std::string_view name) const {
  const AttrValue* value = Find(name);
  if (value != nullptr) {
    if (const T* typed = std::get_if<T>(value)) return *typed;
    if constexpr (kIsAttrList<T>) {
      if (IsEmptyList(*value)) return T();
    }
  }
  return AttrTypeError(name, value, AttrValue(T{}).index());
}

}  // namespace millrace

#endif  // MILLRACE_ATTR_H_
