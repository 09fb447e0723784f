// Values that copies share until one of them changes: graphs, instances and plans hold the same shapes, attributes, texts and
// index lists many times over.
//
// Copies may be used from several threads, one and the same object by one at a time, as with standard containers.
#ifndef MILLRACE_COPY_ON_WRITE_H_
#define MILLRACE_COPY_ON_WRITE_H_

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace millrace {

// The size of a pointer. Default: T(), which takes no memory.
template <typename T>
class CopyOnWrite {
 public:
  CopyOnWrite() = default;
  explicit CopyOnWrite(T value) : shared_(new Shared{1, std::move(value)}) {}
  CopyOnWrite(const CopyOnWrite& other) : shared_(other.shared_) {
    if (shared_ != nullptr) shared_->owners.fetch_add(1, std::memory_order_relaxed);
  }
  CopyOnWrite(CopyOnWrite&& other) noexcept : shared_(std::exchange(other.shared_, nullptr)) {}
  CopyOnWrite& operator=(CopyOnWrite other) noexcept {
    std::swap(shared_, other.shared_);
    return *this;
  }
  ~CopyOnWrite() {
    if (shared_ != nullptr && shared_->owners.fetch_sub(1, std::memory_order_acq_rel) == 1) delete shared_;
  }

  const T& operator*() const { return shared_ == nullptr ? None() : shared_->value; }
  const T* operator->() const { return &**this; }
  // The value as this object's alone, to change it.
  T& Own() {
    if (shared_ == nullptr) {
      shared_ = new Shared{1, T()};
    } else if (shared_->owners.load(std::memory_order_acquire) > 1) {
      *this = CopyOnWrite(shared_->value);
    }
    return shared_->value;
  }
  bool SharesWith(const CopyOnWrite& other) const { return shared_ == other.shared_; }

 private:
  struct Shared {
    std::atomic<int64_t> owners;
    T value;
  };
  static const T& None() {
    static const T& none = *new T();
    return none;
  }

  Shared* shared_ = nullptr;
};

// A text that is read as a std::string is.
class SharedText {
 public:
  SharedText() = default;
  SharedText(std::string text) : text_(text.empty() ? CopyOnWrite<std::string>() : CopyOnWrite<std::string>(std::move(text))) {}
  SharedText(std::string_view text) : SharedText(std::string(text)) {}
  SharedText(const char* text) : SharedText(std::string(text)) {}

  const std::string& str() const { return *text_; }
  operator const std::string&() const { return *text_; }
  operator std::string_view() const { return *text_; }
  bool empty() const { return text_->empty(); }
  SharedText& operator+=(std::string_view more) {
    text_.Own() += more;
    return *this;
  }

  friend bool operator==(const SharedText& a, const SharedText& b) { return a.text_.SharesWith(b.text_) || *a.text_ == *b.text_; }
  template <typename T>
    requires(!std::is_same_v<T, SharedText>)
  friend bool operator==(const SharedText& a, const T& b) {
    return *a.text_ == std::string_view(b);
  }

 private:
  CopyOnWrite<std::string> text_;
};

// A list that is empty most of the time, or the same in many places.
template <typename T>
class SharedVector {
 public:
  using value_type = T;
  using const_iterator = typename std::vector<T>::const_iterator;

  SharedVector() = default;
  SharedVector(std::initializer_list<T> items) { assign(items.begin(), items.end()); }

  bool empty() const { return items_->empty(); }
  size_t size() const { return items_->size(); }
  const T& operator[](size_t i) const { return (*items_)[i]; }
  const_iterator begin() const { return items_->begin(); }
  const_iterator end() const { return items_->end(); }

  void set(size_t i, T item) { items_.Own()[i] = std::move(item); }
  void push_back(T item) { items_.Own().push_back(std::move(item)); }
  template <typename Iterator>
  void assign(Iterator first, Iterator last) {
    items_ = first == last ? CopyOnWrite<std::vector<T>>() : CopyOnWrite<std::vector<T>>(std::vector<T>(first, last));
  }
  void clear() { items_ = {}; }

  friend bool operator==(const SharedVector& a, const SharedVector& b) {
    return a.items_.SharesWith(b.items_) || *a.items_ == *b.items_;
  }

 private:
  CopyOnWrite<std::vector<T>> items_;
};

}  // namespace millrace

#endif  // MILLRACE_COPY_ON_WRITE_H_
