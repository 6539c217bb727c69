#pragma once

// Values that are mostly absent, in one pointer.

#include <initializer_list>
#include <memory>
#include <type_traits>
#include <utility>

namespace gspmd {

// A value that most owners leave at its default: one pointer, null until it is first set. Copies
// copy the value. Reading one that was never set gives T's default; writing through `->` or
// edit() makes it. Where T is a list, a map or a string it is read by T's own names.
template <class T>
class Rare {
 public:
  Rare() = default;
  Rare(T value) : value_(std::make_unique<T>(std::move(value))) {}  // present, with this value
  // Copies the value.
  Rare(const Rare& other) : value_(other.value_ ? std::make_unique<T>(*other.value_) : nullptr) {}
  Rare(Rare&&) noexcept = default;
  // --- Copies or moves the value
  Rare& operator=(const Rare& other) {
    if (this != &other) value_ = other.value_ ? std::make_unique<T>(*other.value_) : nullptr;
    return *this;
  }
  Rare& operator=(Rare&&) noexcept = default;
  // What T can be assigned.
  template <class U>
  requires(!std::is_same_v<std::remove_cvref_t<U>, Rare> && std::is_assignable_v<T&, U&&>) Rare&
  operator=(U&& value) {
    edit() = std::forward<U>(value);
    return *this;
  }
  // The elements of a list or map; {} makes it absent.
  template <class U = T>
  Rare& operator=(std::initializer_list<typename U::value_type> elements) {
    value_ = elements.size() == 0 ? nullptr : std::make_unique<T>(elements);
    return *this;
  }

  bool present() const { return value_ != nullptr; }  // whether it was set
  void reset() { value_.reset(); }                    // Absent, as it was made.
  // The value, or T's default.
  const T& get() const {
    static const T none{};
    return value_ ? *value_ : none;
  }
  // The value, made where it was absent.
  T& edit() {
    if (!value_) value_ = std::make_unique<T>();
    return *value_;
  }
  // --- Reads as get(), writes as edit()
  operator const T&() const { return get(); }
  const T& operator*() const { return get(); }
  const T* operator->() const { return &get(); }
  T* operator->() { return &edit(); }

  // --- Of lists, maps and strings: absent ones are empty
  bool empty() const { return !value_ || value_->empty(); }
  size_t size() const { return value_ ? value_->size() : 0; }
  auto begin() const { return get().begin(); }
  auto end() const { return get().end(); }
  template <class Key>
  decltype(auto) operator[](const Key& key) const {
    return get()[key];
  }
  template <class Key>
  decltype(auto) operator[](const Key& key) {
    return edit()[key];
  }
  template <class Key>
  decltype(auto) at(const Key& key) const {
    return get().at(key);
  }
  template <class Key>
  auto find(const Key& key) const {
    return get().find(key);
  }
  template <class Text>
  bool starts_with(const Text& text) const {
    return get().starts_with(text);
  }
  template <class Key>
  size_t count(const Key& key) const {
    return value_ ? value_->count(key) : 0;
  }
  template <class Key>
  bool contains(const Key& key) const {
    return value_ && value_->contains(key);
  }

  // --- Writing to them
  void clear() { reset(); }
  template <class... Args>
  void push_back(Args&&... args) {
    edit().push_back(std::forward<Args>(args)...);
  }
  template <class... Args>
  void resize(Args&&... args) {
    edit().resize(std::forward<Args>(args)...);
  }
  template <class... Args>
  auto emplace(Args&&... args) {
    return edit().emplace(std::forward<Args>(args)...);
  }
  template <class... Args>
  auto insert(Args&&... args) {
    return edit().insert(std::forward<Args>(args)...);
  }
  template <class... Args>
  auto erase(Args&&... args) {
    return edit().erase(std::forward<Args>(args)...);
  }

  // One that is absent equals T's default.
  bool operator==(const Rare& other) const {
    return value_ == other.value_ || get() == other.get();
  }
  // Of the value, or T's default.
  template <class U>
  requires(!std::is_same_v<U, Rare>) bool operator==(const U& value) const {
    return get() == value;
  }

 private:
  std::unique_ptr<T> value_;
};

}  // namespace gspmd
