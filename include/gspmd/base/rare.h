#pragma once

// Values that are mostly absent, in one pointer.

#include <memory>
#include <utility>

namespace gspmd {

// A value that most owners leave at its default: one pointer, null until it is first set. Copies
// copy the value. Reading one that was never set gives T's default; writing through `->` makes it.
template <class T>
class Rare {
 public:
  Rare() = default;
  Rare(T value) : value_(std::make_unique<T>(std::move(value))) {}  // present, with this value
  // Copies the value.
  Rare(const Rare& other) : value_(other.value_ ? std::make_unique<T>(*other.value_) : nullptr) {}
  Rare(Rare&&) noexcept = default;
  // Copies or moves the value.
  Rare& operator=(Rare other) noexcept {
    value_ = std::move(other.value_);
    return *this;
  }

  bool present() const { return value_ != nullptr; }  // whether it was set
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

  // One that is absent equals T's default.
  bool operator==(const Rare& other) const { return get() == other.get(); }

 private:
  std::unique_ptr<T> value_;
};

}  // namespace gspmd
