#pragma once

// Values that are mostly absent, in one pointer.

#include <cstddef>
#include <initializer_list>
#include <type_traits>
#include <utility>

namespace gspmd {

// A value that most owners leave at its default: one pointer, null until it is first set. Copies
// share the value until one of them is written. Reading one that was never set gives T's default;
// writing is by edit(), which makes the value where it is absent or shared. Where T is a list, a
// map or a string it is read by T's own names. What edit() gives is not written to any more once
// the owner has been copied.
template <class T>
class Rare {
 public:
  Rare() = default;
  Rare(T value) : box_(new Box{std::move(value)}) {}  // present, with this value
  // --- Copies share the value, moved ones leave theirs absent
  Rare(const Rare& other) noexcept : box_(other.box_) {
    if (box_) __atomic_fetch_add(&box_->owners, 1, __ATOMIC_RELAXED);
  }
  Rare(Rare&& other) noexcept : box_(std::exchange(other.box_, nullptr)) {}
  Rare& operator=(const Rare& other) noexcept {
    Rare copy(other);
    std::swap(box_, copy.box_);
    return *this;
  }
  Rare& operator=(Rare&& other) noexcept {
    std::swap(box_, other.box_);
    if (this != &other) other.reset();
    return *this;
  }
  ~Rare() { reset(); }
  // What T can be assigned.
  template <class U>
  requires(!std::is_same_v<std::remove_cvref_t<U>, Rare> && std::is_assignable_v<T&, U&&>) Rare&
  operator=(U&& value) {
    if constexpr (std::is_constructible_v<T, U&&>)
      *this = Rare(T(std::forward<U>(value)));
    else
      edit() = std::forward<U>(value);
    return *this;
  }
  // The elements of a list or map; {} makes it absent.
  template <class U = T>
  Rare& operator=(std::initializer_list<typename U::value_type> elements) {
    if (elements.size() == 0)
      reset();
    else
      *this = Rare(T(elements));
    return *this;
  }

  bool present() const { return box_ != nullptr; }  // whether it was set
  // Absent, as it was made.
  void reset() {
    Box* const box = std::exchange(box_, nullptr);
    if (box && __atomic_fetch_sub(&box->owners, 1, __ATOMIC_ACQ_REL) == 1) delete box;
  }
  // The value, or T's default.
  const T& get() const {
    static const T none{};
    return box_ ? box_->value : none;
  }
  // The value of this owner alone, made where it was absent or shared.
  T& edit() {
    if (!box_)
      box_ = new Box{T()};
    else if (__atomic_load_n(&box_->owners, __ATOMIC_ACQUIRE) != 1)
      *this = Rare(T(box_->value));
    return box_->value;
  }
  // --- Reads as get()
  operator const T&() const { return get(); }
  const T& operator*() const { return get(); }
  const T* operator->() const { return &get(); }

  // --- Of lists, maps and strings: absent ones are empty
  bool empty() const { return !box_ || box_->value.empty(); }
  size_t size() const { return box_ ? box_->value.size() : 0; }
  auto begin() const { return get().begin(); }
  auto end() const { return get().end(); }
  template <class Key, class U = T>
  requires(!requires { typename U::mapped_type; }) decltype(auto) operator[](const Key& key) const {
    return get()[key];
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
    return box_ ? box_->value.count(key) : 0;
  }
  template <class Key>
  bool contains(const Key& key) const {
    return box_ && box_->value.contains(key);
  }

  // --- Writing to them, as edit(); [] writes to maps only
  template <class Key, class U = T>
  typename U::mapped_type& operator[](Key&& key) {
    return edit()[std::forward<Key>(key)];
  }
  void clear() { reset(); }
  template <class U = T>
  void push_back(typename U::value_type value) {
    edit().push_back(std::move(value));
  }
  template <class... Args>
  void resize(Args&&... args) {
    edit().resize(std::forward<Args>(args)...);
  }
  template <class... Args>
  auto emplace(Args&&... args) {
    return edit().emplace(std::forward<Args>(args)...);
  }
  // By key, not by place: places are those of the shared value.
  template <class U = T>
  auto erase(const typename U::key_type& key) {
    return edit().erase(key);
  }

  // One that is absent equals T's default.
  bool operator==(const Rare& other) const { return box_ == other.box_ || get() == other.get(); }
  // Of the value, or T's default.
  template <class U>
  requires(!std::is_same_v<U, Rare>) bool operator==(const U& value) const {
    return get() == value;
  }

 private:
  struct Box {
    T value;
    int owners = 1;  // by atomic builtins: <atomic> would be read by every user's file
  };
  Box* box_ = nullptr;
};

}  // namespace gspmd
