#pragma once

#include <memory>
#include <utility>

namespace gspmd {

// A value that most owners leave at its default: one pointer, null until it is first set. Copies copy the
// value. Reading one that was never set gives T's default; writing through `->` makes it.
template <class T>
class Rare {
 public:
  Rare() = default;
  Rare(T value) : value_(std::make_unique<T>(std::move(value))) {}
  Rare(const Rare& other) : value_(other.value_ ? std::make_unique<T>(*other.value_) : nullptr) {}
  Rare(Rare&&) noexcept = default;
  Rare& operator=(Rare other) noexcept {
    value_ = std::move(other.value_);
    return *this;
  }

  bool present() const { return value_ != nullptr; }
  const T& get() const {
    static const T none{};
    return value_ ? *value_ : none;
  }
  T& edit() {
    if (!value_) value_ = std::make_unique<T>();
    return *value_;
  }
  operator const T&() const { return get(); }
  const T& operator*() const { return get(); }
  const T* operator->() const { return &get(); }
  T* operator->() { return &edit(); }

  bool operator==(const Rare& other) const { return get() == other.get(); }

 private:
  std::unique_ptr<T> value_;
};

}  // namespace gspmd
